/* SPDX-License-Identifier: Apache-2.0 */
/* A task's part in checkpoints: see shards.h.
 *
 * Happy path: when its files on disk are known, the task may send its report to the directory. TASK_CUT begins to save the task's
 * present state (a cut, psd_cut_begin()). Pieces of the cut become disk writes, a limited number at a time. When all are written,
 * the files are published one by one, and TASK_CUT is answered. A manifest is written by BEGIN, WRITE and PUBLISH; then
 * TASK_MANIFEST is answered.
 *
 * Failure: if a disk operation or the cut fails, TASK_CUT is answered with the reason, and the files of the cut are removed. The
 * cut's memory is freed when the disk no longer reads it. If the disk or its file `bars` cannot be read, the task neither saves
 * nor loads. */
#include "shards.h"

#include "psd/base/items.h"
#include "psd/base/loop.h"
#include "psd/base/orders.h"
#include "psd/rpc/handlers.h"
#include "psd/store/cut.h"

#include "common/mem.h"

#include <string.h>

enum {
    /* ms without a finished write after which saving is given up, if the cut's memory is full: pushes wait for it meanwhile */
    FULL_MS = 3000,
    ENDS_MS = 1000, /* ms that a task which is to end waits until its last checkpoint begins */
    ENTRIES = 256,  /* entries of one LIST */
    /* writes of one checkpoint given to the disk at a time; with a BEGIN for each file this is below PSD_DISK_OPS_MAX */
    WRITES_MAX = 48,
    REMOVES_MAX = 8, /* removals given to the disk at a time */
    /* if more containers of a part have no file of values, the part does not name these containers: manifests stay short */
    NAMED_MAX = 1024
};

struct psd_manifest {
    struct psi_list link; /* psd_shards.manifests */
    uint64_t number;
    struct psi_buf bytes;
    psd_shards_decided_fn decided; /* directory: called when its own manifest is on disk or has failed; other tasks: NULL */
    uint64_t ask_id;               /* id of the TASK_MANIFEST to answer; 0: nobody is to be answered */
    uint32_t ops;
    struct psi_err err;
};

static struct psd_shard *at_shard(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_shard, link);
}

static struct psd_manifest *at_manifest(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_manifest, link);
}

#define TO(stage) (1u << PSD_SHARDS_##stage)
static const uint8_t WAYS[PSD_SHARDS_STAGES] = {
    [PSD_SHARDS_NONE] = TO(WRITES),
    [PSD_SHARDS_WRITES] = TO(PUBLISHES) | TO(ENDS),
    [PSD_SHARDS_PUBLISHES] = TO(NONE) | TO(ENDS),
    /* ENDS to ENDS: TASK_DROP comes for a checkpoint whose saving has failed already */
    [PSD_SHARDS_ENDS] = TO(NONE) | TO(ENDS),
};
#undef TO

static void stage_move(struct psd_shards *s, enum psd_shards_stage to)
{
    PSI_ASSERT((WAYS[s->stage] >> to & 1u) != 0);
    s->stage = to;
}

struct psd_shard *psd_shards_find(const struct psd_task *t, uint64_t number)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->shards->list) {
        if (at_shard(it)->number == number) {
            return at_shard(it);
        }
    }
    return NULL;
}

static struct psd_shard *shard_add(struct psd_task *t, uint64_t number)
{
    struct psd_shards *s = t->shards;
    struct psd_shard *shard = psd_shards_find(t, number);
    s->highest = number > s->highest ? number : s->highest;
    if (shard != NULL) {
        return shard;
    }
    shard = psi_calloc(1, sizeof(*shard));
    if (shard == NULL) {
        return NULL;
    }
    shard->number = number;
    struct psi_list *it = &s->list;
    PSI_LIST_FOREACH(it, &s->list) {
        if (at_shard(it)->number > number) {
            break;
        }
    }
    psi_list_insert_before(it, &shard->link);
    return shard;
}

static void shard_drop(struct psd_shard *shard)
{
    shard->stage = shard->stage == PSD_SHARD_STAYS ? PSD_SHARD_DROPPED : shard->stage;
}

static void remove_next(struct psd_task *t);

