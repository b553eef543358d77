/* SPDX-License-Identifier: Apache-2.0 */
/* A session from the command line: the flags of a TensorFlow trainer, TF_CONFIG, the variables of a cluster manager, PSD_TARGET.
 * Happy path: psi_options takes the flags out of argv -> the cluster comes from --cluster, or --ps_hosts and --worker_hosts, or
 * TF_CONFIG, or the target -> the job is checked against the cluster -> ps_session_open(). Failure modes: a failure gives a
 * session that only has the logged error, so a program needs no check. --help prints to standard output and gives a session for
 * which ps_should_stop() is true and ps_session_close() returns 0. */
#include "monitored.h"

#include "common/mem.h"
#include "common/msg.h"
#include "common/options.h"
#include "common/resolve/resolve.h"
#include "worker/io_secure.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS_BYTES_MAX = 64 << 10, SPEC_BYTES_MAX = 1 << 20, HELP_BYTES_MAX = 64 << 10, JOBS_TEXT_MAX = 400 };
enum { PATH_BYTES_MAX = 767 }; /* longest path in bytes, as in psd's settings */

struct args {
    char cluster[HOSTS_BYTES_MAX + 1];
    ps_resolver_options resolver; /* options of the cluster manager, if `cluster` names one */
    char ps_hosts[HOSTS_BYTES_MAX + 1];
    char worker_hosts[HOSTS_BYTES_MAX + 1];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job_name[PS_JOB_BYTES_MAX + 1];
    char target[PS_ADDRESS_BYTES_MAX + 7]; /* psd://..., or grpc://... without a path */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    int64_t task_index, steps, seed, timeout_ms;
    int log_level;
    bool allow_soft_placement, log_device_placement, prefetch, fresh;
    int placement;  /* index in placements */
    int wire_dtype; /* index in wire_dtypes */
    bool sync;
    int64_t sync_workers, replicas, staleness;
    int on_worker_loss; /* a ps_worker_loss, which is also the index in losses */
    char device[32];
    int64_t threads;
    char checkpoint_dir[PATH_BYTES_MAX + 1];
    char key_file[PATH_BYTES_MAX + 1];
    char tls_cert[PATH_BYTES_MAX + 1];
    char tls_key[PATH_BYTES_MAX + 1];
    char tls_ca[PATH_BYTES_MAX + 1];
    bool help;
};

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const wire_dtypes[] = {"float32", "bfloat16", "float16", NULL};
static const ps_dtype wire_dtype_numbers[] = {PS_F32, PS_BF16, PS_F16};

static const char *const placements[] = {"round_robin", "balanced", NULL};
static const char *const losses[] = {"wait", "shrink", "fail", NULL};

enum row {
    ROW_CLUSTER,
    ROW_PS_HOSTS,
    ROW_WORKER_HOSTS,
    ROW_CLUSTER_NAME,
    ROW_JOB_NAME,
    ROW_TASK_INDEX,
    ROW_TARGET,
    ROW_CONTAINER,
    ROW_STEPS,
    ROW_SEED,
    ROW_TIMEOUT,
    ROW_LOG_LEVEL,
    ROW_ALLOW_SOFT_PLACEMENT,
    ROW_LOG_DEVICE_PLACEMENT,
    ROW_WIRE_DTYPE,
    ROW_PREFETCH,
    ROW_PLACEMENT,
    ROW_FRESH,
    ROW_SYNC,
    ROW_SYNC_WORKERS,
    ROW_REPLICAS,
    ROW_ON_WORKER_LOSS,
    ROW_STALENESS,
    ROW_DEVICE,
    ROW_THREADS,
    ROW_CHECKPOINT_DIR,
    ROW_KEY_FILE,
    ROW_TLS_CERT,
    ROW_TLS_KEY,
    ROW_TLS_CA,
#define ROW_OF(name_, ...) ROW_resolver_##name_,
    PSI_RESOLVER_ROWS(ROW_OF) ROW_HELP,
    ROW_COUNT
};

