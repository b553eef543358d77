/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps each file whole or absent, whenever the power fails (files.h).
 *
 * Happy path of a file: BEGIN makes the checkpoint's directory and the file NAME.tmp; WRITE calls pwrite; PUBLISH syncs the
 * file, renames it to NAME, and syncs the checkpoint's directory and, as that may be new, the directory above. LIST and READ
 * then find the file. REMOVE renames the checkpoint's directory to NUMBER.tmp, syncs the directory above, and only then
 * removes the files, so that no checkpoint ever has half of its files. Failure modes: any failed call ends the operation, and the
 * file stays failed (psd/disk.h). A failed fsync is not repeated: the system drops what it could not write, and lets the next
 * fsync succeed. Leftovers end in .tmp and are removed at the next open. */
#include "files.h"

#include "common/crc32c.h"
#include "common/limits.h"
#include "common/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_DIGITS = 20,
    INDEX_DIGITS = 5,
    FOUND_NAME_BYTES = 64, /* all names that psd makes are shorter */
    FOUND_BYTES_MAX = 64 << 20,
    LISTED_BYTES_MAX = 256 << 20,
    /* bytes read at a time: few enough to be still in the CPU's cache when their CRCs are made */
    SUMMED_BYTES = 4 * PSD_DISK_SUM_BYTES
};
static const char TMP[] = ".tmp";
static const char MODEL[] = "model-";
static const char MODEL_END[] = ".safetensors";

static const char *format_dir(uint64_t number, const char *end, char *buf)
{
    (void)snprintf(buf, PSD_DISK_NAME_BYTES_MAX, "%020llu%s", (unsigned long long)number, end);
    return buf;
}

static const char *format_leaf(const struct psd_disk_file *file, const char *end, char *buf)
{
    if (file->kind == PSD_DISK_MODEL) {
        (void)snprintf(buf, PSD_DISK_NAME_BYTES_MAX, "%s%05u%s%s", MODEL, file->index, MODEL_END, end);
    } else {
        const char *name = file->kind == PSD_DISK_BARS ? "bars" : file->kind == PSD_DISK_STATE ? "state" : "manifest";
        (void)snprintf(buf, PSD_DISK_NAME_BYTES_MAX, "%s%s", name, end);
    }
    return buf;
}

const char *psd_files_path(const struct psd_disk_file *file, char *buf)
{
    char leaf[PSD_DISK_NAME_BYTES_MAX] = "";
    char dir[PSD_DISK_NAME_BYTES_MAX] = "";
    if (file->kind != PSD_DISK_NO_FILE) {
        (void)format_leaf(file, "", leaf);
    }
    if (file->number != 0) {
        (void)format_dir(file->number, "", dir);
    }
    (void)snprintf(buf, PSD_DISK_NAME_BYTES_MAX, "%.20s%s%.30s", dir, dir[0] != '\0' && leaf[0] != '\0' ? "/" : "", leaf);
    return buf;
}

static bool read_digits(const char *p, size_t digits, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        if (p[i] < '0' || p[i] > '9' || v > (UINT64_MAX - (uint64_t)(p[i] - '0')) / 10) {
            return false;
        }
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = v;
    return true;
}

/* The number of a checkpoint by the name of its directory: 20 digits followed by `end`. 0: `name` has another form. */
static uint64_t dir_number(const char *name, const char *end)
{
    uint64_t number = 0;
    bool good = strlen(name) == NUMBER_DIGITS + strlen(end) && read_digits(name, NUMBER_DIGITS, &number) &&
                strcmp(name + NUMBER_DIGITS, end) == 0;
    /* numbers of the upper half of the range are refused, so that a higher number always exists for the next checkpoint */
    return good && number < UINT64_MAX / 2 ? number : 0;
}

/* Set *out to the file whose name is `name` (it ends in `end`) in the directory of checkpoint `number`; number 0: in the task's
 * directory. False: psd makes no file of this name. */
