/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pow(), log() and cos() of the C library's libm, which is loaded at the first call: a psd that computes none of them stays 300
 * KiB smaller. Any thread; the first call may block for the file. Every glibc has libm.so.6 beside it; a machine without it ends
 * the program.
 */
#ifndef PSI_POWER_H
#define PSI_POWER_H

double psi_pow(double x, double y);
float psi_powf(float x, float y);
double psi_log(double x);
double psi_cos(double x);

#endif
