/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and clients of the simulated world: events into their cores, effects out of them, starts and ends.
 *
 * As in the real shells every effect of an event is carried out before the next event. A killed process loses its connections in
 * the middle of whatever is in flight; a killed client's core is run down far from the world, because its requests must end
 * before it can be freed.
 */
#include "sim.h"

#include "psd/checkpoint/beside.h"
#include "worker/core/client.h"

#include <stdlib.h>
#include <string.h>

bool sim_task_running(const struct sim *s, const struct sim_task *t)
{
    return t->core != NULL && s->now >= t->stopped_until;
}

bool sim_program_running(const struct sim *s, const struct sim_program *p)
{
    return p->core != NULL && s->now >= p->stopped_until;
}

bool sim_end_running(const struct sim *s, const struct sim_end *e)
{
    return e->is_task ? sim_task_running(s, &s->task[e->node]) : sim_program_running(s, &s->program[e->node]);
}

static void random_bytes(struct sim *s, uint8_t out[32])
{
    for (uint32_t i = 0; i < 32; i += 8) {
        uint64_t word = psi_random_u64(&s->rng);
        memcpy(out + i, &word, 8);
    }
}

static bool heavy_checks(const struct sim *s)
{
#ifdef PSI_DEBUG
    (void)s;
    return true;
#else
    return s->event % 64 == 0;
#endif
}

static struct sim_task *task_at(struct sim *s, const char *address)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (strcmp(s->task[i].address, address) == 0) {
            return &s->task[i];
        }
    }
    return NULL;
}

/* ---- effects ---- */

/* A session that was heard within its lease loses nothing, whatever is short; but a guest's record goes with its connection. */
static void check_gave_way(struct sim *s, const struct sim_task *t, const char *text)
{
    const char *at = strstr(text, "@simulated:");
    uint32_t life = at == NULL ? 0 : (uint32_t)strtoul(at + strlen("@simulated:"), NULL, 10);
    for (uint32_t i = 0; i < s->program_count; i++) {
        const struct sim_program *p = &s->program[i];
        uint64_t heard = p->heard_at[t - s->task];
        if (p->core != NULL && p->life == life && p->job[0] != '\0' && s->now - heard < s->k.lease_ms) {
            sim_fail(s, "EVICTED: a session that %s:%u heard %llu ms ago gave way: %s", t->job, t->index,
                     (unsigned long long)(s->now - heard), text);
        }
    }
}

static void task_log(struct sim *s, struct sim_task *t, const struct psd_effect *effect)
{
    if (strcmp(effect->event, "session_gave_way") == 0) {
        s->count_gave_way++;
        check_gave_way(s, t, effect->text);
    }
    sim_trace(s, "%s:%u log %d %s %s", t->job, t->index, effect->level, effect->event, effect->text);
    sim_twin_log(t, effect->event);
    static const char *const ours[] = {"gap", "frame_rejected", "list_rejected", "list_answer_rejected", "task_answer_rejected"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strcmp(effect->event, ours[i]) == 0) {
            sim_fail(s, "/job:%s/task:%u had to close a connection of our own: %s %s", t->job, t->index, effect->event,
                     effect->text);
        }
    }
}

static void task_dial(struct sim *s, struct sim_task *t, const struct psd_effect *effect)
{
    const char *address = effect->text;
    struct sim_task *to = task_at(s, address);
    uint32_t from = (uint32_t)(t - s->task);
    t->settled = t->settled && effect->dial != PSD_DIAL_DIRECTORY;
    if (to == NULL) {
        sim_fail(s, "/job:%s/task:%u dials %s, which nobody has", t->job, t->index, address);
    }
    uint32_t index = (uint32_t)(to - s->task);
    struct sim_conn *c = sim_conn_new(s, true, from, index);
    c->dial = effect->dial;
    c->refused = s->now < s->blocked_until[SIM_PROGRAMS_MAX + from][index];
    sim_trace(s, "c%llu %s:%u dials %s", (unsigned long long)c->id, t->job, t->index, address);
}

