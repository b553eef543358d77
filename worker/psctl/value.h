/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: values of all dtypes as text, both ways. Pure: no session, no output. */
#ifndef PSCTL_VALUE_H
#define PSCTL_VALUE_H

#include "common/shape.h"

#include <jansson.h>
#include <ps.h>

enum { VALUE_TEXT_MAX = 48, VALUE_ERROR_MAX = 512 };

/** Shortest text that reads back as the same element; "nan", "inf", "true". Not for PS_STRING. Returns buf. */
const char *value_text(ps_dtype dtype, const void *element, char *buf, size_t n);
/** True when it is a number that JSON can say. */
bool value_is_finite(ps_dtype dtype, const void *element);

/**
 * Read text as all elements of a variable: one value where the shape has one element or `fill`, else a list, nested as the shape
 * or flat. dst [elements * ps_dtype_bytes()]. Nothing is narrowed: what the dtype cannot hold is refused; decimal fractions are
 * rounded to the nearest value, as everywhere. false: error [VALUE_ERROR_MAX] names the element. Not for PS_STRING.
 */
bool value_parse(const char *text, ps_dtype dtype, const ps_shape *shape, bool fill, void *dst, char *error);

/** Elements of a string variable: texts may hold NULs. */
struct value_strings {
    const char **texts; /* count, into memory */
    size_t *lengths;
    size_t count;
    char *memory;
};
/** The same for PS_STRING: one text, taken as it is, or a list of JSON strings. PSCTL's caller frees, also after false. */
bool value_parse_strings(const char *text, const ps_shape *shape, bool fill, struct value_strings *out, char *error);
void value_strings_free(struct value_strings *s);

/** [64, 10] */
json_t *value_shape_json(const ps_shape *shape);

#endif
