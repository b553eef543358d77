/* SPDX-License-Identifier: Apache-2.0 */
/* psctl vars: the variables of all tasks, or those that a pattern or a container picks. Exit 1: a task does not answer, or came
 * back without variables that it had (they are named); nothing matches; no such container (the nearest name is printed). */
#include "containers.h"

#include "common/name.h"
#include "common/optimizer.h"
#include "common/schedule.h"
#include "value.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *task; /* name of the task that has the variable; NULL: a whole variable that is cut into parts */
    ps_variable_info v;
    const struct row *parts; /* of a variable that is cut: the listed parts [part_count], in order; else NULL */
    uint32_t part_count;
};

static const char *task_cell(const void *row, char *buf, size_t n)
{
    const struct row *r = row;
    if (r->parts != NULL && r->part_count < r->parts[0].v.parts) { /* parts are missing: tasks are down */
        (void)snprintf(buf, n, "%" PRIu32 " of %" PRIu32 " parts", r->part_count, r->parts[0].v.parts);
    } else if (r->parts != NULL) {
        (void)snprintf(buf, n, "%" PRIu32 " parts", r->part_count);
    } else {
        (void)snprintf(buf, n, "%s", r->task);
    }
    return buf;
}

static json_t *task_value(const void *row)
{
    const struct row *r = row;
    return r->task != NULL ? json_string(r->task) : json_null();
}

static const char *shape_cell(const void *row, char *buf, size_t n)
{
    return psi_shape_format(&((const struct row *)row)->v.shape, buf, n);
}

static json_t *shape_value(const void *row)
{
    return value_shape_json(&((const struct row *)row)->v.shape);
}

static const char *dtype_cell(const void *row, char *buf, size_t n)
{
    (void)snprintf(buf, n, "%s", ps_dtype_name(((const struct row *)row)->v.dtype));
    return buf;
}

static json_t *dtype_value(const void *row)
{
    return json_string(ps_dtype_name(((const struct row *)row)->v.dtype));
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    const ps_variable_info *v = &((const struct row *)row)->v;
    (void)snprintf(buf, n, "%s%s",
                   v->sealed        ? "ready"
                   : v->initialised ? "initialised"
                                    : "uninitialised",
                   v->atomic ? ", atomic" : "");
    return buf;
}

static const char *optimizer_cell(const void *row, char *buf, size_t n)
{
    const ps_variable_info *v = &((const struct row *)row)->v;
    char text[PSI_OPTIMIZER_TEXT_MAX];
    const char *optimizer = psi_optimizer_format(&v->optimizer, text, sizeof(text));
    if (v->rate != 0) {
        (void)snprintf(buf, n, "%s, set-lr %.15g", optimizer, v->rate);
    } else if (v->optimizer.schedule != PS_SCHEDULE_NONE) {
        (void)snprintf(buf, n, "%s, at step %" PRIu64 " %.6g", optimizer, v->step, v->rate_in_force);
    } else {
        (void)snprintf(buf, n, "%s", optimizer);
    }
    return buf;
}

static json_t *rate_value(const void *row)
{
    double rate = ((const struct row *)row)->v.rate;
    return rate != 0 ? cli_json_f64(rate) : json_null();
}

static json_t *rate_in_force_value(const void *row)
{
    const ps_variable_info *v = &((const struct row *)row)->v;
    return v->optimizer.kind != PS_OPT_NONE ? cli_json_f64(v->rate_in_force) : json_null();
}

static json_t *optimizer_value(const void *row)
{
    const ps_optimizer *o = &((const struct row *)row)->v.optimizer;
    json_t *object = json_pack("{s:s}", "kind", psi_optimizer_name(o->kind));
    for (const struct psi_hyper *h = psi_optimizer_hypers(o->kind); h->name != NULL; h++) {
        double value = psi_hyper_value(o, h);
        if (psi_hyper_is_silent(o, h)) {
            continue;
        }
        (void)json_object_set_new(object, h->name, h->range == PSI_SWITCH ? json_boolean(value != 0) : cli_json_f64(value));
    }
    if (o->schedule != PS_SCHEDULE_NONE) {
        char text[PSI_SCHEDULE_TEXT_MAX];
        (void)json_object_set_new(object, "schedule", json_string(psi_schedule_format(o, text, sizeof(text))));
    }
    return object;
}

