/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exported file says about its variables besides their values, so that an empty cluster can get them again: JSON in one
 * text of __metadata__,
 *   {"NAME":{"optimizer":{"kind":"adagrad","learning_rate":0.1,"initial_accumulator":0.1},"atomic":true,"version":7},...}
 * in "optimizer" also "schedule":"cosine_decay:decay_steps=1000,alpha=0" if it has one,
 * "slots":["w/Adagrad"] if the file has tensors of its slots, "atomic" only if true, "shape":[2,3] for strings, whose tensors do
 * not have it. Unknown keys are ignored, for later versions. Failure mode: a text of another form is refused, and the variable is
 * named.
 */
#include "files.h"

#include "common/json.h"
#include "common/map.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/schedule.h"

#include <stdlib.h>
#include <string.h>

static json_t *optimizer_json(const ps_optimizer *o)
{
    json_t *object = json_pack("{s:s}", "kind", psi_optimizer_name(o->kind));
    bool good = object != NULL;
    for (const struct psi_hyper *h = psi_optimizer_hypers(o->kind); good && h->name != NULL; h++) {
        double value = psi_hyper_value(o, h);
        if (!psi_hyper_is_silent(o, h) && (h->range != PSI_SWITCH || value != 0)) { /* a switch that is off is not there */
            good = json_object_set_new(object, h->name, h->range == PSI_SWITCH ? json_true() : json_real(value)) == 0;
        }
    }
    if (good && o->schedule != PS_SCHEDULE_NONE) {
        char text[PSI_SCHEDULE_TEXT_MAX];
        good = json_object_set_new(object, "schedule", json_string(psi_schedule_format(o, text, sizeof(text)))) == 0;
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
    return json_object_set_new(root, psi_files_name(v), entry) == 0;
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

static ps_status refuse(struct psi_err *err, const char *name, const char *what)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "__metadata__ " PSI_FILES_KEY_VARIABLES ": variable '%.255s': %s", name, what);
}

static ps_status read_optimizer(const json_t *object, const char *name, ps_optimizer *out, struct psi_err *err)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    memset(out, 0, sizeof(*out));
    if (kind == NULL || psi_optimizer_parse(kind, out, NULL) != PS_OK || strcmp(psi_optimizer_name(out->kind), kind) != 0) {
        return refuse(err, name, "its optimizer has no kind that is known");
    }
    for (const struct psi_hyper *h = psi_optimizer_hypers(out->kind); h->name != NULL; h++) {
        const json_t *value = json_object_get(object, h->name);
        char text[96];
        if (h->quiet && value == NULL) {
            continue; /* psi_optimizer_parse() has given it its standard value */
        }
        if (h->range != PSI_SWITCH && !json_is_number(value)) {
            (void)snprintf(text, sizeof(text), "its optimizer has no number %s", h->name);
            return refuse(err, name, text);
        }
        psi_hyper_set(out, h, h->range == PSI_SWITCH ? json_is_true(value) : json_number_value(value));
    }
    const json_t *schedule = json_object_get(object, "schedule");
    if (schedule != NULL && (!json_is_string(schedule) || psi_schedule_parse(json_string_value(schedule), out, NULL) != PS_OK)) {
        return refuse(err, name, "the schedule of its optimizer is none that is known");
    }
    return PS_OK;
}

/* Read the shape of strings, which must have as many elements as there are strings. */
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

struct understanding {
    struct psi_map names; /* the variables by name */
    bool no_memory;
};

/* Mark the tensors that are slots of this variable. */
static void mark_slots(struct understanding *u, const char *name, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *slot = json_string_value(json_array_get(list, i));
        struct psi_file_var *var = slot != NULL ? psi_map_find(&u->names, slot, strlen(slot)) : NULL;
        if (var != NULL && !var->slot) {
            var->slot = true;
            var->slot_of = psi_strndup(name, strlen(name));
            u->no_memory = u->no_memory || var->slot_of == NULL;
        }
    }
}

/* Read the entry of one variable. For a variable that is not asked for only the slots are read, and the entry may have any
 * form. */
static ps_status on_variable(void *ctx, const char *name, const char *value, size_t bytes, struct psi_err *err)
{
    struct understanding *u = ctx;
    struct psi_file_var *var = psi_map_find(&u->names, name, strlen(name));
    json_t *entry = NULL;
    if (var != NULL && var->told) {
        return refuse(err, name, "is there twice");
    }
    ps_status st = psi_json_value("__metadata__ " PSI_FILES_KEY_VARIABLES, value, bytes, PSI_SAFETENSORS_MARKS_MAX, &entry,
                                  var != NULL ? err : NULL);
    if (var == NULL && st != PS_RESOURCE_EXHAUSTED) {
        st = PS_OK;
    } else if (st == PS_OK) {
        var->told = true;
        st = understand_one(entry, var, err);
    }
    if (st == PS_OK) {
        mark_slots(u, name, json_object_get(entry, "slots"));
    }
    json_decref(entry);
    return st;
}

ps_status psi_files_understand(const char *text, struct psi_file_var *vars, size_t count, struct psi_err *err)
{
    struct understanding u = {.no_memory = false};
    ps_status st = PS_OK;
    psi_files_map_init(&u.names, true);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = psi_map_put(&u.names, vars[i].info.name, strlen(vars[i].info.name), &vars[i], NULL, err);
    }
    st = st == PS_OK ? psi_json_each("__metadata__ " PSI_FILES_KEY_VARIABLES, text, strlen(text), on_variable, &u, err) : st;
    psi_map_fini(&u.names);
    return st == PS_OK && u.no_memory ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the slots") : st;
}
