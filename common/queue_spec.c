/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and compares specs of queues. Each field is checked on its own, then against the kind; an error names the first field
 * that does not fit, and its value. For two specs that differ the error names the first such field, and both values. */
#include "queue_spec.h"

#include "rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *psi_queue_kind_name(uint32_t kind)
{
    switch ((enum psi_queue_kind)kind) {
    case PSI_QUEUE_FIFO:
        return "FIFO";
    case PSI_QUEUE_SHUFFLE:
        return "RANDOM_SHUFFLE";
    case PSI_QUEUE_WORK:
        return "WORK";
    case PSI_QUEUE_ACCUMULATOR:
        return "ACCUMULATOR";
    case PSI_QUEUE_SPARSE_ACCUMULATOR:
        return "SPARSE_ACCUMULATOR";
    }
    return "invalid";
}

static ps_status check_components(const struct psi_queue_spec *spec, struct psi_err *err)
{
    if (spec->component_count == 0 || spec->component_count > PSI_QUEUE_COMPONENTS_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu32 " components; 1 to %d are allowed", spec->component_count,
                        PSI_QUEUE_COMPONENTS_MAX);
    }
    for (uint32_t i = 0; i < spec->component_count; i++) {
        const struct psi_queue_component *c = &spec->components[i];
        ps_status st = psi_variable_check(c->dtype, &c->shape, false, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "component %" PRIu32, i);
            return st;
        }
        if (!c->shaped && c->shape.rank != 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "component %" PRIu32 " has a shape that is not declared", i);
        }
    }
    return PS_OK;
}

ps_status psi_queue_spec_check(const struct psi_queue_spec *spec, struct psi_err *err)
{
    const bool shuffle = spec->kind == PSI_QUEUE_SHUFFLE, work = spec->kind == PSI_QUEUE_WORK,
               sums = psi_queue_accumulates(spec->kind), sparse = spec->kind == PSI_QUEUE_SPARSE_ACCUMULATOR;
    if (!shuffle && !work && !sums && spec->kind != PSI_QUEUE_FIFO) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "kind %" PRIu32 " is unknown", spec->kind);
    }
    if (spec->capacity == 0 || ((work || sums) && spec->capacity > 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "capacity %" PRId64 "; %s", spec->capacity,
                        work   ? "a work queue is unbounded (-1)"
                        : sums ? "an accumulator has none (-1)"
                               : "at least 1 is needed, or -1 for unbounded");
    }
    if (spec->min_after_dequeue != 0 &&
        (!shuffle || (spec->capacity > 0 && spec->min_after_dequeue >= (uint64_t)spec->capacity))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "min_after_dequeue %" PRIu64 "; %s", spec->min_after_dequeue,
                        shuffle ? "it must be less than the capacity" : "only RANDOM_SHUFFLE has one");
    }
    if (spec->seed != 0 && !shuffle && !work) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "seed %" PRIu64 "; %s draws nothing", spec->seed,
                        sums ? "an accumulator" : "a FIFO");
    }
    if ((spec->epochs != 0) != work) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%" PRIu32 " epochs; %s", spec->epochs,
                        work ? "at least 1 is needed" : "only WORK has epochs");
    }
    const uint32_t last = sparse ? PSI_REDUCTION_MEAN_OF_ALL : PSI_REDUCTION_SUM;
    if (sums ? spec->reduction < PSI_REDUCTION_MEAN || spec->reduction > last : spec->reduction != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "reduction %" PRIu32 "; %s", spec->reduction,
                        sparse ? "1 (mean), 2 (sum) or 3 (mean of all) is needed"
                        : sums ? "1 (mean) or 2 (sum) is needed"
                               : "only an accumulator has one");
    }
    ps_status st = check_components(spec, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psi_queue_component *first = &spec->components[0];
    if (work && (spec->component_count != 1 || first->dtype != PS_STRING || !first->shaped || first->shape.rank != 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a work queue has one component, a string without dimensions");
    }
    if (sums && (spec->component_count != 1 || (first->dtype != PS_F32 && first->dtype != PS_F64) || !first->shaped)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "an accumulator has one component, float32 or float64 of a declared shape; this is %s of %s",
                        ps_dtype_name(first->dtype), first->shaped ? "a declared shape" : "any shape");
    }
    uint64_t rows = 0, columns = 0;
    return sparse ? psi_rows_of("a sparse accumulator", &first->shape, first->dtype, &rows, &columns, err) : PS_OK;
}

static int64_t capacity_of(const struct psi_queue_spec *spec)
{
    return spec->capacity < 0 ? -1 : spec->capacity;
}

static bool component_equal(const struct psi_queue_component *a, const struct psi_queue_component *b)
{
    return a->dtype == b->dtype && a->shaped == b->shaped && (!a->shaped || psi_shape_equal(&a->shape, &b->shape));
}

bool psi_queue_spec_equal(const struct psi_queue_spec *a, const struct psi_queue_spec *b)
{
    if (a->kind != b->kind || a->component_count != b->component_count || capacity_of(a) != capacity_of(b) ||
        a->min_after_dequeue != b->min_after_dequeue || a->seed != b->seed || a->epochs != b->epochs ||
        a->reduction != b->reduction) {
        return false;
    }
    for (uint32_t i = 0; i < a->component_count && i < PSI_QUEUE_COMPONENTS_MAX; i++) {
        if (!component_equal(&a->components[i], &b->components[i])) {
            return false;
        }
    }
    return true;
}

enum { COMPONENT_TEXT_MAX = PSI_SHAPE_TEXT_MAX + 32 };

