/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a server. Happy path: check options and cluster; open disk and sockets; make the core, the loop and its listeners;
 * start the thread. Failure modes: the error text is for the person who chose the options; what was opened is closed. */
#include "server.h"

#include "common/abi.h"
#include "common/auth/key_file.h"
#include "common/mem.h"
#include "server_config.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { ADDRESS_WAIT_MS = 5000, ADDRESS_LOOK_MS = 50 };

static void write_line(void *data, enum psi_log_level level, const char *line)
{
    struct psd_server *s = data;
    s->o.log(s->o.ctx, (int)level, line);
}

/* Set the address for sessions with this task: where it listens or, if that is on every interface, `home` from the cluster. */
static void name_target(struct psd_server *s, const char *home)
{
    bool every = strncmp(s->address, "0.0.0.0:", 8) == 0 || strncmp(s->address, "[::]:", 5) == 0;
    const char *address = every && home != NULL ? home : s->address;
    (void)snprintf(s->target, sizeof(s->target), "%s%s", strncmp(address, "unix:", 5) == 0 ? "" : "psd://", address);
}

/* True if an address in use may become free in a few seconds: psd_listen.passes says so, or the task has a disk. Then a killed
 * process of this task may still have the address: the lock on its directory became free a little before its sockets. */
static bool may_become_free(const struct psd_server *s)
{
    return s->listen.passes || s->disk != NULL;
}

static ps_status open_sockets(struct psd_server *s, const char *home, struct psi_err *err)
{
    static const struct timespec pause = {.tv_nsec = ADDRESS_LOOK_MS * 1000L * 1000L};
    const psd_server_options *o = &s->o;
    const uint64_t began_ms = psd_server_now_ms();
    const bool any_peer = o->insecure_any_peer || psd_secure_has_tls(&s->secure);
    ps_status st = psd_listen_open(&s->listen, o->listen, home, o->unix_mode, any_peer, err);
    if (st == PS_ALREADY_EXISTS && may_become_free(s)) {
        psi_log_event(&s->log, PSI_LOG_WARN, "address_in_use", PSI_KV("task", s->name), PSI_KV("ms", (int)ADDRESS_WAIT_MS),
                      PSI_KV("msg", err->text));
    }
    while (st == PS_ALREADY_EXISTS && may_become_free(s) && psd_server_now_ms() - began_ms < ADDRESS_WAIT_MS) {
        (void)nanosleep(&pause, NULL); /* sleep: nothing reports that the port is free; the server does nothing else yet */
        st = psd_listen_open(&s->listen, o->listen, home, o->unix_mode, any_peer, err);
    }
    return st;
}

/* If the cluster gives the task port 0, put the port on which the task listens in its place. */
static ps_status take_port(struct psd_server *s, struct psi_cluster *c, struct psi_err *err)
{
    const psd_server_options *o = &s->o;
    struct psi_address at, home;
    char text[PS_ADDRESS_BYTES_MAX + 1];
    ps_status st = psi_address_parse(psi_cluster_task_address(c, o->job, o->task_index), true, &home, err);
    st = st == PS_OK ? psi_address_parse(s->address, false, &at, err) : st;
    if (st == PS_OK && at.kind != PSI_ADDRESS_TCP) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "the cluster has %s at port 0, and it listens at no TCP port", s->name);
    }
    if (st == PS_OK) {
        home.port = at.port;
        st = psi_cluster_set_address(c, o->job, o->task_index, psi_address_format(&home, text, sizeof(text)), err);
    }
    name_target(s, st == PS_OK ? text : NULL);
    return st;
}

/* Open the sockets, and write the address at which they listen into the cluster. */
static ps_status settle_addresses(struct psd_server *s, struct psi_cluster *c, struct psi_err *err)
{
    const psd_server_options *o = &s->o;
    char fallback[32];
    ps_status st = PS_OK;
    bool alone = psi_cluster_job_count(c) == 0;
    (void)snprintf(fallback, sizeof(fallback), "127.0.0.1:%d", PSI_PORT_DEFAULT);
    const char *home = alone ? fallback : psi_cluster_task_address(c, o->job, o->task_index);
    if (o->listen_fd_count > 0) {
        st = psd_listen_adopt(&s->listen, o->listen_fds, o->listen_fd_count,
                              o->insecure_any_peer || psd_secure_has_tls(&s->secure), err);
    } else {
        st = open_sockets(s, home, err);
    }
    if (st != PS_OK) {
        return st;
    }
    s->secure.insecure = psd_listen_is_open(&s->listen) && !psd_secure_has_tls(&s->secure);
    (void)psd_listen_address(&s->listen, s->address, sizeof(s->address));
    s->any_port = !alone && psi_address_any_port(home);
    if (s->any_port) {
        return take_port(s, c, err);
    }
    name_target(s, alone ? NULL : home);
    if (alone) {
        return psi_cluster_add_job(c, o->job, s->address, err);
    }
    return s->listen.any_port ? psi_cluster_set_address(c, o->job, o->task_index, s->address, err) : PS_OK;
}

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

