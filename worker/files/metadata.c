/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exported file says of its variables besides their values, so that an empty cluster can have them again: JSON in one
 * text of __metadata__,
 *   {"NAME":{"optimizer":{"kind":"adagrad","learning_rate":0.1,"initial_accumulator":0.1},"atomic":true,"version":7},...}
 * "slots":["w/Adagrad"] where the file has tensors that are its slots, "atomic" only where it is, "shape":[2,3] of strings, whose
 * tensors do not have it; unknown keys are passed over, so that later versions can say more. Failure modes: a text that is not of
 * this form, named with the variable.
 */
#include "files.h"

#include "common/json.h"
#include "common/mem.h"
#include "common/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static json_t *optimizer_json(const ps_optimizer *o)
{
    json_t *object = json_pack("{s:s}", "kind", psi_optimizer_name(o->kind));
    bool good = object != NULL;
    for (const struct psi_hyper *h = psi_optimizer_hypers(o->kind); good && h->name != NULL; h++) {
        good = json_object_set_new(object, h->name, json_real(psi_hyper_value(o, h))) == 0;
    }
    if (good && o->kind == PS_OPT_MOMENTUM && o->nesterov != 0) {
        good = json_object_set_new(object, "nesterov", json_true()) == 0;
    }
    if (!good) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *shape_json(const ps_shape *shape)
{
    json_t *list = json_pack("[]");
    bool good = list != NULL;
    for (uint32_t i = 0; good && i < shape->rank; i++) {
        good = json_array_append_new(list, json_integer(shape->dims[i])) == 0;
    }
    if (!good) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *slots_json(const struct psi_file_var *v)
{
    json_t *list = json_pack("[]");
    bool good = list != NULL;
    for (size_t i = 0; good && i < v->slot_count; i++) {
        good = json_array_append_new(list, json_string(v->slots[i])) == 0;
    }
    if (!good) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static bool describe_one(json_t *root, const struct psi_file_var *v)
{
    const ps_variable_info *info = &v->info;
    json_t *optimizer = optimizer_json(&info->optimizer);
    if (optimizer == NULL) {
        return false;
    }
    json_t *entry = json_pack("{s:o, s:I}", "optimizer", optimizer, "version", (json_int_t)info->version);
    bool good = entry != NULL && (!info->atomic || json_object_set_new(entry, "atomic", json_true()) == 0);
    if (good && v->slot_count > 0) {
        good = json_object_set_new(entry, "slots", slots_json(v)) == 0;
    }
    if (good && info->dtype == PS_STRING) {
        good = json_object_set_new(entry, "shape", shape_json(&info->shape)) == 0;
    }
    if (!good) {
        json_decref(entry);
        return false;
    }
    return json_object_set_new(root, info->name, entry) == 0;
}

char *psi_files_describe(const struct psi_file_var *vars, size_t count)
{
    json_t *root = json_pack("{}");
    bool good = root != NULL;
    for (size_t i = 0; good && i < count; i++) {
        good = describe_one(root, &vars[i]);
    }
    char *text = good ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

/* ---- reading ---- */

static ps_status refuse(struct psi_err *err, const char *name, const char *what)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__ " PSI_FILES_KEY_VARIABLES ": variable '%.255s': %s", name, what);
}

static ps_status read_optimizer(const json_t *object, const char *name, ps_optimizer *out, struct psi_err *err)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    memset(out, 0, sizeof(*out));
    if (kind == NULL || psi_optimizer_parse(kind, &out->kind, NULL) != PS_OK) {
        return refuse(err, name, "its optimizer has no kind that is known");
    }
    for (const struct psi_hyper *h = psi_optimizer_hypers(out->kind); h->name != NULL; h++) {
        const json_t *value = json_object_get(object, h->name);
        char text[96];
        if (!json_is_number(value)) {
            (void)snprintf(text, sizeof(text), "its optimizer has no number %s", h->name);
            return refuse(err, name, text);
        }
        double number = json_number_value(value);
        memcpy((char *)out + h->offset, &number, sizeof(number));
    }
    out->nesterov = out->kind == PS_OPT_MOMENTUM && json_is_true(json_object_get(object, "nesterov")) ? 1 : 0;
    return PS_OK;
}

/* As many elements as there are strings. */
static ps_status read_shape(const json_t *list, struct psi_file_var *var, struct psi_err *err)
{
    ps_shape shape = {.rank = (uint32_t)json_array_size(list)};
    bool good = json_is_array(list) && json_array_size(list) <= PS_RANK_MAX;
    for (uint32_t i = 0; good && i < shape.rank; i++) {
        good = json_is_integer(json_array_get(list, i));
        shape.dims[i] = json_integer_value(json_array_get(list, i));
    }
    if (!good || ps_shape_elements(&shape) != ps_shape_elements(&var->spec.shape)) {
        return refuse(err, var->info.name, "its shape does not fit the number of its strings");
    }
    var->spec.shape = shape;
    var->any_shape = false;
    return PS_OK;
}

static ps_status understand_one(const json_t *entry, struct psi_file_var *var, struct psi_err *err)
{
    if (!json_is_object(entry)) {
        return refuse(err, var->info.name, "is no object");
    }
    const json_t *optimizer = json_object_get(entry, "optimizer");
    ps_status st = optimizer == NULL ? PS_OK : read_optimizer(optimizer, var->info.name, &var->optimizer, err);
    if (st == PS_OK && optimizer != NULL) {
        var->spec.optimizer = &var->optimizer;
    }
    var->spec.atomic = json_is_true(json_object_get(entry, "atomic"));
    const json_t *shape = json_object_get(entry, "shape");
    if (st == PS_OK && shape != NULL && var->spec.dtype == PS_STRING) {
        st = read_shape(shape, var, err);
    }
    return st;
}

/* Tensors that are slots of one of these. */
static bool mark_slots(const json_t *root, struct psi_file_var *vars, size_t count)
{
    json_t *names = json_pack("{}");
    const char *key = NULL;
    json_t *entry = NULL;
    bool good = names != NULL;
    json_object_foreach((json_t *)(uintptr_t)root, key, entry)
    {
        const json_t *list = json_object_get(entry, "slots");
        for (size_t i = 0; good && i < json_array_size(list); i++) {
            const char *name = json_string_value(json_array_get(list, i));
            good = name == NULL || json_object_set_new(names, name, json_string(key)) == 0;
        }
    }
    for (size_t i = 0; good && i < count; i++) {
        const char *of = json_string_value(json_object_get(names, vars[i].info.name));
        vars[i].slot = of != NULL;
        vars[i].slot_of = of != NULL ? psi_malloc(strlen(of) + 1) : NULL;
        good = of == NULL || vars[i].slot_of != NULL;
        if (vars[i].slot_of != NULL) {
            memcpy(vars[i].slot_of, of, strlen(of) + 1);
        }
    }
    json_decref(names);
    return good;
}

ps_status psi_files_understand(const char *text, struct psi_file_var *vars, size_t count, struct psi_err *err)
{
    json_error_t error = {0};
    ps_status st = psi_json_bound("__metadata__ " PSI_FILES_KEY_VARIABLES, text, strlen(text), PSI_SAFETENSORS_MARKS_MAX, err);
    if (st != PS_OK) {
        return st;
    }
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__ " PSI_FILES_KEY_VARIABLES ": %s",
                      root == NULL ? error.text : "is no object");
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const json_t *entry = json_object_get(root, vars[i].info.name);
        vars[i].told = entry != NULL;
        st = entry == NULL ? PS_OK : understand_one(entry, &vars[i], err);
    }
    if (st == PS_OK && !mark_slots(root, vars, count)) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the slots");
    }
    json_decref(root);
    return st;
}