static const char *component_text(const struct psi_queue_spec *spec, uint32_t i, char *buf, size_t n)
{
    char shape[PSI_SHAPE_TEXT_MAX];
    if (i >= spec->component_count) {
        PSI_IGNORE(snprintf(buf, n, "absent"));
        return buf;
    }
    const struct psi_queue_component *c = &spec->components[i];
    PSI_IGNORE(snprintf(buf, n, "%s %s", ps_dtype_name(c->dtype),
                        c->shaped ? psi_shape_format(&c->shape, shape, sizeof(shape)) : "of any shape"));
    return buf;
}

/* A queue exists with another spec than the requested one: fail with `reason` and the text "queue 'NAME' exists at WHERE with
 * WHAT HAVE; asked for with WANT; ...". */
static ps_status differ(ps_reason reason, const char *name, const char *where, const char *what, const char *have,
                        const char *want, struct psi_err *err)
{
    return psi_fail_as(err, PS_INVALID_ARGUMENT, reason,
                       "queue '%s' exists at %s with %s %s; asked for with %s" PSI_MISMATCH_REMEDY, name, where, what, have,
                       want);
}

static ps_status compare_number(const char *what, uint64_t have, uint64_t want, const char *where, const char *name,
                                struct psi_err *err)
{
    char a[24], b[24];
    if (have == want) {
        return PS_OK;
    }
    PSI_IGNORE(snprintf(a, sizeof(a), "%" PRIu64, have));
    PSI_IGNORE(snprintf(b, sizeof(b), "%" PRIu64, want));
    return differ(PS_REASON_NONE, name, where, what, a, b, err);
}

static const char *reduction_name(uint32_t reduction)
{
    return reduction == PSI_REDUCTION_SUM ? "SUM" : reduction == PSI_REDUCTION_MEAN_OF_ALL ? "MEAN_OF_ALL" : "MEAN";
}

static const char *capacity_text(int64_t capacity, char *buf, size_t n)
{
    if (capacity < 0) {
        return "unbounded";
    }
    PSI_IGNORE(snprintf(buf, n, "%" PRId64, capacity));
    return buf;
}

ps_status psi_queue_spec_compare(const struct psi_queue_spec *have, const char *where, const struct psi_queue_spec *want,
                                 const char *name, struct psi_err *err)
{
    char a[COMPONENT_TEXT_MAX], b[COMPONENT_TEXT_MAX];
    if (have->kind != want->kind) {
        return differ(PS_REASON_NONE, name, where, "kind", psi_queue_kind_name(have->kind), psi_queue_kind_name(want->kind), err);
    }
    for (uint32_t i = 0; i < have->component_count || i < want->component_count; i++) {
        if (i < have->component_count && i < want->component_count &&
            component_equal(&have->components[i], &want->components[i])) {
            continue;
        }
        char what[24];
        PSI_IGNORE(snprintf(what, sizeof(what), "component %" PRIu32, i));
        return differ(PS_REASON_SHAPE_MISMATCH, name, where, what, component_text(have, i, a, sizeof(a)),
                      component_text(want, i, b, sizeof(b)), err);
    }
    if (capacity_of(have) != capacity_of(want)) {
        return differ(PS_REASON_NONE, name, where, "capacity", capacity_text(have->capacity, a, sizeof(a)),
                      capacity_text(want->capacity, b, sizeof(b)), err);
    }
    ps_status st = compare_number("min_after_dequeue", have->min_after_dequeue, want->min_after_dequeue, where, name, err);
    if (st == PS_OK && (want->seed != 0 || want->kind == PSI_QUEUE_WORK)) {
        st = compare_number("seed", have->seed, want->seed, where, name, err);
    }
    st = st == PS_OK ? compare_number("epochs", have->epochs, want->epochs, where, name, err) : st;
    if (st == PS_OK && have->reduction != want->reduction) {
        st = differ(PS_REASON_NONE, name, where, "reduction", reduction_name(have->reduction), reduction_name(want->reduction),
                    err);
    }
    return st;
}

void psi_queue_spec_to_msg(const struct psi_queue_spec *from, ps_v1_Queue *to)
{
    *to = (ps_v1_Queue){
        .kind = from->kind,
        .capacity = from->capacity,
        .min_after_dequeue = from->min_after_dequeue,
        .seed = from->seed,
        .epochs = from->epochs,
        .reduction = from->reduction,
        .components_count = (pb_size_t)from->component_count,
    };
    for (uint32_t i = 0; i < from->component_count; i++) {
        const struct psi_queue_component *c = &from->components[i];
        ps_v1_Component *m = &to->components[i];
        m->dtype = (uint32_t)c->dtype;
        m->shaped = c->shaped;
        m->dims_count = (pb_size_t)c->shape.rank;
        memcpy(m->dims, c->shape.dims, c->shape.rank * sizeof(m->dims[0]));
    }
}

ps_status psi_queue_spec_from_msg(const ps_v1_Queue *from, struct psi_queue_spec *to, struct psi_err *err)
{
    *to = (struct psi_queue_spec){
        .kind = from->kind,
        .component_count = from->components_count,
        .capacity = from->capacity,
        .min_after_dequeue = from->min_after_dequeue,
        .seed = from->seed,
        .epochs = from->epochs,
        .reduction = from->reduction,
    };
    for (uint32_t i = 0; i < to->component_count; i++) {
        const ps_v1_Component *m = &from->components[i];
        struct psi_queue_component *c = &to->components[i];
        c->dtype = (ps_dtype)m->dtype;
        c->shaped = m->shaped;
        ps_status st = psi_shape_from_dims(m->dims, m->dims_count, &c->shape, err);
        if (st != PS_OK) {
            return st;
        }
    }
    return psi_queue_spec_check(to, err);
}
