/* SPDX-License-Identifier: Apache-2.0 */
/* What one execution of a plan needs: its rows, the fed values, the types of all values, and the cut into runs on tasks.
 *
 * Happy path: psi_trip_prepare() marks the rows that the fetches need, from the last row back. It takes the placeholders' values
 * from the feeds, with views into these values for parts of batches, and infers types in the order of the rows. place.c places
 * the rows. psi_trip_cut() makes edges, which say which row waits for which, and calls psi_cut(). Failure modes: INVALID_ARGUMENT
 * with the name of the placeholder or the row, before anything is sent. Edges:
 * - A row waits for the rows that make its inputs.
 * - A row that reads a variable waits for all earlier changes of the variable.
 * - A change waits for the earlier rows that use the old value, and for earlier changes that it may not overtake.
 * The client reads a variable itself if the program fetches it, or if a row behind a change needs the value from before it. */
#include "plan.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t psi_trip_left_ms(const struct psi_trip *t)
{
    const uint64_t now_ms = psi_io_now_ms();
    return t->until_ms > now_ms ? (int64_t)(t->until_ms - now_ms) : 1;
}

static ps_status no_memory(struct psi_err *err, size_t bytes)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu bytes", bytes);
}

ps_status psi_trip_room(struct psi_trip *t, uint32_t number, size_t bytes, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[number];
    const size_t n =
        v->type.dtype == PS_STRING ? bytes : (size_t)ps_shape_elements(&v->type.shape) * ps_dtype_bytes(v->type.dtype);
    PSI_ASSERT(!v->here);
    v->value = (struct psi_value){.dtype = v->type.dtype, .shape = v->type.shape, .bytes = n};
    if (n > 0) {
        v->value.data = psi_aligned_malloc(PSI_PLAN_ALIGN, n);
        if (v->value.data == NULL) {
            return no_memory(err, n);
        }
    }
    v->owned = true;
    v->here = true;
    return PS_OK;
}

void psi_trip_fini(struct psi_trip *t)
{
    for (uint32_t i = 0; t->values != NULL && i < t->plan->value_count; i++) {
        if (t->values[i].owned) {
            psi_free(t->values[i].value.data);
        }
    }
    psi_free(t->values);
    psi_free(t->needed);
    psi_free(t->client_reads);
    psi_free(t->run_of);
    psi_free(t->runs);
}

static ps_status mark_needed(struct psi_trip *t, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    for (size_t i = 0; i < t->fetch_count; i++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "fetch %zu", i);
        ps_status st = psi_plan_value_check(p, t->fetches[i], what, err);
        if (st != PS_OK) {
            return st;
        }
        t->needed[t->fetches[i].row] = true;
    }
    for (uint32_t i = p->row_count; i > 0; i--) {
        const struct psi_plan_row *row = p->rows[i - 1];
        for (uint32_t k = 0; t->needed[i - 1] && k < row->input_count; k++) {
            t->needed[row->inputs[k].row] = true;
        }
    }
    return PS_OK;
}

static ps_status feed_strings(const ps_feed *f, uint64_t elements, struct psi_value *to, struct psi_err *err)
{
    const size_t head = (size_t)psi_blob_bytes_min(elements);
    const size_t one[2] = {0, f->bytes};
    const size_t *offsets = f->offsets != NULL ? f->offsets : one;
    if (f->offsets == NULL && elements != 1) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu64 " strings without offsets", elements);
    }
    to->bytes = head + f->bytes;
    to->data = psi_aligned_malloc(PSI_PLAN_ALIGN, to->bytes);
    if (to->data == NULL) {
        return no_memory(err, to->bytes);
    }
    for (uint64_t i = 0; i <= elements; i++) {
        const uint64_t offset = offsets[i]; /* psi_blob_check() checks the offsets */
        memcpy((uint8_t *)to->data + i * sizeof(offset), &offset, sizeof(offset));
    }
    if (f->bytes > 0) {
        memcpy((uint8_t *)to->data + head, f->data, f->bytes);
    }
    return psi_blob_check(to->data, to->bytes, elements, err);
}

