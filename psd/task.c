/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of task.h: a task from new to free, the events of its connections, and time. psd/rpc interprets the bytes,
 * psd/base queues effects for the shell.
 *
 * Happy path: psd_task_new(), then for each connection psd_task_accepted(), psd_task_bytes() (rpc/dispatch.c) and
 * psd_task_closed(), psd_task_tick() as time passes, and psd_task_free(). Failure: a connection that misbehaves is closed
 * (psd_conn_close()), and the task goes on. Without memory a connection or request is refused. */
#include "psd/base/disk.h"
#include "psd/base/events.h"
#include "psd/base/loop.h"
#include "psd/base/times.h"
#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/directory/directory.h"
#include "psd/directory/orders.h"
#include "psd/queue/queue.h"
#include "psd/rounds/groups.h"
#include "psd/rounds/rounds.h"
#include "psd/rpc/requests.h"
#include "psd/store/cut.h"
#include "psd/store/shown.h"

#include "common/hash.h"
#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    CROWDED_HELLO_MS = 250, /* longest wait for HELLO while few connections are left; clients send it at once */
    LOOK_TICKS = 8          /* number of ticks that together examine each connection and record once, if there are many */
};

void psd_task_config_init(struct psd_task_config *config)
{
    memset(config, 0, sizeof(*config));
    memcpy(config->cluster_name, "psd", 4);
#define DEFAULT(type, field, name, kind, min, max, number, ...) config->field = number;
    PSD_SERVER_SETTINGS(DEFAULT)
#undef DEFAULT
    config->memory_budget_bytes = (uint64_t)1 << 40;
    config->segment_deadline_ms = PS_SEGMENT_DEADLINE_MS;
    config->pushes_in_progress_max = PS_PUSHES_IN_PROGRESS_MAX;
    config->segment_buffers_max = PS_SEGMENT_BUFFERS_MAX;
    config->init_at_once_bytes = PS_INIT_AT_ONCE_BYTES;
    config->init_slice_bytes = PS_INIT_SLICE_BYTES;
    config->cut_slice_bytes = PS_CUT_SLICE_BYTES;
    config->list_slice_rows = PS_LIST_SLICE_ROWS;
    config->reset_slice_names = PS_RESET_SLICE_NAMES;
    config->cut_pace_bytes = PS_CUT_PACE_BYTES;
    config->round_slice_bytes = PS_ROUND_SLICE_BYTES;
    config->tick_looks = PS_TICK_LOOKS;
    config->calls_max = PS_CALLS_MAX;
    config->copy_slice_bytes = PS_COPY_SLICE_BYTES;
    memcpy(config->devices, "CPU:0", 6);
}

void psd_task_config_take(struct psd_task_config *config, const psd_server_options *o)
{
/* casts of psd_server_options fields: times have 64 bits there, 32 bits in the core */
#define AS_TIME (uint32_t)
#define AS_BOOL
#define AS_BYTES
#define AS_COUNT
#define AS_LEVEL
#define AS_RESTORE
#define AS_RECOVER
#define TAKE(type, field, name, kind, ...) config->field = AS_##kind o->field;
    PSD_SERVER_SETTINGS(TAKE)
#undef TAKE
}

void psd_task_set(struct psd_task *t, const psd_server_options *o)
{
    psd_task_config_take(&t->config, o);
    psd_store_set_budget(&t->store, t->config.memory_budget_bytes);
}

/* True if this task is the only one of the directory's job, and so waits for no other. */
static bool is_alone(const struct psd_task *t)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        count += t->peers[i].own_job;
    }
    return count == 1 && t->peers[t->self].own_job;
}

/* True if the task has done all of its start that it can do alone: its disk is read and, if its job has no other task, it is
 * decided whether it begins empty or with a checkpoint. */
static bool knows_alone(const struct psd_task *t)
{
    if (t->beside == NULL) {
        return true;
    }
    bool waits = t->peers[t->self].waits && is_alone(t);
    return !t->beside->undecided && (!waits || t->loading);
}

