/* SPDX-License-Identifier: Apache-2.0 */
/* ps_plan_start(): runs a plan on a thread of the session.
 *
 * Happy path: ps_plan_start() copies the arguments, puts the run into the session's queue, and creates a thread for it unless the
 * session has PS_PLAN_THREADS_MAX threads. A thread takes the oldest run and runs the plan as ps_plan_run() does; it ends when
 * the queue is empty. After each run the loop thread permits the plan's next run, then calls the callback. Failure modes: an
 * error in the arguments is returned, and the callback is not called; all other errors go to the callback, also if the system
 * creates no thread.
 *
 * Closing the session waits for the threads (ps_session.users) and for the callbacks (ps_session.in_flight). */
#include "plan.h"

#include "worker/api/lock.h"

#include "common/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct started {
    struct psi_io_work work;
    struct psi_list link; /* in session->plan_runs until a thread takes the run */
    unsigned interrupts;  /* how often the session was interrupted before this run was started: a later interrupt ends the run */
    struct psi_trip trip; /* points to the copies below */
    ps_feed *feeds;
    ps_value *fetches;
    char *trace_file;
    ps_plan_done_fn done;
    void *ctx;
    ps_status status;
    struct psi_err err;
};

static void started_free(struct started *run)
{
    if (run != NULL) {
        psi_free(run->feeds);
        psi_free(run->fetches);
        psi_free(run->trace_file);
        psi_free(run);
    }
}

/* Loop thread, after a run: let the plan's next run begin, and call the program's callback with the outcome. */
static void end(struct psi_io_work *work, struct psi_client *c)
{
    struct started *run = PSI_CONTAINER_OF(work, struct started, work);
    ps_plan *p = run->trip.plan;
    ps_session *s = p->session;
    (void)c;
    psi_plan_run_end_calling(p);
    const bool failed = run->status != PS_OK;
    const ps_plan_result result = {.struct_bytes = sizeof(result),
                                   .status = run->status,
                                   .applied = failed ? run->err.applied : PS_NOTHING_APPLIED,
                                   .reason = failed ? psi_reason(run->err.reason, run->err.code) : PS_REASON_NONE,
                                   .text = failed ? run->err.text : ""};
    run->done(run->ctx, p, &result);
    psi_plan_called(p);
    started_free(run);
    psi_api_landed(s, NULL, NULL);
}

static void execute(struct started *run)
{
    const ps_session *s = run->trip.plan->session;
    PSI_API_VISIT(run->trip.plan->session);
    run->status = psi_api_interrupted_since(s, run->interrupts, &run->err);
    run->status = run->status == PS_OK ? psi_plan_execute(&run->trip, &run->err) : run->status;
    if (run->status != PS_OK) {
        psi_err_prefix(&run->err, "ps_plan_start");
    }
}

/* Call under the session's lock when a thread for runs ends: counts the thread no longer, and wakes ps_session_close(). */
static void thread_over(ps_session *s)
{
    s->plan_threads--;
    s->users--;
    psi_api_wake(s);
}