void sim_task_settle(struct sim *s, struct sim_task *t)
{
    struct psd_effect effect;
    struct psi_link *link = NULL;
    for (;;) {
        link = psd_task_next_dirty(t->core);
        if (link != NULL) {
            struct sim_end *e = link->shell;
            if (e->link == link) {
                sim_end_update(s, e);
            }
        } else if (psd_task_next_effect(t->core, &effect)) {
            switch (effect.kind) {
            case PSD_EFFECT_DIAL:
                task_dial(s, t, &effect);
                break;
            case PSD_EFFECT_LOG:
                task_log(s, t, &effect);
                sim_disks_logged(s, &effect);
                break;
            case PSD_EFFECT_READY:
                t->ready = true;
                break;
            case PSD_EFFECT_SERVING: /* the directory says it when all have listed: clients are not told */
                break;
            case PSD_EFFECT_CALL_EARLY:
            case PSD_EFFECT_CALL:
                sim_work_begin(s, t, &effect);
                break;
            case PSD_EFFECT_CALL_CANCEL:
                sim_work_cancel(s, t, &effect);
                break;
            case PSD_EFFECT_DISK:
                sim_disks_ask(s, t, &effect.disk);
                break;
            case PSD_EFFECT_SHUTDOWN:
                sim_fail(s, "/job:%s/task:%u wants to shut down and nobody asked", t->job, t->index);
            }
        } else {
            break;
        }
    }
    sim_own_look(s, t);
    sim_births_poll(s, t);
    sim_queues_poll(s, t);
    sim_rounds_poll(s, t);
    sim_checkpoint_note(t);
    sim_saves_look(s, t);
    sim_checkpoint_look(s, t);
    t->placed = sim_back_count(t);
    sim_claims_look(s, t);
    if (heavy_checks(s)) {
        psd_task_check_invariants(t->core);
    }
}

static void client_dial(struct sim *s, struct sim_program *p, const struct psi_client_effect *effect)
{
    struct sim_task *to = task_at(s, effect->text);
    uint32_t index = to == NULL ? 0 : (uint32_t)(to - s->task);
    for (uint32_t i = 0; i < s->conn_count; i++) {
        const struct sim_end *e = &s->conn[i]->end[0];
        if (!e->is_task && e->node == p->index && e->life == p->life && e->state == SIM_END_DIALING &&
            s->conn[i]->table_index == effect->task) {
            sim_fail(s, "client%u dials %s a second time while a dial is out", p->index, effect->text);
        }
    }
    s->count_strangers += s->k.moves && to != NULL && to->core != NULL && to != sim_task_named(s, p->core, effect->task);
    index = sim_twin_pick(s, index);
    struct sim_conn *c = sim_conn_new(s, false, p->index, index);
    c->table_index = effect->task;
    c->refused = to == NULL || s->now < s->blocked_until[p->index][index];
    p->dials[effect->task % (SIM_TASKS_MAX + SIM_PROGRAMS_MAX)]++;
    sim_trace(s, "c%llu client%u.%u dials %s", (unsigned long long)c->id, p->index, p->life, effect->text);
}

void sim_program_settle(struct sim *s, struct sim_program *p)
{
    struct psi_client_effect effect;
    for (;;) {
        struct psi_link *link = psi_client_next_dirty(p->core);
        struct psi_request *req = NULL;
        if (link != NULL) {
            struct sim_end *e = link->shell;
            if (e->link == link) {
                sim_end_update(s, e);
            }
        } else if (psi_client_next_effect(p->core, &effect)) {
            if (effect.kind == PSI_CLIENT_DIAL) {
                client_dial(s, p, &effect);
            } else {
                sim_trace(s, "client%u.%u log %d %s %s", p->index, p->life, effect.level, effect.event, effect.text);
                if (strstr(effect.text, "bad bytes") != NULL) {
                    sim_fail(s, "client%u had to close a connection: %s", p->index, effect.text);
                }
            }
        } else if ((req = psi_client_next_done(p->core)) != NULL) {
            req->done(req);
        } else {
            break;
        }
    }
    sim_chief_watch(s, p);
    s->unclean = s->unclean || sim_claim_lost(p);
    if (heavy_checks(s)) {
        psi_client_check_invariants(p->core);
    }
}

