/* SPDX-License-Identifier: Apache-2.0 */
/* A variable as a program defines it. Happy path: psi_client_definition_check() checks the definition; psi_client_variable_in()
 * makes the record, with name, container and device from the session's scopes; GET or LOOKUP (variable.c) calls
 * psi_var_choose_task() when the cluster is known. Failure modes: an error that can be found without asking a task is returned
 * here, with the variable's name. If a task does not exist, the text lists the tasks of the cluster. */
#include "client.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/optimizer.h"
#include "common/rng.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>

/* Shape for which the initializer draws values: for a part of a larger variable, the shape of the whole variable. */
static ps_shape initial_shape(const ps_variable_spec *spec, const struct psi_part *part)
{
    return part != NULL && part->count > 0 ? psi_part_whole(part, &spec->shape).shape : spec->shape;
}

/* Check the spec of variable `name`. spec->name may be freed already, and is not used. part NULL: the variable is no part. */
static ps_status definition_check(const ps_variable_spec *spec, const char *name, const struct psi_part *part,
                                  struct psi_err *err)
{
    const ps_initializer *init = spec->init != NULL ? spec->init : ps_zeros();
    const ps_optimizer *optimizer = spec->optimizer != NULL ? spec->optimizer : ps_no_optimizer();
    if (spec->partitions > 1) {
        return psi_fail(err, PS_UNIMPLEMENTED, "%u partitions: only ps_variable_get() makes a variable in parts",
                        spec->partitions);
    }
    ps_status st = psi_variable_check(spec->dtype, &spec->shape, spec->atomic, err);
    if (st == PS_OK && spec->wire_dtype != PS_DTYPE_NONE && !psi_wire_fits(spec->dtype, (uint32_t)spec->wire_dtype)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "wire dtype %s for %s values; allowed are bfloat16 and float16, for float32 values",
                      ps_dtype_name(spec->wire_dtype), ps_dtype_name(spec->dtype));
    }
    if (st == PS_OK) {
        const ps_shape shape = initial_shape(spec, part);
        st = psi_initializer_check(init, spec->dtype, &shape, err);
    }
    st = st == PS_OK ? psi_optimizer_check(optimizer, spec->dtype, err) : st;
    return st == PS_OK ? psi_optimizer_check_shape(optimizer, name, spec->dtype, &spec->shape,
                                                   part != NULL ? part : &(struct psi_part){.count = 0}, err)
                       : st;
}

ps_status psi_client_definition_check(const ps_variable_spec *spec, struct psi_err *err)
{
    return definition_check(spec, spec->name != NULL ? spec->name : "", NULL, err);
}

ps_status psi_var_wire(struct psi_client *c, struct psi_var *var, ps_dtype asked, struct psi_err *err)
{
    var->wire = var->dtype;
    if (asked != PS_DTYPE_NONE) {
        var->wire = asked;
    } else if (var->dtype == PS_F32 && c->wire_dtype != PS_DTYPE_NONE) {
        var->wire = c->wire_dtype;
    }
    if (var->wire != var->dtype && psi_out_scratch_prepare(&c->scratch) != PS_OK) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory to convert values");
    }
    return PS_OK;
}

static struct psi_var *var_new(const struct psi_client *c, const ps_variable_spec *spec, const char *container, const char *name,
                               const struct psi_part *part)
{
    struct psi_var *v = psi_aligned_calloc(PSI_CACHE_LINE, sizeof(*v));
    if (v == NULL) {
        return NULL;
    }
    snprintf(v->container, sizeof(v->container), "%s", container);
    snprintf(v->name, sizeof(v->name), "%s", name);
    const ps_shape shape = initial_shape(spec, part);
    v->init = psi_initializer_plain(spec->init != NULL ? spec->init : ps_zeros(), &shape);
    v->optimizer = spec->optimizer != NULL ? *spec->optimizer : *ps_no_optimizer();
    v->seed = c->seed;
    v->dtype = spec->dtype;
    v->shape = spec->shape;
    v->part = part != NULL ? *part : (struct psi_part){.count = 0};
    v->atomic = spec->atomic;
    v->wire_asked = spec->wire_dtype;
    v->owner = UINT32_MAX;
    v->requested_task = UINT32_MAX;
    v->held_by = UINT32_MAX;
    psi_list_init(&v->waiting);
    psi_list_init(&v->getters);
    psi_list_init(&v->step_link);
    return v;
}

