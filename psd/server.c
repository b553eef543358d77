/* SPDX-License-Identifier: Apache-2.0 */
/* One task in its thread: joins the core (task.h), sockets (common/net) and compute threads (calls.h).
 *
 * Happy path: psd_server_start() (server_start.c) starts the thread. Connections become events of the core, and drain() carries
 * out the effects of each event. psd_server_stop() closes the listeners, and the core admits nothing new. When everything is
 * answered and sent, each connection is shut down. The server has ended when its loop has no open handle.
 *
 *   RUNNING -> DRAINING (core finishes) -> FINISHING (connections end) -> CLOSING (handles close) -> ended
 *
 * Failure modes (server_start.c has those of the start): the core handles connections that fail. Without memory or descriptors
 * new connections are closed. Beyond connections_max new connections wait to be accepted. */
#include "server.h"

#include "common/abi.h"
#include "common/mem.h"
#include "common/net/dial.h"
#include "psd/shell/machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    /* after so many freed variables, names and sessions (some 10 MB), memory is given back to the system */
    GIVE_BACK_COUNT = 10000,
    GIVE_BACK_MS = 1000,
    DRAIN_TICK_MS = 10, /* ms between two ticks while draining, so that the end is noticed soon */
    /* most ms for connecting to another task: for the look-up of its host and attempts at all its addresses */
    DIAL_MS = 5000,
    FULL_LOG_INTERVAL_MS = 5000,
    DISK_END_MS = 5000 /* most ms to wait, at the end, for a running disk operation */
};

uint64_t psd_server_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void on_dialed(void *ctx, struct psi_conn *conn, const char *why)
{
    struct psd_server_dial *d = ctx;
    struct psd_server *s = d->server;
    struct psi_link *link = psd_task_dialed(s->task, (enum psd_dial)(d - s->dials), conn, why);
    if (link != NULL) {
        psi_conn_attach(conn, link);
    } else if (conn != NULL) {
        psi_conn_discard(conn);
    }
}

static void dial(struct psd_server *s, const struct psd_effect *effect)
{
    struct psd_server_dial *d = &s->dials[effect->dial];
    struct psi_err err = {.code = PS_OK};
    ps_status st = PS_CANCELLED;
    if (s->phase >= PSD_FINISHING) {
        (void)psi_fail(&err, st, "this task ends");
    } else {
        char expect[PSI_IDENTITY_BYTES_MAX + 1];
        st = psi_dial_start(&s->net, effect->text, DIAL_MS, psd_secure_expect(s, effect->job, effect->task, expect), on_dialed, d,
                            NULL, &err);
    }
    if (st != PS_OK) { /* tell_failed_dial() reports it later: while effects are carried out the core must get no event */
        d->failed = true;
        (void)snprintf(d->why, sizeof(d->why), "%s", err.text);
    }
}

/* Do what the core wants of connections that it has marked dirty (common/link.h), and carry out its effects. False: none. */
static bool carry_out_effects(struct psd_server *s)
{
    struct psi_link *link = NULL;
    struct psd_effect effect;
    bool any = false;
    while ((link = psd_task_next_dirty(s->task)) != NULL) {
        any = true;
        psi_conn_update(link->shell);
    }
    while (psd_task_next_effect(s->task, &effect)) {
        any = true;
        switch (effect.kind) {
        case PSD_EFFECT_DIAL:
            dial(s, &effect);
            break;
        case PSD_EFFECT_LOG:
            psd_server_log_core(&s->peer_log, &s->log, s->name, &effect, psd_server_now_ms());
            break;
        case PSD_EFFECT_SHUTDOWN:
            psd_server_stop(s, s->o.drain_ms);
            break;
        case PSD_EFFECT_READY:
            if (s->o.ready != NULL) {
                s->o.ready(s->o.ctx, s);
            }
            break;
        case PSD_EFFECT_SERVING:
            if (s->o.serving != NULL) {
                s->o.serving(s->o.ctx, s);
            }
            break;
        case PSD_EFFECT_CALL:
        case PSD_EFFECT_CALL_EARLY:
            psd_calls_run(&s->calls, &effect);
            break;
        case PSD_EFFECT_CALL_CANCEL:
            psd_calls_cancel(&s->calls, effect.call);
            break;
        case PSD_EFFECT_DISK:
            psd_disk_run(s->disk, &effect.disk);
            break;
        }
    }
    return any;
}