void sim_node_settle(struct sim *s, const struct sim_end *e)
{
    if (e->is_task && s->task[e->node].core != NULL && s->task[e->node].life == e->life) {
        sim_task_settle(s, &s->task[e->node]);
    } else if (!e->is_task && s->program[e->node].core != NULL && s->program[e->node].life == e->life) {
        sim_program_settle(s, &s->program[e->node]);
    }
}

/* ---- starts and ends ---- */

/* Virtual time, of which a request of one event takes none. */
static uint64_t clock_ns(void *task)
{
    return ((const struct sim_task *)task)->sim->now * 1000000u;
}

void sim_task_start(struct sim *s, struct sim_task *t)
{
    struct psd_task_config config;
    struct psi_err err = {.code = PS_OK};
    uint8_t seed[32];
    psd_task_config_init(&config);
    struct psi_cluster cluster;
    psi_cluster_init(&cluster);
    sim_moves_start(s, t, &config, &cluster);
    (void)snprintf(config.job, sizeof(config.job), "%s", t->job);
    config.task = t->index;
    (void)snprintf(config.cluster_name, sizeof(config.cluster_name), "psd");
    (void)snprintf(config.address, sizeof(config.address), "%s", t->address);
    config.lease_ms = s->k.lease_ms;
    config.beat_ms = s->k.beat_ms;
    config.hello_deadline_ms = s->k.hello_ms;
    config.segment_deadline_ms = s->k.segment_ms;
    config.session_keep_ms = s->k.session_keep_ms;
    config.pushes_in_progress_max = s->k.pushes_max;
    config.sessions_max = s->k.few_sessions ? s->program_count + 1 : config.sessions_max;
    config.segment_buffers_max = s->k.buffers_max;
    if (s->k.init_slice_bytes != 0) {
        config.init_at_once_bytes = 0;
        config.init_slice_bytes = s->k.init_slice_bytes;
    }
    if (s->k.profile != SIM_ROUNDS || s->seed % 3 == 0) {
        config.round_slice_bytes = 1u << 14;
    }
    config.cut_slice_bytes = 256;
    config.tick_looks = s->seed % 4 == 1 ? 1 : config.tick_looks;
    config.list_slice_rows = s->seed % 5 < 2 ? 1 + (uint32_t)(s->seed % 3) : config.list_slice_rows;
    config.reset_slice_names = s->seed % 5 > 2 ? 1 : config.reset_slice_names;
    config.cut_pace_bytes = (uint64_t)1 << (14 + s->seed % 13);
    config.memory_budget_bytes = s->k.memory_bytes > 0 ? s->k.memory_bytes : config.memory_budget_bytes;
    config.config_row = sim_config_row;
    config.config_ctx = t;
    config.config_set = sim_config_set;
    config.shell = t;
    config.identify = s->identities ? sim_identify : NULL;
    config.clock_ns = clock_ns;
    config.unix_ms = s->seed % 4 == 0 ? 0 : s->now; /* some have no clock, as one that was set back */
    (void)snprintf(t->limit, sizeof(t->limit), "0");
    sim_disks_open(s, t);
    config.has_disk = t->disk != NULL;
    config.checkpoint_seconds = 0;
    if (s->k.recover != NULL) {
        (void)snprintf(config.recover.text, sizeof(config.recover.text), "%s", s->k.recover);
    }
    config.spread = s->k.spread;
    config.restore = s->older != 0 ? -(int)s->older : config.restore;
    config.call_name = sim_work_name;
    config.call_early = sim_work_early;
    config.calls_max = s->k.may_refuse ? 2 : SIM_WORKS_MAX;
    random_bytes(s, seed);
    t->life++;
    t->ready = false;
    t->settled = false;
    t->placed = 0;
    t->kill_at = 0;
    if (t == &s->task[0]) {
        sim_twin_forget(s);
    }
    t->stopped_until = 0;
    if (psd_task_new(&config, seed, s->now, &t->core, &err) != PS_OK) {
        sim_fail(s, "psd_task_new: %s", err.text);
    }
    config.cluster = &s->cluster;
    sim_identity_begin(s, t);
    sim_replay_begin(t, &config);
    psi_cluster_fini(&cluster);
    t->checkpoint_in = 0;
    t->next_tick = s->now + sim_range(s, 1, 90);
    sim_trace(s, "%s:%u starts (%u.)", t->job, t->index, t->life);
    sim_task_settle(s, t);
}

