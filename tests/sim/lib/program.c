/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client does with its life: know the cluster, get its variables, become ready, work for a while, say goodbye, come back.
 *
 * A lost variable (ABORTED) ends the session, as it would end a training program; lost trained values (DATA_LOSS) make the chief
 * empty the container first, as `--fresh` does. The monitor makes, uses and deletes a variable of its own, most often in a
 * container of its own that it also resets, and looks at all others. The final program runs when all faults are over: every call
 * of it must succeed.
 */
#include "sim.h"

#include <string.h>

enum { FINAL_CALLS = 24 };

static const ps_optimizer *optimizer_of(const struct sim_var *v, const struct sim_program *p)
{
    const ps_optimizer *exact = p->sim->k.beside ? ps_momentum(1.0, 0.0) : ps_sgd(1.0); /* the same, with a slot */
    switch (v->kind) {
    case SIM_VAR_PUSH:
    case SIM_VAR_TMP:
        return exact;
    case SIM_VAR_MODEL: /* its pushes are only to be few */
        return p->sim->k.beside ? ps_adam(sim_chief_rate(p)) : ps_sgd(sim_chief_rate(p));
    case SIM_VAR_ROUND:
        return v->dtype == PS_I64 ? ps_no_optimizer() : sim_rounds_optimizer(p->sim->k.beside);
    case SIM_VAR_MOVED:
        return sim_moved_optimizer(p->sim);
    case SIM_VAR_HYPER:
        return ps_sgd(1.0 + (double)p->life / 1024.0);
    default:
        return ps_no_optimizer();
    }
}

static void make_variables(struct sim *s, struct sim_program *p)
{
    for (uint32_t n = 0; n < s->var_count; n++) {
        uint32_t i = p->order[n];
        struct sim_var *v = &s->var[i];
        bool find_only = p->role == SIM_MONITOR && v->kind != SIM_VAR_TMP;
        if ((p->set & 1u << i) == 0) {
            continue;
        }
        ps_variable_spec spec = {.struct_bytes = sizeof(spec),
                                 .name = v->name,
                                 .dtype = v->dtype,
                                 .init = ps_zeros(),
                                 .atomic = v->atomic,
                                 .wire_dtype = find_only ? PS_DTYPE_NONE : v->wire,
                                 .optimizer = optimizer_of(v, p),
                                 .device = v->device[0] != '\0' && !v->unpinned ? v->device : NULL};
        bool scalar = v->kind == SIM_VAR_STEP || (v->kind == SIM_VAR_ROUND && v->dtype == PS_I64);
        spec.shape.rank = scalar ? 0 : 1;
        spec.shape.dims[0] = scalar ? 0 : (int64_t)v->elements;
        struct psi_err err = {.code = PS_OK};
        struct psi_var_scope scope = {.container = v->container, .part = !find_only && v->part.count > 0 ? &v->part : NULL};
        if (v->kind == SIM_VAR_QUEUE) {
            scope.queue = true;
            scope.elements = &v->queue;
        }
        if (psi_client_variable_in(p->core, &spec, &scope, find_only, &p->var[i], &err) != PS_OK) {
            sim_fail(s, "psi_client_variable('%s'): %s", v->name, err.text);
        }
        p->var[i]->by_rows = v->by_rows;
    }
}

static void session_begin(struct sim *s, struct sim_program *p)
{
    const bool shuffle = s->k.profile == SIM_DIRECTORY && sim_one_in(s, 2) && !sim_has_parts(s); /* parts stay side by side */
    sim_client_start(s, p);
    p->state = SIM_CLUSTER;
    p->failures = 0;
    p->work_ok = 0;
    p->ended_ok = false;
    p->initialised_tmp = false;
    p->ready_out = false;
    p->asked_vars = 0;
    p->set = 0;
    for (uint32_t i = 0; i < s->var_count; i++) {
        enum sim_var_kind kind = s->var[i].kind;
        bool chief = p->role == SIM_CHIEF || p->role == SIM_FINAL;
        bool mine = p->role == SIM_MONITOR ? kind == SIM_VAR_TMP || sim_one_in(s, 3)
                                           : kind != SIM_VAR_TMP && (kind != SIM_VAR_HYPER || chief);
        p->set |= mine ? 1u << i : 0;
        uint32_t at = shuffle ? (uint32_t)sim_below(s, i + 1) : i;
        p->order[i] = p->order[at];
        p->order[at] = i;
    }
    p->todo = p->set;
    p->work_until = s->boundary_kind != PSI_REQ_NONE ? SIM_NEVER : s->now + sim_range(s, 200, 2ull * s->k.fault_until_ms);
    if (p->role == SIM_MONITOR) {
        p->work_until = s->now + sim_range(s, 100, 3000);
    }
    if (s->k.profile == SIM_ROUNDS) {
        sim_rounds_begin(s, p);
    }
    if (s->k.profile == SIM_LEASE) {
        sim_chief_begin(s, p);
    }
    if (s->k.profile == SIM_OWN) {
        sim_own_begin(s, p);
    }
    p->next_call_at = s->now;
}

