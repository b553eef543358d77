/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a server. Happy path: options and cluster checked -> disk -> sockets -> core -> loop and listeners -> thread.
 * Failure modes: an error text for the person who chose the options; what was opened is closed again.
 */
#include "server.h"

#include "common/abi.h"
#include "common/mem.h"
#include "server_config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { ADDRESS_WAIT_MS = 1000, ADDRESS_PASSES_MS = 5000, ADDRESS_LOOK_MS = 50 };

static void write_line(void *data, enum psi_log_level level, const char *line)
{
    struct psd_server *s = data;
    s->o.log(s->o.ctx, (int)level, line);
}

/* Where a session reaches the task: where it listens; when that is every address of this machine, what the cluster says. */
static void name_target(struct psd_server *s, const char *home)
{
    bool every = strncmp(s->address, "0.0.0.0:", 8) == 0 || strncmp(s->address, "[::]:", 5) == 0;
    const char *address = every && home != NULL ? home : s->address;
    (void)snprintf(s->target, sizeof(s->target), "%s%s", strncmp(address, "unix:", 5) == 0 ? "" : "psd://", address);
}

/* How long to try again where the port is in use. A process that was killed a moment ago frees the lock of the task's directory
 * first, and its sockets a little later. The end of a connection that has the port goes away by itself. */
static uint64_t address_wait_ms(const struct psd_server *s)
{
    return s->listen.passes ? (uint64_t)ADDRESS_PASSES_MS : s->disk != NULL ? (uint64_t)ADDRESS_WAIT_MS : 0;
}

static ps_status open_sockets(struct psd_server *s, const char *home, struct psi_err *err)
{
    static const struct timespec pause = {.tv_nsec = ADDRESS_LOOK_MS * 1000L * 1000L};
    const psd_server_options *o = &s->o;
    const uint64_t began_ms = psd_server_now_ms();
    ps_status st = psd_listen_open(&s->listen, o->listen, home, o->unix_mode, o->insecure_any_peer, err);
    if (st == PS_ALREADY_EXISTS && s->listen.passes) {
        psi_log_event(&s->log, PSI_LOG_WARN, "address_in_use", PSI_KV("task", s->name), PSI_KV("ms", address_wait_ms(s)),
                      PSI_KV("msg", err->text));
    }
    while (st == PS_ALREADY_EXISTS && psd_server_now_ms() - began_ms < address_wait_ms(s)) {
        (void)nanosleep(&pause, NULL); /* sleep: nothing tells when the system is done; nothing is served yet */
        st = psd_listen_open(&s->listen, o->listen, home, o->unix_mode, o->insecure_any_peer, err);
    }
    return st;
}

/* Sockets: where we listen, and what the cluster says about it, agree afterwards. */
static ps_status settle_addresses(struct psd_server *s, struct psi_cluster *c, struct psi_err *err)
{
    const psd_server_options *o = &s->o;
    char fallback[32];
    ps_status st = PS_OK;
    bool alone = psi_cluster_job_count(c) == 0;
    (void)snprintf(fallback, sizeof(fallback), "127.0.0.1:%d", PSI_PORT_DEFAULT);
    const char *home = alone ? fallback : psi_cluster_task_address(c, o->job, o->task_index);
    if (o->listen_fd_count > 0) {
        st = psd_listen_adopt(&s->listen, o->listen_fds, o->listen_fd_count, o->insecure_any_peer, err);
    } else {
        st = open_sockets(s, home, err);
    }
    if (st != PS_OK) {
        return st;
    }
    (void)psd_listen_address(&s->listen, s->address, sizeof(s->address));
    name_target(s, alone ? NULL : home);
    if (alone) {
        return psi_cluster_add_job(c, o->job, s->address, err);
    }
    return s->listen.any_port ? psi_cluster_set_address(c, o->job, o->task_index, s->address, err) : PS_OK;
}

/* ---- what the core asks of us ---- */

static const char *call_name(void *shell, uint32_t row)
{
    const struct psd_server *s = shell;
    return row < s->o.calls.count ? psd_call_row_of(&s->o.calls, row)->name : NULL;
}

static ps_status call_check(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    const struct psd_server *s = shell;
    const psd_call_row *r = psd_call_row_of(&s->o.calls, row);
    return r->check != NULL ? r->check(s->o.calls.ctx, in, in_bytes, error, error_bytes) : PS_OK;
}

static ps_status config_set(void *shell, const char *name, const char *value, char *error, size_t error_bytes)
{
    struct psd_server *s = shell;
    return s->o.config_set(s->o.ctx, s, name, value, error, error_bytes);
}

static void call_finished(void *ctx, uint64_t id, ps_status st, size_t out_bytes, const char *error)
{
    struct psd_server *s = ctx;
    psd_task_call_finished(s->task, id, st, out_bytes, error);
    psi_net_settle(&s->net);
}

static void disk_over(void *ctx, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    struct psd_server *s = ctx;
    psd_task_disk_done(s->task, id, st, reason, bytes, error);
    psi_net_settle(&s->net);
}

static ps_status open_disk(struct psd_server *s, struct psi_err *err)
{
    char who[PSI_TASK_NAME_MAX + PS_JOB_BYTES_MAX + 32];
    if (s->o.checkpoint_dir == NULL || s->o.checkpoint_dir[0] == '\0') {
        return PS_OK;
    }
    (void)snprintf(who, sizeof(who), "%s of cluster %s", s->name, s->o.cluster_name); /* fits: they were checked */
    ps_status st = psd_disk_new(s->o.checkpoint_dir, s->o.job, s->o.task_index, who, &s->disk, err);
    psi_err_prefix(st == PS_OK ? NULL : err, "checkpoint_dir");
    return st;
}

