/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task in a thread: the only file that joins core (task.h), sockets (common/net) and options (psd.h).
 *
 * Happy path: psd_server_start(): cluster, sockets, loop, core -> thread: connections become events of the core, each followed by
 * drain(), which carries out its effects -> psd_server_stop(): drain_begin(): listening ends, the core admits nothing new -> all
 * is answered and sent: every connection gets its end of stream -> the loop has no handle left -> ended.
 *
 *   RUNNING -> DRAINING (core finishes) -> FINISHING (connections end) -> CLOSING (handles close) -> ended
 *
 * Failure modes: what is wrong at start is an error text for the person who chose the options, and nothing stays open. Later a
 * connection that fails is the core's business; without descriptors or memory new connections are closed or wait.
 */
#include "psd.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/net/conn.h"
#include "common/net/dial.h"
#include "common/net/listener.h"
#include "listen.h"
#include "server_config.h"
#include "server_log.h"
#include "task.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_MS = 50,             /* the core wants one per 100 ms */
    DRAIN_TICK_MS = 10,       /* while draining: how late the end is noticed */
    DIAL_MS = 5000,           /* to another task, look-up and all addresses */
    CONNECTIONS_RESERVE = 64, /* on top of the sessions: psctl, other tasks, connections being replaced */
    DESCRIPTORS_RESERVE = 64, /* the rest of the process */
    FULL_LOG_INTERVAL_MS = 5000
};

enum phase { RUNNING, DRAINING, FINISHING, CLOSING };

struct psd_server {
    struct psd_server_options o; /* its strings and descriptors are the caller's: for psd_server_start only */
    struct psi_log log;
    struct psd_server_log peer_log;
    char name[PSI_TASK_NAME_MAX];
    char address[PS_ADDRESS_BYTES_MAX + 1];
    struct psd_task *task;
    struct psd_listen listen;
    struct psi_listener *listeners[PSD_LISTEN_MAX];
    uv_loop_t loop;
    struct psi_net net;
    uv_timer_t tick;
    uv_async_t wake;
    uint64_t ticked_ms, full_logged_ms;
    uint32_t connections_max;
    enum phase phase;
    uint64_t end_ms; /* DRAINING and later: hard end */
    bool dial_failed;
    char dial_why[PSI_ERR_TEXT_MAX];
    pthread_t thread;
    bool thread_joinable; /* under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool loop_open;       /* under mutex: wake may be signalled */
    bool stop_asked;      /* under mutex */
    uint64_t stop_end_ms; /* under mutex: the earliest end asked for */
    bool ended;           /* under mutex */
};

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- log ---- */

static void write_line(void *data, enum psi_log_level level, const char *line)
{
    struct psd_server *s = data;
    s->o.log(s->o.ctx, (int)level, line);
}

/* ---- effects ---- */

static void on_dialed(void *ctx, struct psi_conn *conn, const char *why)
{
    struct psd_server *s = ctx;
    struct psi_link *link = psd_task_dialed(s->task, conn, why);
    if (link != NULL) {
        psi_conn_attach(conn, link);
    } else if (conn != NULL) {
        psi_conn_discard(conn);
    }
}

static void dial(struct psd_server *s, const char *address)
{
    struct psi_err err = {.code = PS_OK};
    ps_status st = PS_CANCELLED;
    if (s->phase >= FINISHING) {
        (void)psi_fail(&err, st, "this task ends");
    } else {
        st = psi_dial_start(&s->net, address, DIAL_MS, on_dialed, s, NULL, &err);
    }
    if (st != PS_OK) { /* an event: it must wait until the effects are carried out */
        s->dial_failed = true;
        (void)snprintf(s->dial_why, sizeof(s->dial_why), "%s", err.text);
    }
}

/* False when there was none. */
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
            dial(s, effect.text);
            break;
        case PSD_EFFECT_LOG:
            psd_server_log_core(&s->peer_log, &s->log, s->name, &effect, now_ms());
            break;
        case PSD_EFFECT_SHUTDOWN:
            psd_server_stop(s, s->o.drain_ms);
            break;
        case PSD_EFFECT_READY:
            if (s->o.ready != NULL) {
                s->o.ready(s->o.ctx, s);
            }
            break;
        }
    }
    return any;
}

