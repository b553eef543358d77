/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of values between runs and variables, carried by a session of the executor's own.
 *
 * Happy path: the first transfer opens the session, whose target is the executor's own task. A variable that is not known yet is
 * looked up, and all transfers of the variable wait for the look-up. If the client's rights are to be checked, the variable's
 * task is asked whether the client may read or write; each transfer asks again, because rights may change. Then the transfer
 * becomes a request of the session, whose end calls done(). The VARIABLES_MAX variables that were used last stay known, so the
 * next run of a plan looks up none of them. A cancelled transfer ends on the session's loop thread, like all transfers. Failure
 * modes: if a known variable is gone, its name is looked up once more, because another variable may have the name now. All other
 * errors are those of the requests.
 *
 * Locks: carrier->lock may be taken while ps_ops.lock is held, and the session's lock while carrier->lock is held, never the
 * other way round. No function of the run is called with carrier->lock held. */
#include "exec.h"

#include "common/auth/rights.h"
#include "common/blob.h"
#include "common/list.h"
#include "common/map.h"
#include "common/mem.h"
#include "common/shape.h"
#include "worker/api/api.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { VARIABLES_MAX = 4096 }; /* each takes 3.7 KB: struct known has 2,320 bytes, the session's struct psi_var 1,360 */
enum { NAME_KEY_BYTES = PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX + 1 + PSI_RUN_KEY_BYTES };

static const char WHY[] = "cancelled";

struct psi_exec_carrier {
    ps_ops *ops;
    pthread_mutex_t lock;
    ps_session *session;
    struct psi_map variables; /* records of variables, struct known, by container, name and the container's key */
    struct psi_list recent;   /* struct known, least recently used first */
    struct psi_list dropping; /* struct known without users that could not be freed yet (on_dropped()) */
};

/* A variable that the session knows or is looking up. Under carrier->lock. */
struct known {
    struct psi_api_found found;
    struct psi_exec_carrier *carrier;
    struct psi_list link; /* in recent or dropping; in no list between drop() and on_dropped() */
    char key[NAME_KEY_BYTES];
    size_t key_bytes;
    bool there;              /* the last look-up has succeeded */
    bool retired;            /* removed from the map carrier->variables; freed when `users` is 0 */
    uint32_t users;          /* number of errands (transfers) that use this variable */
    struct psi_list waiting; /* struct errand that wait for the look-up */
};

/* A transfer that was started. Under carrier->lock. */
struct errand {
    struct psi_exec_transfer *t;
    struct known *known;
    struct psi_list link; /* in known->waiting */
    ps_request req;
    struct psi_api_right right; /* the question whether the client may read or write the variable */
    struct psi_io_work cancel;
    uint64_t deadline_ms;
    bool cached;    /* the record is from an earlier transfer: if its variable is gone, the name is looked up again */
    bool asking;    /* the question `right` is in progress */
    bool permitted; /* the client has the right, or no right is needed */
    bool sent;
    bool cancelling;
    bool cancel_ran;
    bool over; /* the errand has ended; if it was cancelled, run_cancel() frees it */
};

_Static_assert(sizeof(struct errand) <= PSI_EXEC_ERRAND_BYTES, "the budget has that");

static struct known *known_of(const struct errand *e)
{
    return e->known;
}

static size_t key_of(const struct psi_exec_transfer *t, char key[NAME_KEY_BYTES])
{
    const size_t container = strlen(t->variable->container) + 1, name = strlen(t->variable->name) + 1;
    memcpy(key, t->variable->container, container);
    memcpy(key + container, t->variable->name, name);
    if (t->key != NULL) {
        memcpy(key + container + name, t->key, PSI_RUN_KEY_BYTES);
    }
    return container + name + (t->key != NULL ? PSI_RUN_KEY_BYTES : 0);
}

