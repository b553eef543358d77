/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a connection.
 *
 * Happy path: psi_dial_start() sets a timer, which fires at once. A host name goes to a look-up thread, whose result comes back
 * through the mailbox. Each address gets a socket and a non-blocking connect(), until one succeeds: psi_conn_new() -> done().
 *
 * Failure modes:
 *   no address answers  -> done() gets the reason of the last attempt, and the number of attempts
 *   TCP has connected the socket with itself (nobody listens on the port, and the system chose it for this end) -> refused
 *   time is over        -> done(); a look-up that still runs ends by itself, and its result is dropped
 *   the net is closed   -> done() is never called; the mailbox is freed when the last look-up has returned
 *   look-ups hang       -> at most LOOKUPS_MAX run at a time in a process; a further dial fails, and done() says so */
#include "dial.h"

#include "../mem.h"
#include "addr.h"
#include "fds.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LOOKUPS_MAX = 32,
    LOOKUP_STACK_BYTES = 512 << 10, /* enough for name service modules */
    ATTEMPT_MS_MIN = 250
};

struct psi_dial {
    struct psi_net *net;
    struct psi_list link; /* link in net->dials, until the dial's handles are closed */
    struct psi_address address;
    struct psi_sockaddr addresses[PSI_RESOLVE_MAX];
    size_t count, next;
    uint32_t timeout_ms;
    uint64_t deadline_ms;
    bool over; /* the caller's done() was called, or will never be called because the dial was cancelled */
    bool started;
    bool polling;
    bool named; /* the address has a host name: error texts then add the numeric address */
    int fd;     /* socket that is connecting; -1: no socket */
    unsigned open_handles;
    struct lookup *lookup; /* the look-up that runs; NULL: no look-up runs */
    uv_timer_t timer;
    uv_poll_t poll;
    psi_dial_done done;
    void *ctx;
    char expect[PSI_IDENTITY_BYTES_MAX + 1]; /* expected URI of the server's certificate; "": any task's */
    char last[PSI_ERR_TEXT_MAX];             /* why the last attempt failed */
};

struct lookup {
    struct psi_list link; /* in mailbox->finished */
    struct psi_net_mailbox *mailbox;
    struct psi_dial *dial; /* used on the loop thread only; NULL: nobody waits for the result any more */
    struct psi_address address;
    struct psi_sockaddr results[PSI_RESOLVE_MAX];
    size_t count;
    struct psi_err err;
};

/* Where look-up threads leave their results for the loop; freed by its last user. */
struct psi_net_mailbox {
    pthread_mutex_t mutex;
    unsigned refs;            /* under mutex: 1 for the net, and 1 for each running look-up */
    bool open;                /* under mutex: look-up threads may signal `async` */
    struct psi_list finished; /* look-ups that have returned; under mutex */
    uv_async_t async;         /* wakes the loop; closed before the net gives up its reference */
};

static atomic_int lookups_running;

static void attempt(struct psi_dial *dial);

static void mailbox_unref(struct psi_net_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    bool last = --box->refs == 0;
    pthread_mutex_unlock(&box->mutex);
    if (last) {
        pthread_mutex_destroy(&box->mutex);
        psi_free(box);
    }
}

static void *lookup_thread(void *arg)
{
    struct lookup *lookup = arg;
    struct psi_net_mailbox *box = lookup->mailbox;
    PSI_IGNORE(psi_resolve(&lookup->address, lookup->results, &lookup->count, &lookup->err)); /* the status is in err */
    atomic_fetch_sub(&lookups_running, 1);
    pthread_mutex_lock(&box->mutex);
    bool wanted = box->open;
    if (wanted) {
        psi_list_push_back(&box->finished, &lookup->link);
        PSI_IGNORE(uv_async_send(&box->async)); /* fails only for closed handles */
    }
    pthread_mutex_unlock(&box->mutex);
    if (!wanted) {
        psi_free(lookup);
    }
    mailbox_unref(box);
    return NULL;
}

static void lookup_done(struct psi_dial *dial, struct lookup *lookup)
{
    dial->lookup = NULL;
    if (dial->over) {
        return;
    }
    dial->count = lookup->count;
    dial->named = true;
    memcpy(dial->addresses, lookup->results, sizeof(dial->addresses));
    if (dial->count == 0) {
        (void)snprintf(dial->last, sizeof(dial->last), "%s", lookup->err.text);
    }
    attempt(dial);
}

