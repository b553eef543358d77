/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a ClusterSpec from a file, "@PATH". A file with a zero byte or a bad spec is refused. */
#include "cluster.h"

#include "text_file.h"
#include "utf8.h"

#include <string.h>

static const char what[] = "cluster file";

static ps_status parse(struct psi_cluster *c, struct psi_buf *content, struct psi_err *err)
{
    const uint8_t *zero = content->len > 0 ? memchr(content->data, 0, content->len) : NULL;
    if (zero != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "byte %zu is zero: not a text", (size_t)(zero - content->data));
    }
    const char *text = psi_buf_text(content);
    return text != NULL ? psi_cluster_parse(c, text, err) : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
}

ps_status psi_cluster_load(struct psi_cluster *c, const char *text, struct psi_err *err)
{
    struct psi_buf content;
    if (text[0] != '@') {
        /* skip a byte order mark, which "$(cat FILE)" may have */
        return psi_cluster_parse(c, text + psi_utf8_mark(text, strlen(text)), err);
    }
    ps_status st = psi_text_file_read(what, text + 1, PSI_CLUSTER_FILE_MAX, &content, err);
    if (st == PS_OK) {
        st = parse(c, &content, err);
        char shown[PSI_PATH_SHOWN];
        psi_err_prefix(st == PS_OK ? NULL : err, "%s %s", what, psi_utf8_shorten(text + 1, shown, sizeof(shown)));
    }
    psi_buf_fini(&content);
    return st;
}
