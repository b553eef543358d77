/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: turn elements of all dtypes into text, and text into elements. No session; nothing is printed. */
#ifndef PSCTL_VALUE_H
#define PSCTL_VALUE_H

#include "common/shape.h"

#include <jansson.h>
#include <ps.h>

enum { VALUE_TEXT_MAX = 48, VALUE_ERROR_MAX = 512 };

/** Write an element as the shortest text that reads back as it ("0.1", "nan", "true") into buf [n]; returns buf. No strings. */
const char *value_text(ps_dtype dtype, const void *element, char *buf, size_t n);
/** True if the element is a number that JSON can express (not nan, not inf). */
bool value_is_finite(ps_dtype dtype, const void *element);

/** Parse text as the value of a variable: a list, flat or nested as the shape; or one element without brackets, if the shape has
 * one element, or with `fill`, which gives it to all. Refuses numbers that the dtype cannot hold; rounds decimal fractions. dst
 * [elements * ps_dtype_bytes()]. False: error [VALUE_ERROR_MAX] names the element. Not for PS_STRING. */
bool value_parse(const char *text, ps_dtype dtype, const ps_shape *shape, bool fill, void *dst, char *error);

/** Elements of a string variable; a text may contain NUL bytes. */
struct value_strings {
    const char **texts; /* [count], pointers into memory */
    size_t *lengths;
    size_t count;
    char *memory;
};
/** value_parse() for PS_STRING: text is one string, or a list of JSON strings. Always free *out with value_strings_free(). */
bool value_parse_strings(const char *text, const ps_shape *shape, bool fill, struct value_strings *out, char *error);
void value_strings_free(struct value_strings *s);

/** The shape as a JSON list of numbers; NULL: no memory. */
json_t *value_shape_json(const ps_shape *shape);

#endif
