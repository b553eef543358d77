/* SPDX-License-Identifier: Apache-2.0 */
/* The libuv loop between the pure core and common/net, on a thread of the session, or in turns on the caller's thread. The only
 * file of the library that knows sockets and loops.
 *
 * Happy path: psi_io_submit() puts a work into the queue and wakes the loop if it sleeps. Before the loop sleeps again,
 * on_prepare() or on_wake() calls run_works(), which gives the core the time, runs every queued work and lets psi_net_settle()
 * carry out the effects, so that all of them leave in one write. common/net turns bytes of connections into events of the core.
 * After works and after bytes, drain() calls done() of finished requests, on this thread.
 *
 * By the caller: psi_io_turn() runs the loop until an event. Watchers that the event has made get to epoll only in the next turn:
 * `unsettled` notes this, and psi_io_due_ms() asks for that turn at once.
 *
 * Failure modes: the core hears of a failed dial and tries again after its back-off; a loop that was set up does not fail.
 * psi_io_close() ends connections and dials at once, but does not wait for a running name look-up (common/net/dial.h). */
#define _GNU_SOURCE 1 /* pthread_setname_np */
#include "io.h"

#include "log.h"
#include "mem.h"
#include "net/conn.h"
#include "net/dial.h"
#include "net/fds.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <uv.h>

/* Most runs of the loop in psi_io_turn(io, 0). The second run serves the watchers that the first has made; more runs would let a
 * stream of quick events hold the caller. */
enum { IO_SETTLE_MAX = 2 };
enum { IO_WORKS_MAX = 8 };  /* limit of runs of the queue before sockets are served: works may submit works for ever */
enum { IO_TICK_MS = 25 };   /* period of psi_client_tick(), which the core needs every 50 ms at least */
enum { IO_DIAL_MS = 5000 }; /* longest attempt to connect: look-up and all addresses; the core has deadlines of its own */

struct io_dial {
    struct psi_io *io;
    struct psi_list link; /* in io->dials or io->spare_dials */
    uint32_t task;
};

/* Entry of a list of the loops that run on this thread: a callback of one session may drive another session. */
struct io_running {
    const struct psi_io *io;
    const struct io_running *outer;
};
static _Thread_local const struct io_running *running;

/* A psi_io_turn() in progress, with what its end restores: the loop of the outer turn and the signal mask. */
struct io_turn {
    struct io_running self;
    bool blocked;    /* the turn has blocked SIGPIPE */
    sigset_t before; /* if blocked: the signal mask before the turn */
    bool take;       /* if blocked: no SIGPIPE was pending before the turn, so turn_end() consumes one that the turn has caused */
};

struct psi_io {
    struct psi_client *client;
    void (*log)(void *ctx, int level, const char *event, const char *fields);
    void *log_ctx;
    void (*stop_asked)(void *log_ctx); /* NULL: no callback is wanted, or it was called already */
    bool (*poked)(void *log_ctx, struct psi_client *c);
    void (*drained)(void *log_ctx);
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t tick;
    struct psi_net net;
    struct psi_tls *(*tls)(void *tls_ctx); /* NULL: connections are plain */
    void *tls_ctx;
    struct psi_list dials, spare_dials; /* struct io_dial.link */
    pthread_t thread;                   /* unused if by_caller */
    bool by_caller;
    uint64_t events;      /* loop thread: number of events so far; a turn ends when it changes */
    bool stamps;          /* loop thread: psi_client_time() tells the core the time in nanoseconds before each event */
    bool unsettled;       /* by_caller: the last turn may have left new watchers unserved: the next turn is due at once */
    bool ended;           /* loop thread: a request or call has ended since on_prepare() */
    uint64_t turned_ms;   /* by_caller: end of the last turn, in ms */
    uv_timer_t limit;     /* by_caller: ends the wait of a turn */
    struct io_turn *turn; /* by_caller: the turn in progress */
    bool loop_open, net_open;
    bool closing;          /* loop thread: the handles of the loop are being closed */
    pthread_mutex_t lock;  /* protects queue, turning, watched and stop */
    struct psi_list queue; /* struct psi_io_work.link */
    bool turning;          /* by_caller: a thread is in psi_io_turn() */
    bool watched;          /* by_caller: psi_io_fd() was called: the program may wait for the descriptor between turns */
    bool stop;
    /* true: the loop looks at the queue only after a wake-up. Set by the loop, under the lock, when the queue is empty */
    atomic_bool asleep;
};

