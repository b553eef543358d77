/* SPDX-License-Identifier: Apache-2.0 */
/* ps_variable_get(), ps_variables_get() and ps_variable_find(), for variables that are whole or in parts. Happy path: all parts
 * are got at once, so that one CREATE request has all of them; the program gets one ps_variable for all parts (parts_op.c).
 * Failure mode: if a part cannot be got, the call fails; parts that were created stay at their tasks. */
#include "monitored.h"

#include "common/mem.h"
#include "common/shape.h"

#include <inttypes.h>
#include <string.h>

static ps_status spec_check(const ps_variable_spec *spec, const struct psi_parts *cut, struct psi_err *err)
{
    if (spec->name == NULL || spec->name[0] == '\0' || spec->unique) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a partitioned variable has a name of its own, not one that is made unique");
    }
    if (spec->dtype == PS_STRING) {
        return psi_fail(err, PS_UNIMPLEMENTED, "strings in parts");
    }
    ps_variable_spec whole = *spec;
    whole.partitions = 0;
    ps_status st = psi_client_definition_check(&whole, err);
    return st == PS_OK ? psi_parts_check(cut, err) : st;
}

static ps_status whole_new(ps_session *s, const ps_variable_spec *spec, const struct psi_parts *cut, ps_variable **out,
                           struct psi_err *err)
{
    struct psi_scoped scoped;
    ps_status st = psi_api_scope_name(s, spec->name, &scoped, err);
    if (st != PS_OK) {
        return st;
    }
    ps_variable *v = psi_aligned_calloc(PSI_CACHE_LINE, sizeof(*v));
    ps_variable **parts = psi_calloc(cut->count, sizeof(*parts));
    if (v == NULL || parts == NULL) {
        psi_free(v);
        psi_free(parts);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    v->session = s;
    v->parts = parts;
    v->cut = *cut;
    v->dtype = spec->dtype;
    v->shape = spec->shape;
    v->bytes = (uint64_t)ps_shape_elements(&spec->shape) * ps_dtype_bytes(spec->dtype);
    psi_list_init(&v->link);
    memcpy(v->container, scoped.container, sizeof(v->container));
    memcpy(v->name, scoped.name, sizeof(v->name));
    *out = v;
    return PS_OK;
}

static ps_status part_new(ps_session *s, const ps_variable_spec *spec, const ps_variable *whole, uint32_t i,
                          struct psi_api_get **out, struct psi_err *err)
{
    char name[PS_NAME_BYTES_MAX + 1];
    ps_variable_spec part = *spec;
    part.name = name;
    part.partitions = 0;
    part.shape = psi_part_shape(&whole->cut, i);
    ps_status st = psi_part_name(name, spec->name, i, err);
    st = st == PS_OK ? psi_api_get_new(s, &part, PSI_SCOPE_GET, &whole->parts[i], out, err) : st;
    if (st == PS_OK) {
        (*out)->part = (struct psi_part){.count = whole->cut.count,
                                         .index = i,
                                         .axis = whole->cut.axis,
                                         .layout = whole->cut.layout,
                                         .rows = psi_parts_rows(&whole->cut)};
        psi_api_get_looks(s, *out);
    }
    return st;
}

static void publish(ps_session *s, ps_variable *v)
{
    v->task = v->parts[0]->task;
    memcpy(v->device, v->parts[0]->device, sizeof(v->device));
    memcpy(v->requested, v->parts[0]->requested, sizeof(v->requested));
    (void)pthread_mutex_lock(&s->lock);
    psi_list_push_back(&s->wholes, &v->link);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Free v (or NULL), a whole variable of which a part could not be got; recoveries do not get its other parts. */
static void abandon(ps_session *s, ps_variable *v)
{
    for (uint32_t i = 0; v != NULL && i < v->cut.count; i++) {
        psi_api_get_once(s, v->parts[i]);
    }
    if (v != NULL) {
        psi_free(v->parts);
    }
    psi_free(v);
}

/* Make the gets of all parts, and append them to `gets`. *out: the whole variable; publish() or abandon() must follow for it. */
static ps_status prepare(ps_session *s, const ps_variable_spec *spec, struct psi_list *gets, ps_variable **out,
                         struct psi_err *err)
{
    const struct psi_parts cut = {
        .shape = spec->shape, .axis = spec->partition_axis, .count = spec->partitions, .layout = spec->partition_layout};
    ps_variable *v = NULL;
    struct psi_list own;
    struct psi_list *it = NULL;
    psi_list_init(&own);
    ps_status st = spec_check(spec, &cut, err);
    st = st == PS_OK ? whole_new(s, spec, &cut, &v, err) : st;
    for (uint32_t i = 0; st == PS_OK && i < cut.count; i++) {
        struct psi_api_get *get = NULL;
        st = part_new(s, spec, v, i, &get, err);
        if (st == PS_OK) {
            psi_list_push_back(&own, &get->get.link);
        }
    }
    if (st == PS_OK && !PSI_CONTAINER_OF(psi_list_first(&own), struct psi_api_get, get.link)->scoped.place.pinned) {
        st = psi_api_parts_fit(s, spec, &cut, err);
    }
    if (st != PS_OK) {
        psi_api_gets_drop(s, &own);
        psi_err_prefix(err, "variable '%s' in %" PRIu32 " parts", spec->name != NULL ? spec->name : "", cut.count);
        abandon(s, v);
        return st;
    }
    while ((it = psi_list_pop_front(&own)) != NULL) {
        psi_list_push_back(gets, it);
    }
    *out = v;
    return PS_OK;
}

static bool has_all_parts(const ps_variable *v)
{
    bool all = true;
    for (uint32_t i = 0; i < v->cut.count; i++) {
        all = all && v->parts[i] != NULL;
    }
    return all;
}

ps_status psi_api_parts_get(ps_session *s, const ps_variable_spec *spec, ps_variable **out_variable, struct psi_err *err)
{
    ps_variable *v = NULL;
    struct psi_list gets;
    psi_list_init(&gets);
    const ps_status st = prepare(s, spec, &gets, &v, err);
    if (st != PS_OK) {
        return st;
    }
    psi_api_gets_run(s, &gets, err);
    if (err->code != PS_OK) {
        psi_err_prefix(err, "variable '%s' in %" PRIu32 " parts", spec->name, v->cut.count);
        abandon(s, v);
        return err->code;
    }
    publish(s, v);
    *out_variable = v;
    return PS_OK;
}

ps_status ps_variable_get(ps_session *s, const ps_variable_spec *given, ps_variable **out_variable)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_variable_spec spec;
    ps_optimizer optimizer;
    ps_status st =
        out_variable == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_variable is NULL") : psi_api_check(s, true, &err);
    st = st == PS_OK ? psi_api_spec_take(given, PSI_SCOPE_GET, &spec, &optimizer, &err) : st;
    if (st == PS_OK) {
        st = spec.partitions > 1 ? psi_api_parts_get(s, &spec, out_variable, &err)
                                 : psi_api_get_one(s, given, PSI_SCOPE_GET, out_variable, &err);
    }
    return psi_api_result(&err, st);
}

static const ps_variable_spec *spec_at(const ps_variable_spec *specs, size_t i)
{
    return (const ps_variable_spec *)(const void *)((const char *)specs + i * specs->struct_bytes);
}

/* Check specs and out_variables. All specs must have the same struct_bytes, which is the distance between two of them. */
static ps_status specs_check(const ps_variable_spec *specs, size_t count, ps_variable **out_variables, struct psi_err *err)
{
    ps_variable_spec spec;
    ps_optimizer optimizer;
    if (count > 0 && (specs == NULL || out_variables == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is NULL", specs == NULL ? "specs" : "out_variables");
    }
    ps_status st = count > 0 ? psi_api_spec_take(specs, PSI_SCOPE_GET, &spec, &optimizer, err) : PS_OK;
    for (size_t i = 1; st == PS_OK && i < count; i++) {
        size_t bytes = spec_at(specs, i)->struct_bytes;
        if (bytes != specs->struct_bytes) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, "spec %zu: struct_bytes is %zu, that of the first is %zu", i, bytes,
                          specs->struct_bytes);
        }
    }
    return st;
}

