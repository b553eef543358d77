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
/** "an object", "a list", "a string", ... for messages. */
const char *psi_json_type_name(const json_t *value);

#endif
