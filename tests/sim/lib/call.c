/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call: a ledger entry, a request with buffers of its own, and the callback that compares what it is told with the ledger.
 *
 * The law of callbacks is checked here: exactly once, never from within the start, never later than the deadline. After a
 * callback the gradient buffer is scribbled over and freed, so a library that still reads it sends nonsense (or is caught by the
 * address sanitizer); the memory for values is filled and looked at again later: nobody may have written to it.
 */
#include "sim.h"

#include "worker/core/rows.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_MS = 150 }; /* after a deadline; ticks come every 50 ms */

static struct sim_op *op_new(struct sim *s, const struct sim_program *p, enum psi_request_kind kind, struct sim_var *var)
{
    if (s->op_count == s->op_capacity) {
        s->op_capacity = s->op_capacity == 0 ? 256 : s->op_capacity * 2;
        s->op = realloc(s->op, s->op_capacity * sizeof(s->op[0]));
        if (s->op == NULL) {
            abort();
        }
    }
    struct sim_op *op = sim_alloc(sizeof(*op));
    op->id = s->op_count + 1;
    op->program = p->index;
    op->life = p->life;
    op->kind = kind;
    op->var = var;
    op->container = kind != PSI_REQ_RESET ? NULL : p->role == SIM_MONITOR ? SIM_OTHER : SIM_CONTAINER;
    op->started_event = s->event;
    op->started_ms = s->now;
    s->op[s->op_count++] = op;
    return op;
}

struct sim_op *sim_write_new(struct sim *s, struct sim_var *var, uint64_t creation)
{
    static const struct sim_program nobody = {.index = UINT32_MAX};
    struct sim_op *op = op_new(s, &nobody, PSI_REQ_ASSIGN, var);
    op->creation = creation;
    op->tag = ++s->tag_next;
    op->one_segment = sim_var_bytes(var) <= PS_SEGMENT_BYTES;
    return op;
}

enum { SCRIBBLE = 0x5a };

/* The memory for values of a call that is over takes the place of an earlier one's. */
static void keep_dst(struct sim *s, struct sim_call *call)
{
    struct sim_freed *f = &s->freed[s->freed_next++ % SIM_FREED_MAX];
    for (size_t i = 0; i < f->bytes; i++) {
        if (f->dst[i] != SCRIBBLE) {
            sim_fail(s, "WRITTEN AFTER ITS END: byte %zu of the %zu of call %llu", i, f->bytes, (unsigned long long)f->op);
        }
    }
    free(f->dst);
    memset(call->dst, SCRIBBLE, call->bytes);
    *f = (struct sim_freed){.dst = call->dst, .bytes = call->bytes, .op = call->op->id};
}

static void call_free(struct sim *s, struct sim_call *call)
{
    if (call->dst != NULL && call->req.var != NULL) {
        keep_dst(s, call);
        call->dst = NULL;
    }
    if (call->src != NULL) {
        memset(call->src, 0x41, call->bytes); /* as f64 about 2.2e6, no power of four */
    }
    if (call->rows != NULL && call->rows->segments != NULL) {
        memset(call->rows->segments, 0x41, psi_rows_payload(call->rows->count, psi_rows_unit(call->rows->row_bytes)));
    }
    psi_rows_free(call->rows);
    free(call->src);
    free(call->dst);
    free(call);
}