/* default_: the default as text; ...: further fields of struct psi_option */
#define FLAG(row_, name_, field_, type_, default_, help_, ...)                                                                   \
    [row_] = {.name = (name_),                                                                                                   \
              PSI_OPTION_FIELD(struct args, field_),                                                                             \
              .type = PSI_OPTION_##type_,                                                                                        \
              .default_text = (default_),                                                                                        \
              .help = (help_),                                                                                                   \
              __VA_ARGS__}
static const struct psi_option rows[] = {
    FLAG(ROW_CLUSTER, "cluster", cluster, STRING, "",
         "all tasks: ps=HOST:PORT,...;worker=HOST:PORT,... or the same as JSON or a Python literal, or @FILE; instead of the two "
         "below. slurm, mpi, kubernetes, torchrun, env (TF_CONFIG) or auto: variables of the environment say it, and the task",
         .metavar = "SPEC", .lines = true, .max = HOSTS_BYTES_MAX),
    FLAG(ROW_PS_HOSTS, "ps_hosts", ps_hosts, STRING, "", "addresses of the ps tasks, task 0 first", .metavar = "HOST:PORT,...",
         .max = HOSTS_BYTES_MAX),
    FLAG(ROW_WORKER_HOSTS, "worker_hosts", worker_hosts, STRING, "", "addresses of the workers; they need not listen",
         .metavar = "HOST:PORT,...", .max = HOSTS_BYTES_MAX),
    FLAG(ROW_CLUSTER_NAME, "cluster_name", cluster_name, STRING, "",
         "what the cluster is called (psd --cluster_name); a task of another one is refused", .metavar = "NAME",
         .max = PS_JOB_BYTES_MAX),
    FLAG(ROW_JOB_NAME, "job_name", job_name, STRING, "",
         "job of this process: worker, chief (or master), or evaluator, which is no trainer", .metavar = "JOB",
         .max = PS_JOB_BYTES_MAX),
    FLAG(ROW_TASK_INDEX, "task_index", task_index, INT, "0", "task of this process in its job", .max = PS_TASKS_MAX - 1),
    FLAG(ROW_TARGET, "target", target, STRING, "",
         "any task of the cluster, which knows the others, also psd://HOST:PORT, grpc://HOST:PORT (the same address) and "
         "unix:PATH; PSD_TARGET and then 127.0.0.1:2222 where nothing else says where the "
         "cluster is",
         .metavar = "HOST:PORT", .max = PS_ADDRESS_BYTES_MAX + 6),
    FLAG(ROW_CONTAINER, "container", container, STRING, PSI_CONTAINER_DEFAULT,
         "of the variables: programs with different ones never meet", .metavar = "NAME", .min = 1, .max = PS_CONTAINER_BYTES_MAX),
    FLAG(ROW_STEPS, "steps", steps, INT, "0", "global step to stop at; 0 leaves it to the program", .max = INT64_MAX),
    FLAG(ROW_SEED, "seed", seed, INT, "0", "of initializers and of what the program draws", .max = INT64_MAX),
    FLAG(ROW_TIMEOUT, "timeout", timeout_ms, DURATION, "60s",
         "how long an operation may take, and the first connection to a task", .unit = "s", .min = 1,
         .max = (int64_t)86400 * 1000),
    FLAG(ROW_LOG_LEVEL, "log_level", log_level, ENUM, "info", "least important lines that are logged", .choices = log_levels),
    FLAG(ROW_ALLOW_SOFT_PLACEMENT, "allow_soft_placement", allow_soft_placement, BOOL, "false",
         "a device that a task lacks becomes its CPU:0"),
    FLAG(ROW_LOG_DEVICE_PLACEMENT, "log_device_placement", log_device_placement, BOOL, "false",
         "say for each variable where it is"),
    FLAG(ROW_WIRE_DTYPE, "wire_dtype", wire_dtype, ENUM, "float32",
         "how float32 gradients and values travel; the others halve the bytes and round", .choices = wire_dtypes),
    FLAG(ROW_PREFETCH, "prefetch", prefetch, BOOL, "false",
         "read the values of the next step while one is computed; they are one step older then"),
    FLAG(ROW_PLACEMENT, "placement", placement, ENUM, "round_robin",
         "of variables on the ps tasks: in turn, or each where the fewest bytes are", .choices = placements),
    FLAG(ROW_FRESH, "fresh", fresh, BOOL, "false",
         "start over: the chief empties the container first; start the other workers after it"),
    FLAG(ROW_SYNC, "sync", sync, BOOL, "false",
         "train in rounds: a step of all workers is one update, with the average of their gradients; on every worker"),
    FLAG(ROW_SYNC_WORKERS, "sync_workers", sync_workers, INT, "0",
         "workers that the first round waits for; 0: those that the cluster lists", .metavar = "N", .max = PS_TASKS_MAX),
    FLAG(ROW_REPLICAS, "replicas_to_aggregate", replicas, INT, "0",
         "with --sync: a round is over when so many workers have completed it, later ones are dropped; 0: all", .metavar = "R",
         .max = PS_TASKS_MAX),
    FLAG(ROW_ON_WORKER_LOSS, "on_worker_loss", on_worker_loss, ENUM, "wait",
         "what the others do when a worker is lost: wait for its return, go on without it, or fail", .choices = losses),
    FLAG(ROW_STALENESS, "staleness", staleness, INT, "0",
         "instead of --sync: every worker at its own pace, but at most so many steps before the slowest", .metavar = "STEPS",
         .max = UINT32_MAX),
    FLAG(ROW_DEVICE, "device", device, STRING, "cpu", "where layers compute: cpu, or gpu:N", .metavar = "cpu|gpu:N", .min = 1,
         .max = 31),
    FLAG(ROW_THREADS, "threads", threads, INT, "1", "that compute on the CPU", .min = 1, .max = PSI_COMPUTE_THREADS_MAX),
    FLAG(ROW_CHECKPOINT_DIR, "checkpoint_dir", checkpoint_dir, STRING, "",
         "training asks for checkpoints, at its start and its end; DIR is where ps tasks of this program keep them, all others "
         "have a directory of their own",
         .metavar = "DIR", .max = PATH_BYTES_MAX),
    FLAG(ROW_KEY_FILE, "key_file", key_file, STRING, "",
         "the key of this process (psctl key export), and of a task that it serves; else PSD_KEY_FILE, ~/.config/psd/key or "
         "/etc/psd/psd.keys, if it is there; an empty one: no key",
         .metavar = "FILE", .max = PATH_BYTES_MAX),
    FLAG(ROW_TLS_CERT, "tls_cert", tls_cert, STRING, "", "its certificate instead of a key, PEM; with the two below",
         .metavar = "FILE", .max = PATH_BYTES_MAX),
    FLAG(ROW_TLS_KEY, "tls_key", tls_key, STRING, "", "private key of --tls_cert", .metavar = "FILE", .max = PATH_BYTES_MAX),
    FLAG(ROW_TLS_CA, "tls_ca", tls_ca, STRING, "", "authority whose certificates tasks must have", .metavar = "FILE",
         .max = PATH_BYTES_MAX),
    FLAG(ROW_HELP, "help", help, BOOL, "false", "print this", .letter = 'h', .flag_only = true),
#define RESOLVER_ROW(name_, kind_, metavar_, help_, ...)                                                                         \
    FLAG(ROW_resolver_##name_, #name_, resolver.name_, kind_, NULL, help_, .metavar = (metavar_), .flag_only = true, __VA_ARGS__),
    PSI_RESOLVER_ROWS(RESOLVER_ROW)};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == ROW_COUNT, "a row for each");

