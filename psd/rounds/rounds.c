/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous rounds at an owner, a ps task with variables of the group (rounds.h). The directory decides which round closes with
 * which members. psd/rpc/push.c takes contributions. psd/store/rounds.c remembers the groups and computes the values.
 *
 * Happy path: TASK_ROUNDS sets the group, TASK_JOIN adds members. PREPARE computes one slice of the new values at once and the
 * others between turns of the loop (psd_rounds_work()), and is answered when all new values are computed (READY). COMMIT puts the
 * new values in place of the old ones in one event. With a limit on the joint norm PREPARE is answered with sums of squares, and
 * BUILD when the round is READY. A COMMIT without a PREPARE first computes the new values.
 *
 * Failures. TASK_ROUNDS is refused if this task lacks a named variable, or if a variable cannot be trained in rounds. TASK_ROUNDS
 * and TASK_JOIN are refused without memory; the other orders need none for values. If members have not contributed to all
 * variables, PREPARE is answered with a list of what is missing, and COMMIT ends ABORTED. An order that waits for its answer ends
 * ABORTED if another PREPARE, BUILD or COMMIT comes, or the group ends. When a connection ends, its order gets no answer; the
 * values computed so far stay, for the next order with these members. */
#include "rounds.h"

#include "psd/rpc/handlers.h"
#include "psd/session/session.h"
#include "psd/store/cut.h"

#include "common/mem.h"

#include <stdlib.h>

enum { ORDER_BYTES_MAX = 128 << 20 /* bytes of an order in several frames, at most */ };

const struct psd_rounds *psd_rounds_here(const struct psd_task *t, const char *container)
{
    const struct psd_container *in = psd_container_find(&t->store, container);
    return in == NULL ? NULL : in->rounds;
}

static ps_status find(const struct psd_task *t, const char *container, uint64_t generation, struct psd_rounds **out,
                      struct psi_err *err)
{
    const struct psd_container *in = psd_container_find(&t->store, container);
    *out = in == NULL ? NULL : in->rounds;
    return *out != NULL && (*out)->generation == generation
               ? PS_OK
               : psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "%s has no such rounds of container '%s': %s", t->name, container,
                             *out == NULL ? "none at all" : "others");
}

/* ---- the delayed answer of a PREPARE, BUILD or COMMIT ---- */

/* Answer a PREPARE or BUILD that has its result: missing contributions, sums, or, if the round is READY, an empty list. */
static void answer_built(struct psd_task *t, struct psd_conn *c, const struct psd_rounds *g, uint8_t op, uint64_t id)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, op, PS_FLAG_REPLY, id);
    for (uint32_t i = 0; i < g->missing_count; i++) {
        const struct psd_missing *what = &g->missing[i];
        ps_v1_PrepareAnswer item = ps_v1_PrepareAnswer_init_zero;
        item.member = what->member;
        item.count = what->count;
        if (what->variable != NULL) {
            PSI_IGNORE(PSI_BYTES_SET(item.name, what->variable->name)); /* fits: checked names */
        }
        psd_list_add(&l, &ps_v1_PrepareAnswer_msg, &item);
    }
    for (uint32_t i = 0; g->build == PSD_BUILD_SUMMED && i < g->part_count; i++) {
        ps_v1_PrepareAnswer item = ps_v1_PrepareAnswer_init_zero;
        item.order = g->parts[i].variable->order;
        item.squares = g->sums[i];
        psd_list_add(&l, &ps_v1_PrepareAnswer_msg, &item);
    }
    psd_list_end(&l);
}

static void answer_step(struct psd_task *t, struct psd_conn *c, const struct psd_rounds *g, uint8_t op, uint64_t id)
{
    uint64_t step = g->step == NULL ? 0 : psd_step_value(g->step);
    struct ps_reply_meta m = {.position = t->position, .result_bytes = g->step == NULL ? 0 : sizeof(step)};
    psd_reply(t, c, op, 0, id, 0, NULL, 0, &m, (const uint8_t *)&step);
}

