/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Administration in the simulated world: programs list sessions, waits, containers and tasks, change a setting and tell everybody
 * to stop, while everything breaks.
 *
 * What is checked: a list of sessions has the one that asks, connected, once; no step is higher than steps were made; waits are
 * the oldest first and say something; a setting has a value that somebody gave it; the directory lists every task once, itself
 * connected. STOP: the session that asked hears of it with its next PING of the same task, and no session is told to stop
 * that began after the last STOP could have been carried out.
 */
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sim_config_row(void *task, uint32_t i, const char **name, const char **value, const char **default_value, const char **help,
                    bool *reloadable)
{
    const struct sim_task *t = task;
    *name = i == 0 ? "simulated" : "limit";
    *value = i == 0 ? "true" : t->limit;
    *default_value = i == 0 ? "false" : "0";
    *help = i == 0 ? "This task lives in a simulator." : "Of nothing.";
    *reloadable = i == 1;
    return i < 2;
}

ps_status sim_config_set(void *task, const char *name, const char *value, char *error, size_t error_bytes)
{
    struct sim_task *t = task;
    if (strcmp(name, "limit") != 0 || strlen(value) >= sizeof(t->limit)) {
        (void)snprintf(error, error_bytes, "%s is not set to that here", name);
        return PS_INTERNAL; /* which no call may end with */
    }
    memcpy(t->limit, value, strlen(value) + 1);
    return PS_OK;
}

static const struct sim_task *directory(const struct sim *s)
{
    const char *job = NULL;
    uint32_t index = 0;
    PSI_IGNORE(psi_cluster_directory(&s->cluster, &job, &index)); /* there is one */
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (strcmp(s->task[i].job, job) == 0 && s->task[i].index == index) {
            return &s->task[i];
        }
    }
    return NULL;
}

/* The task that a call goes to; NULL: not known yet. */
static const struct sim_task *asked(struct sim *s, const struct sim_call *call)
{
    if (call->op->kind == PSI_REQ_STOP || call->op->kind == PSI_REQ_TASKS) {
        return directory(s);
    }
    return sim_task_named(s, call->program->core, call->req.task);
}

bool sim_admin_draw(struct sim *s, const struct sim_program *p, enum psi_request_kind *out_kind)
{
    static const enum psi_request_kind kinds[] = {
        PSI_REQ_PING,         PSI_REQ_PING,         PSI_REQ_INFO,       PSI_REQ_VARS,       PSI_REQ_CONFIG, PSI_REQ_CONFIG,
        PSI_REQ_TASKS,        PSI_REQ_WAIT_CLUSTER, PSI_REQ_CONTAINERS, PSI_REQ_SESSIONS,   PSI_REQ_WAITS,  PSI_REQ_SESSIONS,
        PSI_REQ_WAIT_CLUSTER, PSI_REQ_WAITS,        PSI_REQ_STOP,       PSI_REQ_CONFIG_SET, PSI_REQ_STOP_AT};
    if (p->stop_ok && sim_one_in(s, 10)) {
        *out_kind = PSI_REQ_PING; /* does it hear of it? */
        return true;
    }
    if (p->role == SIM_MONITOR && sim_one_in(s, 6)) {
        *out_kind = PSI_REQ_WAITS; /* it works while the others get ready */
        return true;
    }
    if (!sim_one_in(s, 30)) {
        return false;
    }
    *out_kind = kinds[sim_below(s, sizeof(kinds) / sizeof(kinds[0]))];
    if ((*out_kind == PSI_REQ_STOP || *out_kind == PSI_REQ_STOP_AT) && (s->stop_count == SIM_STOPS_MAX || !sim_one_in(s, 3))) {
        *out_kind = PSI_REQ_PING; /* sessions that end all the time do nothing else */
    }
    return true;
}

/* ---- what lists show ---- */

static void on_config(void *ctx, const struct psi_setting_seen *info)
{
    struct sim_call *call = ctx;
    struct sim *s = call->program->sim;
    bool simulated = strcmp(info->name, "simulated") == 0 && strcmp(info->value, "true") == 0 &&
                     strcmp(info->default_value, "false") == 0 && !info->reloadable;
    bool limit = strcmp(info->name, "limit") == 0 && strtoul(info->value, NULL, 10) <= s->limit_next && info->reloadable;
    if ((call->listed == 0 ? !simulated : !limit) || info->help[0] == '\0') {
        sim_fail(s, "CONFIG lists %s = %s", info->name, info->value);
    }
    call->listed++;
}