/* True if the task serves: it accepts clients, and does not delay their requests. */
static bool serves(const struct psd_task *t)
{
    struct psi_err err;
    bool here = !t->peers[t->self].waits && psd_peers_begun(t, &err) == PS_OK;
    if (!t->is_directory) {
        const struct psd_conn *c = t->peers[t->directory].conn;
        /* without a disk the task begins empty, whatever the directory has decided */
        bool told = c != NULL && (c->begun || t->beside == NULL);
        return here && told && c->list == PSD_LIST_TAKEN;
    }
    return here && psd_loader_all_here(t);
}

/* Tell the shell READY and SERVING, each once; without memory for an effect, at the end of a later event. */
static void announce(struct psd_task *t)
{
    if (!t->said_ready && !t->given_up && t->refused != NULL && is_alone(t)) {
        t->given_up = psd_effect(t, PSD_EFFECT_SHUTDOWN, ""); /* event start_refused says why */
    } else if (!t->said_ready && !t->given_up && knows_alone(t)) {
        t->said_ready = psd_effect(t, PSD_EFFECT_READY, "");
    }
    if (t->said_ready && !t->said_serving && serves(t)) {
        t->said_serving = psd_effect(t, PSD_EFFECT_SERVING, "");
        psd_event(t, PSI_LOG_INFO, "serving", PSI_KV("task", t->name));
    }
}

/* End an event: remove references to ended connections, and do all that is due. This may end more connections, or make messages
 * of the directory to itself: repeat until neither happens. */
static void settle(struct psd_task *t)
{
    do {
        psd_dispatch_loop(t);
        psd_task_link_loop_turn(t);
        psd_queues_turn(t);
        while (!psi_list_empty(&t->ended)) {
            struct psd_conn *c = psd_conn_next_ended(t);
            psd_slow_drop(t, c);
            psd_rounds_conn_lost(t, c);
            psd_rates_conn_lost(t, c);
            psd_session_left(t, c);
            psd_task_link_lost(t, c);
            psd_source_lost(t, c);
        }
        psd_barriers_look(t);
        psd_groups_turn(t);
        psd_resets_turn(t);
        psd_share_turn(t);
        psd_saver_turn(t);
        psd_beside_turn(t);
        psd_loader_turn(t);
        psd_task_link_turn(t);
    } while (!psi_list_empty(&t->ended) || psd_loop_has_work(t));
    announce(t);
    psd_events_turn(t);
}

struct psi_link *psd_task_accepted(struct psd_task *t, void *shell, const char *peer)
{
    if (t->draining) {
        return NULL;
    }
    struct psd_conn *c = psd_conn_new(t, shell, PSD_ROLE_CLIENT, peer);
    return c == NULL ? NULL : c->link;
}

void psd_task_rights_set(struct psd_task *t, struct psi_rights *rights)
{
    psd_rights_set(t, rights);
    settle(t);
}

void psd_task_revoked(struct psd_task *t, struct psi_link *link, const char *text)
{
    char said[PSI_ERR_TEXT_MAX];
    if (link->owner != NULL) {
        PSI_IGNORE(snprintf(said, sizeof(said), "REVOKED: %s at %s", text, t->name)); /* a longer text is cut */
        psd_conn_fault(t, link->owner, PS_PERMISSION_DENIED, PS_REASON_REVOKED, said);
        settle(t);
    }
}

void psd_task_crowded(struct psd_task *t, bool crowded)
{
    t->crowded = crowded;
}

void psd_task_closed(struct psd_task *t, struct psi_link *link)
{
    struct psd_conn *c = link->owner;
    if (c == NULL) {
        return;
    }
    psi_list_remove(&link->dirty);
    psd_conn_end(t, c);
    psi_outq_drop(&link->out);
    settle(t);
}