/* If an order of the directory for g waits for its answer: answer it with err. */
static void refuse_ask(struct psd_task *t, struct psd_rounds *g, const struct psi_err *err)
{
    struct psd_conn *c = g->ask_conn;
    g->ask_conn = NULL;
    if (c != NULL) {
        psd_reply(t, c, g->ask_op, 0, g->ask_id, 0, err, 0, NULL, NULL);
    }
}

static void overtake_ask(struct psd_task *t, struct psd_rounds *g, const char *what)
{
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_ABORTED, "rounds of container '%s' at %s: %s", g->container->name, t->name, what)); /* sent */
    refuse_ask(t, g, &err);
}

/* If a PREPARE, BUILD or COMMIT for g waits, and its result is complete: answer it. */
static void look(struct psd_task *t, struct psd_rounds *g)
{
    struct psd_conn *c = g->ask_conn;
    if (c == NULL || psd_rounds_is_building(g)) {
        return;
    }
    g->ask_conn = NULL;
    if (g->ask_op == PS_OP_COMMIT) {
        /* go_on() commits a decided round as soon as it is READY, so no round is READY here */
        PSI_ASSERT(g->build == PSD_BUILD_NONE);
        answer_step(t, c, g, PS_OP_COMMIT, g->ask_id);
    } else {
        answer_built(t, c, g, g->ask_op, g->ask_id);
    }
}

void psd_rounds_conn_lost(struct psd_task *t, const struct psd_conn *c)
{
    uint64_t cursor = 0;
    void *value = NULL;
    bool asks = c->role == PSD_ROLE_DIRECTORY || c->role == PSD_ROLE_SELF;
    while (asks && psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        struct psd_rounds *g = ((const struct psd_container *)value)->rounds;
        if (g != NULL && g->ask_conn == c) {
            g->ask_conn = NULL;
        }
    }
}

static void end_group(struct psd_task *t, const struct psd_container *in, const char *why)
{
    if (in == NULL || in->rounds == NULL) {
        return;
    }
    psd_log(t, PSI_LOG_INFO, "rounds_end", PSI_KV("container", in->name), PSI_KV("round", in->rounds->committed),
            PSI_KV("msg", why));
    overtake_ask(t, in->rounds, why);
    struct psd_change c = {.kind = PSD_CHANGE_ROUNDS, .rounds = {.container = in}};
    psd_commit(t, &c);
}

void psd_rounds_end_here(struct psd_task *t, const char *container)
{
    end_group(t, psd_container_find(&t->store, container), "the container was reset, or lost a variable of theirs");
}

static ps_status find_variable(const struct psd_task *t, const struct psd_container *in, const char *name,
                               const struct psd_variable **out, struct psi_err *err)
{
    *out = psd_variable_find(in, name);
    return *out != NULL ? PS_OK : psi_fail(err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, name);
}

static int ascending(const void *a, const void *b)
{
    const struct psd_part_def *x = a, *y = b;
    return x->creation < y->creation ? -1 : x->creation > y->creation;
}

static ps_status check_part(const struct psd_variable *v, const struct psd_rounds_spec *spec, bool by_rows, struct psi_err *err)
{
    ps_status st = psd_part_check(v, err);
    if (st != PS_OK || !by_rows || spec->options.mode != PSD_SYNC_ROUNDS) {
        return st;
    }
    return spec->options.rows_per_step > 0
               ? psd_part_rows_check(v, err)
               : psi_fail(err, PS_INVALID_ARGUMENT, "'%s' is in rounds by rows: rows_per_step is 0; allowed: 1 and more",
                          v->name);
}

/* Check spec, and find the variables that it names. out->step: the variable of the global step; NULL: not on this task. parts
 * [spec->name_count]: the other variables, by rising creation number. Allocates nothing. */