uint64_t psi_io_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t psi_io_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void psi_io_stamp(struct psi_io *io, bool on)
{
    io->stamps = on;
}

static void stamp(const struct psi_io *io)
{
    if (io->stamps) {
        psi_client_time(io->client, psi_io_now_ns());
    }
}

bool psi_io_on_loop(const struct psi_io *io)
{
    for (const struct io_running *r = running; r != NULL; r = r->outer) {
        if (r->io == io) {
            return true;
        }
    }
    return false;
}

/* ---- events of common/net ---- */

static void on_bytes(void *ctx, struct psi_link *link, const uint8_t *p, size_t n)
{
    struct psi_io *io = ctx;
    io->events++;
    /* the loop runs, and looks at the queue before it sleeps: psi_io_submit() need not wake it */
    atomic_store_explicit(&io->asleep, false, memory_order_relaxed);
    stamp(io);
    psi_client_awake(io->client, psi_io_now_ms());
    psi_client_bytes(io->client, link, p, n);
}

static void on_link_closed(void *ctx, struct psi_link *link, const char *why)
{
    struct psi_io *io = ctx;
    io->events++;
    psi_client_closed(io->client, link, strcmp(why, "closed by peer") != 0 ? why : NULL);
}

static void on_writable(void *ctx, struct psi_link *link)
{
    struct psi_io *io = ctx;
    io->events++;
    psi_client_writable(io->client, link);
}

static void dial_release(struct io_dial *dial)
{
    psi_list_remove(&dial->link);
    psi_list_push_back(&dial->io->spare_dials, &dial->link);
}

static void on_dialed(void *ctx, struct psi_conn *conn, const char *why)
{
    struct io_dial *dial = ctx;
    struct psi_io *io = dial->io;
    uint32_t task = dial->task;
    io->events++;
    dial_release(dial);
    struct psi_link *link = psi_client_dialed(io->client, task, conn, conn != NULL && psi_conn_crc(conn), why);
    if (conn == NULL) {
        return;
    }
    if (link == NULL) {
        psi_conn_discard(conn);
    } else {
        psi_conn_attach(conn, link);
    }
}

/* Make new connections use the TLS context with the keys that are current now. */
static ps_status take_tls(struct psi_io *io, struct psi_err *err)
{
    struct psi_tls *now = io->tls != NULL ? io->tls(io->tls_ctx) : NULL;
    return now != io->net.tls ? psi_net_set_tls(&io->net, now, false, err) : PS_OK;
}

/* Identity that the server's certificate must have. NULL: any task's will do, because it is not known which task is there. */
static const char *expected(const struct psi_io *io, uint32_t task, char text[PSI_IDENTITY_BYTES_MAX + 1])
{
    struct psi_uri uri = {.index = 0};
    bool fits = false;
    bool known = psi_client_task_place(io->client, task, uri.cluster, uri.job, &uri.index);
    (void)psi_uri_text(&uri, text, &fits);
    return known && fits ? text : NULL;
}

static void dial(struct psi_io *io, uint32_t task, const char *address)
{
    struct io_dial *d = NULL;
    struct psi_list *spare = psi_list_pop_front(&io->spare_dials);
    if (spare != NULL) {
        d = PSI_CONTAINER_OF(spare, struct io_dial, link);
    } else {
        d = psi_calloc(1, sizeof(*d));
    }
    if (d == NULL) {
        PSI_ASSERT(psi_client_dialed(io->client, task, NULL, false, "out of memory") == NULL);
        return;
    }
    d->io = io;
    d->task = task;
    psi_list_init(&d->link);
    psi_list_push_back(&io->dials, &d->link);
    struct psi_err err = {0};
    char expect[PSI_IDENTITY_BYTES_MAX + 1];
    ps_status st = take_tls(io, &err);
    if (st == PS_OK) {
        st = psi_dial_start(&io->net, address, IO_DIAL_MS, expected(io, task, expect), on_dialed, d, NULL, &err);
    }
    if (st != PS_OK) {
        dial_release(d);
        PSI_ASSERT(psi_client_dialed(io->client, task, NULL, false, err.text) == NULL);
    }
}

