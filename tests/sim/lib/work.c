/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call table of a simulated task: two calls, sim.count and sim.early, which add one to a counter of their process and give
 * back the number of the program's call and the counter. A call takes a while on a compute thread that the scheduler plays, and
 * fails when told to. Some have so much input or output that it takes several frames. Some write a register of their task as
 * well, by a draft and a publish, which the ledger has as an ASSIGN that nobody but the call has made. sim.early begins before
 * all of its input has come, as a run of a plan does: until then it makes its draft and looks at the input that is there, and
 * counts nothing.
 *
 * The rules of CALL are checked here: one that a program made runs at most once, in one process, whatever happens to connections,
 * tasks and programs; one that ended OK has run and its result is its own; one whose end says that nothing was done has not run
 * and never will; one that nobody waits for any more is told, also while it awaits its input. The memory of a call is its own
 * until its end. What it publishes is in the register once where it was told so,
 * else never; the checkers of assigns look at it (oracle.c), and so do those of replay and of checkpoints.
 */
#include "sim.h"

#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

enum { RESULT_BYTES = 16, LARGE_BYTES = 700 << 10 };

enum { COUNT, EARLY, CALLS };
static const char *const names[CALLS] = {"sim.count", "sim.early"};

const char *sim_work_name(void *shell, uint32_t row)
{
    (void)shell;
    return row < CALLS ? names[row] : NULL;
}

bool sim_work_early(void *shell, uint32_t row)
{
    (void)shell;
    return row == EARLY;
}

/* Every 64-bit word is of this call: of bytes of an earlier call, or in another order, none is. */
static void words_fill(void *to, size_t bytes, size_t from, uint64_t id)
{
    for (size_t at = from; at + sizeof(id) <= bytes; at += sizeof(id)) {
        const uint64_t word = id * UINT64_C(0x9e3779b97f4a7c15) + at;
        memcpy((uint8_t *)to + at, &word, sizeof(word));
    }
}

static bool words_are(const void *p, size_t bytes, size_t from, uint64_t id)
{
    for (size_t at = from; at + sizeof(id) <= bytes; at += sizeof(id)) {
        const uint64_t word = id * UINT64_C(0x9e3779b97f4a7c15) + at;
        if (memcmp((const uint8_t *)p + at, &word, sizeof(word)) != 0) {
            return false;
        }
    }
    return true;
}

static struct sim_work *work_of(struct sim_task *t, uint64_t call)
{
    for (uint32_t i = 0; i < t->work_count; i++) {
        if (t->work[i].id == call) {
            return &t->work[i];
        }
    }
    return NULL;
}

/* The program's call that the task begins, or whose whole input it has now. The input is the call's own as far as it has come. */
static struct sim_op *op_of(struct sim *s, const struct sim_task *t, const struct psd_effect *effect)
{
    uint64_t id = 0;
    char text[200];
    if (effect->call_row >= CALLS || effect->call_come < sizeof(id) || effect->call_out_bytes < PS_CALL_BYTES_MAX) {
        sim_fail(s, "/job:%s/task:%u runs row %u with %zu bytes", t->job, t->index, effect->call_row, effect->call_come);
    }
    memcpy(&id, effect->call_in, sizeof(id));
    struct sim_op *op = id >= 1 && id <= s->op_count ? s->op[id - 1] : NULL;
    const struct sim_task *to = op != NULL ? &s->task[op->task] : NULL;
    if (op == NULL || op->kind != PSI_REQ_CALL || to->index != t->index || strcmp(to->job, t->job) != 0 ||
        effect->call_row != (op->early ? EARLY : COUNT)) {
        sim_fail(s, "/job:%s/task:%u runs a call that nobody has made there", t->job, t->index);
    }
    const bool whole = effect->kind == PSD_EFFECT_CALL;
    if (effect->call_in_bytes != op->in_bytes || effect->call_out_bytes != op->out_room ||
        (effect->call_come == op->in_bytes) != whole || !words_are(effect->call_in, effect->call_come, sizeof(id), id)) {
        sim_fail(s, "TORN: %s runs on %zu bytes, or on others than those of its call", sim_op_text(op, text), effect->call_come);
    }
    if (op->ran) {
        sim_fail(s, "DOUBLED: %s runs a second time, at /job:%s/task:%u", sim_op_text(op, text), t->job, t->index);
    }
    if (whole && op->state == SIM_OP_DONE && op->applied == PS_NOTHING_APPLIED) {
        sim_fail(s, "%s runs although its end said that nothing was done", sim_op_text(op, text));
    }
    return op;
}

