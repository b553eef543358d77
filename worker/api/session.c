/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: options, opening and closing.
 *
 * Happy path: ps_session_open() checks the options and starts the core and its thread (worker/io.c); the program calls;
 * ps_session_close() refuses new calls, waits for what is in flight, says goodbye, ends the thread and frees everything. A
 * monitored session keeps its options, and a recovery (monitored.c) closes its io and opens another. Failure modes: bad options
 * (nothing is opened); in a forked child every call is refused and close frees nothing, because the thread is the parent's;
 * without memory for a session object ps_session_open_args() returns a static one that only has an error.
 */
#include "lock.h"
#include "monitored.h"
#include "queue.h"
#include "training.h"

#include "common/abi.h"
#include "common/mem.h"
#include "common/shape.h"
#include "common/name.h"
#include "worker/io_secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGET_DEFAULT "127.0.0.1:2222"

const char *ps_version(void)
{
    return PS_VERSION;
}

void ps_session_options_init(ps_session_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
    options->cluster_name = PSI_CLUSTER_NAME_DEFAULT;
    options->operation_timeout_ms = PS_OPERATION_TIMEOUT_MS;
    options->ready_timeout_ms = PS_READY_TIMEOUT_MS;
    options->progress = PS_PROGRESS_THREAD;
    options->log_level = PS_LOG_INFO;
    options->spin_us = PSI_IO_SPIN_US;
}

static ps_status options_copy(const ps_session_options *from, ps_session_options *to, struct psi_err *err)
{
    ps_session_options_init(to);
    if (from == NULL) {
        return PS_OK;
    }
    ps_status st = psi_struct_take(from, to, sizeof(*to), "ps_session_options_init", err);
    if (st != PS_OK) {
        psi_err_prefix(err, "options");
    }
    return st;
}

static int64_t start_timeout_ms(const ps_session_options *o)
{
    const int64_t ms = o->start_timeout_ms;
    return ms > 0 && ms < o->ready_timeout_ms ? ms : o->ready_timeout_ms;
}

static ps_status options_check(const ps_session_options *o, struct psi_err *err)
{
    if (o->progress != PS_PROGRESS_THREAD && o->progress != PS_PROGRESS_CALLER) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "progress: %d is none of PS_PROGRESS_*", (int)o->progress);
    }
    if (o->operation_timeout_ms <= 0 || o->ready_timeout_ms <= 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %lld ms is not > 0",
                        o->operation_timeout_ms <= 0 ? "operation_timeout_ms" : "ready_timeout_ms",
                        (long long)(o->operation_timeout_ms <= 0 ? o->operation_timeout_ms : o->ready_timeout_ms));
    }
    if (o->spin_us > PSI_IO_SPIN_US_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "spin_us: %u is more than %d", o->spin_us, PSI_IO_SPIN_US_MAX);
    }
    if (o->compute_threads > PSI_COMPUTE_THREADS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "compute_threads: %u is more than %d", o->compute_threads,
                        PSI_COMPUTE_THREADS_MAX);
    }
    if (o->wire_dtype != PS_DTYPE_NONE && !psi_wire_fits(PS_F32, (uint32_t)o->wire_dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "wire_dtype: %s; allowed are bfloat16, float16 and float32",
                        ps_dtype_name(o->wire_dtype));
    }
    if (o->log_level < PS_LOG_DEBUG || o->log_level > PS_LOG_ERROR) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "log_level: %d is none of PS_LOG_*", (int)o->log_level);
    }
    if (o->cluster_name != NULL && o->cluster_name[0] != '\0') {
        ps_status st = psi_cluster_name_check(o->cluster_name, strlen(o->cluster_name), err);
        if (st != PS_OK) {
            psi_err_prefix(err, "cluster_name");
            return st;
        }
    }
    if (o->job != NULL && o->job[0] != '\0') {
        ps_status st = psi_job_name_check(o->job, strlen(o->job), err);
        if (st != PS_OK) {
            psi_err_prefix(err, "job");
            return st;
        }
    }
    if (o->container != NULL) {
        ps_status st = psi_container_name_check(o->container, strlen(o->container), err);
        if (st != PS_OK) {
            psi_err_prefix(err, "container");
            return st;
        }
    }
    return PS_OK;
}

