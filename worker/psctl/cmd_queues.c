/* SPDX-License-Identifier: Apache-2.0 */
/* psctl queues, psctl work: all tasks' queues; how much of work queues is done. Exit 1: a task did not answer; it is named. */
#include "psctl.h"

#include "value.h"

#include <inttypes.h>

struct row {
    ps_queue_info q;
    const char *at;
};

static const ps_queue_info *info_of(const void *row)
{
    return &((const struct row *)row)->q;
}

static const char *kind_name(ps_queue_kind kind)
{
    if (kind == PS_QUEUE_FIFO) {
        return "FIFO";
    }
    if (kind == PS_QUEUE_RANDOM_SHUFFLE) {
        return "RANDOM_SHUFFLE";
    }
    return kind == PS_QUEUE_WORK ? "WORK" : kind == PS_QUEUE_ACCUMULATOR ? "ACCUMULATOR" : "SPARSE_ACCUMULATOR";
}

static bool accumulates(const ps_queue_info *q)
{
    return q->kind == PS_QUEUE_ACCUMULATOR || q->kind == PS_QUEUE_SPARSE_ACCUMULATOR;
}

static const char *kind_cell(const void *row, char *buf, size_t n)
{
    (void)buf;
    (void)n;
    return kind_name(info_of(row)->kind);
}

static json_t *kind_value(const void *row)
{
    return json_string(kind_name(info_of(row)->kind));
}

static const char *elements_cell(const void *row, char *buf, size_t n)
{
    const ps_queue_info *q = info_of(row);
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < q->component_count && used < n; i++) {
        const ps_component *c = &q->components[i];
        char shape[PSI_SHAPE_TEXT_MAX];
        int wrote = snprintf(buf + used, n - used, "%s%s %s", i > 0 ? ", " : "", ps_dtype_name(c->dtype),
                             c->shaped ? psi_shape_format(&c->shape, shape, sizeof(shape)) : "any");
        used += wrote > 0 ? (size_t)wrote : n;
    }
    return buf;
}

static json_t *elements_value(const void *row)
{
    const ps_queue_info *q = info_of(row);
    json_t *list = json_array();
    for (uint32_t i = 0; i < q->component_count; i++) {
        const ps_component *c = &q->components[i];
        json_t *one = json_pack("{s:s}", "dtype", ps_dtype_name(c->dtype));
        if (c->shaped) {
            (void)json_object_set_new(one, "shape", value_shape_json(&c->shape)); /* without memory the shape is left out */
        }
        (void)json_array_append_new(list, one);
    }
    return list;
}

static const char *capacity_cell(const void *row, char *buf, size_t n)
{
    if (info_of(row)->capacity < 0) {
        return "unbounded";
    }
    (void)snprintf(buf, n, "%" PRId64, info_of(row)->capacity);
    return buf;
}

static json_t *capacity_value(const void *row)
{
    return info_of(row)->capacity < 0 ? NULL : json_integer(info_of(row)->capacity);
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    const ps_queue_info *q = info_of(row);
    if (accumulates(q)) {
        (void)snprintf(buf, n, "step %" PRId64, q->step);
        return buf;
    }
    return q->closed ? "closed" : "open";
}

/* For a JSON member of accumulators only: returns value. If q is none: frees value, returns NULL, which leaves the member out. */
static json_t *of_accumulator(const ps_queue_info *q, json_t *value)
{
    if (accumulates(q)) {
        return value;
    }
    json_decref(value);
    return NULL;
}

static json_t *reduction_value(const void *row)
{
    const uint32_t reduction = (uint32_t)info_of(row)->reduction;
    return of_accumulator(info_of(row), json_string(reduction == PS_REDUCTION_SUM           ? "SUM"
                                                    : reduction == PS_REDUCTION_MEAN_OF_ALL ? "MEAN_OF_ALL"
                                                                                            : "MEAN"));
}

static json_t *step_value(const void *row)
{
    return of_accumulator(info_of(row), json_integer(info_of(row)->step));
}

static json_t *dropped_value(const void *row)
{
    return of_accumulator(info_of(row), json_integer((json_int_t)info_of(row)->dropped));
}

static json_t *back_value(const void *row)
{
    return of_accumulator(info_of(row), json_integer((json_int_t)info_of(row)->items));
}

static const char *epoch_cell(const void *row, char *buf, size_t n)
{
    const ps_queue_info *q = info_of(row);
    if (q->epoch == 0 || q->epoch > q->epochs) {
        return q->epoch == 0 ? "not filled" : "all done";
    }
    (void)snprintf(buf, n, "%" PRIu32 " of %" PRIu32, q->epoch, q->epochs);
    return buf;
}