static ps_status feed_check(const ps_feed *f, struct psi_err *err)
{
    ps_status st = psi_variable_check(f->dtype, &f->shape, false, err);
    const uint64_t bytes = st == PS_OK ? (uint64_t)ps_shape_elements(&f->shape) * ps_dtype_bytes(f->dtype) : 0;
    if (st == PS_OK && f->dtype != PS_STRING && bytes != f->bytes) {
        char shape[PSI_SHAPE_TEXT_MAX];
        st = psi_fail(err, PS_INVALID_ARGUMENT, "it is fed %zu bytes, %s %s has %" PRIu64, f->bytes, ps_dtype_name(f->dtype),
                      psi_shape_format(&f->shape, shape, sizeof(shape)), bytes);
    }
    return st == PS_OK && f->bytes > 0 && f->data == NULL ? psi_fail(err, PS_INVALID_ARGUMENT, "its data is NULL") : st;
}

/* Make a value of the feed's memory. The union removes the const of the data, but the value is only read. */
static struct psi_value view_of(const ps_feed *f)
{
    union {
        const void *from;
        void *to;
    } data = {.from = f->data};
    return (struct psi_value){.dtype = f->dtype, .shape = f->shape, .data = data.to, .bytes = f->bytes};
}

static ps_status feed_take(struct psi_trip *t, const struct psi_plan_row *row, const ps_feed *f, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[row->first_value];
    char who[PS_NAME_BYTES_MAX + 16];
    (void)snprintf(who, sizeof(who), "placeholder '%s'", row->name);
    ps_status st = feed_check(f, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s", who);
        return st;
    }
    v->type = (struct psi_type){row->types[0].dtype, f->shape};
    st = psi_type_accepts(who, &row->types[0].shape, &f->shape, err);
    if (st != PS_OK) {
        return st;
    }
    struct psi_value from = view_of(f);
    if (f->dtype == PS_STRING) {
        struct psi_value blob = {.dtype = PS_STRING, .shape = f->shape};
        st = feed_strings(f, (uint64_t)ps_shape_elements(&f->shape), &blob, err);
        if (st == PS_OK && v->type.dtype == PS_STRING) {
            v->value = blob;
            v->owned = true;
            v->here = true;
            return PS_OK;
        }
        psi_free(blob.data);
        if (st != PS_OK) {
            psi_err_prefix(err, "%s", who);
            return st;
        }
    }
    const bool aligned = (uintptr_t)f->data % (ps_dtype_bytes(f->dtype) > 0 ? ps_dtype_bytes(f->dtype) : 1) == 0;
    if (f->dtype == v->type.dtype && f->dtype != PS_BOOL && aligned) { /* the program's memory is used, without a copy */
        v->value = from;
        v->here = true;
        return PS_OK;
    }
    st = psi_trip_room(t, row->first_value, 0, err);
    return st == PS_OK ? psi_value_feed(who, &from, &v->value, err) : st;
}

static ps_status feeds_check(const struct psi_trip *t, struct psi_err *err)
{
    for (size_t i = 0; i < t->feed_count; i++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "feed %zu", i);
        ps_status st = psi_plan_value_check(t->plan, t->feeds[i].placeholder, what, err);
        if (st != PS_OK) {
            return st;
        }
        const struct psi_plan_row *row = t->plan->rows[t->feeds[i].placeholder.row];
        if (row->kind != PSI_PLAN_PLACEHOLDER) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "feed %zu is for row '%s', which is no placeholder", i, row->name);
        }
    }
    return PS_OK;
}

static ps_status placeholder_fill(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    const ps_feed *found = NULL;
    for (size_t i = 0; i < t->feed_count; i++) {
        if (t->feeds[i].placeholder.row == row->number && found != NULL) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "placeholder '%s' is fed twice, by feeds %zu and %zu", row->name,
                            (size_t)(found - t->feeds), i);
        }
        found = t->feeds[i].placeholder.row == row->number ? &t->feeds[i] : found;
    }
    if (found == NULL) {
        char type[PSI_TYPE_TEXT_MAX];
        return psi_fail(err, PS_INVALID_ARGUMENT, "placeholder '%s', %s, is not fed", row->name,
                        psi_type_format(&row->types[0], type, sizeof(type)));
    }
    return feed_take(t, row, found, err);
}

