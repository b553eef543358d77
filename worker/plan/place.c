/* SPDX-License-Identifier: Apache-2.0 */
/* Where rows (operations) run: on which task, and on which device of the task, as the program's device scopes request.
 *
 * Happy path: a row whose device names a task runs there. The other rows run at the session's target (the task that the program
 * connected to) if it executes runs, which an empty run finds out once; otherwise the client executes these rows. A task is asked
 * whether it has a device other than CPU:0. New rows are logged. A row's place never changes. Failure modes: INVALID_ARGUMENT
 * with the row's name, for a task that the cluster lacks, or a device that the task lacks; errors of the requests. */
#include "plan.h"

#include "worker/api/lock.h"

#include <stdio.h>
#include <string.h>

struct search {
    struct psi_trip *trip;
    struct psi_err err;
    bool needs_home; /* a row's device names no task: it runs at p->home, the session's target or the client */
};

/* True if the device names a task. A job without a task counts: it means the job's task 0. */
static bool names_task(const struct psi_plan_row *row)
{
    return row->device.has_job || row->device.has_task;
}

static bool to_place(const struct psi_trip *t, const struct psi_plan_row *row)
{
    return t->needed[row->number] && row->kind == PSI_PLAN_OP && !row->placed;
}

static ps_status task_find(struct psi_client *c, const struct psi_plan_row *row, const struct psi_device *home, uint32_t *out,
                           struct psi_err *err)
{
    const struct psi_device *d = &row->device;
    if (d->has_replica && d->replica != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", d->replica);
    }
    if (!d->has_job && !home->has_job) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "device '%s' names a task and no job", row->requested);
    }
    const char *job = d->has_job ? d->job : home->job;
    return psi_api_find_task(c, job, d->has_task ? d->task : 0, out, err);
}

/* Loop thread: find the session's target (the task at its address), and the task of each row whose device names one. */
static ps_status search_tasks(struct psi_api_call *call, struct psi_err *err)
{
    struct search *search = call->arg;
    struct psi_trip *t = search->trip;
    ps_plan *p = t->plan;
    ps_status st = PS_OK;
    if (!p->home_known) {
        p->home = psi_client_target(call->client);
        if (p->home != UINT32_MAX) {
            (void)snprintf(p->home_name, sizeof(p->home_name), "%s", psi_client_task_name(call->client, p->home));
            PSI_IGNORE(psi_device_parse(p->home_name, &p->home_device, NULL)); /* cannot fail: this library wrote the text */
        }
    }
    for (uint32_t i = 0; i < p->row_count && st == PS_OK; i++) {
        struct psi_plan_row *row = p->rows[i];
        if (!to_place(t, row)) {
            continue;
        }
        if (names_task(row)) {
            st = task_find(call->client, row, &p->home_device, &row->place, err);
            if (st == PS_OK) {
                (void)snprintf(row->assigned, sizeof(row->assigned), "%s", psi_client_task_name(call->client, row->place));
            }
        } else {
            search->needs_home = true;
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "row '%s'", row->name);
        }
    }
    return st;
}

/* Ask the target whether it executes runs of plans, unless the session knows the answer already. */
static ps_status target_ask(struct psi_trip *t, bool *out_executes, struct psi_err *err)
{
    ps_session *s = t->plan->session;
    enum psi_target target = PSI_TARGET_UNKNOWN;
    /* keep a recovery away until the answer is stored, because a recovery resets s->target */
    ps_status st = psi_api_go_inside(s, err);
    if (st != PS_OK) {
        return st;
    }
    psi_api_copy(s, &target, &s->target, sizeof(target));
    if (target == PSI_TARGET_UNKNOWN) {
        st = psi_trip_probe(t, t->plan->home, out_executes, err);
        target = *out_executes ? PSI_TARGET_EXECUTES : PSI_TARGET_EXECUTES_NOT;
    }
    *out_executes = target == PSI_TARGET_EXECUTES;
    if (st == PS_OK) {
        psi_api_copy(s, &s->target, &target, sizeof(target));
    } else {
        psi_err_prefix(err, "the session's target");
    }
    psi_api_go_outside(s);
    return st;
}

/* Decide, once per plan, where rows without a task run: at the session's target if it executes runs, else in the client. */
static ps_status home_find(struct psi_trip *t, struct psi_err *err)
{
    ps_plan *p = t->plan;
    bool executes = false;
    if (p->home_known) {
        return PS_OK;
    }
    ps_status st = p->home != UINT32_MAX ? target_ask(t, &executes, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    p->home = executes ? p->home : PSI_PLAN_CLIENT;
    p->home_known = true;
    return PS_OK;
}

struct ask {
    uint32_t task;
    ps_task_info info;
};

static ps_status ask_info(struct psi_api_call *call, struct psi_err *err)
{
    struct ask *ask = call->arg;
    (void)err;
    call->req.kind = PSI_REQ_AWAIT_INFO;
    call->req.task = ask->task;
    call->req.dst = &ask->info;
    return PS_OK;
}

static bool is_default(const struct psi_device *d)
{
    return (!d->has_type || strcmp(d->type, "CPU") == 0) && (!d->has_index || d->index == 0);
}

/* Check that the row's task, or the client, has the device that the row asks for. If not: CPU:0 (soft placement), or an error. */
static ps_status device_find(struct psi_trip *t, struct psi_plan_row *row, struct psi_err *err)
{
    ps_session *s = t->plan->session;
    const struct psi_device *d = &row->device;
    ps_status st = PS_OK;
    (void)snprintf(row->local, sizeof(row->local), "CPU:0");
    if (is_default(d)) {
        return PS_OK;
    }
    if (row->place == PSI_PLAN_CLIENT) {
        st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE,
                         "device '%s': the client itself has CPU:0; name a task, or allow soft placement", row->requested);
    } else {
        struct ask ask = {.task = row->place};
        struct psi_device full = *d;
        struct psi_api_call call = {.session = s, .prepare = ask_info, .arg = &ask, .timeout_ms = psi_trip_left_ms(t)};
        st = psi_api_call_run(&call, err);
        if (st != PS_OK) {
            return st;
        }
        memcpy(full.job, ask.info.job, sizeof(full.job));
        full.task = ask.info.task;
        full.has_job = full.has_task = true;
        st = psi_api_device_check(&ask.info, &full, err);
    }
    if (st == PS_OK) {
        (void)snprintf(row->local, sizeof(row->local), "%s:%u", d->has_type ? d->type : "CPU", d->has_index ? d->index : 0);
    } else if (s->allow_soft_placement) {
        psi_err_none(err);
        st = PS_OK;
    }
    return st;
}