/* Tell the core of one dial that failed before it began (psd_server_dial.failed). False: there is no such dial. */
static bool tell_failed_dial(struct psd_server *s)
{
    for (uint32_t i = 0; i < PSD_DIALS; i++) {
        struct psd_server_dial *d = &s->dials[i];
        if (d->failed) {
            d->failed = false;
            PSI_ASSERT(psd_task_dialed(s->task, (enum psd_dial)i, NULL, d->why) == NULL);
            return true;
        }
    }
    return false;
}

static void on_work(uv_idle_t *idle)
{
    struct psd_server *s = idle->data;
    PSI_IGNORE(uv_idle_stop(idle)); /* stop the idle handle; drain() starts it again if work is left */
    psd_task_work(s->task);
    psi_net_settle(&s->net);
}

static void drain(void *ctx)
{
    struct psd_server *s = ctx;
    for (;;) {
        while (carry_out_effects(s)) {
        }
        uint64_t now = psd_server_now_ms();
        if (tell_failed_dial(s)) {
            continue;
        }
        /* the loop's timer does not run while drain() finds work; without this call the core's time would stand still */
        if (now - s->ticked_ms >= PSD_TICK_MS) {
            s->ticked_ms = now;
            psd_task_tick(s->task, now);
        } else {
            break;
        }
    }
    if (psd_task_has_work(s->task) && s->phase != PSD_CLOSING) {
        PSI_IGNORE(uv_idle_start(&s->work, on_work)); /* always 0 */
    }
}

static void on_bytes(void *ctx, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct psd_server *s = ctx;
    psd_task_bytes(s->task, link, p, n);
}

static void on_closed(void *ctx, struct psi_link *link, const char *why)
{
    struct psd_server *s = ctx;
    (void)why; /* the core itself logs those ends of connections that matter */
    psd_task_closed(s->task, link);
}

static void on_revoked(void *ctx, struct psi_link *link, const char *text)
{
    struct psd_server *s = ctx;
    psd_task_revoked(s->task, link, text);
}

static void on_writable(void *ctx, struct psi_link *link)
{
    struct psd_server *s = ctx;
    psd_task_writable(s->task, link);
}

static void pause_listeners(struct psd_server *s, bool paused)
{
    for (size_t i = 0; i < PSD_LISTEN_MAX; i++) {
        if (s->listeners[i] != NULL) {
            psi_listener_pause(s->listeners[i], paused);
        }
    }
}

static void on_released(void *ctx)
{
    struct psd_server *s = ctx;
    if (s->net.conn_count < s->connections_max) {
        psd_task_crowded(s->task, false);
        pause_listeners(s, false);
    }
}

const struct psi_net_ops psd_server_net_ops = {.bytes = on_bytes,
                                               .closed = on_closed,
                                               .writable = on_writable,
                                               .drain = drain,
                                               .released = on_released,
                                               .refused = psd_secure_refused,
                                               .revoked = on_revoked,
                                               .listed = psd_secure_listed};

static void on_accepted(void *ctx, int fd)
{
    struct psd_server *s = ctx;
    struct psi_conn *conn = NULL;
    struct psi_err err = {.code = PS_OK};
    if (psi_conn_new(&s->net, fd, PSI_SIDE_ACCEPT, NULL, &conn, &err) != PS_OK) {
        psi_log_event(&s->log, PSI_LOG_WARN, "accept_failed", PSI_KV("task", s->name), PSI_KV("msg", err.text));
        return;
    }
    struct psi_link *link = psd_task_accepted(s->task, conn, psi_conn_peer(conn));
    if (link != NULL) {
        psi_conn_attach(conn, link);
    } else {
        psi_conn_discard(conn);
    }
    if (s->net.conn_count >= s->connections_max) {
        uint64_t now = psd_server_now_ms();
        pause_listeners(s, true);
        psd_task_crowded(s->task, true);
        if (s->full_logged_ms == 0 || now - s->full_logged_ms >= FULL_LOG_INTERVAL_MS) {
            s->full_logged_ms = now;
            psi_log_event(&s->log, PSI_LOG_WARN, "connections_full", PSI_KV("task", s->name),
                          PSI_KV("connections", s->net.conn_count), PSI_KV("msg", "new connections wait until others end"));
        }
    }
}

static void on_trouble(void *ctx, int error, uint64_t count)
{
    struct psd_server *s = ctx;
    bool files = error == EMFILE || error == ENFILE;
    psi_log_event(&s->log, PSI_LOG_WARN, "accept_failed", PSI_KV("task", s->name), PSI_KV("count", count),
                  PSI_KV("error", strerror(error)),
                  PSI_KV("msg", files ? "connections are closed unserved: raise the limit of open files" : ""));
}