static void drain(void *ctx)
{
    struct psd_server *s = ctx;
    for (;;) {
        while (carry_out_effects(s)) {
        }
        uint64_t now = now_ms();
        if (s->dial_failed) {
            s->dial_failed = false;
            PSI_ASSERT(psd_task_dialed(s->task, NULL, s->dial_why) == NULL);
        } else if (now - s->ticked_ms >= TICK_MS) { /* much work in one turn: the clock must not stand still meanwhile */
            s->ticked_ms = now;
            psd_task_tick(s->task, now);
        } else {
            return;
        }
    }
}

/* ---- events of the net ---- */

static void on_bytes(void *ctx, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct psd_server *s = ctx;
    psd_task_bytes(s->task, link, p, n);
}

static void on_closed(void *ctx, struct psi_link *link, const char *why)
{
    struct psd_server *s = ctx;
    (void)why; /* connections come and go: the core logs what matters */
    psd_task_closed(s->task, link);
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
        pause_listeners(s, false);
    }
}

static const struct psi_net_ops net_ops = {
    .bytes = on_bytes, .closed = on_closed, .writable = on_writable, .drain = drain, .released = on_released};

static void on_accepted(void *ctx, int fd)
{
    struct psd_server *s = ctx;
    struct psi_conn *conn = NULL;
    struct psi_err err = {.code = PS_OK};
    if (psi_conn_new(&s->net, fd, &conn, &err) != PS_OK) {
        psi_log_event(&s->log, PSI_LOG_WARN, "accept_failed", "task=%s msg=%s", s->name, err.text);
        return;
    }
    struct psi_link *link = psd_task_accepted(s->task, conn, psi_conn_peer(conn));
    if (link != NULL) {
        psi_conn_attach(conn, link);
    } else {
        psi_conn_discard(conn);
    }
    if (s->net.conn_count >= s->connections_max) {
        uint64_t now = now_ms();
        pause_listeners(s, true);
        if (s->full_logged_ms == 0 || now - s->full_logged_ms >= FULL_LOG_INTERVAL_MS) {
            s->full_logged_ms = now;
            psi_log_event(&s->log, PSI_LOG_WARN, "connections_full", "task=%s connections=%u msg=%s", s->name, s->net.conn_count,
                          "new connections wait until others end");
        }
    }
}

static void on_trouble(void *ctx, int error, uint64_t count)
{
    struct psd_server *s = ctx;
    bool files = error == EMFILE || error == ENFILE;
    psi_log_event(&s->log, PSI_LOG_WARN, "accept_failed", "task=%s count=%llu error=%s msg=%s", s->name,
                  (unsigned long long)count, strerror(error),
                  files ? "connections are closed unserved: raise the limit of open files" : "");
}

static const struct psi_listener_ops listener_ops = {.accepted = on_accepted, .trouble = on_trouble};

/* ---- the end ---- */

static void close_listeners(struct psd_server *s)
{
    for (size_t i = 0; i < PSD_LISTEN_MAX; i++) {
        psi_listener_close(s->listeners[i]);
        s->listeners[i] = NULL;
    }
    psd_listen_close(&s->listen);
}

static void loop_close(struct psd_server *s)
{
    s->phase = CLOSING;
    close_listeners(s);
    pthread_mutex_lock(&s->mutex);
    s->loop_open = false;
    pthread_mutex_unlock(&s->mutex);
    psi_net_close(&s->net);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->wake, NULL);
}