static void removed(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_shard *shard = ctx;
    (void)bytes;
    t->shards->removing--;
    shard->stage = PSD_SHARD_STAYS;
    if (st == PS_OK) {
        psi_list_remove(&shard->link);
        psi_free(shard);
    } else { /* the directory sends TASK_DROP again when this task reports its parts */
        psd_log(t, PSI_LOG_WARN, "checkpoint_not_removed", PSI_KV("checkpoint", shard->number), PSI_KV("msg", error));
    }
    remove_next(t);
}

static void remove_next(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->list) {
        struct psd_shard *shard = at_shard(it);
        struct psd_disk_op op = {.kind = PSD_DISK_REMOVE, .file = {.number = shard->number}};
        bool busy = s->stage != PSD_SHARDS_NONE && s->number == shard->number;
        bool goes = s->removing < REMOVES_MAX && shard->stage == PSD_SHARD_DROPPED && !busy;
        /* if the disk takes no operation now, psd_shards_tick() repeats the call */
        if (goes && psd_disk_ask(t, &op, removed, shard, NULL) == PS_OK) {
            shard->stage = PSD_SHARD_REMOVING;
            s->removing++;
        }
    }
}

void psd_shards_drop_here(struct psd_task *t, uint64_t number)
{
    struct psd_shards *s = t->shards;
    struct psd_shard *shard = s == NULL ? NULL : psd_shards_find(t, number);
    if (shard == NULL) {
        return;
    }
    if (number == s->saved_number) {
        s->saved_changes = PSD_SAVED_BY_NONE;
    }
    shard_drop(shard);
    /* this task waits for a checkpoint before it ends, and this one has failed: wait ENDS_MS for another */
    if (s->ends_ms != 0 && number > s->ends_highest && number == s->highest) {
        s->ends_ms = t->now_ms;
        s->ends_highest = number;
        s->ends_failed = true;
    }
    if (s->stage == PSD_SHARDS_NONE || s->number != number) {
        remove_next(t);
        return;
    }
    s->ask_id = 0;
    stage_move(s, PSD_SHARDS_ENDS);
    psd_cut_cancel(t);
    psd_shards_work(t);
}

/* ---- what is on the disk ---- */

static void list_next(struct psd_task *t, struct psd_disk_file behind);

static void over_with_list(struct psd_task *t, bool broken, const char *why)
{
    struct psd_shards *s = t->shards;
    psi_free(s->entries);
    s->entries = NULL;
    s->disk = broken ? PSD_SHARDS_DISK_BROKEN : PSD_SHARDS_DISK_ABLE;
    if (broken) {
        psd_log(t, PSI_LOG_ERROR, "checkpoints_unreadable", PSI_KV("msg", why));
    } else if (s->on_listed != NULL) {
        s->on_listed(t);
    }
}

static void others_read(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    (void)ctx;
    (void)id;
    (void)err;
    over_with_list(t, false, NULL);
}

static void bars_read(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    (void)ctx;
    (void)id;
    if (err != NULL) {
        over_with_list(t, true, err->text);
    } else {
        psd_others_read(t, others_read);
    }
}

static void read_bars(struct psd_task *t)
{
    struct psi_err err;
    if (t->shards->bars_bytes == 0) {
        bars_read(t, NULL, 0, NULL);
    } else if (psd_bars_read(t, &t->shards->bars, 0, t->shards->bars_bytes - 1, bars_read, &err) != PS_OK) {
        over_with_list(t, true, err.text);
    }
}

static void list_done(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_shards *s = t->shards;
    size_t count = bytes / sizeof(*s->entries);
    (void)ctx;
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const struct psd_disk_entry *e = &s->entries[i];
        bool own = e->file.writer == 0;
        if (own && e->file.kind == PSD_DISK_BARS) {
            s->bars_bytes = 1 + e->bytes;
        }
        struct psd_shard *shard = own && e->file.number != 0 ? shard_add(t, e->file.number) : NULL;
        if (own ? e->file.number != 0 && shard == NULL : !psd_others_list(t, e)) {
            over_with_list(t, true, "no memory");
            return;
        }
        if (own && e->file.kind == PSD_DISK_MANIFEST) {
            shard->manifest_bytes =
                e->bytes == 0 ? 1 : e->bytes; /* 1 for an empty file: the manifest was truncated, so it is damaged, not missing */
        }
    }
    if (st != PS_OK) {
        over_with_list(t, true, error);
    } else if (count == ENTRIES) {
        list_next(t, s->entries[count - 1].file);
    } else {
        read_bars(t);
    }
}

