/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a checkpoint, in pieces of 1 MiB. A state file gives a table of variables and the CRCs of the blocks of each
 * value. The header of a file of values says which bytes belong to which variable; the bytes are fed to the CRC of their block as
 * they come. The first error ends the reading of a file. */
#include "saved.h"

#include "blob.h"
#include "crc32c.h"
#include "map.h"
#include "mem.h"
#include "name.h"
#include "shape.h"
#include "state_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10, PIECE_BYTES = 1 << 20, MANIFEST_PIECE_BYTES = 64 << 10 };
enum { SKIPPED_BYTES = 64 << 10 }; /* a shorter gap between wanted values is read as well: two requests would take longer */
_Static_assert(PIECE_BYTES % PSI_STATE_BLOCK_BYTES == 0, "a piece has whole blocks");

static ps_status lost(struct psi_err *err, const char *why)
{
    return psi_fail(err, PS_DATA_LOSS, "%s", why);
}

static ps_status no_memory(struct psi_err *err)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory");
}

const char *psi_saved_file_text(const struct psi_saved_file *file, char *buf)
{
    if (file->kind == PS_FILE_VALUES) {
        (void)snprintf(buf, PSI_SAVED_FILE_TEXT_MAX, "model-%05u.safetensors", file->index);
        return buf;
    }
    (void)snprintf(buf, PSI_SAVED_FILE_TEXT_MAX, "%s", file->kind == PS_FILE_STATE ? "state" : "manifest");
    return buf;
}

struct pieces {
    const struct psi_saved_io *io;
    const struct psi_saved_file *file;
    uint64_t at;
    uint8_t *memory;
};

static ps_status pieces_begin(struct pieces *p, const struct psi_saved_io *io, const struct psi_saved_file *file,
                              struct psi_err *err)
{
    *p = (struct pieces){
        .io = io, .file = file, .memory = psi_aligned_malloc(64, file->bytes < PIECE_BYTES ? file->bytes + 1 : PIECE_BYTES)};
    return p->memory != NULL ? PS_OK : no_memory(err);
}

static void pieces_pass(struct pieces *p, uint64_t bytes)
{
    p->at += bytes;
    if (p->io->progress != NULL) {
        p->io->progress(p->io->ctx, p->file, bytes);
    }
}

/* Read the next piece, of at most `most` bytes. out_bytes 0: the file has ended where it should. */
static ps_status pieces_next(struct pieces *p, size_t most, size_t *out_bytes, struct psi_err *err)
{
    uint64_t left = p->file->bytes - p->at;
    size_t want = left < most ? (size_t)left : most;
    size_t got = 0;
    ps_status st = p->io->read(p->io->ctx, p->file, p->at, p->memory, want == 0 ? 1 : want, &got, err);
    *out_bytes = want;
    if (st == PS_OK && want == 0 && got != 0) {
        return psi_fail(err, PS_DATA_LOSS, "it is longer than the %llu bytes that it should have",
                        (unsigned long long)p->file->bytes);
    }
    if (st == PS_OK && got != want && want != 0) {
        return psi_fail(err, PS_DATA_LOSS, "it has been cut: it has %llu bytes of %llu", (unsigned long long)(p->at + got),
                        (unsigned long long)p->file->bytes);
    }
    if (st == PS_OK && want > 0) {
        pieces_pass(p, want);
    }
    return st;
}