struct place {
    struct psi_cluster cluster;
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool job_known;
    const char *job_from; /* origin of the job, for errors: "--job_name" or "TF_CONFIG" */
};

static bool given(const uint8_t *from, enum row row)
{
    return from[row] != PSI_FROM_DEFAULT;
}

/* Write the names that --job_name may have: jobs of the cluster (clients_only: only training jobs), "worker", "evaluator". */
static void jobs_text(const struct psi_cluster *c, bool clients_only, char *buf, size_t n)
{
    size_t len = 0;
    bool worker = false, evaluator = false;
    buf[0] = '\0';
    for (uint32_t j = 0; j < psi_cluster_job_count(c) && len < n; j++) {
        const char *name = psi_cluster_job_name(c, j);
        worker = worker || strcmp(name, "worker") == 0;
        evaluator = evaluator || strcmp(name, "evaluator") == 0;
        if (!clients_only || psi_job_trains(name)) {
            len += (size_t)snprintf(buf + len, n - len, "%s%s", len > 0 ? ", " : "", name);
        }
    }
    if (!worker && len < n) {
        len += (size_t)snprintf(buf + len, n - len, "%sworker", len > 0 ? ", " : "");
    }
    if (!evaluator && len < n) {
        (void)snprintf(buf + len, n - len, ", evaluator");
    }
}