static void list_next(struct psd_task *t, struct psd_disk_file behind)
{
    struct psi_err err;
    struct psd_disk_op op = {
        .kind = PSD_DISK_LIST, .file = behind, .out = t->shards->entries, .bytes = ENTRIES * sizeof(*t->shards->entries)};
    if (psd_disk_ask(t, &op, list_done, NULL, &err) != PS_OK) {
        over_with_list(t, true, err.text);
    }
}

ps_status psd_shards_begin(struct psd_task *t, void (*on_listed)(struct psd_task *t), struct psi_err *err)
{
    if (!t->config.has_disk) {
        return PS_OK;
    }
    struct psd_shards *s = psi_calloc(1, sizeof(*s));
    t->shards = s;
    if (s == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for checkpoints");
    }
    psi_list_init(&s->list);
    psi_list_init(&s->manifests);
    psi_list_init(&s->reads);
    psd_bars_init(t, &s->bars);
    psd_others_init(t, &s->others);
    s->on_listed = on_listed;
    s->entries = psi_calloc(ENTRIES, sizeof(*s->entries));
    if (s->entries == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for checkpoints");
    }
    list_next(t, (struct psd_disk_file){0});
    return PS_OK;
}

/* ---- the cut ---- */

static void note_to_msg(const struct psd_shards_note *n, ps_v1_FileItem *out)
{
    out->kind = PS_FILE_NOTE;
    out->notes = n->notes;
    out->step = n->step;
    PSI_IGNORE(PSI_BYTES_SET(out->container, n->container)); /* fits: a checked name, like n->bare */
    PSI_IGNORE(PSI_BYTES_SET(out->bare, n->bare == NULL ? "" : n->bare));
}

/* Describe item i of the finished cut (this task's saved state): files first, then notes of containers. False: no such item. */
static bool file_to_msg(const struct psd_shards *s, uint32_t i, ps_v1_FileItem *out)
{
    *out = (ps_v1_FileItem)ps_v1_FileItem_init_zero;
    if (i >= s->file_count) {
        bool there = i - s->file_count < s->note_count;
        if (there) {
            note_to_msg(&s->notes[i - s->file_count], out);
        }
        return there;
    }
    const struct psd_shards_file *f = &s->files[i];
    out->kind = i == 0 ? PS_FILE_STATE : PS_FILE_VALUES;
    out->index = i == 0 ? 0 : i - 1;
    out->bytes = f->bytes;
    out->sum = f->sum;
    out->same = i == 0 ? s->cut_same : 0;
    out->notes = i == 0 && s->named ? PS_NOTE_NAMED : 0;
    PSI_IGNORE(PSI_BYTES_SET(out->container, f->container)); /* fits: checked name */
    return true;
}

static void answer_cut(struct psd_task *t)
{
    const struct psd_shards *s = t->shards;
    struct psd_conn *c = psd_directory_conn(t);
    struct psd_list l;
    if (s->ask_id == 0 || c == NULL || s->err.code != PS_OK) {
        psd_order_answer(t, PS_OP_TASK_CUT, s->ask_id, &s->err);
        return;
    }
    psd_list_begin(&l, t, c, PS_OP_TASK_CUT, PS_FLAG_REPLY, s->ask_id);
    ps_v1_FileItem item;
    for (uint32_t i = 0; file_to_msg(s, i, &item); i++) {
        psd_list_add(&l, &ps_v1_FileItem_msg, &item);
    }
    psd_list_end(&l);
}

/* End the saving, and answer TASK_CUT. No disk operation of the saving may be under way. */
static void cut_over(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psd_shard *shard = psd_shards_find(t, s->number);
    psd_cut_end(t);
    if (s->stage == PSD_SHARDS_ENDS) {
        shard_drop(shard);
    }
    stage_move(s, PSD_SHARDS_NONE);
    answer_cut(t);
    remove_next(t);
}