static int by_task(const void *a, const void *b)
{
    const struct psi_saved_file *x = a;
    const struct psi_saved_file *y = b;
    int order = strcmp(x->job, y->job);
    order = order != 0 ? order : (x->task > y->task) - (x->task < y->task);
    order = order != 0 ? order : (x->kind < y->kind) - (x->kind > y->kind); /* the state file comes first */
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static ps_status take_file(const ps_v1_FileItem *item, struct psi_saved_file *out, struct psi_err *err)
{
    bool good = (item->kind == PS_FILE_VALUES || item->kind == PS_FILE_STATE) &&
                PSI_BYTES_TEXT(item->job, out->job, sizeof(out->job)) == PS_OK &&
                PSI_BYTES_TEXT(item->container, out->container, sizeof(out->container)) == PS_OK;
    out->task = item->task;
    out->kind = item->kind;
    out->index = item->index;
    out->bytes = item->bytes;
    out->sum = item->sum;
    return good ? PS_OK : lost(err, "it names a file that cannot be");
}

static ps_status take_files(struct psi_saved *saved, struct psi_err *err)
{
    size_t n = 0;
    bool end = false;
    const uint8_t *at = psi_manifest_items(saved->manifest.data, saved->manifest.len, &n);
    ps_v1_FileItem item;
    ps_status st = psi_list_next(&at, &n, &ps_v1_SaveItem_msg, &saved->what, &end, err);
    saved->files = psi_calloc((size_t)saved->what.file_count + 1, sizeof(*saved->files));
    if (saved->files == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; st == PS_OK && i < saved->what.file_count; i++) { /* psi_manifest_check() has counted the entries */
        st = psi_list_next(&at, &n, &ps_v1_FileItem_msg, &item, &end, err);
        if (st == PS_OK && item.kind != PS_FILE_NOTE) {
            st = take_file(&item, &saved->files[saved->file_count++], err);
        }
    }
    qsort(saved->files, saved->file_count, sizeof(*saved->files), by_task);
    return st;
}

static ps_status read_manifest(const struct psi_saved_io *io, const struct psi_saved_file *of, uint64_t number,
                               struct psi_buf *out, ps_v1_SaveItem *what, struct psi_err *err)
{
    struct psi_saved_file file = *of;
    size_t got = MANIFEST_PIECE_BYTES;
    ps_status st = PS_OK;
    file.kind = PS_FILE_MANIFEST;
    psi_buf_clear(out);
    while (st == PS_OK && got == MANIFEST_PIECE_BYTES) {
        st = psi_buf_reserve(out, MANIFEST_PIECE_BYTES, err);
        st = st == PS_OK ? io->read(io->ctx, &file, out->len, out->data + out->len, MANIFEST_PIECE_BYTES, &got, err) : st;
        out->len += st == PS_OK ? got : 0;
    }
    st = st == PS_OK ? psi_manifest_check(NULL, out->data, out->len, what, err) : st;
    return st == PS_OK && what->number != number ? lost(err, "it is that of another checkpoint") : st;
}

ps_status psi_saved_open(struct psi_saved *saved, uint64_t number, const struct psi_saved_io *io,
                         const struct psi_saved_file *tasks, size_t count, struct psi_err *err)
{
    memset(saved, 0, sizeof(*saved));
    psi_manifest_init(&saved->manifest);
    ps_status st = psi_fail(err, PS_NOT_FOUND, "no task has a manifest of checkpoint %llu", (unsigned long long)number);
    for (size_t i = 0; i < count; i++) {
        struct psi_err own = {.code = PS_OK};
        ps_status one = read_manifest(io, &tasks[i], number, &saved->manifest, &saved->what, &own);
        if (one == PS_OK) {
            return take_files(saved, err);
        }
        if (one != PS_NOT_FOUND && st == PS_NOT_FOUND) { /* of all errors report the first that says more than NOT_FOUND */
            st = one;
            *err = own;
            psi_err_prefix(err, "checkpoint %llu: the manifest of /job:%s/task:%u", (unsigned long long)number, tasks[i].job,
                           tasks[i].task);
        }
    }
    return st;
}

void psi_saved_close(struct psi_saved *saved)
{
    psi_buf_fini(&saved->manifest);
    psi_free(saved->files);
    saved->files = NULL;
}

struct state_reading {
    const struct psi_saved *saved;
    const struct psi_saved_file *file;
    struct psi_saved_state *out;
    struct psi_u64_map by_creation; /* creation -> index + 1 */
    uint32_t version;               /* version of the file format */
};

static ps_status take_head(struct state_reading *r, struct psi_code *k, struct psi_err *err)
{
    struct psi_state_head h = {.magic = 0};
    char cluster[PS_JOB_BYTES_MAX + 1] = "";
    psi_state_head(k, &h);
    if (k->st != PS_OK || h.magic != PSI_STATE_MAGIC || h.version == 0 || h.number != r->saved->what.number) {
        return lost(err, "it is that of another checkpoint, or none");
    }
    if (h.version > PSI_STATE_VERSION) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "it was written by a newer psd, in format %u; this one reads up to %u",
                        h.version, PSI_STATE_VERSION);
    }
    r->version = h.version;
    bool same = PSI_BYTES_TEXT(r->saved->what.cluster_name, cluster, sizeof(cluster)) == PS_OK &&
                strcmp(cluster, h.cluster) == 0 && strcmp(h.job, r->file->job) == 0 && h.task == r->file->task;
    return same
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION, "it is that of /job:%s/task:%u of cluster '%s'", h.job, h.task, h.cluster);
}

