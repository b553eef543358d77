/* SPDX-License-Identifier: Apache-2.0 */
/* A task's part in a load.
 *
 * Happy path:
 *   - TASK_LOAD comes: an empty psd_task is made, and this task's part is read into it, several pieces at a time. A piece is
 *     verified while the disk reads the next ones. The sessions in the part are ended.
 *   - Each part of another task is read into a psd_task of its own, which is then joined with the first one.
 *   - TASK_LOAD is answered with the names of the loaded containers.
 *   - TASK_PLACE comes: the containers that it names are emptied here, and the loaded ones take their place. Changes since the
 *     checkpoint was made are lost, even acknowledged pushes. The task serves, and reports again what it has.
 * Failure:
 *   - The disk fails, or a file is not as it was written: the answer says why, and the containers in use stay as they are.
 *   - Memory is short at TASK_PLACE: the containers that it names are left empty.
 *   - The connection to the directory is lost: the load is freed, as soon as the disk no longer reads into its memory. */
#include "beside.h"

#include "psd/base/loop.h"
#include "psd/base/orders.h"
#include "psd/owner/owner.h"
#include "psd/rpc/handlers.h"
#include "psd/session/session.h"
#include "psd/store/kept.h"
#include "psd/store/load.h"
#include "psd/store/place.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

_Static_assert(PSD_DISK_SUM_BYTES == PSD_CUT_BLOCK_BYTES, "the disk sums up the blocks that a state has CRCs of");
enum {
    RETRY_FIRST_MS = 20,
    RETRY_LAST_MS = 1000,
    RETRY_LATER = 8 /* 8 refused clients make the delay before a client's next attempt 1 ms longer */
};

struct psd_containers_entry *psd_containers_find(const struct psd_containers *l, const char *container)
{
    uintptr_t place = (uintptr_t)psi_map_find(&l->places, container, strlen(container));
    return place == 0 ? NULL : &l->of[place - 1];
}

struct psd_containers_entry *psd_containers_get(const struct psd_task *t, struct psd_containers *l, const char *container,
                                                struct psi_err *err)
{
    struct psd_containers_entry *of = psd_containers_find(l, container);
    if (of == NULL) {
        struct psd_containers_entry *more = psi_grow(l->of, l->count, &l->capacity, sizeof(*more));
        if (l->of == NULL) {
            psi_map_init(&l->places, t->store.map_seed);
        }
        l->of = more != NULL ? more : l->of;
        if (more == NULL ||
            psi_map_put(&l->places, container, strlen(container), (void *)(uintptr_t)(l->count + 1), NULL, NULL) != PS_OK) {
            /* NULL tells the caller */
            PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "a start: no memory for its containers"));
            return NULL;
        }
        of = &l->of[l->count++];
        *of = (struct psd_containers_entry){.start = 0};
        memcpy(of->container, container, strlen(container) + 1);
    }
    return of;
}

