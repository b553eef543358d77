/* SPDX-License-Identifier: Apache-2.0 */
/* Placement as in TensorFlow 1.15. The stack of device scopes is that of python/framework/ops.py _apply_device_functions. The
 * setter is that of python/training/device_setter.py _ReplicaDeviceChooser and _RoundRobinStrategy, and of contrib's
 * GreedyLoadBalancingStrategy. Differences: a setter without tasks does nothing (in TensorFlow it is tf.device(None), which also
 * hides the outer scopes), and round robin skips the indices that a ps job lacks. Failure: a malformed device, or a pin (a task
 * that the program names) to a task that does not exist; round robin does not advance then. */
#include "placement.h"

#include "mem.h"

#include <stdio.h>
#include <string.h>

enum scope_kind { SCOPE_DEVICE, SCOPE_HIDE, SCOPE_SETTER, SCOPE_NOTHING };
struct psi_placer_scope {
    enum scope_kind kind;
    enum psi_strategy strategy;
    bool merge;
    bool has_ps_device; /* false: ps_device is "" */
    uint32_t task_count;
    uint32_t next; /* round robin: position of the next task */
    uint32_t *tasks;
    uint64_t *loads; /* greedy: bytes placed so far, by position of the task */
    struct psi_device device;
    struct psi_device worker;
};

void psi_placer_init(struct psi_placer *p)
{
    *p = (struct psi_placer){0};
}

static void scope_fini(struct psi_placer_scope *s)
{
    psi_free(s->tasks);
    psi_free(s->loads);
}

void psi_placer_fini(struct psi_placer *p)
{
    for (uint32_t i = 0; i < p->depth; i++) {
        scope_fini(&p->scopes[i]);
    }
    psi_free(p->scopes);
    psi_placer_init(p);
}

/* Push *scope, whose memory this function takes over, and frees on failure. */
static ps_status push(struct psi_placer *p, struct psi_placer_scope *scope, struct psi_err *err)
{
    if (p->depth == PSI_PLACER_DEPTH_MAX) {
        scope_fini(scope);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%d device scopes are inside each other; leave some", PSI_PLACER_DEPTH_MAX);
    }
    struct psi_placer_scope *scopes = psi_grow(p->scopes, p->depth, &p->capacity, sizeof(*scopes));
    if (scopes == NULL) {
        scope_fini(scope);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "device scope: out of memory");
    }
    p->scopes = scopes;
    p->scopes[p->depth++] = *scope;
    return PS_OK;
}

ps_status psi_placer_push(struct psi_placer *p, const char *device, struct psi_err *err)
{
    struct psi_placer_scope scope = {.kind = device == NULL ? SCOPE_HIDE : SCOPE_DEVICE};
    ps_status st = device == NULL ? PS_OK : psi_device_parse(device, &scope.device, err);
    return st == PS_OK ? push(p, &scope, err) : st;
}

/* Set the tasks among which the setter distributes: ps_tasks of them from 0 on, or the tasks of the cluster's job. */
static ps_status scope_tasks(struct psi_placer_scope *s, const struct psi_setter *setter, struct psi_err *err)
{
    const char *job = s->device.has_job ? s->device.job : "";
    s->task_count = setter->cluster != NULL ? psi_cluster_num_tasks(setter->cluster, job) : setter->ps_tasks;
    if (s->task_count > PS_TASKS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "ps_tasks is %u; a cluster has at most %d tasks", s->task_count, PS_TASKS_MAX);
    }
    if (s->task_count == 0) {
        s->kind = SCOPE_NOTHING;
        return PS_OK;
    }
    s->tasks = psi_calloc(s->task_count, sizeof(*s->tasks));
    s->loads = psi_calloc(s->task_count, sizeof(*s->loads));
    if (s->tasks == NULL || s->loads == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "device setter: out of memory");
    }
    for (uint32_t i = 0; i < s->task_count; i++) {
        s->tasks[i] = setter->cluster != NULL ? psi_cluster_task_index(setter->cluster, job, i) : i;
    }
    return PS_OK;
}

ps_status psi_placer_push_setter(struct psi_placer *p, const struct psi_setter *setter, struct psi_err *err)
{
    struct psi_placer_scope scope = {.kind = SCOPE_SETTER, .strategy = setter->strategy, .merge = setter->merge_devices};
    ps_status st = psi_device_parse(setter->ps_device == NULL ? "" : setter->ps_device, &scope.device, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "ps_device");
        return st;
    }
    st = psi_device_parse(setter->worker_device == NULL ? "" : setter->worker_device, &scope.worker, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "worker_device");
        return st;
    }
    scope.has_ps_device = setter->ps_device != NULL && setter->ps_device[0] != '\0';
    st = scope_tasks(&scope, setter, err);
    if (st != PS_OK) {
        scope_fini(&scope);
        return st;
    }
    return push(p, &scope, err);
}

