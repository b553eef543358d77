/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint as a file: magic and version, a SaveItem and its FileItems (each with its length before it), the
 * CRC32C of all these bytes. It names every file of every task. The checkpoint exists once the directory has its manifest. */
#include "manifest.h"

#include "crc32c.h"
#include "limits.h"

#include "proto/frame.h"

#include <string.h>

static const uint8_t HEAD[8] = {'p', 's', 'd', 'm', 'a', 'n', 'i', 1 /* format */};
enum { SUM_BYTES = 4, FORMAT_AT = sizeof(HEAD) - 1, FORMAT_WITH_NOTES = 2 /* older psds refuse a manifest with notes */ };

void psi_manifest_init(struct psi_buf *b)
{
    psi_buf_init(b, PSI_MANIFEST_BYTES_MAX);
}

ps_status psi_manifest_add(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err)
{
    ps_status st = b->len > 0 ? PS_OK : psi_buf_append(b, HEAD, sizeof(HEAD), err);
    if (st == PS_OK && d == &ps_v1_FileItem_msg && ((const ps_v1_FileItem *)m)->kind == PS_FILE_NOTE) {
        b->data[FORMAT_AT] = FORMAT_WITH_NOTES;
    }
    return st == PS_OK ? psi_list_append(b, d, m, err) : st;
}

ps_status psi_manifest_end(struct psi_buf *b, struct psi_err *err)
{
    uint32_t sum = psi_crc32c(0, b->data, b->len);
    return psi_buf_append(b, &sum, sizeof(sum), err);
}

const uint8_t *psi_manifest_items(const uint8_t *p, size_t n, size_t *out_bytes)
{
    *out_bytes = n - sizeof(HEAD) - SUM_BYTES;
    return p + sizeof(HEAD);
}

static ps_status check_files(const uint8_t *at, size_t n, uint32_t count, struct psi_err *err)
{
    ps_v1_FileItem file;
    bool end = false;
    uint32_t found = 0;
    while (!end) {
        ps_status st = psi_list_next(&at, &n, &ps_v1_FileItem_msg, &file, &end, err);
        if (st != PS_OK) {
            return st;
        }
        found += !end;
    }
    return found == count ? PS_OK : psi_fail(err, PS_DATA_LOSS, "it has %u files of %u", found, count);
}

ps_status psi_manifest_check(const char *cluster, const uint8_t *p, size_t n, ps_v1_SaveItem *out, struct psi_err *err)
{
    uint32_t sum = 0;
    size_t bytes = 0;
    bool end = false;
    if (n < sizeof(HEAD) + SUM_BYTES || memcmp(p, HEAD, FORMAT_AT) != 0) {
        return psi_fail(err, PS_DATA_LOSS, "it is no manifest");
    }
    memcpy(&sum, p + n - SUM_BYTES, sizeof(sum));
    if (sum != psi_crc32c(0, p, n - SUM_BYTES)) {
        return psi_fail(err, PS_DATA_LOSS, "its CRC is another one");
    }
    if (p[FORMAT_AT] < HEAD[FORMAT_AT] || p[FORMAT_AT] > FORMAT_WITH_NOTES) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "it is of format %u; this psd knows %u", p[FORMAT_AT], FORMAT_WITH_NOTES);
    }
    const uint8_t *at = psi_manifest_items(p, n, &bytes);
    ps_status st = psi_list_next(&at, &bytes, &ps_v1_SaveItem_msg, out, &end, err);
    if (st == PS_OK && !end) {
        st = check_files(at, bytes, out->file_count, err);
    }
    if (st != PS_OK || end) {
        return psi_fail(err, PS_DATA_LOSS, "its items cannot be read");
    }
    char name[PS_JOB_BYTES_MAX + 1];
    if (PSI_BYTES_TEXT(out->cluster_name, name, sizeof(name)) != PS_OK || (cluster != NULL && strcmp(name, cluster) != 0)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "it is of another cluster, '%s'", name);
    }
    return PS_OK;
}

struct psi_items psi_manifest_files(const struct psi_buf *manifest)
{
    struct psi_items files = {.st = PS_OK};
    ps_v1_SaveItem what;
    files.at = psi_manifest_items(manifest->data, manifest->len, &files.bytes_left);
    bool any = psi_items_next(&files, &ps_v1_SaveItem_msg, &what, NULL);
    PSI_ASSERT(any); /* cannot fail: the manifest was checked */
    return files;
}

bool psi_manifest_next(struct psi_items *files, ps_v1_FileItem *out)
{
    bool more = psi_items_next(files, &ps_v1_FileItem_msg, out, NULL);
    PSI_ASSERT(files->st == PS_OK); /* cannot fail: the manifest was checked */
    return more;
}