static void on_dropped(struct psi_api_found *found, bool gone)
{
    struct known *k = PSI_CONTAINER_OF(found, struct known, found);
    struct psi_exec_carrier *carrier = k->carrier;
    (void)pthread_mutex_lock(&carrier->lock);
    if (!gone) {
        psi_list_push_back(&carrier->dropping, &k->link);
    }
    (void)pthread_mutex_unlock(&carrier->lock);
    if (gone) {
        psi_free(k);
    }
}

/* Under the lock: free k, which has no users. The session frees its record of the variable first; on_dropped() then frees k. */
static void drop(struct known *k)
{
    psi_list_remove(&k->link);
    if (psi_api_found_drop(&k->found, NULL) != PS_OK) {
        psi_list_push_back(&k->carrier->dropping, &k->link); /* fails only while the session closes: free_all() then frees k */
    }
}

/* Under the lock: take k out of the map, so that the next transfer looks the variable up again. The last user of k drops it. */
static void retire(struct known *k)
{
    if (!k->retired) {
        k->retired = true;
        PSI_IGNORE(psi_map_remove(&k->carrier->variables, k->key, k->key_bytes)); /* the return value is k */
    }
    if (k->users == 0) {
        drop(k);
    }
}

/* Under the lock: make room in the map for one more variable. Also try again to drop the first of carrier->dropping. */
static void make_room(struct psi_exec_carrier *carrier)
{
    struct psi_list *it = psi_list_first(&carrier->dropping);
    if (it != NULL) {
        drop(PSI_CONTAINER_OF(it, struct known, link));
    }
    if (psi_map_count(&carrier->variables) < VARIABLES_MAX) {
        return;
    }
    PSI_LIST_FOREACH(it, &carrier->recent) {
        struct known *k = PSI_CONTAINER_OF(it, struct known, link);
        if (k->users == 0) {
            retire(k);
            return;
        }
    }
}

static void on_found(struct psi_api_found *found, const struct psi_err *err);

static ps_status look_up(struct known *k, int64_t timeout_ms, struct psi_err *err)
{
    const char *container = k->key, *name = container + strlen(container) + 1, *end = name + strlen(name) + 1;
    const uint8_t *key = k->key_bytes > (size_t)(end - k->key) ? (const uint8_t *)end : NULL;
    k->found.done = on_found;
    k->found.dropped = on_dropped;
    return psi_api_found_start(k->carrier->session, container, key, name, timeout_ms, &k->found, err);
}

/* Under the lock: set *out to the record of t's variable. A missing record is made, and a look-up of the variable is started for
 * it. RESOURCE_EXHAUSTED, and errors of the look-up's start. */
static ps_status know(struct psi_exec_carrier *carrier, const struct psi_exec_transfer *t, int64_t timeout_ms, struct known **out,
                      struct psi_err *err)
{
    char key[NAME_KEY_BYTES];
    const size_t key_bytes = key_of(t, key);
    struct known *k = psi_map_find(&carrier->variables, key, key_bytes);
    if (k != NULL) {
        psi_list_remove(&k->link);
        psi_list_push_back(&carrier->recent, &k->link);
        *out = k;
        return PS_OK;
    }
    make_room(carrier);
    k = psi_calloc(1, sizeof(*k));
    if (k == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a variable");
    }
    k->carrier = carrier;
    memcpy(k->key, key, key_bytes);
    k->key_bytes = key_bytes;
    psi_list_init(&k->link);
    psi_list_init(&k->waiting);
    ps_status st = psi_map_put(&carrier->variables, key, key_bytes, k, NULL, err);
    if (st == PS_OK) {
        st = look_up(k, timeout_ms, err);
        if (st != PS_OK) {
            PSI_IGNORE(psi_map_remove(&carrier->variables, key, key_bytes)); /* the return value is k */
        }
    }
    if (st != PS_OK) {
        psi_free(k);
        return st;
    }
    psi_list_push_back(&carrier->recent, &k->link);
    *out = k;
    return PS_OK;
}

