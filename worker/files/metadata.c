/* SPDX-License-Identifier: Apache-2.0 */
/* What an exported file says about its variables besides their values, so that an empty cluster can get them again: JSON in one
 * text of __metadata__,
 *   {"NAME":{"optimizer":{"kind":"adagrad","learning_rate":0.1,"initial_accumulator":0.1},"atomic":true,"version":7},...}
 * Further keys: "schedule":"cosine_decay:decay_steps=1000,alpha=0" in "optimizer" if it has one; "slots":["w/Adagrad"] if the
 * file has tensors of the variable's slots; "shape":[2,3] for strings, whose tensors do not have it;
 * "parts":{"count":4,"axis":0,"layout":"div"} for a variable in parts. "atomic" is there only if true. Unknown keys are ignored,
 * for later versions, but in "optimizer" they are refused.
 * Failure mode: a text of another form is refused, and the variable is named. */
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
        if (!psi_hyper_is_silent(o, h) && (h->range != PSI_SWITCH || value != 0)) { /* leave out a switch that is off */
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
    if (good && v->cut.count > 0) {
        good = json_object_set_new(entry, "parts",
                                   json_pack("{s:I, s:I, s:s}", "count", (json_int_t)v->cut.count, "axis",
                                             (json_int_t)v->cut.axis, "layout", psi_layout_name(v->cut.layout))) == 0;
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

/* Refuse an optimizer whose kind or some parameter this release does not know: it would train the variable in another way. */
static ps_status refuse_newer(struct psi_err *err, const char *name, const char *has, const char *what)
{
    char text[256];
    (void)snprintf(
        text, sizeof(text),
        "its optimizer %s '%.63s', which this release does not know: import with a newer one, or leave the variable out "
        "(`only`, psctl import --only)",
        has, what);
    return refuse(err, name, text);
}

/* Find a key of `object` that is no parameter of this kind of optimizer; NULL: there is no such key. */
static const char *unknown_key(const json_t *object, uint32_t kind)
{
    const char *key = NULL;
    const json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const struct psi_hyper *h = psi_optimizer_hypers(kind);
        while (h->name != NULL && strcmp(h->name, key) != 0) {
            h++;
        }
        if (h->name == NULL && strcmp(key, "kind") != 0 && strcmp(key, "schedule") != 0) {
            return key;
        }
    }
    return NULL;
}

static ps_status read_optimizer(const json_t *object, const char *name, ps_optimizer *out, struct psi_err *err)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    memset(out, 0, sizeof(*out));
    if (kind == NULL) {
        return refuse(err, name, "its optimizer has no kind");
    }
    if (psi_optimizer_parse(kind, out, NULL) != PS_OK || strcmp(psi_optimizer_name(out->kind), kind) != 0) {
        return refuse_newer(err, name, "is of the kind", kind);
    }
    const char *unknown = unknown_key(object, out->kind);
    if (unknown != NULL) {
        return refuse_newer(err, name, "has the hyperparameter", unknown);
    }
    for (const struct psi_hyper *h = psi_optimizer_hypers(out->kind); h->name != NULL; h++) {
        const json_t *value = json_object_get(object, h->name);
        char text[96];
        if (h->quiet && value == NULL) {
            continue; /* keeps its default, from psi_optimizer_parse() */
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

/* Read the shape of a string variable; it must have as many elements as the file has strings. */
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

/* Read how the variable was cut into parts: an import that creates the variable cuts it in the same way. */
static ps_status read_parts(const json_t *parts, struct psi_file_var *var, struct psi_err *err)
{
    const json_int_t count = json_integer_value(json_object_get(parts, "count"));
    const json_int_t axis = json_integer_value(json_object_get(parts, "axis"));
    const char *layout = json_string_value(json_object_get(parts, "layout"));
    const bool mod = layout != NULL && strcmp(layout, psi_layout_name(PSI_LAYOUT_MOD)) == 0;
    if (count < 1 || count > PSI_PARTS_MAX || axis < 0 || axis >= PS_RANK_MAX || layout == NULL ||
        (!mod && strcmp(layout, psi_layout_name(PSI_LAYOUT_DIV)) != 0)) {
        return refuse(err, var->info.name, "its parts: allowed are a count of 1 to 256, an axis of 0 to 7, a layout div or mod");
    }
    var->spec.partitions = (uint32_t)count;
    var->spec.partition_axis = (uint8_t)axis;
    var->spec.partition_layout = mod ? PS_LAYOUT_MOD : PS_LAYOUT_DIV;
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
    const json_t *parts = json_object_get(entry, "parts");
    return st == PS_OK && parts != NULL ? read_parts(parts, var, err) : st;
}

struct understanding {
    struct psi_map names; /* the variables by name */
    bool no_memory;
};

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

/* Read the JSON member of one variable. Of a variable that the caller's list lacks, only the slots' names are used. */
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
