/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: print values on standard output, one after the other. main() checks for errors of writing. */
#include "show.h"

#include "common/cli/json.h"
#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

/* Print a text in double quotes, with JSON's escapes; bytes that are not UTF-8 become \xNN. */
static void print_quoted(const char *text, size_t n)
{
    (void)putchar('"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t one = psi_utf8_bytes(text + i, n - i);
        if (c == '"' || c == '\\') {
            (void)printf("\\%c", c);
        } else if (c == '\n' || c == '\t' || c == '\r') {
            (void)printf("\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else if (one == 0) {
            (void)printf("\\x%02x", c);
        } else if (psi_utf8_is_control(text + i, one)) {
            (void)printf("\\u%04x", one == 2 ? (unsigned char)text[i + 1] : c);
        } else {
            (void)fwrite(text + i, 1, one, stdout);
        }
        i += one == 0 ? 1 : one;
    }
    (void)putchar('"');
}

static void put_one(bool json, ps_dtype dtype, const struct values *values, size_t i)
{
    if (values->offsets != NULL) {
        const char *text = values->data + values->offsets[i];
        size_t n = values->offsets[i + 1] - values->offsets[i];
        if (json) {
            cli_json_put(NULL, cli_json_bytes(text, n));
        } else {
            print_quoted(text, n);
        }
        return;
    }
    char text[VALUE_TEXT_MAX];
    const char *one = values->data + i * ps_dtype_bytes(dtype);
    if (json) { /* one by one: a JSON tree of all values would need many times their memory */
        cli_json_number(value_is_finite(dtype, one) ? value_text(dtype, one, text, sizeof(text)) : "null");
    } else {
        (void)fputs(value_text(dtype, one, text, sizeof(text)), stdout);
    }
}

size_t values_show(const char *key, bool json, ps_dtype dtype, const ps_shape *shape, const struct values *values)
{
    size_t count = (size_t)ps_shape_elements(shape);
    size_t columns = shape->rank == 0 ? 1 : (size_t)shape->dims[shape->rank - 1];
    size_t shown = count < VALUES_SHOWN || json ? count : VALUES_SHOWN;
    if (json) {
        cli_json_list(key);
    }
    for (size_t i = 0; i < shown; i++) {
        put_one(json, dtype, values, i);
        if (!json) {
            (void)putchar((i + 1) % columns == 0 || i + 1 == shown ? '\n' : ' ');
        }
    }
    if (json) {
        cli_json_end();
    }
    return count - shown;
}