/* A container without a value takes no bytes; one with values may take none, where a dimension of each is 0. */
static void on_container(void *ctx, const ps_container_info *info)
{
    struct sim_call *call = ctx;
    char entry[PS_CONTAINER_BYTES_MAX + 3];
    (void)snprintf(entry, sizeof(entry), "/%s/", info->name); /* a container is listed once, in no order */
    if (info->name[0] == '\0' || strstr(call->last, entry) != NULL || info->initialised > info->variables ||
        (info->incarnation == 0 && info->variables > 0) || (info->initialised == 0 && info->bytes > 0)) {
        sim_fail(call->program->sim, "CONTAINERS lists '%s' after '%s': %u of %u variables in %llu bytes", info->name, call->last,
                 info->initialised, info->variables, (unsigned long long)info->bytes);
    }
    const size_t used = strlen(call->last);
    (void)snprintf(call->last + used, sizeof(call->last) - used, "%s", entry); /* fits: there are few */
}

/* Steps that were ever asked for. */
static int64_t steps_begun(const struct sim *s)
{
    int64_t count = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        count += s->op[i]->kind == PSI_REQ_ADD && s->op[i]->var->kind == SIM_VAR_STEP;
    }
    return count;
}

static void on_session(void *ctx, const ps_session_info *info)
{
    struct sim_call *call = ctx;
    struct sim *s = call->program->sim;
    bool self = info->pid == call->program->life;
    if (info->pid == 0 || info->pid > s->session_count || strlen(info->id) != 16 || info->heard_ms > info->age_ms ||
        info->age_ms > s->now || info->global_step > steps_begun(s) || !isfinite(info->steps_per_second) ||
        info->steps_per_second < 0 || (!info->connected && info->steps_per_second > 0) || (self && !info->connected) ||
        strcmp(info->program, "sim") != 0) {
        sim_fail(s, "SESSIONS lists client.%u, connected %d, heard %llu ms ago, known for %llu ms, step %lld, %g steps/s",
                 info->pid, info->connected, (unsigned long long)info->heard_ms, (unsigned long long)info->age_ms,
                 (long long)info->global_step, info->steps_per_second);
    }
    call->listed_self += self;
}

static void on_wait(void *ctx, const ps_wait_info *info)
{
    struct sim_call *call = ctx;
    struct sim *s = call->program->sim;
    uint64_t most = s->k.ready_ms > s->k.operation_ms ? s->k.ready_ms : s->k.operation_ms;
    most += 6ull * s->k.lease_ms; /* a client whose clock stood still, maybe several times over, gives more time than it has */
    if ((call->listed > 0 && info->since_ms > call->last_ms) || info->what[0] == '\0' || info->release[0] == '\0' ||
        strcmp(info->request, "request") == 0 || info->left_ms > (int64_t)most || info->pid == 0 ||
        info->pid > s->session_count) {
        sim_fail(s, "WAITS lists %s of client.%u, since %llu ms after one since %llu ms, %lld ms left: '%s' until '%s'",
                 info->request, info->pid, (unsigned long long)info->since_ms, (unsigned long long)call->last_ms,
                 (long long)info->left_ms, info->what, info->release);
    }
    call->last_ms = info->since_ms;
    call->listed++;
}

static void on_task(void *ctx, const struct psi_task_seen *info)
{
    struct sim_call *call = ctx;
    struct sim *s = call->program->sim;
    const struct sim_task *d = directory(s);
    bool self = strcmp(info->job, d->job) == 0 && info->task == d->index;
    if ((self && (!info->connected || !info->heard)) || (info->connected && info->missing_ms != 0) || info->missing_ms > s->now ||
        (info->connected && info->life == 0)) {
        sim_fail(s, "TASKS lists /job:%s/task:%u, connected %d, heard %d, missing for %llu ms", info->job, info->task,
                 info->connected, info->heard, (unsigned long long)info->missing_ms);
    }
    call->listed_self += self;
    call->listed++;
}

