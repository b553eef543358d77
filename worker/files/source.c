/* SPDX-License-Identifier: Apache-2.0 */
/* The file of an import, or the files of an index, one of which is open at a time.
 *
 * Happy path: psi_file_source_open() reads the index; opens each file with a selected tensor (psi_file_wants) and reads its
 * header (common/safetensors.c); checks that every selected tensor can be a variable, where NAME:offsets and NAME:bytes together
 * are a string variable; and checks the values of bools and strings. Failure modes: no such file; no regular file; a file that
 * changes while it is read; a selected tensor that cannot be a variable. All tensors are checked before the import is refused,
 * so that the error can name several. */
#include "source.h"

#include "files.h"

#include "common/blob.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/shape.h"
#include "common/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECK_BYTES = 256 << 10 };

static ps_status read_at(const struct psi_file_source *s, void *dst, uint64_t bytes, uint64_t offset, struct psi_err *err)
{
    uint8_t *at = dst;
    while (bytes > 0) {
        size_t most = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        ssize_t n = pread(s->fd, at, most, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return psi_fail_errno(err, errno, "read", NULL);
        }
        if (n == 0) {
            return psi_fail(err, PS_DATA_LOSS, "the file became shorter while it was read: it ends at byte %llu",
                            (unsigned long long)offset);
        }
        at += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return PS_OK;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Open file parts[at], and close the file that was open. DATA_LOSS: the file has changed since the import first opened it. */
static ps_status use_part(struct psi_file_source *s, size_t at, struct psi_err *err)
{
    struct psi_file_part *part = &s->parts[at];
    struct stat st;
    if (s->fd >= 0 && s->fd_part == at) {
        return PS_OK;
    }
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    s->fd_part = at;
    s->fd = open(part->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a path that is a FIFO must not block */
    if (s->fd < 0 || fstat(s->fd, &st) != 0) {
        return psi_fail_errno(err, errno, "open", NULL);
    }
    if (!S_ISREG(st.st_mode)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "is no regular file");
    }
    if (part->stat.st_mode != 0 && !same_file(&st, &part->stat)) {
        return psi_fail(err, PS_DATA_LOSS, "the file is another one than when it was checked");
    }
    part->stat = st;
    return PS_OK;
}

/* Put the name of file parts[at] in front of an error, unless the file is the one that the caller has named. */
static void say_part(const struct psi_file_source *s, size_t at, struct psi_err *err)
{
    if (s->part_count > 1 || strcmp(s->parts[at].path, s->path) != 0) {
        const char *slash = strrchr(s->parts[at].path, '/');
        psi_err_prefix(err, "%.200s", slash == NULL ? s->parts[at].path : slash + 1);
    }
}

static ps_status read_item(const struct psi_file_source *s, const struct psi_file_item *item, void *dst, struct psi_err *err)
{
    ps_status st = read_at(s, dst, item->bytes, item->offset, err);
    st = st == PS_OK ? read_at(s, (uint8_t *)dst + item->bytes, item->text_bytes, item->text_offset, err) : st;
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", item->name);
    }
    return st;
}

/* Length of name without its ending `ending`; 0: name does not end with it. */
static size_t before(const char *name, const char *ending)
{
    size_t n = strlen(name);
    size_t k = strlen(ending);
    return n > k && strcmp(name + n - k, ending) == 0 ? n - k : 0;
}

/* Length of a tensor's name without ":offsets" or ":bytes": the variable's name. */
static size_t base_bytes(const char *name)
{
    size_t offsets = before(name, PSI_FILES_OFFSETS);
    size_t bytes = before(name, PSI_FILES_BYTES);
    return offsets > 0 ? offsets : bytes > 0 ? bytes : strlen(name);
}

static ps_status check_name(void *ctx, const char *name, struct psi_err *err)
{
    (void)ctx;
    ps_status st = psi_variable_name_check(name, base_bytes(name), err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor");
    }
    return st;
}

static ps_status leave_out(struct psi_file_source *s, const char *name, size_t bytes, struct psi_err *err)
{
    return psi_map_put(&s->left_out, name, bytes, s, NULL, err);
}

/* True if the import selects the tensor. NAME:offsets and NAME:bytes go with the string variable NAME. */
static bool is_meant(const struct psi_file_source *s, const char *tensor)
{
    char name[PS_NAME_BYTES_MAX + 1];
    size_t n = base_bytes(tensor);
    if (s->wants.takes == NULL || tensor[n] == '\0') {
        return s->wants.takes == NULL || s->wants.takes(s->wants.ctx, tensor);
    }
    if (n > PS_NAME_BYTES_MAX) {
        return false; /* too long for a variable's name */
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)n, tensor);
    return s->wants.takes(s->wants.ctx, name);
}