static ps_status resolve(const struct psd_task *t, const struct psd_container *in, const struct psd_rounds_spec *spec,
                         struct psd_rounds_def *out, struct psd_part_def *parts, struct psi_err *err)
{
    ps_status st = PS_OK;
    const struct psd_variable *v = NULL;
    if (spec->step != NULL) {
        st = find_variable(t, in, spec->step, &out->step, err);
        if (st == PS_OK) {
            st = psd_step_check(out->step, err);
        }
    }
    for (uint32_t i = 0; st == PS_OK && i < spec->name_count; i++) {
        const bool by_rows = spec->by_rows != NULL && spec->by_rows[i];
        st = find_variable(t, in, spec->names[i], &v, err);
        if (st == PS_OK) {
            st = check_part(v, spec, by_rows, err);
        }
        if (st == PS_OK && spec->options.max_norm_each != 0 && psd_variable_part_of(v).count > 0) {
            st =
                psi_fail(err, PS_UNIMPLEMENTED,
                         "'%s' is a part of a variable: a limit on the norm of each variable is for whole ones; of all variables "
                         "together a limit is possible",
                         v->name);
        }
        if (st == PS_OK && v == out->step) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' is the global step: it cannot be trained in rounds", v->name);
        }
        parts[i] = (struct psd_part_def){.creation = st == PS_OK ? v->creation : 0, .by_rows = by_rows};
    }
    if (st != PS_OK) {
        return st;
    }
    qsort(parts, spec->name_count, sizeof(*parts), ascending);
    for (uint32_t i = 1; i < spec->name_count; i++) {
        if (parts[i - 1].creation == parts[i].creation) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "variable '%s' is named twice",
                            psd_variable_by_creation(&t->store, parts[i].creation)->name);
        }
    }
    return PS_OK;
}

static ps_status set(struct psd_task *t, const struct psd_container *in, const struct psd_rounds_def *d, struct psi_err *err)
{
    end_group(t, in, "others take their place");
    for (uint32_t i = 0; d->options.mode == PSD_SYNC_ROUNDS && i < d->count; i++) {
        psd_outcome_abort_pushes(t, psd_variable_by_creation(&t->store, d->parts[i].creation));
    }
    PSI_IGNORE(psd_room(t, PSD_ROOM_MEMORY, psd_rounds_copy_bytes(&t->store, d))); /* without it psd_change_reserve() fails */
    struct psd_change c = {.kind = PSD_CHANGE_ROUNDS, .rounds = {.container = in, .def = d}};
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
        psd_log(t, PSI_LOG_INFO, "rounds_set", PSI_KV("container", in->name), PSI_KV("mode", d->options.mode),
                PSI_KV("variables", d->count), PSI_KV("bytes", psd_rounds_memory_bytes(in->rounds)));
    }
    return st;
}

ps_status psd_rounds_set_here(struct psd_task *t, const struct psd_rounds_spec *spec, struct psi_err *err)
{
    const struct psd_container *in = psd_container_find(&t->store, spec->container);
    if (spec->options.mode == PSD_SYNC_NONE) {
        end_group(t, in, "their chief, or the directory, has ended them");
        return PS_OK;
    }
    if (spec->options.mode != PSD_SYNC_ROUNDS && spec->options.mode != PSD_SYNC_STALENESS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "mode %u of a group; allowed: 0 to 2", spec->options.mode);
    }
    if (in == NULL) {
        return psi_fail(err, PS_NOT_FOUND, "%s has no container '%s'", t->name, spec->container);
    }
    if (in->rounds != NULL && in->rounds->generation == spec->generation) {
        return PS_OK;
    }
    struct psd_part_def *parts = psi_calloc((size_t)spec->name_count + 1, sizeof(*parts));
    if (parts == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "rounds of container '%s': memory", spec->container);
    }
    struct psd_rounds_def d = {.options = spec->options,
                               .awaited = spec->awaited,
                               .generation = spec->generation,
                               .parts = parts,
                               .count = spec->name_count,
                               .owners = spec->owners,
                               .owner_count = spec->owner_count};
    ps_status st = resolve(t, in, spec, &d, parts, err);
    if (st == PS_OK) {
        st = set(t, in, &d, err);
    }
    psi_free(parts);
    return st;
}

/* Apply the change c, which removes `member` (0: no member). If this discards the new values of the round under way, the
 * directory's order that waits for them is answered: `member` is missing. */
