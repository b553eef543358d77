/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of a checkpoint: see load.h. Happy path: the blocks of the state file are read and compared with their CRCs, and
 * their entries fill the task -> for each file of values: the header is read, then values and slots, and compared with CRCs. */
#include "load.h"

#include "cut_internal.h"

#include "mutate.h"
#include "psd/state.h"

#include "common/blob.h"
#include "common/crc32c.h"
#include "common/mem.h"
#include "common/safetensors.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>

#define PIECE_BYTES ((uint64_t)4 << 20) /* bytes read at a time: 64 blocks of a value */

/* A value or a slot. */
struct array {
    uint32_t *sums; /* CRC of each of its blocks, from the state file */
    uint64_t sum_count;
    uint8_t *memory;
    uint64_t bytes;
    const struct psi_tensor *tensor[2]; /* strings: [0]: the offsets, [1]: the texts; otherwise [0]: the array, [1] unused */
};

struct values {
    const struct psd_variable *variable;
    uint32_t file;
    uint32_t array_count;
    struct array arrays[1 + PSD_OPTIM_SLOTS_MAX];
    struct values *next; /* next variable in the same file */
};

struct file {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes, header_bytes; /* bytes: length of the file; header_bytes: of its header, with prefix and padding */
    uint32_t header_sum;
    struct values *first, *last;
};

struct piece {
    uint64_t bytes;
    const struct psd_variable *variable;
    const struct array *array; /* value or slot that the piece belongs to; NULL: the piece is of a header or of the state file */
    uint64_t at;               /* offset in the tensor at which the read begins */
    bool blob_ends;            /* strings: after this piece all offsets and texts of the array are read */
    uint32_t sums[PIECE_BYTES / PSD_CUT_BLOCK_BYTES];
};

enum stage { BLOCKS, STATE_END, HEADER, VALUES, VALUES_END, DONE };

struct psd_load {
    struct psd_task *task;
    struct psd_load_options o;
    uint64_t budget_bytes;      /* memory budget of the task, checked once the state file is read */
    char of[PSI_TASK_NAME_MAX]; /* name of the task that wrote the checkpoint */
    enum stage stage;
    struct piece wanted[PSD_LOAD_WANTED_MAX]; /* ring of the reads under way; the oldest is at wanted_first */
    uint32_t wanted_first, wanted_count;
    uint8_t *block;
    struct psi_state_reader state;
    bool entry_failed; /* reading an entry failed, and the error already names the checkpoint */
    uint32_t version;  /* format of the state file */
    struct file *files;
    size_t file_count, file_capacity;
    struct psi_u64_map variables; /* creation -> struct values */
    size_t file;                  /* index of the file that is being read */
    struct psi_buf header;
    struct psi_safetensors table; /* tensors in the header of the file */
    struct psi_map tensors;       /* name -> struct psi_tensor of the table */
    /* next variable whose value and slots are to be read; NULL: all reads of the file have been given out */
    struct values *values;
    uint32_t array, tensor;
    uint64_t at;
    uint8_t behind; /* each file is read one byte beyond its expected end, into this: if the byte exists, the load fails */
};

static bool in_state(const struct psd_load *l)
{
    return l->stage == BLOCKS || l->stage == STATE_END;
}

static ps_status lost(const struct psd_load *l, struct psi_err *err, const char *why)
{
    char file[40];
    PSI_IGNORE(snprintf(file, sizeof(file), "model-%05u.safetensors", (uint32_t)l->file)); /* fits */
    return psi_fail(err, PS_DATA_LOSS, "checkpoint %llu of %s: %s: %s", (unsigned long long)l->o.number, l->of,
                    in_state(l) ? "its state file" : file, why);
}

static void prefix(const struct psd_load *l, struct psi_err *err)
{
    psi_err_prefix(err, "checkpoint %llu of %s: its state file", (unsigned long long)l->o.number, l->of);
}

static ps_status no_memory(const struct psd_load *l, struct psi_err *err)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "checkpoint %llu of %s: no memory to load it", (unsigned long long)l->o.number,
                    l->of);
}