/* Without the lock: end e with the error in t->err, call done() and free e. If e is being cancelled and run_cancel() has not run,
 * only mark e as over: run_cancel() then calls this function again. */
static void end(struct errand *e)
{
    struct psi_exec_carrier *carrier = known_of(e)->carrier;
    struct psi_exec_transfer *t = e->t;
    (void)pthread_mutex_lock(&carrier->lock);
    const bool waits = e->cancelling && !e->cancel_ran; /* run_cancel() has not run yet */
    e->over = true;
    if (!waits) {
        t->carrier = NULL;
        e->known->users--;
        if (e->known->retired && e->known->users == 0) {
            drop(e->known);
        }
    }
    (void)pthread_mutex_unlock(&carrier->lock);
    if (!waits) {
        psi_free(e);
        t->done(t);
    }
}

static ps_status go_on(struct errand *e, struct psi_err *err);

/* Under the lock: the variable of e is gone, so e goes on with the variable that has the name now. If the look-up of that
 * variable has not ended, e waits for its end. */
static ps_status look_again(struct errand *e, int64_t left_ms, struct psi_err *err)
{
    struct known *old = e->known;
    ps_status st = PS_OK;
    retire(old); /* does not free old: e is still counted in old->users */
    st = know(old->carrier, e->t, left_ms, &e->known, err);
    if (st != PS_OK) {
        return st;
    }
    e->known->users++;
    old->users--;
    if (old->users == 0) {
        drop(old);
    }
    e->cached = e->known->there; /* true: an earlier transfer, whose variable was gone, has looked the name up */
    if (e->cached) {
        return go_on(e, err);
    }
    psi_list_push_back(&e->known->waiting, &e->link);
    return PS_OK;
}

static int64_t left_ms(const struct errand *e)
{
    const uint64_t now = psi_io_now_ms();
    return e->deadline_ms > now ? (int64_t)(e->deadline_ms - now) : 0;
}

static void on_done(void *ctx, ps_request *req, const ps_result *result)
{
    (void)req;
    struct errand *e = ctx;
    struct psi_exec_transfer *t = e->t;
    struct psi_exec_carrier *carrier = known_of(e)->carrier;
    const bool gone = result->status == PS_ABORTED && result->reason == PS_REASON_LOST && result->applied == PS_NOTHING_APPLIED;
    psi_err_none(&t->err);
    if (result->status != PS_OK) {
        PSI_IGNORE(psi_fail_as(&t->err, result->status, result->reason, "%s", result->text)); /* t->err has the error */
        t->err.applied = result->applied;
    } else if (t->kind == PSI_EXEC_READ && t->type->dtype == PS_STRING) {
        const uint64_t count = (uint64_t)ps_shape_elements(&t->type->shape);
        t->bytes = (size_t)(psi_blob_bytes_min(count) + psi_blob_offset(t->data, count));
    } else if (t->kind == PSI_EXEC_ADD) {
        t->result_bytes = result->result_bytes;
        memcpy(t->result, result->result, result->result_bytes);
    }
    if (gone && e->cached) {
        (void)pthread_mutex_lock(&carrier->lock);
        e->sent = false;
        const bool again = !e->cancelling && left_ms(e) > 0 && look_again(e, left_ms(e), &t->err) == PS_OK;
        (void)pthread_mutex_unlock(&carrier->lock);
        if (again) {
            return;
        }
    } else if (gone) {
        (void)pthread_mutex_lock(&carrier->lock);
        retire(e->known);
        (void)pthread_mutex_unlock(&carrier->lock);
    }
    end(e);
}

static ps_status check_type(const struct known *k, const struct psi_type *type, struct psi_err *err)
{
    const struct psi_type have = {.dtype = k->found.variable.dtype, .shape = k->found.variable.shape};
    char ours[PSI_TYPE_TEXT_MAX], theirs[PSI_TYPE_TEXT_MAX];
    if (have.dtype == type->dtype && psi_shape_equal(&have.shape, &type->shape)) {
        return PS_OK;
    }
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "variable '%s' is %s, and the run takes it for %s",
                       k->found.variable.name, psi_type_format(&have, theirs, sizeof(theirs)),
                       psi_type_format(type, ours, sizeof(ours)));
}