static void withdraw(struct psd_task *t, struct psd_rounds *g, const struct psd_change *c, uint64_t member)
{
    bool built = g->source_count > 0, decided = g->decided;
    psd_commit(t, c);
    if (!built || g->source_count > 0) {
        return;
    }
    if (decided) {
        overtake_ask(t, g, "a member of the round that was to be committed has left");
    }
    g->build = PSD_BUILD_MISSING;
    g->missing_count = 1;
    g->missing[0] = (struct psd_missing){.member = member};
    look(t, g);
}

ps_status psd_rounds_join_here(struct psd_task *t, const char *container, uint64_t generation, const struct psd_member_spec *m,
                               struct psi_err *err)
{
    struct psd_rounds *g = NULL;
    ps_status st = find(t, container, generation, &g, err);
    if (st != PS_OK || psd_member_find(g, m->id) != NULL) {
        return st;
    }
    const struct psd_member *before = psd_member_at(g, m->job, m->task);
    if (before == NULL && g->member_count >= PS_MEMBERS_MAX) {
        return psi_fail_as(
            err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
            "rounds of container '%s': at most %d members: one more can join when one leaves, or is given up as lost", container,
            PS_MEMBERS_MAX);
    }
    if (before == NULL) {
        PSI_IGNORE(psd_room(t, PSD_ROOM_MEMORY, psd_member_memory_bytes(g))); /* psd_change_reserve() fails with the reason */
    }
    struct psd_change c = {.kind = PSD_CHANGE_ROUND_JOIN,
                           .member = {.container = g->container,
                                      .id = m->id,
                                      .awaited = m->awaited,
                                      .session = m->session,
                                      .job = m->job,
                                      .task = m->task}};
    st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        withdraw(t, g, &c, before == NULL ? 0 : before->id);
    }
    return st;
}

void psd_rounds_leave_here(struct psd_task *t, const char *container, uint64_t generation, uint64_t member, uint32_t awaited,
                           bool over)
{
    struct psd_rounds *g = NULL;
    struct psi_err err;
    if (find(t, container, generation, &g, &err) != PS_OK || psd_member_find(g, member) == NULL) {
        return;
    }
    struct psd_change c = {.kind = PSD_CHANGE_ROUND_LEAVE,
                           .member = {.container = g->container, .id = member, .awaited = awaited, .over = over}};
    withdraw(t, g, &c, member);
}

static void flip(struct psd_task *t, struct psd_rounds *g)
{
    uint64_t members[PS_MEMBERS_MAX];
    for (uint32_t i = 0; i < g->source_count; i++) {
        members[i] = g->sources[i]->id;
    }
    struct psd_change c = {.kind = PSD_CHANGE_ROUND_FLIP,
                           .flip = {.container = g->container,
                                    .round = g->committed + 1,
                                    .members = members,
                                    .count = g->source_count,
                                    .step = g->round_step,
                                    .factor = g->round_factor,
                                    .scalars = g->scalars}};
    const bool set_rate = g->set_rate;
    const double rate = g->rate;
    if (g->part_count > 0) {
        psd_age_note_round(g->parts[0].variable, (uint64_t)g->source_count * g->part_count);
    }
    psd_commit(t, &c);
    if (psd_rounds_are_not_home(g) && !psi_list_linked(&g->building)) {
        psi_list_push_back(&t->building, &g->building);
    }
    uint64_t changed = 0;
    if (set_rate) {
        psd_rates_finish(t, g->container); /* a SET_RATE of the whole container that began before this round must end first */
    }
    for (uint32_t i = 0; set_rate && i < g->part_count; i++) {
        changed += psd_rate_change(t, g->parts[i].variable, rate);
    }
    if (changed > 0) { /* which client set the rate is in the directory's log, in the line "rate_asked" */
        psd_rate_log(t, "the directory", g->container->name, changed, rate);
    }
}

/* Do one slice: copy rows of the last committed round into their variables (overlay.h), unless a checkpoint's copies leave no
 * memory for that; when no such rows are left, compute new values. After the last slice commit the round, if it is decided. */
