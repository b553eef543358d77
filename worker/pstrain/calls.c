/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients may have run on a task of this program (ps_call).
 * Happy path: psd.echo gives back what it gets: is the task there, does it run calls, how long does one take. It cannot fail:
 * input and output have the same bound.
 */
#include "calls.h"

#include <string.h>

static ps_status echo(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                      size_t *out_bytes, char *error, size_t error_bytes)
{
    (void)ctx;
    (void)call;
    (void)error;
    (void)error_bytes;
    size_t n = in_bytes < out_capacity ? in_bytes : out_capacity;
    if (n > 0) {
        memcpy(out, in, n);
    }
    *out_bytes = n;
    return PS_OK;
}

psd_call_table calls_table(void)
{
    static const psd_call_row rows[] = {{.name = "psd.echo", .run = echo}};
    return (psd_call_table){.rows = rows, .row_bytes = sizeof(rows[0]), .count = sizeof(rows) / sizeof(rows[0])};
}
