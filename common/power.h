/* SPDX-License-Identifier: Apache-2.0 */
/* pow(), log() and cos() of libm, loaded at the first call: a psd that never calls them needs 300 KiB less. Any thread; the first
 * call may block. If libm.so.6 is missing, which every glibc has, the program ends. */
#ifndef PSI_POWER_H
#define PSI_POWER_H

double psi_pow(double x, double y);
float psi_powf(float x, float y);
double psi_log(double x);
double psi_cos(double x);

#endif
