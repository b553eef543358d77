/* SPDX-License-Identifier: Apache-2.0 */
/* ps_cluster.h: ClusterSpecs, device strings and placers for programs; no session is needed, and no task is contacted. Happy
 * path: wrappers of common/cluster, common/device and common/placement. Texts of a spec are made on demand and owned by the spec.
 * Failure: errors of the wrapped functions, and NULL arguments; every text is kept for ps_last_error(). A result of NULL (-1 for
 * counts) means that there is no such job or task, or no memory. */
#include "spec.h"

#include "api.h"

#include "common/abi.h"
#include "common/mem.h"
#include "common/resolve/resolve.h"

#include <string.h>

/* limit of a spec's text: for each task its address with all bytes escaped, and 32 more; for each job its name, and 16 more */
enum { TEXT_BYTES_MAX = PS_TASKS_MAX * (2 * PS_ADDRESS_BYTES_MAX + 32) + PS_JOBS_MAX * (PS_JOB_BYTES_MAX + 16) };

struct ps_cluster_spec {
    struct psi_cluster cluster;
    struct psi_buf text, dict; /* memory of the last results */
};

struct ps_placer {
    struct psi_placer placer;
};

_Static_assert(PS_DEVICE_BYTES == PSI_DEVICE_BYTES && PS_JOB_BYTES == PS_JOB_BYTES_MAX + 1, "one size");

static ps_status missing(const char *function, const char *argument)
{
    struct psi_err err = {0};
    return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "%s: %s is NULL", function, argument));
}

/* Check that the program's buffer `argument` of `function` has at least `needed` bytes; otherwise sets the last error. */
static ps_status check_room(const char *function, const char *argument, size_t bytes, size_t needed)
{
    struct psi_err err = {0};
    return bytes >= needed ? PS_OK
                           : psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "%s: %s has %zu bytes, %zu are needed",
                                                           function, argument, bytes, needed));
}

static ps_cluster_spec *spec_new(struct psi_err *err)
{
    ps_cluster_spec *spec = psi_calloc(1, sizeof(*spec));
    if (spec == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory")); /* NULL tells the caller */
        return NULL;
    }
    psi_cluster_init(&spec->cluster);
    psi_buf_init(&spec->text, TEXT_BYTES_MAX);
    psi_buf_init(&spec->dict, TEXT_BYTES_MAX);
    return spec;
}

void ps_cluster_spec_free(ps_cluster_spec *spec)
{
    if (spec != NULL) {
        psi_cluster_fini(&spec->cluster);
        psi_buf_fini(&spec->text);
        psi_buf_fini(&spec->dict);
        psi_free(spec);
    }
}

ps_status ps_cluster_spec_new(const char *text, ps_cluster_spec **out_spec)
{
    static const char name[] = "ps_cluster_spec_new";
    struct psi_err err = {0};
    if (out_spec == NULL) {
        return missing(name, "out_spec");
    }
    ps_cluster_spec *spec = spec_new(&err);
    ps_status st = spec != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
    if (st == PS_OK && text != NULL && text[0] != '\0') {
        st = psi_cluster_load(&spec->cluster, text, &err);
    }
    if (st != PS_OK) {
        ps_cluster_spec_free(spec);
        return psi_api_result(&err, st);
    }
    *out_spec = spec;
    return PS_OK;
}