void sim_task_kill(struct sim *s, struct sim_task *t, uint64_t up_at)
{
    uint32_t node = (uint32_t)(t - s->task);
    sim_trace(s, "%s:%u is killed, back in %llu ms", t->job, t->index, (unsigned long long)(up_at - s->now));
    s->count_restarts++;
    sim_births_restart(s, t);
    sim_chief_restart(s, t);
    sim_queues_restart(s, t);
    sim_checkpoint_drop(s, t);
    sim_replay_end(s, t);
    for (uint32_t i = 0; i < s->conn_count; i++) { /* links that the core has let go of are the shell's */
        for (uint32_t side = 0; side < 2; side++) {
            struct sim_end *e = &s->conn[i]->end[side];
            if (e->is_task && e->node == node && (e->state == SIM_END_LINGER || e->state == SIM_END_CLOSED)) {
                sim_end_release(e);
            }
        }
    }
    sim_disks_end(s, t); /* it may be at what the core has lent it */
    psd_task_free(t->core);
    t->core = NULL;
    sim_works_kill(s, t);
    t->counter = 0;
    t->up_at = up_at;
    t->died_at = s->now;
    for (uint32_t i = 0; i < s->conn_count; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            struct sim_end *e = &s->conn[i]->end[side];
            bool survives = e->state == SIM_END_BACKLOG && !s->k.moves && !sim_one_in(s, s->k.backlog_survives_in);
            if (e->is_task && e->node == node && !survives) {
                sim_end_drop(s, e);
            }
        }
    }
}

void sim_client_start(struct sim *s, struct sim_program *p)
{
    struct psi_err err = {.code = PS_OK};
    uint8_t random[PSI_CLIENT_RANDOM_BYTES];
    random_bytes(s, random);
    for (size_t i = 32; i < sizeof(random); i++) { /* no draw: the schedule of a seed stays what it was */
        random[i] = (uint8_t)(random[i - 32] ^ random[i - 24] ^ i);
    }
    bool by_target = sim_one_in(s, 4);
    p->leases = sim_train_leases(s, p);
    p->is_static = s->k.static_chief && p->task == 0 && strcmp(p->job, "worker") == 0 && sim_one_in(s, 2);
    struct psi_client_config config = {
        .cluster = by_target ? NULL : &s->cluster,
        .target = by_target ? s->task[s->k.moves ? 0 : sim_below(s, s->k.ps_tasks)].address : NULL,
        .cluster_name = sim_one_in(s, 2) ? "psd" : "",
        .job = p->job,
        .task = p->task,
        .host = "simulated",
        .program = p->is_static ? SIM_STATIC : "sim",
        .pid = s->session_count + 1, /* = p->life: tells sessions apart in lists */
        .operation_timeout_ms = s->k.operation_ms,
        .ready_timeout_ms = s->k.ready_ms,
        .seed = 7,
        .chief_number = s->k.trains                                        ? sim_train_chief_number(s, p)
                        : sim_one_in(s, s->k.profile == SIM_LEASE ? 2 : 0) ? p->chief_number
                                                                           : 0,
        .chief_mode = p->leases || (s->k.profile == SIM_LEASE && !p->is_static) ? PSI_CHIEF_LEASE : PSI_CHIEF_STATIC,
    };
    p->life = ++s->session_count;
    p->begun_ms = s->now;
    p->stop_ok = false;
    p->stopped_until = 0;
    memset(p->dials, 0, sizeof(p->dials));
    memset(p->var, 0, sizeof(p->var));
    if (psi_client_new(&config, random, s->now, &p->core, &err) != PS_OK) {
        sim_fail(s, "psi_client_new: %s", err.text);
    }
    p->next_tick = s->now + sim_range(s, 1, 40);
    sim_trace(s, "client%u.%u starts%s", p->index, p->life, by_target ? " (by target)" : "");
    sim_program_settle(s, p);
}