struct psi_link *psd_task_dialed(struct psd_task *t, enum psd_dial dial, void *shell, const char *why)
{
    struct psd_conn *c = (dial == PSD_DIAL_SOURCE ? psd_source_dialed : psd_task_link_dialed)(t, shell, why);
    struct psi_link *link = c == NULL ? NULL : c->link;
    bool closed = c != NULL && c->closing;
    settle(t);
    if (closed) { /* the shell never got this link, so no effect may name it */
        psi_list_remove(&link->dirty);
        psi_link_free(link);
    }
    return closed ? NULL : link;
}

void psd_task_bytes(struct psd_task *t, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct psd_conn *c = link->owner;
    if (c == NULL) {
        return;
    }
    c->heard_ms = t->now_ms;
    link->bytes_in += n;
    t->count.bytes_in += n;
    if (t->now_ms < t->stamps_until_ms) {
        t->came_ns = psd_times_now(t);
    }
    psd_dispatch(t, c, p, n);
    psd_conn_balance(t, c);
    settle(t);
}

void psd_task_writable(struct psd_task *t, struct psi_link *link)
{
    struct psd_conn *c = link->owner;
    if (c != NULL) {
        psd_conn_balance(t, c);
    }
}

void psd_task_call_ran(struct psd_task *t, uint64_t call, uint64_t kernel_ns)
{
    psd_call_ran(t, call, kernel_ns);
}

void psd_task_call_finished(struct psd_task *t, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes,
                            const char *error)
{
    psd_call_finished(t, call, st, reason, out_bytes, error);
    settle(t);
}

ps_status psd_task_draft(struct psd_task *t, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                         struct psi_err *err)
{
    const ps_status st = psd_draft_new(t, call, what, out_room, err);
    settle(t);
    return st;
}

void psd_task_publish(struct psd_task *t, struct psd_publish *p)
{
    psd_publish_begin(t, p);
    settle(t);
}

void psd_task_disk_done(struct psd_task *t, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    psd_disk_done(t, id, st, reason, bytes, error);
    settle(t);
}

bool psd_task_has_work(const struct psd_task *t)
{
    return psd_slow_has_work(t) || psd_moves_have_work(t) || psd_held_has_work(t) || psd_listing_has_work(t) ||
           psd_full_has_work(t) || psd_rounds_has_work(t) || psd_cut_has_work(t) || psd_queues_have_work(t) ||
           psd_emptying_has_work(t) || psd_rates_have_work(t) || psd_resets_have_work(t) || psd_copies_have_work(t) ||
           psd_publishes_have_work(t) || psd_loader_has_work(t) ||
           psd_saver_have_work(t); /* loader and saver work at the end of each event, so psd_task_work() does not call them */
}

void psd_task_work(struct psd_task *t)
{
    struct psd_conn *c = psd_slow_has_work(t) ? psd_slow_work(t) : NULL;
    if (c != NULL) {
        psd_dispatch_rest(t, c);
    }
    if (psd_moves_have_work(t)) {
        psd_moves_work(t);
    }
    if (psd_held_has_work(t)) {
        psd_dispatch_rest(t, psd_held_work(t));
    }
    c = psd_listing_has_work(t) ? psd_listing_work(t) : NULL;
    if (c != NULL) {
        psd_dispatch_rest(t, c);
    }
    if (psd_full_has_work(t)) {
        psd_dispatch_rest(t, psd_full_work(t));
    }
    if (psd_rounds_has_work(t)) {
        psd_rounds_work(t);
    }
    if (psd_emptying_has_work(t)) {
        psd_emptying_work(t);
    }
    if (psd_rates_have_work(t)) {
        psd_rates_work(t);
    }
    if (psd_resets_have_work(t)) {
        psd_resets_work(t);
    }
    if (psd_copies_have_work(t)) {
        psd_copies_work(t);
    }
    if (psd_publishes_have_work(t)) {
        psd_publishes_work(t);
    }
    psd_cut_turn(t, t->config.cut_slice_bytes);
    psd_shards_work(t);
    settle(t);
}

/* True if the peer has taken none of its waiting replies for a lease. The peer may still send BEATs, but unless the connection
 * ends, the replies, with copies of values, stay in memory. */