static bool read_leaf(const char *name, uint64_t number, const char *end, struct psd_disk_file *out)
{
    char same[PSD_DISK_NAME_BYTES_MAX];
    uint64_t index = 0;
    enum psd_disk_file_kind last = number == 0 ? PSD_DISK_BARS : PSD_DISK_MANIFEST;
    enum psd_disk_file_kind first = number == 0 ? PSD_DISK_BARS : PSD_DISK_MODEL;
    bool numbered = strncmp(name, MODEL, sizeof(MODEL) - 1) == 0 && read_digits(name + sizeof(MODEL) - 1, INDEX_DIGITS, &index);
    for (enum psd_disk_file_kind kind = first; kind <= last; kind++) {
        *out = (struct psd_disk_file){.number = number, .kind = kind, .index = kind == PSD_DISK_MODEL ? (uint32_t)index : 0};
        if ((kind != PSD_DISK_MODEL || numbered) && strcmp(format_leaf(out, end, same), name) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_files(const struct psd_disk_file *a, const struct psd_disk_file *b)
{
    if (a->writer != b->writer) {
        return a->writer < b->writer ? -1 : 1;
    }
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_entries(const void *a, const void *b)
{
    return compare_files(&((const struct psd_disk_entry *)a)->file, &((const struct psd_disk_entry *)b)->file);
}

struct found {
    char name[FOUND_NAME_BYTES];
    bool is_dir, is_file;
    uint64_t bytes;
};
struct finding {
    struct psi_buf buf;
    bool full;
};

static void on_found(void *arg, const struct psd_fs_entry *entry)
{
    struct finding *f = arg;
    struct found one = {.is_dir = entry->is_dir, .is_file = entry->is_file, .bytes = entry->bytes};
    size_t len = strlen(entry->name);
    if (len < sizeof(one.name)) {
        memcpy(one.name, entry->name, len + 1);
        f->full = f->full || psi_buf_append(&f->buf, &one, sizeof(one), NULL) != PS_OK;
    }
}

/* Read all entries of a directory into f, which the caller frees by psi_buf_fini(). */
static ps_status find_all(struct psd_files *files, int dir, const char *name, struct finding *f, const struct found **out,
                          size_t *out_count, struct psi_err *err)
{
    psi_buf_init(&f->buf, FOUND_BYTES_MAX);
    f->full = false;
    int rc = files->fs.each(files->fs.ctx, dir, on_found, f);
    if (rc < 0 || f->full) {
        return psi_fail_errno(err, rc < 0 ? -rc : ENOMEM, "read the directory", name);
    }
    *out = (const struct found *)(const void *)f->buf.data;
    *out_count = f->buf.len / sizeof(struct found);
    return PS_OK;
}

static ps_status not_ours(const char *where, const char *name, struct psi_err *err)
{
    return psi_fail(err, PS_INVALID_ARGUMENT,
                    "%s%s%s is a symbolic link or something else that psd does not make; it follows none there: move it away",
                    where, where[0] != '\0' ? "/" : "", name);
}

/* Remove the directory `name` (NUMBER.tmp, a renamed checkpoint) with its files. The rename is synced first. Entries that psd
 * does not make (a directory, a long name) stay, and so does the directory then. A missing directory is no error. */
static ps_status erase(struct psd_files *f, const char *name, struct psi_err *err)
{
    const struct psd_fs *fs = &f->fs;
    struct finding finding;
    const struct found *in = NULL;
    size_t count = 0;
    int dir = fs->open_dir(fs->ctx, PSD_FS_TOP, name);
    if (dir < 0) {
        return dir == -ENOENT ? PS_OK : psi_fail_errno(err, -dir, "open", name);
    }
    int rc = fs->sync(fs->ctx, PSD_FS_TOP);
    ps_status st = find_all(f, dir, name, &finding, &in, &count, err);
    st = st == PS_OK && rc < 0 ? psi_fail_errno(err, -rc, "fsync of the directory of", name) : st;
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        rc = in[i].is_dir ? 0 : fs->remove(fs->ctx, dir, in[i].name, false);
        st = rc == 0 ? PS_OK : psi_fail_errno(err, -rc, "remove", in[i].name);
    }
    psi_buf_fini(&finding.buf);
    fs->close(fs->ctx, dir);
    rc = st == PS_OK ? fs->remove(fs->ctx, PSD_FS_TOP, name, true) : 0;
    return rc == 0 || rc == -ENOTEMPTY || rc == -EEXIST ? st : psi_fail_errno(err, -rc, "remove", name);
}

/* Remove unpublished files (.tmp) from the directory of checkpoint `number` (0: of the task). *out_empty: no file is left. */
static ps_status clean_dir(struct psd_files *f, int dir, uint64_t number, const char *name, bool *out_empty, struct psi_err *err)
{
    struct finding finding;
    const struct found *in = NULL;
    size_t count = 0;
    ps_status st = find_all(f, dir, name, &finding, &in, &count, err);
    *out_empty = true;
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        struct psd_disk_file file;
        if (read_leaf(in[i].name, number, TMP, &file)) {
            int rc = f->fs.remove(f->fs.ctx, dir, in[i].name, false);
            st = rc == 0 ? PS_OK : psi_fail_errno(err, -rc, "remove", in[i].name);
        } else {
            *out_empty = false;
            st = read_leaf(in[i].name, number, "", &file) && !in[i].is_file ? not_ours(name, in[i].name, err) : PS_OK;
        }
    }
    psi_buf_fini(&finding.buf);
    return st;
}

/* Sync a directory before the names in it are relied on: an earlier process may have been killed between a rename and its fsync,
 * so a power cut could undo the rename. The files' bytes need no sync: each file was synced before its rename. */
static ps_status keep_names(struct psd_files *f, int dir, const char *name, struct psi_err *err)
{
    int rc = f->fs.sync(f->fs.ctx, dir);
    return rc == 0 ? PS_OK : psi_fail_errno(err, -rc, "fsync", name);
}

static ps_status clean_checkpoint(struct psd_files *f, uint64_t number, const char *name, struct psi_err *err)
{
    bool empty = false;
    int dir = f->fs.open_dir(f->fs.ctx, PSD_FS_TOP, name);
    if (dir < 0) {
        return psi_fail_errno(err, -dir, "open", name);
    }
    ps_status st = clean_dir(f, dir, number, name, &empty, err);
    st = st == PS_OK ? keep_names(f, dir, name, err) : st;
    f->fs.close(f->fs.ctx, dir);
    int rc = st == PS_OK && empty ? f->fs.remove(f->fs.ctx, PSD_FS_TOP, name, true) : 0;
    return rc == 0 ? st : psi_fail_errno(err, -rc, "remove", name);
}

static ps_status clean(struct psd_files *f, struct psi_err *err)
{
    struct finding finding;
    const struct found *in = NULL;
    size_t count = 0;
    bool empty = false;
    ps_status st = clean_dir(f, PSD_FS_TOP, 0, "", &empty, err);
    if (st != PS_OK) {
        return st;
    }
    st = find_all(f, PSD_FS_TOP, "", &finding, &in, &count, err);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        uint64_t number = dir_number(in[i].name, "");
        bool going = dir_number(in[i].name, TMP) != 0;
        if ((number != 0 || going) && !in[i].is_dir) {
            st = not_ours("", in[i].name, err);
        } else if (going) {
            st = erase(f, in[i].name, err);
        } else if (number != 0) {
            st = clean_checkpoint(f, number, in[i].name, err);
        }
    }
    psi_buf_fini(&finding.buf);
    return st == PS_OK ? keep_names(f, PSD_FS_TOP, "", err) : st;
}

ps_status psd_files_open(struct psd_files *f, const struct psd_fs *fs, struct psi_err *err)
{
    memset(f, 0, sizeof(*f));
    f->fs = *fs;
    psi_buf_init(&f->listed, LISTED_BYTES_MAX);
    return clean(f, err);
}

static void let_go(struct psd_files *f, struct psd_begun *b)
{
    if (b->fd >= 0) {
        f->fs.close(f->fs.ctx, b->fd);
    }
    memset(b, 0, sizeof(*b));
}

void psd_files_close(struct psd_files *f)
{
    for (size_t i = 0; i < PSD_DISK_BEGUN_MAX; i++) {
        if (f->begun[i].file.kind != PSD_DISK_NO_FILE) {
            let_go(f, &f->begun[i]);
        }
    }
    psi_buf_fini(&f->listed);
}

/* Find in f->begun the entry of this file, which is being written; `file` all zeros: find a free entry. NULL: no such entry. */
static struct psd_begun *begun_of(struct psd_files *f, const struct psd_disk_file *file)
{
    for (size_t i = 0; i < PSD_DISK_BEGUN_MAX; i++) {
        if (compare_files(&f->begun[i].file, file) == 0) {
            return &f->begun[i];
        }
    }
    return NULL;
}

static int dir_of(struct psd_files *f, const struct psd_disk_file *file)
{
    char name[PSD_DISK_NAME_BYTES_MAX];
    int top = file->writer == 0 ? PSD_FS_TOP : f->fs.open_task(f->fs.ctx, file->writer - 1);
    if (file->number == 0 || (file->writer != 0 && top < 0)) {
        return top;
    }
    int dir = f->fs.open_dir(f->fs.ctx, top, format_dir(file->number, "", name));
    if (top != PSD_FS_TOP) {
        f->fs.close(f->fs.ctx, top);
    }
    return dir;
}

static bool dir_failed(const struct psd_disk_file *file, int dir)
{
    return (file->number != 0 || file->writer != 0) && dir < 0;
}

static void close_dir(struct psd_files *f, int dir)
{
    if (dir != PSD_FS_TOP) {
        f->fs.close(f->fs.ctx, dir);
    }
}

static ps_status begin_file(struct psd_files *f, const struct psd_disk_file *file, const char *path, struct psi_err *err)
{
    const struct psd_fs *fs = &f->fs;
    static const struct psd_disk_file none;
    char name[PSD_DISK_NAME_BYTES_MAX];
    struct psd_begun *b = begun_of(f, file);
    if (b != NULL) {
        let_go(f, b);
    } else {
        b = begun_of(f, &none);
    }
    if (b == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: %d other files are being written", path, PSD_DISK_BEGUN_MAX);
    }
    int rc = file->number == 0 ? 0 : fs->make_dir(fs->ctx, format_dir(file->number, "", name));
    int dir = rc == 0 || rc == -EEXIST ? dir_of(f, file) : PSD_FS_TOP;
    b->file = *file;
    b->fd = -1;
    if ((rc < 0 && rc != -EEXIST) || dir_failed(file, dir)) {
        return psi_fail_errno(err, rc < 0 && rc != -EEXIST ? -rc : -dir, "mkdir", path);
    }
    (void)format_leaf(file, TMP, name);
    rc = fs->remove(fs->ctx, dir, name, false);
    rc = rc == 0 || rc == -ENOENT ? fs->open_file(fs->ctx, dir, name, true) : rc;
    close_dir(f, dir);
    b->fd = rc;
    return rc >= 0 ? PS_OK : psi_fail_errno(err, -rc, "begin", path);
}

static ps_status write_all(struct psd_files *f, int fd, const struct psd_disk_op *op, const char *path, struct psi_err *err)
{
    for (size_t at = 0; at < op->bytes;) {
        int64_t n = f->fs.write(f->fs.ctx, fd, (const char *)op->in + at, op->bytes - at, op->offset + at);
        if (n <= 0) {
            return psi_fail_errno(err, n < 0 ? (int)-n : ENOSPC, "write", path);
        }
        at += (size_t)n;
    }
    return PS_OK;
}

static ps_status publish(struct psd_files *f, struct psd_begun *b, const char *path, struct psi_err *err)
{
    const struct psd_fs *fs = &f->fs;
    char from[PSD_DISK_NAME_BYTES_MAX];
    char to[PSD_DISK_NAME_BYTES_MAX];
    int rc = fs->sync(fs->ctx, b->fd);
    if (rc < 0) {
        return psi_fail_errno(err, -rc, "fsync", path);
    }
    int dir = dir_of(f, &b->file);
    if (dir_failed(&b->file, dir)) {
        return psi_fail_errno(err, -dir, "open its directory", path);
    }
    rc = fs->rename(fs->ctx, dir, format_leaf(&b->file, TMP, from), format_leaf(&b->file, "", to));
    ps_status st = rc < 0 ? psi_fail_errno(err, -rc, "rename", path) : PS_OK;
    rc = st == PS_OK ? fs->sync(fs->ctx, dir) : 0;
    rc = rc == 0 && st == PS_OK && dir != PSD_FS_TOP ? fs->sync(fs->ctx, PSD_FS_TOP) : rc;
    close_dir(f, dir);
    return rc == 0 ? st : psi_fail_errno(err, -rc, "fsync of its directory", path);
}

static ps_status write_file(struct psd_files *f, const struct psd_disk_op *op, const char *path, struct psi_err *err)
{
    struct psd_begun *b = begun_of(f, &op->file);
    struct psi_err own = {.code = PS_OK};
    if (op->kind == PSD_DISK_BEGIN) {
        (void)begin_file(f, &op->file, path, &own);
        b = begun_of(f, &op->file);
    } else if (b == NULL) {
        (void)psi_fail(&own, PS_FAILED_PRECONDITION, "%s was not begun", path);
    } else if (b->fd < 0) {
        own = b->failed;
    } else if (op->kind == PSD_DISK_WRITE) {
        (void)write_all(f, b->fd, op, path, &own);
    } else {
        (void)publish(f, b, path, &own);
    }
    if (b != NULL && own.code == PS_OK && op->kind == PSD_DISK_PUBLISH) {
        let_go(f, b);
    } else if (b != NULL && own.code != PS_OK && b->failed.code == PS_OK) {
        struct psd_disk_file file = b->file;
        let_go(f, b);
        *b = (struct psd_begun){.file = file, .fd = -1, .failed = own};
    }
    if (own.code != PS_OK && err != NULL) {
        *err = own;
    }
    return own.code;
}

/* op has read `at` bytes, of which the first `summed` have CRCs. Compute the CRCs of the next whole blocks, and that of the last
 * block, which may be shorter, when op has read all. Returns how many bytes have CRCs now. */
static size_t make_sums(const struct psd_disk_op *op, size_t summed, size_t at)
{
    while (summed < at && (at - summed >= PSD_DISK_SUM_BYTES || at == op->bytes)) {
        size_t n = at - summed < PSD_DISK_SUM_BYTES ? at - summed : PSD_DISK_SUM_BYTES;
        op->sums[summed / PSD_DISK_SUM_BYTES] = psi_crc32c(0, (const char *)op->out + summed, n);
        summed += n;
    }
    return summed;
}

static ps_status read_file(struct psd_files *f, const struct psd_disk_op *op, const char *path, size_t *out_bytes,
                           struct psi_err *err)
{
    const struct psd_fs *fs = &f->fs;
    char name[PSD_DISK_NAME_BYTES_MAX];
    int dir = dir_of(f, &op->file);
    int fd = dir_failed(&op->file, dir) ? dir : fs->open_file(fs->ctx, dir, format_leaf(&op->file, "", name), false);
    if (!dir_failed(&op->file, dir)) {
        close_dir(f, dir);
    }
    if (fd == -EPERM && op->file.writer != 0) {
        return psi_fail(err, PS_PERMISSION_DENIED, "%s: its directory is another user's, or others may write to it", path);
    }
    if (fd == -ELOOP) {
        return not_ours("", path, err);
    }
    if (fd < 0) {
        return psi_fail_errno(err, -fd, dir_failed(&op->file, dir) ? "open its directory" : "open", path);
    }
    size_t at = 0, summed = 0;
    int64_t n = 1;
    while (at < op->bytes && n > 0) {
        size_t left = op->bytes - at;
        size_t most = op->sums != NULL && left > SUMMED_BYTES ? SUMMED_BYTES : left;
        n = fs->read(fs->ctx, fd, (char *)op->out + at, most, op->offset + at);
        at += n > 0 ? (size_t)n : 0;
        summed = op->sums != NULL ? make_sums(op, summed, at) : 0;
    }
    fs->close(fs->ctx, fd);
    *out_bytes = n >= 0 ? at : 0;
    return n >= 0 ? PS_OK : psi_fail_errno(err, (int)-n, "read", path);
}

static ps_status remove_checkpoint(struct psd_files *f, uint64_t number, struct psi_err *err)
{
    const struct psd_fs *fs = &f->fs;
    char name[PSD_DISK_NAME_BYTES_MAX];
    char going[PSD_DISK_NAME_BYTES_MAX];
    (void)format_dir(number, "", name);
    (void)format_dir(number, TMP, going);
    for (size_t i = 0; i < PSD_DISK_BEGUN_MAX; i++) {
        if (f->begun[i].file.kind != PSD_DISK_NO_FILE && f->begun[i].file.number == number) {
            let_go(f, &f->begun[i]);
        }
    }
    ps_status st = erase(f, going, err);
    int rc = st == PS_OK ? fs->rename(fs->ctx, PSD_FS_TOP, name, going) : 0;
    if (st != PS_OK || rc == -ENOENT) {
        return st;
    }
    return rc == 0 ? erase(f, going, err) : psi_fail_errno(err, -rc, "remove", name);
}

/* Append to f->listed the files in dir, of checkpoint `number` (0: of a task). writer: 1 + index of the task; 0: this task. */
static ps_status list_dir(struct psd_files *f, int dir, uint32_t writer, uint64_t number, const char *name, struct psi_err *err)
{
    struct finding finding;
    const struct found *in = NULL;
    size_t count = 0;
    ps_status st = find_all(f, dir, name, &finding, &in, &count, err);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        struct psd_disk_entry entry = {.bytes = in[i].bytes};
        uint64_t inner = number == 0 ? dir_number(in[i].name, "") : 0;
        bool ours = read_leaf(in[i].name, number, "", &entry.file);
        /* the file `bars` is listed even if it is no regular file: the core then tries to read it, and gets the error */
        if (ours && (in[i].is_file || entry.file.kind == PSD_DISK_BARS)) {
            entry.file.writer = writer;
            bool wanted = writer == 0 || entry.file.kind != PSD_DISK_MODEL;
            st = wanted ? psi_buf_append(&f->listed, &entry, sizeof(entry), err) : PS_OK;
        } else if (in[i].is_dir && inner != 0) { /* list_below() opens this directory later */
            entry = (struct psd_disk_entry){.file = {.number = inner, .writer = writer}};
            st = psi_buf_append(&f->listed, &entry, sizeof(entry), err);
        }
    }
    psi_buf_fini(&finding.buf);
    return st;
}