static ps_status cluster_from_manager(const struct args *a, const uint8_t *from, struct place *place, struct psi_err *err)
{
    char index[24];
    ps_resolver_options o = a->resolver;
    ps_resolved found;
    (void)snprintf(index, sizeof(index), "%lld", (long long)a->task_index);
    o.cluster = a->cluster;
    o.job_name = given(from, ROW_JOB_NAME) ? a->job_name : NULL;
    o.task_index = given(from, ROW_TASK_INDEX) ? index : NULL;
    o.wait_ms = PSI_RENDEZVOUS_MS;
    ps_status st = psi_cluster_resolve_here(&o, environ, &place->cluster, &found, err);
    if (st == PS_OK && found.job[0] != '\0') {
        (void)snprintf(place->job, sizeof(place->job), "%s", found.job);
        place->task = found.task > 0 ? (uint32_t)found.task : 0;
        place->job_known = true;
        place->job_from = "--cluster: job";
    }
    return st;
}

static ps_status cluster_from_flags(const struct args *a, const uint8_t *from, struct place *place, struct psi_err *err)
{
    ps_status st = PS_OK;
    if (given(from, ROW_CLUSTER)) {
        if (given(from, ROW_PS_HOSTS) || given(from, ROW_WORKER_HOSTS)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster is given twice: --cluster, and --ps_hosts or --worker_hosts");
        }
        if (psi_resolver_named(a->cluster)) {
            return cluster_from_manager(a, from, place, err);
        }
        st = psi_cluster_load(&place->cluster, a->cluster, err);
        if (st == PS_OK && psi_cluster_total_tasks(&place->cluster) == 0) {
            st = psi_fail(err, PS_INVALID_ARGUMENT,
                          psi_cluster_job_count(&place->cluster) == 0 ? "it has no jobs" : "it has no tasks");
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "--cluster");
        }
        return st;
    }
    if (given(from, ROW_PS_HOSTS)) {
        st = psi_cluster_add_job(&place->cluster, "ps", a->ps_hosts, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "--ps_hosts");
            return st;
        }
        if (psi_cluster_total_tasks(&place->cluster) == 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "--ps_hosts is empty: where are the ps tasks?");
        }
    } else if (given(from, ROW_WORKER_HOSTS)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--worker_hosts is given without --ps_hosts: where are the ps tasks?");
    }
    if (given(from, ROW_WORKER_HOSTS)) {
        st = psi_cluster_add_job(&place->cluster, "worker", a->worker_hosts, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "--worker_hosts");
        }
    }
    return st;
}

static ps_status cluster_from_environment(struct place *place, struct psi_err *err)
{
    const char *text = getenv("TF_CONFIG");
    if (text == NULL || text[0] == '\0') {
        return PS_OK;
    }
    struct psi_cluster_self self = {0};
    ps_status st = psi_cluster_parse_tf_config(&place->cluster, text, &self, err);
    if (st == PS_OK && self.known) {
        (void)snprintf(place->job, sizeof(place->job), "%s", self.job);
        place->task = self.task;
        place->job_known = true;
        place->job_from = "TF_CONFIG: task type";
    }
    return st;
}