bool psi_file_source_left_out(const struct psi_file_source *source, const char *name, size_t bytes)
{
    return psi_map_find(&source->left_out, name, bytes) != NULL;
}

bool psi_file_source_has(const struct psi_file_source *source, const char *name, size_t bytes)
{
    return psi_map_find(&source->names, name, bytes) != NULL || psi_file_source_left_out(source, name, bytes);
}

static ps_status takes(void *ctx, const char *tensor, bool *out_takes, struct psi_err *err)
{
    struct psi_file_source *s = ctx;
    *out_takes = is_meant(s, tensor);
    return *out_takes ? PS_OK : leave_out(s, tensor, base_bytes(tensor), err);
}

/* Note that tensor name cannot be a variable, because of err. Returns PS_OK, so that the caller goes on and finds more such
 * tensors; but if err is an error of reading the file, returns that. */
static ps_status refused(void *ctx, const char *name, struct psi_err *err)
{
    struct psi_file_source *s = ctx;
    struct psi_file_refused *r = &s->refused;
    char shown[64];
    if (err->code != PS_INVALID_ARGUMENT) {
        return err->code;
    }
    if (r->count++ == 0) {
        r->first = *err;
        say_part(s, s->fd_part, &r->first);
        return PS_OK;
    }
    size_t used = strlen(r->others);
    char quoted[PSI_QUOTE_MAX];
    (void)psi_quote(quoted, sizeof(quoted), name, strlen(name));
    (void)psi_utf8_shorten(quoted, shown, sizeof(shown));
    if (r->others_named + 2 == r->count && used + strlen(shown) + 3 <= sizeof(r->others)) {
        (void)snprintf(r->others + used, sizeof(r->others) - used, "%s%s", used > 0 ? ", " : "", shown);
        r->others_named++;
    }
    return PS_OK;
}

/* When all tensors are checked: INVALID_ARGUMENT if some cannot be variables, with some names, and how to import the rest. */
static ps_status refuse_all(const struct psi_file_source *s, struct psi_err *err)
{
    const struct psi_file_refused *r = &s->refused;
    if (r->count == 0) {
        return PS_OK;
    }
    char first[224], others[sizeof(r->others) + 64] = "";
    if (r->count > 1) {
        (void)snprintf(others, sizeof(others), "; %zu other%s refused: %s%s", r->count - 1, r->count > 2 ? "s are" : " is",
                       r->others, r->others_named + 1 < r->count ? ", ..." : "");
    }
    return psi_fail(err, r->first.code, "%s%s; `only` takes the rest (psctl import --only, pstrain --warm_start_only)",
                    psi_utf8_shorten(r->first.text, first, sizeof(first)), others);
}

static ps_status read_header(struct psi_file_source *s, struct psi_file_part *part, struct psi_err *err)
{
    uint8_t prefix[PSI_SAFETENSORS_PREFIX] = {0};
    uint64_t length = 0;
    uint64_t file_bytes = (uint64_t)part->stat.st_size;
    uint64_t first = file_bytes < sizeof(prefix) ? file_bytes : sizeof(prefix);
    ps_status st = read_at(s, prefix, first, 0, err);
    st = st == PS_OK ? psi_safetensors_length(prefix, file_bytes, &length, err) : st;
    if (st != PS_OK) {
        return st;
    }
    char *header = psi_malloc((size_t)length);
    if (header == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a header of %llu bytes", (unsigned long long)length);
    }
    st = read_at(s, header, length, PSI_SAFETENSORS_PREFIX, err);
    struct psi_tensor_reader reader = {.takes = takes, .check_name = check_name, .refused = refused, .ctx = s};
    psi_files_map_seed(reader.map_seed);
    st = st == PS_OK ? psi_safetensors_decode(header, (size_t)length, file_bytes, &reader, &part->table, err) : st;
    psi_free(header);
    return st;
}