/* Under the lock: start the request of e, whose variable is known. Any status but PS_OK: the caller must end e. */
static ps_status send(struct errand *e, struct psi_err *err)
{
    static const enum psi_request_kind kinds[] = {[PSI_EXEC_READ] = PSI_REQ_PULL,
                                                  [PSI_EXEC_ASSIGN] = PSI_REQ_ASSIGN,
                                                  [PSI_EXEC_ADD] = PSI_REQ_ADD,
                                                  [PSI_EXEC_PUSH] = PSI_REQ_PUSH};
    struct psi_exec_transfer *t = e->t;
    const bool reads = t->kind == PSI_EXEC_READ;
    const struct psi_request what = {.kind = kinds[t->kind],
                                     .src = reads ? NULL : t->data,
                                     .dst = reads ? t->data : NULL,
                                     .bytes = t->bytes,
                                     .scale = t->kind == PSI_EXEC_PUSH ? t->scale : 1};
    ps_status st = e->cancelling ? psi_fail(err, PS_CANCELLED, "%s", WHY) : check_type(e->known, t->type, err);
    if (st == PS_OK) {
        const int64_t left = left_ms(e);
        st = psi_api_start(&e->known->found.variable, &what, left > 0 ? left : 1, &e->req, on_done, e);
        if (st != PS_OK) {
            psi_api_last_error_get(err);
        }
    }
    e->sent = st == PS_OK;
    return st;
}

static void on_answer(struct psi_api_right *right, const struct psi_err *err)
{
    struct errand *e = PSI_CONTAINER_OF(right, struct errand, right);
    struct psi_exec_carrier *carrier = known_of(e)->carrier;
    (void)pthread_mutex_lock(&carrier->lock);
    e->asking = false;
    e->permitted = err->code == PS_OK;
    /* after a failed look-up t->err keeps the error of the look-up, unless the client must not learn it */
    if (e->known->there || err->code == PS_PERMISSION_DENIED) {
        e->t->err = *err;
        e->t->err.applied = PS_NOTHING_APPLIED;
    }
    const bool goes_on = e->permitted && e->known->there && send(e, &e->t->err) == PS_OK;
    (void)pthread_mutex_unlock(&carrier->lock);
    if (!goes_on) {
        end(e);
    }
}

/* Under the lock: ask whether the client has the right; on_answer() continues. An error: no question was sent. */
static ps_status ask(struct errand *e, struct psi_err *err)
{
    const struct psi_exec_transfer *t = e->t;
    if (e->cancelling) {
        return psi_fail(err, PS_CANCELLED, "%s", WHY);
    }
    memset(&e->right, 0, sizeof(e->right));
    e->right.may = (struct psi_may){.who = t->who,
                                    .role = t->role,
                                    .container = e->known->found.variable.container,
                                    .rights = t->kind == PSI_EXEC_READ ? PSI_RIGHT_READ : PSI_RIGHT_WRITE};
    e->right.done = on_answer;
    const ps_status st = psi_api_right_start(&e->known->found, e->known->there, e->deadline_ms, &e->right, err);
    e->asking = st == PS_OK;
    return st;
}

/* Under the lock: start the request of e, whose variable is known. If the client's right is still to be checked, ask for it
 * instead: on_answer() then starts the request. Any status but PS_OK: the caller must end e. */
static ps_status go_on(struct errand *e, struct psi_err *err)
{
    return e->t->who == NULL || e->permitted ? send(e, err) : ask(e, err);
}

/* Under the lock, after a failed look-up: ask whether the client has the right: only then it may learn that the variable is
 * missing. False: no question was sent, and the caller ends e with the look-up's error. */
static bool may_be_told(struct errand *e)
{
    struct psi_err err;
    return e->t->who != NULL && !e->permitted && ask(e, &err) == PS_OK;
}