static void go_on(struct psd_task *t, struct psd_rounds *g)
{
    if (psd_rounds_are_not_home(g) && psd_cut_is_full(&t->store)) {
        return; /* g stays in t->building */
    }
    const bool ready = psd_rounds_build(g, t->config.round_slice_bytes);
    if (!psd_rounds_is_building(g) && !psd_rounds_are_not_home(g)) {
        psi_list_remove(&g->building);
    }
    if (ready && g->decided) {
        flip(t, g);
    }
}

/* Check that g can close spec->round. *out_open: true if this is the round under way, false if it is committed already.
 * INVALID_ARGUMENT: g's mode is not rounds, or too many members; ABORTED (LOST): g has not committed the previous round. */
static ps_status check_round(const struct psd_task *t, const struct psd_rounds *g, const struct psd_round_spec *spec,
                             bool *out_open, struct psi_err *err)
{
    if (g->options.mode != PSD_SYNC_ROUNDS || spec->member_count > PS_MEMBERS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a round of container '%s' at %s, mode %u, with %u members", spec->container,
                        t->name, g->options.mode, spec->member_count);
    }
    if (spec->round > g->committed + 1) {
        return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "%s has committed round %llu of container '%s'; asked for: %llu",
                           t->name, (unsigned long long)g->committed, spec->container, (unsigned long long)spec->round);
    }
    *out_open = spec->round == g->committed + 1;
    return PS_OK;
}

/* Check spec->factor of a BUILD or COMMIT. INVALID_ARGUMENT: out of (0, 1], or the group has no limit on the joint norm. */
static ps_status check_factor(const struct psd_task *t, const struct psd_rounds *g, const struct psd_round_spec *spec,
                              struct psi_err *err)
{
    return psd_sync_is_joint(&g->options) && spec->factor > 0 && spec->factor <= 1
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT,
                          "round %llu of container '%s' at %s with factor %g; allowed: above 0, up to 1",
                          (unsigned long long)spec->round, g->container->name, t->name, (double)spec->factor);
}

static ps_status build(struct psd_task *t, const struct psd_round_spec *spec, bool decided, struct psd_rounds **out,
                       bool *out_open, struct psi_err *err)
{
    ps_status st = find(t, spec->container, spec->generation, out, err);
    if (st == PS_OK) {
        st = check_round(t, *out, spec, out_open, err);
    }
    if (st != PS_OK || !*out_open) {
        return st;
    }
    struct psd_rounds *g = *out;
    const bool joint = psd_sync_is_joint(&g->options);
    if (decided && joint) {
        st = check_factor(t, g, spec, err);
        if (st != PS_OK) {
            return st;
        }
    }
    overtake_ask(t, g, "another order for the round has come");
    if (spec->member_count == 0 && !decided) {
        psd_rounds_build_end(g);
        g->attempt = 0;
        return PS_OK;
    }
    psd_rounds_build_begin(g, spec->members, spec->member_count, decided, spec->set_rate ? &spec->rate : NULL, spec->step,
                           joint ? spec->factor : 0);
    g->life = spec->life;
    g->attempt = spec->attempt;
    if (psd_rounds_is_building(g) && !psi_list_linked(&g->building)) {
        psi_list_push_back(&t->building, &g->building);
    }
    if (g->build != PSD_BUILD_MISSING) {
        go_on(t, g);
    }
    return PS_OK;
}

ps_status psd_rounds_prepare_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err)
{
    struct psd_rounds *g = NULL;
    bool open = false;
    struct psd_round_spec sums = *spec;
    sums.factor = 0;
    return build(t, &sums, false, &g, &open, err);
}

ps_status psd_rounds_factor_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err)
{
    struct psd_rounds *g = NULL;
    bool open = false;
    ps_status st = find(t, spec->container, spec->generation, &g, err);
    st = st == PS_OK ? check_factor(t, g, spec, err) : st;
    return st == PS_OK ? build(t, spec, false, &g, &open, err) : st;
}

