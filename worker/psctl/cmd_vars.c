/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl vars: the variables of all tasks, or those that a pattern or a container picks.
 * Failure modes, each with exit 1: a task that does not answer is left out and named; one that came back without variables that
 * it had: these are named; nothing matches, or there is no such container: said, with what was likely meant.
 */
#include "containers.h"
#include "value.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

enum { COLUMNS = 10 };

struct list {
    const struct psctl *c;
    struct out_table table;
    const char *pattern; /* NULL: any name will do */
    const char *task_name;
    uint64_t count;
    char near[256]; /* name that the pattern was likely meant to be */
};

static const char *state_of(const ps_variable_info *v)
{
    return v->sealed ? "ready" : v->initialised ? "initialised" : "uninitialised";
}

static bool wanted(struct list *list, const ps_variable_info *v)
{
    if (list->c->container != NULL && strcmp(list->c->container, v->container) != 0) {
        return false;
    }
    if (list->pattern == NULL || fnmatch(list->pattern, v->name, 0) == 0) {
        return true;
    }
    psctl_nearer(list->pattern, v->name, list->near, sizeof(list->near));
    return false;
}

static void each_row(void *ctx, const ps_variable_info *v)
{
    struct list *list = ctx;
    char shape[192];
    char optimizer[256];
    char bytes[32];
    if (!wanted(list, v)) {
        return;
    }
    out_cell(&list->table, "%s", v->name);
    out_cell(&list->table, "%s", v->container);
    out_cell(&list->table, "%s", list->task_name);
    out_cell(&list->table, "%s", ps_dtype_name(v->dtype));
    out_cell(&list->table, "%s", value_shape_text(&v->shape, shape, sizeof(shape)));
    out_cell(&list->table, "%s", out_bytes((double)v->bytes, bytes, sizeof(bytes)));
    out_cell(&list->table, "%" PRIu64, v->version);
    out_cell(&list->table, "%" PRIu64, v->pushes);
    out_cell(&list->table, "%s%s", state_of(v), v->atomic ? ", atomic" : "");
    out_cell(&list->table, "%s", out_optimizer(&v->optimizer, optimizer, sizeof(optimizer)));
    list->count++;
}

static void out_json_optimizer(const ps_optimizer *o)
{
    out_json_object("optimizer");
    out_json_text("kind", out_optimizer_name(o));
    if (o->kind != PS_OPT_NONE) {
        out_json_f64("learning_rate", o->learning_rate);
    }
    if (o->kind == PS_OPT_MOMENTUM) {
        out_json_f64("momentum", o->momentum);
        out_json_bool("nesterov", o->nesterov != 0);
    } else if (o->kind == PS_OPT_ADAGRAD) {
        out_json_f64("initial_accumulator", o->initial_accumulator);
    } else if (o->kind == PS_OPT_ADAM) {
        out_json_f64("beta1", o->beta1);
        out_json_f64("beta2", o->beta2);
        out_json_f64("epsilon", o->epsilon);
    }
    out_json_end();
}

static void each_json(void *ctx, const ps_variable_info *v)
{
    struct list *list = ctx;
    if (!wanted(list, v)) {
        return;
    }
    out_json_object(NULL);
    out_json_text("name", v->name);
    out_json_text("container", v->container);
    out_json_text("task", list->task_name);
    out_json_text("dtype", ps_dtype_name(v->dtype));
    out_json_shape("shape", &v->shape);
    out_json_u64("version", v->version);
    out_json_u64("pushes", v->pushes);
    out_json_u64("in_progress", v->in_progress);
    out_json_bool("initialised", v->initialised);
    out_json_bool("sealed", v->sealed);
    out_json_bool("atomic", v->atomic);
    out_json_u64("bytes", v->bytes);
    out_json_optimizer(&v->optimizer);
    out_json_end();
    list->count++;
}

/* What to say of an empty list; "": nothing, it may be empty. */
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

static void out_json_lost(const struct psctl *c)
{
    out_json_list("lost");
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].lost > 0) {
            out_json_object(NULL);
            out_json_text("task", ps_cluster_task_name(c->session, i));
            out_json_u64("variables", c->infos[i].lost);
            out_json_text("names", c->infos[i].lost_names);
            out_json_end();
        }
    }
    out_json_end();
}

static enum psctl_exit show(struct psctl *c)
{
    static const char *const headings[COLUMNS] = {"NAME",  "CONTAINER", "TASK",   "DTYPE", "SHAPE",
                                                  "BYTES", "VERSION",   "PUSHES", "STATE", "OPTIMIZER"};
    struct list list = {.c = c, .pattern = c->argv[0]};
    char none[512] = "";
    if (c->json) {
        out_json_answer(c);
        out_json_list("variables");
    } else {
        out_table_init(&list.table, COLUMNS, 0xe0u, headings);
    }
    for (int i = 0; i < c->task_count; i++) {
        list.task_name = ps_cluster_task_name(c->session, i);
        if (c->infos[i].up &&
            ps_task_variables(c->session, i, psctl_left_ms(c), c->json ? each_json : each_row, &list) != PS_OK) {
            psctl_task_failed(c, i);
        }
    }
    if (list.count == 0) {
        explain_none(c, &list, none, sizeof(none));
    }
    if (c->json) {
        out_json_end();
        out_json_lost(c);
        out_json_down(c, -1);
        if (none[0] != '\0') {
            out_json_error(PS_NOT_FOUND, none);
        }
        out_json_end();
    } else {
        out_table_print(&list.table, &c->room);
        (void)printf("%" PRIu64 " variable%s\n", list.count, list.count == 1 ? "" : "s");
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    if (none[0] != '\0') {
        psctl_note(c, "%s", none);
    }
    bool whole = psctl_none_lost(c, -1);
    return psctl_all_up(c, -1) && whole && none[0] == '\0' ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_vars(struct psctl *c)
{
    return psctl_rounds(c, show);
}
