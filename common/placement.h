/* SPDX-License-Identifier: Apache-2.0 */
/* On which ps task a new variable goes. psi_placer: the program's stack of device scopes (tf.device,
 * tf.train.replica_device_setter). psi_placement: how a session chooses the task: round robin over the ps tasks, or the task that
 * the program names (a pin). Pure; one thread at a time. */
#ifndef PSI_PLACEMENT_H
#define PSI_PLACEMENT_H

#include "cluster.h"
#include "device.h"
#include "limits.h"
#include "status.h"

#define PSI_PLACER_DEPTH_MAX 1024

enum psi_strategy { PSI_STRATEGY_ROUND_ROBIN = 0, PSI_STRATEGY_GREEDY_BYTES = 1 };
struct psi_setter {
    uint32_t ps_tasks;                 /* number of ps tasks if cluster is NULL; 0: the setter has no effect */
    const struct psi_cluster *cluster; /* if not NULL, its tasks of ps_device's job are used instead of ps_tasks */
    const char *ps_device;             /* "/job:ps"; NULL is "" */
    const char *worker_device;         /* "/job:worker"; NULL is "" */
    /* false: a device that the program names replaces the setter's whole device, not only the fields that it names */
    bool merge_devices;
    enum psi_strategy strategy;
};

struct psi_placer_scope;
struct psi_placer {
    struct psi_placer_scope *scopes; /* `depth` scopes, the innermost last */
    uint32_t depth;
    size_t capacity;
};
struct psi_request_place {
    struct psi_device device; /* the fields that the scopes determine */
    bool by_strategy;         /* device.task was chosen by a setter's strategy, not named by the program */
    bool setter;              /* a scope with a setter surrounds the object: the setter chooses the task, not the session */
    bool pinned;              /* the program has named the task or the job itself */
};

void psi_placer_init(struct psi_placer *p);
void psi_placer_fini(struct psi_placer *p);
/** Push a scope. device NULL: outer scopes have no effect inside it. Errors (also of psi_placer_push_setter()), without a change:
 * PS_INVALID_ARGUMENT (a malformed device, too many tasks), PS_RESOURCE_EXHAUSTED (memory, PSI_PLACER_DEPTH_MAX). */
PSI_MUST ps_status psi_placer_push(struct psi_placer *p, const char *device, struct psi_err *err);
/** Push a scope with a setter, whose round robin begins at the first task; no tasks: no effect. Borrows all pointers. */
PSI_MUST ps_status psi_placer_push_setter(struct psi_placer *p, const struct psi_setter *setter, struct psi_err *err);
/** Pop the innermost scope. Errors: PS_FAILED_PRECONDITION: there is none. */
PSI_MUST ps_status psi_placer_pop(struct psi_placer *p, struct psi_err *err);
/** Find out where the scopes put a new object, innermost scope first. type: TensorFlow's type of the op; NULL: "Variable". A
 * setter chooses a task only if psi_is_ps_op(type). bytes: size of the value. */
void psi_placer_place(struct psi_placer *p, const char *type, uint64_t bytes, struct psi_request_place *out);
/** True if the type is in TensorFlow's STANDARD_PS_OPS, which setters put on ps tasks. */
bool psi_is_ps_op(const char *type);

struct psi_placement {
    const struct psi_cluster *cluster;
    const char *ps_job; /* job of the directory (the first ps task), normally "ps"; "": the cluster is empty */
    uint32_t ps_tasks;
    uint32_t next; /* round robin: position of the next task among ps_tasks */
};
struct psi_place {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool pinned; /* the program has named the task or another job: if the variable exists on another task, that is an error */
};

/** Begin a session's choices. cluster: borrows; it must not change while the placement is used. */
void psi_placement_init(struct psi_placement *p, const struct psi_cluster *cluster);
/** Choose the task for one request that opens or creates a variable; call it for each request. pin: the device that the program
 * names, of which device type and index do not matter; NULL: none. As in TensorFlow, the round robin advances even if the pin
 * names the task, but not if it names another job. A pin to another job without a task means task 0. Missing indices of the ps
 * job are skipped. Errors PS_FAILED_PRECONDITION: no ps task and no pin; PS_INVALID_ARGUMENT: the ps job has no such task, or the
 * replica is not 0. The round robin does not advance then. */
PSI_MUST ps_status psi_placement_place(struct psi_placement *p, const struct psi_device *pin, struct psi_place *out,
                                       struct psi_err *err);

#endif