const struct psi_listener_ops psd_server_listener_ops = {.accepted = on_accepted, .trouble = on_trouble};

static void close_listeners(struct psd_server *s)
{
    for (size_t i = 0; i < PSD_LISTEN_MAX; i++) {
        psi_listener_close(s->listeners[i]);
        s->listeners[i] = NULL;
    }
    psd_listen_close(&s->listen);
}

void psd_server_loop_close(struct psd_server *s)
{
    s->phase = PSD_CLOSING;
    close_listeners(s);
    pthread_mutex_lock(&s->mutex);
    s->loop_open = false;
    pthread_mutex_unlock(&s->mutex);
    psi_net_close(&s->net);
    psd_calls_close(&s->calls);
    psd_task_end_copies(s->task);
    psd_disk_close(s->disk);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->work, NULL);
    uv_close((uv_handle_t *)&s->wake, NULL);
}

/* Call at every tick while draining. When all is answered and sent, go to FINISHING. When all connections have ended, or the
 * drain time is over, close the loop. */
static void wind_down(struct psd_server *s)
{
    bool late = psd_server_now_ms() >= s->end_ms;
    if (s->phase == PSD_DRAINING && !late && psd_task_drained(s->task) && psi_net_sent_all(&s->net)) {
        s->phase = PSD_FINISHING;
        psi_net_finish(&s->net);
    }
    if ((s->phase == PSD_FINISHING && s->net.conn_count == 0) || (s->phase != PSD_CLOSING && late)) {
        const char *lost = psd_task_lost_text(s->task);
        if (lost != NULL) {
            atomic_store(&s->lost, true);
            psi_log_event(&s->log, PSI_LOG_ERROR, "last_checkpoint_lost", PSI_KV("task", s->name), PSI_KV("msg", lost));
        }
        psi_log_event(&s->log, PSI_LOG_INFO, "ended", PSI_KV("task", s->name),
                      PSI_KV("drained", s->phase == PSD_FINISHING ? "true" : "false"));
        psd_server_loop_close(s);
    }
}

/* If much was freed in small pieces since the last time: give free pages, which the allocator would keep, to the system. */
static void give_back(struct psd_server *s)
{
    uint64_t forgotten = psd_task_forgotten(s->task);
    if (forgotten - s->forgotten >= GIVE_BACK_COUNT && s->ticked_ms - s->gave_back_ms >= GIVE_BACK_MS) {
        s->forgotten = forgotten;
        s->gave_back_ms = s->ticked_ms;
        psd_machine_give_back();
    }
}

void psd_server_on_tick(uv_timer_t *timer)
{
    struct psd_server *s = timer->data;
    s->ticked_ms = psd_server_now_ms();
    psi_net_note_sent(&s->net);
    psd_task_tick(s->task, s->ticked_ms);
    psi_net_settle(&s->net);
    psd_secure_tick(s);
    give_back(s);
    atomic_store(&s->connections, s->net.conn_count);
    atomic_store(&s->sessions, psd_task_session_count(s->task));
    atomic_store(&s->variables, psd_task_variable_count(s->task));
    atomic_fetch_add(&s->turns, 1);
    if (s->phase != PSD_RUNNING) {
        wind_down(s);
    }
}

void psd_server_on_wake(uv_async_t *async)
{
    struct psd_server *s = async->data;
    psd_server_sets_apply(s);
    psd_secure_apply(s);
    pthread_mutex_lock(&s->mutex);
    bool asked = s->stop_asked;
    s->end_ms = s->stop_end_ms;
    pthread_mutex_unlock(&s->mutex);
    if (!asked || s->phase == PSD_CLOSING) {
        return;
    }
    if (s->phase == PSD_RUNNING) {
        uint64_t now = psd_server_now_ms();
        s->phase = PSD_DRAINING;
        psi_log_event(&s->log, PSI_LOG_INFO, "draining", PSI_KV("task", s->name),
                      PSI_KV("at_most_ms", s->end_ms > now ? s->end_ms - now : 0));
        close_listeners(s);
        psd_task_drain(s->task);
        psi_net_settle(&s->net);
        PSI_IGNORE(
            uv_timer_start(&s->tick, psd_server_on_tick, DRAIN_TICK_MS, DRAIN_TICK_MS)); /* fails for closing handles only */
    }
    wind_down(s);
}