/* Divide a batch's data rows into `parts` nearly equal parts: part `part` has *count rows from *first on. */
static void part_of(int64_t rows, uint32_t part, uint32_t parts, int64_t *first, int64_t *count)
{
    const int64_t least = rows / parts, more = rows % parts;
    *first = least * part + (part < more ? part : more);
    *count = least + (part < more ? 1 : 0);
}

/* Set *out to the number of data rows in the batch of a PART or WEIGHT row. INVALID_ARGUMENT: not as many as the first batch has,
 * or fewer than there are replicas, one of which would have no row. */
static ps_status batch_rows(const struct psi_trip *t, const struct psi_plan_row *row, int64_t *out, struct psi_err *err)
{
    const struct psi_trip_value *batch = &t->values[psi_plan_number(t->plan, row->inputs[0])];
    const struct psi_trip_value *first = &t->values[psi_plan_number(t->plan, row->inputs[1])];
    const char *name = t->plan->rows[row->inputs[0].row]->name;
    *out = batch->type.shape.dims[0];
    if (*out != first->type.shape.dims[0]) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "batch '%s' has %" PRId64 " rows, batch '%s' has %" PRId64, name, *out,
                        t->plan->rows[row->inputs[1].row]->name, first->type.shape.dims[0]);
    }
    return *out >= row->parts ? PS_OK
                              : psi_fail(err, PS_INVALID_ARGUMENT, "batch '%s' has %" PRId64 " rows for %" PRIu32 " replicas",
                                         name, *out, row->parts);
}

static ps_status part_fill(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[row->first_value];
    const struct psi_trip_value *batch = &t->values[psi_plan_number(t->plan, row->inputs[0])];
    int64_t rows = 0, first = 0, count = 0;
    ps_status st = batch_rows(t, row, &rows, err);
    if (st != PS_OK) {
        return st;
    }
    part_of(rows, row->part, row->parts, &first, &count);
    const size_t row_bytes = rows > 0 ? batch->value.bytes / (size_t)rows : 0;
    v->type = batch->type;
    v->type.shape.dims[0] = count;
    v->value = (struct psi_value){.dtype = v->type.dtype, .shape = v->type.shape, .bytes = (size_t)count * row_bytes};
    if (v->value.bytes > 0) {
        v->value.data = (uint8_t *)batch->value.data + (size_t)first * row_bytes;
    }
    v->here = true;
    return PS_OK;
}

static ps_status weight_fill(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    int64_t rows = 0, first = 0, count = 0;
    double weight = 1.0 / row->parts;
    ps_status st = row->input_count > 0 ? batch_rows(t, row, &rows, err) : PS_OK;
    if (st == PS_OK && row->input_count > 0) {
        part_of(rows, row->part, row->parts, &first, &count);
        weight = rows > 0 ? (double)count / (double)rows : 0;
    }
    t->values[row->first_value].type = row->types[0];
    st = st == PS_OK ? psi_trip_room(t, row->first_value, 0, err) : st;
    if (st == PS_OK && row->types[0].dtype == PS_F32) {
        *(float *)t->values[row->first_value].value.data = (float)weight;
    } else if (st == PS_OK) {
        *(double *)t->values[row->first_value].value.data = weight;
    }
    return st;
}

static ps_status op_infer(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    const size_t bytes = ((size_t)row->input_count + PSI_OP_OUTPUTS_MAX) * sizeof(struct psi_type);
    struct psi_type *types = psi_malloc(bytes); /* not zeroed, which would take longer than the rest of a small run */
    uint32_t count = 0;
    if (types == NULL) {
        return no_memory(err, bytes);
    }
    struct psi_type *out = types + row->input_count;
    for (uint32_t i = 0; i < row->input_count; i++) {
        types[i] = t->values[psi_plan_number(t->plan, row->inputs[i])].type;
    }
    ps_status st = psi_op_infer(row->op, &row->attrs, types, row->input_count, out, &count, err);
    PSI_ASSERT(st != PS_OK || count == row->output_count); /* the number of outputs depends on the attributes, not on shapes */
    for (uint32_t i = 0; i < row->output_count && st == PS_OK; i++) {
        t->values[row->first_value + i].type = out[i];
    }
    psi_free(types);
    return st;
}