/* Append to f->listed all files in `top`, a task's directory, and below it. writer: 1 + the task's index; 0: this task. */
static ps_status list_below(struct psd_files *f, int top, uint32_t writer, struct psi_err *err)
{
    size_t first = f->listed.len / sizeof(struct psd_disk_entry);
    ps_status st = list_dir(f, top, writer, 0, "", err);
    size_t dirs = f->listed.len / sizeof(struct psd_disk_entry);
    for (size_t i = first; st == PS_OK && i < dirs; i++) {
        struct psd_disk_entry entry;
        char name[PSD_DISK_NAME_BYTES_MAX];
        memcpy(&entry, f->listed.data + i * sizeof(entry), sizeof(entry));
        if (entry.file.kind != PSD_DISK_NO_FILE) {
            continue;
        }
        int dir = f->fs.open_dir(f->fs.ctx, top, format_dir(entry.file.number, "", name));
        st = dir < 0 ? psi_fail_errno(err, -dir, "open", name) : list_dir(f, dir, writer, entry.file.number, name, err);
        st = writer == 0 ? st : PS_OK; /* another task's files that cannot be read count as missing */
        if (dir >= 0) {
            f->fs.close(f->fs.ctx, dir);
        }
    }
    return st;
}

static void on_task(void *arg, uint32_t task)
{
    bool *there = arg;
    there[task] = true;
}

