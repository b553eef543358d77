/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: an answer as JSON on standard output. Values are jansson's. The outermost object and its lists are written as they
 * come, so that no list is in memory as a whole. Output errors show when the stream is closed; without memory a value becomes
 * null. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/** Write to `to` from now on; NULL: to standard output, as at the beginning. Between two answers. */
void cli_json_to(FILE *to);
/** Open an object or a list; key NULL at the top and inside lists. */
void cli_json_object(const char *key);
void cli_json_list(const char *key);
/** End the innermost object or list; a newline follows the outermost. */
void cli_json_end(void);
/** Write a member, or an element (key NULL). Takes value; a NULL value is left out. */
void cli_json_put(const char *key, json_t *value);
/** A number, in the text's own form. */
void cli_json_number(const char *text);
/** Write a whole answer, with a newline. Takes value. */
void cli_json_print(json_t *value);

/** Any text; bytes that are no UTF-8 become U+FFFD. */
json_t *cli_json_text(const char *text);
/** Any bytes; {"b64": "..."} if they are no UTF-8, as in TensorFlow Serving's REST interface. */
json_t *cli_json_bytes(const char *bytes, size_t n);
/** A whole number has no point; NaN and infinities become null. */
json_t *cli_json_f64(double value);
/** As "%016x". */
json_t *cli_json_hex(uint64_t value);

#endif