/* Check that the session may change variables (an evaluator may not), and that the value has the variable's shape. */
static ps_status change_infer(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    static const enum psi_request_kind KINDS[] = {
        [PSI_PLAN_ASSIGN] = PSI_REQ_ASSIGN, [PSI_PLAN_ADD] = PSI_REQ_ADD, [PSI_PLAN_PUSH] = PSI_REQ_PUSH};
    /* checked here: if a task makes the change, this session sends no request in which it would be checked */
    ps_status st = psi_api_may_change(t->plan->session, KINDS[row->kind], err);
    if (st != PS_OK) {
        return st;
    }
    const struct psi_type *in = &t->values[psi_plan_number(t->plan, row->inputs[0])].type;
    if (row->kind != PSI_PLAN_ASSIGN) {
        t->values[row->first_value].type = row->types[0];
    }
    if (!psi_shape_equal(&in->shape, &row->variable->shape)) {
        char have[PSI_SHAPE_TEXT_MAX], want[PSI_SHAPE_TEXT_MAX];
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH, "the value is %s, variable '%s' is %s",
                           psi_shape_format(&in->shape, have, sizeof(have)), row->variable->name,
                           psi_shape_format(&row->variable->shape, want, sizeof(want)));
    }
    return PS_OK;
}

static ps_status row_prepare(struct psi_trip *t, const struct psi_plan_row *row, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[row->first_value];
    switch (row->kind) {
    case PSI_PLAN_OP:
        return op_infer(t, row, err);
    case PSI_PLAN_PLACEHOLDER:
        return placeholder_fill(t, row, err);
    case PSI_PLAN_CONST:
        v->type = row->types[0];
        v->value = row->value;
        v->here = true;
        return PS_OK;
    case PSI_PLAN_VARIABLE:
        v->type = row->types[0];
        return PS_OK;
    case PSI_PLAN_PART:
        return part_fill(t, row, err);
    case PSI_PLAN_WEIGHT:
        return weight_fill(t, row, err);
    case PSI_PLAN_ASSIGN:
    case PSI_PLAN_ADD:
    case PSI_PLAN_PUSH:
        return change_infer(t, row, err);
    case PSI_PLAN_GROUP:
        return PS_OK;
    }
    PSI_ASSERT(false);
    return PS_INTERNAL;
}

ps_status psi_trip_prepare(struct psi_trip *t, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    t->needed = psi_calloc((size_t)p->row_count + 1, sizeof(*t->needed));
    t->client_reads = psi_calloc((size_t)p->row_count + 1, sizeof(*t->client_reads));
    t->values = psi_calloc((size_t)p->value_count + 1, sizeof(*t->values));
    if (t->needed == NULL || t->client_reads == NULL || t->values == NULL) {
        return no_memory(err, p->value_count * sizeof(*t->values));
    }
    ps_status st = mark_needed(t, err);
    st = st == PS_OK ? feeds_check(t, err) : st;
    for (uint32_t i = 0; i < p->row_count && st == PS_OK; i++) {
        const struct psi_plan_row *row = p->rows[i];
        st = t->needed[i] ? row_prepare(t, row, err) : PS_OK;
        if (st != PS_OK && row->kind != PSI_PLAN_PLACEHOLDER) {
            psi_err_prefix(err, "row '%s'", row->name);
        }
        if (st != PS_OK && row->replica > 0) {
            psi_err_prefix(err, "replica %u", (unsigned)row->replica - 1);
        }
    }
    return st;
}

struct edges {
    struct psi_cut_edge *items;
    size_t count, capacity;
    ps_status status;
};

static void edge_add(struct edges *e, uint32_t row, bool strict)
{
    struct psi_cut_edge *items = psi_grow(e->items, e->count, &e->capacity, sizeof(*items));
    if (items == NULL) {
        e->status = PS_RESOURCE_EXHAUSTED;
        return;
    }
    e->items = items;
    e->items[e->count++] = (struct psi_cut_edge){.row = row, .strict = strict};
}