static ps_status check_job(const struct place *place, struct psi_err *err)
{
    char jobs[JOBS_TEXT_MAX];
    const struct psi_cluster *c = &place->cluster;
    if (!place->job_known) {
        if (psi_cluster_num_tasks(c, "worker") == 0 && psi_cluster_num_tasks(c, "chief") == 0 &&
            psi_cluster_num_tasks(c, "master") == 0) {
            return PS_OK; /* without a job and without training jobs in the cluster, the program trains alone */
        }
        jobs_text(c, false, jobs, sizeof(jobs));
        return psi_fail(err, PS_INVALID_ARGUMENT, "--job_name is missing: it must be one of %s", jobs);
    }
    if (place->job[0] == '\0') {
        jobs_text(c, false, jobs, sizeof(jobs));
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is empty: it must be one of %s", place->job_from, jobs);
    }
    uint32_t listed = psi_cluster_num_tasks(c, place->job);
    if (!psi_job_trains(place->job)) {
        jobs_text(c, listed > 0, jobs, sizeof(jobs));
        return listed > 0 || strcmp(place->job, "ps") == 0
                   ? psi_fail(err, PS_INVALID_ARGUMENT, "%s %s: this program is a worker, `psd` serves job %s; jobs for it: %s",
                              place->job_from, place->job, place->job, jobs)
                   : psi_fail(err, PS_INVALID_ARGUMENT, "%s %s is unknown: it must be one of %s", place->job_from, place->job,
                              jobs);
    }
    if (listed == 0 && strcmp(place->job, "worker") != 0 && psi_cluster_job_count(c) > 0 &&
        strcmp(place->job, "evaluator") != 0) {
        jobs_text(c, false, jobs, sizeof(jobs));
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s %s is not in the cluster: it must be one of %s", place->job_from,
                        place->job, jobs);
    }
    if (listed > 0 && psi_cluster_task_address(c, place->job, place->task) == NULL) {
        char list[PSI_TASK_LIST_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "--task_index %u: job %s has %u tasks: %s", place->task, place->job, listed,
                        psi_cluster_task_list(c, place->job, list, sizeof(list)));
    }
    return PS_OK;
}

static ps_status check_sync(const struct args *a, const uint8_t *from, const struct psi_cluster *c, struct psi_err *err)
{
    const bool staleness = given(from, ROW_STALENESS);
    const uint32_t listed = psi_cluster_workers(c);
    const int64_t workers = a->sync_workers > 0 ? a->sync_workers : listed;
    if (a->sync && staleness) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "--sync and --staleness: in rounds nobody is ahead of the others; give one of them");
    }
    if (!a->sync && given(from, ROW_REPLICAS)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--replicas_to_aggregate is given without --sync");
    }
    if (!a->sync && !staleness && (given(from, ROW_SYNC_WORKERS) || given(from, ROW_ON_WORKER_LOSS))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is given without --sync or --staleness",
                        given(from, ROW_SYNC_WORKERS) ? "--sync_workers" : "--on_worker_loss");
    }
    if (a->sync && a->prefetch) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "--sync and --prefetch: the values of a round are there when the one before is over");
    }
    if (workers > 0 && a->replicas > workers) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--replicas_to_aggregate %lld of %lld workers%s: no round would ever be over",
                        (long long)a->replicas, (long long)workers, a->sync_workers > 0 ? "" : ", as the cluster lists them");
    }
    return PS_OK;
}

/* Read cluster and task from flags or environment. The caller checks that the cluster has the task. */
static ps_status read_place(const struct args *a, const uint8_t *from, struct place *place, struct psi_err *err)
{
    bool flags = given(from, ROW_CLUSTER) || given(from, ROW_PS_HOSTS) || given(from, ROW_WORKER_HOSTS);
    ps_status st = PS_OK;
    if (flags) {
        st = cluster_from_flags(a, from, place, err);
    } else if (!given(from, ROW_TARGET)) {
        st = cluster_from_environment(place, err);
    }
    if (st != PS_OK) {
        return st;
    }
    if (given(from, ROW_JOB_NAME)) {
        (void)snprintf(place->job, sizeof(place->job), "%s", a->job_name);
        place->job_known = true;
        place->job_from = "--job_name";
    }
    if (given(from, ROW_TASK_INDEX)) {
        place->task = (uint32_t)a->task_index;
    }
    return PS_OK;
}