/* For JSON: how the variable is cut into parts; NULL: the row is an uncut variable, or one part. */
static json_t *cut_value(const void *row)
{
    const struct row *r = row;
    return r->parts != NULL ? json_pack("{s:I, s:s}", "axis", (json_int_t)r->parts[0].v.part_axis, "layout",
                                        r->parts[0].v.part_layout == PS_LAYOUT_MOD ? "mod" : "div")
                            : NULL;
}

static json_t *parts_value(const void *row);

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
static const struct cli_column columns[] = {
    {"NAME", "name", FIELD(CLI_TEXT, v.name)},
    {"CONTAINER", "container", FIELD(CLI_TEXT, v.container)},
    {"TASK", "task", CLI_OTHER, .cell = task_cell, .value = task_value},
    {"DTYPE", "dtype", CLI_OTHER, .cell = dtype_cell, .value = dtype_value},
    {"SHAPE", "shape", CLI_OTHER, .cell = shape_cell, .value = shape_value},
    {"BYTES", "bytes", FIELD(CLI_BYTES, v.bytes)},
    {"VERSION", "version", FIELD(CLI_U64, v.version)},
    {"PUSHES", "pushes", FIELD(CLI_U64, v.pushes)},
    {NULL, "in_progress", FIELD(CLI_U32, v.in_progress)},
    {"STATE", "initialised", FIELD(CLI_BOOL, v.initialised), .cell = state_cell},
    {NULL, "sealed", FIELD(CLI_BOOL, v.sealed)},
    {NULL, "atomic", FIELD(CLI_BOOL, v.atomic)},
    {"OPTIMIZER", "optimizer", CLI_OTHER, .cell = optimizer_cell, .value = optimizer_value},
    {NULL, "set_lr", CLI_OTHER, .value = rate_value},
    {NULL, "learning_rate", CLI_OTHER, .value = rate_in_force_value},
    {NULL, "step", FIELD(CLI_U64, v.step)},
    {NULL, "cut", CLI_OTHER, .value = cut_value},
    {NULL, "parts", CLI_OTHER, .value = parts_value},
};

static json_t *parts_value(const void *row)
{
    const struct row *r = row;
    json_t *list = r->parts != NULL ? json_array() : NULL;
    for (uint32_t i = 0; i < r->part_count; i++) {
        (void)json_array_append_new(list, cli_row(columns, CLI_COUNT(columns), &r->parts[i]));
    }
    return list;
}

enum { SLICE_TEXT_MAX = PSI_VARIABLE_DEF_MAX + PS_NAME_BYTES_MAX + 3 * PS_RANK_MAX * 40 + 100 };

/* TensorFlow's VariableDef as text. For a part it names the slice of the variable, unless rows are dealt to the parts in turn. */
static const char *def_text(const ps_variable_info *v, char text[SLICE_TEXT_MAX])
{
    char def[PSI_VARIABLE_DEF_MAX];
    ps_variable_info whole = *v;
    size_t used = (size_t)snprintf(text, SLICE_TEXT_MAX, "%s", psi_variable_def(v->name, def));
    if (v->parts == 0 || v->part_layout != PS_LAYOUT_DIV) {
        return text;
    }
    ps_variable_info_whole(&whole);
    const int64_t rows = whole.shape.dims[v->part_axis], longer = rows % v->parts; /* the first `longer` parts have a row more */
    const int64_t offset = rows / v->parts * v->part + (v->part < longer ? v->part : longer);
    used += (size_t)snprintf(text + used, SLICE_TEXT_MAX - used, "save_slice_info_def {\n  full_name: \"%s\"\n", whole.name);
    for (uint32_t i = 0; i < whole.shape.rank; i++) {
        used += (size_t)snprintf(text + used, SLICE_TEXT_MAX - used, "  full_shape: %" PRId64 "\n", whole.shape.dims[i]);
    }
    for (uint32_t i = 0; i < whole.shape.rank; i++) {
        used +=
            (size_t)snprintf(text + used, SLICE_TEXT_MAX - used, "  var_offset: %" PRId64 "\n", i == v->part_axis ? offset : 0);
    }
    for (uint32_t i = 0; i < whole.shape.rank; i++) {
        used += (size_t)snprintf(text + used, SLICE_TEXT_MAX - used, "  var_shape: %" PRId64 "\n", v->shape.dims[i]);
    }
    (void)snprintf(text + used, SLICE_TEXT_MAX - used, "}\n");
    return text;
}