static bool can_be(const struct psi_saved_variable *v)
{
    if (!psi_dtype_known((uint32_t)v->dtype) || psi_shape_check(&v->shape, NULL) != PS_OK ||
        psi_variable_name_check(v->name, strlen(v->name), NULL) != PS_OK || v->file == 0 ||
        psi_part_check(&v->part, v->dtype, &v->shape, v->name, NULL) != PS_OK ||
        psi_optimizer_check_shape(&v->optimizer, v->name, v->dtype, &v->shape, &v->part, NULL) != PS_OK) {
        return false;
    }
    uint64_t elements = (uint64_t)ps_shape_elements(&v->shape);
    return v->dtype == PS_STRING ? elements <= PS_STRING_ELEMENTS_MAX && psi_blob_size_check(v->bytes, elements, NULL) == PS_OK
                                 : v->bytes == elements * ps_dtype_bytes(v->dtype);
}

static ps_status take_container(struct psi_saved_state *s, const char *name, struct psi_err *err)
{
    if (s->container_count > 0 && strcmp(s->containers[s->container_count - 1].name, name) == 0) {
        return PS_OK;
    }
    struct psi_saved_container *all = psi_grow(s->containers, s->container_count, &s->container_capacity, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    s->containers = all;
    (void)snprintf(all[s->container_count++].name, sizeof(all->name), "%s", name);
    return PS_OK;
}

static ps_status take_variable(struct state_reading *r, struct psi_code *k, struct psi_err *err)
{
    struct psi_saved_state *s = r->out;
    struct psi_state_variable x = {.container = NULL};
    psi_state_variable(k, &x);
    if (k->st != PS_OK) {
        return k->st;
    }
    struct psi_saved_variable v = {.dtype = (ps_dtype)x.dtype,
                                   .shape = x.shape,
                                   .optimizer = x.optimizer,
                                   .atomic = x.atomic,
                                   .part = x.part,
                                   .order = x.order,
                                   .file = x.file,
                                   .creation = x.creation,
                                   .bytes = x.bytes,
                                   .version = x.version,
                                   .array_count = 1};
    bool has_value = !x.queue && x.initialised;
    psi_part_whole_name(&v.part, x.name, v.whole);
    memcpy(v.container, x.container, strlen(x.container) + 1);
    memcpy(v.name, x.name, strlen(x.name) + 1);
    memcpy(v.powers, x.powers, sizeof(v.powers));
    if (has_value && !can_be(&v)) {
        return lost(err, "a variable that cannot be");
    }
    ps_status st = take_container(s, v.container, err);
    if (st != PS_OK || !has_value) {
        return st;
    }
    while (psi_optimizer_slot(&v.optimizer, v.array_count - 1) != NULL) {
        v.array_count++;
    }
    struct psi_saved_variable *all = psi_grow(s->variables, s->variable_count, &s->variable_capacity, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    s->variables = all;
    all[s->variable_count++] = v;
    void *old = NULL;
    st = psi_u64_map_put(&r->by_creation, v.creation, (void *)(uintptr_t)s->variable_count, &old, err);
    return st == PS_OK && old != NULL ? lost(err, "a variable comes twice") : st;
}

static ps_status take_values_file(struct state_reading *r, struct psi_code *k, struct psi_err *err)
{
    struct psi_saved_state *s = r->out;
    struct psi_state_file x = {.file = 0};
    psi_state_file(k, &x);
    if (k->st != PS_OK || x.file != s->file_count + 1 || x.header_bytes <= PSI_SAFETENSORS_PREFIX ||
        x.header_bytes > PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX || x.header_bytes > x.bytes) {
        return lost(err, "a file that cannot be");
    }
    struct psi_saved_values *all = psi_grow(s->files, s->file_count, &s->file_capacity, sizeof(*all));
    if (all == NULL) {
        return no_memory(err);
    }
    s->files = all;
    struct psi_saved_values *f = &all[s->file_count++];
    *f = (struct psi_saved_values){.bytes = x.bytes, .header_bytes = x.header_bytes, .header_sum = x.header_sum};
    memcpy(f->container, x.container, strlen(x.container) + 1);
    return PS_OK;
}

static ps_shape shape_of(const struct psi_saved_variable *v, uint32_t which)
{
    return which == 0 ? v->shape : psi_slot_shape(psi_optimizer_slot(&v->optimizer, which - 1), &v->shape);
}

static uint64_t bytes_of(const struct psi_saved_variable *v, uint32_t which)
{
    const ps_shape shape = shape_of(v, which);
    return which == 0 ? v->bytes : (uint64_t)ps_shape_elements(&shape) * ps_dtype_bytes(v->dtype);
}

static uint64_t blocks_of(const struct psi_saved_variable *v, uint32_t which)
{
    return (bytes_of(v, which) + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

static ps_status take_sums(struct state_reading *r, struct psi_code *k, struct psi_err *err)
{
    struct psi_state_sums x = {.creation = 0};
    psi_state_sums(k, &x);
    uintptr_t index = k->st != PS_OK ? 0 : (uintptr_t)psi_u64_map_find(&r->by_creation, x.creation);
    struct psi_saved_variable *v = index == 0 ? NULL : &r->out->variables[index - 1];
    if (v == NULL || x.which >= v->array_count) {
        return lost(err, "CRCs of no value");
    }
    struct psi_saved_array *a = &v->arrays[x.which];
    if (x.first != a->sum_count || x.count > blocks_of(v, x.which) - x.first) {
        return lost(err, "CRCs out of their order");
    }
    if (a->sums == NULL) {
        a->sums = psi_malloc(blocks_of(v, x.which) * sizeof(*a->sums));
    }
    if (a->sums == NULL) {
        return no_memory(err);
    }
    memcpy(a->sums + x.first, x.sums, x.count * sizeof(*a->sums));
    a->sum_count += x.count;
    return PS_OK;
}

static ps_status take_entry(void *ctx, const struct psi_state_entry *e, struct psi_err *err)
{
    struct state_reading *r = ctx;
    struct psi_code k = {.in = e->data, .bytes_left = e->bytes, .version = r->version, .what = "an entry", .err = err};
    ps_status st = PS_OK;
    switch (e->kind) {
    case PSI_STATE_HEAD:
        st = take_head(r, &k, err);
        break;
    case PSI_STATE_VARIABLE:
        st = take_variable(r, &k, err);
        break;
    case PSI_STATE_FILE:
        st = take_values_file(r, &k, err);
        break;
    case PSI_STATE_SUMS:
        st = take_sums(r, &k, err);
        break;
    default: /* psctl, which verifies and exports, needs no other kinds of entries */
        return psi_state_kind_known(e->kind) ? PS_OK : lost(err, "an entry of a kind that is not known");
    }
    psi_code_over(&k);
    return st == PS_OK ? k.st : st;
}

static ps_status check_state(const struct psi_saved_state *s, struct psi_err *err)
{
    for (size_t i = 0; i < s->variable_count; i++) {
        const struct psi_saved_variable *v = &s->variables[i];
        bool good = v->file <= s->file_count && strcmp(s->files[v->file - 1].container, v->container) == 0;
        for (uint32_t k = 0; good && k < v->array_count; k++) {
            good = v->arrays[k].sum_count == blocks_of(v, k);
        }
        if (!good) {
            return lost(err, "a value without its file or its CRCs");
        }
    }
    return PS_OK;
}

void psi_saved_state_fini(struct psi_saved_state *s)
{
    for (size_t i = 0; i < s->variable_count; i++) {
        for (uint32_t k = 0; k <= PSI_OPTIMIZER_SLOTS_MAX; k++) {
            psi_free(s->variables[i].arrays[k].sums);
        }
    }
    psi_free(s->variables);
    psi_free(s->files);
    psi_free(s->containers);
    memset(s, 0, sizeof(*s));
}

static ps_status read_blocks(struct state_reading *r, struct psi_state_reader *reader, struct pieces *p, struct psi_err *err)
{
    size_t got = PIECE_BYTES;
    ps_status st = PS_OK;
    while (st == PS_OK && got > 0) {
        st = pieces_next(p, PIECE_BYTES, &got, err);
        for (size_t at = 0; st == PS_OK && at < got; at += PSI_STATE_BLOCK_BYTES) {
            st = psi_state_block(reader, p->memory + at, take_entry, r, err);
        }
    }
    if (st == PS_OK && !psi_state_is(reader, r->file->sum)) {
        return lost(err, "it is not the one that the manifest names: its CRC is another one");
    }
    return st;
}

ps_status psi_saved_state_read(const struct psi_saved *saved, const struct psi_saved_io *io, const struct psi_saved_file *file,
                               struct psi_saved_state *out, struct psi_err *err)
{
    struct state_reading r = {.saved = saved, .file = file, .out = out};
    struct psi_state_reader reader;
    struct pieces p;
    memset(out, 0, sizeof(*out));
    psi_u64_map_init(&r.by_creation, io->map_seed);
    ps_status st = pieces_begin(&p, io, file, err);
    ps_status begun = psi_state_begin(&reader, file->bytes, st == PS_OK ? err : NULL);
    st = st == PS_OK ? begun : st;
    st = st == PS_OK ? read_blocks(&r, &reader, &p, err) : st;
    st = st == PS_OK ? check_state(out, err) : st;
    psi_state_fini(&reader);
    psi_u64_map_fini(&r.by_creation);
    psi_free(p.memory);
    return st;
}

struct tensor {
    const struct psi_tensor *is;
    struct psi_saved_variable *variable;
    uint32_t which;
    /* where the tensor's bytes begin in the array: 0; for a string variable's characters: after the offsets (common/blob.h) */
    uint64_t from;
};

static int by_begin(const void *a, const void *b)
{
    const struct psi_tensor *x = ((const struct tensor *)a)->is;
    const struct psi_tensor *y = ((const struct tensor *)b)->is;
    int order = (x->begin > y->begin) - (x->begin < y->begin);
    return order != 0 ? order : (x->end > y->end) - (x->end < y->end);
}

/* Find which array of variable v a tensor holds. suffix: what follows the colon in the tensor's name: a slot; "": the value. */
static bool find_place(const struct psi_saved_variable *v, const char *suffix, struct tensor *out)
{
    uint64_t offsets = ((uint64_t)ps_shape_elements(&v->shape) + 1) * 8;
    out->which = 0;
    out->from = 0;
    if (v->dtype == PS_STRING) {
        bool text = strcmp(suffix, "bytes") == 0;
        out->from = text ? offsets : 0;
        const uint64_t bytes = text ? v->bytes - offsets : offsets;
        if (!text && strcmp(suffix, "offsets") != 0) {
            return false;
        }
        return out->is->end - out->is->begin == bytes;
    }
    while (suffix[0] != '\0' &&
           (out->which == 0 || strcmp(suffix, psi_optimizer_slot(&v->optimizer, out->which - 1)->name) != 0)) {
        out->which++;
        if (out->which == v->array_count) {
            return false;
        }
    }
    const ps_shape shape = shape_of(v, out->which);
    return out->is->type->dtype == v->dtype && psi_shape_equal(&out->is->shape, &shape) &&
           out->is->end - out->is->begin == bytes_of(v, out->which);
}

/* List the file's tensors in out, by offset, each with its variable in the state. Fails if a tensor has no variable. */
static ps_status deal(const struct psi_saved_io *io, const struct psi_safetensors *table, struct psi_saved_state *state,
                      uint32_t file, struct tensor *out, struct psi_err *err)
{
    struct psi_map names;
    ps_status st = PS_OK;
    psi_map_init(&names, io->map_seed);
    for (size_t i = 0; st == PS_OK && i < state->variable_count; i++) {
        struct psi_saved_variable *v = &state->variables[i];
        st = v->file == file ? psi_map_put(&names, v->name, strlen(v->name), v, NULL, err) : PS_OK;
    }
    for (size_t i = 0; st == PS_OK && i < table->tensor_count; i++) {
        const char *name = table->tensors[i].name;
        size_t length = strcspn(name, ":");
        out[i] = (struct tensor){.is = &table->tensors[i], .variable = psi_map_find(&names, name, length)};
        if (out[i].variable == NULL || !find_place(out[i].variable, name[length] == '\0' ? "" : name + length + 1, &out[i])) {
            st = psi_fail(err, PS_DATA_LOSS, "tensor '%s' is not the one that the state file has", name);
        }
    }
    psi_map_fini(&names);
    qsort(out, st == PS_OK ? table->tensor_count : 0, sizeof(*out), by_begin);
    return st;
}

static ps_status feed(const struct tensor *t, const uint8_t *p, size_t n, struct psi_err *err)
{
    const struct psi_saved_variable *v = t->variable;
    struct psi_saved_array *a = &t->variable->arrays[t->which];
    while (n > 0) {
        size_t room = BLOCK_BYTES - a->at % BLOCK_BYTES;
        size_t k = n < room ? n : room;
        a->sum = psi_crc32c(a->sum, p, k);
        a->at += k;
        p += k;
        n -= k;
        bool whole = a->at % BLOCK_BYTES == 0 || a->at == bytes_of(v, t->which);
        if (whole && a->sum != a->sums[(a->at - 1) / BLOCK_BYTES]) {
            return psi_fail(err, PS_DATA_LOSS, "'%s': block %llu is not as it was written", t->is->name,
                            (unsigned long long)((a->at - 1) / BLOCK_BYTES));
        }
        a->sum = whole ? 0 : a->sum;
    }
    return PS_OK;
}

struct values_reading {
    struct tensor *tensors;
    size_t count, next;
    uint64_t at;
    uint64_t run_end; /* end of the range that is read without a gap; then next_run() finds the next range */
    psi_saved_wanted_fn wanted;
    psi_saved_sink_fn sink;
    void *ctx;
};

static bool is_wanted(const struct values_reading *r, const struct tensor *t)
{
    return r->wanted == NULL || r->wanted(r->ctx, t->variable, t->which);
}

static ps_status take_piece(struct values_reading *r, const uint8_t *p, size_t n, struct psi_err *err)
{
    ps_status st = PS_OK;
    while (st == PS_OK && n > 0) {
        while (r->tensors[r->next].is->end == r->at) { /* skip tensors that end here; there are no gaps, so another one follows */
            r->next++;
        }
        struct tensor *t = &r->tensors[r->next];
        uint64_t in = t->from + (r->at - t->is->begin);
        uint64_t left = t->is->end - r->at;
        size_t k = n < left ? n : (size_t)left;
        if (in != t->variable->arrays[t->which].at) {
            return psi_fail(err, PS_DATA_LOSS, "tensor '%s' is not where it should be", t->is->name);
        }
        if (is_wanted(r, t)) {
            st = feed(t, p, k, err);
            st = st == PS_OK && r->sink != NULL ? r->sink(r->ctx, t->variable, t->which, in, p, k, err) : st;
        } else {
            t->variable->arrays[t->which].at += k;
        }
        r->at += k;
        p += k;
        n -= k;
    }
    return st;
}

/* Skip unwanted values, and set run_end to how far is to be read next: wanted values, and gaps of up to SKIPPED_BYTES. */
static void next_run(struct values_reading *r, struct pieces *p)
{
    uint64_t began = r->at;
    for (; r->next < r->count; r->next++) {
        const struct tensor *t = &r->tensors[r->next];
        if (t->is->end > r->at && is_wanted(r, t)) {
            break;
        }
        t->variable->arrays[t->which].at += t->is->end - r->at;
        r->at = t->is->end;
    }
    if (r->at > began) {
        pieces_pass(p, r->at - began);
    }
    r->run_end = r->at;
    for (size_t i = r->next; i < r->count && r->tensors[i].is->begin <= r->run_end + SKIPPED_BYTES; i++) {
        if (is_wanted(r, &r->tensors[i])) {
            r->run_end = r->tensors[i].is->end;
        }
    }
}

static ps_status check_all_read(const struct psi_saved_state *state, uint32_t file, struct psi_err *err)
{
    for (size_t i = 0; i < state->variable_count; i++) {
        const struct psi_saved_variable *v = &state->variables[i];
        for (uint32_t k = 0; v->file == file && k < v->array_count; k++) {
            if (v->arrays[k].at != bytes_of(v, k)) {
                return psi_fail(err, PS_DATA_LOSS, "variable '%s' of the state file is not in it", v->name);
            }
        }
    }
    return PS_OK;
}

static ps_status read_header(struct pieces *p, const struct psi_saved_values *is, struct psi_safetensors *table,
                             struct psi_err *err)
{
    struct psi_buf header;
    uint64_t length = 0;
    ps_status st = PS_OK;
    psi_buf_init(&header, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    while (st == PS_OK && header.len < is->header_bytes) {
        uint64_t left = is->header_bytes - header.len;
        size_t got = 0;
        st = pieces_next(p, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, &got, err);
        st = st == PS_OK ? psi_buf_append(&header, p->memory, got, err) : st;
    }
    if (st == PS_OK && psi_crc32c(0, header.data, header.len) != is->header_sum) {
        st = lost(err, "its header is not as it was written");
    }
    st = st == PS_OK ? psi_safetensors_length(header.data, is->bytes, &length, err) : st;
    if (st == PS_OK && length != is->header_bytes - PSI_SAFETENSORS_PREFIX) {
        st = lost(err, "its header has another length");
    }
    if (st == PS_OK) {
        const struct psi_tensor_reader reader = {.map_seed = {p->io->map_seed[0], p->io->map_seed[1]}};
        st = psi_safetensors_decode((const char *)header.data + PSI_SAFETENSORS_PREFIX, length, is->bytes, &reader, table, err);
    }
    psi_buf_fini(&header);
    return st;
}

static ps_status read_values(struct pieces *p, struct psi_saved_state *state, struct values_reading *r,
                             const struct psi_safetensors *table, struct psi_err *err)
{
    uint32_t file = p->file->index + 1;
    size_t got = PIECE_BYTES;
    r->count = table->tensor_count;
    r->tensors = psi_calloc(r->count + 1, sizeof(*r->tensors));
    ps_status st = r->tensors == NULL ? no_memory(err) : deal(p->io, table, state, file, r->tensors, err);
    while (st == PS_OK && got > 0) {
        if (r->at == r->run_end) {
            next_run(r, p);
        }
        uint64_t left = r->run_end - r->at; /* 0: the file should end here */
        st = pieces_next(p, left > 0 && left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, &got, err);
        st = st == PS_OK ? take_piece(r, p->memory, got, err) : st;
    }
    psi_free(r->tensors);
    return st == PS_OK ? check_all_read(state, file, err) : st;
}

ps_status psi_saved_values_read(const struct psi_saved_io *io, const struct psi_saved_file *file, struct psi_saved_state *state,
                                psi_saved_wanted_fn wanted, psi_saved_sink_fn sink, void *ctx, struct psi_err *err)
{
    const struct psi_saved_values *is = file->index < state->file_count ? &state->files[file->index] : NULL;
    struct values_reading r = {.wanted = wanted, .sink = sink, .ctx = ctx};
    struct psi_safetensors table = {0};
    struct pieces p;
    if (is == NULL || is->bytes != file->bytes || is->header_sum != file->sum || strcmp(is->container, file->container) != 0) {
        return lost(err, "it is not the one that the state file has: its length, its container or the CRC of its header differs");
    }
    ps_status st = pieces_begin(&p, io, file, err);
    st = st == PS_OK ? read_header(&p, is, &table, err) : st;
    st = st == PS_OK ? read_values(&p, state, &r, &table, err) : st;
    psi_safetensors_fini(&table);
    psi_free(p.memory);
    return st;
}

struct verifying {
    const struct psi_saved *saved;
    const struct psi_saved_io *io;
    psi_saved_bad_fn bad;
    void *ctx;
    uint32_t count;
};

bool psi_saved_is_away(ps_status st)
{
    return st == PS_UNAVAILABLE || st == PS_DEADLINE_EXCEEDED;
}

static void say(struct verifying *v, const struct psi_saved_file *file, const struct psi_err *err)
{
    v->count += psi_saved_is_away(err->code) ? 0 : 1;
    v->bad(v->ctx, file, err);
}

static ps_status verify_manifest(struct verifying *v, const struct psi_saved_file *of)
{
    const struct psi_buf *whole = &v->saved->manifest;
    struct psi_saved_file file = *of;
    struct psi_err err = {.code = PS_OK};
    struct psi_buf own;
    ps_v1_SaveItem what;
    psi_manifest_init(&own);
    file.kind = PS_FILE_MANIFEST;
    ps_status st = read_manifest(v->io, of, v->saved->what.number, &own, &what, &err);
    if (st == PS_OK && (own.len != whole->len || memcmp(own.data, whole->data, own.len) != 0)) {
        st = lost(&err, "it is another one than at other tasks");
    }
    if (st != PS_OK) {
        say(v, &file, &err);
    }
    psi_buf_fini(&own);
    return st;
}

static void verify_task(struct verifying *v, const struct psi_saved_file *files, size_t count)
{
    struct psi_saved_state state = {.variable_count = 0};
    struct psi_err err = {.code = PS_OK};
    if (psi_saved_is_away(verify_manifest(v, &files[0]))) {
        return;
    }
    ps_status st = files[0].kind == PS_FILE_STATE ? psi_saved_state_read(v->saved, v->io, &files[0], &state, &err)
                                                  : lost(&err, "the manifest names no state file");
    if (st != PS_OK) {
        say(v, &files[0], &err);
    }
    bool away = psi_saved_is_away(st);
    for (size_t i = 1; i < count && !away; i++) {
        err = (struct psi_err){.code = PS_OK};
        ps_status one = st == PS_OK ? psi_saved_values_read(v->io, &files[i], &state, NULL, NULL, NULL, &err)
                                    : psi_fail(&err, PS_DATA_LOSS, "it cannot be verified: its CRCs are in the state file");
        if (one != PS_OK) {
            say(v, &files[i], &err);
        }
        away = psi_saved_is_away(one);
    }
    psi_saved_state_fini(&state);
}

uint32_t psi_saved_verify(const struct psi_saved *saved, const struct psi_saved_io *io, psi_saved_bad_fn bad, void *ctx)
{
    struct verifying v = {.saved = saved, .io = io, .bad = bad, .ctx = ctx};
    for (size_t i = 0, n = 0; i < saved->file_count; i += n) {
        const struct psi_saved_file *files = &saved->files[i];
        n = 1;
        while (i + n < saved->file_count && files[n].task == files[0].task && strcmp(files[n].job, files[0].job) == 0) {
            n++;
        }
        verify_task(&v, files, n);
    }
    return v.count;
}