void sim_work_begin(struct sim *s, struct sim_task *t, const struct psd_effect *effect)
{
    struct sim_op *op = op_of(s, t, effect);
    struct sim_work *w = work_of(t, effect->call);
    const bool whole = effect->kind == PSD_EFFECT_CALL;
    if (w != NULL && (!whole || !w->awaits || w->cancelled || w->op != op || w->in != effect->call_in)) {
        sim_fail(s, "call %llu begins twice at /job:%s/task:%u", (unsigned long long)effect->call, t->job, t->index);
    }
    if (w == NULL) {
        if (t->work_count == SIM_WORKS_MAX) {
            sim_fail(s, "more than %d calls run at /job:%s/task:%u", SIM_WORKS_MAX, t->job, t->index);
        }
        w = &t->work[t->work_count++];
        *w = (struct sim_work){.id = effect->call,
                               .op = op,
                               .in = effect->call_in,
                               .out = effect->call_out,
                               .come = effect->call_come,
                               .writes = sim_one_in(s, 2)};
        s->count_early += !whole;
    }
    w->awaits = !whole;
    w->end_at = s->now + sim_below(s, 200);
    if (whole) {
        op->ran = true;
        op->count = ++t->counter;
    }
}

/* ---- what a call writes ---- */

static void write_over(struct sim *s, struct sim_work *w, ps_status st, uint64_t version)
{
    w->write->state = SIM_OP_DONE;
    w->write->status = st;
    w->write->applied = PS_NOTHING_APPLIED;
    w->write->version = version;
    w->write->done_event = s->event;
    w->write->done_ms = s->now;
    s->count_written += st == PS_OK;
}

/* A register of numbers that is ready at this task, if there is one. What programs give a model before it is ready is theirs. */
static const struct sim_birth *register_at(const struct sim *s, const struct sim_task *t)
{
    for (size_t i = s->birth_count; i > 0; i--) {
        const struct sim_birth *b = &s->birth[i - 1];
        if (b->alive && &s->task[b->task] == t && b->sealed && b->var->kind == SIM_VAR_REGISTER && b->var->dtype != PS_STRING) {
            return b;
        }
    }
    return NULL;
}

static void write_begin(struct sim *s, struct sim_task *t, struct sim_work *w)
{
    const struct sim_birth *b = register_at(s, t);
    struct psi_err err;
    w->writes = false;
    if (b == NULL) {
        return;
    }
    const struct psd_draft_spec what = {.container = b->var->container,
                                        .name = b->var->name,
                                        .dtype = b->var->dtype,
                                        .shape = {.rank = 1, .dims = {(int64_t)b->var->elements}}};
    w->write = sim_write_new(s, b->var, b->creation);
    const ps_status st = psd_task_draft(t->core, w->id, &what, &w->room, &err);
    if (st == PS_INVALID_ARGUMENT || st == PS_PERMISSION_DENIED) {
        sim_fail(s, "a draft of '%s' is refused: %s", b->var->name, err.text);
    }
    if (st != PS_OK) {
        write_over(s, w, st, 0);
    }
}

struct publish {
    struct psd_publish is;
    struct sim *s;
    struct sim_task *t;
};

static void on_published(struct psd_publish *is, const struct psi_err *err)
{
    struct publish *p = PSI_CONTAINER_OF(is, struct publish, is);
    struct sim_work *w = work_of(p->t, is->call);
    w->publishing = false;
    w->room = NULL; /* where it is not published it goes with the call */
    w->end_at = p->s->now;
    write_over(p->s, w, err != NULL ? err->code : PS_OK, is->version);
    free(p);
}