static void on_mail(uv_async_t *handle)
{
    struct psi_net *net = handle->data;
    struct psi_net_mailbox *box = net->mailbox;
    struct psi_list now;
    struct psi_list *it;
    psi_list_init(&now);
    pthread_mutex_lock(&box->mutex);
    psi_list_move_all(&now, &box->finished);
    pthread_mutex_unlock(&box->mutex);
    while ((it = psi_list_pop_front(&now)) != NULL) {
        struct lookup *lookup = PSI_CONTAINER_OF(it, struct lookup, link);
        if (lookup->dial != NULL) {
            lookup_done(lookup->dial, lookup);
        }
        psi_free(lookup);
    }
}

static void on_async_closed(uv_handle_t *handle)
{
    struct psi_net_mailbox *box = PSI_CONTAINER_OF(handle, struct psi_net_mailbox, async);
    mailbox_unref(box);
}

static bool mailbox_open(struct psi_net *net)
{
    if (net->mailbox != NULL) {
        return true;
    }
    struct psi_net_mailbox *box = psi_calloc(1, sizeof(*box));
    if (box == NULL) {
        return false;
    }
    if (uv_async_init(net->loop, &box->async, on_mail) != 0) {
        psi_free(box);
        return false;
    }
    pthread_mutex_init(&box->mutex, NULL);
    psi_list_init(&box->finished);
    box->refs = 1; /* the net's reference, given up when `async` is closed */
    box->open = true;
    box->async.data = net;
    uv_unref((uv_handle_t *)&box->async);
    net->mailbox = box;
    return true;
}

bool psi_lookup_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attr) != 0) {
        return false;
    }
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, LOOKUP_STACK_BYTES);
    sigfillset(&all); /* block all signals: they are for the program's own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, &attr, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0;
}

/* Start a thread that looks up the host name. PS_OK: lookup_done() follows, unless the dial ends or the net closes before. */
static ps_status lookup_start(struct psi_dial *dial, struct psi_err *err)
{
    if (atomic_fetch_add(&lookups_running, 1) >= LOOKUPS_MAX) {
        atomic_fetch_sub(&lookups_running, 1);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%d name look-ups are running: the name server does not answer", LOOKUPS_MAX);
    }
    struct lookup *lookup = psi_calloc(1, sizeof(*lookup));
    if (lookup == NULL || !mailbox_open(dial->net)) {
        goto fail;
    }
    psi_list_init(&lookup->link);
    lookup->mailbox = dial->net->mailbox;
    lookup->dial = dial;
    lookup->address = dial->address;
    pthread_mutex_lock(&lookup->mailbox->mutex);
    lookup->mailbox->refs++;
    pthread_mutex_unlock(&lookup->mailbox->mutex);
    if (!psi_lookup_thread(lookup_thread, lookup)) {
        mailbox_unref(lookup->mailbox);
        goto fail;
    }
    dial->lookup = lookup;
    return PS_OK;
fail:
    atomic_fetch_sub(&lookups_running, 1);
    psi_free(lookup);
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory or thread for a name look-up");
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct psi_dial *dial = handle->data;
    if (--dial->open_handles == 0) {
        psi_list_remove(&dial->link);
        psi_free(dial);
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct psi_dial *dial = handle->data;
    dial->polling = false;
    if (!dial->over) {
        attempt(dial);
    }
    on_handle_closed(handle);
}

static void close_socket(struct psi_dial *dial)
{
    psi_fds_drop(dial->fd);
    PSI_IGNORE(close(dial->fd));
    dial->fd = -1;
}

/* End the dial: close its handles. The close callback of the last handle frees the dial. A running look-up ends by itself. */
static void wind_up(struct psi_dial *dial)
{
    dial->over = true;
    if (dial->lookup != NULL) {
        dial->lookup->dial = NULL;
        dial->lookup = NULL;
    }
    if (dial->polling && !uv_is_closing((uv_handle_t *)&dial->poll)) {
        uv_close((uv_handle_t *)&dial->poll, on_poll_closed);
    }
    if (dial->fd >= 0) {
        close_socket(dial);
    }
    uv_close((uv_handle_t *)&dial->timer, on_handle_closed);
}

static void report(struct psi_dial *dial, struct psi_conn *conn, const char *why)
{
    struct psi_net *net = dial->net;
    wind_up(dial);
    dial->done(dial->ctx, conn, why);
    psi_net_settle(net);
}

enum end { END_UNREACHABLE, END_TIME };

static void fail(struct psi_dial *dial, enum end end)
{
    char why[PSI_ERR_TEXT_MAX];
    const char *last = dial->last[0] != '\0' ? dial->last : "no answer";
    if (end == END_TIME) {
        (void)snprintf(why, sizeof(why), "not reached within %u ms: %s", dial->timeout_ms,
                       dial->lookup != NULL ? "the name look-up has not ended" : last);
    } else if (dial->next > 1) {
        (void)snprintf(why, sizeof(why), "none of %zu addresses can be reached, the last: %s", dial->next, last);
    } else {
        (void)snprintf(why, sizeof(why), "%s", last);
    }
    report(dial, NULL, why);
}

static void succeed(struct psi_dial *dial)
{
    struct psi_conn *conn = NULL;
    struct psi_err why = {.code = PS_OK};
    int fd = dial->fd;
    psi_fds_drop(fd); /* psi_conn_new() registers fd again (fds.h), or closes it */
    dial->fd = -1;
    if (dial->polling) { /* libuv stops watching the descriptor at once; the handle is freed later */
        uv_close((uv_handle_t *)&dial->poll, on_poll_closed);
    }
    const char *expect = dial->expect[0] != '\0' ? dial->expect : NULL;
    PSI_IGNORE(psi_conn_new(dial->net, fd, PSI_SIDE_DIAL, expect, &conn, &why)); /* conn stays NULL on failure */
    report(dial, conn, conn != NULL ? NULL : why.text);
}

static void attempt_failed(struct psi_dial *dial, int error)
{
    char where[PS_ADDRESS_BYTES_MAX + 1];
    if (dial->named) {
        (void)snprintf(dial->last, sizeof(dial->last), "%s: %s",
                       psi_sockaddr_format(&dial->addresses[dial->next - 1], where, sizeof(where)), strerror(error));
    } else {
        (void)snprintf(dial->last, sizeof(dial->last), "%s", strerror(error));
    }
    if (dial->fd >= 0) {
        if (dial->polling) {
            PSI_IGNORE(uv_poll_stop(&dial->poll));
        }
        close_socket(dial);
    }
}

/* Returns 0 if fd is connected with another socket, ECONNREFUSED if with itself, which TCP may do if nobody listens on the port.
 * The caller then closes fd; SO_LINGER makes the system free the port at once, not after 60 s. */
static int check_peer(int fd)
{
    static const struct linger at_once = {.l_onoff = 1};
    struct psi_sockaddr local, peer = {.len = sizeof(peer.u)};
    bool same = psi_sockaddr_of_socket(fd, &local) && local.u.any.sa_family != AF_UNIX &&
                getpeername(fd, &peer.u.any, &peer.len) == 0 && psi_sockaddr_equal(&local, &peer);
    if (same) {
        PSI_IGNORE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)));
    }
    return same ? ECONNREFUSED : 0;
}