static void cut_failed(struct psd_task *t, const struct psi_err *err)
{
    struct psd_shards *s = t->shards;
    if (s->stage != PSD_SHARDS_ENDS) {
        stage_move(s, PSD_SHARDS_ENDS);
        s->err = *err;
        psd_cut_cancel(t);
    }
}

static void op_over(struct psd_task *t, ps_status st, const char *error)
{
    struct psi_err err;
    t->shards->ops--;
    if (st != PS_OK) {
        PSI_IGNORE(psi_fail_as(&err, st, t->disk_reason, "%s: %s", t->name, error)); /* cut_failed() keeps err */
        cut_failed(t, &err);
    }
}

static void pump(struct psd_task *t);

static void begun(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    (void)ctx;
    (void)bytes;
    op_over(t, st, error);
    pump(t);
}

static void written(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    const struct psd_cut_write *w = ctx;
    (void)bytes;
    t->shards->done_bytes += w->bytes;
    psd_cut_written(t, w);
    t->shards->moved_ms = t->now_ms;
    op_over(t, st, error);
    pump(t);
}

static void published(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    (void)ctx;
    (void)bytes;
    t->shards->published++;
    op_over(t, st, error);
    pump(t);
}

static struct psd_disk_file file_of(const struct psd_shards *s, uint32_t file)
{
    return file == 0 ? (struct psd_disk_file){.number = s->number, .kind = PSD_DISK_STATE}
                     : (struct psd_disk_file){.number = s->number, .kind = PSD_DISK_MODEL, .index = file - 1};
}

static bool ask_disk(struct psd_task *t, struct psd_disk_op *op, psd_disk_done_fn done, void *ctx)
{
    struct psi_err err;
    if (psd_disk_ask(t, op, done, ctx, &err) != PS_OK) {
        cut_failed(t, &err);
        return false;
    }
    t->shards->ops++;
    return true;
}

static void write_one(struct psd_task *t, const struct psd_cut_write *w)
{
    struct psd_shards *s = t->shards;
    struct psd_disk_op begin = {.kind = PSD_DISK_BEGIN};
    struct psd_disk_op op = {.kind = PSD_DISK_WRITE, .offset = w->at, .in = w->data, .bytes = w->bytes};
    struct psi_err err;
    if (w->file >= PSD_SHARDS_FILES_MAX) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED,
                            "%s: more than %u containers with values, each of which is a file of a checkpoint: none can be made "
                            "before some are reset, or are on other tasks",
                            t->name, PSD_SHARDS_FILES_MAX - 1));
        cut_failed(t, &err);
        psd_cut_written(t, w);
        return;
    }
    begin.file = op.file = file_of(s, w->file);
    bool there = (s->began >> w->file & 1) != 0;
    s->began |= UINT64_C(1) << w->file;
    if ((!there && !ask_disk(t, &begin, begun, NULL)) || !ask_disk(t, &op, written, (void *)(uintptr_t)w)) {
        psd_cut_written(t, w);
    }
}

static void notes_free(struct psd_shards *s)
{
    for (uint32_t i = 0; i < s->note_count; i++) {
        psi_free(s->notes[i].bare);
    }
    psi_free(s->notes);
    s->notes = NULL;
    s->note_count = 0;
}

/* True if this task's part of the checkpoint has variables or queues of the container, but no file with their values. */
static bool is_unfiled(const struct psd_container *c)
{
    return (c->cut_notes & PS_NOTE_NAMED) != 0 && c->cut_file == 0;
}

static uint32_t count_unfiled(const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    uint32_t count = 0;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        count += is_unfiled(value);
    }
    return count;
}