static ps_status make_plain(const struct psi_file_part *part, const struct psi_tensor *t, struct psi_file_item *item,
                            struct psi_err *err)
{
    if (t->type->dtype == PS_DTYPE_NONE) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "tensor '%s' is %s, which no variable can be; F64 F32 F16 BF16 I64 I32 I8 U8 BOOL can", t->name,
                        t->type->name);
    }
    ps_status st = psi_shape_check(&t->shape, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", t->name);
        return st;
    }
    item->dtype = t->type->dtype;
    item->shape = t->shape;
    item->offset = part->table.data_start + t->begin;
    item->bytes = t->end - t->begin;
    return PS_OK;
}

static bool is_list(const struct psi_tensor *t, ps_dtype dtype, int64_t least)
{
    return t != NULL && t->type->dtype == dtype && t->shape.rank == 1 && t->shape.dims[0] >= least;
}

/* Make a string variable from its tensors NAME:offsets and NAME:bytes; NULL: the file lacks that tensor. */
static ps_status make_strings(const struct psi_file_part *part, const struct psi_tensor *offsets, const struct psi_tensor *bytes,
                              struct psi_file_item *item, struct psi_err *err)
{
    if (!is_list(offsets, PS_I64, 1) || !is_list(bytes, PS_U8, 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "tensor '%s': strings are two tensors, %s" PSI_FILES_OFFSETS
                        ", I64 (strings + 1,), and %s" PSI_FILES_BYTES ", U8 (bytes,)",
                        offsets == NULL ? bytes->name : offsets->name, item->name, item->name);
    }
    item->text_bytes = bytes->end - bytes->begin;
    if (item->text_bytes > PS_STRING_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' has %llu bytes, the strings of a variable at most %zu",
                        bytes->name, (unsigned long long)item->text_bytes, PS_STRING_BYTES_MAX);
    }
    item->dtype = PS_STRING;
    item->shape = PS_SHAPE(offsets->shape.dims[0] - 1);
    item->offset = part->table.data_start + offsets->begin;
    item->bytes = offsets->end - offsets->begin;
    item->text_offset = part->table.data_start + bytes->begin;
    ps_status st = psi_variable_check(PS_STRING, &item->shape, false, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", offsets->name);
    }
    return st;
}

static const struct psi_tensor *find(const struct psi_map *names, const char *name, const char *ending)
{
    char text[PS_NAME_BYTES_MAX + 16];
    int n = snprintf(text, sizeof(text), "%s%s", name, ending);
    return psi_map_find(names, text, (size_t)n);
}

/* Make *item from tensor t; strings: from both of their tensors. *out_more false: their other tensor makes the item, not t. */
static ps_status make_item(const struct psi_file_part *part, const struct psi_map *names, const struct psi_tensor *t,
                           struct psi_file_item *item, bool *out_more, struct psi_err *err)
{
    memset(item, 0, sizeof(*item));
    (void)snprintf(item->name, sizeof(item->name), "%.*s", (int)base_bytes(t->name), t->name);
    const struct psi_tensor *offsets = find(names, item->name, PSI_FILES_OFFSETS);
    const struct psi_tensor *bytes = find(names, item->name, PSI_FILES_BYTES);
    *out_more = true;
    if (offsets == NULL && bytes == NULL) {
        return make_plain(part, t, item, err);
    }
    const struct psi_tensor *plain = find(names, item->name, "");
    *out_more = plain != NULL ? t == plain : offsets == NULL || bytes == NULL || t == (offsets < bytes ? offsets : bytes);
    if (!*out_more) {
        return PS_OK;
    }
    if (plain != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "tensor '%s' and one of its name with " PSI_FILES_OFFSETS " or " PSI_FILES_BYTES
                        ": they would be one variable",
                        item->name);
    }
    return make_strings(part, offsets, bytes, item, err);
}