ps_status psd_containers_put(const struct psd_task *t, struct psd_containers *l, const char *container, uint64_t start,
                             struct psi_err *err)
{
    struct psd_containers_entry *of = psd_containers_get(t, l, container, err);
    if (of == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    of->start = start;
    return PS_OK;
}

void psd_containers_fini(struct psd_containers *l)
{
    psi_free(l->of);
    psi_map_fini(&l->places);
    *l = (struct psd_containers){.of = NULL};
}

/* ---- a load ---- */

#define TO(phase) (1u << PSD_BESIDE_##phase)
static const uint8_t WAYS[PSD_BESIDE_PHASES] = {
    [PSD_BESIDE_EMPTY] = TO(READS) | TO(EMPTY), /* EMPTY to EMPTY: psd_beside_fini() is called without a load */
    [PSD_BESIDE_READS] = TO(LOADED) | TO(ENDS) | TO(EMPTY),
    [PSD_BESIDE_LOADED] = TO(EMPTY),
    [PSD_BESIDE_ENDS] = TO(EMPTY) | TO(ENDS), /* ENDS to ENDS: psd_beside_drop() is called for a load that has failed already */
};
#undef TO

static void beside_move(struct psd_beside *s, enum psd_beside_phase to)
{
    PSI_ASSERT((WAYS[s->phase] >> to & 1u) != 0);
    s->phase = to;
}

/* Free what is loaded. The caller has made sure that no disk operation still reads into it. */
static void beside_free(struct psd_task *t)
{
    struct psd_beside *s = t->beside;
    psd_source_close(t);
    psd_load_free(s->load);
    if (s->other != NULL) {
        t->beside_free(s->other);
    }
    if (s->task != NULL) {
        t->beside_free(s->task);
    }
    psi_free(s->parts);
    psi_free(s->dealt);
    psi_free(s->places);
    s->dealt = NULL;
    s->places = NULL;
    s->load = NULL;
    s->task = s->other = NULL;
    s->parts = NULL;
    s->part_count = s->part_at = 0;
    s->writer = 0;
    s->number = 0;
    s->failed.code = PS_OK;
    beside_move(s, PSD_BESIDE_EMPTY);
}

void psd_beside_drop(struct psd_task *t)
{
    struct psd_beside *s = t->beside;
    if (s == NULL || s->phase == PSD_BESIDE_EMPTY) {
        return;
    }
    s->ask_id = 0;
    if (s->reading > 0) {
        beside_move(s, PSD_BESIDE_ENDS);
    } else {
        beside_free(t);
    }
}

/* True if a variable of c has no value, or a provisional one, which the client that sets up the model (its chief) may still
 * replace. Such a container is put into use only if all tasks are rolled back to the checkpoint. */
static bool is_unfinished(const struct psd_container *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&c->variables, &cursor, NULL, NULL, &value)) {
        const struct psd_variable *v = value;
        if (v->queue == NULL && (!v->initialised || psd_variable_is_provisional(v))) {
            return true;
        }
    }
    return false;
}

/* Answer TASK_LOAD: with err or, if err is NULL, with the names of the containers that are loaded. */
static void answer_load(struct psd_task *t, const struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    struct psd_conn *c = psd_directory_conn(t);
    uint64_t id = s->ask_id, cursor = 0;
    void *value = NULL;
    struct psd_list l;
    s->ask_id = 0;
    if (id == 0 || c == NULL || err != NULL) {
        psd_order_answer(t, PS_OP_TASK_LOAD, id, err);
        return;
    }
    PSI_ASSERT(s->phase == PSD_BESIDE_LOADED);
    psd_list_begin(&l, t, c, PS_OP_TASK_LOAD, PS_FLAG_REPLY, id);
    while (psi_map_next(&s->task->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *of = value;
        if (psi_map_count(&of->variables) > 0) {
            ps_v1_StartItem item = ps_v1_StartItem_init_zero;
            item.waits = is_unfinished(of);
            PSI_IGNORE(PSI_BYTES_SET(item.container, of->name)); /* fits: checked name */
            psd_list_add(&l, &ps_v1_StartItem_msg, &item);
        }
    }
    psd_list_end(&l);
}

/* End the load, and answer TASK_LOAD. err NULL: all parts are loaded; otherwise free what is loaded. No read may be under way. */
static void over(struct psd_task *t, const struct psi_err *err)
{
    if (err != NULL) {
        beside_free(t);
    } else {
        beside_move(t->beside, PSD_BESIDE_LOADED);
    }
    answer_load(t, err);
}

static void fails(struct psd_task *t, const struct psi_err *why)
{
    struct psd_beside *s = t->beside;
    struct psi_err err = *why;
    if (s->reading == 0) {
        over(t, &err);
    } else {
        s->failed = err;
        beside_move(s, PSD_BESIDE_ENDS);
    }
}

/* End the loaded sessions. Queue elements that they had taken go back into the queues, and pushes that they had begun end. */
static void end_sessions(struct psd_task *beside)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&beside->records, &cursor, NULL, NULL, &value)) {
        psd_session_drop(beside, value);
    }
}