/* Set cluster and target from the options. If the options have neither a target nor a cluster spec, the target is $PSD_TARGET or
 * TARGET_DEFAULT. If they have only a spec, the target is "". */
static ps_status options_where(const ps_session_options *o, struct psi_cluster *cluster, char *target, size_t target_bytes,
                               struct psi_err *err)
{
    const char *job = o->job == NULL ? "" : o->job;
    ps_status st = PS_OK;
    if (o->cluster_name != NULL && o->cluster_name[0] != '\0') {
        st = psi_cluster_set_name(cluster, o->cluster_name, err);
    }
    if (st == PS_OK && o->cluster_spec != NULL) {
        st = psi_cluster_load(cluster, o->cluster_spec, err);
    }
    if (st == PS_OK && o->target == NULL && psi_cluster_job_index(cluster, "ps") >= 0 &&
        psi_cluster_num_tasks(cluster, "ps") == 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "cluster_spec: job ps has no tasks: list them, or give the target, a task that serves");
    }
    if (st != PS_OK) {
        return st;
    }
    if (psi_cluster_num_tasks(cluster, job) > 0 && psi_cluster_task_address(cluster, job, o->task_index) == NULL) {
        char list[PSI_TASK_LIST_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "task_index: job %s has %u tasks: %s; there is no task %u", job,
                        psi_cluster_num_tasks(cluster, job), psi_cluster_task_list(cluster, job, list, sizeof(list)),
                        o->task_index);
    }
    const char *text = o->target;
    const char *from = "target";
    if (text == NULL && o->cluster_spec == NULL) {
        text = getenv("PSD_TARGET");
        from = "PSD_TARGET";
        if (text == NULL || text[0] == '\0') {
            text = TARGET_DEFAULT;
        }
    }
    target[0] = '\0';
    if (text != NULL) {
        struct psi_address address;
        st = psi_address_parse(text, false, &address, err);
        if (st != PS_OK && strchr(text, ',') != NULL) {
            st = psi_fail(err, PS_INVALID_ARGUMENT,
                          "'%.200s' is several; a session takes one, any task of the cluster (psctl alone takes the first of "
                          "several that answers)",
                          text);
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "%s", from);
            return st;
        }
        (void)psi_address_format(&address, target, target_bytes);
    }
    return PS_OK;
}

static void program_name(const ps_session_options *o, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s", o->program == NULL ? "" : o->program);
    if (o->program != NULL) {
        return;
    }
    FILE *comm = fopen("/proc/self/comm", "re");
    if (comm == NULL) {
        return;
    }
    if (fgets(buf, (int)n, comm) != NULL) {
        buf[strcspn(buf, "\n")] = '\0';
    }
    (void)fclose(comm);
}

/* The options that the core needs to connect, and the memory that they point to. */
struct psi_opening {
    struct psi_cluster cluster;
    char target[PS_ADDRESS_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char program[64];
    char host[PS_HOST_BYTES_MAX + 1];
    struct psi_io_config config;
};

static void opening_free(struct psi_opening *opening)
{
    if (opening != NULL) {
        psi_cluster_fini(&opening->cluster);
        psi_free(opening);
    }
}

static void session_free(ps_session *s)
{
    if (s->plans_free != NULL) {
        s->plans_free(s);
    }
    psi_api_steps_free(s);
    psi_api_params_free(s);
    psi_api_compute_close(s);
    psi_api_gets_free(s);
    struct psi_list *it;
    psi_list_move_all(&s->variables, &s->wholes);
    while ((it = psi_list_pop_front(&s->variables)) != NULL) {
        ps_variable *v = PSI_CONTAINER_OF(it, ps_variable, link);
        psi_free(v->parts);
        psi_free(v);
    }
    psi_api_queues_free(s);
    opening_free(s->monitor != NULL ? s->monitor->opening : NULL);
    psi_monitor_free(s->monitor);
    psi_api_hooks_free(&s->hooks);
    psi_secure_free(s->secure);
    psi_free(s->tasks);
    psi_scopes_fini(&s->scopes);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->log_lock);
    (void)pthread_mutex_destroy(&s->lock);
    psi_free(s);
}