static ps_status find_place(const struct args *a, const uint8_t *from, struct place *place, struct psi_err *err)
{
    ps_status st = read_place(a, from, place, err);
    st = st == PS_OK ? check_job(place, err) : st;
    return st == PS_OK ? check_sync(a, from, &place->cluster, err) : st;
}

static ps_status print_help(const struct psi_options *o, const char *program, const char *about, struct psi_err *err)
{
    struct psi_buf text;
    psi_buf_init(&text, HELP_BYTES_MAX);
    ps_status st =
        psi_buf_printf(&text, err, "usage: %s [FLAGS]\n%s%s\n", program, about == NULL ? "" : about, about == NULL ? "" : "\n");
    if (st == PS_OK) {
        st = psi_options_help(o, &text, err);
    }
    if (st == PS_OK) {
        (void)fwrite(text.data, 1, text.len, stdout);
        (void)fflush(stdout);
    }
    psi_buf_fini(&text);
    return st;
}

/* Apply --placement balanced: a device setter, which chooses a ps task for each variable as tf.train.replica_device_setter does,
 * becomes the outermost device scope. */
static ps_status balance(ps_session *s, const char *cluster_spec)
{
    ps_setter_options o;
    ps_cluster_spec *spec = NULL;
    ps_setter_options_init(&o);
    ps_status st = cluster_spec != NULL ? ps_cluster_spec_new(cluster_spec, &spec) : PS_OK;
    o.cluster = spec;
    o.ps_tasks = spec == NULL ? ps_ps_count(s) : 0; /* ps_ps_count() asks the target */
    o.strategy = PS_GREEDY_BYTES;
    st = st == PS_OK ? ps_device_push_setter(s, &o) : st;
    ps_cluster_spec_free(spec);
    return st;
}

/* Apply --sync and --staleness. An evaluator may be started with the workers' flags, but ignores these two: it only tests. */
static ps_status keep_step(ps_session *s, const struct args *a, bool staleness)
{
    ps_sync_options o;
    if ((!a->sync && !staleness) || psi_api_evaluates(s)) {
        return PS_OK;
    }
    ps_sync_options_init(&o);
    o.mode = a->sync ? PS_SYNC_ROUNDS : PS_SYNC_STALENESS;
    o.workers = (uint32_t)a->sync_workers;
    o.replicas_to_aggregate = (uint32_t)a->replicas;
    o.on_worker_loss = (ps_worker_loss)a->on_worker_loss;
    o.staleness = (uint32_t)a->staleness;
    return ps_session_sync(s, &o);
}

/* Apply the flags that take effect before the program's first call. */
static ps_status prepare(ps_session *s, const struct args *a, const uint8_t *from, const char *cluster_spec)
{
    ps_status st = keep_step(s, a, given(from, ROW_STALENESS));
    st = st == PS_OK && a->fresh && ps_is_chief(s) ? ps_reset(s) : st;
    st = st == PS_OK && a->placement == 1 ? balance(s, cluster_spec) : st;
    return st == PS_OK ? PS_OK : ps_session_fail(s, st, ps_last_error());
}

/* Write the cluster spec of c into buf and point *out_text at it. If c has no jobs, *out_text is NULL and the result PS_OK. */
static ps_status format(const struct psi_cluster *c, struct psi_buf *buf, const char **out_text, struct psi_err *err)
{
    if (psi_cluster_job_count(c) == 0) {
        *out_text = NULL;
        return PS_OK;
    }
    ps_status st = psi_cluster_format(c, buf, err);
    *out_text = st == PS_OK ? psi_buf_text(buf) : NULL;
    return st == PS_OK && *out_text == NULL ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the cluster") : st;
}

static void who(const struct args *a, const uint8_t *from, ps_session_options *options)
{
    options->key_file = given(from, ROW_KEY_FILE) ? a->key_file : NULL;
    options->tls_cert = a->tls_cert;
    options->tls_key = a->tls_key;
    options->tls_ca = a->tls_ca;
}