static json_t *def_value(const void *row)
{
    char text[SLICE_TEXT_MAX];
    return json_string(def_text(&((const struct row *)row)->v, text));
}

static const struct cli_column def_columns[] = {
    {NULL, "name", FIELD(CLI_TEXT, v.name)},
    {NULL, "container", FIELD(CLI_TEXT, v.container)},
    {NULL, "task", FIELD(CLI_STRING, task)},
    {NULL, "def", CLI_OTHER, .value = def_value},
};

struct list {
    const struct psctl *c;
    struct cli_list rows;
    size_t count;
    struct row *parts; /* [part_count]: parts of cut variables, shown when all tasks have answered */
    size_t part_count, part_capacity;
    const char *pattern;
    const char *task_name;
    char near[256]; /* if the pattern matches nothing: the most similar name */
};

static bool wanted(struct list *list, const char *name)
{
    if (list->pattern == NULL || fnmatch(list->pattern, name, 0) == 0) {
        return true;
    }
    psctl_nearer(list->pattern, name, list->near, sizeof(list->near));
    return false;
}

static void add(struct list *list, const struct row *row, bool first)
{
    if (list->c->def && !list->c->json) {
        char text[SLICE_TEXT_MAX];
        (void)printf("%s%s", first ? "" : "\n", def_text(&row->v, text));
    } else {
        cli_list_add(&list->rows, row);
    }
}

static void each(void *ctx, const ps_variable_info *v)
{
    struct list *list = ctx;
    const struct row row = {.task = list->task_name, .v = *v};
    if (list->c->container != NULL && strcmp(list->c->container, v->container) != 0) {
        return;
    }
    if (v->parts > 0) {
        list->parts = cli_grow(list->parts, list->part_count, &list->part_capacity, sizeof(*list->parts));
        list->parts[list->part_count++] = row;
    } else if (wanted(list, v->name)) {
        add(list, &row, list->count++ == 0);
    }
}

static int by_whole(const struct row *a, const struct row *b)
{
    ps_variable_info x = a->v, y = b->v;
    ps_variable_info_whole(&x);
    ps_variable_info_whole(&y);
    const int order = strcmp(x.container, y.container);
    return order != 0 ? order : strcmp(x.name, y.name);
}

static int by_part(const void *a, const void *b)
{
    const uint32_t i = ((const struct row *)a)->v.part, k = ((const struct row *)b)->v.part;
    const int order = by_whole(a, b);
    return order != 0 ? order : (i > k) - (i < k);
}

/* Show a cut variable with n listed parts. JSON: the whole variable; table: the whole and its parts; VariableDefs: the parts. */
static void add_whole(struct list *list, const struct row *parts, uint32_t n)
{
    struct row whole = {.v = parts[0].v, .parts = parts, .part_count = n};
    ps_variable_info *v = &whole.v;
    ps_variable_info_whole(v);
    bool shown = wanted(list, v->name);
    for (uint32_t i = 0; i < n; i++) {
        const ps_variable_info *part = &parts[i].v;
        shown = wanted(list, part->name) || shown;
        v->bytes += i > 0 ? part->bytes : 0;
        v->version = part->version < v->version ? part->version : v->version;
        v->pushes = part->pushes < v->pushes ? part->pushes : v->pushes;
        v->in_progress = part->in_progress > v->in_progress ? part->in_progress : v->in_progress;
        v->step = part->step > v->step ? part->step : v->step;
        v->initialised = v->initialised && part->initialised;
        v->sealed = v->sealed && part->sealed;
    }
    if (!shown) {
        return;
    }
    const bool defs = list->c->def;
    const bool first = list->count++ == 0;
    if (!defs) {
        add(list, &whole, first);
    }
    for (uint32_t i = 0; i < n && (defs || !list->c->json); i++) {
        add(list, &parts[i], first && i == 0);
    }
}

