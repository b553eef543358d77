/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What checkpoints have. With disks, whose cores take their own: what is reported as saved is loaded from the disks, and is what
 * the task was at the cut. Without, of single tasks: in every third seed each task takes cuts at random instants. It goes on
 * while they are written, a few bytes after each event, in any order; then the files are loaded into an empty task, with the
 * incarnations that they have, and what was loaded must be like the replay of the changes that were made before the cut. Files
 * that are spoilt are refused.
 *
 * Random numbers of its own: whether a world has checkpoints changes nothing else in it but when a core works.
 */
#include "sim.h"

#include "load_sum.h"

#include "common/optimizer.h"
#include "psd/rpc/rpc.h"
#include "psd/checkpoint/beside.h"
#include "psd/state.h"
#include "psd/store/cut_internal.h"
#include "psd/store/load.h"

#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 16, TAKEN_MAX = 64, FILE_BYTES_MAX = 1 << 30 };

struct sim_checkpoint {
    uint64_t number;
    size_t changes; /* bytes of them, made before the instant */
    uint64_t pace;  /* bytes of a turn, at most */
    struct psi_buf files[FILES_MAX];
    const struct psd_cut_write *taken[TAKEN_MAX];
    uint32_t taken_count;
    bool grains; /* rows have changed in a block that was not copied yet */
};

static uint64_t below(struct sim *s, uint64_t n)
{
    return psi_random_below(&s->checkpoint_rng, n);
}

static void begin(struct sim *s, struct sim_task *t)
{
    struct psi_err err;
    struct psd_cut_options o = {.number = s->event + 1, .memory_bytes = 1 << 20};
    struct sim_checkpoint *c = sim_alloc(sizeof(*c));
    if (psd_cut_begin(t->core, &o, &err) != PS_OK) {
        sim_fail(s, "psd_cut_begin: %s", err.text);
    }
    c->number = o.number;
    c->changes = t->changes.len;
    c->pace = (uint64_t)64 << below(s, 14);
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        psi_buf_init(&c->files[i], FILE_BYTES_MAX);
    }
    t->checkpoint = c;
    sim_trace(s, "%s:%u begins a checkpoint", t->job, t->index);
}

void sim_checkpoint_drop(struct sim *s, struct sim_task *t)
{
    struct sim_checkpoint *c = t->checkpoint;
    if (c == NULL) {
        return;
    }
    psd_cut_end(t->core);
    for (uint32_t i = 0; i < FILES_MAX; i++) {
        psi_buf_fini(&c->files[i]);
    }
    free(c);
    t->checkpoint = NULL;
    t->checkpoint_in = 20 + below(s, 800);
}

static void put(struct sim *s, struct sim_checkpoint *c, const struct psd_cut_write *w)
{
    struct psi_buf *f = &c->files[w->file < FILES_MAX ? w->file : 0];
    size_t end = w->at + w->bytes;
    if (w->file >= FILES_MAX || (end > f->len && psi_buf_reserve(f, end - f->len, NULL) != PS_OK)) {
        sim_fail(s, "CUT: file %u of a checkpoint has %zu bytes", w->file, end);
    }
    if (end > f->len) {
        memset(f->data + f->len, 0xa5, end - f->len); /* nobody has written it */
        f->len = end;
    }
    memcpy(f->data + w->at, w->data, w->bytes);
}

/* Some more is written, some of what was is told. */
static void write_some(struct sim *s, struct sim_task *t)
{
    struct sim_checkpoint *c = t->checkpoint;
    const struct psd_cut_write *w = NULL;
    uint64_t most = below(s, 4);
    while (most-- > 0 && c->taken_count < TAKEN_MAX && (w = psd_cut_next(t->core)) != NULL) {
        put(s, c, w);
        c->taken[c->taken_count++] = w;
    }
    while (c->taken_count > 0 && below(s, 3) > 0) {
        uint64_t i = below(s, c->taken_count);
        psd_cut_written(t->core, c->taken[i]);
        c->taken[i] = c->taken[--c->taken_count];
    }
}

/* Bytes of a file into r->to: how many there are. */
typedef uint64_t (*read_fn)(const struct sim_task *t, const struct psd_load_read *r);

static uint64_t read_here(const struct sim_task *t, const struct psd_load_read *r)
{
    const struct psi_buf *f = &t->checkpoint->files[r->file < FILES_MAX ? r->file : 0];
    uint64_t left = r->offset < f->len ? f->len - r->offset : 0, n = r->bytes < left ? r->bytes : left;
    if (n > 0) {
        memcpy(r->to, f->data + r->offset, n);
    }
    return n;
}