static bool is_stuck(const struct psd_task *t, struct psd_conn *c)
{
    const struct psi_outq *q = &c->link->out;
    uint64_t taken = psi_outq_taken_bytes(q);
    if (taken != c->taken_bytes || !psi_outq_waiting(q)) {
        c->taken_bytes = taken;
        c->stuck_since_ms = t->now_ms;
    }
    return t->now_ms - c->stuck_since_ms >= t->config.lease_ms;
}

/* True if a segment that has come in part uses a shared buffer for too long. Slow connections may take their time as long as
 * bytes come; but while all buffers are in use, the whole segment must come in time. */
static bool segment_late(const struct psd_task *t, struct psd_conn *c)
{
    uint32_t have = c->link->in.have;
    if (have - c->segment_seen >= PS_SEGMENT_PROGRESS_BYTES) {
        c->segment_seen = have;
        c->segment_moved_ms = t->now_ms;
    }
    uint64_t since = psd_buffers_exhausted(t) ? c->segment_begun_ms : c->segment_moved_ms;
    return t->now_ms - since >= t->config.segment_deadline_ms;
}

static void tick_conn(struct psd_task *t, struct psd_conn *c)
{
    bool hurry = t->crowded && t->config.hello_deadline_ms > CROWDED_HELLO_MS;
    uint32_t hello_ms = hurry ? CROWDED_HELLO_MS : t->config.hello_deadline_ms;
    uint64_t silent = t->now_ms - c->heard_ms;
    if (!c->hello_done && !c->link->paused && t->now_ms - c->opened_ms >= hello_ms) {
        psd_log(t, PSI_LOG_WARN, "hello_deadline", PSI_KV("peer", c->text), PSI_KV("msg", "no HELLO in time: closed"));
        psd_conn_fault(t, c, PS_DEADLINE_EXCEEDED, PS_REASON_NONE, "no HELLO in time");
    } else if (is_stuck(t, c)) {
        psd_log(t, PSI_LOG_WARN, "peer_stuck", PSI_KV("peer", c->text), PSI_KV("queued_bytes", c->link->out.queued_bytes),
                PSI_KV("copies_bytes", c->copy_bytes), PSI_KV("msg", "it has read nothing for a lease: closed"));
        psd_conn_close(t, c, false);
    } else if (!c->link->paused && silent >= t->config.lease_ms) {
        psd_log(t, PSI_LOG_WARN, "peer_silent", PSI_KV("peer", c->text), PSI_KV("silent_ms", silent));
        psd_conn_fault(t, c, PS_DEADLINE_EXCEEDED, PS_REASON_NONE, "nothing was heard for a lease");
    } else if (!c->link->paused && psi_reader_holds_buffer(&c->link->in) && segment_late(t, c)) {
        psd_log(t, PSI_LOG_WARN, "segment_deadline", PSI_KV("peer", c->text),
                PSI_KV("msg", "half a segment for too long: closed"));
        psd_conn_fault(t, c, PS_DEADLINE_EXCEEDED, PS_REASON_NONE, "half a segment for too long");
    }
}

/* How many of `count` objects one tick examines, so that LOOK_TICKS ticks examine all of them once. */
static uint32_t looks(const struct psd_task *t, uint32_t count)
{
    uint32_t share = (count + LOOK_TICKS - 1) / LOOK_TICKS;
    uint32_t least = count < t->config.tick_looks ? count : t->config.tick_looks;
    return share > least ? share : least;
}

/* Examine the connections that were examined longest ago, and move them to the end of the list. */
static void tick_conns(struct psd_task *t)
{
    for (uint32_t left = looks(t, t->conn_count); left > 0 && !psi_list_empty(&t->conns); left--) {
        struct psd_conn *c = PSI_CONTAINER_OF(psi_list_pop_front(&t->conns), struct psd_conn, all);
        psi_list_push_back(&t->conns, &c->all);
        tick_conn(t, c);
    }
}

