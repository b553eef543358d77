/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on compute threads.
 *
 * Happy path: psd_calls_run() takes a record of the pool, queues it, makes a thread when all are busy -> compute(): run() of its
 * row, into memory that the core owns -> the record goes to `over`, the loop is woken -> on_wake() on the task's thread tells
 * the core and gives the record back.
 * Failure modes: no thread can be made: the call ends RESOURCE_EXHAUSTED; cancelled before it began: CANCELLED, run() is not
 * entered; a run() that says nonsense (a status that does not exist, more bytes than there is room for): INTERNAL.
 *
 * One mutex. The program's cancel() is called with it held, so that the run() that it is about cannot return meanwhile; it must
 * not wait for anything.
 */
#include "calls.h"

#include "common/mem.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct psd_call {
    struct psi_list link; /* of the list that says where it is */
    uint64_t id;          /* 0: free */
    const psd_call_row *row;
    const void *in;
    void *out;
    size_t in_bytes, out_capacity, out_bytes;
    atomic_bool cancelled;
    ps_status status;
    char error[PSI_ERR_TEXT_MAX];
};

bool psd_call_cancelled(const psd_call *call)
{
    return call != NULL && atomic_load(&call->cancelled);
}

static bool name_is_fine(const char *name)
{
    size_t n = name != NULL ? strlen(name) : 0;
    size_t good = n > 0 ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") : 0;
    return n > 0 && n <= 63 && good == n;
}

const psd_call_row *psd_call_row_of(const psd_call_table *table, size_t index)
{
    return (const psd_call_row *)(const void *)((const char *)table->rows + index * table->row_bytes);
}

ps_status psd_calls_check(const psd_server_options *o, struct psi_err *err)
{
    const psd_call_table *table = &o->calls;
    if (o->call_threads < 1 || o->call_threads > PSD_CALL_THREADS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call_threads is %u: it must be between 1 and %d", o->call_threads,
                        PSD_CALL_THREADS_MAX);
    }
    if (o->calls_max < 1 || o->calls_max > PSD_CALLS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "calls_max is %u: it must be between 1 and %d", o->calls_max, PSD_CALLS_MAX);
    }
    if (table->count > 0 && table->rows == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the call table has %zu rows and no memory is given", table->count);
    }
    if (table->count > 0 && (table->row_bytes < sizeof(psd_call_row) || table->row_bytes % _Alignof(psd_call_row) != 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "row_bytes of the call table is %zu: it must be sizeof(psd_call_row)",
                        table->row_bytes);
    }
    if (table->count > UINT16_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the call table has %zu rows; at most %d", table->count, UINT16_MAX);
    }
    for (size_t i = 0; i < table->count; i++) {
        if (!name_is_fine(psd_call_row_of(table, i)->name)) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "row %zu of the call table: its name must be 1 to 63 letters, digits or . _ - /", i);
        }
        if (psd_call_row_of(table, i)->run == NULL) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s' has no function to run", psd_call_row_of(table, i)->name);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(psd_call_row_of(table, k)->name, psd_call_row_of(table, i)->name) == 0) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s' is in the table twice", psd_call_row_of(table, i)->name);
            }
        }
    }
    return PS_OK;
}

ps_status psd_calls_init(struct psd_calls *c, const psd_call_table *table, uint32_t threads, uint32_t calls_max,
                         struct psi_err *err)
{
    memset(c, 0, sizeof(*c));
    psi_list_init(&c->free_list);
    psi_list_init(&c->queue);
    psi_list_init(&c->running);
    psi_list_init(&c->over);
    (void)pthread_mutex_init(&c->mutex, NULL); /* cannot fail with default attributes */
    (void)pthread_cond_init(&c->work, NULL);   /* likewise */
    c->table = *table;
    c->threads_max = threads;
    c->calls_max = calls_max;
    if (table->count == 0) {
        return PS_OK;
    }
    c->pool = psi_calloc(calls_max, sizeof(*c->pool));
    c->threads = psi_calloc(threads, sizeof(*c->threads));
    if (c->pool == NULL || c->threads == NULL) {
        psd_calls_fini(c);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "memory for %u calls", calls_max);
    }
    for (uint32_t i = 0; i < calls_max; i++) {
        psi_list_push_back(&c->free_list, &c->pool[i].link);
    }
    return PS_OK;
}

/* ---- compute thread ---- */

static void run_one(const struct psd_calls *c, struct psd_call *call)
{
    if (atomic_load(&call->cancelled)) {
        call->status = PS_CANCELLED;
        (void)snprintf(call->error, sizeof(call->error), "cancelled before it began");
        return;
    }
    ps_status st = call->row->run(c->table.ctx, call, call->in, call->in_bytes, call->out, call->out_capacity, &call->out_bytes,
                                  call->error, sizeof(call->error));
    call->error[sizeof(call->error) - 1] = '\0';
    if ((unsigned)st > PS_UNAUTHENTICATED) {
        (void)snprintf(call->error, sizeof(call->error), "it ended with %d, which is no status", (int)st);
        st = PS_INTERNAL;
    } else if (st == PS_OK && call->out_bytes > call->out_capacity) {
        (void)snprintf(call->error, sizeof(call->error), "it says that it wrote %zu bytes into %zu", call->out_bytes,
                       call->out_capacity);
        st = PS_INTERNAL;
    }
    call->out_bytes = st == PS_OK ? call->out_bytes : 0;
    call->status = st;
}