/* Every connection of a client ends; the core learns it, or (killed) only as far as it must before it is freed. */
static void client_disconnect(struct sim *s, struct sim_program *p, bool killed)
{
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_end *e = &s->conn[i]->end[0];
        if (e->is_task || e->node != p->index || e->life != p->life) {
            continue;
        }
        if (e->state == SIM_END_DIALING) {
            e->state = SIM_END_CLOSED;
            continue;
        }
        bool tell = e->state == SIM_END_OPEN;
        struct psi_link *link = e->link;
        if (killed) {
            sim_end_drop(s, e);
            e->link = link;
        } else {
            sim_end_close(s, e, true);
        }
        if (tell && !link->closing) {
            psi_client_closed(p->core, link, NULL);
        }
        sim_end_release(e);
    }
}

/* Something of this session may still be in progress at a task, which has not heard of its end. */
static void leaves_unclean(struct sim *s, const struct sim_program *p)
{
    for (size_t i = 0; i < s->op_count && p->asked_vars == 0; i++) { /* asked: it stayed until all was settled */
        const struct sim_op *op = s->op[i];
        bool open = op->state == SIM_OP_KILLED || (op->status != PS_OK && op->applied != PS_NOTHING_APPLIED);
        bool push = op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_PUSH_PULL || op->kind == PSI_REQ_ADD ||
                    op->kind == PSI_REQ_PUSH_ROWS || op->kind == PSI_REQ_PUSH_PULL_ROWS || op->kind == PSI_REQ_SCATTER;
        s->unclean = s->unclean || (op->program == p->index && op->life == p->life && push && open);
    }
}

void sim_client_end(struct sim *s, struct sim_program *p)
{
    sim_trace(s, "client%u.%u ends", p->index, p->life);
    sim_train_ended(s, p);
    p->chief_number = p->core->chief.number;
    leaves_unclean(s, p);
    client_disconnect(s, p, false);
    if (psi_client_pending(p->core) != 0) {
        sim_fail(s, "client%u: %u requests are pending although each has had its callback", p->index,
                 psi_client_pending(p->core));
    }
    psi_client_free(p->core);
    sim_own_gone(s, p);
    p->core = NULL;
    p->ended_ms = s->now;
    p->state = SIM_OFF;
}

void sim_client_kill(struct sim *s, struct sim_program *p)
{
    sim_trace(s, "client%u.%u is killed", p->index, p->life);
    p->chief_number = 0;
    sim_calls_forget(s, p);
    sim_own_killed(s, p);
    leaves_unclean(s, p);
    client_disconnect(s, p, true);
    for (uint32_t hour = 1; hour <= 2; hour++) {
        struct psi_client_effect effect;
        struct psi_request *req = NULL;
        psi_client_tick(p->core, s->now + hour * 3600000u);
        while (psi_client_next_dirty(p->core) != NULL) {
            sim_fail(s, "client%u: a link is dirty although all were closed", p->index);
        }
        while (psi_client_next_effect(p->core, &effect)) {
        }
        while ((req = psi_client_next_done(p->core)) != NULL) {
            req->done(req);
        }
    }
    if (psi_client_pending(p->core) != 0) {
        sim_fail(s, "client%u: %u requests do not end hours after their deadlines", p->index, psi_client_pending(p->core));
    }
    psi_client_free(p->core);
    sim_own_gone(s, p);
    p->core = NULL;
    p->ended_ms = s->now;
    p->state = SIM_OFF;
}

/* ---- events ---- */

void sim_dial_result(struct sim *s, struct sim_conn *c)
{
    struct sim_end *from = &c->end[0], *to = &c->end[1];
    struct sim_task *t = &s->task[to->node];
    bool up =
        t->core != NULL || (t->life > 0 && !t->gone && sim_one_in(s, 2));      /* while it restarts its socket may be listening */
    bool elsewhere = s->k.moves && (t->core == NULL || t->life != c->to_life); /* its last life has listened at that address */
    bool refused = c->refused || !up || elsewhere;
    if (refused) {
        from->state = SIM_END_CLOSED;
    } else {
        from->state = SIM_END_OPEN;
        from->heard_at = s->now;
        to->state = SIM_END_BACKLOG;
    }
    sim_trace(s, "c%llu dial %s", (unsigned long long)c->id, refused ? "refused" : "connected");
    const char *why = refused ? "connection refused" : t->address;
    if (from->is_task) {
        struct sim_task *me = &s->task[from->node];
        from->link = psd_task_dialed(me->core, c->dial, refused ? NULL : from, why);
        if (!refused && from->link == NULL) {
            sim_end_close(s, from, false);
        }
        sim_task_settle(s, me);
    } else {
        struct sim_program *p = &s->program[from->node];
        from->link = psi_client_dialed(p->core, c->table_index, refused ? NULL : from, s->k.crc, why);
        if (!refused && from->link == NULL) {
            sim_end_close(s, from, false);
        }
        sim_program_settle(s, p);
    }
}