/* Add to `gets` the get of a spec, or, if the spec has parts, the gets of all parts; *out is then the whole variable. */
static ps_status spec_prepare(ps_session *s, const ps_variable_spec *given, struct psi_list *gets, ps_variable **out,
                              struct psi_err *err)
{
    ps_variable_spec spec;
    ps_optimizer optimizer;
    struct psi_api_get *get = NULL;
    ps_status st = psi_api_spec_take(given, PSI_SCOPE_GET, &spec, &optimizer, err);
    if (st == PS_OK && spec.partitions > 1) {
        return prepare(s, &spec, gets, out, err);
    }
    st = psi_api_get_new(s, given, PSI_SCOPE_GET, out, &get, err);
    if (st == PS_OK) {
        psi_api_get_looks(s, get);
        psi_list_push_back(gets, &get->get.link);
    }
    return st;
}

ps_status ps_variables_get(ps_session *s, const ps_variable_spec *specs, size_t count, ps_variable **out_variables)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct psi_err refused = {0};
    struct psi_list gets;
    ps_status st = psi_api_check(s, true, &err);
    st = st == PS_OK ? specs_check(specs, count, out_variables, &err) : st;
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    psi_list_init(&gets);
    for (size_t i = 0; i < count; i++) {
        out_variables[i] = NULL;
        st = spec_prepare(s, spec_at(specs, i), &gets, &out_variables[i], &err);
        if (st != PS_OK && refused.code == PS_OK) {
            psi_err_prefix(&err, "spec %zu", i);
            refused = err;
        }
    }
    err = refused;
    psi_api_gets_run(s, &gets, &err);
    for (size_t i = 0; i < count; i++) {
        ps_variable *v = out_variables[i];
        if (v != NULL && v->parts != NULL && has_all_parts(v)) {
            publish(s, v);
        } else if (v != NULL && v->parts != NULL) {
            abandon(s, v);
            out_variables[i] = NULL;
        }
    }
    return psi_api_result(&err, err.code);
}

