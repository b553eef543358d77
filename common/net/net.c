/* SPDX-License-Identifier: Apache-2.0 */
/* What the connections of one loop share. Happy path: the core gets an event of a connection; then psi_net_settle() calls
 * ops->drain(), in which the core sends. Sending may make new events (room in a queue, a broken connection). They are delivered
 * one at a time, each followed by ops->drain(), until there are none. In a turn of the loop the connections share a limit for
 * reading, and one for writing (PSI_NET_TURN_BYTES); if more is left to do, the next turn begins at once. Failure modes: none. */
#include "net.h"

#include "../mem.h"
#include "conn.h"
#include "dial.h"
#include "tls/stream.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void psi_net_keep_stdio(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= STDERR_FILENO) {
        /* open() gives the lowest free number, so 0 to 2 become open; without O_CLOEXEC, also for programs started later */
        fd = open("/dev/null", O_RDWR);
    }
    if (fd > STDERR_FILENO) {
        PSI_IGNORE(close(fd));
    }
}

ps_status psi_net_files_check(uint32_t count, struct psi_err *err)
{
    struct rlimit limit;
    rlim_t needed = 0; /* becomes 1 + the highest of the `count` lowest free descriptor numbers */
    for (uint32_t found = 0; found < count && needed < INT_MAX; needed++) {
        found += fcntl((int)needed, F_GETFD) < 0 ? 1 : 0;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) {
        return PS_OK;
    }
    return psi_fail(err, PS_RESOURCE_EXHAUSTED,
                    "%llu files may be open and %llu are needed: raise the limit (ulimit -n, or LimitNOFILE= of a unit)",
                    (unsigned long long)limit.rlim_cur, (unsigned long long)needed);
}

static atomic_bool first_loop_was_made;

uint32_t psi_net_loop_files(void)
{
    return PSI_NET_LOOP_FILES + (atomic_load(&first_loop_was_made) ? 0 : PSI_NET_FIRST_LOOP_FILES);
}

ps_status psi_net_loop_init(uv_loop_t *loop, uint32_t further_files, struct psi_err *err)
{
    ps_status st = psi_net_files_check(psi_net_loop_files() + further_files, err);
    int rc = st == PS_OK ? uv_loop_init(loop) : 0;
    if (rc != 0) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s", uv_strerror(rc));
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "no event loop");
        return st;
    }
    atomic_store(&first_loop_was_made, true);
    return PS_OK;
}

static _Atomic(uint8_t *) shared; /* the scratch that nets share for reading; NULL: none was made, or a net uses it now */
static atomic_uint sharers;

static uint8_t *scratch_new(void)
{
    return psi_aligned_malloc(64, PSI_NET_SCRATCH_BYTES + 64);
}

void psi_net_share(struct psi_net *net)
{
    uint8_t *none = NULL;
    if (atomic_fetch_add(&sharers, 1) == 0) {
        uint8_t *scratch = scratch_new(); /* NULL: no memory, so each net uses a scratch of its own */
        if (!atomic_compare_exchange_strong(&shared, &none, scratch)) {
            psi_free(scratch);
        }
    }
    net->shares = true;
}

void psi_net_enter(struct psi_net *net)
{
    uint8_t *scratch = net->shares ? atomic_exchange(&shared, NULL) : NULL;
    net->scratch = scratch != NULL ? scratch : net->own_scratch;
}

void psi_net_leave(struct psi_net *net)
{
    if (net->scratch != net->own_scratch) {
        atomic_store(&shared, net->scratch);
        net->scratch = net->own_scratch;
    }
}

static void on_check(uv_check_t *handle)
{
    struct psi_net *net = handle->data;
    net->turn++;
    net->busy = net->busy_now;
    net->busy_now = 0;
}

static void on_prepare(uv_prepare_t *handle)
{
    struct psi_net *net = handle->data;
    psi_spin_look(&net->spin);
    if (net->ops->prepare != NULL) {
        net->ops->prepare(net->ctx);
    }
    psi_spin_anew(&net->spin);
}