/* Raise the chief number of each container of t to that of `from`. (Each client that sets up a container, its chief, gets the
 * next number.) alone: no task uses a container, so no chief is alive, and psd_chief_note_saved() marks the numbers as loaded. */
static void take_chiefs(struct psd_task *t, const struct psd_task *from, bool alone)
{
    uint64_t cursor = 0;
    void *value = NULL;
    struct psi_err err;
    while (psi_map_next(&from->chiefs, &cursor, NULL, NULL, &value)) {
        const struct psd_chief *c = value;
        bool newer = c->number > psd_chief_number(&t->chiefs, c->container);
        if (psd_chief_follow(t, c->container, c->number, "", &err) != PS_OK) {
            psd_log(t, PSI_LOG_WARN, "chief_forgotten", PSI_KV("container", c->container), PSI_KV("msg", err.text));
        } else if (newer && alone) {
            psd_chief_note_saved(psd_chief_find(&t->chiefs, c->container));
        }
    }
    if (from->chief_number > t->chief_number) {
        struct psd_change change = {.kind = PSD_CHANGE_CHIEF, .chief = {.number = from->chief_number}};
        psd_commit(t, &change);
    }
}

static uint64_t random_of(void *ctx)
{
    return psd_random(ctx);
}

static void read_more(struct psd_task *t);
static void source_done(struct psd_task *t, ps_status st, size_t bytes, const char *error);

/* Begin to read the part that `item` describes into `into`; item->state_bytes 0: the part is empty. */
static ps_status begin_part(struct psd_task *t, const ps_v1_StartItem *item, struct psd_task *into, struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    struct psd_load_options o = {
        .number = s->number,
        .state_bytes = item->state_bytes,
        .state_sum = item->state_sum,
        .writer = item->writer,
        .deal = {.tasks = item->tasks, .place = item->place, .home = item->home, .index = s->places, .has = s->dealt},
        .had_bytes = psd_store_taken(&s->task->store),
        .live_bytes = s->asked ? psd_store_taken(&t->store) : 0,
        .random = random_of,
        .random_ctx = t};
    s->writer = item->writer;
    ps_status st = item->state_bytes == 0 ? PS_OK : psd_load_new(into, &o, &s->load, err);
    if (st == PS_OK && item->from != 0) {
        psd_source_open(t, psd_peer_find(t, t->config.job, item->from - 1)->index, read_more, source_done);
    }
    return st;
}

/* Call when the current part is read and verified: closes its source, and ends the sessions in it. A part that another task
 * wrote is joined with the parts that were loaded before. Errors: those of psd_place_join(). */
static ps_status end_part(struct psd_task *t, struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    char name[PSI_TASK_NAME_MAX];
    psd_source_close(t);
    psd_load_free(s->load);
    s->load = NULL;
    end_sessions(s->other != NULL ? s->other : s->task);
    if (s->other == NULL) {
        return PS_OK;
    }
    take_chiefs(s->task, s->other, false);
    ps_status st = psd_place_join(s->task, s->other, random_of, t, err);
    psi_err_prefix(st == PS_OK ? NULL : err, "checkpoint %llu of %s, and what %s has read", (unsigned long long)s->number,
                   psi_task_name_format(name, sizeof(name), t->config.job, s->writer - 1), t->name);
    t->beside_free(s->other);
    s->other = NULL;
    return st;
}

/* Begin the next part. False: there is none (*err stays PS_OK), or it cannot be begun (*err says why). */
static bool next_part(struct psd_task *t, struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    if (s->part_at == s->part_count) {
        return false;
    }
    const ps_v1_StartItem *item = &s->parts[s->part_at++];
    ps_status st = t->beside_new(t, &s->other, err);
    st = st == PS_OK ? begin_part(t, item, s->other, err) : st;
    return st == PS_OK;
}

