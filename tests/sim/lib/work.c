/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call table of a simulated task: one call, sim.count, which adds one to a counter of its process and gives back the number
 * of the program's call and the counter. It takes a while on a compute thread that the scheduler plays, and fails when told to.
 *
 * The rules of CALL are checked here: one that a program made runs at most once, in one process, whatever happens to connections,
 * tasks and programs; one that ended OK has run and its result is its own; one whose end says that nothing was done has not run
 * and never will; one that nobody waits for any more is told.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { RESULT_BYTES = 16 };

static const char call_name[] = "sim.count";

const char *sim_work_name(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0 ? call_name : NULL;
}

void sim_work_begin(struct sim *s, struct sim_task *t, const struct psd_effect *effect)
{
    uint64_t id = 0;
    char text[200];
    if (effect->call_row != 0 || effect->call_in_bytes != sizeof(id) || effect->call_out_bytes != PS_CALL_BYTES_MAX) {
        sim_fail(s, "/job:%s/task:%u runs row %u with %zu bytes", t->job, t->index, effect->call_row, effect->call_in_bytes);
    }
    memcpy(&id, effect->call_in, sizeof(id));
    struct sim_op *op = id >= 1 && id <= s->op_count ? s->op[id - 1] : NULL;
    if (op == NULL || op->kind != PSI_REQ_CALL || strcmp(s->task[op->task].address, t->address) != 0) {
        sim_fail(s, "/job:%s/task:%u runs a call that nobody has made there", t->job, t->index);
    }
    if (op->ran) {
        sim_fail(s, "DOUBLED: %s runs a second time, at /job:%s/task:%u", sim_op_text(op, text), t->job, t->index);
    }
    if (op->state == SIM_OP_DONE && op->applied == PS_NOTHING_APPLIED) {
        sim_fail(s, "%s runs although its end said that nothing was done", sim_op_text(op, text));
    }
    if (t->work_count == SIM_WORKS_MAX) {
        sim_fail(s, "more than %d calls run at /job:%s/task:%u", SIM_WORKS_MAX, t->job, t->index);
    }
    op->ran = true;
    op->count = ++t->counter;
    t->work[t->work_count++] =
        (struct sim_work){.id = effect->call, .op = op, .out = effect->call_out, .end_at = s->now + sim_below(s, 200)};
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
        w->end_at = sim_one_in(s, 2) ? s->now : w->end_at; /* it may not listen */
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

void sim_work_end(struct sim *s, struct sim_task *t)
{
    uint32_t i = (uint32_t)sim_below(s, t->work_count);
    while (t->work[i].end_at > s->now) {
        i = (i + 1) % t->work_count;
    }
    struct sim_work w = t->work[i];
    t->work[i] = t->work[--t->work_count];
    struct sim_op *op = w.op;
    ps_status st = w.cancelled ? PS_CANCELLED : op->fails ? PS_INVALID_ARGUMENT : PS_OK;
    size_t bytes = 0;
    if (st == PS_OK) {
        bytes = sim_one_in(s, 4) ? PS_CALL_BYTES_MAX : RESULT_BYTES + sim_below(s, 100);
        memset(w.out, 0x5a, bytes);
        memcpy(w.out, &op->id, 8);
        memcpy((uint8_t *)w.out + 8, &op->count, 8);
        op->result_bytes = bytes;
    }
    sim_trace(s, "%s:%u ends call %llu: %s", t->job, t->index, (unsigned long long)w.id, ps_status_name(st));
    psd_task_call_finished(t->core, w.id, st, bytes, st == PS_OK ? "" : "the call was told to fail");
    sim_task_settle(s, t);
}

void sim_work_prepare(struct sim *s, struct sim_call *call)
{
    struct psi_request *req = &call->req;
    const char *address = psi_client_task_address(call->program->core, req->task);
    struct psi_call_io *io = sim_alloc(sizeof(*io) + PS_CALL_BYTES_MAX);
    call->bytes = sizeof(call->op->id);
    call->src = sim_alloc(call->bytes);
    memcpy(call->src, &call->op->id, call->bytes);
    *io = (struct psi_call_io){
        .name = call_name, .in = call->src, .in_bytes = call->bytes, .out = io + 1, .out_capacity = PS_CALL_BYTES_MAX};
    call->dst = (uint8_t *)io;
    req->dst = io;
    call->op->fails = call->program->role != SIM_FINAL && sim_one_in(s, 8);
    for (uint32_t i = 0; i < s->task_count; i++) {
        call->op->task = strcmp(s->task[i].address, address) == 0 ? i : call->op->task;
    }
}

bool sim_work_check(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_call_io *io = (const struct psi_call_io *)(const void *)call->dst;
    uint64_t got[2] = {0, 0};
    char text[200];
    if (op->status == PS_OK) {
        memcpy(got, io->out, sizeof(got));
        if (!op->ran || op->fails || io->out_bytes != op->result_bytes || got[0] != op->id || got[1] != op->count) {
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
