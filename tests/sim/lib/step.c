/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: of all that can happen now one thing is chosen; when nothing can, time goes on to the next moment at which
 * something can. Faults come at random times while the fault phase lasts; sim_heal() ends it.
 */
#include "sim.h"

enum action_kind {
    ACT_DIAL,
    ACT_ACCEPT,
    ACT_DELIVER,
    ACT_CLOSED,
    ACT_HOLD,
    ACT_WRITE,
    ACT_WRITABLE,
    ACT_LINGER_END,
    ACT_RELEASE,
    ACT_TASK_UP,
    ACT_TASK_TICK,
    ACT_TASK_END,
    ACT_CALL_END,
    ACT_TASK_WORK,
    ACT_DISK_DONE,
    ACT_CLIENT_TICK,
    ACT_PROGRAM,
    ACT_FAULT
};
struct action {
    enum action_kind kind;
    struct sim_end *end;
    uint32_t node;
};
enum { ACTIONS_MAX = 1024 };
struct actions {
    struct action at[ACTIONS_MAX];
    uint32_t count;
    uint64_t next; /* earliest time at which something else can happen */
    bool tick_late;
};

static void can(struct actions *a, enum action_kind kind, struct sim_end *end, uint32_t node)
{
    if (a->count < ACTIONS_MAX) {
        a->at[a->count++] = (struct action){.kind = kind, .end = end, .node = node};
    }
}

/* True when time `at` has come; otherwise remembers it. */
static bool due(const struct sim *s, struct actions *a, uint64_t at)
{
    if (s->now >= at) {
        return true;
    }
    if (at < a->next) {
        a->next = at;
    }
    return false;
}

static void look_open(struct sim *s, struct actions *a, struct sim_end *e)
{
    struct sim_pipe *in = &e->conn->pipe[1 - e->side];
    struct sim_pipe *out = &e->conn->pipe[e->side];
    bool readable = sim_pipe_readable(in);
    if (!e->link->paused) {
        if (readable) {
            uint64_t at = in->ready_at > in->paused_until ? in->ready_at : in->paused_until;
            if (due(s, a, at)) {
                can(a, ACT_DELIVER, e, 0);
            }
        } else if (in->fin && !e->conn->cut) {
            can(a, ACT_CLOSED, e, 0);
        }
    }
    sim_half_open_check(s, e);
    if (e->conn->cut && e->learn_at != SIM_NEVER && due(s, a, e->learn_at)) {
        can(a, ACT_CLOSED, e, 0);
    }
    if (e->hold_bytes > 0) {
        if (sim_pipe_room(s, out) > 0) {
            can(a, ACT_HOLD, e, 0);
        }
    } else if (e->write_turn) {
        can(a, ACT_WRITE, e, 0);
    }
    if (e->room) {
        can(a, ACT_WRITABLE, e, 0);
    }
}

static void look_linger(struct sim *s, struct actions *a, struct sim_end *e)
{
    struct sim_pipe *out = &e->conn->pipe[e->side];
    if (due(s, a, e->linger_until) || out->limit != SIM_NEVER || (e->hold_bytes == 0 && !psi_outq_ready(&e->link->out))) {
        can(a, ACT_LINGER_END, e, 0);
    } else if (e->hold_bytes > 0) {
        if (sim_pipe_room(s, out) > 0) {
            can(a, ACT_HOLD, e, 0);
        }
    } else {
        can(a, ACT_WRITE, e, 0);
    }
}

static void look_end(struct sim *s, struct actions *a, struct sim_end *e)
{
    switch (e->state) {
    case SIM_END_NONE:
        break;
    case SIM_END_CLOSED:
        if (e->link != NULL) {
            can(a, ACT_RELEASE, e, 0);
        }
        break;
    case SIM_END_DIALING:
        if (sim_end_running(s, e) && due(s, a, e->conn->dial_at)) {
            can(a, ACT_DIAL, e, 0);
        }
        break;
    case SIM_END_BACKLOG:
        if (sim_end_running(s, e)) {
            can(a, ACT_ACCEPT, e, 0);
        }
        break;
    case SIM_END_OPEN:
        if (sim_end_running(s, e)) {
            look_open(s, a, e);
        }
        break;
    case SIM_END_LINGER:
        if (sim_end_running(s, e)) {
            look_linger(s, a, e);
        }
        break;
    }
}

