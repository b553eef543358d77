/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClusterSpec from a file: "@PATH". The one function of common/ that reads a file; no core calls it. Failure: no such file, not
 * readable, too large, a zero byte; the text names the file.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { STEP_BYTES = 4096 };

static ps_status read_all(FILE *f, struct psi_buf *text, struct psi_err *err)
{
    size_t n = 0;
    do {
        ps_status st = psi_buf_reserve(text, STEP_BYTES, err);
        if (st != PS_OK) {
            return st;
        }
        errno = 0;
        n = fread(text->data + text->len, 1, STEP_BYTES, f);
        text->len += n;
    } while (n > 0 && text->len <= PSI_CLUSTER_FILE_MAX);
    if (ferror(f) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "cannot be read: %s", strerror(errno));
    }
    if (text->len > PSI_CLUSTER_FILE_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "has more than %d bytes", PSI_CLUSTER_FILE_MAX);
    }
    const uint8_t *zero = text->len > 0 ? memchr(text->data, 0, text->len) : NULL;
    return zero == NULL ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "byte %zu is zero: not a text", (size_t)(zero - text->data));
}

ps_status psi_cluster_load(struct psi_cluster *c, const char *text, struct psi_err *err)
{
    struct psi_buf content;
    if (text[0] != '@') {
        return psi_cluster_parse(c, text, err);
    }
    const char *name = text + 1;
    FILE *f = fopen(name, "re");
    if (f == NULL) {
        return psi_fail(err, errno == ENOENT ? PS_NOT_FOUND : PS_INVALID_ARGUMENT, "cluster file %.300s: %s", name,
                        strerror(errno));
    }
    psi_buf_init(&content, PSI_CLUSTER_FILE_MAX + 2 * STEP_BYTES);
    ps_status st = read_all(f, &content, err);
    (void)fclose(f);
    if (st == PS_OK) {
        const char *read = psi_buf_text(&content);
        st = read != NULL ? psi_cluster_parse(c, read, err) : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "cluster file %.300s", name);
    }
    psi_buf_fini(&content);
    return st;
}