/* psi_io_config.stop: ps_should_stop() becomes true from now on; blocking calls continue. */
static void on_stop_asked(void *ctx)
{
    (void)psi_api_tell(ctx, PSI_ON_STOP, PSI_STOP_ASKED);
}

static ps_status opening_new(ps_session *s, const ps_session_options *o, struct psi_opening **out_opening, struct psi_err *err)
{
    struct psi_opening *opening = psi_calloc(1, sizeof(*opening));
    if (opening == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    }
    psi_cluster_init(&opening->cluster);
    ps_status st = options_where(o, &opening->cluster, opening->target, sizeof(opening->target), err);
    st = st == PS_OK ? psi_secure_new(o, &s->secure, err) : st;
    if (st != PS_OK) {
        opening_free(opening);
        return st;
    }
    (void)snprintf(opening->cluster_name, sizeof(opening->cluster_name), "%s", o->cluster_name == NULL ? "" : o->cluster_name);
    program_name(o, opening->program, sizeof(opening->program));
    if (gethostname(opening->host, sizeof(opening->host) - 1) != 0) {
        (void)snprintf(opening->host, sizeof(opening->host), "unknown");
    }
    opening->config = (struct psi_io_config){
        .client = {.cluster = opening->cluster.job_count > 0 ? &opening->cluster : NULL,
                   .target = opening->target[0] == '\0' ? NULL : opening->target,
                   .cluster_name = opening->cluster_name,
                   .job = s->job,
                   .task = s->task,
                   .container = s->scopes.container,
                   .host = opening->host,
                   .program = opening->program,
                   .pid = (uint32_t)s->pid,
                   .operation_timeout_ms = s->operation_timeout_ms,
                   .ready_timeout_ms = s->ready_timeout_ms,
                   .reach = &s->reach,
                   .start_timeout_ms = s->start_timeout_ms,
                   .seed = s->seed,
                   .fail_fast = o->fail_fast,
                   .wire_dtype = o->wire_dtype,
                   .said = psi_api_said,
                   .said_ctx = s},
        .log = psi_api_log_core,
        .log_ctx = s,
        .stop = on_stop_asked,
        .poked = psi_api_poked,
        .drained = psi_api_drained,
        .by_caller = s->by_caller,
        .spin_us = o->spin_us,
        .tls = psi_secure_tls,
        .tls_ctx = s->secure,
    };
    *out_opening = opening;
    return PS_OK;
}

/* Set s->io, and return the io before. io NULL: waits first until no thread uses the one before. */
static struct psi_io *exchange_io(ps_session *s, struct psi_io *io)
{
    (void)pthread_mutex_lock(&s->lock);
    while (io == NULL && (s->in_flight > 0 || s->inside > 0 || s->driving)) {
        psi_api_wait(s, NULL, s->in_flight > 0); /* requests in flight need the loop; `inside` falls without it */
    }
    struct psi_io *before = s->io;
    s->io = io;
    s->driving = io == NULL; /* so that no thread tries to run a loop that is gone */
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
    return before;
}

ps_status psi_api_io_open(ps_session *s, const struct psi_opening *opening, struct psi_err *err)
{
    struct psi_io *io = NULL;
    struct psi_io_config config = opening->config;
    config.client.chief_mode = s->monitor != NULL ? PSI_CHIEF_LEASE : PSI_CHIEF_STATIC;
    config.client.chief_number = s->machine.chief_number;
    ps_status st = psi_io_open(&config, &io, err);
    if (st == PS_OK) {
        PSI_IGNORE(exchange_io(s, io)); /* there was none */
    }
    return st;
}

/* Open the first io of the session. A monitored session keeps the struct psi_opening for its recoveries. */
static ps_status open_first(ps_session *s, const ps_session_options *o, struct psi_err *err)
{
    struct psi_opening *opening = NULL;
    ps_status st = opening_new(s, o, &opening, err);
    st = st == PS_OK ? psi_api_io_open(s, opening, err) : st;
    s->opened = st == PS_OK ? PSI_OPENED : PSI_OPENED_NOT;
    if (s->monitor != NULL) {
        s->monitor->opening = opening;
    } else {
        opening_free(opening);
    }
    return st;
}