static bool prepare(struct sim *s, struct sim_call *call)
{
    struct psi_list_sink sink = {
        .config = on_config, .container = on_container, .session = on_session, .wait = on_wait, .task = on_task, .ctx = call};
    switch (call->op->kind) {
    case PSI_REQ_CONFIG:
    case PSI_REQ_CONTAINERS:
    case PSI_REQ_SESSIONS:
    case PSI_REQ_WAITS:
    case PSI_REQ_TASKS:
        call->bytes = sizeof(sink);
        call->dst = sim_alloc(call->bytes);
        memcpy(call->dst, &sink, sizeof(sink));
        return true;
    case PSI_REQ_STOP:
    case PSI_REQ_STOP_AT:
        call->bytes = sizeof(uint32_t);
        call->dst = sim_alloc(call->bytes);
        s->stop[s->stop_count++] = call->op;
        return true;
    case PSI_REQ_PING:
        if (call->program->stop_ok && sim_one_in(s, 2)) {
            call->req.task = psi_client_task_count(call->program->core); /* the one that was told, below */
            for (uint32_t i = 0; i < psi_client_task_count(call->program->core); i++) {
                bool same = sim_task_named(s, call->program->core, i) == &s->task[call->program->stop_task];
                call->req.task = same ? i : call->req.task;
            }
        }
        return true;
    case PSI_REQ_CONFIG_SET: {
        bool may = call->program->role == SIM_FINAL || !sim_one_in(s, 4);
        (void)snprintf(call->limit, sizeof(call->limit), "%u", ++s->limit_next);
        call->setting = (struct psi_setting){.name = may ? "limit" : "simulated", .value = call->limit};
        call->req.src = &call->setting;
        return true;
    }
    default:
        return false;
    }
}

bool sim_admin_prepare(struct sim *s, struct sim_call *call)
{
    bool ours = prepare(s, call);
    const struct sim_task *t = asked(s, call);
    call->task_life = t == NULL || t->core == NULL ? 0 : t->life;
    return ours;
}

bool sim_admin_may_not(const struct sim_call *call)
{
    return call->op->kind == PSI_REQ_CONFIG_SET && strcmp(call->setting.name, "simulated") == 0;
}

/* ---- the ends of calls ---- */

/* Nobody is told to stop that began after the last STOP could have been carried out. */
static void check_stopped(struct sim *s, const struct sim_program *p)
{
    bool asked = false;
    for (uint32_t i = 0; i < s->stop_count; i++) {
        const struct sim_op *op = s->stop[i];
        bool over = op->state == SIM_OP_DONE && op->status == PS_OK;
        asked = asked || !over || op->done_ms >= p->begun_ms;
    }
    if (!asked) {
        sim_fail(s, "client%u.%u is told to stop; the last STOP ended before it began", p->index, p->life);
    }
}

static void check_told(struct sim *s, const struct sim_call *call)
{
    const struct sim_program *p = call->program;
    const struct sim_task *t = asked(s, call);
    bool there = t == &s->task[p->stop_task];
    if (there && p->stop_ok && !s->k.may_forget && t->core != NULL && t->life == p->stop_life && call->task_life == t->life &&
        !psi_client_stop_asked(p->core)) {
        sim_fail(s, "client%u.%u has told everybody to stop, and is not told itself", p->index, p->life);
    }
}

void sim_admin_done(struct sim *s, struct sim_call *call)
{
    struct sim_program *p = call->program;
    const struct sim_task *t = asked(s, call);
    if (psi_client_stop_asked(p->core)) {
        check_stopped(s, p);
    }
    if (call->op->status != PS_OK) {
        return;
    }
    uint32_t told = 0;
    switch (call->op->kind) {
    case PSI_REQ_SESSIONS:
        if (call->listed_self != 1) {
            sim_fail(s, "SESSIONS lists client%u.%u, which asks, %u times", p->index, p->life, call->listed_self);
        }
        break;
    case PSI_REQ_TASKS:
        if (call->listed != psi_client_task_count(p->core) || call->listed_self != 1) {
            sim_fail(s, "TASKS lists %u tasks, the directory %u times", call->listed, call->listed_self);
        }
        break;
    case PSI_REQ_CONFIG:
        if (call->listed != 2) {
            sim_fail(s, "CONFIG lists %u settings", call->listed);
        }
        break;
    case PSI_REQ_CONFIG_SET:
        if (sim_admin_may_not(call)) {
            sim_fail(s, "CONFIG_SET changed what takes a restart");
        }
        break;
    case PSI_REQ_STOP:
    case PSI_REQ_STOP_AT:
        memcpy(&told, call->dst, sizeof(told));
        if (told == 0 || told > s->session_count) {
            sim_fail(s, "STOP told %u sessions", told);
        }
        if (t->core != NULL && t->life == call->task_life) {
            p->stop_ok = true;
            p->stop_task = (uint32_t)(t - s->task);
            p->stop_life = t->life;
        }
        break;
    case PSI_REQ_PING:
        check_told(s, call);
        break;
    default:
        break;
    }
}
