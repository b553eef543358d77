/* SPDX-License-Identifier: Apache-2.0 */
/* The ClusterSpec, device strings and the placer: pure, they contact nobody. C11 and C++17. ps.h includes this header, and says
 * what "borrows" and "owns" mean. Several threads may use one object only under a lock of the caller. ps_last_error() has the
 * text of the calling thread's last failure. */
#ifndef PS_CLUSTER_H
#define PS_CLUSTER_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ============================================= the ClusterSpec ============================================= */

/** Jobs, sorted by name, with their tasks and addresses. TensorFlow: python/training/server_lib.py ClusterSpec. */
typedef struct ps_cluster_spec ps_cluster_spec;

/**
 * Parse a ClusterSpec.
 *
 * text     NULL or "": an empty spec, to be filled by ps_cluster_spec_add_*. Otherwise one of
 *            spec string    ps=a:2222,b:2222;worker=c:2222     a task out of order: worker=1@c:2222,3@d:2222
 *                                                              a newline ends a job as ';' does
 *            JSON, Python   {"ps": ["a:2222"], "worker": {"1": "c:2222"}}   also single quotes, trailing commas, {1: ...}
 *            file           @PATH: any of these, with comment lines (#)
 * out_spec written on PS_OK only; owns: ps_cluster_spec_free().
 *
 * Errors   INVALID_ARGUMENT names the place (job, task, line and column); NOT_FOUND (no such file); RESOURCE_EXHAUSTED
 */
PS_API ps_status ps_cluster_spec_new(const char *text, ps_cluster_spec **out_spec);
#define PS_JOB_BYTES 64
/** Parse TF_CONFIG. out_job [out_job_bytes], at least PS_JOB_BYTES, and out_task get job and index of this process from "task";
 * "" and -1 if it has none. Either may be NULL. Errors as ps_cluster_spec_new(); INVALID_ARGUMENT also: out_job is too small. */
PS_API ps_status ps_cluster_spec_from_tf_config(const char *json, ps_cluster_spec **out_spec, char *out_job, size_t out_job_bytes,
                                                int *out_task);
/** Set all fields of *options to their defaults. */
PS_API void ps_resolver_options_init(ps_resolver_options *options);
/**
 * Find the cluster and the task of this process in what the cluster manager says by environment variables (docs/LAUNCH.md).
 *
 * Nothing but the arguments counts, with two exceptions: host_name NULL asks for the machine's name, and with a rendezvous FILE
 * each rank writes FILE.RANK and waits for the files of the other ranks.
 *
 * environment  "NAME=VALUE" texts, then NULL: environ.
 * out_spec     written on PS_OK only; owns: ps_cluster_spec_free(). A spec without jobs: this process is alone.
 *
 * Errors   INVALID_ARGUMENT names the variable or flag and its value; UNAVAILABLE: ranks that did not come to the rendezvous;
 *          RESOURCE_EXHAUSTED; those of the rendezvous FILE
 */
PS_API ps_status ps_cluster_resolve(const ps_resolver_options *options, char *const *environment, ps_cluster_spec **out_spec,
                                    ps_resolved *out_resolved);
PS_API void ps_cluster_spec_free(ps_cluster_spec *spec); /* NULL is allowed */
/** Add a job with a comma-separated list of addresses, as in flags; "": no tasks. An error leaves the spec unchanged. */
PS_API ps_status ps_cluster_spec_add_job(ps_cluster_spec *spec, const char *job, const char *hosts);
/** Add one task. A task that exists with this address is no error; with another address it is INVALID_ARGUMENT. */
PS_API ps_status ps_cluster_spec_add_task(ps_cluster_spec *spec, const char *job, int task, const char *address);
/** Number and names of the jobs, sorted (spec.jobs). NULL: no such index. All texts stay valid until the spec changes. */
PS_API int ps_cluster_spec_job_count(const ps_cluster_spec *spec);
PS_API const char *ps_cluster_spec_job(const ps_cluster_spec *spec, int index);
/** Number of tasks of a job (spec.num_tasks); 0: a job without tasks ("worker=", [], {}); -1: no such job. */
PS_API int ps_cluster_spec_num_tasks(const ps_cluster_spec *spec, const char *job);
/** Indices of a job's tasks, ascending (spec.task_indices). Returns their number; at most max are written; -1: no such job. */
PS_API int ps_cluster_spec_task_indices(const ps_cluster_spec *spec, const char *job, int *out_indices, int max);
/** Address of one task (spec.task_address); NULL: no such task. */
PS_API const char *ps_cluster_spec_task_address(const ps_cluster_spec *spec, const char *job, int task);
/** Addresses by task index, NULL for an index that is missing (spec.job_tasks). Returns the highest index plus 1, of which at
 * most max are written; 0: a job without tasks; -1: no such job. */