static void got(struct psd_task *t, ps_status st, size_t bytes, const char *who, const char *error)
{
    struct psd_beside *s = t->beside;
    struct psi_err err;
    s->done_bytes += bytes;
    st = st == PS_OK ? psd_load_got(s->load, bytes, &err) : psi_fail(&err, st, "%s: %s", who, error);
    if (st != PS_OK) {
        fails(t, &err);
    } else {
        read_more(t);
    }
}

static void source_done(struct psd_task *t, ps_status st, size_t bytes, const char *error)
{
    got(t, st, bytes, t->name, error);
}

static void piece_read(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_beside *s = t->beside;
    struct psi_err err = s->failed;
    (void)ctx;
    s->reading--;
    if (s->phase == PSD_BESIDE_ENDS) {
        if (s->reading == 0) {
            over(t, &err); /* after psd_beside_drop() ask_id is 0, so over() answers nobody */
        }
        return;
    }
    got(t, st, bytes, t->name, error);
}

/* True if this task wrote the part. psd_beside.parts has such parts only if values are distributed anew over all tasks. */
static bool is_own(const struct psd_task *t, uint32_t writer)
{
    return writer == t->config.task + 1;
}

static ps_status read_piece(struct psd_task *t, const struct psd_load_read *want, struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    struct psd_disk_op op = {
        .kind = PSD_DISK_READ,
        .file = {.number = s->number, .kind = want->file == 0 ? PSD_DISK_STATE : PSD_DISK_MODEL},
        .offset = want->offset,
        .out = want->to,
        .sums = want->sums,
        .bytes = want->bytes,
    };
    op.file.index = want->file == 0 ? 0 : want->file - 1;
    op.file.writer =
        is_own(t, s->writer) && !psd_source_is_open(t) ? 0 : s->writer; /* 0: this task reads its own file on its own disk */
    if (psd_source_is_open(t)) {
        psd_source_read(t, &op);
        return PS_OK;
    }
    ps_status st = psd_disk_ask(t, &op, piece_read, NULL, err);
    s->reading += st == PS_OK;
    return st;
}

/* Ask the disk, or the task that has the part, for the pieces that the load wants. When it wants none and no read is under way,
 * the part is complete: begin the next one. */
static void read_more(struct psd_task *t)
{
    struct psd_beside *s = t->beside;
    struct psd_load_read want;
    struct psi_err err = {.code = PS_OK};
    for (;;) {
        if (psd_source_is_open(t) && !psd_source_is_ready(t)) {
            return;
        }
        if (s->load != NULL && psd_load_want(s->load, &want)) {
            bool nothing = want.bytes == 0 && psd_source_is_open(t); /* a tensor of empty strings has no bytes to read */
            if ((nothing ? psd_load_got(s->load, 0, &err) : read_piece(t, &want, &err)) != PS_OK) {
                fails(t, &err);
                return;
            }
        } else if (s->reading > 0) {
            return;
        } else if (end_part(t, &err) != PS_OK || !next_part(t, &err)) {
            over(t, err.code == PS_OK ? NULL : &err);
            return;
        }
    }
}

/* Check that the item distributes the values of its part over `tasks` tasks, as its whole TASK_LOAD does; tasks 0: not at all. */
static bool is_dealt_right(const ps_v1_StartItem *item, uint32_t tasks)
{
    return item->tasks == tasks && tasks <= PS_TASKS_MAX && (tasks == 0 || (item->place < tasks && item->home < tasks));
}