static void on_idle(uv_idle_t *handle)
{
    struct psi_net *net = handle->data;
    struct psi_list now;
    struct psi_list *it;
    psi_list_init(&now);
    psi_list_move_all(&now, &net->again); /* a connection that has still more to do is put into net->again for the next turn */
    while ((it = psi_list_pop_front(&now)) != NULL) {
        psi_conn_resume(PSI_CONTAINER_OF(it, struct psi_conn, again));
        psi_net_settle(net);
    }
    if (psi_list_empty(&net->again) && !net->closing) {
        PSI_IGNORE(uv_idle_stop(handle)); /* always 0 */
    }
}

static void on_linger(uv_timer_t *handle)
{
    struct psi_net *net = handle->data;
    struct psi_list *it;
    while ((it = psi_list_first(&net->lingers)) != NULL) {
        struct psi_conn *conn = PSI_CONTAINER_OF(it, struct psi_conn, linger);
        if (conn->deadline_ms > uv_now(net->loop)) {
            break;
        }
        psi_conn_expire(conn);
        psi_net_settle(net);
    }
    psi_net_arm_linger(net);
}

ps_status psi_net_init(struct psi_net *net, uv_loop_t *loop, const struct psi_net_ops *ops, void *ctx, struct psi_err *err)
{
    memset(net, 0, sizeof(*net));
    net->scratch = scratch_new();
    if (net->scratch == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the read scratch");
    }
    net->own_scratch = net->scratch;
    net->loop = loop;
    net->ops = ops;
    net->ctx = ctx;
    psi_list_init(&net->conns);
    psi_list_init(&net->events);
    psi_list_init(&net->again);
    psi_list_init(&net->lingers);
    psi_list_init(&net->dials);
    /* These calls cannot fail: the handles open no descriptor (libuv 1.44). */
    PSI_IGNORE(uv_check_init(loop, &net->check));
    PSI_IGNORE(uv_idle_init(loop, &net->idle));
    PSI_IGNORE(uv_timer_init(loop, &net->linger_timer));
    PSI_IGNORE(uv_prepare_init(loop, &net->prepare));
    psi_spin_init(&net->spin, loop);
    net->check.data = net;
    net->prepare.data = net;
    net->idle.data = net;
    net->linger_timer.data = net;
    PSI_IGNORE(uv_check_start(&net->check, on_check));
    PSI_IGNORE(uv_prepare_start(&net->prepare, on_prepare));
    uv_unref((uv_handle_t *)&net->check);
    uv_unref((uv_handle_t *)&net->prepare);
    uv_unref((uv_handle_t *)&net->linger_timer);
    return PS_OK;
}

ps_status psi_net_set_tls(struct psi_net *net, struct psi_tls *tls, bool crc, struct psi_err *err)
{
    if (tls != NULL && net->tls_loop == NULL) {
        net->tls_loop = psi_tls_loop_new(&net->turn, &net->tls);
        if (net->tls_loop == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the buffers of TLS");
        }
    }
    struct psi_tls *before = net->tls;
    net->tls = tls != NULL ? psi_tls_ref(tls) : NULL;
    net->tls_crc = crc;
    psi_tls_unref(before);
    return PS_OK;
}

void psi_net_handshakes(const struct psi_net *net, struct psi_handshakes *out)
{
    psi_tls_loop_handshakes(net->tls_loop, out);
}

size_t psi_net_recheck(struct psi_net *net)
{
    struct psi_list *it;
    struct psi_list *tmp;
    size_t count = 0;
    PSI_LIST_FOREACH_SAFE(it, tmp, &net->conns) { /* the list shrinks only in close callbacks, not in this loop */
        char why[128];
        char text[PSI_ERR_TEXT_MAX];
        struct psi_conn *conn = PSI_CONTAINER_OF(it, struct psi_conn, all);
        if (conn->state == PSI_CONN_CLOSED) {
            continue;
        }
        /* a closing connection (LINGERING) stays: it ends soon, and what arrives on it is discarded */
        const bool stays = conn->state == PSI_CONN_LINGERING || psi_conn_allowed(conn, net->tls, why, sizeof(why));
        if (!stays && net->ops->refused != NULL) {
            net->ops->refused(net->ctx, conn->peer, PSI_TLS_REVOKED, why);
        }
        if (!stays && conn->state == PSI_CONN_OPEN && conn->side == PSI_SIDE_ACCEPT && net->ops->revoked != NULL) {
            net->ops->revoked(net->ctx, conn->link, why);
        } else if (!stays) {
            (void)snprintf(text, sizeof(text), "revoked: %s", why);
            psi_conn_revoke(conn, text);
        }
        if (conn->transport.stream != NULL && conn->state != PSI_CONN_CLOSED) {
            psi_tls_stream_move(&conn->transport, net->tls); /* drops the old context, with the secrets of removed key lines */
        }
        if (!stays) {
            psi_net_settle(net);
            count++;
        }
    }
    return count;
}

