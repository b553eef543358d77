/* SPDX-License-Identifier: Apache-2.0 */
/* For the command-line programs: an answer as JSON on standard output, value by value. A json_t is a value of the library
 * jansson. The caller finds write errors when it closes the stream. A value for which there is no memory is left out. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/** Send later answers to the stream `to`; NULL: to standard output, as at the start. Call it between two answers only. */
void cli_json_to(FILE *to);
/** Begin an object or a list, until cli_json_end(). key: its name in the enclosing object; NULL at the top and inside lists. */
void cli_json_object(const char *key);
void cli_json_list(const char *key);
/** End the innermost object or list; a newline follows the outermost. */
void cli_json_end(void);
/** Write a member, or an element of a list (key NULL), and drop the caller's reference to value. A NULL value writes nothing. */
void cli_json_put(const char *key, json_t *value);
void cli_json_number(const char *text);
/** Write value as a whole answer, with a newline, and drop the caller's reference to it. A NULL value becomes null. */
void cli_json_print(json_t *value);

/** Make a JSON string of a text. Bytes that are not UTF-8 become U+FFFD. */
json_t *cli_json_text(const char *text);
/** Make a JSON string of n bytes; if they are not UTF-8, {"b64": "..."} instead, as in TensorFlow Serving's REST interface. */
json_t *cli_json_bytes(const char *bytes, size_t n);
/** Make a JSON number; a whole number has no decimal point, and NaN and infinities become null. */
json_t *cli_json_f64(double value);
json_t *cli_json_hex(uint64_t value);

#endif