/* Open the session. Sets *monitor to NULL once psi_api_open() owns it, even if that fails. */
static ps_status open_place(const struct args *a, const uint8_t *from, struct place *place, const char *program,
                            struct psi_monitor **monitor, ps_session **out_session, struct psi_err *err)
{
    struct psi_buf spec;
    ps_session_options options;
    ps_session_options_init(&options);
    psi_buf_init(&spec, SPEC_BYTES_MAX);
    const char *checkpoint_dir = a->checkpoint_dir;
    ps_status st = format(&place->cluster, &spec, &options.cluster_spec, err);
    if (st == PS_OK) {
        options.target = given(from, ROW_TARGET) ? a->target : NULL;
        options.cluster_name = given(from, ROW_CLUSTER_NAME) ? a->cluster_name : options.cluster_name;
        options.job = place->job;
        options.task_index = place->task;
        options.operation_timeout_ms = a->timeout_ms;
        options.start_timeout_ms = given(from, ROW_TIMEOUT) ? (uint32_t)a->timeout_ms : 0;
        options.log_level = (ps_log_level)a->log_level;
        options.wire_dtype = wire_dtype_numbers[a->wire_dtype];
        options.program = program;
        options.seed = (uint64_t)a->seed;
        options.container = a->container;
        options.allow_soft_placement = a->allow_soft_placement;
        options.log_device_placement = a->log_device_placement;
        options.compute_device = a->device;
        options.compute_threads = given(from, ROW_THREADS) ? (uint32_t)a->threads : 0;
        options.prefetch = a->prefetch;
        who(a, from, &options);
        if (*monitor != NULL && !given(from, ROW_CHECKPOINT_DIR)) {
            checkpoint_dir = (*monitor)->options.checkpoint_dir;
        }
        st = psi_api_open(&options, *monitor, out_session, err);
        *monitor = NULL;
    }
    if (st == PS_OK) {
        psi_api_asks_for_checkpoints(*out_session, checkpoint_dir);
        PSI_IGNORE(prepare(*out_session, a, from, options.cluster_spec)); /* the error sticks to the session */
    }
    psi_buf_fini(&spec);
    return st;
}

static const char *base_name(const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    return slash != NULL ? slash + 1 : path != NULL ? path : "program";
}

static ps_status open_args(struct args *a, int *argc, char **argv, const char *about, struct psi_monitor **monitor,
                           ps_session **out_session, struct psi_err *err)
{
    uint8_t from[ROW_COUNT];
    struct psi_options o;
    const char *program = base_name(argv[0]);
    psi_options_init(&o, rows, ROW_COUNT, a, from);
    ps_status st = psi_options_parse_argv(&o, argc, argv, false, err);
    if (st != PS_OK) {
        return st;
    }
    if (a->help) {
        st = print_help(&o, program, about, err);
        *out_session = st == PS_OK ? psi_api_broken(&(struct psi_err){.code = PS_OK}) : NULL;
        return st;
    }
    struct place place = {.job_from = ""};
    psi_cluster_init(&place.cluster);
    st = find_place(a, from, &place, err);
    if (st == PS_OK) {
        st = open_place(a, from, &place, program, monitor, out_session, err);
    }
    psi_cluster_fini(&place.cluster);
    if (st == PS_OK) {
        (*out_session)->steps_fixed = given(from, ROW_STEPS);
        (*out_session)->steps = a->steps;
    }
    return st;
}

/* Open a session by the flags in argv. On failure, gives a session that only has the error. Owns monitor; NULL: not monitored. */
static ps_session *open_session(int *argc, char **argv, const char *about, struct psi_monitor *monitor)
{
    struct psi_err err = {0};
    ps_session *s = NULL;
    struct args *a = psi_calloc(1, sizeof(*a));
    char program[] = "program";
    char *none[] = {program, NULL};
    int one = 1;
    bool any = argc != NULL && argv != NULL && *argc > 0;
    argc = any ? argc : &one;
    argv = any ? argv : none;
    ps_status st = a == NULL ? psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the command line")
                             : open_args(a, argc, argv, about, &monitor, &s, &err);
    psi_free(a);
    psi_monitor_free(monitor);
    return st == PS_OK ? s : psi_api_broken(&err);
}