/* Another thread has written the value meanwhile. */
static void write_end(struct sim *s, struct sim_task *t, struct sim_work *w)
{
    const struct sim_var *v = w->write->var;
    for (uint64_t i = 0; i < v->elements; i++) {
        const float single = (float)w->write->tag;
        const int64_t whole = (int64_t)w->write->tag;
        const void *from = v->dtype == PS_F32   ? (const void *)&single
                           : v->dtype == PS_I64 ? (const void *)&whole
                                                : &w->write->tag;
        memcpy((uint8_t *)w->room + i * ps_dtype_bytes(v->dtype), from, ps_dtype_bytes(v->dtype));
    }
    w->publishing = true;
    w->end_at = SIM_NEVER;
    struct publish *p = sim_alloc(sizeof(*p));
    *p = (struct publish){.is = {.call = w->id, .room = w->room, .done = on_published}, .s = s, .t = t};
    psd_task_publish(t->core, &p->is);
}

void sim_works_kill(struct sim *s, struct sim_task *t)
{
    for (uint32_t i = 0; i < t->work_count; i++) {
        if (t->work[i].room != NULL) {
            write_over(s, &t->work[i], PS_ABORTED, 0);
        }
    }
    t->work_count = 0; /* its threads end with it */
}

void sim_work_cancel(struct sim *s, struct sim_task *t, const struct psd_effect *effect)
{
    for (uint32_t i = 0; i < t->work_count; i++) {
        struct sim_work *w = &t->work[i];
        if (w->id != effect->call) {
            continue;
        }
        if (w->cancelled) {
            sim_fail(s, "call %llu is cancelled twice", (unsigned long long)w->id);
        }
        w->cancelled = true;
        s->count_early_cut += w->awaits;
        w->end_at = (sim_one_in(s, 2) && !w->publishing) || w->awaits ? s->now : w->end_at; /* it may not listen */
    }
}

bool sim_work_due(const struct sim *s, const struct sim_task *t, uint64_t *out_next)
{
    bool any = false;
    for (uint32_t i = 0; i < t->work_count; i++) {
        any = any || t->work[i].end_at <= s->now;
        if (t->work[i].end_at > s->now && t->work[i].end_at < *out_next) {
            *out_next = t->work[i].end_at;
        }
    }
    return any;
}

/* A call that awaits its input: as far as that has come it is as it was. It makes its draft. The rest of the input, or the
 * cancel, wakes it. */
static void await(struct sim *s, struct sim_task *t, struct sim_work *w)
{
    char text[200];
    if (!words_are(w->in, w->come, sizeof(w->op->id), w->op->id)) {
        sim_fail(s, "TORN: the input of %s changes while it runs", sim_op_text(w->op, text));
    }
    if (w->writes) {
        write_begin(s, t, w);
    }
    w->end_at = SIM_NEVER;
    sim_task_settle(s, t);
}

static void check_is_there(struct sim *s, const struct sim_task *t, uint64_t call)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->core->works) {
        if (PSI_CONTAINER_OF(it, struct psd_work, link)->id == call) {
            return;
        }
    }
    sim_fail(s, "FREED: call %llu runs at /job:%s/task:%u, which has given its memory back", (unsigned long long)call, t->job,
             t->index);
}