static ps_status make_task(struct psd_server *s, const struct psi_cluster *c, struct psi_err *err)
{
    struct psd_task_config config;
    uint8_t seed[32];
    psd_task_config_init(&config);
    config.cluster = c;
    (void)snprintf(config.job, sizeof(config.job), "%s", s->o.job);
    config.task = s->o.task_index;
    config.call_name = call_name;
    config.call_check = call_check;
    config.config_set = s->o.config_set != NULL ? config_set : NULL;
    config.shell = s;
    config.has_disk = s->disk != NULL;
    (void)snprintf(config.cluster_name, sizeof(config.cluster_name), "%s", c->name);
    (void)snprintf(config.address, sizeof(config.address), "%s", s->address);
    psd_server_config_limits(&s->o, &config);
    if (s->o.config_row == NULL && s->o.config_set == NULL) {
        config.config_row = psd_server_row;
        config.config_ctx = s;
        config.config_set = psd_server_row_set;
    }
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
        return psi_fail(err, PS_UNAVAILABLE, "the system gives no random bytes: %s", strerror(errno));
    }
    s->ticked_ms = psd_server_now_ms();
    return psd_task_new(&config, seed, s->ticked_ms, &s->task, err);
}

/* Loop, net and listeners; on failure everything that was opened is closed again. */
static ps_status make_loop(struct psd_server *s, struct psi_err *err)
{
    ps_status st = psi_net_loop_init(&s->loop, 0, err);
    if (st != PS_OK) {
        return st;
    }
    st = psi_net_init(&s->net, &s->loop, &psd_server_net_ops, s, err);
    if (st != PS_OK) {
        PSI_ASSERT(uv_loop_close(&s->loop) == 0);
        return st;
    }
    PSI_IGNORE(uv_timer_init(&s->loop, &s->tick)); /* always 0 */
    s->tick.data = s;
    PSI_IGNORE(uv_idle_init(&s->loop, &s->work)); /* always 0 */
    s->work.data = s;
    int rc = uv_async_init(&s->loop, &s->wake, psd_server_on_wake);
    PSI_ASSERT(rc == 0); /* the loop has its descriptor for this already */
    s->wake.data = s;
    PSI_IGNORE(uv_timer_start(&s->tick, psd_server_on_tick, PSD_TICK_MS, PSD_TICK_MS)); /* fails for closing handles only */
    psd_calls_open(&s->calls, &s->loop, call_finished, s);
    s->loop_open = true;
    if (s->disk != NULL) {
        st = psd_disk_start(s->disk, &s->loop, disk_over, s, err);
    }
    for (size_t i = 0; i < s->listen.count && st == PS_OK; i++) {
        st = psi_listener_new(&s->net, psd_listen_take(&s->listen, i), &psd_server_listener_ops, s, &s->listeners[i], err);
    }
    if (st != PS_OK) {
        psd_server_loop_close(s);
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
    int rc = pthread_create(&s->thread, NULL, psd_server_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        return PS_OK;
    }
    psd_server_loop_close(s);
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
    bool calls = false;
    if (s == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    psd_server_options_init(&s->o);
    st = psi_struct_take(options, &s->o, sizeof(s->o), "psd_server_options_init", err);
    if (st != PS_OK) {
        psi_err_prefix(err, "options");
        psi_free(s);
        return st;
    }
    for (uint32_t i = 0; i < PSD_DIALS; i++) {
        s->dials[i].server = s;
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (s->o.log != NULL) {
        s->log = (struct psi_log){
            .write = write_line, .stamp = psd_server_log_stamp, .data = s, .level = (enum psi_log_level)s->o.log_level};
    }
    s->connections_max = psd_server_connections_max(s->o.sessions_max);
    (void)psi_task_name_format(s->name, sizeof(s->name), s->o.job, s->o.task_index);
    c = psi_calloc(1, sizeof(*c));
    if (c == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
        goto fail;
    }
    psi_cluster_init(c);
    st = psd_server_config_check(&s->o, err);
    if (st == PS_OK) {
        st = psd_calls_check(&s->o, err);
    }
    if (st == PS_OK) {
        st = psd_calls_init(&s->calls, &s->o.calls, s->o.call_threads, s->o.calls_max, err);
        calls = st == PS_OK;
    }
    if (st == PS_OK) {
        st = psi_net_files_check(psi_net_loop_files() + psd_server_config_files(&s->o), err);
    }
    if (st == PS_OK) {
        st = psd_server_config_cluster(&s->o, c, err);
    }
    if (st == PS_OK) {
        st = open_disk(s, err);
    }
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
    PSI_IGNORE(psd_disk_end(s->disk, UINT32_MAX, NULL, NULL)); /* it has nothing to do: no task has asked for anything */
    psd_task_free(s->task);
    if (calls) {
        psd_calls_fini(&s->calls);
    }
    psd_listen_close(&s->listen);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    psi_free(s);
    return st;
}

ps_status psd_server_create_local(psd_server **out_server, char *error, size_t error_bytes)
{
    psd_server_options o;
    psd_server_options_init(&o);
    o.job = "local";
    o.listen = "127.0.0.1:0";
    return psd_server_start(&o, out_server, error, error_bytes);
}

ps_status psd_server_start(const psd_server_options *options, psd_server **out_server, char *error, size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    psi_net_keep_stdio();
    ps_status st = options != NULL && out_server != NULL
                       ? start(options, out_server, &err)
                       : psi_fail(&err, PS_INVALID_ARGUMENT, "%s is NULL", options == NULL ? "options" : "out_server");
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", st == PS_OK ? "" : err.text);
    }
    return st;
}