ps_status psd_load_new(struct psd_task *empty, const struct psd_load_options *o, struct psd_load **out, struct psi_err *err)
{
    static const uint64_t seed[2] = {1, 2}; /* fixed seeds suffice, because the keys come from a checkpoint */
    struct psd_load *l = psi_calloc(1, sizeof(*l));
    uint8_t *block = psi_malloc(PSI_STATE_BLOCK_BYTES);
    if (l == NULL || block == NULL) {
        psi_free(l);
        psi_free(block);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "checkpoint %llu: no memory to load it", (unsigned long long)o->number);
    }
    l->task = empty;
    l->o = *o;
    l->budget_bytes = empty->store.budget_bytes;
    psd_store_set_budget(&empty->store, UINT64_MAX / 2);
    l->block = block;
    PSI_IGNORE(psi_task_name_format(l->of, sizeof(l->of), empty->config.job, /* returns l->of */
                                    o->writer != 0 ? o->writer - 1 : empty->config.task));
    psi_buf_init(&l->header, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    psi_u64_map_init(&l->variables, seed);
    psi_map_init(&l->tensors, seed);
    ps_status st = psi_state_begin(&l->state, o->state_bytes, err);
    if (st != PS_OK) {
        prefix(l, err);
        psd_load_free(l);
        return st;
    }
    *out = l;
    return PS_OK;
}

static void values_free(struct values *v)
{
    for (uint32_t i = 0; v != NULL && i <= PSD_OPTIM_SLOTS_MAX; i++) {
        psi_free(v->arrays[i].sums);
    }
    psi_free(v);
}

static void table_free(struct psd_load *l)
{
    psi_map_fini(&l->tensors);
    psi_safetensors_fini(&l->table);
    psi_buf_fini(&l->header);
}

void psd_load_free(struct psd_load *l)
{
    uint64_t cursor = 0;
    void *value = NULL;
    if (l == NULL) {
        return;
    }
    while (psi_u64_map_next(&l->variables, &cursor, NULL, &value)) {
        values_free(value);
    }
    psi_u64_map_fini(&l->variables);
    table_free(l);
    psi_free(l->files);
    psi_state_fini(&l->state);
    psi_free(l->block);
    psi_free(l);
}

bool psd_load_is_done(const struct psd_load *l)
{
    return l->stage == DONE;
}

static ps_status check_head(struct psd_load *l, const struct psi_state_head *h, struct psi_err *err)
{
    const struct psd_task *t = l->task;
    if (h->magic != PSI_STATE_MAGIC || h->version == 0 || h->number != l->o.number) {
        return lost(l, err, "it is that of another checkpoint, or none");
    }
    if (h->version > PSI_STATE_VERSION) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "checkpoint %llu of %s was written by a newer psd, in format %u; this one reads up to %u",
                        (unsigned long long)l->o.number, t->name, h->version, PSI_STATE_VERSION);
    }
    l->version = h->version;
    if (strcmp(h->cluster, t->cluster.name) != 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is that of cluster '%s', %s is of cluster '%s'",
                        (unsigned long long)l->o.number, h->cluster, t->name, t->cluster.name);
    }
    bool same = strcmp(h->job, t->config.job) == 0 && h->task == (l->o.writer != 0 ? l->o.writer - 1 : t->config.task);
    return same ? PS_OK
                : psi_fail(err, PS_FAILED_PRECONDITION, "checkpoint %llu is that of /job:%s/task:%u, not of %s",
                           (unsigned long long)l->o.number, h->job, h->task, l->of);
}

/* Note that the value and slots of v must be read from this file. */
static void expect_values(struct psd_load *l, struct psi_code *k, const struct psd_variable *v, uint32_t file)
{
    struct values *of = psi_calloc(1, sizeof(*of));
    if (of == NULL || psi_u64_map_put(&l->variables, v->creation, of, NULL, NULL) != PS_OK) {
        psi_free(of);
        k->st = no_memory(l, k->err);
        return;
    }
    of->variable = v;
    of->file = file;
    of->array_count = 1 + psd_optim_slot_count(&v->optimizer);
    for (uint32_t i = 0; i < of->array_count; i++) {
        of->arrays[i].bytes = psd_variable_bytes_of(v, i);
    }
    if (l->o.random != NULL) {
        psd_variable_own(v)->restored = true;
    }
}

static uint64_t sum_count(uint64_t bytes)
{
    return (bytes + PSD_CUT_BLOCK_BYTES - 1) / PSD_CUT_BLOCK_BYTES;
}