static bool is_change(const struct psi_plan_row *row)
{
    return row->kind == PSI_PLAN_ASSIGN || row->kind == PSI_PLAN_ADD || row->kind == PSI_PLAN_PUSH;
}

static bool uses(const ps_plan *p, const struct psi_plan_row *user, uint32_t maker)
{
    for (uint32_t k = 0; k < user->input_count; k++) {
        if (psi_plan_maker(p, user->inputs[k]).row == maker) {
            return true;
        }
    }
    return false;
}

/* True if a change and a read of one variable must keep their order. They need not if the change is the push of an asynchronous
 * replica, and the read belongs to another replica. */
static bool is_ordered(const struct psi_plan_row *change, const struct psi_plan_row *read)
{
    return !change->alone || read->replica == 0 || read->replica == change->replica;
}

/* True if a needed row among [from, to) changes the variable that `read` reads, and must come after it. */
static bool is_changed(const struct psi_trip *t, const struct psi_plan_row *read, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct psi_plan_row *row = t->plan->rows[i];
        if (t->needed[i] && is_change(row) && row->variable == read->variable && is_ordered(row, read)) {
            return true;
        }
    }
    return false;
}

static bool client_must_read(const struct psi_trip *t, const struct psi_plan_row *row)
{
    const ps_plan *p = t->plan;
    if (row->kind != PSI_PLAN_VARIABLE || !t->needed[row->number]) {
        return false;
    }
    for (size_t i = 0; i < t->fetch_count; i++) {
        const struct psi_plan_ref fetch = {t->fetches[i].row, t->fetches[i].output};
        if (p->rows[fetch.row]->kind != PSI_PLAN_GROUP && psi_plan_maker(p, fetch).row == row->number) {
            return true;
        }
    }
    return false;
}

/* True if `row` reads a variable, and a needed row that uses the value comes after a change of the variable: the client must then
 * read the value before the change. */
static bool is_captured(const struct psi_trip *t, const struct psi_plan_row *row)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = row->number + 1; row->kind == PSI_PLAN_VARIABLE && t->needed[row->number] && i < p->row_count; i++) {
        if (t->needed[i] && uses(p, p->rows[i], row->number) && is_changed(t, row, row->number + 1, i)) {
            return true;
        }
    }
    return false;
}

static void after_changes(const struct psi_trip *t, const struct psi_plan_row *read, struct edges *e)
{
    for (uint32_t i = 0; i < read->number; i++) {
        const struct psi_plan_row *row = t->plan->rows[i];
        if (t->needed[i] && is_change(row) && row->variable == read->variable && is_ordered(row, read)) {
            edge_add(e, i, true);
        }
    }
}

static void input_edges(const struct psi_trip *t, const struct psi_plan_row *row, struct edges *e)
{
    const ps_plan *p = t->plan;
    for (uint32_t k = 0; k < row->input_count; k++) {
        const struct psi_plan_row *maker = p->rows[psi_plan_maker(p, row->inputs[k]).row];
        if (psi_trip_reads_itself(t, maker)) {
            after_changes(t, maker, e);
        } else {
            /* true for an addition: its sum is known only when its run has ended, so `row` must be in a later run */
            edge_add(e, maker->number, maker->kind == PSI_PLAN_ADD);
        }
    }
}

static bool may_overtake(const struct psi_plan_row *later, const struct psi_plan_row *earlier)
{
    return later->kind == earlier->kind && later->kind != PSI_PLAN_ASSIGN;
}

static void change_edges(const struct psi_trip *t, const struct psi_plan_row *row, struct edges *e)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < row->number; i++) {
        const struct psi_plan_row *other = p->rows[i];
        if (!t->needed[i] || other->variable != row->variable) {
            continue;
        }
        if (is_change(other) && !may_overtake(row, other)) {
            edge_add(e, i, false);
        }
        if (is_change(other) || !is_ordered(row, other)) {
            continue;
        }
        if (t->client_reads[i] != PSI_READ_NONE) {
            edge_add(e, i, false);
        }
        for (uint32_t k = i + 1; psi_trip_reads_itself(t, other) && k < row->number; k++) {
            if (t->needed[k] && uses(p, p->rows[k], i)) {
                edge_add(e, k, false);
            }
        }
    }
}