static void drain(void *ctx)
{
    struct psi_io *io = ctx;
    bool more = true;
    while (more) {
        more = false;
        struct psi_link *link;
        while ((link = psi_client_next_dirty(io->client)) != NULL) {
            psi_conn_update(link->shell);
            more = true;
        }
        struct psi_client_effect effect;
        while (psi_client_next_effect(io->client, &effect)) {
            if (effect.kind == PSI_CLIENT_LOG) {
                io->log(io->log_ctx, effect.level, effect.event, effect.text);
            } else if (io->closing) {
                PSI_ASSERT(psi_client_dialed(io->client, effect.task, NULL, false, "the session is closing") == NULL);
            } else {
                dial(io, effect.task, effect.text);
            }
            more = true;
        }
        struct psi_request *req;
        while ((req = psi_client_next_done(io->client)) != NULL) {
            io->events++;
            io->ended = true;
            req->done(req);
            more = true;
        }
    }
    if (io->stop_asked != NULL && psi_client_stop_asked(io->client)) {
        io->stop_asked(io->log_ctx);
        io->stop_asked = NULL;
    }
    io->drained(io->log_ctx);
}

/* ---- own events ---- */

static void on_tick(uv_timer_t *timer)
{
    struct psi_io *io = timer->data;
    stamp(io);
    psi_client_tick(io->client, psi_io_now_ms());
    psi_net_settle(&io->net);
}

static void close_handles(struct psi_io *io)
{
    if (io->closing) {
        return;
    }
    io->closing = true;
    if (io->net_open) {
        psi_net_close(&io->net);
    }
    uv_close((uv_handle_t *)&io->tick, NULL);
    uv_close((uv_handle_t *)&io->wake, NULL);
    uv_close((uv_handle_t *)&io->limit, NULL);
}

/* Run all queued works; false: the queue was empty. */
static bool run_works(struct psi_io *io)
{
    struct psi_list works;
    psi_list_init(&works);
    (void)pthread_mutex_lock(&io->lock);
    psi_list_move_all(&works, &io->queue);
    bool none = psi_list_empty(&works);
    atomic_store(&io->asleep, none && !io->net.spin.on);
    (void)pthread_mutex_unlock(&io->lock);
    if (none) {
        return false;
    }
    stamp(io);
    psi_client_tick(io->client, psi_io_now_ms());
    psi_net_settle(&io->net);
    psi_spin_stir(&io->net.spin);
    uint32_t pending = psi_client_pending(io->client);
    struct psi_list *it;
    while ((it = psi_list_pop_front(&works)) != NULL) {
        io->events++;
        pending++;
        struct psi_io_work *work = PSI_CONTAINER_OF(it, struct psi_io_work, link);
        work->run(work, io->client);
    }
    psi_net_settle(&io->net);
    /* pending: requests before, plus one for each work. If fewer are under way, one has ended, or a work has started none */
    io->ended = io->ended || psi_client_pending(io->client) < pending;
    return true;
}

/* psi_net_ops.prepare: run the queued works before the loop sleeps. */
static void on_prepare(void *ctx)
{
    struct psi_io *io = ctx;
    io->ended = false;
    for (int i = 0; run_works(io); i++) {
        if (i == IO_WORKS_MAX) {
            /* run the other works after the sockets were served. Cannot fail: the handle is open */
            PSI_IGNORE(uv_async_send(&io->wake));
            break;
        }
    }
    if (io->by_caller && io->ended) {
        uv_stop(&io->loop); /* the caller waits for the request that has ended, so this turn must not sleep */
    }
}

static bool sigpipe_pending(void)
{
    sigset_t pending;
    (void)sigemptyset(&pending);
    return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

/* Block SIGPIPE on this thread, because a connection may raise it when it writes. */
static void on_holds(void *ctx)
{
    struct psi_io *io = ctx;
    struct io_turn *turn = io->turn;
    sigset_t pipe;
    if (turn == NULL || turn->blocked) {
        return; /* turn NULL: the session's own thread, which blocks all signals. blocked: done for an earlier connection */
    }
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &turn->before);
    turn->blocked = true;
    /* if SIGPIPE was not blocked before the turn, none can have been pending */
    turn->take = sigismember(&turn->before, SIGPIPE) == 0 || !sigpipe_pending();
}