ps_status psi_api_open(const ps_session_options *options, struct psi_monitor *monitor, ps_session **out_session,
                       struct psi_err *err)
{
    ps_session_options o;
    ps_status st = options_copy(options, &o, err);
    if (st == PS_OK) {
        st = options_check(&o, err);
    }
    ps_session *s = st == PS_OK ? psi_calloc(1, sizeof(*s)) : NULL;
    if (s == NULL) {
        psi_monitor_free(monitor);
        return st != PS_OK ? st : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    }
    psi_api_session_init(s);
    s->monitor = monitor;
    s->machine.monitored = monitor != NULL;
    if (monitor != NULL) {
        s->machine.recoveries_max = monitor->options.max_recoveries;
        monitor->options.checkpoint_dir = NULL; /* the program's text is borrowed only during the opening */
    }
    (void)snprintf(s->job, sizeof(s->job), "%s", o.job == NULL ? "" : o.job);
    s->task = o.task_index;
    s->by_caller = o.progress == PS_PROGRESS_CALLER;
    s->operation_timeout_ms = o.operation_timeout_ms;
    s->ready_timeout_ms = o.ready_timeout_ms;
    s->start_timeout_ms = start_timeout_ms(&o);
    s->log_level = o.log_level;
    s->log = o.log;
    s->log_ctx = o.log_ctx;
    s->seed = o.seed;
    s->allow_soft_placement = o.allow_soft_placement;
    s->log_device_placement = o.log_device_placement;
    s->train.prefetch = o.prefetch;
    s->placement_log = o.placement_log != NULL ? o.placement_log : o.log;
    s->placement_log_ctx = o.placement_log != NULL ? o.placement_log_ctx : o.log_ctx;
    if (o.container != NULL) {
        (void)snprintf(s->scopes.container, sizeof(s->scopes.container), "%s", o.container);
    }
    st = psi_api_compute_open(s, o.compute_device, o.compute_threads, err);
    st = st == PS_OK ? open_first(s, &o, err) : st;
    if (st != PS_OK) {
        session_free(s);
        return st;
    }
    *out_session = s;
    return PS_OK;
}

ps_status ps_session_open(const ps_session_options *options, ps_session **out_session, char *error, size_t error_bytes)
{
    struct psi_err err = {0};
    ps_status st = out_session == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_session is NULL")
                                       : psi_api_open(options, NULL, out_session, &err);
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    return psi_api_result(&err, st);
}

ps_status ps_monitored_open(const ps_session_options *options, const ps_monitored_options *o, ps_session **out_session,
                            char *error, size_t error_bytes)
{
    struct psi_err err = {0};
    struct psi_monitor *m = NULL;
    ps_status st =
        out_session == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_session is NULL") : psi_monitor_new(o, &m, &err);
    const char *checkpoint_dir = st == PS_OK ? m->options.checkpoint_dir : NULL;
    st = st == PS_OK ? psi_api_open(options, m, out_session, &err) : st;
    if (st == PS_OK) {
        psi_api_asks_for_checkpoints(*out_session, checkpoint_dir);
    }
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    return psi_api_result(&err, st);
}

struct hasten {
    struct psi_io_work work;
    ps_session *session;
    int64_t ms;
    bool over;   /* under the lock: the loop has done the work */
    bool landed; /* nothing is in flight, and no thread of a device uses the session */
};

static void hasten(struct psi_io_work *work, struct psi_client *c)
{
    struct hasten *h = PSI_CONTAINER_OF(work, struct hasten, work);
    ps_session *s = h->session;
    psi_client_hasten(c, psi_api_deadline_ms(s, h->ms));
    psi_api_landed(s, &h->over, NULL);
}

/* True if nothing is in flight any more. Also true, once the loop has run hasten(), if this thread's call was interrupted. */
static bool is_over(ps_session *s, void *hasten)
{
    struct hasten *h = hasten;
    h->landed = s->in_flight == 0 && s->train.fetching == 0;
    return h->landed || (h->over && psi_api_interrupted(s, NULL) != PS_OK);
}

bool psi_api_hurry(ps_session *s, int64_t ms)
{
    struct hasten work = {.work.run = hasten, .session = s, .ms = ms};
    if (!psi_api_hand_over(s, &work.work)) {
        return true;
    }
    (void)psi_api_await(s, is_over, &work, PSI_WAIT_DRIVES); /* also waits until `work`, on this stack, has run */
    return work.landed;
}