/* The time from which a peer's silence counts: moment_ms (when it was last heard) + grace_ms (how long this process itself stood
 * still), at most now. */
static uint64_t excused(const struct psd_task *t, uint64_t moment_ms, uint64_t grace_ms)
{
    return t->now_ms - moment_ms < grace_ms ? t->now_ms : moment_ms + grace_ms;
}

/* True if the session counts as gone: without a connection for a lease, or not heard for a lease before its connection ended. */
static bool is_away(const struct psd_task *t, const struct psd_record *r)
{
    return t->now_ms - r->idle_since_ms >= t->config.lease_ms || r->idle_since_ms - r->heard_ms >= t->config.lease_ms;
}

static void note_away(struct psd_task *t, const struct psd_record *r)
{
    char who[96];
    if (t->is_directory && r->job[0] != '\0') {
        psd_event(t, PSI_LOG_WARN, "worker_away", PSI_KV("peer", psd_record_text(r, who, sizeof(who))),
                  PSI_KV("silent_ms", t->now_ms - r->heard_ms));
    }
}

static void tick_record(struct psd_task *t, struct psd_record *r)
{
    if (r->member && r->lease_until_ms <= t->now_ms) {
        psd_lease_end(t, r);
        psd_barrier_lease_ended(t, r);
    }
    if (r->conn == NULL && !r->away && is_away(t, r)) {
        r->away = true;
        note_away(t, r);
        psd_queue_session_away(t, r);
    }
    if (r->conn == NULL && (r->guest || t->now_ms - r->idle_since_ms >= t->config.session_keep_ms)) {
        psd_session_drop(t, r);
    }
}

static void tick_records(struct psd_task *t)
{
    void *value = NULL;
    for (uint32_t left = looks(t, psi_map_count(&t->records)) + 1; left > 0; left--) {
        if (!psi_map_next(&t->records, &t->record_cursor, NULL, NULL, &value)) {
            t->record_cursor = 0;
            return;
        }
        tick_record(t, value);
    }
}

void psd_task_tick(struct psd_task *t, uint64_t now_ms)
{
    if (now_ms <= t->now_ms) {
        return;
    }
    psd_silent_tick(t, now_ms);
    t->now_ms = now_ms;
    uint64_t gap = now_ms - t->last_tick_ms;
    if (gap < 20) {
        return;
    }
    t->last_tick_ms = now_ms;
    /* without a tick for a quarter of a lease, this process stood still, and may not have heard its peers */
    uint64_t grace = gap > t->config.lease_ms / 4 ? gap : 0;
    if (grace > 0) {
        struct psi_list *it = NULL;
        uint64_t cursor = 0;
        void *value = NULL;
        PSI_LIST_FOREACH(it, &t->conns) {
            struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
            c->heard_ms = excused(t, c->heard_ms, grace);
            c->opened_ms = excused(t, c->opened_ms, grace);
            c->stuck_since_ms = excused(t, c->stuck_since_ms, grace);
            c->segment_begun_ms = excused(t, c->segment_begun_ms, grace);
            c->segment_moved_ms = excused(t, c->segment_moved_ms, grace);
        }
        while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
            struct psd_record *r = value;
            r->lease_until_ms += grace;
            r->idle_since_ms = excused(t, r->idle_since_ms, grace);
        }
        t->directory_heard_ms = excused(t, t->directory_heard_ms, grace);
        for (uint32_t i = 0; i < t->peer_count; i++) {
            t->peers[i].missing_since_ms = excused(t, t->peers[i].missing_since_ms, grace);
        }
    }
    tick_conns(t);
    settle(t);
    tick_records(t);
    psd_barriers_look(t);
    psd_wait_tick(t);
    psd_slow_tick(t);
    psd_held_tick(t);
    psd_listing_tick(t);
    psd_events_tick(t);
    psd_task_link_tick(t);
    psd_job_tick(t);
    psd_shards_tick(t);
    psd_source_tick(t);
    psd_saver_tick(t);
    psd_loader_tick(t);
    psd_batch_tick(t);
    settle(t);
    if (now_ms - t->rate_at_ms >= 1000) {
        double seconds = (double)(now_ms - t->rate_at_ms) / 1000.0;
        uint64_t bytes = t->count.bytes_in + t->count.bytes_out;
        t->pushes_per_second = (double)(t->count.pushes_applied - t->rate_pushes) / seconds;
        t->bytes_per_second = (double)(bytes - t->rate_bytes) / seconds;
        t->rate_pushes = t->count.pushes_applied;
        t->rate_bytes = bytes;
        t->rate_at_ms = now_ms;
    }
}