static const struct psi_net_ops net_ops = {
    .bytes = on_bytes,
    .closed = on_link_closed,
    .writable = on_writable,
    .drain = drain,
    .prepare = on_prepare,
    .holds = on_holds,
};

static void on_wake(uv_async_t *async)
{
    struct psi_io *io = async->data;
    PSI_IGNORE(run_works(io)); /* on_prepare() runs works that are submitted meanwhile */
    if (io->poked(io->log_ctx, io->client)) {
        io->events++; /* ends a turn in progress; its thread then checks whether its call was interrupted */
        psi_net_settle(&io->net);
    }
    (void)pthread_mutex_lock(&io->lock);
    bool stop = io->stop;
    (void)pthread_mutex_unlock(&io->lock);
    if (stop) {
        close_handles(io);
    }
}

/* by_caller: between turns no thread sleeps in the loop, so a wake-up is needed only if the program waits for the descriptor. */
void psi_io_submit_all(struct psi_io *io, struct psi_list *works, bool waits)
{
    (void)pthread_mutex_lock(&io->lock);
    psi_list_move_all(&io->queue, works);
    bool sleeper = !io->by_caller || io->turning || (io->watched && !waits);
    if (sleeper && atomic_exchange(&io->asleep, false)) {
        PSI_IGNORE(uv_async_send(&io->wake)); /* fails for a closed handle only, and after psi_io_close() nothing is submitted */
    }
    (void)pthread_mutex_unlock(&io->lock);
}

void psi_io_poke(struct psi_io *io)
{
    PSI_IGNORE(uv_async_send(&io->wake)); /* cannot fail: the handle is open. uv_async_send() is safe in a signal handler */
}

void psi_io_submit(struct psi_io *io, struct psi_io_work *work)
{
    struct psi_list works;
    psi_list_init(&works);
    psi_list_push_back(&works, &work->link);
    psi_io_submit_all(io, &works, false);
}

/* ---- life ---- */

static void *io_main(void *arg)
{
    struct psi_io *io = arg;
    const struct io_running self = {.io = io};
    running = &self;
    PSI_IGNORE(uv_run(&io->loop, UV_RUN_DEFAULT)); /* returns when every handle is closed */
    return NULL;
}

static ps_status client_new(const struct psi_client_config *config, struct psi_client **out_client, struct psi_err *err)
{
    uint8_t random[PSI_CLIENT_RANDOM_BYTES];
    size_t have = 0;
    while (have < sizeof(random)) {
        ssize_t n = getrandom(random + have, sizeof(random) - have, 0);
        if (n < 0 && errno != EINTR) {
            return psi_fail(err, PS_INTERNAL, "getrandom: %s", strerror(errno));
        }
        have += n > 0 ? (size_t)n : 0;
    }
    return psi_client_new(config, random, psi_io_now_ms(), out_client, err);
}

static ps_status loop_init(struct psi_io *io, struct psi_err *err)
{
    psi_net_keep_stdio();
    ps_status st = psi_net_loop_init(&io->loop, 1, err); /* 1: a connection's descriptor */
    if (st != PS_OK) {
        return st;
    }
    int rc = uv_async_init(&io->loop, &io->wake, on_wake);
    if (rc != 0) {
        PSI_IGNORE(uv_loop_close(&io->loop)); /* cannot fail: the loop has no handle */
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no descriptor to wake the loop: %s", uv_strerror(rc));
    }
    PSI_IGNORE(uv_timer_init(&io->loop, &io->tick));  /* always 0 */
    PSI_IGNORE(uv_timer_init(&io->loop, &io->limit)); /* always 0 */
    psi_fds_note_loop(&io->loop);
    io->wake.data = io;
    io->tick.data = io;
    PSI_IGNORE(uv_timer_start(&io->tick, on_tick, IO_TICK_MS, IO_TICK_MS)); /* fails only without a callback */
    return PS_OK;
}