static bool has_none(ps_session *s, void *count)
{
    (void)s;
    return *(const uint32_t *)count == 0;
}

void psi_api_part(ps_session *s, bool leaves, int64_t ms)
{
    struct psi_api_call call = {
        .session = s, .timeout_ms = ms, .when_closing = true, .req = {.kind = leaves ? PSI_REQ_GOODBYE : PSI_REQ_BEAT}};
    /* ignored: without a GOODBYE the session leaves its training when its lease ends, and tasks forget it after the time
     * `session_keep` */
    PSI_IGNORE(psi_api_call_run(&call, NULL));
}

void psi_api_io_close(ps_session *s)
{
    struct psi_io *io = exchange_io(s, NULL);
    psi_api_await_poking(s);
    psi_io_close(io);
}

/* End the waits of all calls with CANCELLED, because the session is left or closed. */
static void end_calls(ps_session *s)
{
    atomic_store(&s->ends, true);
    psi_api_interrupt(s);
}

void ps_session_leave(ps_session *s)
{
    if (psi_api_check(s, true, NULL) != PS_OK) {
        return;
    }
    (void)psi_api_tell(s, PSI_ON_LEAVE, 0);
    /* the session leaves the rounds without ps_sync_finish(), so the other members treat it as lost */
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_LEFT});
    end_calls(s);
    psi_api_part(s, true, PSI_GOODBYE_MS);
}

/* Wait until the calls of other threads have returned. Requests for which no thread waits continue. */
static void wait_for_users(ps_session *s)
{
    uint32_t users = 0;
    psi_api_copy(s, &users, &s->users, sizeof(users));
    if (users > 0) {
        psi_api_hurry(s, psi_api_tell(s, PSI_IS_RECOVERING, 0) != 0 ? PSI_GOODBYE_MS : 0);
    }
    (void)psi_api_await(s, has_none, &s->users, PSI_WAIT_ASLEEP);
    (void)psi_api_tell(s, PSI_ON_QUIET, 0);
}

/* Condition for psi_api_await(). When no gradient is on its way from a device any more, refuse further calls and return true.
 * Before that the session must stay open, because a closed session would refuse the gradient's push. */
static bool closes(ps_session *s, void *none)
{
    (void)none;
    if (s->train.fetching > 0) {
        return false;
    }
    const struct psi_who who = psi_api_who(s);
    (void)psi_session_event(&s->machine, &who, PSI_ON_CLOSE, 0);
    psi_api_wake(s);
    return true;
}

int ps_session_close(ps_session *s)
{
    if (s == NULL) {
        return 0;
    }
    if (!psi_api_here(s) || psi_io_on_loop(s->io)) {
        struct psi_err err = {0};
        PSI_IGNORE(psi_api_check(s, true, &err)); /* fails, because this is a forked child or a callback */
        return (int)psi_api_last_error_set(&err);
    }
    const bool restores = psi_monitor_in_restore(s);
    if (restores || psi_api_hook_event(s, PSI_IN_HOOK) != 0) {
        struct psi_err err = {0};
        (void)psi_fail(&err, PS_FAILED_PRECONDITION, "ps_session_close() cannot be called in %s",
                       restores ? "the restore function" : "a hook");
        return (int)psi_api_last_error_set(&err);
    }
    end_calls(s);                                    /* also ends calls in another thread's hook, which the next line awaits */
    PSI_IGNORE(psi_api_hooks_call(s, PSI_HOOK_END)); /* returned below, as the session's error */
    (void)psi_api_await(s, closes, NULL, PSI_WAIT_DRIVES);
    end_calls(s); /* ends calls that have begun since; no further call begins */
    wait_for_users(s);
    if (s->io != NULL) {
        psi_api_hurry(s, 0);
        psi_api_sync_leave(s);
        int64_t left_ms = psi_api_left_ms(s, 0);
        psi_api_part(s, true, left_ms < PSI_GOODBYE_MS ? left_ms : PSI_GOODBYE_MS);
        psi_api_io_close(s);
    }
    psi_trace_close(s);
    int code = (int)s->machine.error.code;
    if (s->opened != PSI_OPENED_STATIC) {
        session_free(s);
    }
    return code;
}