void psd_task_drain(struct psd_task *t)
{
    t->draining = true;
    psd_batch_end(t);
    psd_queues_drain(t);
    psd_shards_drain(t);
    psd_saver_last(t);
    settle(t);
}

bool psd_task_drained(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        const struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        if (psi_outq_waiting(&c->link->out) || (c->record != NULL && c->record->progress_count > 0)) {
            return false;
        }
    }
    return psi_list_empty(&t->moves) && psd_calls_drained(t) && psd_shards_drained(t) && psd_saver_drained(t);
}

const char *psd_task_lost_text(const struct psd_task *t)
{
    return t->is_directory         ? psd_saver_lost_text(t)
           : psd_shards_is_lost(t) ? "this task's part of it is not whole, or not known to be: the directory's log says why"
                                   : NULL;
}

static ps_status beside_new(struct psd_task *t, struct psd_task **out, struct psi_err *err)
{
    struct psd_task_config config = t->config;
    uint64_t seed[4];
    config.cluster = &t->cluster;
    config.has_disk = false;
    for (size_t i = 0; i < sizeof(seed) / sizeof(seed[0]); i++) {
        seed[i] = psd_random(t);
    }
    return psd_task_new(&config, (const uint8_t *)seed, t->now_ms, out, err);
}

ps_status psd_task_new(const struct psd_task_config *config, const uint8_t seed[32], uint64_t now_ms, struct psd_task **out_task,
                       struct psi_err *err)
{
    struct psd_task *t = psi_calloc(1, sizeof(*t));
    if (t == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory");
    }
    t->config = *config;
    uint64_t words[4];
    memcpy(words, seed, sizeof(words));
    t->random_key[0] = words[0] ^ psi_siphash13_u64(&words[2], 1);
    t->random_key[1] = words[1] ^ psi_siphash13_u64(&words[2], 2);
    uint64_t map_seed[2] = {psd_random(t), psd_random(t)};
    t->now_ms = t->started_ms = t->last_tick_ms = t->rate_at_ms = t->directory_heard_ms = t->dial_at_ms = now_ms;
    t->life = psd_random(t);
    t->challenge = t->life >> 1; /* a random start; halved, so that counting up from it cannot overflow */
    psi_list_init(&t->conns);
    psi_list_init(&t->ended);
    psi_list_init(&t->dead);
    psi_list_init(&t->dirty);
    psi_list_init(&t->effects);
    psi_list_init(&t->free_progress);
    psi_list_init(&t->free_pulls);
    psd_resets_init(&t->resets, &t->store, map_seed);
    psi_list_init(&t->works);
    psi_list_init(&t->copies);
    psi_list_init(&t->publishes);
    psi_list_init(&t->disk_asks);
    psi_list_init(&t->slow);
    psi_list_init(&t->listings);
    psi_list_init(&t->followers);
    psi_list_init(&t->emptying);
    psi_list_init(&t->rate_sets);
    psi_list_init(&t->full);
    psi_list_init(&t->held);
    psi_list_init(&t->moves);
    psi_list_init(&t->building);
    psi_list_init(&t->groups);
    psi_list_init(&t->trainings);
    psi_list_init(&t->moved_queues);
    psi_list_init(&t->looped);
    psi_list_init(&t->silent);
    psi_list_init(&t->silent_empty);
    for (uint32_t i = 0; i < PSD_PLACES; i++) {
        psi_list_init(&t->places[i]);
    }
    psi_map_init_borrowing(&t->records, map_seed);
    psi_map_init_borrowing(&t->owners, map_seed);
    psi_map_init(&t->presences, map_seed);
    psi_map_init_borrowing(&t->barriers, map_seed);
    psd_directory_init(&t->names, &t->store, map_seed);
    psi_map_init_borrowing(&t->chiefs, map_seed);
    psi_map_init(&t->steps, map_seed);
    psd_store_init(&t->store, map_seed, config->memory_budget_bytes);
    psi_cluster_init(&t->cluster);
    t->next_link_name = 1;
    ps_status st = psi_cluster_copy(&t->cluster, config->cluster, err);
    if (st == PS_OK) {
        st = psi_cluster_set_name(&t->cluster, config->cluster_name, err);
    }
    if (st == PS_OK) {
        t->orders = psd_order_kinds;
        st = psd_peers_init(t, err);
    }
    if (st == PS_OK) {
        st = psd_loop_begin(t, err);
    }
    if (st == PS_OK) {
        t->beside_new = beside_new;
        t->beside_free = psd_task_free;
        st = psd_beside_begin(t, err);
    }
    if (st == PS_OK) {
        st = psd_loader_begin(t, err);
    }
    if (st == PS_OK) {
        st = psd_saver_begin(t, err);
    }
    if (st == PS_OK) {
        t->free_buffers = psi_calloc(config->segment_buffers_max + 1, sizeof(*t->free_buffers));
        t->said_ready = t->free_buffers != NULL && t->beside == NULL && psd_effect(t, PSD_EFFECT_READY, "");
        /* a task with a disk says READY when it has read the disk */
        bool good = t->free_buffers != NULL && (t->said_ready || t->beside != NULL);
        st = good ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for buffers");
    }
    if (st != PS_OK) {
        psd_task_free(t);
        return st;
    }
    t->config.cluster = NULL;
    PSI_IGNORE(psi_task_name_format(t->name, sizeof(t->name), config->job, config->task)); /* fits */
    psd_event(t, PSI_LOG_INFO, "started", PSI_KV("task", t->name));
    *out_task = t;
    return PS_OK;
}