static void look_nodes(struct sim *s, struct actions *a)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        struct sim_task *t = &s->task[i];
        if (t->core == NULL) {
            if (due(s, a, t->up_at)) {
                can(a, ACT_TASK_UP, NULL, i);
            }
        } else if (t->kill_at != 0 && (due(s, a, t->kill_at) || psd_task_drained(t->core))) {
            can(a, ACT_TASK_END, NULL, i);
        } else if (due(s, a, t->stopped_until) && due(s, a, t->next_tick)) {
            a->tick_late = a->tick_late || s->now > t->next_tick + 10;
            can(a, ACT_TASK_TICK, NULL, i);
        }
        if (t->core != NULL && s->now >= t->stopped_until && sim_work_due(s, t, &a->next)) {
            can(a, ACT_CALL_END, NULL, i);
        }
        if (t->core != NULL && s->now >= t->stopped_until && sim_disks_due(s, t, &a->next)) {
            can(a, ACT_DISK_DONE, NULL, i);
        }
        if (sim_task_running(s, t) && psd_task_has_work(t->core)) {
            can(a, ACT_TASK_WORK, NULL, i);
        }
    }
    for (uint32_t i = 0; i < s->program_count; i++) {
        struct sim_program *p = &s->program[i];
        if (p->core != NULL && (!due(s, a, p->stopped_until))) {
            continue;
        }
        if (p->core != NULL && due(s, a, p->next_tick)) {
            a->tick_late = a->tick_late || s->now > p->next_tick + 10;
            can(a, ACT_CLIENT_TICK, NULL, i);
        }
        if (p->core == NULL ? due(s, a, p->start_at) && sim_program_wants(s, p)
                            : sim_program_wants(s, p) && due(s, a, p->next_call_at)) {
            can(a, ACT_PROGRAM, NULL, i);
        }
    }
    if (!s->healing && due(s, a, s->next_fault)) {
        can(a, ACT_FAULT, NULL, 0);
    }
}

static void carry_out(struct sim *s, const struct action *act)
{
    struct sim_end *e = act->end;
    switch (act->kind) {
    case ACT_DIAL:
        sim_dial_result(s, e->conn);
        break;
    case ACT_ACCEPT:
        sim_accept(s, e);
        break;
    case ACT_DELIVER:
        sim_deliver(s, e);
        break;
    case ACT_CLOSED:
        sim_closed(s, e);
        break;
    case ACT_HOLD:
        sim_end_hold(s, e);
        if (e->state == SIM_END_OPEN && e->hold_bytes == 0) {
            sim_writable(s, e);
            e->write_turn = e->state == SIM_END_OPEN;
        }
        break;
    case ACT_WRITE:
        sim_end_write(s, e);
        sim_node_settle(s, e);
        break;
    case ACT_WRITABLE:
        sim_writable(s, e);
        break;
    case ACT_LINGER_END:
        sim_end_close(s, e, false);
        break;
    case ACT_RELEASE:
        sim_release(s, e);
        break;
    case ACT_TASK_UP:
        sim_task_start(s, &s->task[act->node]);
        break;
    case ACT_TASK_TICK:
        sim_task_tick(s, &s->task[act->node]);
        break;
    case ACT_TASK_END:
        sim_task_kill(s, &s->task[act->node], s->now + sim_below(s, 500));
        break;
    case ACT_CALL_END:
        sim_work_end(s, &s->task[act->node]);
        break;
    case ACT_DISK_DONE:
        sim_disks_done(s, &s->task[act->node]);
        break;
    case ACT_TASK_WORK:
        s->count_slices++;
        psd_task_work(s->task[act->node].core);
        sim_task_settle(s, &s->task[act->node]);
        break;
    case ACT_CLIENT_TICK:
        sim_program_tick(s, &s->program[act->node]);
        break;
    case ACT_PROGRAM:
        sim_program_act(s, &s->program[act->node]);
        break;
    case ACT_FAULT:
        sim_fault_now(s);
        break;
    }
}

void sim_step(struct sim *s)
{
    static struct actions a; /* one world at a time; 24 KiB */
    if (s->conn_count > 24) {
        sim_conn_sweep(s);
    }
    a.count = 0;
    a.next = SIM_NEVER;
    a.tick_late = false;
    for (uint32_t i = 0; i < s->conn_count; i++) {
        look_end(s, &a, &s->conn[i]->end[0]);
        look_end(s, &a, &s->conn[i]->end[1]);
    }
    look_nodes(s, &a);
    if (a.count == 0 || (!a.tick_late && sim_one_in(s, s->k.advance_in))) {
        s->now = a.count > 0 ? s->now + 1 : a.next != SIM_NEVER ? a.next : s->now + 1;
        return;
    }
    s->event++;
    carry_out(s, &a.at[sim_below(s, a.count)]);
}

/* ---- faults ---- */