ps_status psi_client_variable_in(struct psi_client *c, const ps_variable_spec *spec, const struct psi_var_scope *scope,
                                 bool find_only, struct psi_var **out_var, struct psi_err *err)
{
    const char *name = scope->name != NULL ? scope->name : spec->name != NULL ? spec->name : "";
    const char *container = scope->container != NULL ? scope->container : PSI_CONTAINER_DEFAULT;
    ps_status st = psi_variable_name_check(name, strlen(name), err);
    st = st == PS_OK ? psi_container_name_check(container, strlen(container), err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (scope->part != NULL) {
        st = psi_shape_check(&spec->shape, err);
        st = st == PS_OK ? psi_part_check(scope->part, spec->dtype, &spec->shape, name, err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "variable '%s'", name);
            return st;
        }
    }
    struct psi_var *v = var_new(c, spec, container, name, scope->part);
    if (v == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory", name);
    }
    if (scope->queue) {
        v->queue = psi_calloc(1, sizeof(*v->queue));
        if (v->queue == NULL) {
            psi_free(v);
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "queue '%s': no memory", name);
        }
        psi_list_init(&v->queue->puts);
    }
    if (scope->key != NULL) {
        v->keyed = true;
        memcpy(v->key, scope->key, sizeof(v->key));
    }
    v->found_only = find_only;
    v->apart = scope->apart;
    v->must_exist = find_only || scope->must_exist;
    if (!find_only) {
        st = scope->queue ? psi_queue_spec_check(scope->elements, err) : definition_check(spec, name, scope->part, err);
        st = st == PS_OK ? psi_var_wire(c, v, spec->wire_dtype, err) : st;
        if (scope->queue) {
            v->queue->spec = *scope->elements;
        }
        if (scope->place != NULL) {
            v->requested = scope->place->device;
            v->by_strategy = scope->place->by_strategy;
            v->setter = scope->place->setter;
        } else if (st == PS_OK && spec->device != NULL) {
            st = psi_device_parse(spec->device, &v->requested, err);
        }
        v->soft_placement = scope->soft_placement;
        if (st != PS_OK) {
            psi_err_prefix(err, "%s '%s'", scope->queue ? "queue" : "variable", name);
            psi_free(v->queue);
            psi_free(v);
            return st;
        }
        v->elements = scope->queue ? 0 : (uint64_t)ps_shape_elements(&v->shape);
    }
    psi_list_push_back(&c->variables, &v->link);
    *out_var = v;
    return PS_OK;
}

enum { JOBS_TEXT_MAX = 300 };

/* Write the jobs of the cluster: "ps (tasks 0 to 1), worker (tasks 0 to 2)". */
static void jobs_text(const struct psi_cluster *cluster, char *dst, size_t n)
{
    size_t at = 0;
    dst[0] = '\0';
    for (uint32_t j = 0; j < psi_cluster_job_count(cluster) && at < n - 1; j++) {
        char list[PSI_TASK_LIST_MAX];
        const char *job = psi_cluster_job_name(cluster, j);
        bool one = psi_cluster_num_tasks(cluster, job) == 1;
        int more = snprintf(dst + at, n - at, "%s%s (%s %s)", j > 0 ? ", " : "", job, one ? "task" : "tasks",
                            psi_cluster_task_list(cluster, job, list, sizeof(list)));
        at = more > 0 && (size_t)more < n - at ? at + (size_t)more : n - 1;
    }
}

/* Refuse a device other than CPU:0, because tasks keep all values in host memory; with soft placement, use CPU:0 instead. */
static ps_status check_device(struct psi_var *var, const struct psi_place *place, struct psi_err *err)
{
    const struct psi_device *asked = &var->requested;
    bool cpu = (!asked->has_type || strcmp(asked->type, "CPU") == 0) && (!asked->has_index || asked->index == 0);
    if (cpu || var->soft_placement) {
        return PS_OK;
    }
    char device[PSI_DEVICE_BYTES];
    char index[16];
    (void)snprintf(index, sizeof(index), "%u", asked->index);
    (void)psi_device_format(asked, device, sizeof(device));
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE,
                       "device '%s': /job:%s/task:%u has no %s:%s for variables, they are on CPU:0; leave it out or allow soft "
                       "placement",
                       device, place->job, place->task, asked->has_type ? asked->type : "CPU", asked->has_index ? index : "*");
}