/* Fill psd_shards.notes with what the directory is told of each container in the checkpoint. False: no memory. */
static bool note_containers(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    uint64_t cursor = 0;
    void *value = NULL;
    const struct psd_bar *bar = NULL;
    notes_free(s);
    while ((bar = psd_bars_next_deleted(t, bar)) != NULL) {
        struct psd_container *c = psi_map_find(&t->store.containers, bar->container, strlen(bar->container));
        if (c != NULL) {
            c->cut_notes |= PS_NOTE_DELETED;
        }
    }
    s->notes = psi_calloc((size_t)psi_map_count(&t->store.containers) + 1, sizeof(*s->notes));
    bool complete = s->notes != NULL;
    s->named = count_unfiled(t) <= NAMED_MAX;
    while (s->notes != NULL && psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        const uint32_t notes = s->named && is_unfiled(c) ? c->cut_notes : c->cut_notes & ~(uint32_t)PS_NOTE_NAMED;
        if (notes == 0 && c->cut_step == 0) {
            continue; /* a container with neither notes nor a step needs no entry; there may be many such containers */
        }
        struct psd_shards_note *n = &s->notes[s->note_count++];
        memcpy(n->container, c->name, strlen(c->name) + 1);
        n->notes = notes;
        n->step = c->cut_step;
        n->bare = c->cut_bare == NULL ? NULL : psi_strndup(c->cut_bare, strlen(c->cut_bare));
        complete = complete && (n->bare != NULL) == (c->cut_bare != NULL);
    }
    return complete;
}

static void note_files(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    s->file_count = psd_cut_file_count(t);
    s->published = 0;
    for (uint32_t i = 0; i < s->file_count; i++) {
        struct psd_cut_file f = psd_cut_file(t, i);
        s->files[i] = (struct psd_shards_file){.bytes = f.bytes, .sum = f.sum};
        if (f.container != NULL) {
            memcpy(s->files[i].container, f.container, strlen(f.container) + 1);
        }
    }
    stage_move(s, PSD_SHARDS_PUBLISHES);
}

static void write_more(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    const struct psd_cut_write *w = NULL;
    struct psi_err err;
    while (s->stage == PSD_SHARDS_WRITES && s->ops < WRITES_MAX && psd_shards_pace_lets(t) && (w = psd_cut_next(t)) != NULL) {
        psd_shards_pace_took(t, w->bytes);
        write_one(t, w);
    }
    if (s->stage != PSD_SHARDS_WRITES) {
        return;
    }
    enum psd_cut_status st = psd_cut_status(t);
    if (st == PSD_CUT_FAILED) {
        PSI_IGNORE(psd_cut_error(t, &err)); /* cut_failed() keeps err */
        cut_failed(t, &err);
    } else if (st == PSD_CUT_WRITTEN && s->ops == 0) {
        note_files(t);
        if (!note_containers(t)) {
            PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory for what its checkpoint has", t->name));
            cut_failed(t, &err);
        }
    }
}

/* Give the disk as many operations of the saving as it may have now: up to WRITES_MAX writes at a time, then one PUBLISH after
 * the other. When all is published or given up, and no operation is under way, the saving ends. */
static void pump(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    if (s->stage == PSD_SHARDS_WRITES) {
        write_more(t);
    }
    if (s->stage == PSD_SHARDS_PUBLISHES && s->ops == 0 && s->published < s->file_count) {
        struct psd_disk_op op = {.kind = PSD_DISK_PUBLISH, .file = file_of(s, s->published)};
        PSI_IGNORE(ask_disk(t, &op, published, NULL)); /* if ask_disk() fails, it has called cut_failed() */
    }
    if (s->ops == 0 && (s->stage == PSD_SHARDS_ENDS || (s->stage == PSD_SHARDS_PUBLISHES && s->published == s->file_count))) {
        cut_over(t);
    }
}

ps_status psd_shards_cut_here(struct psd_task *t, uint64_t number, bool hurries, uint64_t id, struct psi_err *err)
{
    struct psd_shards *s = t->shards;
    struct psd_cut_options o = {.number = number, .memory_bytes = t->config.checkpoint_memory_bytes};
    if (!psd_shards_is_able(t)) {
        return psd_shards_fail(t, err);
    }
    if (s->stage != PSD_SHARDS_NONE) {
        return psi_fail(err, PS_UNAVAILABLE, "%s: the disk is still busy with checkpoint %llu", t->name,
                        (unsigned long long)s->number);
    }
    if (!psi_list_empty(&t->emptying)) { /* the checkpoint would have variables that a reset has dropped already */
        return psi_fail(err, PS_UNAVAILABLE, "%s is still dropping what a reset has taken away", t->name);
    }
    if (psd_shards_find(t, number) != NULL) { /* new files would mix with those of an earlier attempt to save */
        return psi_fail(err, PS_UNAVAILABLE, "%s: its disk has files of checkpoint %llu", t->name, (unsigned long long)number);
    }
    if (shard_add(t, number) == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a checkpoint", t->name);
    }
    ps_status st = psd_cut_begin(t, &o, err);
    if (st != PS_OK) {
        psd_shards_drop_here(t, number);
        return st;
    }
    stage_move(s, PSD_SHARDS_WRITES);
    s->number = number;
    s->began = 0;
    s->moved_ms = t->now_ms;
    s->done_bytes = 0;
    s->all_bytes = t->store.arena.used_bytes;
    s->cut_changes = t->store.changes;
    s->cut_same = psd_shards_number(t);
    s->ask_id = id;
    s->err.code = PS_OK;
    psd_shards_pace_begin(t, hurries);
    return PS_OK;
}