static const char *done_cell(const void *row, char *buf, size_t n)
{
    const ps_queue_info *q = info_of(row);
    bool over = q->epoch > q->epochs;
    (void)snprintf(buf, n, "%" PRIu64 " of %" PRIu64, over ? q->items : q->done, q->items);
    return buf;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct row, field_)
#define NAMES                                                                                                                    \
    {"NAME", "name", FIELD(CLI_TEXT, q.name)}, {"CONTAINER", "container", FIELD(CLI_TEXT, q.container)},                         \
    {                                                                                                                            \
        "TASK", "task", FIELD(CLI_STRING, at)                                                                                    \
    }
static const struct cli_column queue_columns[] = {
    NAMES,
    {"KIND", "kind", CLI_OTHER, .cell = kind_cell, .value = kind_value},
    {"ELEMENTS", "elements", CLI_OTHER, .cell = elements_cell, .value = elements_value},
    {"SIZE", "size", FIELD(CLI_U64, q.size)},
    {"CAPACITY", "capacity", CLI_OTHER, .right = true, .cell = capacity_cell, .value = capacity_value},
    {"TAKEN", "taken", FIELD(CLI_U64, q.taken)},
    {"BYTES", "bytes", FIELD(CLI_BYTES, q.bytes)},
    {"PUTTING", "enqueuers", FIELD(CLI_U32, q.enqueuers)},
    {"TAKING", "dequeuers", FIELD(CLI_U32, q.dequeuers)},
    {"STATE", "closed", FIELD(CLI_BOOL, q.closed), .cell = state_cell},
    {NULL, "min_after_dequeue", FIELD(CLI_U64, q.min_after_dequeue)},
    {NULL, "reduction", CLI_OTHER, .value = reduction_value},
    {NULL, "step", CLI_OTHER, .value = step_value},
    {NULL, "dropped", CLI_OTHER, .value = dropped_value},
    {NULL, "came_back", CLI_OTHER, .value = back_value},
};
static const struct cli_column work_columns[] = {
    NAMES,
    {"EPOCH", "epoch", FIELD(CLI_U32, q.epoch), .cell = epoch_cell},
    {NULL, "epochs", FIELD(CLI_U32, q.epochs)},
    {"DONE", "done", FIELD(CLI_U64, q.done), .cell = done_cell},
    {NULL, "items", FIELD(CLI_U64, q.items)},
    {"HELD", "held", FIELD(CLI_U64, q.taken)},
    {"LEFT", "left", FIELD(CLI_U64, q.size)},
    {"WAITING", "waiting", FIELD(CLI_U32, q.dequeuers)},
};

static void each_queue(void *ctx, const ps_queue_info *q)
{
    struct psctl_list *l = ctx;
    cli_list_add(&l->rows, &(struct row){.q = *q, .at = l->at});
}

static void each_work(void *ctx, const ps_queue_info *q)
{
    if (q->kind == PS_QUEUE_WORK) {
        each_queue(ctx, q);
    }
}

static enum psctl_exit show(struct psctl *c, const char *key, const struct cli_column *columns, size_t column_count,
                            ps_queue_info_fn each)
{
    struct psctl_list l;
    if (!psctl_list_begin(&l, c, c->task, key, columns, column_count)) {
        return PSCTL_USAGE;
    }
    l.none = "none";
    while (psctl_list_next(&l)) {
        (void)psctl_heard(c, l.task, ps_task_queues(c->session, l.task, psctl_left_ms(c), each, &l));
    }
    return psctl_list_end(&l);
}

static enum psctl_exit show_queues(struct psctl *c)
{
    return show(c, "queues", queue_columns, CLI_COUNT(queue_columns), each_queue);
}

static enum psctl_exit show_work(struct psctl *c)
{
    return show(c, "work", work_columns, CLI_COUNT(work_columns), each_work);
}

const struct psctl_verb psctl_verb_queues = {
    .name = "queues",
    .arguments = "",
    .summary = "queues: size, capacity, who waits, closed",
    .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH),
    .words = "",
    .show = show_queues,
    .help =
        "Each queue, also those of work, and accumulators: of these SIZE counts gradients, and STATE is their global step. "
        "TAKEN\n"
        "are elements that are out and may come back: their program has not said that it has them, or works at them. PUTTING\n"
        "and TAKING are requests that wait; psctl waits says whose.\n",
};

const struct psctl_verb psctl_verb_work = {
    .name = "work",
    .arguments = "",
    .summary = "work that is shared out: epoch, done, held, waiting",
    .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH),
    .words = "",
    .show = show_work,
    .help = "DONE counts the items of the epoch that are done, HELD those that programs work at, LEFT those that nobody has.\n"
            "WAITING are programs that wait for an item; psctl waits says which.\n",
};