static ps_status find_others(ps_session *s, const char *name, const ps_variable *v, struct psi_err *err)
{
    struct psi_list gets;
    psi_list_init(&gets);
    ps_status st = PS_OK;
    for (uint32_t i = 1; st == PS_OK && i < v->cut.count; i++) {
        char part_name[PS_NAME_BYTES_MAX + 1];
        ps_variable_spec spec;
        struct psi_api_get *get = NULL;
        ps_variable_spec_init(&spec);
        spec.name = part_name;
        st = psi_part_name(part_name, name, i, err);
        st = st == PS_OK ? psi_api_get_new(s, &spec, PSI_SCOPE_FIND, &v->parts[i], &get, err) : st;
        if (st == PS_OK) {
            psi_list_push_back(&gets, &get->get.link);
        }
    }
    if (st != PS_OK) {
        psi_api_gets_drop(s, &gets);
        return st;
    }
    psi_api_gets_run(s, &gets, err);
    return err->code;
}

/* Find the partitioned variable NAME by its first part, NAME/part_0. NOT_FOUND: the first part does not exist. */
static ps_status find_parts(ps_session *s, const char *name, ps_variable **out_variable, struct psi_err *err)
{
    char part_name[PS_NAME_BYTES_MAX + 1];
    ps_variable *first = NULL, *v = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = part_name;
    if (psi_part_name(part_name, name, 0, NULL) != PS_OK) {
        return PS_NOT_FOUND;
    }
    ps_status st = psi_api_get_one(s, &spec, PSI_SCOPE_FIND, &first, err);
    if (st != PS_OK || first->part.count == 0) {
        return st != PS_OK ? st : PS_NOT_FOUND;
    }
    const struct psi_parts cut = psi_part_whole(&first->part, &first->shape);
    spec.name = name;
    spec.dtype = first->dtype;
    spec.shape = cut.shape;
    st = whole_new(s, &spec, &cut, &v, err);
    if (st != PS_OK) {
        return st;
    }
    v->parts[0] = first;
    st = find_others(s, name, v, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "variable '%s' in %" PRIu32 " parts", name, cut.count);
        psi_free(v->parts);
        psi_free(v);
        return st;
    }
    publish(s, v);
    *out_variable = v;
    return PS_OK;
}

ps_status ps_variable_find(ps_session *s, const char *name, ps_variable **out_variable)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0}, parts = {0};
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    ps_status st = out_variable == NULL ? psi_fail(&err, PS_INVALID_ARGUMENT, "out_variable is NULL")
                                        : psi_api_get_one(s, &spec, PSI_SCOPE_FIND, out_variable, &err);
    if (st == PS_NOT_FOUND) {
        const ps_status found = find_parts(s, name, out_variable, &parts);
        st = found == PS_NOT_FOUND ? st : found;
        err = found == PS_NOT_FOUND ? err : parts;
    }
    return psi_api_result(&err, st);
}