static void on_done(struct psi_request *req)
{
    struct sim_call *call = (struct sim_call *)(void *)req;
    struct sim_program *p = call->program;
    struct sim *s = p->sim;
    struct sim_op *op = call->op;
    if (op->state == SIM_OP_KILLED) {
        p->calls[call->slot] = NULL;
        call_free(s, call);
        return;
    }
    char text[200];
    if (p->in_start || op->state != SIM_OP_PENDING) {
        sim_fail(s, "the callback of %s runs %s", sim_op_text(op, text), p->in_start ? "from within a start" : "a second time");
    }
    op->state = SIM_OP_DONE;
    op->status = req->status;
    if (req->status == PS_CANCELLED && req->err != NULL && req->err->reason == PS_REASON_INTERRUPTED) {
        op->status = PS_DEADLINE_EXCEEDED; /* it is withdrawn as at a deadline, and is to leave as much and as little behind */
    }
    op->applied = req->applied;
    op->version = req->version;
    op->exact = req->exact;
    if (op->var != NULL && req->var != NULL) { /* what is read narrow may be added to wide */
        op->one_segment = op->var->dtype == PS_STRING || sim_var_bytes(op->var) <= PS_SEGMENT_BYTES;
    }
    op->done_event = s->event;
    op->done_ms = s->now;
    if (op->kind == PSI_REQ_ADD && op->status == PS_OK) {
        const uint64_t bytes = sim_var_bytes(op->var);
        if (req->result_bytes != (bytes <= PS_RESULT_BYTES_MAX ? bytes : 0)) {
            sim_fail(s, "%s: an answer of %u bytes", sim_op_text(op, text), req->result_bytes);
        }
        memcpy(&op->result, req->result, 8);
        for (uint32_t i = 8; op->var->dtype == PS_I64 && i < req->result_bytes; i += 8) {
            if (memcmp(req->result, req->result + i, 8) != 0) {
                sim_fail(s, "%s: elements of its answer differ", sim_op_text(op, text));
            }
        }
    }
    s->count_ok += op->status == PS_OK;
    s->count_failed += op->status != PS_OK;
    if (s->verbose) {
        sim_trace(s, "client%u.%u done %s version %llu%s %s", p->index, p->life, sim_op_text(op, text),
                  (unsigned long long)op->version, op->exact ? " exact" : "", req->err != NULL ? req->err->text : "");
    }
    sim_check_done(s, call);
    sim_admin_done(s, call);
    p->calls[call->slot] = NULL;
    p->calls_out--;
    sim_program_done(s, p, call);
    call_free(s, call);
}

static double power4(uint32_t k)
{
    return (double)((uint64_t)1 << (2 * k));
}

static void fill(const struct sim_var *v, uint8_t *to, double x)
{
    for (uint64_t i = 0; i < v->elements; i++) {
        float f = (float)x;
        int64_t n = (int64_t)x;
        switch (v->dtype) {
        case PS_F32:
            memcpy(to + i * 4, &f, 4);
            break;
        case PS_I64:
            memcpy(to + i * 8, &n, 8);
            break;
        default:
            memcpy(to + i * 8, &x, 8);
            break;
        }
    }
}

static uint8_t *buffer(const struct sim_var *v, struct sim_call *call)
{
    call->bytes = sim_var_bytes(v);
    uint8_t *b = aligned_alloc(64, (call->bytes + 64) & ~(size_t)63); /* of no bytes one as well */
    if (b == NULL) {
        abort();
    }
    return b;
}

static void next_digit(struct sim *s, struct sim_op *op)
{
    struct sim_var *v = op->var;
    op->to = op->from == op->to ? v->elements : op->to;
    if (v->digits_used >= v->digits_max) {
        sim_fail(s, "no digit left for '%s': a fault of the workload", v->name);
    }
    op->digit = v->digits_used++;
    v->digit[op->digit] = op;
}

/* Elements [op->from, op->to) as rows, with x for each; READ: without. Some are named twice, and in falling order, with half of
 * x each time. */