ps_status ps_cluster_spec_from_tf_config(const char *json, ps_cluster_spec **out_spec, char *out_job, size_t out_job_bytes,
                                         int *out_task)
{
    static const char name[] = "ps_cluster_spec_from_tf_config";
    struct psi_err err = {0};
    struct psi_cluster_self self = {0};
    if (json == NULL || out_spec == NULL) {
        return missing(name, json == NULL ? "json" : "out_spec");
    }
    if (out_job != NULL && check_room(name, "out_job", out_job_bytes, PS_JOB_BYTES) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    ps_cluster_spec *spec = spec_new(&err);
    ps_status st = spec != NULL ? psi_cluster_parse_tf_config(&spec->cluster, json, &self, &err) : PS_RESOURCE_EXHAUSTED;
    if (st != PS_OK) {
        ps_cluster_spec_free(spec);
        return psi_api_result(&err, st);
    }
    if (out_job != NULL) {
        memcpy(out_job, self.job, sizeof(self.job));
    }
    if (out_task != NULL) {
        *out_task = self.known ? (int)self.task : -1;
    }
    *out_spec = spec;
    return PS_OK;
}

void ps_resolver_options_init(ps_resolver_options *options)
{
    if (options != NULL) {
        *options = (ps_resolver_options){.struct_bytes = sizeof(*options), .cluster = "auto"};
    }
}

ps_status ps_cluster_resolve(const ps_resolver_options *options, char *const *environment, ps_cluster_spec **out_spec,
                             ps_resolved *out_resolved)
{
    static const char name[] = "ps_cluster_resolve";
    struct psi_err err = {0};
    if (options == NULL || environment == NULL || out_spec == NULL || out_resolved == NULL) {
        return missing(name, options == NULL       ? "options"
                             : environment == NULL ? "environment"
                             : out_spec == NULL    ? "out_spec"
                                                   : "out_resolved");
    }
    if (options->struct_bytes != sizeof(*options)) {
        return psi_api_result(
            &err, psi_fail(&err, PS_INVALID_ARGUMENT, "%s: options were not set by ps_resolver_options_init()", name));
    }
    ps_cluster_spec *spec = spec_new(&err);
    ps_status st =
        spec != NULL ? psi_cluster_resolve_here(options, environment, &spec->cluster, out_resolved, &err) : PS_RESOURCE_EXHAUSTED;
    if (st != PS_OK) {
        ps_cluster_spec_free(spec);
        return psi_api_result(&err, st);
    }
    *out_spec = spec;
    return PS_OK;
}

ps_status ps_cluster_spec_add_job(ps_cluster_spec *spec, const char *job, const char *hosts)
{
    static const char name[] = "ps_cluster_spec_add_job";
    struct psi_err err = {0};
    if (spec == NULL || job == NULL || hosts == NULL) {
        return missing(name, spec == NULL ? "spec" : job == NULL ? "job" : "hosts");
    }
    return psi_api_result(&err, psi_cluster_add_job(&spec->cluster, job, hosts, &err));
}

ps_status ps_cluster_spec_add_task(ps_cluster_spec *spec, const char *job, int task, const char *address)
{
    static const char name[] = "ps_cluster_spec_add_task";
    struct psi_err err = {0};
    if (spec == NULL || job == NULL || address == NULL) {
        return missing(name, spec == NULL ? "spec" : job == NULL ? "job" : "address");
    }
    if (task < 0) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT, "task %d: a task index is 0 or more", task));
    }
    return psi_api_result(&err, psi_cluster_add_task(&spec->cluster, job, (uint32_t)task, address, &err));
}

int ps_cluster_spec_job_count(const ps_cluster_spec *spec)
{
    return spec != NULL ? (int)psi_cluster_job_count(&spec->cluster) : 0;
}

const char *ps_cluster_spec_job(const ps_cluster_spec *spec, int index)
{
    return index >= 0 && index < ps_cluster_spec_job_count(spec) ? psi_cluster_job_name(&spec->cluster, (uint32_t)index) : NULL;
}

static int tasks_of(const ps_cluster_spec *spec, const char *job)
{
    bool there = spec != NULL && job != NULL && psi_cluster_job_index(&spec->cluster, job) >= 0;
    return there ? (int)psi_cluster_num_tasks(&spec->cluster, job) : -1;
}

int ps_cluster_spec_num_tasks(const ps_cluster_spec *spec, const char *job)
{
    return tasks_of(spec, job);
}