ps_session *ps_session_open_args(int *argc, char **argv, const char *about)
{
    return open_session(argc, argv, about, NULL);
}

ps_session *ps_monitored_open_args(int *argc, char **argv, const char *about, const ps_monitored_options *o)
{
    struct psi_err err = {0};
    struct psi_monitor *m = NULL;
    return psi_monitor_new(o, &m, &err) == PS_OK ? open_session(argc, argv, about, m) : psi_api_broken(&err);
}

struct ps_role {
    struct psi_buf cluster;
    const char *cluster_spec; /* spec string in `cluster`; NULL: none given */
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char checkpoint_dir[PATH_BYTES_MAX + 1];
    char key_file[PATH_MAX];
};

/* Fill *r from the flags in argv, a copy from which the parser removes them. */
static ps_status read_role(struct args *a, int argc, char **argv, ps_role *r)
{
    uint8_t from[ROW_COUNT];
    struct psi_options o;
    struct psi_err err = {0};
    struct place place = {.job_from = ""};
    psi_options_init(&o, rows, ROW_COUNT, a, from);
    ps_status st = psi_options_parse_argv(&o, &argc, argv, false, &err);
    if (st != PS_OK || a->help) {
        return st;
    }
    ps_session_options options = {.struct_bytes = sizeof(options)};
    who(a, from, &options);
    if (!psi_secure_key_file(&options, r->key_file)) {
        r->key_file[0] = '\0';
    }
    psi_cluster_init(&place.cluster);
    st = read_place(a, from, &place, &err);
    st = st == PS_OK ? format(&place.cluster, &r->cluster, &r->cluster_spec, &err) : st;
    psi_cluster_fini(&place.cluster);
    if (st == PS_OK) {
        r->task = place.task;
        (void)snprintf(r->job, sizeof(r->job), "%s", place.job);
        (void)snprintf(r->cluster_name, sizeof(r->cluster_name), "%s",
                       given(from, ROW_CLUSTER_NAME) ? a->cluster_name : PSI_CLUSTER_NAME_DEFAULT);
        (void)snprintf(r->checkpoint_dir, sizeof(r->checkpoint_dir), "%s", a->checkpoint_dir);
    }
    return st;
}

ps_role *ps_role_from_args(int argc, char *const *argv)
{
    const size_t count = argv != NULL && argc > 0 ? (size_t)argc : 0;
    ps_role *r = psi_calloc(1, sizeof(*r));
    struct args *a = psi_calloc(1, sizeof(*a));
    char **copy = psi_calloc(count + 2, sizeof(*copy));
    char program[] = "program";
    if (r != NULL && a != NULL && copy != NULL) {
        psi_buf_init(&r->cluster, SPEC_BYTES_MAX);
        copy[0] = program;
        for (size_t i = 0; i < count; i++) {
            copy[i] = argv[i];
        }
        PSI_IGNORE(read_role(a, count > 0 ? argc : 1, copy, r)); /* ps_session_open_args() will report the error */
    } else {
        psi_free(r);
        r = NULL;
    }
    psi_free(copy);
    psi_free(a);
    return r;
}

void ps_role_free(ps_role *role)
{
    if (role != NULL) {
        psi_buf_fini(&role->cluster);
        psi_free(role);
    }
}

const char *ps_role_job(const ps_role *role)
{
    return role != NULL ? role->job : "";
}

uint32_t ps_role_task(const ps_role *role)
{
    return role != NULL ? role->task : 0;
}

const char *ps_role_cluster_spec(const ps_role *role)
{
    return role != NULL ? role->cluster_spec : NULL;
}

const char *ps_role_cluster_name(const ps_role *role)
{
    return role != NULL && role->cluster_name[0] != '\0' ? role->cluster_name : PSI_CLUSTER_NAME_DEFAULT;
}

const char *ps_role_checkpoint_dir(const ps_role *role)
{
    return role != NULL ? role->checkpoint_dir : "";
}

const char *ps_role_key_file(const ps_role *role)
{
    return role != NULL ? role->key_file : "";
}
