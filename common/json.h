/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON texts of users with jansson, up to a limit of size. Errors name line and column. Any thread. */
#ifndef PSI_JSON_H
#define PSI_JSON_H

#include "status.h"

#include <jansson.h>

#define PSI_JSON_BYTES_MAX (1 << 20)

/** Parse len bytes, a whole JSON text. what names the text in errors ("TF_CONFIG"). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT with line and column (not JSON, a key twice, over PSI_JSON_BYTES_MAX), PS_RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_json_parse(const char *what, const char *text, size_t len, json_t **out, struct psi_err *err);
/** Check that there are no more than `most` commas, colons and opening brackets outside of strings; nothing else is checked. For
 * each of them jansson takes up to 140 bytes, so call this before a long text is parsed. Errors: PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_json_bound(const char *what, const char *text, size_t len, size_t most, struct psi_err *err);
/** Called for a member of an object. key: NUL-terminated, valid during the call; a key that contains a NUL is given escaped, as
 * in the text. value: `bytes` of the text, without blanks around; not parsed yet, so it may be no JSON. */
typedef ps_status (*psi_json_member_fn)(void *ctx, const char *key, const char *value, size_t bytes, struct psi_err *err);
/** Call `member` for each member of the object in the text, in order, until one fails. Needs memory for the longest key only. A
 * key that comes twice is given twice. Errors: INVALID_ARGUMENT with line and column, RESOURCE_EXHAUSTED, those of member. */
PSI_MUST ps_status psi_json_each(const char *what, const char *text, size_t len, psi_json_member_fn member, void *ctx,
                                 struct psi_err *err);
/** Parse a value that psi_json_each() has given to its callback, after psi_json_bound(). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT (not JSON, a key twice, psi_json_bound() failed), PS_RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_json_value(const char *what, const char *value, size_t bytes, size_t most, json_t **out,
                                  struct psi_err *err);
/** The kind of a JSON value, for messages: "an object", "a list", "a string", ... */
const char *psi_json_type_name(const json_t *value);

#endif