/* Take the oldest waiting run. NULL: there is none, and the thread must end. */
static struct started *next_run(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct psi_list *link = psi_list_pop_front(&s->plan_runs);
    if (link == NULL) {
        thread_over(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return link != NULL ? PSI_CONTAINER_OF(link, struct started, link) : NULL;
}

static void *thread_main(void *arg)
{
    ps_session *s = arg;
    for (struct started *run = next_run(s); run != NULL; run = next_run(s)) {
        execute(run);
        psi_io_submit(s->io, &run->work); /* from here on the loop thread owns run */
    }
    return NULL;
}

/* Create a thread that executes waiting runs and, like all threads of the library, blocks all signals. Returns 0 or an errno. */
static int thread_start(ps_session *s)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* cannot fail with these arguments */
    int rc = pthread_attr_init(&attributes);
    if (rc == 0) {
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        rc = pthread_create(&thread, &attributes, thread_main, s);
        (void)pthread_attr_destroy(&attributes);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Call when thread_start() has failed with the errno rc: the thread counts no longer. If no other thread of the session is left
 * to take them, the waiting runs fail with RESOURCE_EXHAUSTED. */
static void thread_lacks(ps_session *s, int rc)
{
    struct psi_list failed;
    struct psi_list *it = NULL;
    psi_list_init(&failed);
    (void)pthread_mutex_lock(&s->lock);
    if (s->plan_threads == 1) {
        psi_list_move_all(&failed, &s->plan_runs);
    }
    while ((it = psi_list_pop_front(&failed)) != NULL) {
        struct started *run = PSI_CONTAINER_OF(it, struct started, link);
        run->status = psi_fail(&run->err, PS_RESOURCE_EXHAUSTED, "ps_plan_start: no thread for the run: %s", strerror(rc));
        psi_io_submit(s->io, &run->work);
    }
    thread_over(s);
    (void)pthread_mutex_unlock(&s->lock);
}

static ps_status copy(struct started *run, struct psi_err *err)
{
    struct psi_trip *t = &run->trip;
    const char *file = t->options.trace_file;
    run->feeds = psi_calloc(t->feed_count + 1, sizeof(*run->feeds));
    run->fetches = psi_calloc(t->fetch_count + 1, sizeof(*run->fetches));
    run->trace_file = file != NULL ? psi_strndup(file, strlen(file)) : NULL;
    if (run->feeds == NULL || run->fetches == NULL || (file != NULL && run->trace_file == NULL)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu feeds and %zu fetches", t->feed_count, t->fetch_count);
    }
    if (t->feed_count > 0) {
        memcpy(run->feeds, t->feeds, t->feed_count * sizeof(*run->feeds));
    }
    if (t->fetch_count > 0) {
        memcpy(run->fetches, t->fetches, t->fetch_count * sizeof(*run->fetches));
    }
    t->feeds = run->feeds;
    t->fetches = run->fetches;
    t->options.trace_file = run->trace_file;
    return PS_OK;
}

/* Put the run into the session's queue, for a thread to take. Closing the session then waits for the run's end. */
static ps_status join_queue(struct started *run, struct psi_err *err)
{
    ps_session *s = run->trip.plan->session;
    bool needs_thread = false;
    (void)pthread_mutex_lock(&s->lock);
    const ps_status st = psi_api_may_start(s, err);
    if (st == PS_OK) {
        s->in_flight++;
        psi_list_push_back(&s->plan_runs, &run->link);
        needs_thread = s->plan_threads < PS_PLAN_THREADS_MAX;
        s->plan_threads += needs_thread ? 1 : 0;
        s->users += needs_thread ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&s->lock);
    const int rc = needs_thread ? thread_start(s) : 0; /* `run` must not be used from here on: it may have ended and been freed */
    if (rc != 0) {
        thread_lacks(s, rc);
    }
    return st;
}

/* Start the run; the caller has called psi_plan_run_begin(). */
static ps_status start(struct started *run, struct psi_err *err)
{
    const ps_plan *p = run->trip.plan;
    if (p->error.code != PS_OK) {
        *err = p->error;
        return err->code;
    }
    ps_status st = copy(run, err);
    return st == PS_OK ? join_queue(run, err) : st;
}

ps_status ps_plan_start(ps_plan *p, const ps_feed *feeds, size_t feed_count, const ps_value *fetches, size_t fetch_count,
                        ps_fetched *outs, const ps_run_options *options, ps_plan_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    struct psi_trip t = {
        .plan = p, .feeds = feeds, .feed_count = feed_count, .fetches = fetches, .fetch_count = fetch_count, .outs = outs};
    struct started *run = NULL;
    ps_status st = psi_plan_arguments(&t, options, &err);
    if (st == PS_OK && done == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "done is NULL");
    }
    if (st == PS_OK && p->session->by_caller) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION,
                      "the session makes no thread (PS_PROGRESS_CALLER): call ps_plan_run(), on a thread of the program's own");
    }
    if (st == PS_OK) {
        run = psi_calloc(1, sizeof(*run));
        st = run != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a run");
    }
    if (st == PS_OK) {
        *run =
            (struct started){.work.run = end, .interrupts = psi_api_interrupts(p->session), .trip = t, .done = done, .ctx = ctx};
        run->trip.until_ms = psi_api_deadline_ms(p->session, t.options.timeout_ms); /* waiting in the queue counts */
        psi_list_init(&run->work.link);
        psi_list_init(&run->link);
        st = psi_plan_run_begin(p, false, &err);
        if (st == PS_OK) {
            st = start(run, &err);
            if (st != PS_OK) {
                psi_plan_run_end(p);
            }
        }
    }
    if (st != PS_OK) {
        started_free(run);
        psi_err_prefix(&err, "ps_plan_start");
    }
    return psi_api_result(&err, st);
}