static struct sim_conn *any_open(struct sim *s)
{
    struct sim_conn *found = NULL;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        if (!c->cut && (c->end[0].state == SIM_END_OPEN || c->end[1].state == SIM_END_OPEN) && sim_below(s, ++seen) == 0) {
            found = c;
        }
    }
    return found;
}

static void partition(struct sim *s)
{
    uint32_t to = (uint32_t)sim_below(s, s->task_count);
    uint32_t from = (uint32_t)sim_below(s, s->program_count + s->task_count);
    uint32_t node = from < s->program_count ? from : SIM_PROGRAMS_MAX + from - s->program_count;
    s->blocked_until[node][to] = s->now + sim_range(s, 50, 3000);
    sim_trace(s, "fault: no connections from node %u to %s:%u for %llu ms", node, s->task[to].job, s->task[to].index,
              (unsigned long long)(s->blocked_until[node][to] - s->now));
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = s->conn[i];
        uint32_t dialler = c->end[0].is_task ? SIM_PROGRAMS_MAX + c->end[0].node : c->end[0].node;
        if (c->end[1].node == to && dialler == node && c->end[0].state == SIM_END_OPEN) {
            sim_conn_cut(s, c, sim_below(s, 2000), sim_below(s, 2000));
        }
    }
}

static enum sim_fault draw_fault(struct sim *s)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        total += s->k.fault_weight[i];
    }
    uint64_t at = sim_below(s, total);
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        if (at < s->k.fault_weight[i]) {
            return (enum sim_fault)i;
        }
        at -= s->k.fault_weight[i];
    }
    return SIM_FAULT_CUT;
}

/* Its threads wait for half of what is out; a program that says goodbye waits for nothing else. */
static void interrupt(struct sim *s, struct sim_program *p)
{
    if (p->core == NULL || p->stopped_until > s->now) {
        return;
    }
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (p->calls[i] != NULL && p->calls[i]->req.kind != PSI_REQ_GOODBYE && sim_one_in(s, 2)) {
            p->calls[i]->req.waited = true;
        }
    }
    sim_trace(s, "fault: client%u.%u is interrupted", p->index, p->life);
    psi_client_tick(p->core, s->now);
    psi_client_interrupt(p->core, 1, PS_REASON_INTERRUPTED, "interrupted"); /* its calls began before the first one */
    sim_program_settle(s, p);
}

static void fault_conn(struct sim *s, enum sim_fault kind)
{
    struct sim_conn *c = any_open(s);
    if (c == NULL) {
        return;
    }
    struct sim_pipe *p = &c->pipe[sim_below(s, 2)];
    uint64_t pause = sim_range(s, 1, 1500);
    for (uint32_t i = 0; kind == SIM_FAULT_PAUSE_DIR && s->k.slow_links && i < s->conn_count; i++) {
        if (s->conn[i]->end[0].is_task && s->conn[i]->end[0].state == SIM_END_OPEN) {
            c = s->conn[i];
            p = &c->pipe[1];
            pause = sim_range(s, 1, 3ull * s->k.lease_ms);
        }
    }
    uint64_t late = sim_one_in(s, 3) ? SIM_NEVER : sim_range(s, 100, 2ull * s->k.lease_ms);
    switch (kind) {
    case SIM_FAULT_CUT_BOUNDARY:
        p->trigger = (uint32_t)sim_range(s, 1, 16);
        p->trigger_shift = sim_one_in(s, 3) ? (sim_one_in(s, 2) ? 1 : -1) : 0;
        break;
    case SIM_FAULT_HALF_OPEN:
        if (sim_one_in(s, 2)) {
            sim_conn_cut(s, c, late, sim_below(s, 50));
        } else {
            sim_conn_cut(s, c, sim_below(s, 50), late);
        }
        break;
    case SIM_FAULT_PAUSE_DIR:
        p->paused_until = s->now + pause;
        sim_trace(s, "fault: c%llu pauses from side %u", (unsigned long long)c->id, (uint32_t)(p - c->pipe));
        break;
    default:
        sim_conn_cut(s, c, sim_below(s, 60), sim_below(s, 60));
        break;
    }
}