ps_status psd_rounds_commit_here(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err)
{
    struct psd_rounds *g = NULL;
    bool open = false;
    ps_status st = build(t, spec, true, &g, &open, err);
    if (st == PS_OK && open && g->build == PSD_BUILD_MISSING) {
        const struct psd_variable *v = g->missing_count > 0 ? g->missing[0].variable : NULL;
        st = psi_fail_as(err, PS_ABORTED, PS_REASON_LOST,
                         "%s cannot commit round %llu of container '%s': it lacks what %u of its %u members contributed%s%s%s",
                         t->name, (unsigned long long)spec->round, spec->container, g->missing_count, spec->member_count,
                         v == NULL ? "" : ", to '", v == NULL ? "" : v->name, v == NULL ? "" : "'");
    }
    return st;
}

bool psd_rounds_has_work(const struct psd_task *t)
{
    return !psi_list_empty(&t->building) && !psd_cut_is_full(&t->store);
}

void psd_rounds_work(struct psd_task *t)
{
    struct psd_rounds *g = PSI_CONTAINER_OF(psi_list_first(&t->building), struct psd_rounds, building);
    go_on(t, g);
    look(t, g);
}

struct body {
    const uint8_t *p;
    size_t n;
};

static ps_status next(struct body *b, const pb_msgdesc_t *d, void *out, bool *out_end, struct psi_err *err)
{
    return psi_list_next(&b->p, &b->n, d, out, out_end, err);
}

/* Parse the first item of r's body, which names the group and its container; *b gets the rest. INVALID_ARGUMENT: no such item. */
static ps_status parse_group(const struct psd_request *r, struct body *b, ps_v1_RoundsItem *out,
                             char container[PS_CONTAINER_BYTES_MAX + 1], struct psi_err *err)
{
    bool end = false;
    *b = (struct body){.p = r->body, .n = r->body_bytes};
    ps_status st = next(b, &ps_v1_RoundsItem_msg, out, &end, err);
    if (st == PS_OK && end) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "it names no group");
    }
    return st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)(const void *)&out->container, container, err) : st;
}

static void answer(struct psd_task *t, struct psd_conn *c, const struct psd_request *r, ps_status st, const struct psi_err *err)
{
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, st == PS_OK ? NULL : err, 0, NULL, NULL);
}

struct spec_memory {
    char (*names)[PS_NAME_BYTES_MAX + 1];
    const char **pointers;
    bool *by_rows;
    struct psd_owner *owners;
};

static ps_status parse_owners(struct body *b, struct psd_rounds_spec *spec, struct spec_memory *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < spec->owner_count; i++) {
        ps_v1_TaskItem item;
        bool end = false;
        st = next(b, &ps_v1_TaskItem_msg, &item, &end, err);
        if (st == PS_OK && end) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "%u owners of the group are missing", spec->owner_count - i);
        }
        if (st == PS_OK) {
            st = PSI_BYTES_TEXT(item.job, m->owners[i].job, sizeof(m->owners[i].job));
            m->owners[i].task = item.task;
        }
    }
    return st;
}

static ps_status parse_names(struct body *b, struct psd_rounds_spec *spec, struct spec_memory *m, bool step, struct psi_err *err)
{
    for (uint32_t count = 0;; count++) {
        char container[PS_CONTAINER_BYTES_MAX + 1];
        ps_v1_NameItem item;
        bool end = false;
        ps_status st = next(b, &ps_v1_NameItem_msg, &item, &end, err);
        if (st == PS_OK && !end) {
            st = psd_name_parse(&item, container, m->names[count], err);
        }
        if (st != PS_OK || end) {
            return st;
        }
        if (count == 0 && step) {
            spec->step = m->names[0];
        } else {
            m->by_rows[spec->name_count] = item.rows;
            m->pointers[spec->name_count++] = m->names[count];
        }
    }
}