static ps_status check_parts(const struct psd_task *t, uint64_t number, const ps_v1_StartItem *parts, size_t count,
                             struct psi_err *err)
{
    char name[PSI_TASK_NAME_MAX];
    for (size_t i = 0; i < count; i++) {
        const struct psd_peer *from = parts[i].from == 0 ? NULL : psd_peer_find(t, t->config.job, parts[i].from - 1);
        bool here = is_own(t, parts[i].writer) || psd_others_has(t, number, parts[i].writer);
        bool there = parts[i].from == 0 ? here : from != NULL && !from->self && parts[i].state_bytes != 0;
        if (parts[i].writer == 0 || parts[i].writer > PS_TASKS_MAX || !there || !is_dealt_right(&parts[i], parts[0].tasks)) {
            return psi_fail(err, PS_FAILED_PRECONDITION, "%s has no part of checkpoint %llu that %s has written", t->name,
                            (unsigned long long)number,
                            psi_task_name_format(name, sizeof(name), t->config.job, parts[i].writer - 1));
        }
    }
    return PS_OK;
}

static ps_status check_load(struct psd_task *t, const ps_v1_StartItem *what, const ps_v1_StartItem *parts, size_t count,
                            struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    if (!psd_shards_is_able(t)) {
        return psd_shards_fail(t, err);
    }
    psd_beside_drop(t);
    if (s->phase != PSD_BESIDE_EMPTY) {
        return psi_fail(err, PS_UNAVAILABLE, "%s: the disk still reads checkpoint %llu", t->name, (unsigned long long)s->number);
    }
    return check_parts(t, what->number, parts, count, err);
}

/* Make the arrays of a load that distributes values anew: `dealt`, the bytes that each task gets so far (all 0), and `places`,
 * the indexes of the job's tasks in rising order. RESOURCE_EXHAUSTED. */
static ps_status begin_deal(struct psd_task *t, struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    uint32_t place = 0;
    s->dealt = psi_calloc(PS_TASKS_MAX, sizeof(*s->dealt));
    s->places = psi_calloc(PS_TASKS_MAX, sizeof(*s->places));
    if (s->dealt == NULL || s->places == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a checkpoint", t->name);
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job) {
            s->places[place++] = t->peers[i].task;
        }
    }
    return PS_OK;
}

ps_status psd_beside_load_here(struct psd_task *t, const ps_v1_StartItem *what, ps_v1_StartItem *parts, size_t count, uint64_t id,
                               struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    ps_v1_StartItem own = *what;
    ps_status st = check_load(t, what, parts, count, err);
    if (st != PS_OK) {
        psi_free(parts);
        return st;
    }
    beside_move(s, PSD_BESIDE_READS);
    own.writer = own.from = own.tasks = 0;
    s->number = what->number;
    s->asked = what->asked;
    s->parts = parts;
    s->part_count = count;
    s->done_bytes = 0;
    s->all_bytes = what->all_bytes;
    for (size_t i = 0; i < count; i++) {
        s->all_bytes += parts[i].all_bytes;
    }
    st = count > 0 && parts[0].tasks > 0 ? begin_deal(t, err) : PS_OK;
    st = st == PS_OK ? t->beside_new(t, &s->task, err) : st;
    st = st == PS_OK ? begin_part(t, &own, s->task, err) : st;
    if (st != PS_OK) {
        beside_free(t);
        return st;
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        ((struct psd_container *)value)->next = what->start;
    }
    s->ask_id = id;
    read_more(t);
    return PS_OK;
}

/* ---- placing ---- */

struct placing {
    struct psd_task *task;
    uint64_t number;
    const struct psd_containers *of;
    bool differs; /* a variable that was sealed (complete) in the checkpoint is put into use without its seal */
};

static bool wants(void *ctx, const char *container, uint64_t *out_start, bool *out_trained)
{
    const struct placing *p = ctx;
    const struct psd_containers_entry *of = psd_containers_find(p->of, container);
    *out_start = of == NULL ? 0 : of->start;
    *out_trained = of != NULL && of->trained;
    return of != NULL;
}