void psd_shards_work(struct psd_task *t)
{
    if (t->shards != NULL && t->shards->stage != PSD_SHARDS_NONE) {
        pump(t);
    }
}

void psd_shards_tick(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psi_err err;
    if (s == NULL) {
        return;
    }
    psd_shards_pace_tick(t);
    if (s->stage == PSD_SHARDS_WRITES && psd_cut_is_full(&t->store) && t->now_ms - s->moved_ms >= FULL_MS) {
        PSI_IGNORE(psi_fail(&err, PS_DEADLINE_EXCEEDED,
                            "%s: its disk has finished nothing for %llu ms, and pushes wait for it (checkpoint_memory)", t->name,
                            (unsigned long long)(t->now_ms - s->moved_ms)));
        cut_failed(t, &err);
    }
    psd_shards_work(t);
    remove_next(t);
    psd_bars_tick(t);
}

/* ---- manifests ---- */

static void manifest_free(struct psd_manifest *m)
{
    if (m != NULL) {
        psi_buf_fini(&m->bytes);
        psi_free(m);
    }
}

static void manifest_step(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_manifest *m = ctx;
    struct psd_shard *shard = psd_shards_find(t, m->number);
    (void)bytes;
    if (st != PS_OK && m->err.code == PS_OK) {
        PSI_IGNORE(psi_fail_as(&m->err, st, t->disk_reason, "%s: %s", t->name, error)); /* answered below */
    }
    if (--m->ops > 0) {
        return;
    }
    if (m->err.code == PS_OK && shard != NULL) {
        shard->manifest_bytes = m->bytes.len;
        if (m->number == t->shards->number) {
            t->shards->saved_changes = t->shards->cut_changes;
            t->shards->saved_number = m->number;
        }
        t->shards->ends_failed = t->shards->ends_failed && m->number != t->shards->highest;
    }
    psi_list_remove(&m->link);
    const struct psi_err *err = m->err.code == PS_OK ? NULL : &m->err;
    if (m->decided != NULL) {
        m->decided(t, err);
    } else {
        psd_order_answer(t, PS_OP_TASK_MANIFEST, m->ask_id, err);
    }
    manifest_free(m);
}

/* Ask the disk to write manifest m: BEGIN, WRITE and PUBLISH. On errors m is freed. Once an operation is under way, PS_OK is
 * returned, and manifest_step() reports a failure. */
static ps_status manifest_write(struct psd_task *t, struct psd_manifest *m, struct psi_err *err)
{
    static const enum psd_disk_kind STEPS[] = {PSD_DISK_BEGIN, PSD_DISK_WRITE, PSD_DISK_PUBLISH};
    ps_status st =
        psd_shards_find(t, m->number) != NULL
            ? PS_OK
            : psi_fail(err, PS_FAILED_PRECONDITION, "%s has no part of checkpoint %llu", t->name, (unsigned long long)m->number);
    if (st == PS_OK && t->disk_ask_count + sizeof(STEPS) / sizeof(STEPS[0]) > PSD_DISK_OPS_MAX) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: its disk is busy", t->name);
    }
    psi_list_push_back(&t->shards->manifests, &m->link);
    for (size_t i = 0; st == PS_OK && i < sizeof(STEPS) / sizeof(STEPS[0]); i++) {
        struct psd_disk_op op = {.kind = STEPS[i], .file = {.number = m->number, .kind = PSD_DISK_MANIFEST}};
        if (STEPS[i] == PSD_DISK_WRITE) {
            op.in = m->bytes.data;
            op.bytes = m->bytes.len;
        }
        st = psd_disk_ask(t, &op, manifest_step, m, err);
        m->ops += st == PS_OK;
    }
    if (st != PS_OK && m->ops > 0) {
        m->err = *err;
        return PS_OK;
    }
    if (st != PS_OK) {
        psi_list_remove(&m->link);
        manifest_free(m);
    }
    return st;
}