static void make_rows(struct sim *s, struct sim_call *call, enum psi_rows_use use, double x)
{
    const struct sim_op *op = call->op;
    const struct sim_var *v = op->var;
    const uint64_t count = op->to - op->from;
    const bool twice = use != PSI_ROWS_READ && x / 2 == (double)(int64_t)(x / 2) && sim_one_in(s, 2);
    const ps_shape shape = {.rank = 1, .dims = {(int64_t)v->elements}};
    struct psi_rows_given given = {.name = v->name, .shape = &shape, .dtype = v->dtype, .count = twice ? 2 * count : count};
    struct sim_var some = *v;
    some.elements = given.count;
    int64_t *indices = sim_alloc((given.count + 1) * sizeof(*indices));
    uint8_t *values = sim_alloc(sim_var_bytes(&some) + 1);
    for (uint64_t i = 0; i < given.count; i++) {
        indices[i] = (int64_t)(twice ? op->to - 1 - i % count : op->from + i);
    }
    fill(&some, values, twice ? x / 2 : x);
    given.indices = indices;
    given.values = values;
    given.use = use;
    if (psi_rows_new(&given, &call->rows, NULL) != PS_OK) {
        sim_fail(s, "psi_rows_new()");
    }
    free(indices);
    free(values);
}

/* PUSH_ROWS, PUSH_PULL_ROWS, SCATTER: some elements that lie one behind the other. A prefix of them may be applied. A
 * PUSH_PULL_ROWS has all elements, so that its values are checked as those of a push-pull are. */
static void prepare_rows(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    const struct sim_var *v = op->var;
    const bool pulls = op->kind == PSI_REQ_PUSH_PULL_ROWS, push = op->kind == PSI_REQ_PUSH_ROWS || pulls;
    const bool minus = !push && sim_one_in(s, 3);
    const float scale = push ? (float)sim_range(s, 1, 2) / 2.0f : 1;
    op->from = pulls || sim_one_in(s, 2) ? 0 : sim_below(s, v->elements);
    op->to = pulls || sim_one_in(s, 2) ? v->elements : op->from + sim_range(s, 1, v->elements - op->from);
    next_digit(s, op);
    make_rows(s, call, pulls ? PSI_ROWS_SUM_READ : PSI_ROWS_SUM, (push || minus ? -1 : 1) * power4(op->digit) / (double)scale);
    call->rows->how = minus ? PS_SCATTER_SUB : PS_SCATTER_ADD;
    call->req.scale = scale;
}

static void prepare_variable(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    struct sim_var *v = op->var;
    struct psi_request *req = &call->req;
    req->scale = 1;
    switch (op->kind) {
    case PSI_REQ_PUSH:
    case PSI_REQ_PUSH_PULL: {
        if (v->kind == SIM_VAR_MODEL) {
            call->src = buffer(v, call); /* chief.c fills it */
            break;
        }
        if (v->kind == SIM_VAR_ROUND || v->kind == SIM_VAR_MOVED) {
            call->src = buffer(v, call);
            fill(v, call->src, v->kind == SIM_VAR_ROUND ? sim_rounds_gradient(s, call->program) : (double)(op->id % 7) - 2.5);
            break;
        }
        float scale = (float)sim_range(s, 1, 2) / 2.0f;
        next_digit(s, op);
        call->src = buffer(v, call);
        fill(v, call->src, -power4(op->digit) / (double)scale);
        req->scale = scale;
        break;
    }
    case PSI_REQ_ADD: {
        bool minus = sim_one_in(s, 3);
        const bool step = v->kind == SIM_VAR_STEP || v->kind == SIM_VAR_ROUND;
        if (!step) { /* of a variable of pushes it adds what a push would */
            next_digit(s, op);
        }
        op->add = step ? 1 : (int64_t)power4(op->digit);
        call->src = buffer(v, call);
        fill(v, call->src, minus ? -(double)op->add : (double)op->add);
        req->scale = minus ? -1 : 1;
        break;
    }
    case PSI_REQ_ASSIGN:
    case PSI_REQ_INIT_FROM:
        call->src = buffer(v, call);
        op->tag = v->kind == SIM_VAR_REGISTER ? ++s->tag_next : 0;
        if (v->dtype == PS_STRING) {
            call->bytes = sim_text_fill(v, (uint64_t)op->tag, call->src);
        } else {
            fill(v, call->src, v->kind == SIM_VAR_MOVED ? (double)(op->id % 5) + 0.5 : op->tag);
        }
        break;
    case PSI_REQ_PUSH_ROWS:
        if (v->kind == SIM_VAR_ROUND) {
            sim_rounds_rows(s, call);
            break;
        } /* fall through */
    case PSI_REQ_PUSH_PULL_ROWS:
    case PSI_REQ_SCATTER:
        prepare_rows(s, call);
        break;
    case PSI_REQ_GATHER: /* all of it, so that it is checked as a pull is */
        op->to = v->elements;
        make_rows(s, call, PSI_ROWS_READ, 0);
        break;
    default:
        break;
    }
    if (op->kind == PSI_REQ_PULL || op->kind == PSI_REQ_PUSH_PULL || op->kind == PSI_REQ_GATHER ||
        op->kind == PSI_REQ_PUSH_PULL_ROWS) {
        call->dst = buffer(v, call);
        memset(call->dst, 0xff, call->bytes); /* NaN, -1 */
    }
    req->src = call->rows != NULL ? (const void *)call->rows : call->src;
    req->dst = call->dst;
    req->bytes = call->bytes;
}