static bool call_early(void *shell, uint32_t row)
{
    const struct psd_server *s = shell;
    return psd_call_row_is_early(&s->o.calls, row);
}

static ps_status config_set(void *shell, const char *name, const char *value, char *error, size_t error_bytes)
{
    struct psd_server *s = shell;
    return s->o.config_set(s->o.ctx, s, name, value, error, error_bytes);
}

static void call_finished(void *ctx, uint64_t id, uint64_t kernel_ns, ps_status st, ps_reason reason, size_t out_bytes,
                          const char *error)
{
    struct psd_server *s = ctx;
    psd_task_call_ran(s->task, id, kernel_ns);
    psd_task_call_finished(s->task, id, st, reason, out_bytes, error);
    psi_net_settle(&s->net);
    psi_spin_stir(&s->net.spin); /* let the loop poll for a while: after an answer the next request often follows soon */
}

static void call_copy(void *ctx, struct psd_copy *copy)
{
    struct psd_server *s = ctx;
    psd_task_copy(s->task, copy);
    psi_net_settle(&s->net);
}

static ps_status call_draft(void *ctx, uint64_t call, const struct psd_draft_spec *what, void **out_room, struct psi_err *err)
{
    struct psd_server *s = ctx;
    const ps_status st = psd_task_draft(s->task, call, what, out_room, err);
    psi_net_settle(&s->net);
    return st;
}

static void call_publish(void *ctx, struct psd_publish *publish)
{
    struct psd_server *s = ctx;
    psd_task_publish(s->task, publish);
    psi_net_settle(&s->net);
}

static const struct psd_calls_task calls_task = {
    .finished = call_finished, .copy = call_copy, .draft = call_draft, .publish = call_publish};

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
    /* copied, because options are borrowed */
    (void)snprintf(s->checkpoint_dir, sizeof(s->checkpoint_dir), "%s", s->o.checkpoint_dir);
    (void)snprintf(who, sizeof(who), "%s of cluster %s", s->name, s->o.cluster_name); /* fits: the parts were checked */
    ps_status st = psd_disk_new(s->o.checkpoint_dir, s->o.job, s->o.task_index, who, &s->disk, err);
    psi_err_prefix(st == PS_OK ? NULL : err, "checkpoint_dir");
    return st;
}

