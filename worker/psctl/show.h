/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: values on standard output, as get and queue print them. */
#ifndef PSCTL_SHOW_H
#define PSCTL_SHOW_H

#include "value.h"

enum { VALUES_SHOWN = 1000 }; /* most elements printed as text; --json prints all */

/* Elements of a tensor, in row-major order. String i is data[offsets[i]] to data[offsets[i + 1] - 1]. */
struct values {
    const char *data;
    const size_t *offsets; /* NULL: numbers */
};
/** Print values as text, a line for each row of the last dimension, at most VALUES_SHOWN elements; returns how many elements were
 * left out. json: print all elements instead, as one flat list named `key`. */
size_t values_show(const char *key, bool json, ps_dtype dtype, const ps_shape *shape, const struct values *values);

#endif