/* Free io, also if it is only partly made; its thread is not running. */
static void io_free(struct psi_io *io)
{
    if (io->loop_open) {
        close_handles(io);
        PSI_IGNORE(uv_run(&io->loop, UV_RUN_DEFAULT)); /* until no handle is open */
        psi_fds_drop_loop(&io->loop);
        PSI_ASSERT(uv_loop_close(&io->loop) == 0);
    }
    if (io->net_open) {
        psi_net_fini(&io->net);
    }
    if (io->client != NULL) {
        psi_client_free(io->client);
    }
    psi_list_move_all(&io->spare_dials, &io->dials); /* psi_net_close() has cancelled the dials */
    struct psi_list *it;
    while ((it = psi_list_pop_front(&io->spare_dials)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct io_dial, link));
    }
    (void)pthread_mutex_destroy(&io->lock);
    psi_free(io);
}

/* Block all signals in the thread: SIGPIPE would end the program, and other signals belong to the program's own threads. */
static int thread_start(struct psi_io *io)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc != 0) {
        return rc;
    }
    rc = pthread_create(&io->thread, NULL, io_main, io);
    if (rc == 0) {
        (void)pthread_setname_np(io->thread, "ps-io"); /* the name is shown by top(1) */
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static const char *uri_of(void *shell)
{
    const struct psi_identity *who = psi_conn_identity(shell);
    return who->kind == PSI_IDENTITY_CERT ? who->name : "";
}

static bool refused_by(void *shell)
{
    return psi_conn_is_refused(shell);
}

ps_status psi_io_open(const struct psi_io_config *config, struct psi_io **out_io, struct psi_err *err)
{
    struct psi_io *io = psi_calloc(1, sizeof(*io));
    if (io == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    }
    io->log = config->log;
    io->log_ctx = config->log_ctx;
    io->by_caller = config->by_caller;
    io->turned_ms = psi_io_now_ms();
    io->stop_asked = config->stop;
    io->poked = config->poked;
    io->drained = config->drained;
    psi_list_init(&io->queue);
    psi_list_init(&io->dials);
    psi_list_init(&io->spare_dials);
    (void)pthread_mutex_init(&io->lock, NULL);
    atomic_init(&io->asleep, true);
    struct psi_client_config client = config->client;
    client.uri = uri_of;
    client.refused = refused_by;
    ps_status st = client_new(&client, &io->client, err);
    if (st == PS_OK) {
        st = loop_init(io, err);
        io->loop_open = st == PS_OK;
    }
    if (st == PS_OK) {
        st = psi_net_init(&io->net, &io->loop, &net_ops, io, err);
        io->net_open = st == PS_OK;
    }
    io->tls = config->tls;
    io->tls_ctx = config->tls_ctx;
    if (st == PS_OK) {
        st = take_tls(io, err);
    }
    if (st == PS_OK) {
        psi_spin_set(&io->net.spin, config->spin_us);
        if (io->by_caller) {
            psi_net_share(&io->net);
        }
    }
    if (st == PS_OK && !io->by_caller) {
        int rc = thread_start(io);
        st = rc == 0 ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no thread for the session: %s", strerror(rc));
    }
    if (st != PS_OK) {
        io_free(io);
        return st;
    }
    *out_io = io;
    return PS_OK;
}

/* ---- by the caller ---- */

static void turn_begin(struct psi_io *io, struct io_turn *turn)
{
    *turn = (struct io_turn){.self = {.io = io, .outer = running}};
    running = &turn->self;
    io->turn = turn;
    psi_net_enter(&io->net);
    if (io->net.holds > 0) {
        on_holds(io);
    }
    (void)pthread_mutex_lock(&io->lock);
    io->turning = true;
    (void)pthread_mutex_unlock(&io->lock);
}

static void turn_end(struct psi_io *io, const struct io_turn *turn)
{
    if (turn->blocked && turn->take && sigpipe_pending()) {
        const struct timespec none = {0};
        sigset_t pipe;
        (void)sigemptyset(&pipe);
        (void)sigaddset(&pipe, SIGPIPE);
        while (sigtimedwait(&pipe, NULL, &none) < 0 && errno == EINTR) {
        }
    }
    if (turn->blocked) {
        (void)pthread_sigmask(SIG_SETMASK, &turn->before, NULL);
    }
    psi_net_leave(&io->net);
    io->turn = NULL;
    running = turn->self.outer;
}

/* End a turn. If the program waits for psi_io_fd() between turns, works make the descriptor readable: those that are queued now
 * do so at once, later ones when psi_io_submit_all() queues them. */
static void turn_over(struct psi_io *io)
{
    (void)pthread_mutex_lock(&io->lock);
    io->turning = false;
    bool left = !psi_list_empty(&io->queue);
    atomic_store(&io->asleep, !left);
    if (left && io->watched) {
        PSI_IGNORE(uv_async_send(&io->wake)); /* cannot fail: the handle is open until psi_io_close() */
    }
    (void)pthread_mutex_unlock(&io->lock);
}

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
}

