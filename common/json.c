/* SPDX-License-Identifier: Apache-2.0 */
/* JSON through jansson: size limit first, duplicates refused, errors as ours. jansson bounds the depth (2048) itself. */
#include "json.h"

#include "name.h"

#include <string.h>

ps_status psi_json_parse(const char *what, const char *text, size_t len, json_t **out, struct psi_err *err)
{
    if (len > PSI_JSON_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %zu bytes, at most %d are read", what, len, PSI_JSON_BYTES_MAX);
    }
    json_error_t error = {0};
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: out of memory", what);
        }
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: line %d, column %d: %s", what, error.line, error.column, error.text);
    }
    *out = value;
    return PS_OK;
}

ps_status psi_json_bound(const char *what, const char *text, size_t len, size_t most, struct psi_err *err)
{
    size_t count = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted && c == '\\') {
            i++; /* whatever it is does not end the string */
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == ',' || c == ':' || c == '[' || c == '{') && ++count > most) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s: more than %zu commas, colons and brackets", what, most);
        }
    }
    return PS_OK;
}

const char *psi_json_type_name(const json_t *value)
{
    if (value == NULL) {
        return "absent";
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}