int ps_cluster_spec_task_indices(const ps_cluster_spec *spec, const char *job, int *out_indices, int max)
{
    int count = tasks_of(spec, job);
    for (int i = 0; out_indices != NULL && i < count && i < max; i++) {
        out_indices[i] = (int)psi_cluster_task_index(&spec->cluster, job, (uint32_t)i);
    }
    return count;
}

const char *ps_cluster_spec_task_address(const ps_cluster_spec *spec, const char *job, int task)
{
    return spec != NULL && job != NULL && task >= 0 ? psi_cluster_task_address(&spec->cluster, job, (uint32_t)task) : NULL;
}

int ps_cluster_spec_job_tasks(const ps_cluster_spec *spec, const char *job, const char **out_addresses, int max)
{
    int count = tasks_of(spec, job);
    if (count <= 0) {
        return count;
    }
    int end = (int)psi_cluster_task_index(&spec->cluster, job, (uint32_t)count - 1) + 1;
    for (int i = 0; out_addresses != NULL && i < end && i < max; i++) {
        out_addresses[i] = psi_cluster_task_address(&spec->cluster, job, (uint32_t)i);
    }
    return end;
}

static const char *written(ps_cluster_spec *spec, struct psi_buf *buf,
                           ps_status (*format)(const struct psi_cluster *c, struct psi_buf *out, struct psi_err *err))
{
    struct psi_err err = {0};
    psi_buf_clear(buf);
    ps_status st = format(&spec->cluster, buf, &err);
    const char *text = st == PS_OK ? psi_buf_text(buf) : NULL;
    if (text == NULL) {
        st = st == PS_OK ? psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory") : st;
        PSI_IGNORE(psi_api_result(&err, st)); /* NULL tells the caller */
    }
    return text;
}

const char *ps_cluster_spec_as_dict(ps_cluster_spec *spec)
{
    return spec != NULL ? written(spec, &spec->dict, psi_cluster_format_json) : NULL;
}

const char *ps_cluster_spec_text(ps_cluster_spec *spec)
{
    return spec != NULL ? written(spec, &spec->text, psi_cluster_format) : NULL;
}

bool ps_cluster_spec_equal(const ps_cluster_spec *a, const ps_cluster_spec *b)
{
    return a != NULL && b != NULL ? psi_cluster_equal(&a->cluster, &b->cluster) : a == b;
}

ps_status ps_device_canonical(const char *device, char *out, size_t out_bytes)
{
    static const char name[] = "ps_device_canonical";
    struct psi_err err = {0};
    struct psi_device d;
    if (device == NULL || out == NULL) {
        return missing(name, device == NULL ? "device" : "out");
    }
    if (check_room(name, "out", out_bytes, PS_DEVICE_BYTES) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    ps_status st = psi_device_parse(device, &d, &err);
    if (st == PS_OK) {
        (void)psi_device_format(&d, out, out_bytes);
    }
    return psi_api_result(&err, st);
}

ps_status ps_device_merge(const char *outer, const char *inner, char *out, size_t out_bytes)
{
    static const char name[] = "ps_device_merge";
    struct psi_err err = {0};
    struct psi_device a;
    struct psi_device b;
    if (outer == NULL || inner == NULL || out == NULL) {
        return missing(name, outer == NULL ? "outer" : inner == NULL ? "inner" : "out");
    }
    if (check_room(name, "out", out_bytes, PS_DEVICE_BYTES) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    ps_status st = psi_device_parse(outer, &a, &err);
    st = st == PS_OK ? psi_device_parse(inner, &b, &err) : st;
    if (st == PS_OK) {
        psi_device_merge(&a, &b, &a);
        (void)psi_device_format(&a, out, out_bytes);
    }
    return psi_api_result(&err, st);
}

void ps_setter_options_init(ps_setter_options *options)
{
    if (options == NULL) {
        return;
    }
    *options = (ps_setter_options){.struct_bytes = sizeof(*options),
                                   .ps_device = "/job:ps",
                                   .worker_device = "/job:worker",
                                   .merge_devices = true,
                                   .strategy = PS_ROUND_ROBIN};
}

static ps_status setter_check(const ps_setter_options *o, struct psi_err *err)
{
    if (o->ps_tasks < 0 || o->ps_tasks > PS_TASKS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "ps_tasks is %d, it must be 0 to %d", o->ps_tasks, PS_TASKS_MAX);
    }
    if (o->strategy != PS_ROUND_ROBIN && o->strategy != PS_GREEDY_BYTES) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "strategy: %d is neither PS_ROUND_ROBIN nor PS_GREEDY_BYTES", (int)o->strategy);
    }
    return PS_OK;
}