/* Do what the TASK_ROUNDS request r says. *out: the container's group afterwards; NULL: it has no group. */
static ps_status set_by(struct psd_task *t, const struct psd_request *r, const struct psd_rounds **out, struct psi_err *err)
{
    ps_v1_RoundsItem group;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    struct body b;
    ps_status st = parse_group(r, &b, &group, container, err);
    if (st == PS_OK && group.owner_count > PS_TASKS_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%u owners of a group", group.owner_count);
    }
    if (st != PS_OK) {
        return st;
    }
    size_t bytes = 0;
    uint32_t most = 0;
    st = psi_list_measure(b.p, b.n, b.n, &bytes, &most, err);
    if (st != PS_OK) {
        return st;
    }
    /* an end names nothing, and takes no memory: for the directory the group has ended here even if the order is refused */
    if (group.options.mode == PSD_SYNC_NONE && most == 0) {
        return psd_rounds_set_here(t, &(struct psd_rounds_spec){.container = container}, err);
    }
    struct spec_memory m = {.names = psi_calloc((size_t)most + 1, sizeof(*m.names)),
                            .pointers = psi_calloc((size_t)most + 1, sizeof(*m.pointers)),
                            .by_rows = psi_calloc((size_t)most + 1, sizeof(*m.by_rows)),
                            .owners = psi_calloc((size_t)group.owner_count + 1, sizeof(*m.owners))};
    struct psd_rounds_spec spec = {.container = container,
                                   .generation = group.generation,
                                   .options = {.mode = group.options.mode,
                                               .workers = group.options.workers,
                                               .replicas = group.options.replicas,
                                               .on_loss = group.options.on_loss,
                                               .staleness = group.options.staleness,
                                               .max_norm_each = group.options.max_norm_each,
                                               .max_norm = group.options.max_norm,
                                               .rows_per_step = group.options.rows_per_step,
                                               .rows_mean = group.options.rows_mean},
                                   .awaited = group.awaited,
                                   .names = m.pointers,
                                   .by_rows = m.by_rows,
                                   .owners = m.owners,
                                   .owner_count = group.owner_count};
    if (m.names == NULL || m.pointers == NULL || m.by_rows == NULL || m.owners == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "rounds of container '%s': memory", container);
    }
    if (st == PS_OK) {
        st = parse_owners(&b, &spec, &m, err);
    }
    if (st == PS_OK) {
        st = parse_names(&b, &spec, &m, group.step, err);
    }
    if (st == PS_OK) {
        st = psd_rounds_set_here(t, &spec, err);
        *out = psd_rounds_here(t, container);
    }
    psi_free(m.names);
    psi_free(m.pointers);
    psi_free(m.by_rows);
    psi_free(m.owners);
    return st;
}

static ps_status collect(struct psd_conn *c, const struct psd_request *r, struct psi_err *err)
{
    size_t bytes = 0;
    uint32_t count = 0;
    if (c->order.len > 0 && c->order_id != r->header.id) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the list of order %llu has no end", (unsigned long long)c->order_id);
    }
    c->order_id = r->header.id;
    c->order.max = ORDER_BYTES_MAX;
    ps_status st = psi_list_measure(r->body, r->body_bytes, r->body_bytes, &bytes, &count, err);
    return st == PS_OK ? psi_buf_append(&c->order, r->body, bytes, err) : st;
}

void psd_rpc_task_rounds(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    const struct psd_rounds *g = NULL;
    bool more = (r->header.flags & PS_FLAG_MORE) != 0;
    ps_status st = more || c->order.len > 0 ? collect(c, r, &err) : PS_OK;
    if (st != PS_OK) {
        psd_conn_fault(t, c, st, err.reason, err.text); /* one frame of the order is lost, so the whole order cannot be read */
        return;
    }
    if (more) {
        return;
    }
    struct psd_request whole = *r;
    if (c->order.len > 0) {
        whole.body = c->order.data;
        whole.body_bytes = c->order.len;
    }
    st = set_by(t, &whole, &g, &err);
    psi_buf_fini(&c->order);
    if (st == PS_OK && g != NULL) {
        answer_step(t, c, g, r->header.op, r->header.id);
    } else {
        answer(t, c, r, st, &err);
    }
}

