/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ClusterSpec, device strings and the placer: pure, they contact nobody. C11 and C++17. ps.h includes this header.
 *
 * Objects here are not shared between threads without the caller's lock. The text of the last failure of the calling thread is
 * ps_last_error(). Ownership words as in ps.h.
 */
#ifndef PS_CLUSTER_H
#define PS_CLUSTER_H

#include "ps_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ============================================= the ClusterSpec ============================================= */

/** Jobs (sorted by name), their tasks, where each listens. TensorFlow: python/training/server_lib.py ClusterSpec. */
typedef struct ps_cluster_spec ps_cluster_spec;

/**
 * A ClusterSpec from text; NULL or "" gives an empty one, to be filled by ps_cluster_spec_add_*.
 *   spec string    ps=a:2222,b:2222;worker=c:2222        a task that is not the next one: worker=1@c:2222,3@d:2222
 *                                                        a newline ends a job as ';' does
 *   JSON, Python   {"ps": ["a:2222"], "worker": {"1": "c:2222"}}   single quotes, trailing commas and {1: ...} too
 *   file           @PATH: any of these, with comment lines (#)
 * *out_spec is written on PS_OK only; owns: ps_cluster_spec_free.
 * Errors: INVALID_ARGUMENT that names the place (job, task, line and column), NOT_FOUND (no such file), RESOURCE_EXHAUSTED.
 */
PS_API ps_status ps_cluster_spec_new(const char *text, ps_cluster_spec **out_spec);
/** Room for the name of any job. */
#define PS_JOB_BYTES 64
/** From TF_CONFIG's text. out_job [out_job_bytes], PS_JOB_BYTES or more, and out_task get who "task" says this process is, "" and
 * -1 where it is silent; either may be NULL. Errors: those of ps_cluster_spec_new(), INVALID_ARGUMENT also where out_job is too
 * small. */
PS_API ps_status ps_cluster_spec_from_tf_config(const char *json, ps_cluster_spec **out_spec, char *out_job, size_t out_job_bytes,
                                                int *out_task);
PS_API void ps_cluster_spec_free(ps_cluster_spec *spec); /* NULL is fine */
/** Add a job by a comma-separated list of addresses, as flags give it; "": one without tasks. Unchanged after an error. */
PS_API ps_status ps_cluster_spec_add_job(ps_cluster_spec *spec, const char *job, const char *hosts);
/** Add one task; a task that is there with the same address is fine, with another it is INVALID_ARGUMENT. */
PS_API ps_status ps_cluster_spec_add_task(ps_cluster_spec *spec, const char *job, int task, const char *address);
/** Jobs by name: TensorFlow's spec.jobs. NULL: no such index. Texts from here on stay valid until the spec changes. */
PS_API int ps_cluster_spec_job_count(const ps_cluster_spec *spec);
PS_API const char *ps_cluster_spec_job(const ps_cluster_spec *spec, int index);
/** Number of tasks of a job (spec.num_tasks), 0 of one that is there without tasks ("worker=", [], {}); -1: no such job. */
PS_API int ps_cluster_spec_num_tasks(const ps_cluster_spec *spec, const char *job);
/** Ascending indices of the tasks of a job (spec.task_indices): at most max are written, the number of all is returned; -1. */
PS_API int ps_cluster_spec_task_indices(const ps_cluster_spec *spec, const char *job, int *out_indices, int max);
/** Address of one task (spec.task_address); NULL: no such task. */
PS_API const char *ps_cluster_spec_task_address(const ps_cluster_spec *spec, const char *job, int task);
/** Addresses by task index, NULL where an index is missing (spec.job_tasks): at most max are written; returns the highest index
 *  plus 1, 0 of a job without tasks, -1: no such job. */
PS_API int ps_cluster_spec_job_tasks(const ps_cluster_spec *spec, const char *job, const char **out_addresses, int max);
/** JSON: {"ps": ["a:2222"], "worker": {"1": "c:2222"}}, a list where no index is missing, {} where there are no tasks
 * (spec.as_dict). */