static void placed(struct psi_plan_row *row)
{
    if (row->place == PSI_PLAN_CLIENT) {
        (void)snprintf(row->assigned, sizeof(row->assigned), "client");
    } else {
        const size_t n = strlen(row->assigned);
        (void)snprintf(row->assigned + n, sizeof(row->assigned) - n, "/device:%s", row->local);
    }
    row->placed = true;
}

static ps_status rows_place(struct psi_trip *t, struct psi_err *err)
{
    ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        struct psi_plan_row *row = p->rows[i];
        if (!to_place(t, row)) {
            continue;
        }
        if (!names_task(row)) {
            row->place = p->home;
            (void)snprintf(row->assigned, sizeof(row->assigned), "%s", p->home_name);
        }
        ps_status st = device_find(t, row, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "row '%s'", row->name);
            return st;
        }
        placed(row);
    }
    return PS_OK;
}

/* Place each assign, add and push at the place that makes its value. A value given by the program, or a constant, has no place:
 * the client makes the change. If the value is another variable's, p->home (target or client) makes the change. */
static void changes_place(struct psi_trip *t)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        struct psi_plan_row *row = p->rows[i];
        if (row->kind == PSI_PLAN_OP || !t->needed[i]) {
            continue;
        }
        row->place = PSI_CUT_NOWHERE;
        if (row->kind == PSI_PLAN_VARIABLE) {
            row->place = PSI_PLAN_CLIENT; /* used only if the client reads the variable (psi_trip_find_reads()) */
        } else if (row->kind == PSI_PLAN_ASSIGN || row->kind == PSI_PLAN_ADD || row->kind == PSI_PLAN_PUSH) {
            const struct psi_plan_row *maker = p->rows[psi_plan_maker(p, row->inputs[0]).row];
            const bool nowhere = maker->place == PSI_CUT_NOWHERE;
            row->place = nowhere ? PSI_PLAN_CLIENT : psi_trip_reads_itself(t, maker) ? p->home : maker->place;
        }
    }
}

/* True if a needed row assigns, adds or pushes one variable's value to a variable: such a row runs at p->home. */
static bool copies(const struct psi_trip *t)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        const struct psi_plan_row *row = p->rows[i];
        const bool change = row->kind == PSI_PLAN_ASSIGN || row->kind == PSI_PLAN_ADD || row->kind == PSI_PLAN_PUSH;
        if (t->needed[i] && change && psi_trip_reads_itself(t, p->rows[psi_plan_maker(p, row->inputs[0]).row])) {
            return true;
        }
    }
    return false;
}

/* For each row that runs for the first time, log where it runs, in the form of TensorFlow's log_device_placement. */
static void lines_write(struct psi_trip *t)
{
    ps_plan *p = t->plan;
    for (uint32_t i = 0; p->session->log_device_placement && i < p->row_count; i++) {
        struct psi_plan_row *row = p->rows[i];
        if (t->needed[i] && !row->shown && row->place != PSI_CUT_NOWHERE && row->kind != PSI_PLAN_VARIABLE) {
            char line[PS_NAME_BYTES_MAX + PSI_DEVICE_BYTES + 64];
            (void)snprintf(line, sizeof(line), "%s: (%s): %s", row->name, row->type, row->assigned);
            psi_api_log_raw(p->session, line);
            row->shown = true;
        }
    }
}

ps_status psi_plan_place(struct psi_trip *t, struct psi_err *err)
{
    ps_plan *p = t->plan;
    struct search search = {.trip = t, .needs_home = copies(t)};
    bool asks = search.needs_home && !p->home_known;
    for (uint32_t i = 0; i < p->row_count && !asks; i++) {
        asks = to_place(t, p->rows[i]);
    }
    ps_status st = PS_OK;
    if (asks) {
        struct psi_api_call call = {
            .session = p->session, .prepare = search_tasks, .arg = &search, .timeout_ms = psi_trip_left_ms(t)};
        st = psi_api_know_cluster(p->session, psi_trip_left_ms(t), err);
        st = st == PS_OK ? psi_api_call_run(&call, err) : st;
        st = st == PS_OK && search.needs_home ? home_find(t, err) : st;
        st = st == PS_OK ? rows_place(t, err) : st;
    }
    if (st == PS_OK) {
        changes_place(t);
        lines_write(t);
    }
    return st;
}
