/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: values on standard output, as get and queue print them. */
#ifndef PSCTL_SHOW_H
#define PSCTL_SHOW_H

#include "value.h"

enum { VALUES_SHOWN = 1000 };

/* Elements of a tensor. String i is data[offsets[i] .. offsets[i + 1]). */
struct values {
    const char *data;
    const size_t *offsets; /* NULL: numbers */
};
/** Print values as text, a line for each row of the last dimension, VALUES_SHOWN elements at most; returns how many were left
 * out. json: print all of them, as a flat list with this key. */
size_t values_show(const char *key, bool json, ps_dtype dtype, const ps_shape *shape, const struct values *values);

#endif