/* One step towards the end, at every tick of a task that drains. */
static void wind_down(struct psd_server *s)
{
    bool late = now_ms() >= s->end_ms;
    if (s->phase == DRAINING && !late && psd_task_drained(s->task) && psi_net_sent_all(&s->net)) {
        s->phase = FINISHING;
        psi_net_finish(&s->net);
    }
    if ((s->phase == FINISHING && s->net.conn_count == 0) || (s->phase != CLOSING && late)) {
        psi_log_event(&s->log, PSI_LOG_INFO, "ended", "task=%s drained=%s", s->name, s->phase == FINISHING ? "true" : "false");
        loop_close(s);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct psd_server *s = timer->data;
    s->ticked_ms = now_ms();
    psd_task_tick(s->task, s->ticked_ms);
    psi_net_settle(&s->net);
    if (s->phase != RUNNING) {
        wind_down(s);
    }
}

static void on_wake(uv_async_t *async)
{
    struct psd_server *s = async->data;
    pthread_mutex_lock(&s->mutex);
    bool asked = s->stop_asked;
    s->end_ms = s->stop_end_ms;
    pthread_mutex_unlock(&s->mutex);
    if (!asked || s->phase == CLOSING) {
        return;
    }
    if (s->phase == RUNNING) {
        uint64_t now = now_ms();
        s->phase = DRAINING;
        psi_log_event(&s->log, PSI_LOG_INFO, "draining", "task=%s at_most_ms=%llu", s->name,
                      (unsigned long long)(s->end_ms > now ? s->end_ms - now : 0));
        close_listeners(s);
        psd_task_drain(s->task);
        psi_net_settle(&s->net);
        PSI_IGNORE(uv_timer_start(&s->tick, on_tick, DRAIN_TICK_MS, DRAIN_TICK_MS)); /* fails for closing handles only */
    }
    wind_down(s);
}

void psd_server_stop(psd_server *s, int64_t drain_ms)
{
    uint64_t end = now_ms() + (drain_ms > 0 ? (uint64_t)drain_ms : 0);
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

static void *server_thread(void *arg)
{
    struct psd_server *s = arg;
    for (size_t i = 0; i < s->listen.count; i++) {
        char address[PS_ADDRESS_BYTES_MAX + 1];
        psi_log_event(&s->log, PSI_LOG_INFO, "listening", "task=%s address=%s version=%s", s->name,
                      psi_sockaddr_format(&s->listen.sockets[i].address, address, sizeof(address)), PSD_VERSION);
    }
    psi_net_settle(&s->net);                      /* what the core wants from the start: dial, log, ready */
    PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* returns when every handle is closed */
    psd_task_free(s->task);
    s->task = NULL;
    psi_net_fini(&s->net);
    PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    pthread_mutex_lock(&s->mutex);
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    if (s->o.ended != NULL) {
        s->o.ended(s->o.ctx, s); /* psd_server_wait joins this thread: s outlives the call */
    }
    return NULL;
}

bool psd_server_has_ended(const psd_server *server)
{
    struct psd_server *s = (struct psd_server *)(uintptr_t)server;
    pthread_mutex_lock(&s->mutex);
    bool ended = s->ended;
    pthread_mutex_unlock(&s->mutex);
    return ended;
}

void psd_server_wait(psd_server *s)
{
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

void psd_server_free(psd_server *s)
{
    if (s == NULL) {
        return;
    }
    psd_server_stop(s, 0);
    psd_server_wait(s);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    psi_free(s);
}

const char *psd_server_address(const psd_server *server)
{
    return server->address;
}

const char *psd_server_name(const psd_server *server)
{
    return server->name;
}

const char *psd_server_version(void)
{
    return PSD_VERSION;
}

/* ---- the start ---- */

/* Cluster and sockets: where we listen, and what the cluster says about it, agree afterwards. */
static ps_status settle_addresses(struct psd_server *s, struct psi_cluster *c, struct psi_err *err)
{
    const psd_server_options *o = &s->o;
    char fallback[32];
    ps_status st = psd_server_config_cluster(o, c, err);
    if (st != PS_OK) {
        return st;
    }
    bool alone = psi_cluster_job_count(c) == 0;
    (void)snprintf(fallback, sizeof(fallback), "127.0.0.1:%d", PSI_PORT_DEFAULT);
    const char *home = alone ? fallback : psi_cluster_task_address(c, o->job, o->task_index);
    if (o->listen_fd_count > 0) {
        st = psd_listen_adopt(&s->listen, o->listen_fds, o->listen_fd_count, o->insecure_any_peer, err);
    } else {
        st = psd_listen_open(&s->listen, o->listen, home, o->unix_mode, o->insecure_any_peer, err);
    }
    if (st != PS_OK) {
        return st;
    }
    (void)psd_listen_address(&s->listen, s->address, sizeof(s->address));
    if (alone) {
        return psi_cluster_add_job(c, o->job, s->address, err);
    }
    return s->listen.any_port ? psi_cluster_set_address(c, o->job, o->task_index, s->address, err) : PS_OK;
}

static ps_status make_task(struct psd_server *s, const struct psi_cluster *c, struct psi_err *err)
{
    struct psd_task_config config;
    uint8_t seed[32];
    psd_task_config_init(&config);
    config.cluster = c;
    (void)snprintf(config.job, sizeof(config.job), "%s", s->o.job);
    config.task = s->o.task_index;
    (void)snprintf(config.cluster_name, sizeof(config.cluster_name), "%s", c->name);
    (void)snprintf(config.address, sizeof(config.address), "%s", s->address);
    psd_server_config_limits(&s->o, &config);
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        return psi_fail(err, PS_UNAVAILABLE, "the system gives no random bytes: %s", strerror(errno));
    }
    s->ticked_ms = now_ms();
    return psd_task_new(&config, seed, s->ticked_ms, &s->task, err);
}

static uint32_t connections_max(uint32_t sessions_max)
{
    struct rlimit files;
    uint64_t most = (uint64_t)sessions_max + CONNECTIONS_RESERVE;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        uint64_t room = files.rlim_cur > DESCRIPTORS_RESERVE * 2 ? files.rlim_cur - DESCRIPTORS_RESERVE : files.rlim_cur;
        most = room < most ? room : most;
    }
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* Loop, net and listeners; on failure everything that was opened is closed again. */
static ps_status make_loop(struct psd_server *s, struct psi_err *err)
{
    int rc = uv_loop_init(&s->loop);
    if (rc != 0) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no event loop: %s", uv_strerror(rc));
    }
    ps_status st = psi_net_init(&s->net, &s->loop, &net_ops, s, err);
    if (st != PS_OK) {
        PSI_ASSERT(uv_loop_close(&s->loop) == 0);
        return st;
    }
    PSI_IGNORE(uv_timer_init(&s->loop, &s->tick)); /* always 0 */
    s->tick.data = s;
    rc = uv_async_init(&s->loop, &s->wake, on_wake);
    PSI_ASSERT(rc == 0); /* the loop has its descriptor for this already */
    s->wake.data = s;
    PSI_IGNORE(uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS)); /* fails for closing handles only */
    s->loop_open = true;
    for (size_t i = 0; i < s->listen.count && st == PS_OK; i++) {
        st = psi_listener_new(&s->net, psd_listen_take(&s->listen, i), &listener_ops, s, &s->listeners[i], err);
    }
    if (st != PS_OK) {
        loop_close(s);
        PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* close callbacks only */
        psi_net_fini(&s->net);
        PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    }
    return st;
}