ps_status psi_placer_pop(struct psi_placer *p, struct psi_err *err)
{
    if (p->depth == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "no device scope is open: one pop too many");
    }
    scope_fini(&p->scopes[--p->depth]);
    return PS_OK;
}

bool psi_is_ps_op(const char *type)
{
    static const char *const ops[] = {"Variable",
                                      "VariableV2",
                                      "AutoReloadVariable",
                                      "MutableHashTable",
                                      "MutableHashTableV2",
                                      "MutableHashTableOfTensors",
                                      "MutableHashTableOfTensorsV2",
                                      "MutableDenseHashTable",
                                      "MutableDenseHashTableV2",
                                      "VarHandleOp",
                                      "BoostedTreesEnsembleResourceHandleOp",
                                      "BoostedTreesQuantileStreamResourceHandleOp",
                                      "ResourceConditionalAccumulator"};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(type, ops[i]) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t take_turn(struct psi_placer_scope *s, uint64_t bytes)
{
    uint32_t at = s->next;
    if (s->strategy == PSI_STRATEGY_GREEDY_BYTES) {
        at = 0;
        for (uint32_t i = 1; i < s->task_count; i++) {
            at = s->loads[i] < s->loads[at] ? i : at;
        }
        s->loads[at] += bytes < UINT64_MAX - s->loads[at] ? bytes : UINT64_MAX - s->loads[at];
    }
    s->next = (s->next + 1) % s->task_count;
    return s->tasks[at];
}

/* The rule of device_function in TensorFlow's device_setter.py: fields that the object's own device sets take precedence. For a
 * ps_op whose own device names no other job, the strategy chooses a task. */
static void apply_setter(struct psi_placer_scope *s, bool ps_op, uint64_t bytes, struct psi_request_place *place)
{
    const struct psi_device *inner = &place->device;
    place->setter = true;
    if (!s->merge && !psi_device_is_empty(inner)) {
        return;
    }
    if (!ps_op || !s->has_ps_device) {
        psi_device_merge(&s->worker, inner, &place->device);
        return;
    }
    struct psi_device ps = s->device;
    if (ps.has_job && (!inner->has_job || strcmp(inner->job, ps.job) == 0)) {
        ps.has_task = true;
        ps.task = take_turn(s, bytes);
        place->by_strategy = place->by_strategy || !inner->has_task;
    }
    psi_device_merge(&ps, inner, &place->device);
}

void psi_placer_place(struct psi_placer *p, const char *type, uint64_t bytes, struct psi_request_place *out)
{
    struct psi_request_place place = {0};
    bool ps_op = psi_is_ps_op(type == NULL ? "Variable" : type);
    for (uint32_t i = p->depth; i > 0 && p->scopes[i - 1].kind != SCOPE_HIDE; i--) {
        struct psi_placer_scope *s = &p->scopes[i - 1];
        if (s->kind == SCOPE_DEVICE) {
            psi_device_merge(&s->device, &place.device, &place.device);
        } else if (s->kind == SCOPE_SETTER) {
            apply_setter(s, ps_op, bytes, &place);
        }
    }
    place.pinned = !place.by_strategy && (place.device.has_job || place.device.has_task);
    *out = place;
}

void psi_placement_init(struct psi_placement *p, const struct psi_cluster *cluster)
{
    uint32_t directory = 0;
    *p = (struct psi_placement){.cluster = cluster, .ps_job = ""};
    if (psi_cluster_directory(cluster, &p->ps_job, &directory)) {
        p->ps_tasks = psi_cluster_num_tasks(cluster, p->ps_job);
    }
}

ps_status psi_placement_place(struct psi_placement *p, const struct psi_device *pin, struct psi_place *out, struct psi_err *err)
{
    struct psi_place place = {0};
    if (pin != NULL && pin->has_replica && pin->replica != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", pin->replica);
    }
    if (pin != NULL && pin->has_job && strcmp(pin->job, p->ps_job) != 0) {
        memcpy(place.job, pin->job, sizeof(place.job));
        place.task = pin->has_task ? pin->task : 0;
        place.pinned = true;
        *out = place;
        return PS_OK;
    }
    if (p->ps_tasks == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "the cluster has no tasks: a variable has nowhere to go unless it is pinned");
    }
    memcpy(place.job, p->ps_job, strlen(p->ps_job) + 1);
    place.task = psi_cluster_task_index(p->cluster, p->ps_job, p->next);
    if (pin != NULL && pin->has_task) {
        if (psi_cluster_task_address(p->cluster, p->ps_job, pin->task) == NULL) {
            char list[PSI_TASK_LIST_MAX];
            return psi_fail(err, PS_INVALID_ARGUMENT, "/job:%s/task:%u does not exist: job '%s' has tasks %s", p->ps_job,
                            pin->task, p->ps_job, psi_cluster_task_list(p->cluster, p->ps_job, list, sizeof(list)));
        }
        place.task = pin->task;
        place.pinned = true;
    }
    p->next = (p->next + 1) % p->ps_tasks;
    *out = place;
    return PS_OK;
}