/* Log a warning if psi_io_turn() was not called for PS_LEASE_MS: tasks may have dropped the session, which the core then
 * resumes. */
static void note_late(struct psi_io *io, uint64_t now_ms)
{
    if (now_ms - io->turned_ms > PS_LEASE_MS) {
        char fields[160];
        (void)snprintf(fields, sizeof(fields), "ms=%llu lease_ms=%d msg=\"call ps_progress_run() more often\"",
                       (unsigned long long)(now_ms - io->turned_ms), PS_LEASE_MS);
        io->log(io->log_ctx, PSI_LOG_WARN, "progress_late", fields);
    }
}

void psi_io_turn(struct psi_io *io, int64_t timeout_ms)
{
    struct io_turn turn;
    uint64_t now = psi_io_now_ms();
    uint64_t seen = io->events;
    turn_begin(io, &turn);
    note_late(io, now);
    if (timeout_ms > 0) {
        uint64_t end = (uint64_t)timeout_ms > UINT64_MAX / 2 ? UINT64_MAX : now + (uint64_t)timeout_ms;
        psi_spin_go_on(&io->net.spin);
        uv_update_time(&io->loop);
        PSI_IGNORE(uv_timer_start(&io->limit, on_limit, (uint64_t)timeout_ms, 0)); /* fails only without a callback */
        do {
            PSI_IGNORE(uv_run(&io->loop, UV_RUN_ONCE)); /* no check: the result says only that handles are open */
        } while (io->events == seen && psi_io_now_ms() < end);
        PSI_IGNORE(uv_timer_stop(&io->limit)); /* always 0 */
        io->unsettled = true;
    } else {
        for (int i = 0; i < IO_SETTLE_MAX && (i == 0 || io->events != seen); i++) {
            seen = io->events;
            PSI_IGNORE(uv_run(&io->loop, UV_RUN_NOWAIT));
        }
        io->unsettled = io->events != seen;
    }
    psi_spin_rest(&io->net.spin);
    io->turned_ms = psi_io_now_ms();
    turn_over(io);
    turn_end(io, &turn);
}

int psi_io_fd(struct psi_io *io)
{
    (void)pthread_mutex_lock(&io->lock);
    io->watched = true;
    if (!psi_list_empty(&io->queue)) {
        PSI_IGNORE(uv_async_send(&io->wake)); /* fails only for closing handles */
    }
    (void)pthread_mutex_unlock(&io->lock);
    return uv_backend_fd(&io->loop);
}

int64_t psi_io_due_ms(struct psi_io *io)
{
    (void)pthread_mutex_lock(&io->lock);
    bool left = !psi_list_empty(&io->queue);
    (void)pthread_mutex_unlock(&io->lock);
    if (io->unsettled || left) {
        return 0;
    }
    uv_update_time(&io->loop);
    int timeout = uv_backend_timeout(&io->loop);
    return timeout >= 0 && timeout < IO_TICK_MS ? timeout : IO_TICK_MS;
}

void psi_io_close(struct psi_io *io)
{
    if (io == NULL) {
        return;
    }
    if (io->by_caller) {
        struct io_turn turn;
        turn_begin(io, &turn);
        PSI_ASSERT(psi_list_empty(&io->queue));
        close_handles(io);
        PSI_IGNORE(uv_run(&io->loop, UV_RUN_DEFAULT)); /* until the handles are closed */
        turn_end(io, &turn);
        io_free(io);
        return;
    }
    (void)pthread_mutex_lock(&io->lock);
    io->stop = true;
    PSI_IGNORE(uv_async_send(&io->wake)); /* cannot fail: only this function closes the handle */
    (void)pthread_mutex_unlock(&io->lock);
    PSI_ASSERT(pthread_join(io->thread, NULL) == 0);
    PSI_ASSERT(psi_list_empty(&io->queue));
    io_free(io);
}

void psi_io_after_fork_child(void)
{
    psi_fds_after_fork_child();
}