static ps_status start_thread(struct psd_server *s, struct psi_err *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* also SIGPIPE: a write to a closed peer must give EPIPE */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    s->thread_joinable = true;
    int rc = pthread_create(&s->thread, NULL, server_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        return PS_OK;
    }
    loop_close(s);
    PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* close callbacks only */
    psi_net_fini(&s->net);
    PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no thread for the task: %s", strerror(rc));
}

static ps_status start(const psd_server_options *options, psd_server **out_server, struct psi_err *err)
{
    struct psi_cluster *c = NULL;
    struct psd_server *s = psi_calloc(1, sizeof(*s));
    ps_status st = PS_OK;
    if (s == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    psd_server_options_init(&s->o);
    memcpy(&s->o, options, options->struct_bytes < sizeof(s->o) ? options->struct_bytes : sizeof(s->o));
    if (s->o.log != NULL) {
        s->log = (struct psi_log){
            .write = write_line, .stamp = psd_server_log_stamp, .data = s, .level = (enum psi_log_level)s->o.log_level};
    }
    s->connections_max = connections_max(s->o.sessions_max);
    (void)psi_task_name_format(s->name, sizeof(s->name), s->o.job, s->o.task_index);
    c = psi_calloc(1, sizeof(*c));
    if (c == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
        goto fail;
    }
    psi_cluster_init(c);
    st = psd_server_config_check(&s->o, err);
    if (st == PS_OK) {
        st = settle_addresses(s, c, err);
    }
    if (st == PS_OK) {
        st = make_task(s, c, err);
    }
    if (st == PS_OK) {
        st = make_loop(s, err);
    }
    if (st == PS_OK) {
        st = start_thread(s, err);
    }
    if (st != PS_OK) {
        goto fail;
    }
    psi_cluster_fini(c);
    psi_free(c);
    *out_server = s;
    return PS_OK;
fail:
    if (c != NULL) {
        psi_cluster_fini(c);
        psi_free(c);
    }
    psd_task_free(s->task);
    psd_listen_close(&s->listen);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    psi_free(s);
    return st;
}

ps_status psd_server_start(const psd_server_options *options, psd_server **out_server, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    psi_net_keep_stdio();
    ps_status st = start(options, out_server, &err);
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err.text);
    }
    return st;
}