void sim_work_end(struct sim *s, struct sim_task *t)
{
    uint32_t i = (uint32_t)sim_below(s, t->work_count);
    while (t->work[i].end_at > s->now) {
        i = (i + 1) % t->work_count;
    }
    const uint64_t call = t->work[i].id;
    check_is_there(s, t, call);
    if (t->work[i].awaits && !t->work[i].cancelled) {
        await(s, t, &t->work[i]);
        return;
    }
    const bool stops = t->work[i].cancelled && sim_one_in(s, 2);
    if (t->work[i].writes && !stops) {
        write_begin(s, t, &t->work[i]);
        work_of(t, call)->end_at = s->now + sim_below(s, 200);
        sim_task_settle(s, t);
        return;
    }
    if (t->work[i].room != NULL && !stops) {
        write_end(s, t, &t->work[i]);
        sim_task_settle(s, t);
        return;
    }
    struct sim_work w = t->work[i];
    if (w.room != NULL) {
        write_over(s, &w, PS_CANCELLED, 0);
    }
    t->work[i] = t->work[--t->work_count];
    struct sim_op *op = w.op;
    ps_status st = w.cancelled ? PS_CANCELLED : op->fails ? PS_INVALID_ARGUMENT : PS_OK;
    size_t bytes = 0;
    if (st == PS_OK) {
        bytes = sim_one_in(s, 4) ? op->out_room : RESULT_BYTES + sim_below(s, 100);
        words_fill(w.out, bytes, RESULT_BYTES, op->id);
        memcpy(w.out, &op->id, 8);
        memcpy((uint8_t *)w.out + 8, &op->count, 8);
        op->result_bytes = bytes;
    }
    sim_trace(s, "%s:%u ends call %llu: %s", t->job, t->index, (unsigned long long)w.id, ps_status_name(st));
    psd_task_call_finished(t->core, w.id, st, PS_REASON_NONE, bytes, st == PS_OK ? "" : "the call was told to fail");
    sim_task_settle(s, t);
}

void sim_work_prepare(struct sim *s, struct sim_call *call)
{
    struct psi_request *req = &call->req;
    const struct sim_task *to = sim_task_named(s, call->program->core, req->task);
    struct sim_op *op = call->op;
    op->early = sim_one_in(s, 2);
    op->in_bytes = sim_one_in(s, op->early ? 2 : 6) ? sizeof(op->id) + sim_below(s, LARGE_BYTES) : sizeof(op->id);
    op->out_room = sim_one_in(s, 6) ? PS_CALL_BYTES_MAX + sim_below(s, LARGE_BYTES) : PS_CALL_BYTES_MAX;
    struct psi_call_io *io = sim_alloc(sizeof(*io) + op->out_room);
    call->bytes = op->in_bytes;
    call->src = sim_alloc(call->bytes);
    memcpy(call->src, &op->id, sizeof(op->id));
    words_fill(call->src, call->bytes, sizeof(op->id), op->id);
    *io = (struct psi_call_io){.name = names[op->early ? EARLY : COUNT],
                               .in = call->src,
                               .in_bytes = call->bytes,
                               .out = io + 1,
                               .out_capacity = op->out_room};
    call->dst = (uint8_t *)io;
    req->dst = io;
    call->op->fails = call->program->role != SIM_FINAL && sim_one_in(s, 8);
    call->op->task = to != NULL ? (uint32_t)(to - s->task) : call->op->task;
}

bool sim_work_check(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_call_io *io = (const struct psi_call_io *)(const void *)call->dst;
    uint64_t got[2] = {0, 0};
    char text[200];
    if (op->status == PS_OK) {
        memcpy(got, io->out, sizeof(got));
        if (!op->ran || op->fails || io->out_bytes != op->result_bytes || got[0] != op->id || got[1] != op->count ||
            !words_are(io->out, io->out_bytes, RESULT_BYTES, op->id)) {
            sim_fail(s, "%s ended OK with %zu bytes for call %llu, count %llu; it %s", sim_op_text(op, text), io->out_bytes,
                     (unsigned long long)got[0], (unsigned long long)got[1], op->ran ? "ran" : "has not run");
        }
        return true;
    }
    if (op->applied == PS_NOTHING_APPLIED && op->ran) {
        sim_fail(s, "%s says that nothing was done, but it has run", sim_op_text(op, text));
    }
    return op->status == PS_INVALID_ARGUMENT && op->ran && op->fails && op->applied == PS_MAYBE_PARTLY_APPLIED;
}