static bool leaves_out(void *ctx, const char *container, const char *name)
{
    const struct placing *p = ctx;
    return psd_bars_deleted(p->task, container, name, p->number);
}

static uint64_t random_number(void *ctx)
{
    return psd_random(((const struct placing *)ctx)->task);
}

static void unsealed(void *ctx)
{
    ((struct placing *)ctx)->differs = true;
}

static ps_status place_loaded(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_containers *of,
                              struct psi_err *err)
{
    struct placing p = {.task = t, .number = what->number, .of = of};
    const struct psd_placed how = {.checkpoint = what->number,
                                   .moved = what->moved,
                                   .start = what->start,
                                   .wants = wants,
                                   .leaves_out = leaves_out,
                                   .random = random_number,
                                   .unsealed = unsealed,
                                   .ctx = &p};
    for (size_t i = 0; i < of->count; i++) {
        if (psd_reset_here(t, of->of[i].container)) {
            psd_log(t, PSI_LOG_INFO, "container_replaced", PSI_KV("container", of->of[i].container),
                    PSI_KV("checkpoint", what->number));
        }
    }
    take_chiefs(t, t->beside->task, t->beside->alone);
    t->beside->placed++;
    uint32_t others = t->store.variable_count, loaded = t->beside->task->store.variable_count;
    ps_status st = psd_place(t, t->beside->task, &how, err);
    /* if this task now has exactly its own part of the checkpoint, and nothing else, it has nothing unsaved */
    if (st == PS_OK) {
        psd_shards_placed(t, what->number,
                          !p.differs && others == 0 && t->store.variable_count == loaded && t->beside->part_count == 0);
    }
    return st;
}

/* Carry out TASK_PLACE: the loaded containers that `of` names replace those in use; all others that are loaded are freed. With
 * what->number 0 nothing is replaced. Then the task serves clients, unless what->text says why it must go on waiting.
 * FAILED_PRECONDITION: checkpoint what->number is not loaded; RESOURCE_EXHAUSTED: the containers in `of` are left empty. */
static ps_status place_or_begin(struct psd_task *t, const ps_v1_StartItem *what, const struct psd_containers *of,
                                struct psi_err *err)
{
    struct psd_beside *s = t->beside;
    struct psd_peer *self = &t->peers[t->self];
    ps_status st = PS_OK;
    if (what->number != 0) {
        bool loaded = s->phase == PSD_BESIDE_LOADED && s->number == what->number;
        st = loaded ? place_loaded(t, what, of, err)
                    : psi_fail(err, PS_FAILED_PRECONDITION, "%s has not loaded checkpoint %llu", t->name,
                               (unsigned long long)what->number);
    }
    if (st == PS_OK && PSI_BYTES_TEXT(what->text, s->why, sizeof(s->why)) != PS_OK) {
        s->why[0] = '\0';
    }
    if (st == PS_OK && s->why[0] == '\0') {
        self->waits = false;
        s->sent_away = 0;
    }
    if (st == PS_OK && what->number != 0) {
        psd_place_moved(t, what->moved);
    }
    psd_beside_drop(t);
    return st;
}

/* ---- what the directory asks ---- */

/* Parse the items of a TASK_LOAD after the first one: parts of other tasks. The caller frees *out with psi_free(). */
static ps_status parse_parts(const struct psd_request *r, ps_v1_StartItem **out, size_t *out_count, struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    size_t capacity = 0, count = 0;
    ps_v1_StartItem item, *parts = NULL;
    bool more = psi_items_next(&items, &ps_v1_StartItem_msg, &item, err); /* the first item is the task's own part */
    while (more && psi_items_next(&items, &ps_v1_StartItem_msg, &item, err)) {
        ps_v1_StartItem *grown = count < PS_TASKS_MAX ? psi_grow(parts, count, &capacity, sizeof(*parts)) : NULL;
        if (grown != NULL) {
            parts = grown;
            parts[count++] = item;
        } else if (count == PS_TASKS_MAX) {
            items.st = psi_fail(err, PS_INVALID_ARGUMENT, "a start: more than %d parts of a checkpoint", PS_TASKS_MAX);
        } else {
            items.st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "a start: no memory for %zu parts of a checkpoint", count + 1);
        }
    }
    if (items.st != PS_OK) {
        psi_free(parts);
        return items.st;
    }
    *out = parts;
    *out_count = count;
    return PS_OK;
}

