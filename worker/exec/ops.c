/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of one server: its options, its call table, its memory, its devices.
 *
 * Happy path: the program calls ps_ops_new() and puts ps_ops_table() into the server's options. The server calls attach() when it
 * has started, the functions of run.c for each call, and detach() at its end. The program calls ps_ops_free(), not before its
 * server has ended. Failure modes: only calls fail. */
#include "exec.h"

#include "common/abi.h"
#include "common/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t memory_default(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 4 : UINT64_MAX;
}

static void attach(void *ctx, const psd_call_functions *functions, const psd_call_task *task)
{
    ps_ops *ops = ctx;
    ops->functions = functions->struct_bytes >= sizeof(*functions) ? functions : NULL;
    (void)snprintf(ops->target, sizeof(ops->target), "%s", task->target);
    (void)snprintf(ops->job, sizeof(ops->job), "%s", task->job);
    (void)snprintf(ops->name, sizeof(ops->name), "%s", task->name);
    ops->task = task->task_index;
    psi_free(ops->devices);
    /* NULL: no memory; rows can then use CPU:0 only, which needs no entry */
    ops->devices = psi_strndup(task->devices, strlen(task->devices));
    if (task->struct_bytes >= sizeof(*task)) {
        const char *const files[] = {task->key_file, task->tls_cert, task->tls_key, task->tls_ca};
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
            psi_free(ops->files[i]); /* without memory the session lacks the file, and tasks refuse it */
            ops->files[i] = files[i] != NULL ? psi_strndup(files[i], strlen(files[i])) : NULL;
        }
    }
}

/* Refuse a call with UNIMPLEMENTED: the server lacks functions that the executor needs, or never called attach(). */
static ps_status check(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    const ps_ops *ops = ctx;
    (void)in;
    (void)in_bytes;
    if (ops->functions == NULL) {
        (void)snprintf(error, error_bytes, "its libpsd is older than its libpsworker and cannot run operations");
        return PS_UNIMPLEMENTED;
    }
    return PS_OK;
}

static void detach(void *ctx)
{
    ps_ops *ops = ctx;
    ops->functions = NULL;
    atomic_store(&ops->detached, true);
}

void ps_ops_options_init(ps_ops_options *options)
{
    if (options != NULL) {
        *options = (ps_ops_options){.struct_bytes = sizeof(*options), .log_level = PS_LOG_WARN};
    }
}

static ps_status ops_new(const ps_ops_options *options, ps_ops **out_ops, struct psi_err *err)
{
    ps_ops_options o;
    ps_ops_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_ops_options_init", err) : PS_OK;
    if (st == PS_OK && (o.log_level < PS_LOG_DEBUG || o.log_level > PS_LOG_ERROR)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "log_level: %d is none of PS_LOG_*", (int)o.log_level);
    }
    ps_ops *ops = st == PS_OK ? psi_calloc(1, sizeof(*ops)) : NULL;
    if (ops == NULL) {
        return st != PS_OK ? st : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for an executor");
    }
    (void)pthread_mutex_init(&ops->lock, NULL); /* cannot fail with default attributes */
    psi_list_init(&ops->kept);
    (void)pthread_mutex_init(&ops->place_lock, NULL);
    ops->row = (psd_call_row){
        .name = PS_OPS_CALL, .check = check, .run = psi_exec_call_run, .cancel = psi_exec_call_cancel, .early = true};
    ops->table = (psd_call_table){
        .rows = &ops->row, .row_bytes = sizeof(ops->row), .count = 1, .ctx = ops, .attach = attach, .detach = detach};
    ops->memory_bytes = o.memory_bytes > 0 ? o.memory_bytes : memory_default();
    ops->log_level = o.log_level;
    ops->log = o.log;
    ops->log_ctx = o.log_ctx;
    st = psi_exec_carrier_new(ops, err);
    if (st != PS_OK) {
        ps_ops_free(ops);
        return st;
    }
    *out_ops = ops;
    return PS_OK;
}

ps_status ps_ops_new(const ps_ops_options *options, ps_ops **out_ops, char *error, size_t error_bytes)
{
    struct psi_err err = {0};
    const ps_status st =
        out_ops != NULL ? ops_new(options, out_ops, &err) : psi_fail(&err, PS_INVALID_ARGUMENT, "out_ops is NULL");
    if (st != PS_OK && error != NULL && error_bytes > 0) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    return st;
}

const psd_call_table *ps_ops_table(const ps_ops *ops)
{
    return ops != NULL ? &ops->table : NULL;
}

void ps_ops_free(ps_ops *ops)
{
    if (ops == NULL) {
        return;
    }
    psi_exec_carrier_free(ops->carrier);
    psi_exec_places_close(ops);
    psi_exec_kept_free(ops);
    psi_exec_spares_free(ops);
    (void)pthread_mutex_destroy(&ops->place_lock);
    (void)pthread_mutex_destroy(&ops->lock);
    for (size_t i = 0; i < sizeof(ops->files) / sizeof(ops->files[0]); i++) {
        psi_free(ops->files[i]);
    }
    psi_free(ops->devices);
    psi_free(ops);
}
