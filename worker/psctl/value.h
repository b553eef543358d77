/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: elements of all dtypes to text and back. Pure: no session; nothing is printed. */
#ifndef PSCTL_VALUE_H
#define PSCTL_VALUE_H

#include "common/shape.h"

#include <jansson.h>
#include <ps.h>

enum { VALUE_TEXT_MAX = 48, VALUE_ERROR_MAX = 512 };

/** Write the shortest text that reads back as this element, e.g. "nan", "inf", "true", into buf [n]; returns buf. Not for
 * PS_STRING. */
const char *value_text(ps_dtype dtype, const void *element, char *buf, size_t n);
/** True if the element is a number that JSON can express (not nan, not inf). */
bool value_is_finite(ps_dtype dtype, const void *element);

/**
 * Parse text as all elements of a variable: one value if the shape has one element or `fill` is true, else a list, flat or nested
 * like the shape. dst [elements * ps_dtype_bytes()]. A number that the dtype cannot hold is refused; a decimal fraction is
 * rounded to the nearest value. False: error [VALUE_ERROR_MAX] names the element. Not for PS_STRING.
 */
bool value_parse(const char *text, ps_dtype dtype, const ps_shape *shape, bool fill, void *dst, char *error);

/** Elements of a string variable; a text may contain NUL bytes. */
struct value_strings {
    const char **texts; /* [count], pointers into memory */
    size_t *lengths;
    size_t count;
    char *memory;
};
/** value_parse() for PS_STRING: one text, taken literally, or a list of JSON strings. The caller frees *out, also after false. */
bool value_parse_strings(const char *text, const ps_shape *shape, bool fill, struct value_strings *out, char *error);
void value_strings_free(struct value_strings *s);

/** A shape as JSON: [64, 10]. */
json_t *value_shape_json(const ps_shape *shape);

#endif