static ps_status check_bools(const struct psi_file_source *s, const struct psi_file_item *item, uint8_t *buffer,
                             struct psi_err *err)
{
    for (uint64_t at = 0; at < item->bytes; at += CHECK_BYTES) {
        uint64_t n = item->bytes - at < CHECK_BYTES ? item->bytes - at : CHECK_BYTES;
        ps_status st = read_at(s, buffer, n, item->offset + at, err);
        for (uint64_t i = 0; st == PS_OK && i < n; i++) {
            if (buffer[i] > 1) {
                st = psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is BOOL, but element %llu is %u: 0 or 1 are allowed",
                              item->name, (unsigned long long)(at + i), buffer[i]);
            }
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

static ps_status check_strings(const struct psi_file_source *s, const struct psi_file_item *item, struct psi_err *err)
{
    uint64_t bytes = item->bytes + item->text_bytes;
    uint8_t *blob = psi_malloc((size_t)bytes);
    if (blob == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "tensor '%s': out of memory for its %llu bytes", item->name,
                        (unsigned long long)bytes);
    }
    ps_status st = read_item(s, item, blob, err);
    if (st == PS_OK) {
        st = psi_blob_check(blob, bytes, (uint64_t)item->shape.dims[0], err);
        if (st != PS_OK) {
            psi_err_prefix(err, "tensor '%s" PSI_FILES_OFFSETS "'", item->name);
        }
    }
    psi_free(blob);
    return st;
}

static ps_status check_values(struct psi_file_source *s, const struct psi_file_part *part, struct psi_err *err)
{
    uint8_t *buffer = psi_malloc(CHECK_BYTES);
    ps_status st = buffer != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a look at the values");
    for (size_t i = part->item_begin; st == PS_OK && i < part->item_end; i++) {
        const struct psi_file_item *item = &s->items[i];
        struct psi_err own = {0};
        st = item->dtype == PS_BOOL     ? check_bools(s, item, buffer, &own)
             : item->dtype == PS_STRING ? check_strings(s, item, &own)
                                        : PS_OK;
        st = st != PS_OK ? refused(s, item->name, &own) : PS_OK;
        if (st != PS_OK) {
            *err = own;
        }
    }
    psi_free(buffer);
    return st;
}

/* Add *item, which is behind the last of s->items, to the list and s->names. INVALID_ARGUMENT: another file has its name too. */
static ps_status add_item(struct psi_file_source *s, const struct psi_file_item *item, struct psi_err *err)
{
    void *other = NULL;
    s->value_bytes += item->bytes + item->text_bytes;
    s->item_count++;
    ps_status st = psi_map_put(&s->names, item->name, strlen(item->name), (void *)(uintptr_t)s->item_count, &other, err);
    return st != PS_OK || other == NULL ? st
                                        : psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is in two of its files", item->name);
}

static ps_status make_all(struct psi_file_source *s, struct psi_file_part *part, const struct psi_map *names, struct psi_err *err)
{
    for (size_t i = 0; i < part->table.tensor_count; i++) {
        bool more = false;
        struct psi_file_item *item = &s->items[s->item_count];
        struct psi_err own = {0};
        ps_status st = make_item(part, names, &part->table.tensors[i], item, &more, &own);
        if (st != PS_OK) {
            st = refused(s, item->name, &own);
            more = false;
        }
        if (st != PS_OK) {
            *err = own;
            return st;
        }
        item->part = (size_t)(part - s->parts);
        st = more ? add_item(s, item, err) : PS_OK;
        if (st != PS_OK) {
            return st;
        }
    }
    bool empty = part->table.tensor_count == 0 && psi_map_count(&s->left_out) == 0 && s->refused.count == 0;
    return empty ? psi_fail(err, PS_INVALID_ARGUMENT, "the file has no tensor") : PS_OK;
}

static ps_status make_items(struct psi_file_source *s, struct psi_file_part *part, struct psi_err *err)
{
    struct psi_map names;
    ps_status st = PS_OK;
    struct psi_file_item *items = psi_realloc(s->items, (s->item_count + part->table.tensor_count + 1) * sizeof(*items));
    if (items == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", part->table.tensor_count);
    }
    s->items = items;
    part->item_begin = s->item_count;
    psi_files_map_init(&names, false);
    for (size_t i = 0; st == PS_OK && i < part->table.tensor_count; i++) {
        struct psi_tensor *t = &part->table.tensors[i];
        st = psi_map_put(&names, t->name, strlen(t->name), t, NULL, err);
    }
    st = st == PS_OK ? make_all(s, part, &names, err) : st;
    part->item_end = s->item_count;
    psi_map_fini(&names);
    return st;
}

static void close_parts(struct psi_file_source *s)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    s->fd = -1;
    while (s->part_count > 0) {
        struct psi_file_part *part = &s->parts[--s->part_count];
        psi_safetensors_fini(&part->table);
        psi_free(part->path);
        *part = (struct psi_file_part){.path = NULL};
    }
}