static void on_connected(uv_poll_t *handle, int status, int events)
{
    struct psi_dial *dial = handle->data;
    (void)events;
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
        error = errno;
    } else if (error == 0 && status < 0) { /* libuv reports EBADF for any failure; getsockopt()'s error says more */
        error = -status;
    }
    error = error == 0 ? check_peer(dial->fd) : error;
    if (error == 0) {
        succeed(dial);
        return;
    }
    attempt_failed(dial, error);
    uv_close((uv_handle_t *)handle, on_poll_closed); /* on_poll_closed() tries the next address */
}

/* Limit the present attempt to connect to 1/shares of the dial's time left, but give it ATTEMPT_MS_MIN if so much is left. */
static void arm(struct psi_dial *dial, size_t shares)
{
    uint64_t now = uv_now(dial->net->loop);
    uint64_t left = dial->deadline_ms > now ? dial->deadline_ms - now : 0;
    uint64_t share = left / (shares > 0 ? shares : 1);
    if (share < ATTEMPT_MS_MIN) {
        share = left < ATTEMPT_MS_MIN ? left : ATTEMPT_MS_MIN;
    }
    PSI_IGNORE(uv_timer_start(&dial->timer, dial->timer.timer_cb, share, 0));
}

/* Returns 0: connected; EINPROGRESS: the peer has not answered yet; any other errno: failed. */
static int connect_start(struct psi_dial *dial, const struct psi_sockaddr *to)
{
    dial->fd = socket(to->u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->fd < 0) {
        return errno;
    }
    psi_fds_note(dial->fd);
    /* SO_REUSEADDR, so that a program can later listen on the port that the system chooses for this end */
    if (to->u.any.sa_family != AF_UNIX) {
        static const int one = 1;
        PSI_IGNORE(setsockopt(dial->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
    }
    if (connect(dial->fd, &to->u.any, to->len) != 0) {
        return errno == EINTR ? EINPROGRESS : errno;
    }
    return check_peer(dial->fd);
}

static void attempt(struct psi_dial *dial)
{
    while (dial->next < dial->count) {
        const struct psi_sockaddr *to = &dial->addresses[dial->next++];
        int error = connect_start(dial, to);
        if (error == 0) {
            succeed(dial);
            return;
        }
        if (error == EINPROGRESS) {
            int rc = uv_poll_init(dial->net->loop, &dial->poll, dial->fd);
            if (rc == 0) {
                dial->poll.data = dial;
                dial->polling = true;
                dial->open_handles++;
                PSI_IGNORE(uv_poll_start(&dial->poll, UV_WRITABLE, on_connected)); /* cannot fail for an open handle */
                arm(dial, dial->count - dial->next + 1);
                return;
            }
            error = -rc;
        }
        attempt_failed(dial, error);
    }
    fail(dial, END_UNREACHABLE);
}

static void on_timer(uv_timer_t *handle)
{
    struct psi_dial *dial = handle->data;
    if (!dial->started) {
        dial->started = true;
        struct psi_err err = {.code = PS_OK};
        if (psi_sockaddr_literal(&dial->address, &dial->addresses[0])) {
            dial->count = 1;
            attempt(dial);
        } else if (lookup_start(dial, &err) == PS_OK) {
            arm(dial, 1);
        } else {
            (void)snprintf(dial->last, sizeof(dial->last), "%s", err.text);
            fail(dial, END_UNREACHABLE);
        }
    } else if (dial->polling && dial->fd >= 0 && dial->next < dial->count && uv_now(dial->net->loop) < dial->deadline_ms) {
        attempt_failed(dial, ETIMEDOUT);
        uv_close((uv_handle_t *)&dial->poll, on_poll_closed); /* on_poll_closed() tries the next address */
    } else {
        fail(dial, END_TIME);
    }
}

ps_status psi_dial_start(struct psi_net *net, const char *address, uint32_t timeout_ms, const char *expect, psi_dial_done done,
                         void *ctx, struct psi_dial **out_dial, struct psi_err *err)
{
    struct psi_dial *dial = psi_calloc(1, sizeof(*dial));
    if (dial == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a connection to %s", address);
    }
    ps_status st = psi_address_parse(address, false, &dial->address, err);
    if (st != PS_OK) {
        psi_free(dial);
        return st;
    }
    if (expect != NULL && strlen(expect) > PSI_IDENTITY_BYTES_MAX) {
        psi_free(dial);
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s': a URI has at most %d bytes", expect, PSI_IDENTITY_BYTES_MAX);
    }
    dial->net = net;
    dial->fd = -1;
    dial->done = done;
    dial->ctx = ctx;
    dial->timeout_ms = timeout_ms;
    (void)snprintf(dial->expect, sizeof(dial->expect), "%s", expect != NULL ? expect : "");
    uv_update_time(net->loop); /* uv_now() may be old, and the deadline counts from now */
    dial->deadline_ms = uv_now(net->loop) + timeout_ms;
    PSI_IGNORE(uv_timer_init(net->loop, &dial->timer)); /* always 0 */
    dial->timer.data = dial;
    dial->open_handles = 1;
    psi_list_init(&dial->link);
    psi_list_push_back(&net->dials, &dial->link);
    PSI_IGNORE(uv_timer_start(&dial->timer, on_timer, 0, 0)); /* fails for closing handles only */
    if (out_dial != NULL) {
        *out_dial = dial;
    }
    return PS_OK;
}

void psi_dial_cancel(struct psi_dial *dial)
{
    if (!dial->over) {
        wind_up(dial);
    }
}

void psi_dial_close_all(struct psi_net *net)
{
    struct psi_list *it;
    PSI_LIST_FOREACH(it, &net->dials) {
        psi_dial_cancel(PSI_CONTAINER_OF(it, struct psi_dial, link));
    }
    struct psi_net_mailbox *box = net->mailbox;
    if (box == NULL) {
        return;
    }
    pthread_mutex_lock(&box->mutex);
    box->open = false;
    while ((it = psi_list_pop_front(&box->finished)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct lookup, link));
    }
    pthread_mutex_unlock(&box->mutex);
    net->mailbox = NULL;
    uv_close((uv_handle_t *)&box->async, on_async_closed);
}
