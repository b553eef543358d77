/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a dtype, float32 or float64, in memory of any alignment. */
#ifndef PARITY_VALUES_H
#define PARITY_VALUES_H

#include "common/ps_types.h"

#include <string.h>

static inline double value_at(ps_dtype dtype, const void *values, size_t i)
{
    float narrow = 0;
    double wide = 0;
    if (dtype == PS_F32) {
        memcpy(&narrow, (const char *)values + i * sizeof(narrow), sizeof(narrow));
        return (double)narrow;
    }
    memcpy(&wide, (const char *)values + i * sizeof(wide), sizeof(wide));
    return wide;
}

#endif
