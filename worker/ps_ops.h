/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving operations: what a program that links libpsd and libpsworker gives to its servers, so that clients can run rows of
 * plans (ps_plan.h) there. C11 and C++17.
 *
 *   ps_ops *ops;
 *   ps_ops_new(NULL, &ops, error, sizeof(error));
 *   psd_server_options_init(&o);
 *   o.calls = *ps_ops_table(ops);
 *   psd_server_start(&o, &server, error, sizeof(error));
 *   ...
 *   psd_server_free(server);
 *   ps_ops_free(ops);
 *
 * The table has one call, `ps.run`: a list of rows that one task computes (docs/PROTOCOL.md, "Body of ps.run"). The executor
 * reads the inputs, computes the rows one after the other on a compute thread of the server, and delivers the results that the
 * client asked for: to the client, into a variable, or as a gradient. For inputs on other tasks, and for deliveries to variables,
 * the executor has a session of its own, which is opened by the first call that needs it. No compute thread waits for inputs or
 * deliveries.
 *
 * Values that rows compute stay in the executor's memory until the run ends, and are not sent unless they are delivered.
 */
#ifndef PS_OPS_H
#define PS_OPS_H

#include "ps.h"
#include "ps_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_OPS_CALL "ps.run"

typedef struct ps_ops ps_ops;

typedef struct ps_ops_options {
    size_t struct_bytes; /* filled by ps_ops_options_init */
    /* Bytes of inputs and results that all runs of this executor hold at a time. A run that needs more than is left is
     * RESOURCE_EXHAUSTED before it reads anything. 0: a quarter of the machine's memory. In addition the executor keeps copies of
     * unchanged variables of its own task, and memory of ended values for the next run; each takes at most a quarter of
     * memory_bytes, and at most 16 MiB. */
    uint64_t memory_bytes;
    ps_log_level log_level; /* least level of the log lines that the executor's own session makes; default: PS_LOG_WARN */
    ps_log_fn log;          /* NULL: standard error */
    void *log_ctx;
} ps_ops_options;
/** Defaults. Any thread. */
PS_API void ps_ops_options_init(ps_ops_options *options);

/**
 * Make an executor for one server. Each server of a process has its own.
 *
 * options   NULL: defaults; borrows.
 * out_ops   written on PS_OK only; owns: ps_ops_free(), after the server is freed.
 * error     [error_bytes] text of the error.
 *
 * Thread   any. Opens no connection and starts no thread.
 * Errors   PS_INVALID_ARGUMENT     names the option; or out_ops is NULL
 *          PS_RESOURCE_EXHAUSTED   memory
 */
PS_API ps_status ps_ops_new(const ps_ops_options *options, ps_ops **out_ops, char *error, size_t error_bytes);
/**
 * The executor's call table, for psd_server_options.calls; NULL for NULL. Valid until ps_ops_free().
 *
 * A program with calls of its own makes one table for both: an array with its rows and a copy of this table's rows[0], and ctx,
 * attach and detach of this table. Its functions then get this ctx, and must not use it.
 *
 * Thread   any.
 */
PS_API const psd_call_table *ps_ops_table(const ps_ops *ops);
/** Close the executor's session and free everything; after psd_server_free() of its server, or if no server has used it. Blocks
 * for a second at most. NULL is allowed. Any thread, once. */
PS_API void ps_ops_free(ps_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