ps_status psd_shards_manifest_here(struct psd_task *t, uint64_t number, struct psi_buf *bytes, psd_shards_decided_fn decided,
                                   struct psi_err *err)
{
    struct psd_manifest *m = psi_calloc(1, sizeof(*m));
    if (m == NULL) {
        psi_buf_fini(bytes);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a manifest", t->name);
    }
    m->number = number;
    m->bytes = *bytes;
    m->decided = decided;
    psi_manifest_init(bytes);
    return manifest_write(t, m, err);
}

/* ---- what the directory asks ---- */

/* Parse the first SaveItem of the request. INVALID_ARGUMENT: its number is 0. */
static ps_status which(const struct psd_request *r, ps_v1_SaveItem *out, struct psi_err *err)
{
    ps_status st = psd_item_first(r, &ps_v1_SaveItem_msg, out, "checkpoint", err);
    return st == PS_OK && out->number == 0 ? psi_fail(err, PS_INVALID_ARGUMENT, "checkpoints are numbered from 1 on") : st;
}

void psd_rpc_task_cut(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_SaveItem item;
    struct psi_err err;
    ps_status st = which(r, &item, &err);
    (void)c;
    if (st == PS_OK && item.hurries && t->shards != NULL && psd_shards_find(t, item.number) != NULL) {
        psd_order_answer(t, PS_OP_TASK_CUT, r->header.id, NULL); /* this order only says: hurry; OK even if the saving is over */
        if (t->shards->stage == PSD_SHARDS_WRITES && t->shards->number == item.number) {
            t->shards->pace.hurries = true;
            psd_shards_work(t);
        }
        return;
    }
    if (st == PS_OK) {
        st = psd_shards_cut_here(t, item.number, item.hurries, r->header.id, &err);
    }
    if (st != PS_OK) {
        psd_order_answer(t, PS_OP_TASK_CUT, r->header.id, &err);
    }
}

void psd_rpc_task_drop(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_SaveItem item;
    struct psi_err err;
    ps_status st = which(r, &item, &err);
    (void)c;
    if (st == PS_OK) {
        psd_shards_drop_here(t, item.number);
    }
    psd_order_answer(t, PS_OP_TASK_DROP, r->header.id, st == PS_OK ? NULL : &err);
}

/* Take in one frame of a TASK_MANIFEST: its FileItems, and in the first frame the SaveItem before them. */
static ps_status take_manifest(struct psd_manifest *m, const struct psd_request *r, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_FileItem file;
    if (m->bytes.len == 0) {
        ps_v1_SaveItem item = ps_v1_SaveItem_init_zero;
        m->number = psi_items_next(&items, &ps_v1_SaveItem_msg, &item, err) ? item.number : 0;
        items.st = items.st == PS_OK ? psi_manifest_add(&m->bytes, &ps_v1_SaveItem_msg, &item, err) : items.st;
    }
    while (psi_items_next(&items, &ps_v1_FileItem_msg, &file, err)) {
        items.st = psi_manifest_add(&m->bytes, &ps_v1_FileItem_msg, &file, err);
    }
    return items.st;
}