static uint32_t cut_place(const struct psi_trip *t, const struct psi_plan_row *row)
{
    const bool nowhere = !t->needed[row->number] || row->place == PSI_CUT_NOWHERE ||
                         (row->kind == PSI_PLAN_VARIABLE && t->client_reads[row->number] == PSI_READ_NONE);
    return nowhere ? PSI_CUT_NOWHERE : row->kind == PSI_PLAN_VARIABLE ? PSI_PLAN_CLIENT : row->place;
}

void psi_trip_find_reads(struct psi_trip *t)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        const struct psi_plan_row *row = t->plan->rows[i];
        t->client_reads[i] = is_captured(t, row)        ? PSI_READ_FOR_ALL
                             : client_must_read(t, row) ? PSI_READ_FOR_CLIENT
                                                        : PSI_READ_NONE;
    }
}

static void value_wanted(struct psi_trip *t, const struct psi_plan_row *user, struct psi_plan_ref ref)
{
    const struct psi_plan_ref maker = psi_plan_maker(t->plan, ref);
    const struct psi_plan_row *row = t->plan->rows[maker.row];
    struct psi_trip_value *v = &t->values[row->first_value + maker.output];
    const uint32_t run = t->run_of[maker.row], user_run = t->run_of[user->number];
    if (v->here || run == PSI_CUT_NO_RUN || user_run == PSI_CUT_NO_RUN || run == user_run || psi_trip_reads_itself(t, row)) {
        return;
    }
    if (t->runs[user_run].place == PSI_PLAN_CLIENT) {
        v->fetched = true;
    } else {
        v->wanted = true;
    }
}

static void values_wanted(struct psi_trip *t)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        for (uint32_t k = 0; t->needed[i] && k < p->rows[i]->input_count; k++) {
            value_wanted(t, p->rows[i], p->rows[i]->inputs[k]);
        }
    }
    for (size_t i = 0; i < t->fetch_count; i++) {
        const struct psi_plan_ref fetch = {t->fetches[i].row, t->fetches[i].output};
        t->values[psi_plan_number(p, fetch)].fetched = p->rows[fetch.row]->types[fetch.output].dtype != PS_DTYPE_NONE;
    }
}

/* Add all rows' edges (which row must come before which) to e, row by row. ends[i]: number of edges up to and with row i. */
static void all_edges(const struct psi_trip *t, struct edges *e, size_t *ends)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        const struct psi_plan_row *row = t->plan->rows[i];
        if (cut_place(t, row) != PSI_CUT_NOWHERE) {
            input_edges(t, row, e);
            if (row->kind == PSI_PLAN_VARIABLE) {
                after_changes(t, row, e);
            }
            if (is_change(row)) {
                change_edges(t, row, e);
            }
        }
        ends[i] = e->count;
    }
}

ps_status psi_trip_cut(struct psi_trip *t, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    const size_t n = (size_t)p->row_count + 1;
    struct edges e = {.status = PS_OK};
    size_t *ends = psi_calloc(n, sizeof(*ends));
    struct psi_cut_row *rows = psi_calloc(n, sizeof(*rows));
    t->run_of = psi_calloc(n, sizeof(*t->run_of));
    t->runs = psi_calloc(n, sizeof(*t->runs));
    ps_status st = ends != NULL && rows != NULL && t->run_of != NULL && t->runs != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
    if (st == PS_OK) {
        all_edges(t, &e, ends);
        st = e.status;
    }
    if (st != PS_OK) {
        st = no_memory(err, n * sizeof(*rows));
    } else {
        for (uint32_t i = 0; i < p->row_count; i++) {
            const size_t first = i > 0 ? ends[i - 1] : 0;
            rows[i] = (struct psi_cut_row){.place = cut_place(t, p->rows[i]),
                                           .edges = e.items != NULL ? e.items + first : NULL,
                                           .edge_count = (uint32_t)(ends[i] - first)};
        }
        st = psi_cut(rows, p->row_count, t->run_of, t->runs, &t->run_count, err);
    }
    if (st == PS_OK) {
        values_wanted(t);
    }
    psi_free(ends);
    psi_free(rows);
    psi_free(e.items);
    return st;
}
