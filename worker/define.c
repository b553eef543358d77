/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program says that a variable is: its definition checked, and the record that this session keeps of it.
 *
 * Happy path: psi_client_definition_check() -> psi_client_variable_in() with what the scopes of the session made of name,
 * container and device -> GET or LOOKUP (variable.c). Failure modes: everything that no task need be asked about is refused here,
 * with the variable's name.
 */
#include "client.h"

#include "../common/mem.h"
#include "../common/name.h"
#include "../common/optimizer.h"
#include "../common/shape.h"

#include <stdio.h>
#include <string.h>

ps_status psi_client_definition_check(const ps_variable_spec *spec, struct psi_err *err)
{
    const ps_initializer *init = spec->init != NULL ? spec->init : ps_zeros();
    const ps_optimizer *optimizer = spec->optimizer != NULL ? spec->optimizer : ps_no_optimizer();
    if (spec->partitions > 1) {
        return psi_fail(err, PS_UNIMPLEMENTED, "%u partitions; only whole variables for now", spec->partitions);
    }
    if (!psi_dtype_known((uint32_t)spec->dtype)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "dtype %d is unknown", (int)spec->dtype);
    }
    ps_status st = psi_shape_check(&spec->shape, err);
    st = st == PS_OK ? psi_initializer_check(init, spec->dtype, &spec->shape, err) : st;
    return st == PS_OK ? psi_optimizer_check(optimizer, spec->dtype, err) : st;
}

static struct psi_var *var_new(const struct psi_client *c, const ps_variable_spec *spec, const char *container, const char *name)
{
    struct psi_var *v = psi_calloc(1, sizeof(*v));
    if (v == NULL) {
        return NULL;
    }
    snprintf(v->container, sizeof(v->container), "%s", container);
    snprintf(v->name, sizeof(v->name), "%s", name);
    v->init = spec->init != NULL ? *spec->init : *ps_zeros();
    v->optimizer = spec->optimizer != NULL ? *spec->optimizer : *ps_no_optimizer();
    v->seed = c->seed;
    v->dtype = spec->dtype;
    v->shape = spec->shape;
    v->owner = UINT32_MAX;
    v->requested_task = UINT32_MAX;
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
    struct psi_var *v = var_new(c, spec, container, name);
    if (v == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory", name);
    }
    v->found_only = find_only;
    v->must_exist = find_only || scope->must_exist;
    if (!find_only) {
        st = psi_client_definition_check(spec, err);
        if (st == PS_OK && spec->device != NULL && spec->device[0] != '\0') {
            st = psi_device_parse(spec->device, &v->pin, err);
            v->has_pin = true;
            if (st == PS_OK && ((v->pin.has_type && strcmp(v->pin.type, "CPU") != 0) || v->pin.index != 0)) {
                st = psi_fail(err, PS_UNIMPLEMENTED, "device %s: variables live on CPU:0 only", spec->device);
            }
        }
        if (st != PS_OK) {
            psi_err_prefix(err, "variable '%s'", name);
            psi_free(v);
            return st;
        }
        v->elements = (uint64_t)ps_shape_elements(&v->shape);
    }
    psi_list_push_back(&c->variables, &v->link);
    *out_var = v;
    return PS_OK;
}

ps_status psi_client_variable(struct psi_client *c, const ps_variable_spec *spec, bool find_only, struct psi_var **out_var,
                              struct psi_err *err)
{
    static const struct psi_var_scope NONE;
    return psi_client_variable_in(c, spec, &NONE, find_only, out_var, err);
}