/* The session is over as soon as its calls are. */
void sim_program_end_soon(struct sim *s, struct sim_program *p, uint32_t pause_ms)
{
    if (p->state != SIM_GOODBYE) {
        p->state = SIM_END;
    }
    p->start_at = s->now + sim_below(s, (uint64_t)pause_ms + 1);
}

static uint32_t timeout_of(struct sim *s, const struct sim_program *p)
{
    if (p->role != SIM_FINAL && sim_one_in(s, s->k.short_deadline_in)) {
        return (uint32_t)sim_range(s, 1, 300);
    }
    return s->k.operation_ms;
}

/* ---- work ---- */

static enum psi_request_kind draw_call(struct sim *s, struct sim_program *p, const struct sim_var *v)
{
    uint64_t x = sim_below(s, 100);
    bool digits = v->digits_used < v->digits_max;
    const bool rows = s->k.rows && v->elements > 0 && x % 2 == 0;
    switch (v->kind) {
    case SIM_VAR_PUSH:
        if (rows) {
            return x < 30 && digits   ? PSI_REQ_PUSH_ROWS
                   : x < 40 && digits ? PSI_REQ_PUSH_PULL_ROWS
                   : x < 60 && digits ? PSI_REQ_SCATTER
                                      : PSI_REQ_GATHER;
        }
        return x < 36 && digits   ? PSI_REQ_PUSH
               : x < 48 && digits ? PSI_REQ_PUSH_PULL
               : x < 60 && digits ? PSI_REQ_ADD
                                  : PSI_REQ_PULL;
    case SIM_VAR_TMP:
        return x < 50 && digits && p->initialised_tmp           ? PSI_REQ_PUSH
               : x < 85                                         ? PSI_REQ_PULL
               : x < 90                                         ? PSI_REQ_DELETE
               : x < 97 && strcmp(v->container, SIM_OTHER) == 0 ? PSI_REQ_RESET
                                                                : PSI_REQ_STATUS;
    case SIM_VAR_COUNTER:
        return x < 60 && digits ? PSI_REQ_ADD : PSI_REQ_PULL;
    case SIM_VAR_STEP:
        return x < 80 ? PSI_REQ_ADD : PSI_REQ_PULL;
    case SIM_VAR_MOVED:
        return x < 45 ? PSI_REQ_PUSH : x < 60 ? PSI_REQ_PUSH_PULL : x < 66 ? PSI_REQ_ASSIGN : PSI_REQ_PULL;
    case SIM_VAR_REGISTER:
        return x < 40 ? PSI_REQ_ASSIGN : x < 48 ? PSI_REQ_INIT_FROM : PSI_REQ_PULL;
    case SIM_VAR_HYPER:
    case SIM_VAR_QUEUE:
    case SIM_VAR_ROUND:
    case SIM_VAR_MODEL:
        break;
    }
    return PSI_REQ_STATUS;
}

static struct sim_var *draw_var(struct sim *s, const struct sim_program *p)
{
    for (;;) {
        uint32_t i = (uint32_t)sim_below(s, s->var_count);
        if ((p->set & 1u << i) != 0 && (p->todo & 1u << i) == 0) {
            return &s->var[i];
        }
    }
}