static void on_variable(void *ctx, const ps_variable_info *info)
{
    struct sim_call *call = ctx;
    if (info->name[0] == '\0' || info->dtype == PS_DTYPE_NONE) {
        sim_fail(call->program->sim, "VARS lists a variable without name or dtype");
    }
    const struct sim *s = call->program->sim;
    bool quiet = s->quiet_since != 0 && call->op->started_ms > s->quiet_since + sim_quiet_ms(s);
    if (quiet && !s->unclean && call->program->role != SIM_FINAL && info->in_progress != 0) {
        sim_fail(call->program->sim, "%u pushes of '%s' stay in progress at /job:%s/task:%u, and nobody will go on with them",
                 info->in_progress, info->name, info->job, info->task);
    }
}

/* Table index of a task that serves; workers are listed and do not. */
static uint32_t some_task(struct sim *s, const struct sim_program *p)
{
    const struct sim_task *t = &s->task[sim_below(s, s->task_count)];
    for (uint32_t i = 0; i < psi_client_task_count(p->core); i++) {
        if (sim_task_named(s, p->core, i) == t) {
            return i;
        }
    }
    return 0;
}

static void prepare_other(struct sim *s, struct sim_call *call)
{
    struct psi_request *req = &call->req;
    switch (call->op->kind) {
    case PSI_REQ_INFO:
        call->bytes = sizeof(ps_task_info);
        call->dst = sim_alloc(call->bytes);
        break;
    case PSI_REQ_VARS: {
        struct psi_list_sink sink = {.variable = on_variable, .ctx = call};
        call->bytes = sizeof(sink);
        call->dst = sim_alloc(call->bytes);
        memcpy(call->dst, &sink, sizeof(sink));
        break;
    }
    case PSI_REQ_WAIT_CLUSTER:
        req->src = "ps";
        break;
    case PSI_REQ_DELETE:
        call->name = (struct psi_var_name){.container = call->op->var->container, .name = call->op->var->name};
        req->src = &call->name;
        req->var = NULL;
        break;
    case PSI_REQ_BARRIER:
        sim_barrier_prepare(s, call);
        break;
    case PSI_REQ_READY:
    case PSI_REQ_JOIN:
    case PSI_REQ_STEP:
    case PSI_REQ_LEAVE:
        sim_rounds_prepare(s, call);
        break;
    case PSI_REQ_RESET:
        req->src = call->op->container;
        break;
    default:
        break;
    }
    req->task = some_task(s, call->program);
    PSI_IGNORE(sim_admin_prepare(s, call)); /* calls of administration only */
    sim_saves_prepare(s, call);             /* calls about checkpoints only */
    if (call->dst != NULL) {
        req->dst = call->dst;
        req->bytes = call->bytes;
    }
    if (call->op->kind == PSI_REQ_CALL) {
        sim_work_prepare(s, call);
    }
}