void psd_task_free(struct psd_task *t)
{
    if (t == NULL) {
        return;
    }
    psd_cut_end(t);
    t->consume = NULL; /* so that freeing the state is not reported as changes */
    if (t->beside != NULL) {
        /* a load ends when the loop below frees its connection, and must not use the connection then */
        psd_source_init(&t->beside->source);
    }
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&t->conns)) != NULL) { /* not a plain walk: ending one connection may end others */
        struct psi_link *link = PSI_CONTAINER_OF(it, struct psd_conn, all)->link;
        psd_task_closed(t, link);
        psi_link_free(link);
    }
    psd_conns_free(t);
    psd_events_free(t);
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        psd_session_drop(t, value);
    }
    psi_map_fini(&t->records);
    psi_map_fini(&t->owners);
    psd_wait_fini(t);
    psd_task_end_copies(t);
    psd_groups_fini(t);
    psd_trainings_fini(t);
    psd_call_free_all(t);
    psd_disk_free_all(t);
    psd_loader_fini(t);
    psd_beside_fini(t);
    psd_saver_fini(t);
    psd_loop_fini(t);
    psd_resets_fini(&t->resets);
    psd_emptying_fini(t);
    psd_rates_fini(t);
    psd_directory_fini(&t->names);
    psd_chiefs_fini(&t->chiefs);
    psd_steps_fini(t);
    psd_store_fini(&t->store);
    psd_progress_free_all(t);
    psd_pull_free_all(t);
    psi_out_scratch_fini(&t->scratch);
    struct psd_effect effect;
    while (psd_task_next_effect(t, &effect)) {
    }
    for (uint32_t i = 0; i < t->free_buffer_count; i++) {
        psi_free(t->free_buffers[i]);
    }
    psi_free(t->free_buffers);
    psd_peers_free(t);
    psi_rights_free(t->rights);
    psi_cluster_fini(&t->cluster);
    psi_free(t);
}

