/* SPDX-License-Identifier: Apache-2.0 */
/* Where new variables go. psi_placer: the stack of device scopes (tf.device, tf.train.replica_device_setter), which gives the
 * requested device. psi_placement: what a session makes of a request: round robin over the directory's job, and explicit pins.
 * Pure; one thread at a time. */
#ifndef PSI_PLACEMENT_H
#define PSI_PLACEMENT_H

#include "cluster.h"
#include "device.h"
#include "limits.h"
#include "status.h"

#define PSI_PLACER_DEPTH_MAX 1024

enum psi_strategy { PSI_STRATEGY_ROUND_ROBIN = 0, PSI_STRATEGY_GREEDY_BYTES = 1 };
struct psi_setter {
    uint32_t ps_tasks;                 /* if cluster is NULL; 0: the setter does nothing */
    const struct psi_cluster *cluster; /* not NULL: the tasks of ps_device's job there count, not ps_tasks */
    const char *ps_device;             /* "/job:ps"; NULL is "" */
    const char *worker_device;         /* "/job:worker"; NULL is "" */
    bool merge_devices;                /* false: an explicit device wins whole */
    enum psi_strategy strategy;
};

struct psi_placer_scope;
struct psi_placer {
    struct psi_placer_scope *scopes; /* `depth` scopes, the innermost last */
    uint32_t depth;
    size_t capacity;
};
/** What the scopes say about one object. */
struct psi_request_place {
    struct psi_device device; /* empty: the scopes say nothing */
    bool by_strategy;         /* a setter's strategy chose device.task */
    bool setter;              /* a setter was asked: the object takes no turn of the session */
    bool pinned;              /* something other than a strategy fixed the task, or the job */
};

void psi_placer_init(struct psi_placer *p);
void psi_placer_fini(struct psi_placer *p);
/** Push a scope. device NULL hides all outer scopes. Errors of both pushes: PS_INVALID_ARGUMENT (a malformed device, too many
 * tasks), PS_RESOURCE_EXHAUSTED (memory, PSI_PLACER_DEPTH_MAX); nothing is pushed then. */
PSI_MUST ps_status psi_placer_push(struct psi_placer *p, const char *device, struct psi_err *err);
/** Push a setter, whose counter starts at 0; without tasks it does nothing. Borrows what setter points at. */
PSI_MUST ps_status psi_placer_push_setter(struct psi_placer *p, const struct psi_setter *setter, struct psi_err *err);
/** Pop the innermost scope. Errors  PS_FAILED_PRECONDITION: there is none. */
PSI_MUST ps_status psi_placer_pop(struct psi_placer *p, struct psi_err *err);
/** Apply the scopes, innermost first. Every setter that is reached for a ps op takes a turn. type NULL is "Variable". */
void psi_placer_place(struct psi_placer *p, const char *type, uint64_t bytes, struct psi_request_place *out);
/** The type is in TensorFlow's STANDARD_PS_OPS, which setters put on ps tasks. */
bool psi_is_ps_op(const char *type);

struct psi_placement {
    const struct psi_cluster *cluster; /* borrows */
    const char *ps_job;                /* the directory's job; "": the cluster is empty */
    uint32_t ps_tasks;                 /* tasks of ps_job */
    uint32_t next;                     /* round-robin counter, < ps_tasks: position among the tasks, by index */
};
struct psi_place {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    bool pinned; /* the user fixed the task (or another job): a variable that exists elsewhere is a conflict */
};

/** cluster is borrowed, and must not change as long as the placement is used. */
void psi_placement_init(struct psi_placement *p, const struct psi_cluster *cluster);
/**
 * Place one get-or-create; call it once for each, found or new. pin NULL: not pinned; its device type and index are ignored. As
 * in TensorFlow the counter also advances if the pin then fixes the task, and stays only if the pin names another job. A missing
 * task of another job is 0. If the ps job has holes, the turns skip them.
 * Errors  PS_FAILED_PRECONDITION: no ps task and no pin; PS_INVALID_ARGUMENT: the ps job has no such task, or the replica is not
 *         0. Nothing advances.
 */
PSI_MUST ps_status psi_placement_place(struct psi_placement *p, const struct psi_device *pin, struct psi_place *out,
                                       struct psi_err *err);

#endif