static void *compute(void *arg)
{
    struct psd_calls *c = arg;
    (void)pthread_mutex_lock(&c->mutex);
    for (;;) {
        struct psi_list *link = psi_list_pop_front(&c->queue);
        if (link == NULL && c->stopping) {
            break;
        }
        if (link == NULL) {
            (void)pthread_cond_wait(&c->work, &c->mutex);
            continue;
        }
        struct psd_call *call = PSI_CONTAINER_OF(link, struct psd_call, link);
        psi_list_push_back(&c->running, &call->link);
        (void)pthread_mutex_unlock(&c->mutex);
        run_one(c, call);
        (void)pthread_mutex_lock(&c->mutex);
        psi_list_remove(&call->link);
        psi_list_push_back(&c->over, &call->link);
        if (c->wake_open) {
            PSI_IGNORE(uv_async_send(&c->wake)); /* fails for closing handles only */
        }
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* ---- the task's thread ---- */

static void on_wake(uv_async_t *async)
{
    struct psd_calls *c = async->data;
    for (;;) {
        (void)pthread_mutex_lock(&c->mutex);
        struct psi_list *link = c->wake_open ? psi_list_pop_front(&c->over) : NULL;
        (void)pthread_mutex_unlock(&c->mutex);
        if (link == NULL) {
            return;
        }
        struct psd_call *call = PSI_CONTAINER_OF(link, struct psd_call, link);
        uint64_t id = call->id;
        call->id = 0;
        c->finished(c->ctx, id, call->status, call->out_bytes, call->error);
        psi_list_push_back(&c->free_list, &call->link);
    }
}

void psd_calls_open(struct psd_calls *c, uv_loop_t *loop, psd_calls_finished_fn finished, void *ctx)
{
    c->finished = finished;
    c->ctx = ctx;
    if (c->pool == NULL) {
        return;
    }
    int rc = uv_async_init(loop, &c->wake, on_wake);
    PSI_ASSERT(rc == 0); /* the loop has its descriptor for this already */
    c->wake.data = c;
    c->wake_open = true;
}

static void add_thread(struct psd_calls *c)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    c->thread_count += pthread_create(&c->threads[c->thread_count], NULL, compute, c) == 0 ? 1 : 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void psd_calls_run(struct psd_calls *c, const struct psd_effect *effect)
{
    struct psi_list *link = psi_list_pop_front(&c->free_list);
    PSI_ASSERT(link != NULL && effect->call_row < c->table.count); /* the core has at most calls_max of them */
    struct psd_call *call = PSI_CONTAINER_OF(link, struct psd_call, link);
    call->id = effect->call;
    call->row = psd_call_row_of(&c->table, effect->call_row);
    call->in = effect->call_in;
    call->in_bytes = effect->call_in_bytes;
    call->out = effect->call_out;
    call->out_capacity = effect->call_out_bytes;
    call->out_bytes = 0;
    call->status = PS_OK;
    call->error[0] = '\0';
    atomic_store(&call->cancelled, false);
    (void)pthread_mutex_lock(&c->mutex);
    uint32_t busy = 1;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->queue) {
        busy++;
    }
    PSI_LIST_FOREACH(it, &c->running) {
        busy++;
    }
    if (busy > c->thread_count && c->thread_count < c->threads_max) {
        add_thread(c);
    }
    if (c->thread_count > 0) {
        psi_list_push_back(&c->queue, &call->link);
        (void)pthread_cond_signal(&c->work);
    } else {
        call->status = PS_RESOURCE_EXHAUSTED;
        (void)snprintf(call->error, sizeof(call->error), "the system gives no thread for it");
        psi_list_push_back(&c->over, &call->link);
        PSI_IGNORE(uv_async_send(&c->wake)); /* open: the core still acts */
    }
    (void)pthread_mutex_unlock(&c->mutex);
}

/* Under the mutex. */
static void cancel(struct psd_calls *c, struct psd_call *call, bool running)
{
    bool before = atomic_exchange(&call->cancelled, true);
    if (!before && running && call->row->cancel != NULL) {
        call->row->cancel(c->table.ctx, call);
    }
}

void psd_calls_cancel(struct psd_calls *c, uint64_t id)
{
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&c->mutex);
    PSI_LIST_FOREACH(it, &c->running) {
        struct psd_call *call = PSI_CONTAINER_OF(it, struct psd_call, link);
        if (call->id == id) {
            cancel(c, call, true);
        }
    }
    PSI_LIST_FOREACH(it, &c->queue) {
        struct psd_call *call = PSI_CONTAINER_OF(it, struct psd_call, link);
        if (call->id == id) {
            cancel(c, call, false);
        }
    }
    (void)pthread_mutex_unlock(&c->mutex);
}

void psd_calls_close(struct psd_calls *c)
{
    struct psi_list *it = NULL;
    bool open = false;
    (void)pthread_mutex_lock(&c->mutex);
    PSI_LIST_FOREACH(it, &c->running) {
        cancel(c, PSI_CONTAINER_OF(it, struct psd_call, link), true);
    }
    PSI_LIST_FOREACH(it, &c->queue) {
        cancel(c, PSI_CONTAINER_OF(it, struct psd_call, link), false);
    }
    c->stopping = true;
    open = c->wake_open;
    c->wake_open = false;
    (void)pthread_cond_broadcast(&c->work);
    (void)pthread_mutex_unlock(&c->mutex);
    if (open) {
        uv_close((uv_handle_t *)&c->wake, NULL);
    }
}

void psd_calls_join(struct psd_calls *c)
{
    for (uint32_t i = 0; i < c->thread_count; i++) {
        (void)pthread_join(c->threads[i], NULL);
    }
    c->thread_count = 0;
}

void psd_calls_fini(struct psd_calls *c)
{
    PSI_ASSERT(c->thread_count == 0);
    psi_free(c->threads);
    psi_free(c->pool);
    c->threads = NULL;
    c->pool = NULL;
    (void)pthread_cond_destroy(&c->work);
    (void)pthread_mutex_destroy(&c->mutex);
}
