/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: functions of the program that clients run, on compute threads.
 *
 * Happy path: psd_calls_run() takes a record of the pool, queues it, and makes a thread if all are busy. The thread enters run()
 * of the called function, which writes its result into memory of the core. Then the thread puts the record into `over`, and wakes
 * the loop. on_wake() on the task's thread tells the core and gives the record back. If run() returns PSD_CALL_PENDING, the
 * record is in `pending`, without a thread, until psd_call_again() queues it once more, or psd_call_finish() puts it into `over`.
 * A call reads and writes variables of its task by requests in `reads` and `writes`, which the task's thread passes to the core.
 *
 * Failure modes: no thread can be made: the call ends RESOURCE_EXHAUSTED. The call is cancelled before it began: CANCELLED, and
 * run() is not entered. A wrong result of run() or psd_call_finish() (an unknown status, more bytes than there is room for, two
 * ends): INTERNAL. psd_call_finish() or psd_call_again() of a call that is over: FAILED_PRECONDITION.
 *
 * One mutex. The program's cancel() is called without it, because cancel() may finish the call. Until cancel() returns, no other
 * thread gets out of run() or psd_call_finish() of that call. Records are reused in the order in which they became free, so that
 * a second finish meets a free record, not a later call. */
#include "calls.h"

#include "common/mem.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum call_state { CALL_FREE, CALL_QUEUED, CALL_RUNNING, CALL_PENDING, CALL_OVER };

struct psd_call {
    /* link in free_list or in the list for `state`; only the task's thread takes records out of free_list and `over` */
    struct psi_list link;
    struct psd_calls *calls;
    uint64_t id; /* 0: the record is free */
    const psd_call_row *row;
    const void *in;
    void *out;
    size_t in_bytes, out_capacity;
    atomic_bool cancelled;
    void *data;           /* pointer that the program may set, through psd_call_functions.data() */
    uint64_t deadline_ms; /* monotonic clock; 0: none */
    uint64_t came_ns;     /* monotonic time when the core began the call */
    uint64_t queued_ns;   /* ns from came_ns until run() was first entered */
    char asker[128];
    bool asks; /* rights are in force: the program must check, by `who`, what the call may do on other tasks */
    struct psi_identity who;
    char identity[PSI_IDENTITY_TEXT_BYTES]; /* `who` as text */
    /* under calls->mutex: */
    enum call_state state;
    /* bytes of the input that have come; the call's end is reported only when all have come, or after a cancel */
    size_t come;
    bool begun;      /* run() was entered once or more */
    bool again;      /* while RUNNING: when run() returns, enter it once more */
    bool finished;   /* while RUNNING: psd_call_finish() was called */
    bool cancelling; /* the task's thread is in the program's cancel() */
    pthread_t canceller;
    ps_reason reason; /* why the call failed, set by psd_call_functions.reason() */
    ps_status status; /* result of a call that has ended */
    size_t out_bytes;
    uint64_t kernel_ns; /* time in run() so far */
    char error[PSI_ERR_TEXT_MAX];
};

struct psd_reading {
    struct psi_list link; /* link in psd_calls.reads until the task's thread takes the request */
    struct psd_copy copy;
    psd_call_read_fn done;
    void *ctx;
    char container_text[PS_CONTAINER_BYTES_MAX + 1];
    char name_text[PS_NAME_BYTES_MAX + 1];
    uint8_t key[PSD_CALL_KEY_BYTES];
};