static void take_sums(struct psd_load *l, struct psi_code *k)
{
    struct psi_state_sums s = {.creation = 0};
    psi_state_sums(k, &s);
    struct values *of = k->st == PS_OK ? psi_u64_map_find(&l->variables, s.creation) : NULL;
    if (of == NULL || s.which >= of->array_count) {
        psi_code_wrong(k, "CRCs of no value");
        return;
    }
    struct array *a = &of->arrays[s.which];
    if (s.first != a->sum_count || s.count > sum_count(a->bytes) - s.first) {
        psi_code_wrong(k, "CRCs out of their order");
        return;
    }
    if (a->sums == NULL) {
        a->sums = psi_malloc(sum_count(a->bytes) * sizeof(*a->sums));
    }
    if (a->sums == NULL) {
        k->st = no_memory(l, k->err);
        return;
    }
    memcpy(a->sums + s.first, s.sums, s.count * sizeof(*a->sums));
    a->sum_count += s.count;
}

static void take_file(struct psd_load *l, struct psi_code *k)
{
    struct psi_state_file f = {.file = 0};
    psi_state_file(k, &f);
    if (k->st != PS_OK || f.file != l->file_count + 1 || l->file_count > PSD_DISK_INDEX_MAX ||
        f.header_bytes <= PSI_SAFETENSORS_PREFIX || f.header_bytes > l->header.max || f.header_bytes > f.bytes) {
        psi_code_wrong(k, "a file that cannot be");
        return;
    }
    struct file *files = psi_grow(l->files, l->file_count, &l->file_capacity, sizeof(*files));
    if (files == NULL) {
        k->st = no_memory(l, k->err);
        return;
    }
    l->files = files;
    struct file *to = &files[l->file_count++];
    *to = (struct file){.bytes = f.bytes, .header_bytes = f.header_bytes, .header_sum = f.header_sum};
    memcpy(to->container, f.container, strlen(f.container) + 1);
}

static void entry(struct psd_load *l, struct psi_code *k, enum psi_state_kind kind)
{
    struct psi_state_head h = {.magic = 0};
    const struct psd_variable *v = NULL;
    uint32_t file = 0;
    switch (kind) {
    case PSI_STATE_HEAD:
        psi_state_head(k, &h);
        k->st = k->st == PS_OK ? check_head(l, &h, k->err) : k->st;
        break;
    case PSI_STATE_VARIABLE:
        v = psd_entry_take_variable(k, l->task, &file);
        if (k->st == PS_OK && v->initialised) {
            expect_values(l, k, v, file);
        }
        break;
    case PSI_STATE_FILE:
        take_file(l, k);
        break;
    case PSI_STATE_SUMS:
        take_sums(l, k);
        break;
    default:
        psd_entry_take(k, l->task, kind);
        break;
    }
    psi_code_over(k);
}

static ps_status take_entry(void *ctx, const struct psi_state_entry *e, struct psi_err *err)
{
    struct psd_load *l = ctx;
    struct psi_code k = {.in = e->data, .bytes_left = e->bytes, .version = l->version, .what = "a state file", .err = err};
    entry(l, &k, e->kind);
    l->entry_failed = k.st != PS_OK;
    return k.st;
}

static void begin_file(struct psd_load *l)
{
    table_free(l);
    while (l->o.deal.tasks > 0 && l->file < l->file_count && l->files[l->file].first == NULL) {
        l->file++; /* the file has no value for this task */
    }
    l->stage = l->file < l->file_count ? HEADER : DONE;
    l->values = l->stage == HEADER ? l->files[l->file].first : NULL;
    l->array = l->tensor = 0;
    l->at = 0;
}

static void leave_out(void *ctx, const struct psd_variable *v)
{
    struct psd_load *l = ctx;
    values_free(psi_u64_map_remove(&l->variables, v->creation));
    psd_variable_own(v)->initialised = false; /* v has no value here, because another task loads it */
    psd_variable_drop(&l->task->store, psd_variable_own(v));
}