ps_status psi_var_choose_task(struct psi_client *c, struct psi_var *var, struct psi_err *err)
{
    /* a copy of the round-robin's state, written back on success: after an error the same task is next */
    struct psi_placement turns = c->placement;
    struct psi_device pin = var->requested;
    struct psi_place place = {0};
    ps_status st = PS_OK;
    if (pin.has_job && !pin.has_task) {
        pin.has_task = true; /* a pin without a task means task 0 */
        pin.task = 0;
    }
    /* a queue whose device names no job goes to the directory, and does not advance the round-robin, as in TensorFlow */
    if (var->queue != NULL && !pin.has_job) {
        const struct psi_peer *directory = psi_client_directory(c);
        memcpy(place.job, directory->job, sizeof(place.job));
        place.task = directory->task;
    } else if (var->by_strategy && pin.has_job) {
        memcpy(place.job, pin.job, sizeof(place.job));
        place.task = pin.task;
        place.pinned = strcmp(place.job, turns.ps_job) != 0; /* for a task of another job the round-robin does not advance */
        if (pin.has_replica && pin.replica != 0) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "/replica:%u does not exist: every task is of replica 0", pin.replica);
        }
    } else {
        st = psi_placement_place(&turns, &pin, &place, err);
    }
    uint32_t task = st == PS_OK ? psi_client_find_task(c, place.job, place.task) : UINT32_MAX;
    if (st == PS_OK && task == UINT32_MAX) {
        char jobs[JOBS_TEXT_MAX];
        jobs_text(&c->cluster, jobs, sizeof(jobs));
        return psi_fail(err, PS_INVALID_ARGUMENT, "/job:%s/task:%u does not exist: the cluster has %s", place.job, place.task,
                        jobs);
    }
    st = st == PS_OK ? check_device(var, &place, err) : st;
    if (st == PS_OK) {
        c->placement = var->setter ? c->placement : turns;
        var->placed = true;
        var->pinned = place.pinned;
        var->requested_task = task;
    }
    return st;
}

ps_status psi_client_variable(struct psi_client *c, const ps_variable_spec *spec, bool find_only, struct psi_var **out_var,
                              struct psi_err *err)
{
    static const struct psi_var_scope NONE;
    return psi_client_variable_in(c, spec, &NONE, find_only, out_var, err);
}

static bool chunks_have(const struct psi_list *chunks, const struct psi_var *var)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, chunks) {
        if (PSI_CONTAINER_OF(it, struct psi_chunk, link)->var == var) {
            return true;
        }
    }
    return false;
}

/* True if a mutation, chunk or ask of this peer still points to var: var must not be freed, even if no request uses it. */
static bool peer_has(const struct psi_peer *peer, const struct psi_var *var)
{
    struct psi_list *it = NULL;
    for (uint64_t n = peer->first; peer->ring != NULL && n < peer->next; n++) {
        const struct psi_entry *e = &peer->ring[n % PS_WINDOW];
        if (e->number != 0 && e->var == var) {
            return true;
        }
    }
    PSI_LIST_FOREACH(it, &peer->asks) {
        const struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        for (uint32_t i = 0; i < ask->var_count; i++) {
            if (ask->vars[i] == var) {
                return true;
            }
        }
    }
    return peer->chunks != NULL && (chunks_have(&peer->chunk_out, var) || chunks_have(&peer->chunk_again, var));
}

bool psi_client_variable_drop(struct psi_client *c, struct psi_var *var)
{
    struct psi_list *it = NULL;
    if (var->step != PSI_VAR_NEW || !psi_list_empty(&var->getters)) {
        return false;
    }
    PSI_LIST_FOREACH(it, &c->all) {
        if (PSI_CONTAINER_OF(it, struct psi_request, all)->var == var) {
            return false;
        }
    }
    PSI_LIST_FOREACH(it, &c->done) {
        if (PSI_CONTAINER_OF(it, struct psi_request, link)->var == var) {
            return false;
        }
    }
    for (uint32_t i = 0; i < c->peer_count; i++) {
        if (peer_has(c->peers[i], var)) {
            return false;
        }
    }
    psi_list_remove(&var->link);
    psi_free(var->queue);
    psi_free(var);
    return true;
}