/* True if another look-up may succeed after this error, and the transfer has time for it. */
static bool may_wait(const struct errand *e, const struct psi_err *err)
{
    return (err->code == PS_UNAVAILABLE || err->code == PS_DEADLINE_EXCEEDED) && left_ms(e) > 0 && !e->cancelling;
}

/* Under the lock, after a look-up of variable k. Success: start the transfers that waited for it. Failure: look k up again for
 * transfers that have time left. Transfers (errands) that end now go to the list `ended`, for the caller. */
static void serve_waiting(struct known *k, const struct psi_err *err, struct psi_list *ended)
{
    struct psi_list waiting;
    struct psi_list *it = NULL;
    int64_t longest_ms = 0;
    psi_list_init(&waiting);
    psi_list_move_all(&waiting, &k->waiting);
    while ((it = psi_list_pop_front(&waiting)) != NULL) {
        struct errand *e = PSI_CONTAINER_OF(it, struct errand, link);
        e->t->err = *err;
        if (k->there && go_on(e, &e->t->err) == PS_OK) {
            continue;
        }
        if (!k->there && may_wait(e, err)) {
            longest_ms = left_ms(e) > longest_ms ? left_ms(e) : longest_ms;
            psi_list_push_back(&k->waiting, &e->link);
        } else if (k->there || !may_be_told(e)) {
            psi_list_push_back(ended, &e->link);
        }
    }
    if (!k->there && longest_ms > 0 && look_up(k, longest_ms, NULL) == PS_OK) {
        return;
    }
    psi_list_move_all(ended, &k->waiting);
    if (!k->there) {
        retire(k);
    }
}

static void on_found(struct psi_api_found *found, const struct psi_err *err)
{
    struct known *k = PSI_CONTAINER_OF(found, struct known, found);
    struct psi_exec_carrier *carrier = k->carrier;
    struct psi_list ended;
    struct psi_list *it = NULL;
    psi_list_init(&ended);
    (void)pthread_mutex_lock(&carrier->lock);
    k->there = err->code == PS_OK;
    k->users++; /* so that serve_waiting() does not drop k */
    serve_waiting(k, err, &ended);
    k->users--;
    if (k->users == 0 && k->retired) {
        drop(k);
    }
    (void)pthread_mutex_unlock(&carrier->lock);
    while ((it = psi_list_pop_front(&ended)) != NULL) {
        end(PSI_CONTAINER_OF(it, struct errand, link));
    }
}

/* Loop thread. */
static void run_cancel(struct psi_io_work *work, struct psi_client *c)
{
    struct errand *e = PSI_CONTAINER_OF(work, struct errand, cancel);
    struct psi_exec_carrier *carrier = known_of(e)->carrier;
    (void)pthread_mutex_lock(&carrier->lock);
    e->cancel_ran = true;
    const bool over = e->over, sent = e->sent, asking = e->asking;
    if (!over && !sent && !asking) {
        psi_list_remove(&e->link);
        PSI_IGNORE(psi_fail(&e->t->err, PS_CANCELLED, "%s", WHY)); /* t->err has the error */
    }
    (void)pthread_mutex_unlock(&carrier->lock);
    if (!over && asking) {
        psi_client_cancel(c, &e->right.call.req, WHY);
    } else if (!over && sent) {
        psi_api_cancel(c, &e->req, WHY);
    } else {
        end(e);
    }
}