void psd_server_stop(psd_server *s, int64_t drain_ms)
{
    if (s == NULL) {
        return;
    }
    uint64_t end = psd_server_now_ms() + (drain_ms > 0 ? (uint64_t)drain_ms : 0);
    pthread_mutex_lock(&s->mutex);
    if (!s->stop_asked || end < s->stop_end_ms) {
        s->stop_end_ms = end;
    }
    s->stop_asked = true;
    if (s->loop_open) {
        PSI_IGNORE(uv_async_send(&s->wake)); /* fails for closing handles only */
    }
    pthread_mutex_unlock(&s->mutex);
}

static void free_task(void *task)
{
    psd_task_free(task);
}

void *psd_server_thread(void *server)
{
    struct psd_server *s = server;
    psd_server_is_mine(s);
    psi_spin_set(&s->net.spin, s->o.spin_us);
    for (size_t i = 0; i < s->listen.count; i++) {
        char address[PS_ADDRESS_BYTES_MAX + 1];
        psi_log_event(&s->log, PSI_LOG_INFO, "listening", PSI_KV("task", s->name),
                      PSI_KV("address", psi_sockaddr_format(&s->listen.sockets[i].address, address, sizeof(address))),
                      PSI_KV("version", PS_VERSION));
    }
    psd_secure_say(s);
    psd_calls_attach(&s->calls, &s->call_task);
    psi_net_settle(&s->net);                      /* carries out the first effects of the new core: connect, log, report READY */
    PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* runs until all handles are closed */
    psd_calls_join(&s->calls);                    /* before the core is freed, because running calls use its memory */
    psd_calls_detach(&s->calls);
    if (psd_disk_end(s->disk, DISK_END_MS, free_task, s->task)) {
        psd_task_free(s->task);
    } else {
        psi_log_event(
            &s->log, PSI_LOG_ERROR, "disk_left", PSI_KV("task", s->name),
            PSI_KV("msg", "the disk does not end what it does: it is left behind, and the directory stays locked until then"));
    }
    s->task = NULL;
    s->disk = NULL;
    psi_net_fini(&s->net);
    PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    pthread_mutex_lock(&s->mutex);
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    if (s->o.ended != NULL) {
        s->o.ended(s->o.ctx, s); /* s stays valid: psd_server_wait() waits for this thread */
    }
    return NULL;
}

void psd_server_get_counts(const psd_server *s, psd_server_counts *out_counts, size_t counts_bytes)
{
    if (out_counts == NULL) {
        return;
    }
    psd_server_counts counts = {.turns = 0};
    if (s != NULL) {
        bool ended = psd_server_has_ended(s);
        counts = (psd_server_counts){.turns = atomic_load(&s->turns),
                                     .connections = ended ? 0 : atomic_load(&s->connections),
                                     .sessions = ended ? 0 : atomic_load(&s->sessions),
                                     .variables = ended ? 0 : atomic_load(&s->variables)};
    }
    psi_struct_give(out_counts, counts_bytes, 0, &counts, sizeof(counts));
}

bool psd_server_has_ended(const psd_server *server)
{
    struct psd_server *s = (struct psd_server *)(uintptr_t)server;
    if (s == NULL) {
        return true;
    }
    pthread_mutex_lock(&s->mutex);
    bool ended = s->ended;
    pthread_mutex_unlock(&s->mutex);
    return ended;
}

bool psd_server_has_lost(const psd_server *server)
{
    return server != NULL && atomic_load(&server->lost);
}

void psd_server_wait(psd_server *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->mutex);
    while (!s->ended) {
        pthread_cond_wait(&s->changed, &s->mutex);
    }
    bool join = s->thread_joinable;
    s->thread_joinable = false;
    pthread_mutex_unlock(&s->mutex);
    if (join) {
        pthread_join(s->thread, NULL);
    }
}

void psd_server_join(psd_server *server)
{
    psd_server_wait(server);
}

void psd_server_free(psd_server *s)
{
    if (s == NULL) {
        return;
    }
    psd_server_stop(s, 0);
    psd_server_wait(s);
    psd_calls_fini(&s->calls);
    psi_buf_fini(&s->call_texts.cluster_spec);
    psd_secure_fini(&s->secure);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    psi_free(s);
}

const char *psd_server_address(const psd_server *server)
{
    return server != NULL ? server->address : "";
}

const char *psd_server_target(const psd_server *server)
{
    return server != NULL ? server->target : "";
}

const char *psd_server_name(const psd_server *server)
{
    return server != NULL ? server->name : "";
}

const char *psd_server_version(void)
{
    return PS_VERSION;
}