PS_API int ps_cluster_spec_job_tasks(const ps_cluster_spec *spec, const char *job, const char **out_addresses, int max);
/** As JSON (spec.as_dict): {"ps": ["a:2222"], "worker": {"1": "c:2222"}}: a list if no index is missing, {} without tasks. */
PS_API const char *ps_cluster_spec_as_dict(ps_cluster_spec *spec);
/** The spec string, for ps_cluster_spec_new() and ps_session_options.cluster_spec. */
PS_API const char *ps_cluster_spec_text(ps_cluster_spec *spec);
PS_API bool ps_cluster_spec_equal(const ps_cluster_spec *a, const ps_cluster_spec *b);

/* ================================================== devices ================================================== */

#define PS_DEVICE_BYTES 160

/**
 * Canonical form of a device string: "/job:J/replica:R/task:T/device:TYPE:INDEX" without the fields that are missing; "" for ""
 * and "/". Accepts what TensorFlow 1.15 accepts (python/framework/device_spec.py, core/util/device_name_utils.cc): segments in
 * any order, `*`, /cpu:0 /GPU:1 /gpu; but refuses a field that is given twice. Whether a task has the device is checked when a
 * variable is placed.
 *
 * out      [out_bytes], at least PS_DEVICE_BYTES.
 *
 * Errors   INVALID_ARGUMENT quotes the string and its wrong part; or out is too small, and both sizes are named
 */
PS_API ps_status ps_device_canonical(const char *device, char *out, size_t out_bytes);
/** tf.device(outer) around tf.device(inner): each field of inner replaces that of outer. out, errors: ps_device_canonical(). */
PS_API ps_status ps_device_merge(const char *outer, const char *inner, char *out, size_t out_bytes);

/* =================================================== placer =================================================== */

typedef enum ps_placement_strategy {
    PS_ROUND_ROBIN = 0,
    PS_GREEDY_BYTES = 1 /* the task with the fewest bytes so far; among equals the lowest index */
} ps_placement_strategy;

/** Arguments of tf.train.replica_device_setter. */
typedef struct ps_setter_options {
    size_t struct_bytes; /* filled by ps_setter_options_init */
    int ps_tasks;        /* number of ps tasks if cluster is NULL; 0: the setter does nothing */
    int reserved;
    const ps_cluster_spec *cluster;
    /* default "/job:ps". With `cluster` the tasks of this job are chosen in turn; no task if the cluster lacks the job */
    const char *ps_device;
    const char *worker_device; /* "/job:worker" */
    bool merge_devices;        /* true */
    uint8_t reserved2[3];
    ps_placement_strategy strategy;
} ps_setter_options;
PS_API void ps_setter_options_init(ps_setter_options *options);

/** A stack of device scopes, as tf.device keeps it. */
typedef struct ps_placer ps_placer;
PS_API ps_placer *ps_placer_new(void); /* NULL: no memory */
PS_API void ps_placer_free(ps_placer *placer);
/** As TensorFlow's `with tf.device(device)`. NULL hides all outer scopes, as tf.device(None) does. */
PS_API ps_status ps_placer_push(ps_placer *placer, const char *device);
/** As `with tf.device(tf.train.replica_device_setter(...))`. The counter of the setter starts at 0, and is dropped at the pop. */
PS_API ps_status ps_placer_push_setter(ps_placer *placer, const ps_setter_options *options);
PS_API ps_status ps_placer_pop(ps_placer *placer);
/**
 * Device that the next object asks for: TensorFlow's `.device` after construction; "" if no scope names one.
 *
 * type        "Variable" (NULL) or another op type. For a type in TensorFlow's list of ps ops each setter that no NULL scope
 *             hides chooses a task; the innermost choice holds. Other types get the innermost setter's worker_device.
 * bytes       size of the object, for PS_GREEDY_BYTES.
 * out         [out_bytes], at least PS_DEVICE_BYTES. Too small: INVALID_ARGUMENT, and no setter's counter has moved.
 * out_pinned  may be NULL: true if a scope, and not a setter's strategy, has named the task or job.
 *
 * Source      python/training/device_setter.py _ReplicaDeviceChooser; python/framework/ops.py _apply_device_functions
 */
PS_API ps_status ps_placer_place(ps_placer *placer, const char *type, uint64_t bytes, char *out, size_t out_bytes,
                                 bool *out_pinned);

#ifdef __cplusplus
}
#endif
#endif
