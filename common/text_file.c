/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file to its end, in steps: the size that the system gives is wrong for pipes and files of /proc. */
#include "text_file.h"

#include "utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { STEP_BYTES = 4096 };

static ps_status read_all(FILE *f, size_t max_bytes, struct psi_buf *out, struct psi_err *err)
{
    size_t n = 0;
    do {
        ps_status st = psi_buf_reserve(out, STEP_BYTES, err);
        if (st != PS_OK) {
            return st;
        }
        errno = 0;
        n = fread(out->data + out->len, 1, STEP_BYTES, f);
        out->len += n;
    } while (n > 0 && out->len <= max_bytes);
    if (ferror(f) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "cannot be read: %s", strerror(errno));
    }
    return out->len <= max_bytes ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "has more than %zu bytes", max_bytes);
}

static ps_status skip_mark(struct psi_buf *out, struct psi_err *err)
{
    char *text = (char *)out->data;
    if (psi_utf8_is_utf16(text, out->len)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "is UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
    }
    const size_t mark = psi_utf8_mark(text, out->len);
    if (mark > 0) {
        out->len -= mark;
        memmove(text, text + mark, out->len);
    }
    return PS_OK;
}

ps_status psi_text_file_read(const char *what, const char *path, size_t max_bytes, struct psi_buf *out, struct psi_err *err)
{
    char shown[PSI_PATH_SHOWN];
    psi_buf_init(out, max_bytes + 2 * STEP_BYTES); /* room for one read beyond max_bytes, and for a NUL */
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        int why = errno;
        return psi_fail(err, why == ENOENT ? PS_NOT_FOUND : PS_INVALID_ARGUMENT, "%s %s: %s", what,
                        psi_utf8_shorten(path, shown, sizeof(shown)), strerror(why));
    }
    ps_status st = read_all(f, max_bytes, out, err);
    (void)fclose(f);
    st = st == PS_OK ? skip_mark(out, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "%s %s", what, psi_utf8_shorten(path, shown, sizeof(shown)));
    }
    return st;
}
