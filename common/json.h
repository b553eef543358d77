/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that users give, read with jansson under our limits and errors. Any thread. */
#ifndef PSI_JSON_H
#define PSI_JSON_H

#include "status.h"

#include <jansson.h>

#define PSI_JSON_BYTES_MAX (1 << 20)

/**
 * Parse len bytes, a whole JSON text. what names the text in errors ("TF_CONFIG"). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT with line and column (not JSON, a key twice, over PSI_JSON_BYTES_MAX).
 */
PSI_MUST ps_status psi_json_parse(const char *what, const char *text, size_t len, json_t **out, struct psi_err *err);
/** Check that there are no more than `most` commas, colons and opening brackets outside of strings, and nothing else. jansson
 * takes up to 140 bytes for each. Call it before a text that may be long is parsed. Errors: PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_json_bound(const char *what, const char *text, size_t len, size_t most, struct psi_err *err);
/** A member of an object. key: NUL-terminated, valid during the call; a key that contains a NUL is given escaped, as in the
 * text. value: `bytes` of the text, without blanks around it. It was not parsed, and may be no JSON. */
typedef ps_status (*psi_json_member_fn)(void *ctx, const char *key, const char *value, size_t bytes, struct psi_err *err);
/**
 * Call `member` for each member of the object that the text is, in order, until one returns an error. It needs memory for the
 * longest key only, however long the text is. A key that comes twice is given twice.
 * Errors PS_INVALID_ARGUMENT with line and column (no object, a bad key, a missing end), PS_RESOURCE_EXHAUSTED, those of member.
 */
PSI_MUST ps_status psi_json_each(const char *what, const char *text, size_t len, psi_json_member_fn member, void *ctx,
                                 struct psi_err *err);
/**
 * Parse a value of psi_json_each(), of at most `most` marks (psi_json_bound()). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT (not JSON, a key twice, too many marks), PS_RESOURCE_EXHAUSTED.
 */
PSI_MUST ps_status psi_json_value(const char *what, const char *value, size_t bytes, size_t most, json_t **out,
                                  struct psi_err *err);
/** "an object", "a list", "a string", ... for messages. */
const char *psi_json_type_name(const json_t *value);

#endif