void psi_net_settle(struct psi_net *net)
{
    PSI_ASSERT(!net->settling);
    net->settling = true;
    for (;;) {
        net->ops->drain(net->ctx);
        struct psi_list *it = psi_list_pop_front(&net->events);
        if (it == NULL) {
            break;
        }
        psi_conn_deliver(PSI_CONTAINER_OF(it, struct psi_conn, events));
    }
    net->settling = false;
}

void psi_net_arm_linger(struct psi_net *net)
{
    struct psi_list *it = psi_list_first(&net->lingers);
    if (it == NULL || net->closing) {
        return;
    }
    const struct psi_conn *conn = PSI_CONTAINER_OF(it, struct psi_conn, linger);
    uint64_t now = uv_now(net->loop);
    PSI_IGNORE(uv_timer_start(&net->linger_timer, on_linger, conn->deadline_ms > now ? conn->deadline_ms - now : 0, 0));
}

void psi_net_arm_again(struct psi_net *net)
{
    if (!net->closing) {
        PSI_IGNORE(uv_idle_start(&net->idle, on_idle));
    }
}

void psi_net_note_sent(struct psi_net *net)
{
    struct psi_list *it;
    if (net->holds == 0) {
        return;
    }
    PSI_LIST_FOREACH(it, &net->conns) {
        psi_conn_note_sent(PSI_CONTAINER_OF(it, struct psi_conn, all));
    }
}

bool psi_net_sent_all(const struct psi_net *net)
{
    struct psi_list *it;
    PSI_LIST_FOREACH(it, &net->conns) {
        if (psi_conn_sending(PSI_CONTAINER_OF(it, struct psi_conn, all))) {
            return false;
        }
    }
    return true;
}

void psi_net_finish(struct psi_net *net)
{
    struct psi_list *it;
    struct psi_list *tmp;
    PSI_LIST_FOREACH_SAFE(it, tmp, &net->conns) { /* the list shrinks only in close callbacks, not in this loop */
        psi_conn_finish(PSI_CONTAINER_OF(it, struct psi_conn, all));
        psi_net_settle(net);
    }
}

void psi_net_close(struct psi_net *net)
{
    struct psi_list *it;
    struct psi_list *tmp;
    if (net->closing) {
        return;
    }
    net->closing = true;
    psi_dial_close_all(net);
    PSI_LIST_FOREACH_SAFE(it, tmp, &net->conns) {
        psi_conn_abort(PSI_CONTAINER_OF(it, struct psi_conn, all), "this side ends");
        psi_net_settle(net);
    }
    uv_close((uv_handle_t *)&net->check, NULL);
    uv_close((uv_handle_t *)&net->prepare, NULL);
    psi_spin_close(&net->spin);
    uv_close((uv_handle_t *)&net->idle, NULL);
    uv_close((uv_handle_t *)&net->linger_timer, NULL);
}

void psi_net_fini(struct psi_net *net)
{
    PSI_ASSERT(net->conn_count == 0 && psi_list_empty(&net->dials));
    if (net->shares && atomic_fetch_sub(&sharers, 1) == 1) {
        psi_free(atomic_exchange(&shared, NULL));
    }
    psi_tls_loop_free(net->tls_loop);
    psi_tls_unref(net->tls);
    psi_free(net->own_scratch);
    net->own_scratch = NULL;
    net->scratch = NULL;
}