/* Pass the session's log lines to the executor's log. After the server's end only errors: that end causes warnings. */
static void on_log(void *ctx, ps_log_level level, const char *line)
{
    const ps_ops *ops = ctx;
    if (atomic_load(&ops->detached) && level < PS_LOG_ERROR) {
        return;
    }
    if (ops->log != NULL) {
        ops->log(ops->log_ctx, level, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
}

static ps_status open_session(struct psi_exec_carrier *carrier, struct psi_err *err)
{
    char error[PSI_ERR_TEXT_MAX] = "";
    ps_session_options o;
    ps_session_options_init(&o);
    o.target = carrier->ops->target;
    o.key_file = carrier->ops->files[0] != NULL ? carrier->ops->files[0] : ""; /* the task's key; no other key file is tried */
    o.tls_cert = carrier->ops->files[1];
    o.tls_key = carrier->ops->files[2];
    o.tls_ca = carrier->ops->files[3];
    o.log_level = carrier->ops->log_level;
    o.log = on_log;
    o.log_ctx = carrier->ops;
    const ps_status st = ps_session_open(&o, &carrier->session, error, sizeof(error));
    return st == PS_OK ? PS_OK : psi_fail(err, st, "the executor's own session: %s", error);
}

static ps_status begin(struct psi_exec_carrier *carrier, struct errand *e, struct psi_err *err)
{
    ps_status st = carrier->session == NULL ? open_session(carrier, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    e->deadline_ms = psi_api_deadline_ms(carrier->session, e->t->timeout_ms);
    st = know(carrier, e->t, e->t->timeout_ms, &e->known, err);
    if (st != PS_OK) {
        return st;
    }
    e->cached = e->known->there;
    e->t->carrier = e;
    e->known->users++;
    if (!e->known->there) {
        psi_list_push_back(&e->known->waiting, &e->link);
        return PS_OK;
    }
    st = go_on(e, err);
    e->known->users -= st == PS_OK ? 0 : 1;
    return st;
}

static ps_status start(void *ctx, struct psi_exec_transfer *t, struct psi_err *err)
{
    struct psi_exec_carrier *carrier = ctx;
    struct errand *e = psi_calloc(1, sizeof(*e));
    if (e == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a transfer");
    }
    e->t = t;
    psi_list_init(&e->link);
    (void)pthread_mutex_lock(&carrier->lock);
    const ps_status st = begin(carrier, e, err);
    (void)pthread_mutex_unlock(&carrier->lock);
    if (st != PS_OK) {
        t->carrier = NULL;
        psi_free(e);
    }
    return st;
}

static void cancel(void *ctx, struct psi_exec_transfer *t)
{
    struct psi_exec_carrier *carrier = ctx;
    (void)pthread_mutex_lock(&carrier->lock);
    struct errand *e = t->carrier;
    if (e != NULL && !e->cancelling) {
        e->cancelling = true;
        e->cancel.run = run_cancel;
        psi_list_init(&e->cancel.link);
        psi_io_submit(carrier->session->io, &e->cancel);
    }
    (void)pthread_mutex_unlock(&carrier->lock);
}

ps_status psi_exec_carrier_new(ps_ops *ops, struct psi_err *err)
{
    uint64_t seed[2] = {0, 0};
    struct psi_exec_carrier *carrier = psi_calloc(1, sizeof(*carrier));
    if (carrier == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for an executor");
    }
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        psi_free(carrier);
        return psi_fail(err, PS_INTERNAL, "the system gives no random bytes");
    }
    carrier->ops = ops;
    (void)pthread_mutex_init(&carrier->lock, NULL);
    psi_map_init(&carrier->variables, seed);
    psi_list_init(&carrier->recent);
    psi_list_init(&carrier->dropping);
    ops->carrier = carrier;
    ops->reach = (struct psi_exec_reach){.ctx = carrier, .start = start, .cancel = cancel};
    return PS_OK;
}

static void free_all(struct psi_list *list)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(list)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct known, link));
    }
}

void psi_exec_carrier_free(struct psi_exec_carrier *carrier)
{
    if (carrier == NULL) {
        return;
    }
    PSI_IGNORE(ps_session_close(carrier->session)); /* NULL is fine. An error does not matter: no request is left */
    free_all(&carrier->recent);
    free_all(&carrier->dropping);
    psi_map_fini(&carrier->variables);
    (void)pthread_mutex_destroy(&carrier->lock);
    psi_free(carrier);
}