static void add_wholes(struct list *list)
{
    if (list->part_count > 0) {
        qsort(list->parts, list->part_count, sizeof(*list->parts), by_part);
    }
    for (size_t at = 0, n = 0; at < list->part_count; at += n) {
        const struct row *first = &list->parts[at];
        for (n = 1; at + n < list->part_count && by_whole(first, &first[n]) == 0;) {
            n++;
        }
        add_whole(list, first, (uint32_t)n);
    }
    free(list->parts);
}

/* Explain into text [n] why the list is empty; "": the cluster just has no variables, which is no error. */
static void explain_none(struct psctl *c, const struct list *list, char *text, size_t n)
{
    struct containers all;
    text[0] = '\0';
    if (c->container != NULL && containers_ask(c, &all)) {
        containers_say_none(c, &all, c->container, text, n);
    }
    if (c->container != NULL) {
        containers_free(&all);
    }
    if (text[0] == '\0' && list->pattern != NULL) {
        (void)snprintf(text, n, "no variable%s%s%s matches '%s'%s%s%s", c->container != NULL ? " of container '" : "",
                       c->container != NULL ? c->container : "", c->container != NULL ? "'" : "", list->pattern,
                       list->near[0] != '\0' ? " (did you mean " : "", list->near, list->near[0] != '\0' ? "?)" : "");
    }
}

static void put_lost(const struct psctl *c)
{
    cli_json_list("lost");
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].lost > 0) {
            cli_json_put(NULL, json_pack("{s:s, s:I, s:o}", "task", ps_cluster_task_name(c->session, i), "variables",
                                         (json_int_t)c->infos[i].lost, "names", cli_json_text(c->infos[i].lost_names)));
        }
    }
    cli_json_end();
}

static enum psctl_exit show(struct psctl *c)
{
    struct list list = {.c = c, .pattern = c->argv[0]};
    char none[512] = "";
    psctl_answer(c);
    const bool table = !c->def || c->json;
    if (table) {
        cli_list_begin(&list.rows, "variables", c->def ? def_columns : columns,
                       c->def ? CLI_COUNT(def_columns) : CLI_COUNT(columns), c->json);
    }
    for (int i = -1; psctl_next(c, -1, &i);) {
        list.task_name = ps_cluster_task_name(c->session, i);
        (void)psctl_heard(c, i, ps_task_variables(c->session, i, psctl_left_ms(c), each, &list));
    }
    add_wholes(&list);
    if (table) {
        cli_list_end(&list.rows, &c->room);
    }
    if (list.count == 0) {
        explain_none(c, &list, none, sizeof(none));
    }
    if (c->json) {
        put_lost(c);
        psctl_down(c, -1);
        cli_json_put("error", none[0] != '\0' ? psctl_error_value(PS_NOT_FOUND, (ps_reason)PS_NOT_FOUND, none) : NULL);
    } else if (!c->def) {
        (void)printf("%zu variable%s\n", list.count, list.count == 1 ? "" : "s");
    }
    psctl_answer_end(c);
    if (none[0] != '\0') {
        psctl_note(c, "%s", none);
    }
    bool whole = psctl_none_lost(c, -1);
    return psctl_all_up(c, -1) && whole && none[0] == '\0' ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_vars = {
    .name = "vars",
    .arguments = "[GLOB]",
    .summary = "variables: owner, shape, dtype, optimizer in force, version",
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(WATCH) | PSCTL_FLAG(DEF),
    .words = "variable",
    .show = show,
    .help = "All variables of all tasks, with the optimizer as the program gave it and the rate that set-lr has put in its\n"
            "place; with a schedule, the rate at the highest global step that a push brought; or those that GLOB matches, such "
            "as 'layer1/*' (quote it), or of one container. STATE is\n"
            "`uninitialised`, `initialised`, or `ready` once the chief has declared the model ready. Variables that a task\n"
            "has lost are named, with exit status 1. A variable in parts has one line, and one for each part behind it, named\n"
            "NAME/part_N (JSON: parts, within the variable).\n"
            "--def prints TensorFlow's VariableDef of each instead, as text: variable_name, initializer_name, snapshot_name.\n",
};