/* Drop the variables that go to other tasks, and allocate memory for values and slots of the others, within the task's budget. */
static ps_status take_memory(struct psd_load *l, struct psi_err *err)
{
    struct psd_store *s = &l->task->store;
    uint64_t cursor = 0;
    void *value = NULL;
    ps_status st = l->o.deal.tasks > 0 ? psd_deal(s, &l->o.deal, leave_out, l, err) : PS_OK;
    const uint64_t before = l->o.had_bytes + l->o.live_bytes;
    psd_store_set_budget(s, before < l->budget_bytes ? l->budget_bytes - before : 0);
    if (st == PS_OK && s->budget_lowered) {
        char beside[96] = "";
        if (l->o.live_bytes > 0) {
            PSI_IGNORE(snprintf(beside, sizeof(beside), " beside the %llu that live there",
                                (unsigned long long)l->o.live_bytes)); /* fits */
        }
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED,
                      "%s would have %llu bytes with what it gets of it%s; its memory budget is %llu bytes (psd --memory_budget)",
                      l->task->name, (unsigned long long)(l->o.had_bytes + psd_store_taken(s)), beside,
                      (unsigned long long)l->budget_bytes);
    }
    while (st == PS_OK && psi_u64_map_next(&l->variables, &cursor, NULL, &value)) {
        struct values *of = value;
        st = psd_entry_value(s, of->variable, err);
        for (uint32_t i = 0; st == PS_OK && i < of->array_count; i++) {
            of->arrays[i].memory = i == 0 ? of->variable->value : of->variable->slots[i - 1];
        }
    }
    psi_err_prefix(st == PS_OK ? NULL : err, "checkpoint %llu of %s", (unsigned long long)l->o.number, l->of);
    return st;
}

/* Make for each file the list of the variables whose values are in it. DATA_LOSS: a variable's file or CRC is missing. */
static ps_status deal_values(struct psd_load *l, struct psi_err *err)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&l->variables, &cursor, NULL, &value)) {
        struct values *v = value;
        bool known =
            v->file > 0 && v->file <= l->file_count && strcmp(l->files[v->file - 1].container, v->variable->container->name) == 0;
        for (uint32_t i = 0; known && i < v->array_count; i++) {
            known = v->arrays[i].sum_count == sum_count(v->arrays[i].bytes);
        }
        if (!known) {
            return lost(l, err, "a value without its file or its CRCs");
        }
        struct file *f = &l->files[v->file - 1];
        *(f->first == NULL ? &f->first : &f->last->next) = v;
        f->last = v;
    }
    return PS_OK;
}

static void renew(struct psd_load *l)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (l->o.random != NULL && psi_map_next(&l->task->store.containers, &cursor, NULL, NULL, &value)) {
        struct psd_container *c = value;
        c->incarnation = l->o.random(l->o.random_ctx);
    }
}

static ps_status got_block(struct psd_load *l, struct psi_err *err)
{
    ps_status st = psi_state_block(&l->state, l->block, take_entry, l, err);
    if (st != PS_OK && !l->entry_failed) {
        prefix(l, err);
    }
    if (st != PS_OK || !psi_state_is_over(&l->state)) {
        return st;
    }
    bool named = l->o.state_sum == 0 || psi_state_is(&l->state, l->o.state_sum);
    psi_state_fini(&l->state);
    if (!named) {
        return lost(l, err, "it is whole, but not the one that the manifest names");
    }
    struct psi_code k = {.what = "a state file", .err = err};
    psd_entry_complete(&k, l->task);
    st = k.st == PS_OK ? take_memory(l, err) : k.st;
    st = st == PS_OK ? deal_values(l, err) : st;
    if (st == PS_OK) {
        renew(l);
        l->stage = STATE_END;
    }
    return st;
}

static ps_status got_header(struct psd_load *l, struct psi_err *err)
{
    const struct file *f = &l->files[l->file];
    uint64_t length = 0;
    if (l->header.len < f->header_bytes) {
        return PS_OK;
    }
    if (psi_crc32c(0, l->header.data, l->header.len) != f->header_sum) {
        return lost(l, err, "its header is not as it was written");
    }
    const char *text = (const char *)l->header.data + PSI_SAFETENSORS_PREFIX;
    ps_status st = psi_safetensors_length(l->header.data, f->bytes, &length, err);
    if (st == PS_OK && length != f->header_bytes - PSI_SAFETENSORS_PREFIX) {
        return lost(l, err, "its header has another length");
    }
    const uint64_t *seed = l->task->store.map_seed;
    const struct psi_tensor_reader reader = {.map_seed = {seed[0], seed[1]}};
    st = st == PS_OK ? psi_safetensors_decode(text, length, f->bytes, &reader, &l->table, err) : st;
    for (size_t i = 0; st == PS_OK && i < l->table.tensor_count; i++) {
        struct psi_tensor *t = &l->table.tensors[i];
        st = psi_map_put(&l->tensors, t->name, strlen(t->name), t, NULL, err);
    }
    l->stage = VALUES;
    return st;
}