static ps_status join_by(struct psd_task *t, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_RoundsItem group;
    ps_v1_MemberItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1], job[PS_JOB_BYTES_MAX + 1];
    struct body b;
    bool end = false;
    ps_status st = parse_group(r, &b, &group, container, err);
    if (st == PS_OK) {
        st = next(&b, &ps_v1_MemberItem_msg, &item, &end, err);
    }
    if (st == PS_OK && (end || item.session.size != sizeof(((struct psd_member *)NULL)->session))) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "%s", end ? "it names no member" : "a member without its session");
    }
    if (st == PS_OK) {
        st = PSI_BYTES_TEXT(item.job, job, sizeof(job));
    }
    if (st != PS_OK) {
        return st;
    }
    struct psd_member_spec m = {
        .id = item.member, .session = item.session.bytes, .job = job, .task = item.task, .awaited = group.awaited};
    return psd_rounds_join_here(t, container, group.generation, &m, err);
}

void psd_rpc_task_join(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    ps_status st = join_by(t, r, &err);
    answer(t, c, r, st, &err);
}

static ps_status parse_members(struct body *b, uint64_t *out, uint32_t *out_count, struct psi_err *err)
{
    for (*out_count = 0;; (*out_count)++) {
        ps_v1_MemberItem item;
        bool end = false;
        ps_status st = next(b, &ps_v1_MemberItem_msg, &item, &end, err);
        if (st == PS_OK && !end && *out_count == PS_MEMBERS_MAX) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "more than %d members", PS_MEMBERS_MAX);
        }
        if (st != PS_OK || end) {
            return st;
        }
        out[*out_count] = item.member;
    }
}

void psd_rpc_task_leave(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_RoundsItem group;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t members[PS_MEMBERS_MAX];
    uint32_t count = 0;
    struct body b;
    struct psi_err err;
    ps_status st = parse_group(r, &b, &group, container, &err);
    if (st == PS_OK) {
        st = parse_members(&b, members, &count, &err);
    }
    for (uint32_t i = 0; st == PS_OK && i < count; i++) {
        psd_rounds_leave_here(t, container, group.generation, members[i], group.awaited, group.over);
    }
    answer(t, c, r, st, &err);
}

static void close_round(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                        ps_status (*order)(struct psd_task *t, const struct psd_round_spec *spec, struct psi_err *err))
{
    ps_v1_RoundsItem group;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t members[PS_MEMBERS_MAX];
    struct psd_round_spec spec = {.container = container, .members = members};
    struct psd_rounds *g = NULL;
    struct body b;
    struct psi_err err;
    ps_status st = parse_group(r, &b, &group, container, &err);
    if (st == PS_OK) {
        spec.generation = group.generation;
        spec.round = group.round;
        spec.life = group.life;
        spec.attempt = group.attempt;
        spec.set_rate = group.set_rate;
        spec.rate = group.rate;
        spec.step = group.round_step;
        spec.factor = (float)group.factor;
        st = psd_rate_check(group.set_rate ? group.rate : 0, &err);
    }
    if (st == PS_OK) {
        st = parse_members(&b, members, &spec.member_count, &err);
    }
    if (st == PS_OK) {
        st = order(t, &spec, &err);
    }
    if (st == PS_OK) {
        st = find(t, container, spec.generation, &g, &err);
    }
    if (st != PS_OK) {
        answer(t, c, r, st, &err);
        return;
    }
    /* the round is committed already, by this order or an earlier one */
    if (spec.round <= g->committed && r->header.op == PS_OP_COMMIT) {
        answer_step(t, c, g, PS_OP_COMMIT, r->header.id);
        return;
    }
    if (spec.round <= g->committed) {
        struct psd_list l;
        psd_list_begin(&l, t, c, r->header.op, PS_FLAG_REPLY, r->header.id);
        psd_list_end(&l);
        return;
    }
    g->ask_conn = c;
    g->ask_id = r->header.id;
    g->ask_op = r->header.op;
    look(t, g);
}

void psd_rpc_prepare(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    close_round(t, c, r, psd_rounds_prepare_here);
}

void psd_rpc_build(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    close_round(t, c, r, psd_rounds_factor_here);
}

void psd_rpc_commit(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    close_round(t, c, r, psd_rounds_commit_here);
}