/* A call's request for memory for a new value (draft()), or to make it the variable's value (publish()). */
struct psd_writing {
    struct psi_list link;       /* link in psd_calls.writes until the task's thread takes the request */
    struct psd_publish publish; /* publish.room NULL: the request is a draft(), otherwise a publish() */
    struct psd_draft_spec what; /* draft(): the variable, with dtype and shape */
    psd_call_draft_fn done;
    void *ctx;
    char container_text[PS_CONTAINER_BYTES_MAX + 1];
    char name_text[PS_NAME_BYTES_MAX + 1];
    uint8_t key[PSD_CALL_KEY_BYTES];
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

/* size of psd_call_row in the oldest version that is accepted: it lacked `early` */
enum { ROW_BYTES_MIN = offsetof(psd_call_row, early) };

bool psd_call_row_is_early(const psd_call_table *table, size_t index)
{
    const psd_call_row *row = psd_call_row_of(table, index);
    return table->row_bytes >= sizeof(*row) && row->early && row->cancel != NULL;
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
    if (table->count > 0 && (table->row_bytes < ROW_BYTES_MIN || table->row_bytes % _Alignof(psd_call_row) != 0)) {
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
    psi_list_init(&c->pending);
    psi_list_init(&c->over);
    psi_list_init(&c->reads);
    psi_list_init(&c->writes);
    (void)pthread_mutex_init(&c->mutex, NULL); /* with default attributes, this call and the next three cannot fail */
    (void)pthread_cond_init(&c->work, NULL);
    (void)pthread_cond_init(&c->cancelled, NULL);
    (void)pthread_cond_init(&c->idle, NULL);
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
        c->pool[i].calls = c;
        psi_list_push_back(&c->free_list, &c->pool[i].link);
    }
    return PS_OK;
}

static void move_call(struct psd_call *call, enum call_state to, struct psi_list *list)
{
    static const uint8_t ways[] = {[CALL_FREE] = 1u << CALL_QUEUED,
                                   [CALL_QUEUED] = 1u << CALL_RUNNING | 1u << CALL_OVER,
                                   [CALL_RUNNING] = 1u << CALL_PENDING | 1u << CALL_OVER,
                                   [CALL_PENDING] = 1u << CALL_QUEUED | 1u << CALL_OVER,
                                   [CALL_OVER] = 1u << CALL_FREE};
    PSI_ASSERT((ways[call->state] & 1u << to) != 0);
    call->state = to;
    psi_list_remove(&call->link);
    psi_list_push_back(list, &call->link);
}

static void note_end(struct psd_call *call, ps_status st, size_t out_bytes, const char *error)
{
    if ((unsigned)st > PS_UNAUTHENTICATED) {
        (void)snprintf(call->error, sizeof(call->error), "it ended with %d, which is no status", (int)st);
        st = PS_INTERNAL;
        call->reason = PS_REASON_NONE;
    } else if (st == PS_OK && out_bytes > call->out_capacity) {
        (void)snprintf(call->error, sizeof(call->error), "it says that it wrote %zu bytes into %zu", out_bytes,
                       call->out_capacity);
        st = PS_INTERNAL;
        call->reason = PS_REASON_NONE;
    } else if (error != call->error) {
        (void)snprintf(call->error, sizeof(call->error), "%s", error != NULL ? error : "");
    }
    call->out_bytes = st == PS_OK ? out_bytes : 0;
    call->status = st;
}

static void call_over(struct psd_calls *c, struct psd_call *call)
{
    move_call(call, CALL_OVER, &c->over);
    if (c->wake_open) {
        PSI_IGNORE(uv_async_send(&c->wake)); /* fails for closing handles only */
    }
    if (c->stopping && psi_list_empty(&c->queue) && psi_list_empty(&c->running) && psi_list_empty(&c->pending)) {
        (void)pthread_cond_broadcast(&c->idle);
    }
}

static void *compute(void *arg);

static void add_thread(struct psd_calls *c)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    c->thread_count += pthread_create(&c->threads[c->thread_count], NULL, compute, c) == 0 ? 1 : 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Queue a call, and make a thread if all are busy. True: the caller must wake a thread. False: no thread, so the call fails. */
static bool call_put(struct psd_calls *c, struct psd_call *call)
{
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
    move_call(call, CALL_QUEUED, &c->queue);
    if (c->thread_count == 0) {
        note_end(call, PS_RESOURCE_EXHAUSTED, 0, "the system gives no thread for it");
        call_over(c, call);
    }
    return c->thread_count > 0;
}

static void call_queue(struct psd_calls *c, struct psd_call *call)
{
    if (call_put(c, call)) {
        (void)pthread_cond_signal(&c->work);
    }
}

/* True while the program may finish the call or ask for another run(): run() was entered, and the call has not ended. */
static bool goes_on(const struct psd_call *call)
{
    return call->begun && !call->finished && call->state != CALL_OVER && call->state != CALL_FREE;
}

ps_status psd_call_again(psd_call *call)
{
    ps_status st = PS_FAILED_PRECONDITION;
    if (call == NULL) {
        return PS_INVALID_ARGUMENT;
    }
    struct psd_calls *c = call->calls;
    (void)pthread_mutex_lock(&c->mutex);
    if (goes_on(call)) {
        call->again = call->state == CALL_RUNNING;
        if (call->state == CALL_PENDING) {
            call_queue(c, call);
        }
        st = PS_OK;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return st;
}

ps_status psd_call_finish(psd_call *call, ps_status end, size_t out_bytes, const char *error)
{
    ps_status st = PS_FAILED_PRECONDITION;
    if (call == NULL) {
        return PS_INVALID_ARGUMENT;
    }
    struct psd_calls *c = call->calls;
    (void)pthread_mutex_lock(&c->mutex);
    while (call->cancelling && !pthread_equal(call->canceller, pthread_self())) {
        (void)pthread_cond_wait(&c->cancelled, &c->mutex);
    }
    if (goes_on(call)) {
        note_end(call, end, out_bytes, error);
        call->finished = true;
        if (call->state != CALL_RUNNING) {
            call_over(c, call);
        }
        st = PS_OK;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return st;
}

static void **call_data(psd_call *call)
{
    return &call->data;
}

static size_t call_come(const psd_call *call)
{
    struct psd_calls *c = call->calls;
    (void)pthread_mutex_lock(&c->mutex);
    const size_t come = call->come;
    (void)pthread_mutex_unlock(&c->mutex);
    return come;
}

static const char *call_asker(const psd_call *call)
{
    return call->asker;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int64_t call_left_ms(const psd_call *call)
{
    const uint64_t now_ms = now_ns() / 1000000u;
    return call->deadline_ms == 0 ? INT64_MAX : call->deadline_ms > now_ms ? (int64_t)(call->deadline_ms - now_ms) : 0;
}

static uint64_t call_queued_ns(const psd_call *call)
{
    return call->queued_ns;
}

static const char *call_identity(const psd_call *call, const char **role)
{
    *role = call->asks ? call->who.role : NULL;
    return call->asks ? call->identity : NULL;
}

static void call_reason(psd_call *call, ps_reason reason)
{
    if (call == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&call->calls->mutex);
    if (goes_on(call)) {
        call->reason = (unsigned)reason > PS_UNAUTHENTICATED ? reason : PS_REASON_NONE;
    }
    (void)pthread_mutex_unlock(&call->calls->mutex);
}

static ps_reason reason_of(const struct psi_err *err)
{
    return err == NULL ? PS_REASON_NONE : err->reason != 0 ? err->reason : (ps_reason)err->code;
}

static void read_done(struct psd_copy *copy, const struct psi_err *err)
{
    struct psd_reading *r = PSI_CONTAINER_OF(copy, struct psd_reading, copy);
    const psd_call_read_result result = {.struct_bytes = sizeof(result),
                                         .status = err == NULL ? PS_OK : err->code,
                                         .reason = reason_of(err),
                                         .version = copy->version,
                                         .exact = copy->exact,
                                         .error = err == NULL ? "" : err->text,
                                         .creation = copy->creation,
                                         .same = copy->same};
    psd_call_read_fn done = r->done;
    void *ctx = r->ctx;
    done(ctx, &result);
    psi_free(r);
}

/* Put a call's request into `list`, for the task's thread. FAILED_PRECONDITION: the call has ended. CANCELLED: the task ends. */
static ps_status ask_task(psd_call *call, struct psi_list *list, struct psi_list *link, uint64_t *out_call)
{
    struct psd_calls *c = call->calls;
    (void)pthread_mutex_lock(&c->mutex);
    const ps_status st = !goes_on(call) ? PS_FAILED_PRECONDITION : !c->wake_open ? PS_CANCELLED : PS_OK;
    if (st == PS_OK) {
        *out_call = call->id;
        psi_list_push_back(list, link);
        PSI_IGNORE(uv_async_send(&c->wake)); /* fails for closing handles only */
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return st;
}

/* size of psd_call_read in the oldest version that is accepted: it lacked have_creation */
enum { READ_BYTES_MIN = offsetof(psd_call_read, have_creation) };

static ps_status call_read(psd_call *call, const psd_call_read *what, psd_call_read_fn done, void *ctx)
{
    if (call == NULL || what == NULL || done == NULL || what->struct_bytes < READ_BYTES_MIN || what->container == NULL ||
        what->name == NULL || (what->dst == NULL && what->bytes > 0) || strlen(what->container) > PS_CONTAINER_BYTES_MAX ||
        strlen(what->name) > PS_NAME_BYTES_MAX) {
        return PS_INVALID_ARGUMENT;
    }
    struct psd_reading *r = psi_calloc(1, sizeof(*r));
    if (r == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    (void)snprintf(r->container_text, sizeof(r->container_text), "%s", what->container);
    (void)snprintf(r->name_text, sizeof(r->name_text), "%s", what->name);
    if (what->key != NULL) {
        memcpy(r->key, what->key, sizeof(r->key));
    }
    r->done = done;
    r->ctx = ctx;
    r->copy = (struct psd_copy){.container = r->container_text,
                                .name = r->name_text,
                                .key = what->key != NULL ? r->key : NULL,
                                .dtype = what->dtype,
                                .dst = what->dst,
                                .bytes = what->bytes,
                                .done = read_done};
    if (what->struct_bytes >= sizeof(*what)) {
        r->copy.have_creation = what->have_creation;
        r->copy.have_version = what->have_version;
    }
    const ps_status st = ask_task(call, &call->calls->reads, &r->link, &r->copy.call);
    if (st != PS_OK) {
        psi_free(r);
    }
    return st;
}

static void writing_end(struct psd_writing *w, void *room, const struct psi_err *err)
{
    const psd_call_draft_result result = {.struct_bytes = sizeof(result),
                                          .status = err == NULL ? PS_OK : err->code,
                                          .reason = reason_of(err),
                                          .room = room,
                                          .version = w->publish.version,
                                          .error = err == NULL ? "" : err->text};
    psd_call_draft_fn done = w->done;
    void *ctx = w->ctx;
    done(ctx, &result);
    psi_free(w);
}

static void publish_done(struct psd_publish *publish, const struct psi_err *err)
{
    writing_end(PSI_CONTAINER_OF(publish, struct psd_writing, publish), NULL, err);
}

static ps_status writing_begin(psd_call *call, struct psd_writing *w, psd_call_draft_fn done, void *ctx)
{
    w->done = done;
    w->ctx = ctx;
    const ps_status st = ask_task(call, &call->calls->writes, &w->link, &w->publish.call);
    if (st != PS_OK) {
        psi_free(w);
    }
    return st;
}

static ps_status call_draft(psd_call *call, const psd_call_draft *what, psd_call_draft_fn done, void *ctx)
{
    if (call == NULL || what == NULL || done == NULL || what->struct_bytes < sizeof(*what) || what->container == NULL ||
        what->name == NULL || what->shape.rank > PS_RANK_MAX || strlen(what->container) > PS_CONTAINER_BYTES_MAX ||
        strlen(what->name) > PS_NAME_BYTES_MAX) {
        return PS_INVALID_ARGUMENT;
    }
    struct psd_writing *w = psi_calloc(1, sizeof(*w));
    if (w == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    (void)snprintf(w->container_text, sizeof(w->container_text), "%s", what->container);
    (void)snprintf(w->name_text, sizeof(w->name_text), "%s", what->name);
    if (what->key != NULL) {
        memcpy(w->key, what->key, sizeof(w->key));
    }
    w->what = (struct psd_draft_spec){.container = w->container_text,
                                      .name = w->name_text,
                                      .key = what->key != NULL ? w->key : NULL,
                                      .dtype = what->dtype,
                                      .shape = what->shape};
    return writing_begin(call, w, done, ctx);
}

static ps_status call_publish(psd_call *call, void *room, psd_call_draft_fn done, void *ctx)
{
    struct psd_writing *w = call != NULL && room != NULL && done != NULL ? psi_calloc(1, sizeof(*w)) : NULL;
    if (w == NULL) {
        return call != NULL && room != NULL && done != NULL ? PS_RESOURCE_EXHAUSTED : PS_INVALID_ARGUMENT;
    }
    w->publish.room = room;
    w->publish.done = publish_done;
    return writing_begin(call, w, done, ctx);
}

/* ---- compute thread ---- */

static void run_returned(struct psd_calls *c, struct psd_call *call, int st, size_t out_bytes, char *error)
{
    while (call->cancelling) {
        (void)pthread_cond_wait(&c->cancelled, &c->mutex);
    }
    if (st == PSD_CALL_PENDING && !call->finished) {
        move_call(call, CALL_PENDING, &c->pending);
        if (call->again) {
            call_queue(c, call);
        }
        return;
    }
    if (st != PSD_CALL_PENDING && call->finished) {
        (void)snprintf(error, PSI_ERR_TEXT_MAX, "it was finished, and run() ended it as well");
        call->reason = PS_REASON_NONE;
        note_end(call, PS_INTERNAL, 0, error);
    } else if (st != PSD_CALL_PENDING) {
        note_end(call, (ps_status)st, out_bytes, error);
    }
    call_over(c, call);
}

static void run_call(struct psd_calls *c, struct psd_call *call)
{
    char error[PSI_ERR_TEXT_MAX] = "";
    size_t out_bytes = 0;
    if (!call->begun && atomic_load(&call->cancelled)) {
        note_end(call, PS_CANCELLED, 0, "cancelled before it began");
        call_over(c, call);
        return;
    }
    const uint64_t begun_ns = now_ns();
    call->queued_ns = call->begun ? call->queued_ns : begun_ns - call->came_ns;
    call->begun = true;
    call->again = false;
    (void)pthread_mutex_unlock(&c->mutex);
    int st = (int)call->row->run(c->table.ctx, call, call->in, call->in_bytes, call->out, call->out_capacity, &out_bytes, error,
                                 sizeof(error));
    const uint64_t ended_ns = now_ns();
    error[sizeof(error) - 1] = '\0';
    (void)pthread_mutex_lock(&c->mutex);
    call->kernel_ns += ended_ns - begun_ns;
    run_returned(c, call, st, out_bytes, error);
}

static void *compute(void *arg)
{
    struct psd_calls *c = arg;
    (void)pthread_mutex_lock(&c->mutex);
    while (!c->threads_end) {
        struct psi_list *link = psi_list_first(&c->queue);
        if (link == NULL) {
            (void)pthread_cond_wait(&c->work, &c->mutex);
            continue;
        }
        struct psd_call *call = PSI_CONTAINER_OF(link, struct psd_call, link);
        move_call(call, CALL_RUNNING, &c->running);
        run_call(c, call);
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* ---- the task's thread ---- */

static struct psi_list *next_of(struct psd_calls *c, struct psi_list *list)
{
    (void)pthread_mutex_lock(&c->mutex);
    struct psi_list *link = psi_list_pop_front(list);
    (void)pthread_mutex_unlock(&c->mutex);
    return link;
}

static void writing_heard(struct psd_calls *c, struct psd_writing *w)
{
    void *room = NULL;
    struct psi_err err;
    if (w->publish.room != NULL) {
        c->task.publish(c->ctx, &w->publish);
    } else {
        const ps_status st = c->task.draft(c->ctx, w->publish.call, &w->what, &room, &err);
        writing_end(w, room, st == PS_OK ? NULL : &err);
    }
}

/* Take the next ended call out of `over`, to report its end to the core. NULL: there is none. */
static struct psd_call *next_over(struct psd_calls *c)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->over) {
        struct psd_call *call = PSI_CONTAINER_OF(it, struct psd_call, link);
        if (c->wake_open && (call->come == call->in_bytes || atomic_load(&call->cancelled))) {
            return call;
        }
    }
    return NULL;
}

static void on_wake(uv_async_t *async)
{
    struct psd_calls *c = async->data;
    struct psi_list *asked = NULL;
    while ((asked = next_of(c, &c->reads)) != NULL) {
        c->task.copy(c->ctx, &PSI_CONTAINER_OF(asked, struct psd_reading, link)->copy);
    }
    while ((asked = next_of(c, &c->writes)) != NULL) {
        writing_heard(c, PSI_CONTAINER_OF(asked, struct psd_writing, link));
    }
    for (;;) {
        (void)pthread_mutex_lock(&c->mutex);
        struct psd_call *call = next_over(c);
        (void)pthread_mutex_unlock(&c->mutex);
        if (call == NULL) {
            return;
        }
        c->task.finished(c->ctx, call->id, call->kernel_ns, call->status, call->status != PS_OK ? call->reason : PS_REASON_NONE,
                         call->out_bytes, call->error);
        (void)pthread_mutex_lock(&c->mutex);
        call->id = 0;
        move_call(call, CALL_FREE, &c->free_list);
        (void)pthread_mutex_unlock(&c->mutex);
    }
}

void psd_calls_open(struct psd_calls *c, uv_loop_t *loop, const struct psd_calls_task *task, void *ctx)
{
    c->task = *task;
    c->ctx = ctx;
    if (c->pool == NULL) {
        return;
    }
    int rc = uv_async_init(loop, &c->wake, on_wake);
    PSI_ASSERT(rc == 0); /* cannot fail: the loop has already opened the descriptor that uv_async_init() needs */
    c->wake.data = c;
    c->wake_open = true;
}

void psd_calls_attach(struct psd_calls *c, const psd_call_task *task)
{
    static const psd_call_functions functions = {.struct_bytes = sizeof(functions),
                                                 .cancelled = psd_call_cancelled,
                                                 .again = psd_call_again,
                                                 .finish = psd_call_finish,
                                                 .data = call_data,
                                                 .asker = call_asker,
                                                 .left_ms = call_left_ms,
                                                 .read = call_read,
                                                 .reason = call_reason,
                                                 .queued_ns = call_queued_ns,
                                                 .identity = call_identity,
                                                 .draft = call_draft,
                                                 .publish = call_publish,
                                                 .come = call_come};
    c->attached = true;
    if (c->table.attach != NULL) {
        c->table.attach(c->table.ctx, &functions, task);
    }
}

void psd_calls_detach(struct psd_calls *c)
{
    if (c->attached && c->table.detach != NULL) {
        c->table.detach(c->table.ctx);
    }
    c->attached = false;
}

static struct psd_call *call_find(struct psd_calls *c, uint64_t id)
{
    for (uint32_t i = 0; i < c->calls_max; i++) {
        if (c->pool[i].id == id) {
            return &c->pool[i];
        }
    }
    return NULL;
}

/* Call when the last input byte of an early call has come: enters run() again, or reports the end that the program has set. */
static void call_whole(struct psd_calls *c, struct psd_call *call)
{
    (void)pthread_mutex_lock(&c->mutex);
    call->come = call->in_bytes;
    if (call->state == CALL_PENDING) {
        call_queue(c, call);
    } else if (call->state == CALL_OVER) {
        PSI_IGNORE(uv_async_send(&c->wake)); /* fails for closing handles only */
    } else {
        call->again = call->begun;
    }
    (void)pthread_mutex_unlock(&c->mutex);
}

void psd_calls_run(struct psd_calls *c, const struct psd_effect *effect)
{
    struct psd_call *early =
        psd_call_row_is_early(&c->table, effect->call_row) && effect->kind == PSD_EFFECT_CALL ? call_find(c, effect->call) : NULL;
    if (early != NULL) {
        call_whole(c, early);
        return;
    }
    struct psi_list *link = psi_list_first(&c->free_list);
    /* there is a free record, because the core runs at most calls_max calls */
    PSI_ASSERT(link != NULL && effect->call_row < c->table.count);
    struct psd_call *call = PSI_CONTAINER_OF(link, struct psd_call, link);
    (void)pthread_mutex_lock(&c->mutex);
    call->id = effect->call;
    call->row = psd_call_row_of(&c->table, effect->call_row);
    call->in = effect->call_in;
    call->in_bytes = effect->call_in_bytes;
    call->come = effect->call_come;
    call->out = effect->call_out;
    call->out_capacity = effect->call_out_bytes;
    call->data = NULL;
    call->deadline_ms = effect->call_deadline_ms;
    call->came_ns = now_ns();
    (void)snprintf(call->asker, sizeof(call->asker), "%.127s", effect->text); /* a cut text is fine */
    call->asks = effect->call_asks;
    call->who = effect->call_who;
    psi_identity_text(&call->who, call->identity, sizeof(call->identity));
    call->begun = call->again = call->finished = false;
    call->kernel_ns = 0;
    call->reason = PS_REASON_NONE;
    atomic_store(&call->cancelled, false);
    const bool wakes = call_put(c, call);
    (void)pthread_mutex_unlock(&c->mutex);
    if (wakes) { /* after the unlock, so that the woken thread need not wait. c is valid: only this thread frees it */
        (void)pthread_cond_signal(&c->work);
    }
}

/* Cancel a call that has not ended. The caller holds the mutex, which is released while the program's cancel() runs. */
static void cancel_call(struct psd_calls *c, struct psd_call *call)
{
    atomic_store(&call->cancelled, true);
    if (!goes_on(call)) {
        return;
    }
    if (call->row->cancel != NULL) {
        call->cancelling = true;
        call->canceller = pthread_self();
        (void)pthread_mutex_unlock(&c->mutex);
        call->row->cancel(c->table.ctx, call);
        (void)pthread_mutex_lock(&c->mutex);
        call->cancelling = false;
        (void)pthread_cond_broadcast(&c->cancelled);
    } else if (call->state == CALL_PENDING) {
        call_queue(c, call);
    } else {
        call->again = true; /* enter run() again: perhaps the running one asked cancelled() before the call was cancelled */
    }
}

/* Cancel the call with this id; id 0: all calls. */
static void cancel_calls(struct psd_calls *c, uint64_t id)
{
    /* a walk over the array, because lists change while cancel_call() has the mutex unlocked */
    for (uint32_t i = 0; c->pool != NULL && i < c->calls_max; i++) {
        struct psd_call *call = &c->pool[i];
        if (call->id != 0 && (id == 0 || call->id == id) && call->state != CALL_OVER && !atomic_load(&call->cancelled)) {
            cancel_call(c, call);
        }
    }
}

void psd_calls_cancel(struct psd_calls *c, uint64_t id)
{
    (void)pthread_mutex_lock(&c->mutex);
    cancel_calls(c, id);
    struct psd_call *call = call_find(c, id);
    if (call != NULL && call->state == CALL_OVER && call->come < call->in_bytes) {
        atomic_store(&call->cancelled, true);
        PSI_IGNORE(uv_async_send(&c->wake)); /* fails for closing handles only */
    }
    (void)pthread_mutex_unlock(&c->mutex);
}

void psd_calls_close(struct psd_calls *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    bool open = c->wake_open;
    c->wake_open = false;
    c->stopping = true;
    cancel_calls(c, 0);
    (void)pthread_mutex_unlock(&c->mutex);
    struct psi_list *asked = NULL;
    struct psi_err err;
    while ((asked = next_of(c, &c->reads)) != NULL) {
        struct psd_reading *r = PSI_CONTAINER_OF(asked, struct psd_reading, link);
        /* read() has returned PS_OK, which promises its caller one call of done() */
        PSI_IGNORE(psi_fail(&err, PS_CANCELLED, "copy of '%s': the task ends", r->name_text));
        read_done(&r->copy, &err);
    }
    while ((asked = next_of(c, &c->writes)) != NULL) {
        PSI_IGNORE(psi_fail(&err, PS_CANCELLED, "a new value: the task ends")); /* draft() or publish() has promised this call */
        writing_end(PSI_CONTAINER_OF(asked, struct psd_writing, link), NULL, &err);
    }
    if (open) {
        uv_close((uv_handle_t *)&c->wake, NULL);
    }
}

void psd_calls_join(struct psd_calls *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    while (!psi_list_empty(&c->queue) || !psi_list_empty(&c->running) || !psi_list_empty(&c->pending)) {
        (void)pthread_cond_wait(&c->idle, &c->mutex);
    }
    c->threads_end = true;
    (void)pthread_cond_broadcast(&c->work);
    (void)pthread_mutex_unlock(&c->mutex);
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
    (void)pthread_cond_destroy(&c->idle);
    (void)pthread_cond_destroy(&c->cancelled);
    (void)pthread_cond_destroy(&c->work);
    (void)pthread_mutex_destroy(&c->mutex);
}
