/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: an answer as JSON on standard output. Values are jansson's; the outermost object and its lists are written as they
 * come, so that a list is never in memory. Output errors are seen by whoever closes the stream; no memory: a value is null.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>
#include <stdint.h>

/** Open an object or a list; key NULL at the top and inside lists. */
void cli_json_object(const char *key);
void cli_json_list(const char *key);
/** Close the innermost; a newline after the outermost. */
void cli_json_end(void);
/** One member, or element (key NULL). Takes value; NULL is left out. */
void cli_json_put(const char *key, json_t *value);
/** The text of a number as it is. */
void cli_json_number(const char *text);
/** A whole answer, with a newline. Takes value. */
void cli_json_print(json_t *value);

/** Text of anybody: what is no UTF-8 becomes U+FFFD. */
json_t *cli_json_text(const char *text);
/** Bytes of anybody; {"b64": "..."} when they are no UTF-8, as in TensorFlow Serving's REST interface. */
json_t *cli_json_bytes(const char *bytes, size_t n);
/** Whole numbers without a point; null for NaN and infinities. */
json_t *cli_json_f64(double value);
/** "%016x" */
json_t *cli_json_hex(uint64_t value);

#endif