PS_API const char *ps_cluster_spec_as_dict(ps_cluster_spec *spec);
/** The spec string, which ps_cluster_spec_new reads back; also what ps_session_options.cluster_spec takes. */
PS_API const char *ps_cluster_spec_text(ps_cluster_spec *spec);
PS_API bool ps_cluster_spec_equal(const ps_cluster_spec *a, const ps_cluster_spec *b);

/* ================================================== devices ================================================== */

/** Room for any canonical device string. */
#define PS_DEVICE_BYTES 160

/**
 * The canonical form "/job:J/replica:R/task:T/device:TYPE:INDEX" of a device string, fields that are not there left out; "" and
 * "/" are "". Accepted is what TensorFlow 1.15 accepts (python/framework/device_spec.py, core/util/device_name_utils.cc):
 * segments in any order, `*`, /cpu:0 /GPU:1 /gpu; only a field that is given twice is refused here. Whether a task has a device
 * of that type is looked at where a variable is placed. out [out_bytes], PS_DEVICE_BYTES or more. Errors: INVALID_ARGUMENT that
 * quotes the string and the part, or names both sizes where out is too small.
 */
PS_API ps_status ps_device_canonical(const char *device, char *out, size_t out_bytes);
/** tf.device(outer) around tf.device(inner): field by field the inner one wins. out and errors: as ps_device_canonical(). */
PS_API ps_status ps_device_merge(const char *outer, const char *inner, char *out, size_t out_bytes);

/* =================================================== placer =================================================== */

typedef enum ps_placement_strategy {
    PS_ROUND_ROBIN = 0,
    PS_GREEDY_BYTES = 1 /* the task with the fewest bytes so far, the lowest index among equals */
} ps_placement_strategy;

/** tf.train.replica_device_setter's arguments. */
typedef struct ps_setter_options {
    size_t struct_bytes; /* filled by ps_setter_options_init */
    int ps_tasks;        /* where cluster is NULL; 0: the setter does nothing */
    int reserved;
    const ps_cluster_spec *cluster;
    const char *ps_device;     /* "/job:ps"; with `cluster` it names the job whose tasks take turns, by index; none: nothing */
    const char *worker_device; /* "/job:worker" */
    bool merge_devices;        /* true */
    uint8_t reserved2[3];
    ps_placement_strategy strategy;
} ps_setter_options;
PS_API void ps_setter_options_init(ps_setter_options *options);

/** A stack of device scopes as tf.device keeps it. */
typedef struct ps_placer ps_placer;
PS_API ps_placer *ps_placer_new(void); /* NULL: no memory */
PS_API void ps_placer_free(ps_placer *placer);
/** with tf.device(device): NULL hides all outer scopes, as tf.device(None). */
PS_API ps_status ps_placer_push(ps_placer *placer, const char *device);
/** with tf.device(tf.train.replica_device_setter(...)): its counter starts at 0 and lives until the pop. */
PS_API ps_status ps_placer_push_setter(ps_placer *placer, const ps_setter_options *options);
/** Leave the innermost scope. FAILED_PRECONDITION: there is none. */
PS_API ps_status ps_placer_pop(ps_placer *placer);
/**
 * The requested device of the next object: what TensorFlow's `.device` shows after construction ("" when nothing was said).
 *
 * type     "Variable" (NULL) or another op type. Types in TensorFlow's list of ps ops take a turn of every setter that they
 *          reach, from inside out, and the innermost one's is theirs; all others get its worker_device.
 * bytes    of the object, for PS_GREEDY_BYTES.
 * out      [out_bytes], PS_DEVICE_BYTES or more; INVALID_ARGUMENT where it is smaller, and no setter's turn is taken.
 * out_pinned (may be NULL): a scope other than a setter's strategy fixed the task or the job.
 * Source   python/training/device_setter.py _ReplicaDeviceChooser; python/framework/ops.py _apply_device_functions.
 */
PS_API ps_status ps_placer_place(ps_placer *placer, const char *type, uint64_t bytes, char *out, size_t out_bytes,
                                 bool *out_pinned);

#ifdef __cplusplus
}
#endif
#endif