ps_status psi_api_setter(const ps_setter_options *options, struct psi_setter *out, struct psi_err *err)
{
    ps_setter_options o;
    if (options == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "options is NULL");
    }
    ps_setter_options_init(&o);
    ps_status st = psi_struct_take(options, &o, sizeof(o), "ps_setter_options_init", err);
    if (st != PS_OK) {
        psi_err_prefix(err, "options");
        return st;
    }
    st = setter_check(&o, err);
    if (st != PS_OK) {
        return st;
    }
    *out = (struct psi_setter){.ps_tasks = (uint32_t)o.ps_tasks,
                               .cluster = o.cluster != NULL ? &o.cluster->cluster : NULL,
                               .ps_device = o.ps_device,
                               .worker_device = o.worker_device,
                               .merge_devices = o.merge_devices,
                               .strategy = o.strategy == PS_GREEDY_BYTES ? PSI_STRATEGY_GREEDY_BYTES : PSI_STRATEGY_ROUND_ROBIN};
    return PS_OK;
}

ps_placer *ps_placer_new(void)
{
    ps_placer *placer = psi_calloc(1, sizeof(*placer));
    if (placer != NULL) {
        psi_placer_init(&placer->placer);
    }
    return placer;
}

void ps_placer_free(ps_placer *placer)
{
    if (placer != NULL) {
        psi_placer_fini(&placer->placer);
        psi_free(placer);
    }
}

ps_status ps_placer_push(ps_placer *placer, const char *device)
{
    struct psi_err err = {0};
    return placer == NULL ? missing("ps_placer_push", "placer")
                          : psi_api_result(&err, psi_placer_push(&placer->placer, device, &err));
}

ps_status ps_placer_push_setter(ps_placer *placer, const ps_setter_options *options)
{
    static const char name[] = "ps_placer_push_setter";
    struct psi_err err = {0};
    struct psi_setter setter;
    if (placer == NULL) {
        return missing(name, "placer");
    }
    ps_status st = psi_api_setter(options, &setter, &err);
    st = st == PS_OK ? psi_placer_push_setter(&placer->placer, &setter, &err) : st;
    return psi_api_result(&err, st);
}

ps_status ps_placer_pop(ps_placer *placer)
{
    struct psi_err err = {0};
    return placer == NULL ? missing("ps_placer_pop", "placer") : psi_api_result(&err, psi_placer_pop(&placer->placer, &err));
}

ps_status ps_placer_place(ps_placer *placer, const char *type, uint64_t bytes, char *out, size_t out_bytes, bool *out_pinned)
{
    static const char name[] = "ps_placer_place";
    struct psi_request_place place;
    if (placer == NULL || out == NULL) {
        return missing(name, placer == NULL ? "placer" : "out");
    }
    if (check_room(name, "out", out_bytes, PS_DEVICE_BYTES) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    psi_placer_place(&placer->placer, type, bytes, &place);
    (void)psi_device_format(&place.device, out, out_bytes);
    if (out_pinned != NULL) {
        *out_pinned = place.pinned;
    }
    return PS_OK;
}