static ps_status load(struct sim *s, const struct sim_task *t, const struct psd_load_options *o, read_fn read,
                      struct psd_task **out, struct psi_err *err)
{
    struct psd_load *l = NULL;
    struct psd_load_read r;
    struct psd_task *empty = sim_replay_empty(s, t);
    ps_status st = psd_load_new(empty, o, &l, err);
    if (st != PS_OK) {
        psd_task_free(empty);
        return st;
    }
    while (st == PS_OK && psd_load_want(l, &r)) {
        if (psd_load_is_done(l)) {
            sim_fail(s, "CUT: a checkpoint is given out before all of it is read");
        }
        uint64_t bytes = read(t, &r);
        if (bytes == r.bytes) {
            load_sum(&r);
        }
        st = psd_load_got(l, bytes, err);
    }
    if (st == PS_OK && !psd_load_is_done(l)) {
        sim_fail(s, "CUT: nothing is wanted of a checkpoint, and it is not done");
    }
    psd_load_free(l);
    if (st == PS_OK) {
        *out = empty;
    } else {
        psd_task_free(empty);
    }
    return st;
}

static ps_status load_here(struct sim *s, const struct sim_task *t, struct psd_task **out, struct psi_err *err)
{
    struct psd_load_options o = {.number = t->checkpoint->number, .state_bytes = psd_cut_file(t->core, 0).bytes};
    return load(s, t, &o, read_here, out, err);
}

/* A bit is wrong, or the end of a file is missing, or something is behind it: it is not loaded. */
static void spoil(struct sim *s, struct sim_task *t)
{
    struct psi_buf *f = &t->checkpoint->files[below(s, psd_cut_file_count(t->core))];
    struct psi_err err;
    struct psd_task *loaded = NULL;
    size_t at = below(s, f->len), len = f->len;
    uint64_t how = below(s, 4);
    if (how == 0) {
        f->len = at;
    } else if (how == 1) {
        PSI_IGNORE(psi_buf_append(f, "", 1, NULL)); /* no memory: as it was, which is seen below */
    } else {
        f->data[at] ^= (uint8_t)(1 << below(s, 8));
    }
    ps_status st = load_here(s, t, &loaded, &err);
    if (st != PS_DATA_LOSS) {
        sim_fail(s, "CUT: a checkpoint that was spoilt at byte %zu of %zu is loaded, or refused as %d: %s", at, len, (int)st,
                 st == PS_OK ? "" : err.text);
    }
    f->len = len;
}

static void end(struct sim *s, struct sim_task *t)
{
    struct psi_err err;
    struct psd_task *loaded = NULL;
    for (uint32_t i = 0; i < psd_cut_file_count(t->core); i++) {
        struct psd_cut_file f = psd_cut_file(t->core, i);
        if (f.bytes != t->checkpoint->files[i].len) {
            sim_fail(s, "CUT: file %u of a checkpoint has %zu bytes, not %llu", i, t->checkpoint->files[i].len,
                     (unsigned long long)f.bytes);
        }
    }
    if (load_here(s, t, &loaded, &err) != PS_OK) {
        sim_fail(s, "CUT: a checkpoint is not loaded: %s", err.text);
    }
    sim_replay_compare(s, t, t->checkpoint->changes, loaded);
    psd_task_free(loaded);
    spoil(s, t);
    s->count_loaded++;
    s->count_grains += t->checkpoint->grains;
    sim_trace(s, "%s:%u has written its checkpoint", t->job, t->index);
    sim_checkpoint_drop(s, t);
}

void sim_checkpoint_change(struct sim_task *t, const struct psd_change *c)
{
    if (sim_grains(t->sim) && c->kind == PSD_CHANGE_BEGIN && psd_push_is_rows(c->begin.reserved->kind)) {
        t->checkpoint_in = t->checkpoint_in > 2 ? 1 + below(t->sim, 2) : t->checkpoint_in; /* 0: it has a checkpoint */
    }
}

/* True if the cut keeps grains of a block, which it will put back into the copy. */
static bool has_grains(const struct psd_cut *cut)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &cut->kept) {
        const struct psd_kept *k = PSI_CONTAINER_OF(it, struct psd_kept, link);
        for (uint64_t b = 0; k->blocks_left > 0 && b * PSD_CUT_BLOCK_BYTES < k->bytes; b++) {
            if (k->grains[b] != NULL) {
                return true;
            }
        }
    }
    return false;
}

void sim_checkpoint_look(struct sim *s, struct sim_task *t)
{
    if (s->seed % 3 != 0 || t->changes.max == 0 || t->disk != NULL) { /* with a disk its core takes its own */
        return;
    }
    if (s->checkpoint_rng == 0) {
        s->checkpoint_rng = s->seed * 0x9e3779b97f4a7c15u + 3;
    }
    if (t->checkpoint == NULL) {
        t->checkpoint_in = t->checkpoint_in == 0 ? 1 + below(s, 400) : t->checkpoint_in;
        if (--t->checkpoint_in == 0) {
            begin(s, t);
        }
        return;
    }
    t->checkpoint->grains |= has_grains(t->core->store.cut);
    psd_cut_turn(t->core, 1 + below(s, t->checkpoint->pace));
    write_some(s, t);
    struct psi_err err = {.text = ""};
    switch (psd_cut_status(t->core)) {
    case PSD_CUT_WRITTEN:
        end(s, t);
        break;
    case PSD_CUT_FAILED:
        PSI_IGNORE(psd_cut_error(t->core, &err)); /* said below */
        sim_fail(s, "CUT: a checkpoint has failed: %s", err.text);
        break;
    default:
        break;
    }
}

