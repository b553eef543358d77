/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that users give, read with jansson under our limits and errors. Any thread. */
#ifndef PSI_JSON_H
#define PSI_JSON_H

#include "status.h"

#include <jansson.h>

#define PSI_JSON_BYTES_MAX (1 << 20)

/**
 * Parse len bytes, a whole JSON text; what names it in errors ("TF_CONFIG"). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT with line and column (not JSON, a key twice, over PSI_JSON_BYTES_MAX).
 */
PSI_MUST ps_status psi_json_parse(const char *what, const char *text, size_t len, json_t **out, struct psi_err *err);
/**
 * No more than `most` commas, colons and opening brackets outside of strings: jansson takes up to 140 bytes for each, a hundred
 * times its text. To be asked before texts that are allowed to be long are parsed; looks at nothing else. Errors
 * PS_INVALID_ARGUMENT.
 */
PSI_MUST ps_status psi_json_bound(const char *what, const char *text, size_t len, size_t most, struct psi_err *err);
/**
 * A member of an object. key: NUL-terminated, valid during the call; a key with a NUL in it is given as the text has it, escaped.
 * value: `bytes` of the text, without blanks around it. Nobody has looked into it: it may be no JSON.
 */
typedef ps_status (*psi_json_member_fn)(void *ctx, const char *key, const char *value, size_t bytes, struct psi_err *err);
/**
 * Call `member` for each member of the object that the text is, in the order of the text, until one returns an error. The memory
 * that this takes is that of the longest key, however long the text is; keys that come twice are given twice.
 * Errors  PS_INVALID_ARGUMENT with line and column (no object, no UTF-8 in a key, an end that is missing),
 * PS_RESOURCE_EXHAUSTED, those of member.
 */
PSI_MUST ps_status psi_json_each(const char *what, const char *text, size_t len, psi_json_member_fn member, void *ctx,
                                 struct psi_err *err);
/**
 * Parse a value of psi_json_each(): not more than `most` marks, psi_json_bound(). The caller owns *out (json_decref).
 * Errors  PS_INVALID_ARGUMENT (not JSON, a key twice, too many marks), PS_RESOURCE_EXHAUSTED.
 */
PSI_MUST ps_status psi_json_value(const char *what, const char *value, size_t bytes, size_t most, json_t **out,
                                  struct psi_err *err);
/** "an object", "a list", "a string", ... for messages. */
const char *psi_json_type_name(const json_t *value);

#endif