/* Add to s->parts the file `name` in the directory of s->path. name NULL: the file s->path itself. */
static ps_status add_part(struct psi_file_source *s, const char *name, struct psi_err *err)
{
    const char *slash = strrchr(s->path, '/');
    int before_name = name == NULL || slash == NULL ? 0 : (int)(slash - s->path + 1);
    size_t n = (size_t)before_name + strlen(name != NULL ? name : s->path) + 1;
    struct psi_file_part *parts = psi_grow(s->parts, s->part_count, &s->part_capacity, sizeof(*parts));
    s->parts = parts != NULL ? parts : s->parts;
    char *path = parts != NULL ? psi_malloc(n) : NULL;
    if (path == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of files");
    }
    (void)snprintf(path, n, "%.*s%s", before_name, s->path, name != NULL ? name : s->path);
    s->parts[s->part_count++] = (struct psi_file_part){.path = path};
    return PS_OK;
}

struct index {
    struct psi_file_source *source;
    struct psi_map files; /* a set: names of the files with a selected tensor */
    size_t tensors;       /* number of selected tensors */
    bool mapped;          /* the index has the member weight_map */
    bool names_some;      /* the weight_map has a tensor, selected or not */
};

/* Read one entry of the weight_map, "tensor": "file". For a selected tensor add its file to the list, if it is not there. */
static ps_status add_entry(void *ctx, const char *tensor, const char *value, size_t bytes, struct psi_err *err)
{
    struct index *index = ctx;
    json_t *file = NULL;
    char shown[128];
    void *other = NULL;
    index->names_some = true;
    if (!is_meant(index->source, tensor)) {
        return leave_out(index->source, tensor, base_bytes(tensor), err);
    }
    index->tensors++;
    ps_status st = psi_json_value("weight_map", value, bytes, PSI_SAFETENSORS_MARKS_MAX, &file, err);
    const char *name = st == PS_OK ? json_string_value(file) : NULL;
    if (st == PS_OK && (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the file of tensor '%s' is no name of a file beside it",
                      psi_utf8_shorten(tensor, shown, sizeof(shown)));
    }
    st = st == PS_OK ? psi_map_put(&index->files, name, strlen(name), index, &other, err) : st;
    st = st == PS_OK && other == NULL ? add_part(index->source, name, err) : st;
    json_decref(file);
    return st;
}

static ps_status add_member(void *ctx, const char *key, const char *value, size_t bytes, struct psi_err *err)
{
    struct index *index = ctx;
    if (strcmp(key, "weight_map") != 0) {
        return PS_OK;
    }
    index->mapped = true;
    return psi_json_each("weight_map", value, bytes, add_entry, index, err);
}

/* Read the index (JSON) into memory. *out_text: psi_free(). */
static ps_status read_whole(struct psi_file_source *s, char **out_text, size_t *out_bytes, struct psi_err *err)
{
    ps_status st = add_part(s, NULL, err);
    st = st == PS_OK ? use_part(s, 0, err) : st;
    uint64_t bytes = st == PS_OK ? (uint64_t)s->parts[0].stat.st_size : 0;
    if (bytes > PSI_SAFETENSORS_HEADER_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "it has more than %llu bytes", (unsigned long long)PSI_SAFETENSORS_HEADER_MAX);
    }
    *out_text = st == PS_OK ? psi_malloc((size_t)bytes + 1) : NULL;
    *out_bytes = (size_t)bytes;
    if (st == PS_OK) {
        st = *out_text != NULL ? read_at(s, *out_text, bytes, 0, err) : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    close_parts(s);
    return st;
}