uint32_t psd_task_session_count(const struct psd_task *t)
{
    return psi_map_count(&t->records);
}

uint64_t psd_task_forgotten(const struct psd_task *t)
{
    return t->store.dropped + t->names.forgotten + t->count.sessions_ended;
}

uint32_t psd_task_variable_count(const struct psd_task *t)
{
    return t->store.variable_count - t->store.queue_count;
}

static void check_counted(const struct psd_task *t)
{
    const uint64_t *counted = t->store.counted;
    const struct psi_list *lists[] = {&t->conns, &t->ended, &t->dead};
    uint64_t conns = t->buffer_count * (uint64_t)PSI_READER_BUFFER_BYTES;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, lists[i]) {
            conns += PSI_CONTAINER_OF(it, struct psd_conn, all)->counted_bytes;
        }
    }
    PSI_ASSERT(counted[PSD_MEMORY_CONNECTIONS] == conns);
    PSI_ASSERT(counted[PSD_MEMORY_SESSIONS] == psi_map_count(&t->records) * PSD_RECORD_BYTES);
    PSI_ASSERT(counted[PSD_MEMORY_NAMES] == psd_directory_bytes(&t->names));
    const uint64_t bar_count =
        t->shards == NULL ? 0 : psi_map_count(&t->shards->bars.by_names) + psi_map_count(&t->shards->others.bars.by_names);
    psd_directory_check_invariants(&t->names);
    PSI_ASSERT(counted[PSD_MEMORY_CONTAINERS] ==
               psi_map_count(&t->store.containers) * (uint64_t)PSD_CONTAINER_BYTES +
                   t->store.shown_count * (uint64_t)PSD_SHOWN_BYTES + psi_map_count(&t->chiefs) * (uint64_t)PSD_CHIEF_BYTES +
                   bar_count * (uint64_t)PSD_BAR_BYTES + psd_resets_bytes(&t->resets) + psd_saver_bytes(t) + psd_loader_bytes(t));
    PSI_ASSERT(counted[PSD_MEMORY_ROUNDS] == psd_rounds_record_bytes(&t->store));
    PSI_ASSERT(t->store.cut != NULL || counted[PSD_MEMORY_CUT] == 0);
}

void psd_task_check_invariants(const struct psd_task *t)
{
    const struct psd_peer *self = &t->peers[t->self];
    /* the task's own entry always counts as connected, but has no connection */
    PSI_ASSERT(self->listed && self->heard && self->conn == NULL);
    psd_store_check_invariants(&t->store);
    uint64_t cursor = 0;
    void *value = NULL;
    uint32_t progress = 0;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        psd_record_check_invariants(r);
        PSI_ASSERT((r->conn == NULL) == psi_list_linked(&r->silent));
        progress += r->progress_count;
    }
    PSI_ASSERT(progress == t->progress_count);
    check_counted(t);
    uint32_t conns = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        const struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        PSI_ASSERT(!c->closing && c->link->owner == c);
        PSI_ASSERT(c->record == NULL || c->record->conn == c);
        PSI_ASSERT(c->peer == NULL || c->peer->conn == c);
        PSI_ASSERT((c->slow == NULL && !psd_listing_goes_on(c)) || c->link->paused);
        conns++;
    }
    PSI_ASSERT(conns == t->conn_count && psi_list_empty(&t->ended));
    psd_wait_check_invariants(t);
    psd_events_check_invariants(t);
    psd_presences_check_invariants(t);
    psd_barriers_check_invariants(t);
    psd_groups_check_invariants(t);
    psd_shards_check_invariants(t);
    psd_saver_check_invariants(t);
    psd_beside_check_invariants(t);
    psd_loader_check_invariants(t);
    psd_call_check_invariants(t);
    psd_queues_check_invariants(t);
    PSI_ASSERT(t->free_buffer_count <= t->buffer_count && t->buffer_count <= t->config.segment_buffers_max);
}