static void work(struct sim *s, struct sim_program *p)
{
    if (s->k.profile == SIM_QUEUES) {
        sim_queue_work(s, p);
        return;
    }
    if (s->k.profile == SIM_ROUNDS) {
        sim_rounds_work(s, p);
        return;
    }
    if (s->k.profile == SIM_LEASE) {
        sim_chief_work(s, p);
        return;
    }
    if (s->k.profile == SIM_OWN && sim_own_work(s, p)) {
        return;
    }
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1);
    if (s->op_count > s->k.calls_many && p->role != SIM_FINAL) {
        p->next_call_at = s->now + sim_range(s, 100, 400); /* enough of them for one seed */
    }
    enum psi_request_kind admin = PSI_REQ_NONE;
    if (sim_saves_draw(s, p, &admin) || sim_admin_draw(s, p, &admin)) {
        PSI_IGNORE(sim_call_start(s, p, admin, NULL, timeout_of(s, p))); /* none of them can be refused */
        return;
    }
    uint32_t timeout_ms = 0;
    if (sim_barrier_draw(s, p, &timeout_ms)) {
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_BARRIER, NULL, timeout_ms)); /* cannot be refused */
        return;
    }
    const bool plans = s->k.profile == SIM_OWN; /* which are calls; some are given up while their input is on its way */
    if (s->k.profile != SIM_RACE && sim_one_in(s, plans ? 2 : 16)) {
        const bool soon = plans && p->role != SIM_FINAL && sim_one_in(s, 4);
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_CALL, NULL,
                                  soon ? (uint32_t)sim_range(s, 1, 60) : timeout_of(s, p))); /* cannot be refused */
        return;
    }
    if (p->role != SIM_MONITOR && p->role != SIM_FINAL && !p->ready_out && sim_one_in(s, 80)) {
        p->ready_out = true;
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_READY, NULL, s->k.ready_ms)); /* a late INIT must not matter */
        return;
    }
    struct sim_var *v = draw_var(s, p);
    enum psi_request_kind kind = draw_call(s, p, v);
    if (p->role == SIM_MONITOR && v->kind != SIM_VAR_TMP) {
        kind = sim_one_in(s, 2) ? PSI_REQ_STATUS : PSI_REQ_PULL;
    }
    if (v->dtype != PS_STRING && sim_var_bytes(v) > s->k.frame_bytes && p->calls_out > 3) {
        return; /* large ones are not queued in numbers */
    }
    if (sim_call_start(s, p, kind, kind != PSI_REQ_RESET ? v : NULL, timeout_of(s, p)) == NULL) {
        sim_program_end_soon(s, p, 500);
    }
}

/* BOUNDARY: the one call whose bytes are counted and cut, then a look at the values. */
static void boundary_work(struct sim *s, struct sim_program *p)
{
    if (p->calls_out > 0) {
        return;
    }
    if (p->work_ok < 2) {
        s->boundary_armed = p->work_ok == 0;
        enum psi_request_kind kind = p->work_ok == 0 ? s->boundary_kind : PSI_REQ_PULL;
        PSI_IGNORE(sim_call_start(s, p, kind, &s->var[0], s->k.operation_ms)); /* fails by itself */
        return;
    }
    sim_program_end_soon(s, p, 60000);
}

/* ---- one step of a program ---- */

static bool has_slot(const struct sim *s, const struct sim_program *p)
{
    return p->calls_out < s->k.depth;
}

bool sim_program_wants(const struct sim *s, const struct sim_program *p)
{
    if (p->core == NULL) {
        return s->ending ? p->role == SIM_FINAL && !p->ended_ok : p->role != SIM_FINAL;
    }
    if (s->ending && p->role != SIM_FINAL && p->state != SIM_END && p->state != SIM_GOODBYE) {
        return true;
    }
    switch (p->state) {
    case SIM_OFF:
        return false;
    case SIM_GET:
        return (p->todo != 0 && has_slot(s, p)) || p->calls_out == 0;
    case SIM_WORK:
        return (has_slot(s, p) && (s->boundary_kind == PSI_REQ_NONE || p->calls_out == 0)) || s->now >= p->work_until;
    case SIM_CLUSTER:
    case SIM_FIRST_VALUES:
    case SIM_READY:
    case SIM_END:
    case SIM_RESET:
    case SIM_GOODBYE:
        break;
    }
    return p->calls_out == 0;
}

static void act_get(struct sim *s, struct sim_program *p)
{
    for (uint32_t n = 0; n < s->var_count; n++) {
        uint32_t i = p->order[n];
        if ((p->todo & 1u << i) != 0) {
            bool find_only = p->role == SIM_MONITOR && s->var[i].kind != SIM_VAR_TMP;
            p->todo &= ~(1u << i);
            PSI_IGNORE(sim_call_start(s, p, find_only ? PSI_REQ_LOOKUP : PSI_REQ_GET, &s->var[i], s->k.operation_ms));
            return;
        }
    }
    p->state = s->k.profile == SIM_QUEUES ? SIM_WORK : SIM_FIRST_VALUES;
}

/* As psctl import, which may be interrupted. */
static void import(struct sim *s, struct sim_program *p)
{
    for (uint32_t i = 0; i < s->var_count; i++) {
        if ((p->set & 1u << i) != 0 && s->var[i].kind == SIM_VAR_REGISTER && !sim_one_in(s, 3)) {
            PSI_IGNORE(sim_call_start(s, p, PSI_REQ_ASSIGN, &s->var[i], s->k.operation_ms)); /* its end is what counts */
        }
    }
    sim_program_end_soon(s, p, 1000);
}

