/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers in the simulated world: in one seed of four, programs wait for each other at three of them, two for a count and one
 * for all workers, with short deadlines, while everything breaks.
 *
 * What is checked: nobody leaves before all have come: there were as many calls, at the same time, as the count says. A call that
 * ended otherwise, and a process that was killed, may be waited for no longer than until its lease is over. Where nothing breaks,
 * every worker had come to the one for all, and nobody is late while as many wait as are to. Another count is refused only where
 * somebody gave one.
 */
#include "sim.h"

#include <string.h>

enum { GATES = 3, TIMEOUT_MIN_MS = 200, TIMEOUT_MAX_MS = 2500, SETTLED_MS = 1000 };

bool sim_barrier_draw(struct sim *s, const struct sim_program *p, uint32_t *out_timeout_ms)
{
    if (s->seed % 4 != 2 || p->role == SIM_FINAL || s->k.profile == SIM_RACE || !sim_one_in(s, 10)) { /* no draw in the others */
        return false;
    }
    *out_timeout_ms = (uint32_t)sim_range(s, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS);
    return true;
}

void sim_barrier_prepare(struct sim *s, struct sim_call *call)
{
    static const char *const names[GATES] = {"gate2", "gate3", "gate_all"};
    struct sim_op *op = call->op;
    op->gate = (uint32_t)sim_below(s, GATES);
    op->of = op->gate == 2 ? 0 : op->gate + 2;
    op->of += sim_one_in(s, 16); /* another one than the others say */
    call->barrier = (struct psi_barrier){.at = {.name = names[op->gate]}, .count = (int)op->of};
    call->req.src = &call->barrier;
}

/* The task may have counted it until then. */
static uint64_t counted_until(const struct sim *s, const struct sim_op *op)
{
    bool over = op->state == SIM_OP_DONE && op->status == PS_OK;
    return op->state == SIM_OP_PENDING ? SIM_NEVER : over ? op->done_ms : op->done_ms + 3ull * s->k.lease_ms;
}

/* Calls at the same gate, this one included, that may have waited there while it did. */
static uint32_t others(const struct sim *s, const struct sim_op *op, bool same_count)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *o = s->op[i];
        count += o->kind == PSI_REQ_BARRIER && o->gate == op->gate && (o->of == op->of) == same_count &&
                 counted_until(s, o) >= op->started_ms;
    }
    return count;
}

/* Nothing breaks: it holds a lease, and does not end. */
static bool works_surely(const struct sim_program *p, const struct sim_op *op)
{
    return p->core != NULL && p->state == SIM_WORK && strcmp(p->job, "worker") == 0 && p->begun_ms + SETTLED_MS < op->started_ms;
}

static bool has_waited(const struct sim *s, const struct sim_program *p, const struct sim_op *op)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *o = s->op[i];
        if (o->kind == PSI_REQ_BARRIER && o->gate == op->gate && o->program == p->index && o->life == p->life &&
            counted_until(s, o) >= op->started_ms) {
            return true;
        }
    }
    return false;
}

/* Those who wait there now with this count, and have for a while. */
static uint32_t waiting(const struct sim *s, const struct sim_op *op)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *o = s->op[i];
        count += o->kind == PSI_REQ_BARRIER && o->gate == op->gate && o->of == op->of && o->state == SIM_OP_PENDING &&
                 o->started_ms + SETTLED_MS < op->done_ms && o->deadline_ms > op->done_ms;
    }
    return count;
}

void sim_barrier_check(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const char *why = call->req.err != NULL ? call->req.err->text : "";
    char text[200];
    switch (op->status) {
    case PS_OK:
        if (others(s, op, true) < op->of) {
            sim_fail(s, "EARLY: %s, for %u, is let go, and %u have come", sim_op_text(op, text), op->of, others(s, op, true));
        }
        for (uint32_t i = 0; i < s->program_count && op->of == 0 && s->k.quiet; i++) {
            const struct sim_program *p = &s->program[i];
            if (works_surely(p, op) && !has_waited(s, p, op)) {
                sim_fail(s, "EARLY: %s, for all workers, is let go, and client%u.%u has not come", sim_op_text(op, text),
                         p->index, p->life);
            }
        }
        break;
    case PS_INVALID_ARGUMENT:
        if (others(s, op, false) == 0) {
            sim_fail(s, "%s is refused, and nobody waits there for another count: %s", sim_op_text(op, text), why);
        }
        break;
    case PS_DEADLINE_EXCEEDED:
        if (s->k.quiet && op->of > 0 && op->done_ms > op->started_ms + SETTLED_MS && waiting(s, op) + 1 >= op->of) {
            sim_fail(s, "HANGS: %s, for %u, is late, and %u wait there", sim_op_text(op, text), op->of, waiting(s, op));
        }
        break;
    case PS_ABORTED:
        if (s->k.quiet) {
            sim_fail(s, "%s is ABORTED although nothing breaks in this seed: %s", sim_op_text(op, text), why);
        }
        break;
    case PS_UNAVAILABLE:
    case PS_RESOURCE_EXHAUSTED:
        break;
    case PS_CANCELLED:
        if (!s->k.trains || call->req.err == NULL || call->req.err->reason != PS_REASON_INTERRUPTED) {
            sim_fail(s, "%s is CANCELLED, and nobody has interrupted it: %s", sim_op_text(op, text), why);
        }
        break;
    default:
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), why);
    }
    if (op->status != PS_OK && why[0] == '\0') {
        sim_fail(s, "%s failed and says nothing", sim_op_text(op, text));
    }
}