void psd_rpc_task_load(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_StartItem item, *parts = NULL;
    size_t count = 0;
    struct psi_err err;
    ps_status st = psd_item_first(r, &ps_v1_StartItem_msg, &item, "checkpoint", &err);
    if (st == PS_OK && item.number == 0) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "TASK_LOAD: checkpoint 0");
    }
    st = st == PS_OK ? parse_parts(r, &parts, &count, &err) : st;
    st = st == PS_OK ? psd_beside_load_here(t, &item, parts, count, r->header.id, &err) : st;
    if (st != PS_OK) {
        psd_reply(t, c, PS_OP_TASK_LOAD, 0, r->header.id, 0, &err, 0, NULL, NULL);
    }
}

/* Take in an item of a TASK_PLACE after the first one: a container to put into use, or a deleted variable. */
static ps_status take_placed(struct psd_task *t, const ps_v1_StartItem *item, struct psd_containers *of, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    if (st == PS_OK && item->name.size == 0) {
        struct psd_containers_entry *placed = psd_containers_get(t, of, container, err);
        if (placed == NULL) {
            return PS_RESOURCE_EXHAUSTED;
        }
        placed->start = item->start;
        placed->trained = item->trained;
        return PS_OK;
    }
    if (st == PS_OK && PSI_BYTES_TEXT(item->name, name, sizeof(name)) != PS_OK) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "TASK_PLACE: a name that cannot be");
    }
    return st == PS_OK ? psd_others_gone(t, container, name, item->number, err) : st;
}

/* Take in one frame of a TASK_PLACE: its containers go into `of`; in the first frame (what->start 0) the first item is *what. */
static ps_status take_place(struct psd_task *t, const struct psd_request *r, ps_v1_StartItem *what, struct psd_containers *of,
                            struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    ps_v1_StartItem item;
    bool more = what->start != 0 || psi_items_next(&items, &ps_v1_StartItem_msg, what, err);
    if (items.st == PS_OK && what->start == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "TASK_PLACE of no start");
    }
    while (more && psi_items_next(&items, &ps_v1_StartItem_msg, &item, err)) {
        items.st = take_placed(t, &item, of, err);
    }
    return items.st;
}

static void coming_free(struct psd_beside *s)
{
    psd_containers_fini(&s->coming_of);
    s->coming = (ps_v1_StartItem)ps_v1_StartItem_init_zero;
}

void psd_beside_directory_lost(struct psd_task *t)
{
    psd_beside_drop(t);
    if (t->beside != NULL) {
        coming_free(t->beside);
    }
}

void psd_rpc_task_place(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_beside *s = t->beside;
    bool more = (r->header.flags & PS_FLAG_MORE) != 0;
    struct psi_err err;
    ps_status st = s == NULL ? PS_OK : take_place(t, r, &s->coming, &s->coming_of, &err); /* no disk: nothing is loaded */
    if (st != PS_OK && more) {
        psd_conn_fault(t, c, st, err.reason, err.text); /* the other frames of this TASK_PLACE are useless without this one */
    }
    if (more) {
        return;
    }
    st = s != NULL && st == PS_OK ? place_or_begin(t, &s->coming, &s->coming_of, &err) : st;
    if (s != NULL) {
        coming_free(s);
    }
    psd_reply(t, c, PS_OP_TASK_PLACE, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
    t->list_again = true;
}

ps_status psd_beside_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->config.has_disk) {
        return PS_OK;
    }
    t->beside = psi_calloc(1, sizeof(*t->beside));
    if (t->beside == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for a start");
    }
    psd_source_init(&t->beside->source);
    t->beside->undecided = true;
    t->peers[t->self].waits = true;
    return PS_OK;
}