/* The tensor with this name and length; NULL: there is none. */
static const struct psi_tensor *tensor(struct psd_load *l, const char *name, const char *suffix, uint64_t bytes)
{
    char whole[PS_NAME_BYTES_MAX + 40];
    PSI_IGNORE(snprintf(whole, sizeof(whole), "%s%s", name, suffix)); /* fits */
    const struct psi_tensor *t = psi_map_find(&l->tensors, whole, strlen(whole));
    return t != NULL && t->end - t->begin == bytes ? t : NULL;
}

static bool find_tensors(struct psd_load *l, struct values *of)
{
    const struct psd_variable *v = of->variable;
    uint64_t offsets = (v->elements + 1) * 8;
    if (v->dtype == PS_STRING) {
        of->arrays[0].tensor[0] = tensor(l, v->name, ":offsets", offsets);
        of->arrays[0].tensor[1] = tensor(l, v->name, ":bytes", v->bytes - offsets);
        return of->arrays[0].tensor[0] != NULL && of->arrays[0].tensor[1] != NULL;
    }
    for (uint32_t i = 0; i < of->array_count; i++) {
        char suffix[32] = "";
        ps_shape shape = psd_variable_shape(v);
        if (i > 0) {
            const struct psi_slot *slot = psi_optimizer_slot(&v->optimizer, i - 1);
            PSI_IGNORE(snprintf(suffix, sizeof(suffix), ":%s", slot->name)); /* fits */
            shape = psi_slot_shape(slot, &shape);
        }
        const struct psi_tensor *t = tensor(l, v->name, suffix, of->arrays[i].bytes);
        if (t == NULL || t->type->dtype != v->dtype || !psi_shape_equal(&t->shape, &shape)) {
            return false;
        }
        of->arrays[i].tensor[0] = t;
    }
    return true;
}

static bool blocks_good(const struct array *a)
{
    for (uint64_t at = 0; at < a->bytes; at += PSD_CUT_BLOCK_BYTES) {
        uint64_t left = a->bytes - at;
        if (psi_crc32c_far(0, a->memory + at, left < PSD_CUT_BLOCK_BYTES ? left : PSD_CUT_BLOCK_BYTES) !=
            a->sums[at / PSD_CUT_BLOCK_BYTES]) {
            return false;
        }
    }
    return true;
}

/* Compare values with the CRCs of the state file. Strings are compared once both offsets and texts are read. */
static ps_status got_values(struct psd_load *l, const struct piece *piece, struct psi_err *err)
{
    const struct psd_variable *v = piece->variable;
    const struct array *a = piece->array;
    bool good = true;
    char why[PS_NAME_BYTES_MAX + 64];
    if (a == NULL) {
        return lost(l, err, "a variable of the state is not in it");
    }
    if (v->dtype != PS_STRING) {
        const uint32_t *sums = a->sums + piece->at / PSD_CUT_BLOCK_BYTES;
        good = piece->bytes == 0 || memcmp(sums, piece->sums, sum_count(piece->bytes) * sizeof(*sums)) == 0;
    } else if (piece->blob_ends) {
        good = blocks_good(a) && psi_blob_check(a->memory, a->bytes, v->elements, NULL) == PS_OK;
    }
    PSI_IGNORE(snprintf(why, sizeof(why), "'%s' is not as it was written", v->name)); /* fits */
    return good ? PS_OK : lost(l, err, why);
}

static struct piece *want(struct psd_load *l, struct psd_load_read *out, uint64_t offset, uint64_t left, void *to)
{
    struct piece *piece = &l->wanted[(l->wanted_first + l->wanted_count++) % PSD_LOAD_WANTED_MAX];
    piece->bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    piece->array = NULL;
    *out = (struct psd_load_read){
        .file = in_state(l) ? 0 : (uint32_t)l->file + 1, .offset = offset, .bytes = piece->bytes, .to = to};
    return piece;
}