static ps_status list_all(struct psd_files *f, struct psi_err *err)
{
    bool there[PS_TASKS_MAX] = {false};
    psi_buf_clear(&f->listed);
    ps_status st = list_below(f, PSD_FS_TOP, 0, err);
    PSI_IGNORE(f->fs.each_task(f->fs.ctx, on_task, there)); /* after an error, the tasks found so far are read */
    for (uint32_t i = 0; st == PS_OK && i < PS_TASKS_MAX; i++) {
        int top = there[i] ? f->fs.open_task(f->fs.ctx, i) : -ENOENT;
        size_t before = f->listed.len;
        bool listed = top >= 0 && list_below(f, top, i + 1, NULL) == PS_OK;
        /* if a directory cannot be read, list its file `bars`: the core then tries to read it, and gets the error */
        if (!listed && top != -ENOENT) {
            struct psd_disk_entry bars = {.file = {.kind = PSD_DISK_BARS, .writer = i + 1}};
            f->listed.len = before;
            st = psi_buf_append(&f->listed, &bars, sizeof(bars), err);
        }
        if (top >= 0) {
            f->fs.close(f->fs.ctx, top);
        }
    }
    if (st == PS_OK && f->listed.len > 0) {
        qsort(f->listed.data, f->listed.len / sizeof(struct psd_disk_entry), sizeof(struct psd_disk_entry), compare_entries);
    }
    return st;
}