void sim_fault_now(struct sim *s)
{
    sim_identity_step(s);
    if (s->k.profile == SIM_RACE) {
        sim_race_step(s);
        return;
    }
    if (sim_chief_fault(s)) {
        return;
    }
    struct sim_task *t = &s->task[sim_below(s, s->task_count)];
    struct sim_program *p = &s->program[sim_below(s, s->program_count)];
    uint64_t pause = sim_one_in(s, 3) ? sim_range(s, 1, 2ull * s->k.lease_ms) : sim_range(s, 1, 300);
    pause += s->k.profile == SIM_LEASE && sim_one_in(s, 3) ? s->k.lease_ms : 0;
    s->next_fault = s->now + sim_range(s, 1, 2ull * s->k.fault_every_ms);
    enum sim_fault kind = draw_fault(s);
    if (s->kill_directory) {
        s->kill_directory = false;
        kind = SIM_FAULT_RESTART_TASK;
    }
    switch (kind) {
    case SIM_FAULT_CUT:
    case SIM_FAULT_CUT_BOUNDARY:
    case SIM_FAULT_HALF_OPEN:
    case SIM_FAULT_PAUSE_DIR:
        fault_conn(s, kind);
        break;
    case SIM_FAULT_STOP_TASK:
        if (t->core != NULL) {
            sim_trace(s, "fault: %s:%u stands still for %llu ms", t->job, t->index, (unsigned long long)pause);
            t->stopped_until = s->now + pause;
            sim_resumes(&t->resumed_at, t->stopped_until);
        }
        break;
    case SIM_FAULT_STOP_CLIENT:
        if (p->core != NULL) {
            sim_trace(s, "fault: client%u.%u stands still for %llu ms", p->index, p->life, (unsigned long long)pause);
            p->stopped_until = s->now + pause;
            sim_resumes(&p->resumed_at, p->stopped_until);
        }
        break;
    case SIM_FAULT_SLOW_TICK:
        if (sim_one_in(s, 2)) {
            t->next_tick = s->now + pause;
            sim_resumes(&t->resumed_at, t->next_tick);
        } else {
            p->next_tick = s->now + pause;
            sim_resumes(&p->resumed_at, p->next_tick);
        }
        break;
    case SIM_FAULT_RESTART_TASK:
        t = s->k.restarts_directory ? &s->task[0] : t;
        if (t->core != NULL && sim_one_in(s, 3)) {
            sim_trace(s, "fault: %s:%u drains", t->job, t->index);
            t->kill_at = s->now + sim_range(s, 1, 800);
            psd_task_drain(t->core);
            sim_task_settle(s, t);
        } else if (t->core != NULL) {
            sim_task_kill(s, t, s->now + (sim_one_in(s, 3) ? 0 : sim_below(s, 1200)));
        }
        break;
    case SIM_FAULT_KILL_CLIENT:
        if (p->core != NULL) {
            sim_client_kill(s, p);
            p->start_at = s->now + sim_below(s, 2000);
        }
        break;
    case SIM_FAULT_PARTITION:
        partition(s);
        break;
    case SIM_FAULT_RESET:
        p->wants_reset = true;
        break;
    case SIM_FAULT_TWIN:
        sim_twin_fault(s);
        break;
    case SIM_FAULT_POWER:
        sim_trace(s, "fault: all tasks end");
        for (uint32_t i = 0; i < s->task_count; i++) {
            if (s->task[i].core != NULL) {
                sim_task_kill(s, &s->task[i], s->now + sim_below(s, 500));
            }
        }
        break;
    case SIM_FAULT_INTERRUPT:
        interrupt(s, p);
        break;
    case SIM_FAULT_COUNT:
        break;
    }
}

void sim_heal(struct sim *s)
{
    sim_trace(s, "-- faults end --");
    s->healing = true;
    sim_twin_end(s);
    s->k.delay_ms = s->k.delay_ms > 1 ? 1 : s->k.delay_ms;
    s->k.pipe_bytes = s->k.pipe_bytes < 200000 ? 200000 : s->k.pipe_bytes;
    for (uint32_t i = 0; i < s->task_count; i++) {
        struct sim_task *t = &s->task[i];
        t->up_at = t->up_at > s->now && !t->gone ? s->now : t->up_at;
        t->stopped_until = 0;
        t->next_tick = t->next_tick > s->now + 50 ? s->now : t->next_tick;
    }
    for (uint32_t i = 0; i < s->program_count; i++) {
        struct sim_program *p = &s->program[i];
        p->stopped_until = 0;
        p->next_tick = p->next_tick > s->now + 50 ? s->now : p->next_tick;
        p->wants_reset = false;
    }
    for (uint32_t i = 0; i < SIM_PROGRAMS_MAX + SIM_TASKS_MAX; i++) {
        for (uint32_t t = 0; t < SIM_TASKS_MAX; t++) {
            s->blocked_until[i][t] = 0;
        }
    }
    for (uint32_t i = 0; i < s->conn_count; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            struct sim_pipe *p = &s->conn[i]->pipe[side];
            p->paused_until = 0;
            p->trigger = 0;
            p->cut_at = 0;
        }
    }
}