void sim_accept(struct sim *s, struct sim_end *e)
{
    struct sim_task *t = &s->task[e->node];
    char peer[32];
    e->life = t->life;
    e->state = SIM_END_OPEN;
    e->heard_at = s->now;
    e->link = psd_task_accepted(t->core, e, sim_end_name(s, &e->conn->end[0], peer));
    sim_trace(s, "c%llu accepted by %s:%u", (unsigned long long)e->conn->id, t->job, t->index);
    if (e->link == NULL && t->kill_at == 0) {
        sim_fail(s, "/job:%s/task:%u accepts no connection", t->job, t->index);
    }
    if (e->link == NULL) {
        sim_end_close(s, e, true);
    }
    sim_task_settle(s, t);
}

void sim_deliver(struct sim *s, struct sim_end *e)
{
    struct sim_pipe *p = &e->conn->pipe[1 - e->side];
    uint8_t *bytes = NULL;
    size_t placed = 0;
    size_t n = sim_pipe_read(s, e, &bytes, &placed);
    bool cut = p->cut_at != 0 && p->delivered == p->cut_at;
    struct sim_conn *c = e->conn;
    if (s->verbose) {
        char to[32];
        sim_trace(s, "c%llu %s reads %zu bytes, %zu more in flight", (unsigned long long)c->id, sim_end_name(s, e, to), n,
                  p->len);
    }
    if (cut) {
        p->len = 0;
        p->limit = p->delivered;
    }
    bool open_before[SIM_CONNS_MAX];
    for (uint32_t i = 0; i < s->conn_count; i++) {
        open_before[i] = s->conn[i]->end[1].state == SIM_END_OPEN && s->conn[i]->end[0].state == SIM_END_OPEN;
    }
    if (e->is_task) {
        psd_task_bytes(s->task[e->node].core, e->link, bytes, n);
    } else {
        psi_client_bytes(s->program[e->node].core, e->link, bytes + placed, n - placed);
    }
    memset(bytes, 0xa5, n < 4096 ? n : 4096); /* nobody may look at them again */
    sim_node_settle(s, e);
    sim_older_check(s, e, open_before);
    if (cut) {
        sim_conn_cut(s, c, sim_below(s, 40), sim_below(s, 40));
    }
}

void sim_closed(struct sim *s, struct sim_end *e)
{
    char name[32];
    sim_trace(s, "c%llu %s learns that it is closed", (unsigned long long)e->conn->id, sim_end_name(s, e, name));
    sim_end_close(s, e, false);
    if (e->is_task) {
        psd_task_closed(s->task[e->node].core, e->link);
    } else {
        psi_client_closed(s->program[e->node].core, e->link, NULL);
    }
    if (sim_one_in(s, 2)) {
        sim_node_settle(s, e);
    }
    sim_release(s, e);
}

void sim_release(struct sim *s, struct sim_end *e)
{
    sim_end_release(e);
    sim_node_settle(s, e);
}

void sim_writable(struct sim *s, struct sim_end *e)
{
    e->room = false;
    if (e->is_task) {
        psd_task_writable(s->task[e->node].core, e->link);
    } else {
        psi_client_writable(s->program[e->node].core, e->link);
    }
    sim_node_settle(s, e);
}

void sim_task_tick(struct sim *s, struct sim_task *t)
{
    t->next_tick = s->now + sim_range(s, 20, 100);
    psd_task_tick(t->core, s->now);
    sim_task_settle(s, t);
    sim_disks_tick(t);
}

void sim_program_tick(struct sim *s, struct sim_program *p)
{
    p->next_tick = s->now + sim_range(s, 5, 50);
    psi_client_tick(p->core, s->now);
    sim_program_settle(s, p);
    if (p->core != NULL) {
        sim_calls_late(s, p);
        sim_own_late(s, p);
    }
}