static ps_status list(struct psd_files *f, const struct psd_disk_op *op, size_t *out_bytes, struct psi_err *err)
{
    static const struct psd_disk_file none;
    struct psd_disk_entry *out = op->out;
    size_t room = op->bytes / sizeof(*out), filled = 0, i = 0;
    if (compare_files(&op->file, &none) == 0) {
        ps_status st = list_all(f, err);
        if (st != PS_OK) {
            psi_buf_clear(&f->listed);
            return st;
        }
    }
    const struct psd_disk_entry *all = (const struct psd_disk_entry *)(const void *)f->listed.data;
    for (; i < f->listed.len / sizeof(*all) && filled < room; i++) {
        if (all[i].file.kind != PSD_DISK_NO_FILE && compare_files(&all[i].file, &op->file) > 0) {
            out[filled++] = all[i];
        }
    }
    if (filled < room) {
        psi_buf_fini(&f->listed);
        psi_buf_init(&f->listed, LISTED_BYTES_MAX);
    }
    *out_bytes = filled * sizeof(*out);
    return PS_OK;
}

ps_status psd_files_run(struct psd_files *f, const struct psd_disk_op *op, size_t *out_bytes, struct psi_err *err)
{
    char path[PSD_DISK_NAME_BYTES_MAX];
    const struct psd_disk_file *file = &op->file;
    *out_bytes = 0;
    switch (op->kind) {
    case PSD_DISK_LIST:
        return list(f, op, out_bytes, err);
    case PSD_DISK_REMOVE:
        PSI_ASSERT(file->number != 0);
        return remove_checkpoint(f, file->number, err);
    case PSD_DISK_BEGIN:
    case PSD_DISK_WRITE:
    case PSD_DISK_PUBLISH:
    case PSD_DISK_READ:
        break;
    }
    PSI_ASSERT(file->kind >= PSD_DISK_BARS && file->kind <= PSD_DISK_MANIFEST &&
               (file->number == 0) == (file->kind == PSD_DISK_BARS));
    PSI_ASSERT(file->writer == 0 || (op->kind == PSD_DISK_READ && file->writer <= PS_TASKS_MAX));
    PSI_ASSERT(file->index <= PSD_DISK_INDEX_MAX && (file->index == 0 || file->kind == PSD_DISK_MODEL));
    (void)psd_files_path(file, path);
    return op->kind == PSD_DISK_READ ? read_file(f, op, path, out_bytes, err) : write_file(f, op, path, err);
}
