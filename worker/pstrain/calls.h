/* SPDX-License-Identifier: Apache-2.0 */
/* The call table of a task that this program serves. */
#ifndef PSTRAIN_CALLS_H
#define PSTRAIN_CALLS_H

#include <psd.h>

/** psd.echo: its result is its input, at most PS_CALL_BYTES_MAX bytes. Lives as long as the program. */
psd_call_table calls_table(void);

#endif