static void act_first_values(struct sim *s, struct sim_program *p)
{
    if (s->k.profile == SIM_LEASE) {
        sim_chief_give(s, p);
        return;
    }
    if (s->k.imports && p->role == SIM_CHIEF && sim_one_in(s, 3)) {
        import(s, p);
        return;
    }
    p->state = p->role == SIM_MONITOR || (s->k.trains && p->role != SIM_FINAL) ? SIM_WORK : SIM_READY;
    for (uint32_t i = 0; i < s->var_count; i++) {
        struct sim_var *v = &s->var[i];
        bool tmp = v->kind == SIM_VAR_TMP && p->role == SIM_MONITOR;
        bool reg = v->kind == SIM_VAR_REGISTER && (p->role == SIM_CHIEF || p->role == SIM_FINAL) && sim_one_in(s, 2);
        if ((p->set & 1u << i) != 0 && (tmp || reg)) {
            PSI_IGNORE(sim_call_start(s, p, PSI_REQ_INIT_FROM, v, s->k.operation_ms)); /* its end is what counts */
        }
    }
}

static void act_end(struct sim *s, struct sim_program *p)
{
    if (p->wants_reset && (p->role == SIM_CHIEF || p->role == SIM_FINAL || s->k.trains)) {
        p->wants_reset = false;
        p->state = SIM_RESET;
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_RESET, NULL, s->k.operation_ms));
        return;
    }
    if (s->ending && p->role != SIM_FINAL && psi_client_cluster(p->core) != NULL && p->asked_vars < 2 * s->task_count) {
        if (s->quiet_since != 0 && s->now > s->quiet_since + sim_quiet_ms(s)) {
            p->asked_vars++;
            PSI_IGNORE(sim_call_start(s, p, PSI_REQ_VARS, NULL, s->k.operation_ms)); /* cannot be refused */
        }
        p->next_call_at = s->now + 50;
        return;
    }
    if (p->role == SIM_FINAL || s->k.polite || !sim_one_in(s, 3)) {
        p->state = SIM_GOODBYE;
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_GOODBYE, NULL, 1000));
        return;
    }
    sim_client_end(s, p);
}

void sim_program_act(struct sim *s, struct sim_program *p)
{
    if (p->core == NULL) {
        session_begin(s, p);
        return;
    }
    psi_client_tick(p->core, s->now);
    sim_program_settle(s, p);
    if (!sim_program_wants(s, p)) {
        return;
    }
    if (s->ending && p->role != SIM_FINAL && p->state != SIM_END && p->state != SIM_GOODBYE) {
        sim_program_end_soon(s, p, 0);
        return;
    }
    switch (p->state) {
    case SIM_CLUSTER:
        if (psi_client_cluster(p->core) == NULL) {
            PSI_IGNORE(sim_call_start(s, p, PSI_REQ_CLUSTER, NULL, s->k.operation_ms));
        } else {
            make_variables(s, p);
            p->state = SIM_GET;
        }
        break;
    case SIM_GET:
        act_get(s, p);
        break;
    case SIM_FIRST_VALUES:
        act_first_values(s, p);
        break;
    case SIM_READY:
        PSI_IGNORE(sim_call_start(s, p, PSI_REQ_READY, NULL, s->k.ready_ms));
        break;
    case SIM_WORK:
        if (psi_client_stop_asked(p->core) && p->life % 2 == 0 && p->role != SIM_FINAL && s->boundary_kind == PSI_REQ_NONE) {
            sim_program_end_soon(s, p, 300); /* as a program that asks ps_should_stop() */
        } else if (s->now >= p->work_until || (p->role == SIM_FINAL && p->work_ok >= FINAL_CALLS)) {
            sim_program_end_soon(s, p, 1500);
        } else if (p->wants_reset && p->role == SIM_CHIEF) {
            p->wants_reset = false;
            PSI_IGNORE(sim_call_start(s, p, PSI_REQ_RESET, NULL, s->k.operation_ms));
        } else if (s->boundary_kind != PSI_REQ_NONE && p->role != SIM_FINAL) {
            boundary_work(s, p);
        } else {
            work(s, p);
        }
        break;
    case SIM_END:
        act_end(s, p);
        break;
    case SIM_RESET:
        sim_program_end_soon(s, p, 100); /* its call has ended, see sim_program_done() */
        break;
    case SIM_GOODBYE:
        sim_client_end(s, p);
        break;
    case SIM_OFF:
        break;
    }
    if (p->core != NULL) {
        sim_program_settle(s, p);
    }
}

/* ---- a call of the program has ended ---- */