/* RESET and DELETE may take effect from now on. */
static void note_wipe(struct sim *s, struct sim_op *op)
{
    if (op->kind != PSI_REQ_RESET && op->kind != PSI_REQ_DELETE) {
        return;
    }
    if (s->wipe_count == SIM_EXACT_MAX) {
        sim_fail(s, "more than %d resets and deletes: a fault of the workload", SIM_EXACT_MAX);
    }
    s->wipe[s->wipe_count++] = (struct sim_wipe){.op = op, .var = op->kind == PSI_REQ_DELETE ? op->var : NULL};
}

struct sim_op *sim_call_start(struct sim *s, struct sim_program *p, enum psi_request_kind kind, struct sim_var *var,
                              uint32_t timeout_ms)
{
    uint32_t slot = 0;
    while (p->calls[slot] != NULL) {
        slot++;
    }
    struct sim_call *call = sim_alloc(sizeof(*call));
    struct sim_op *op = op_new(s, p, kind, var);
    struct psi_err err = {.code = PS_OK};
    call->program = p;
    call->op = op;
    call->slot = slot;
    call->req.done = on_done;
    call->req.kind = kind;
    op->deadline_ms = s->now + timeout_ms;
    call->req.deadline_ms = op->deadline_ms;
    if (var != NULL) {
        call->req.var = p->var[var - s->var];
        op->creation = call->req.var != NULL ? call->req.var->creation : 0;
        const struct sim_birth *b = sim_birth_find(s, op->creation);
        if (b != NULL) {
            op->floor_version = b->done_version;
            op->floor_value = var->kind == SIM_VAR_HYPER ? (int64_t)b->chief_number : b->done_value;
        }
        prepare_variable(s, call);
        sim_queue_prepare(s, call);
        sim_rounds_prepare(s, call);
    }
    prepare_other(s, call);
    sim_chief_prepare(s, call);
    sim_ready_prepare(s, call);
    note_wipe(s, op);
    p->calls[slot] = call;
    p->calls_out++;
    char text[200];
    if (s->verbose) {
        sim_trace(s, "client%u.%u calls %s, %u ms", p->index, p->life, sim_op_text(op, text), timeout_ms);
    }
    p->in_start = true;
    ps_status st = psi_client_start(p->core, &call->req, &err);
    p->in_start = false;
    if (st == PS_OK) {
        return op;
    }
    op->state = SIM_OP_DONE;
    op->status = st;
    op->applied = PS_NOTHING_APPLIED;
    op->done_event = s->event;
    bool gone = var != NULL && call->req.var != NULL && (call->req.var->lost || !call->req.var->open);
    if (err.text[0] == '\0' || (st != PS_RESOURCE_EXHAUSTED && !(gone && (st == PS_FAILED_PRECONDITION || st == PS_ABORTED)))) {
        sim_fail(s, "%s is refused: %s", sim_op_text(op, text), err.text);
    }
    sim_trace(s, "client%u.%u refused: %s", p->index, p->life, err.text);
    p->calls[slot] = NULL;
    p->calls_out--;
    call_free(s, call);
    return NULL;
}

void sim_calls_forget(struct sim *s, struct sim_program *p)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (p->calls[i] != NULL) {
            p->calls[i]->op->state = SIM_OP_KILLED;
            p->calls[i]->op->done_ms = s->now;
        }
    }
    p->calls_out = 0;
}

void sim_calls_late(struct sim *s, struct sim_program *p)
{
    char text[200];
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (p->calls[i] != NULL && s->now > p->calls[i]->op->deadline_ms + LATE_MS) {
            sim_fail(s, "%s has had no callback %llu ms after its deadline", sim_op_text(p->calls[i]->op, text),
                     (unsigned long long)(s->now - p->calls[i]->op->deadline_ms));
        }
    }
}