/* Read the index and make the list of files with selected tensors. *out_tensors: how many tensors are selected. */
static ps_status read_index(struct psi_file_source *s, size_t *out_tensors, struct psi_err *err)
{
    struct index index = {.source = s};
    char *text = NULL;
    size_t bytes = 0;
    psi_files_map_init(&index.files, false);
    ps_status st = read_whole(s, &text, &bytes, err);
    const size_t mark = st == PS_OK ? psi_utf8_mark(text, bytes) : 0;
    st = st == PS_OK ? psi_json_each("the index", text + mark, bytes - mark, add_member, &index, err) : st;
    if (st == PS_OK && !index.names_some) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      index.mapped ? "its weight_map names no tensor"
                                   : "it has no weight_map: it is no index of safetensors files");
    }
    *out_tensors = index.tensors;
    psi_map_fini(&index.files);
    psi_free(text);
    return st;
}

/* Check that the files have at least `tensors` tensors, the number of selected tensors in the index. */
static ps_status check_parts(const struct psi_file_source *s, size_t tensors, struct psi_err *err)
{
    size_t found = 0;
    for (size_t i = 0; i < s->part_count; i++) {
        found += s->parts[i].table.tensor_count;
    }
    return found >= tensors ? PS_OK
                            : psi_fail(err, PS_INVALID_ARGUMENT, "it names %zu tensors, and its files have %zu", tensors, found);
}

static ps_status open_part(struct psi_file_source *s, size_t at, struct psi_err *err)
{
    struct psi_file_part *part = &s->parts[at];
    ps_status st = use_part(s, at, err);
    st = st == PS_OK ? read_header(s, part, err) : st;
    st = st == PS_OK ? make_items(s, part, err) : st;
    st = st == PS_OK ? check_values(s, part, err) : st;
    if (st != PS_OK) {
        say_part(s, at, err);
    }
    return st;
}

ps_status psi_file_source_open(struct psi_file_source *source, const char *path, const struct psi_file_wants *wants,
                               struct psi_err *err)
{
    bool index = before(path, ".index.json") > 0;
    size_t tensors = 0;
    memset(source, 0, sizeof(*source));
    source->path = path;
    source->fd = -1;
    source->wants = wants != NULL ? *wants : (struct psi_file_wants){.takes = NULL};
    psi_files_map_init(&source->names, false);
    psi_files_map_init(&source->left_out, false);
    ps_status st = index ? read_index(source, &tensors, err) : add_part(source, NULL, err);
    for (size_t i = 0; st == PS_OK && i < source->part_count; i++) {
        st = open_part(source, i, err);
    }
    st = st == PS_OK ? refuse_all(source, err) : st;
    return st == PS_OK && index ? check_parts(source, tensors, err) : st;
}

ps_status psi_file_source_read(struct psi_file_source *source, const struct psi_file_item *item, void *dst, struct psi_err *err)
{
    ps_status st = use_part(source, item->part, err);
    st = st == PS_OK ? read_item(source, item, dst, err) : st;
    if (st != PS_OK) {
        say_part(source, item->part, err);
    }
    return st;
}

ps_status psi_file_source_read_part(struct psi_file_source *source, const struct psi_file_item *item, const struct psi_parts *cut,
                                    uint32_t index, void *dst, struct psi_err *err)
{
    const ps_shape shape = psi_part_shape(cut, index);
    const size_t each = ps_dtype_bytes(item->dtype);
    const uint64_t bytes = (uint64_t)ps_shape_elements(&shape) * each;
    ps_status st = use_part(source, item->part, err);
    for (uint64_t at = 0, n = 0, from = 0; st == PS_OK && at < bytes; at += n) {
        n = psi_files_run(cut, index, each, at, bytes - at, &from);
        st = read_at(source, (uint8_t *)dst + at, n, item->offset + from, err);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "tensor '%s'", item->name);
        say_part(source, item->part, err);
    }
    return st;
}

void psi_file_source_close(struct psi_file_source *source)
{
    close_parts(source);
    psi_free(source->parts);
    psi_free(source->items);
    psi_map_fini(&source->names);
    psi_map_fini(&source->left_out);
    *source = (struct psi_file_source){.fd = -1};
}