static void done_get(struct sim *s, struct sim_program *p, const struct sim_call *call)
{
    uint32_t i = (uint32_t)(call->op->var - s->var);
    if (call->op->status == PS_OK) {
        p->failures = 0;
        return;
    }
    p->failures++;
    if (call->op->status == PS_INVALID_ARGUMENT) { /* it is at another task than the program says: oracle.c */
        s->var[i].unpinned = true;
        sim_program_end_soon(s, p, 300);
    } else if (call->op->kind == PSI_REQ_LOOKUP && call->op->status == PS_NOT_FOUND) {
        p->set &= ~(1u << i);
    } else if (p->state == SIM_GET && call->op->status != PS_ABORTED && call->op->status != PS_FAILED_PRECONDITION) {
        p->todo |= 1u << i;
        p->next_call_at = s->now + sim_below(s, 100);
    } else {
        sim_program_end_soon(s, p, 300);
    }
}

static void done_ready(struct sim *s, struct sim_program *p, const struct sim_op *op)
{
    switch (op->status) {
    case PS_OK:
        sim_check_ready(s, p);
        if (p->state == SIM_READY) {
            p->state = SIM_WORK;
        }
        break;
    case PS_DATA_LOSS:
        p->wants_reset = true;
        s->k.may_lose = true;
        sim_program_end_soon(s, p, 1000);
        break;
    case PS_DEADLINE_EXCEEDED:
    case PS_UNAVAILABLE:
        if (p->state == SIM_READY && sim_one_in(s, 2)) {
            break; /* the same session tries again */
        }
        sim_program_end_soon(s, p, 300);
        break;
    default:
        sim_program_end_soon(s, p, 1000);
        break;
    }
}

void sim_program_done(struct sim *s, struct sim_program *p, struct sim_call *call)
{
    const struct sim_op *op = call->op;
    bool ok = op->status == PS_OK;
    if (sim_claim_refused(call)) { /* it is so for good: another session is tried */
        p->ready_out = p->ready_out && op->kind != PSI_REQ_READY;
        sim_program_end_soon(s, p, 1000);
        return;
    }
    if (sim_chief_next(s, p, call)) {
        return;
    }
    switch (op->kind) {
    case PSI_REQ_CLUSTER: /* who was refused is so for good: another session is tried */
        if (op->status == PS_FAILED_PRECONDITION) {
            sim_program_end_soon(s, p, 1000);
        }
        break;
    case PSI_REQ_GET:
    case PSI_REQ_LOOKUP:
        done_get(s, p, call);
        break;
    case PSI_REQ_READY:
        p->ready_out = false;
        if (!s->k.trains || p->role == SIM_FINAL) { /* else train_ready.c has seen it */
            done_ready(s, p, op);
        }
        break;
    case PSI_REQ_RESET:
        if (ok) {
            sim_check_reset(s, op);
        }
        if (p->state != SIM_GOODBYE && (!s->k.trains || p->state == SIM_RESET)) {
            sim_program_end_soon(s, p, 100);
        }
        break;
    case PSI_REQ_DELETE:
        sim_program_end_soon(s, p, 300);
        break;
    case PSI_REQ_INIT_FROM:
        p->initialised_tmp = p->initialised_tmp || (ok && op->var->kind == SIM_VAR_TMP);
        if (p->state == SIM_READY && op->status == PS_ABORTED) {
            sim_program_end_soon(s, p, 300);
        }
        break;
    case PSI_REQ_GOODBYE:
        p->ended_ok = p->role == SIM_FINAL && p->work_ok >= FINAL_CALLS;
        if (!ok) {
            sim_fail(s, "GOODBYE failed: %s", ps_status_name(op->status));
        }
        break;
    default:
        if (p->state != SIM_WORK) {
            break;
        }
        p->work_ok += ok;
        if (op->var != NULL && call->req.var != NULL && call->req.var->lost) {
            sim_program_end_soon(s, p, 500);
        } else if (s->boundary_kind == PSI_REQ_NONE && s->op_count < s->k.calls_many && ok && sim_one_in(s, 3) &&
                   has_slot(s, p) && s->now < p->work_until && !s->ending) {
            work(s, p); /* from within the callback, as programs may */
        }
        break;
    }
    bool busy = s->k.may_refuse && op->status == PS_RESOURCE_EXHAUSTED;
    if ((p->role == SIM_FINAL || s->boundary_kind != PSI_REQ_NONE) && !ok && !busy && p->state == SIM_WORK) {
        char text[200];
        sim_fail(s, "%s: %s", p->role == SIM_FINAL ? "after all faults" : "after one cut", sim_op_text(op, text));
    }
}