static void next_tensor(struct psd_load *l)
{
    l->at = 0;
    l->tensor++;
    if (l->tensor < 2 && l->values->arrays[l->array].tensor[l->tensor] != NULL) {
        return;
    }
    l->tensor = 0;
    l->array++;
    if (l->array == l->values->array_count) {
        l->values = l->values->next;
        l->array = 0;
    }
}

static void want_values(struct psd_load *l, struct psd_load_read *out)
{
    struct values *of = l->values;
    if (of->arrays[0].tensor[0] == NULL && !find_tensors(l, of)) {
        PSI_IGNORE(want(l, out, 0, 0, NULL)); /* a read of 0 bytes, after which psd_load_got() fails */
        l->values = NULL;
        return;
    }
    const struct array *a = &of->arrays[l->array];
    const struct psi_tensor *t = a->tensor[l->tensor];
    uint64_t bytes = t->end - t->begin;
    uint8_t *memory = a->memory + (l->tensor == 1 ? a->bytes - bytes : 0);
    struct piece *piece = want(l, out, l->table.data_start + t->begin + l->at, bytes - l->at, memory + l->at);
    piece->variable = of->variable;
    piece->array = a;
    piece->at = l->at;
    l->at += piece->bytes;
    piece->blob_ends = l->at == bytes && l->tensor == 1;
    out->sums = of->variable->dtype == PS_STRING ? NULL : piece->sums;
    if (l->at == bytes) {
        next_tensor(l);
    }
}

/* Fill in *out to read the next piece of the header. Without memory the read has 0 bytes, and psd_load_got() fails. */
static void want_header(struct psd_load *l, struct psd_load_read *out)
{
    uint64_t left = l->files[l->file].header_bytes - l->header.len;
    left = left < PIECE_BYTES ? left : PIECE_BYTES;
    left = psi_buf_reserve(&l->header, left, NULL) == PS_OK ? left : 0;
    PSI_IGNORE(want(l, out, l->header.len, left, l->header.data + l->header.len));
}

/* Fill in *out to read one byte behind the expected end of the file, where a good file has none. */
static void want_end(struct psd_load *l, struct psd_load_read *out)
{
    PSI_IGNORE(want(l, out, in_state(l) ? l->o.state_bytes : l->files[l->file].bytes, 0, &l->behind));
    out->bytes = sizeof(l->behind);
}

bool psd_load_want(struct psd_load *l, struct psd_load_read *out)
{
    if (l->stage == VALUES && l->values == NULL && l->wanted_count == 0) {
        l->stage = VALUES_END;
    }
    if (l->stage == VALUES ? l->values == NULL || l->wanted_count == PSD_LOAD_WANTED_MAX : l->wanted_count > 0) {
        return false;
    }
    switch (l->stage) {
    case BLOCKS:
        PSI_IGNORE(want(l, out, l->state.block_number * PSI_STATE_BLOCK_BYTES, PSI_STATE_BLOCK_BYTES, l->block));
        return true;
    case HEADER:
        want_header(l, out);
        return true;
    case VALUES:
        want_values(l, out);
        return true;
    case STATE_END:
    case VALUES_END:
        want_end(l, out);
        return true;
    case DONE:
        break;
    }
    return false;
}

ps_status psd_load_got(struct psd_load *l, uint64_t bytes, struct psi_err *err)
{
    const struct piece *piece = &l->wanted[l->wanted_first];
    l->wanted_first = (l->wanted_first + 1) % PSD_LOAD_WANTED_MAX;
    l->wanted_count--;
    if (bytes < piece->bytes) {
        return lost(l, err, "it has been cut");
    }
    switch (l->stage) {
    case BLOCKS:
        return got_block(l, err);
    case HEADER:
        l->header.len += piece->bytes;
        return piece->bytes > 0 ? got_header(l, err) : no_memory(l, err);
    case VALUES:
        return got_values(l, piece, err);
    case STATE_END:
    case VALUES_END:
        if (bytes > 0) {
            return lost(l, err, "it is longer than it was written");
        }
        l->file += l->stage == VALUES_END;
        begin_file(l);
        break;
    case DONE:
        break;
    }
    return PS_OK;
}