void psd_beside_fini(struct psd_task *t)
{
    if (t->beside != NULL) {
        beside_free(t);
        coming_free(t->beside);
        psi_free(t->beside);
        t->beside = NULL;
    }
}

void psd_beside_turn(struct psd_task *t)
{
    if (t->beside != NULL && t->beside->undecided && psd_shards_is_listed(t)) {
        struct psd_peer *self = &t->peers[t->self];
        t->beside->undecided = false;
        bool named = t->is_directory && t->config.restore != PSD_RESTORE_AUTO && t->config.restore != PSD_RESTORE_NONE;
        bool beside = t->is_directory && psd_others_orphan(t) != NULL;
        self->waits = self->own_job && (named || beside || psd_shards_is_broken(t) || !psi_list_empty(&t->shards->list));
    }
}

ps_status psd_beside_check(const struct psd_task *t, struct psi_err *err)
{
    if (!t->peers[t->self].waits) {
        return PS_OK;
    }
    if (t->beside->why[0] != '\0') {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_NOT_READY, "%s does not begin: %s", t->name, t->beside->why);
    }
    /* not NOT_READY as in psd_peers_begun(): by NOT_CONNECTED psd_hello_refuse() knows that psd_beside_retry_ms() counts */
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                       "%s waits until all tasks of job %s are there, and the checkpoint is loaded that they begin with%s%s",
                       t->name, t->peers[t->directory].job, t->delayed != NULL ? ": " : "", t->delayed != NULL ? t->delayed : "");
}

uint32_t psd_beside_retry_ms(struct psd_task *t)
{
    if (t->beside == NULL || !(t->loading || t->peers[t->self].waits)) {
        return 0;
    }
    uint32_t ms = RETRY_FIRST_MS + t->beside->sent_away / RETRY_LATER;
    t->beside->sent_away += ms < RETRY_LAST_MS;
    return ms;
}

void psd_containers_add(const struct psd_task *t, struct psd_list *l)
{
    uint64_t cursor = 0;
    void *value = NULL;
    ps_v1_ListItem item = ps_v1_ListItem_init_zero;
    if (t->beside == NULL) {
        return;
    }
    item.has_start = true;
    item.start.waits = t->peers[t->self].waits;
    item.start.moved = t->store.moved;
    psd_list_add(l, &ps_v1_ListItem_msg, &item);
    item.start.waits = false;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (psd_container_count(c) > 0 && !c->of_session) {
            item.start.start = c->start;
            item.start.next = c->next;
            item.start.moved = c->moved + 1;
            PSI_IGNORE(PSI_BYTES_SET(item.start.container, c->name)); /* fits: checked name */
            psd_list_add(l, &ps_v1_ListItem_msg, &item);
        }
    }
}

void psd_beside_check_invariants(const struct psd_task *t)
{
    const struct psd_beside *s = t->beside;
    if (s != NULL) {
        PSI_ASSERT((s->number == 0) == (s->task == NULL) && (s->load == NULL || s->task != NULL));
        PSI_ASSERT((s->phase == PSD_BESIDE_EMPTY) == (s->task == NULL));
        PSI_ASSERT((s->phase == PSD_BESIDE_READS || s->phase == PSD_BESIDE_ENDS) == (s->load != NULL));
        PSI_ASSERT(s->reading == 0 || s->load != NULL);
        PSI_ASSERT(s->phase != PSD_BESIDE_ENDS || s->reading > 0);
        PSI_ASSERT(s->other == NULL || (s->load != NULL && s->writer != 0));
        PSI_ASSERT(!t->peers[t->self].waits || s->task == NULL || t->store.variable_count == 0);
    }
}