static uint64_t clock_ns(void *server)
{
    struct timespec now;
    (void)server; /* all tasks use one clock */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
    config.call_early = call_early;
    config.config_set = s->o.config_set != NULL ? config_set : NULL;
    config.shell = s;
    config.clock_ns = clock_ns;
    config.identify = psd_secure_identify;
    config.address_of = psd_secure_address_of;
    config.handshakes = psd_secure_handshakes;
    config.insecure = s->secure.insecure;
    config.has_disk = s->disk != NULL;
    (void)snprintf(config.cluster_name, sizeof(config.cluster_name), "%s", c->name);
    (void)snprintf(config.address, sizeof(config.address), "%s", s->address);
    config.any_port = s->any_port;
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

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static ps_status make_call_task(struct psd_server *s, const struct psi_cluster *c, struct psi_err *err)
{
    struct psd_server_call_texts *texts = &s->call_texts;
    psi_buf_init(&texts->cluster_spec, PS_CONTROL_BODY_MAX * 4);
    ps_status st = psi_cluster_format(c, &texts->cluster_spec, err);
    const char *spec = st == PS_OK ? psi_buf_text(&texts->cluster_spec) : NULL;
    if (spec == NULL) {
        return st != PS_OK ? st : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    (void)snprintf(texts->job, sizeof(texts->job), "%s", s->o.job);
    (void)snprintf(texts->cluster_name, sizeof(texts->cluster_name), "%s", c->name);
    (void)snprintf(texts->devices, sizeof(texts->devices), "%s", s->o.devices ? s->o.devices : "CPU:0");
    s->call_task = (psd_call_task){.struct_bytes = sizeof(s->call_task),
                                   .target = s->target,
                                   .name = s->name,
                                   .job = texts->job,
                                   .task_index = s->o.task_index,
                                   .call_threads = s->o.call_threads,
                                   .cluster_name = texts->cluster_name,
                                   .cluster_spec = spec,
                                   .devices = texts->devices,
                                   .key_file = text_of(s->secure.key_file),
                                   .tls_cert = text_of(s->secure.tls_cert),
                                   .tls_key = text_of(s->secure.tls_key),
                                   .tls_ca = text_of(s->secure.tls_ca)};
    return PS_OK;
}

/* Make loop, net and listeners. On failure all that was made is closed again. */
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
    PSI_IGNORE(uv_timer_init(&s->loop, &s->tick)); /* always returns 0 */
    s->tick.data = s;
    PSI_IGNORE(uv_idle_init(&s->loop, &s->work)); /* always returns 0 */
    s->work.data = s;
    int rc = uv_async_init(&s->loop, &s->wake, psd_server_on_wake);
    PSI_ASSERT(rc == 0); /* cannot fail: the loop has already opened the descriptor that uv_async_init() needs */
    s->wake.data = s;
    PSI_IGNORE(uv_timer_start(&s->tick, psd_server_on_tick, PSD_TICK_MS, PSD_TICK_MS)); /* fails for closing handles only */
    psd_calls_open(&s->calls, &s->loop, &calls_task, s);
    s->loop_open = true;
    st = psd_secure_begin(s, err);
    if (s->disk != NULL && st == PS_OK) {
        st = psd_disk_start(s->disk, &s->loop, disk_over, s, err);
    }
    for (size_t i = 0; i < s->listen.count && st == PS_OK; i++) {
        st = psi_listener_new(&s->net, psd_listen_take(&s->listen, i), &psd_server_listener_ops, s, &s->listeners[i], err);
    }
    if (st != PS_OK) {
        psd_server_loop_close(s);
        PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* runs close callbacks only */
        psi_net_fini(&s->net);
        PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    }
    return st;
}

static ps_status start_thread(struct psd_server *s, struct psi_err *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* no signal is handled on this thread; with SIGPIPE blocked, writing to a closed peer gives EPIPE */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    s->thread_joinable = true;
    int rc = pthread_create(&s->thread, NULL, psd_server_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        return PS_OK;
    }
    psd_server_loop_close(s);
    PSI_IGNORE(uv_run(&s->loop, UV_RUN_DEFAULT)); /* runs close callbacks only */
    psi_net_fini(&s->net);
    PSI_ASSERT(uv_loop_close(&s->loop) == 0);
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no thread for the task: %s", strerror(rc));
}

/* Take the call table of a program compiled with an older header: in its options the table lies in `calls_before`. */
static void take_older_calls(psd_server_options *o)
{
    struct older_calls {
        const psd_call_row *rows;
        size_t row_bytes, count;
        void *ctx;
    } older;
    _Static_assert(sizeof(older) == sizeof(o->calls_before), "the place of an older table");
    memcpy(&older, o->calls_before, sizeof(older));
    if (o->calls.count == 0 && o->calls.rows == NULL) {
        o->calls = (psd_call_table){.rows = older.rows, .row_bytes = older.row_bytes, .count = older.count, .ctx = older.ctx};
    }
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
    take_older_calls(&s->o);
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
        st = psd_secure_init(&s->secure, &s->o, c, err);
    }
    if (st == PS_OK) {
        st = open_disk(s, err);
    }
    if (st == PS_OK) {
        st = settle_addresses(s, c, err);
    }
    if (st == PS_OK) {
        st = psd_secure_cluster(&s->secure, c, err);
    }
    if (st == PS_OK) {
        st = make_call_task(s, c, err);
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
    PSI_IGNORE(psd_disk_end(s->disk, UINT32_MAX, NULL, NULL)); /* returns at once, because no operation was begun */
    psd_task_free(s->task);
    if (calls) {
        psd_calls_fini(&s->calls);
    }
    psi_buf_fini(&s->call_texts.cluster_spec);
    psd_secure_fini(&s->secure);
    psd_listen_close(&s->listen);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    psi_free(s);
    return st;
}

ps_status psd_server_create_local(psd_server **out_server, char *error, size_t error_bytes)
{
    return psd_server_create_local_with(NULL, out_server, error, error_bytes);
}

/* Change the options into those of a task that is a cluster by itself. INVALID_ARGUMENT: some option contradicts that. */
static ps_status make_local(psd_server_options *o, struct psi_err *err)
{
    psd_server_options defaults;
    psd_server_options_init(&defaults);
    const bool clustered = o->cluster_spec != NULL || o->ps_hosts != NULL || o->worker_hosts != NULL;
    const bool other = o->job != NULL && strcmp(o->job, "local") != 0 && strcmp(o->job, defaults.job) != 0;
    const char *what = clustered               ? "a cluster"
                       : other                 ? "another job"
                       : o->task_index != 0    ? "another task than 0"
                       : o->listen_fds != NULL ? "sockets of the caller"
                                               : NULL;
    if (what != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "options: a local server is the only task of its own cluster, and they name %s: use psd_server_start()",
                        what);
    }
    o->job = "local";
    o->listen = o->listen != NULL ? o->listen : "127.0.0.1:0";
    return PS_OK;
}

ps_status psd_server_create_local_with(const psd_server_options *options, psd_server **out_server, char *error,
                                       size_t error_bytes)
{
    struct psi_err err = {.code = PS_OK};
    char key_file[PATH_MAX];
    psd_server_options o;
    psd_server_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "psd_server_options_init", &err) : PS_OK;
    st = st == PS_OK ? make_local(&o, &err) : st;
    if (o.key_file == NULL && psi_key_file_find(NULL, getenv(PSI_KEY_FILE_ENV), key_file)) {
        o.key_file = key_file;
    }
    if (st == PS_OK) {
        return psd_server_start(&o, out_server, error, error_bytes);
    }
    if (error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    return st;
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