void psd_rpc_task_manifest(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_shards *s = t->shards;
    ps_v1_SaveItem item;
    struct psi_err err;
    ps_status st = psd_shards_is_able(t) ? PS_OK : psd_shards_fail(t, &err);
    if (st == PS_OK && s->coming == NULL) {
        s->coming = psi_calloc(1, sizeof(*s->coming));
        if (s->coming == NULL) {
            /* the directory sends the manifest again, after the next connection and report of this task */
            psd_conn_close(t, c, false);
            return;
        }
        psi_manifest_init(&s->coming->bytes);
    }
    st = st == PS_OK ? take_manifest(s->coming, r, &err) : st;
    if (st == PS_OK && (r->header.flags & PS_FLAG_MORE) != 0) {
        return;
    }
    struct psd_manifest *m = s == NULL ? NULL : s->coming;
    if (st == PS_OK) {
        st = psi_manifest_end(&m->bytes, &err);
    }
    if (st == PS_OK) {
        st = psi_manifest_check(t->cluster.name, m->bytes.data, m->bytes.len, &item, &err);
    }
    if (st == PS_OK) {
        s->coming = NULL;
        m->ask_id = r->header.id;
        st = manifest_write(t, m, &err);
    }
    if (st != PS_OK && (r->header.flags & PS_FLAG_MORE) != 0) {
        psd_conn_fault(t, c, st, err.reason, err.text); /* the other frames of the TASK_MANIFEST are useless without this one */
    } else if (st != PS_OK) {
        psd_order_answer(t, PS_OP_TASK_MANIFEST, r->header.id, &err);
    }
    if (s != NULL) {
        manifest_free(s->coming);
        s->coming = NULL;
    }
}

void psd_shards_directory_lost(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psi_list *it = NULL;
    if (s == NULL) {
        return;
    }
    PSI_LIST_FOREACH(it, &s->manifests) {
        at_manifest(it)->ask_id = 0;
    }
    manifest_free(s->coming);
    s->coming = NULL;
    psd_bars_directory_lost(t);
    if (s->stage != PSD_SHARDS_NONE) {
        psd_shards_drop_here(t, s->number); /* without the connection to this task, the directory has given up the checkpoint */
    }
}

void psd_shards_drain(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psd_conn *c = t->peers[t->directory].conn;
    ps_v1_Beat m = {.ends = true, .changed = psd_shards_changed(t), .saved = psd_shards_number(t)};
    if (!t->is_directory && psd_shards_is_able(t) && c != NULL && c->list == PSD_LIST_TAKEN) {
        s->ends_ms = t->now_ms;
        s->ends_highest = s->highest;
        psd_ask_meta(t, c, PS_OP_BEAT, &ps_v1_Beat_msg, &m); /* the answer to this BEAT is ignored */
    }
}

bool psd_shards_drained(const struct psd_task *t)
{
    const struct psd_shards *s = t->shards;
    if (s == NULL || s->ends_ms == 0 || t->peers[t->directory].conn == NULL) {
        return true;
    }
    if (s->stage != PSD_SHARDS_NONE || !psi_list_empty(&s->manifests) || s->highest == s->ends_highest) {
        return s->stage == PSD_SHARDS_NONE && psi_list_empty(&s->manifests) && t->now_ms - s->ends_ms >= ENDS_MS;
    }
    const struct psd_shard *last = psd_shards_find(t, s->highest);
    return last == NULL || last->stage != PSD_SHARD_STAYS || last->manifest_bytes != 0;
}

void psd_shards_fini(struct psd_task *t)
{
    struct psd_shards *s = t->shards;
    struct psi_list *it = NULL;
    if (s == NULL) {
        return;
    }
    psd_cut_end(t);
    while ((it = psi_list_pop_front(&s->list)) != NULL) {
        psi_free(at_shard(it));
    }
    while ((it = psi_list_pop_front(&s->manifests)) != NULL) {
        manifest_free(at_manifest(it));
    }
    manifest_free(s->coming);
    psd_shards_reads_free(s);
    psd_bars_fini(&s->bars);
    psd_others_fini(&s->others);
    notes_free(s);
    psi_free(s->entries);
    psi_free(s);
    t->shards = NULL;
}

void psd_shards_check_invariants(const struct psd_task *t)
{
    const struct psd_shards *s = t->shards;
    uint64_t before = 0;
    struct psi_list *it = NULL;
    if (s == NULL) {
        return;
    }
    PSI_LIST_FOREACH(it, &s->list) {
        PSI_ASSERT(at_shard(it)->number > before && at_shard(it)->number <= s->highest);
        before = at_shard(it)->number;
    }
    PSI_ASSERT((s->stage == PSD_SHARDS_NONE) == (psd_cut_status(t) == PSD_CUT_NONE));
    PSI_ASSERT(s->stage != PSD_SHARDS_NONE || s->ops == 0);
    PSI_ASSERT(s->stage == PSD_SHARDS_NONE || psd_shards_find(t, s->number) != NULL);
    psd_bars_check_invariants(t);
}