/* ---- with disks ---- */

void sim_checkpoint_note(struct sim_task *t)
{
    const struct psd_shards *save = t->core->shards;
    if (save != NULL && save->stage == PSD_SHARDS_WRITES && save->number != t->cut_number) {
        t->cut_number = save->number;
        t->cut_changes = t->changes.len;
        sim_back_note(t->sim, t);
    }
    if (t->core->beside != NULL && t->core->beside->number != 0) {
        t->loads = t->core->beside->number;
    }
}

static uint64_t read_disk(const struct sim_task *t, const struct psd_load_read *r)
{
    struct psd_disk_file file = {.number = t->load_number, .kind = PSD_DISK_STATE};
    if (r->file > 0) {
        file.kind = PSD_DISK_MODEL;
        file.index = r->file - 1;
    }
    return sim_disks_read(t, &file, r->offset, r->to, r->bytes);
}

void sim_checkpoint_saved(struct sim *s, struct sim_task *t, uint64_t number)
{
    struct psi_err err;
    struct psd_task *loaded = NULL;
    struct psd_disk_file state = {.number = number, .kind = PSD_DISK_STATE};
    struct psd_load_options o = {.number = number, .state_bytes = sim_disks_size(s, t, &state)};
    t->load_number = number;
    if (load(s, t, &o, read_disk, &loaded, &err) != PS_OK) {
        sim_fail(s, "CUT: checkpoint %llu is reported as saved, and is not loaded at %s:%u: %s", (unsigned long long)number,
                 t->job, t->index, err.text);
    }
    bool whole = t->core != NULL && t->changes.max != 0 && (t->core->beside == NULL || t->core->beside->placed == 0);
    if (whole && t->cut_number == number) { /* all changes are there: with something that is placed they begin anew */
        sim_replay_compare(s, t, t->cut_changes, loaded);
        s->count_loaded++;
    }
    psd_task_free(loaded);
}

static bool same_memory(const void *a, const void *b, uint64_t bytes)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, bytes) == 0);
}

static bool same_variable(const struct psd_variable *a, const struct psd_variable *b)
{
    bool same = a->initialised == b->initialised && a->sealed == b->sealed && a->version == b->version && a->bytes == b->bytes &&
                a->rate == b->rate && (a->queue == NULL) == (b->queue == NULL) &&
                psi_optimizer_equal(&a->optimizer, &b->optimizer) && same_memory(a->value, b->value, a->bytes);
    for (uint32_t i = 0; i < PSD_OPTIM_SLOTS_MAX && same && a->initialised; i++) { /* without a value, slots are only room */
        same = same_memory(a->slots[i], b->slots[i], psd_variable_bytes_of(a, 1 + i));
    }
    const struct psd_queue *q = a->queue, *p = b->queue;
    return same && (q == NULL || (q->size + q->taken == p->size + p->taken && q->done == p->done && q->step == p->step &&
                                  q->draws == p->draws && q->epoch == p->epoch && q->closed == p->closed));
}

/* The variables of a are in b, as they are there. */
static const char *differs(const struct psd_task *a, const struct psd_task *b)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&a->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value, *other = psd_container_find(&b->store, c->name);
        uint64_t inner = 0;
        while (psi_map_next(&c->variables, &inner, NULL, NULL, &value)) {
            const struct psd_variable *v = value, *w = other == NULL ? NULL : psd_variable_find(other, v->name);
            if (w == NULL || !same_variable(v, w)) {
                return v->name;
            }
        }
    }
    return NULL;
}

/* As a start does before it places what it has loaded. */
static void end_sessions(struct psd_task *loaded)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&loaded->records, &cursor, NULL, NULL, &value)) {
        psd_session_drop(loaded, value);
    }
}

void sim_checkpoint_unchanged(struct sim *s, struct sim_task *t, uint64_t number)
{
    struct psi_err err;
    struct psd_task *loaded = NULL;
    struct psd_disk_file state = {.number = number, .kind = PSD_DISK_STATE};
    if (t->core == NULL || t->disk == NULL || psd_shards_number(t->core) != number) { /* it may have changed since it was asked */
        return;
    }
    struct psd_load_options o = {.number = number, .state_bytes = sim_disks_size(s, t, &state)};
    t->load_number = number;
    if (load(s, t, &o, read_disk, &loaded, &err) != PS_OK) {
        sim_fail(s, "UNCHANGED: checkpoint %llu has all of %s:%u, and is not loaded: %s", (unsigned long long)number, t->job,
                 t->index, err.text);
    }
    const char *name = differs(t->core, loaded);
    name = name == NULL ? differs(loaded, t->core) : name;
    if (name != NULL &&
        t->loads == number) { /* its model is out of this checkpoint, where a push that was half done is a version */
        end_sessions(loaded);
        name = differs(t->core, loaded);
    }
    if (name != NULL) {
        sim_fail(s, "UNCHANGED: no checkpoint is made, for %llu has all that %s:%u has, and '%s' differs",
                 (unsigned long long)number, t->job, t->index, name);
    }
    psd_task_free(loaded);
    s->count_unchanged++;
}
