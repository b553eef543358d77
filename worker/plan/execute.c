/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan: ps_plan_run(), ps_plan_eval().
 *
 * Happy path: execute() finds the rows (operations) that the fetches need, and the types of their values (trip.c). It chooses
 * where each row runs (place.c), and cuts the rows into runs: rows that one task executes in one call (cut.c). It executes one
 * level of runs after the other, by calls to tasks (remote.c) and in the client (local.c), and gives the fetched values to the
 * program. Failure modes: an error before the first level has changed nothing. When a run fails, the other runs of its level
 * still end, and the error says whether variables may have changed. The plan keeps no error of a run. */
#include "keep.h"

#include "worker/api/monitored.h"

#include "common/abi.h"
#include "common/blob.h"
#include "common/mem.h"
#include "worker/files/files.h"

#include <stdio.h>
#include <string.h>

/* Allocate memory for a value that the program fetches. The plan frees it at its next run, or with itself. NULL: no memory. */
static void *gift_make(ps_plan *p, size_t bytes)
{
    void **gifts = psi_realloc(p->gifts, (p->gift_count + 1) * sizeof(*gifts));
    if (gifts == NULL) {
        return NULL;
    }
    p->gifts = gifts;
    void *gift = psi_aligned_malloc(PSI_PLAN_ALIGN, bytes > 0 ? bytes : 1);
    if (gift != NULL) {
        p->gifts[p->gift_count++] = gift;
    }
    return gift;
}

static ps_status no_memory(struct psi_err *err, size_t bytes)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu bytes of a result", bytes);
}

static ps_status offsets_give(ps_plan *p, const void *blob, uint64_t elements, ps_fetched *out, struct psi_err *err)
{
    size_t *offsets = gift_make(p, ((size_t)elements + 1) * sizeof(*offsets));
    if (offsets == NULL) {
        return no_memory(err, (size_t)elements * sizeof(*offsets));
    }
    for (uint64_t i = 0; i <= elements; i++) {
        offsets[i] = (size_t)psi_blob_offset(blob, i);
    }
    out->offsets = offsets;
    return PS_OK;
}

static ps_status fetch_give(struct psi_trip *t, size_t index, struct psi_err *err)
{
    ps_plan *p = t->plan;
    ps_fetched *out = &t->outs[index];
    const struct psi_plan_ref ref = {t->fetches[index].row, t->fetches[index].output};
    const struct psi_plan_row *row = p->rows[ref.row];
    const struct psi_trip_value *v = &t->values[psi_plan_number(p, ref)];
    out->data = NULL;
    out->offsets = NULL;
    out->bytes = 0;
    out->dtype = row->types[ref.output].dtype;
    out->shape = (ps_shape){0};
    if (out->dtype == PS_DTYPE_NONE) {
        return PS_OK;
    }
    PSI_ASSERT(v->here);
    const bool text = out->dtype == PS_STRING;
    const uint64_t elements = (uint64_t)ps_shape_elements(&v->type.shape);
    const size_t head = text ? (size_t)psi_blob_bytes_min(elements) : 0;
    const size_t room = v->value.bytes - head + (text ? 1 : 0);
    out->shape = v->type.shape;
    out->bytes = v->value.bytes - head;
    void *to = out->buffer;
    if (to != NULL && out->buffer_bytes < room) {
        out->bytes = room;
        return psi_fail(err, PS_OUT_OF_RANGE, "fetch %zu, row '%s': its value takes %zu bytes, the buffer has %zu", index,
                        row->name, room, out->buffer_bytes);
    }
    to = to != NULL ? to : gift_make(p, room);
    if (to == NULL) {
        return no_memory(err, room);
    }
    if (out->bytes > 0) {
        memcpy(to, (const uint8_t *)v->value.data + head, out->bytes);
    }
    if (text) {
        ((char *)to)[out->bytes] = '\0';
    }
    out->data = to;
    return text ? offsets_give(p, v->value.data, elements, out, err) : PS_OK;
}

/* Copy the fetched values to the program. If one does not fit its buffer, the others are copied. Returns the first error. */
static ps_status fetches_give(struct psi_trip *t, struct psi_err *err)
{
    ps_status first = PS_OK;
    psi_plan_gifts_free(t->plan);
    for (size_t i = 0; t->outs != NULL && i < t->fetch_count; i++) {
        struct psi_err own = {0};
        ps_status st = fetch_give(t, i, &own);
        if (st != PS_OK && first == PS_OK) {
            first = st;
            *err = own;
        }
    }
    return first;
}

static ps_status levels_run(struct psi_trip *t, struct psi_err *err)
{
    uint32_t first = 0;
    while (first < t->run_count) {
        uint32_t end = first;
        while (end < t->run_count && t->runs[end].level == t->runs[first].level) {
            end++;
        }
        char name[32];
        const uint64_t from_ns = psi_trip_now(t);
        ps_status st = psi_trip_level(t, first, end, err);
        (void)snprintf(name, sizeof(name), "level %u", (unsigned)t->runs[first].level);
        psi_trip_span(t, "level", name, from_ns);
        if (st != PS_OK) {
            return st;
        }
        first = end;
    }
    return PS_OK;
}

static void rows_ran(struct psi_trip *t)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        t->plan->rows[i]->ran += t->needed[i] ? 1 : 0;
    }
}

/* If the session has recovered since the plan last ran (psi_monitor_life() has changed), it has a new container of its own:
 * forget the old one's name, and free the records of the plan's variables in it. */
static void keeps_check(ps_plan *p)
{
    struct psi_list *it = NULL;
    const uint32_t life = psi_monitor_life(p->session);
    bool lost = life != p->life;
    PSI_LIST_FOREACH(it, &p->keeps) {
        lost = lost || PSI_CONTAINER_OF(it, struct psi_plan_keep, link)->variable.var == NULL;
    }
    if (lost) {
        psi_plan_keeps_free(p);
        p->container[0] = '\0';
        p->life = life;
    }
}

static ps_status execute(struct psi_trip *t, struct psi_err *err)
{
    ps_plan *p = t->plan;
    if (t->until_ms == 0) {
        t->until_ms = psi_api_deadline_ms(p->session, t->options.timeout_ms);
    }
    ps_status st = psi_trip_prepare(t, err);
    if (st == PS_OK) {
        psi_trip_find_reads(t);
        st = psi_plan_place(t, err);
    }
    st = st == PS_OK ? psi_trip_cut(t, err) : st;
    if (st == PS_OK) {
        p->runs++;
        keeps_check(p);
        st = psi_trip_carry(t, err);
        st = st == PS_OK ? levels_run(t, err) : st;
        psi_plan_keeps_forget(p, st != PS_OK);
    }
    if (st == PS_OK) {
        rows_ran(t);
        st = fetches_give(t, err);
        err->applied = t->changed && st != PS_OK ? PS_MAYBE_PARTLY_APPLIED : err->applied;
    } else if (t->changed && err->applied == PS_NOTHING_APPLIED) {
        err->applied = PS_MAYBE_PARTLY_APPLIED;
    }
    psi_trip_fini(t);
    return st;
}

/* execute() with a trace, which is written to its file even if the run fails. Returns the run's error, else that of writing. */
static ps_status execute_traced(struct psi_trip *t, struct psi_err *err)
{
    struct psi_trace trace;
    struct psi_err own = {0};
    uint64_t bytes = 0;
    ps_status made = psi_trace_check(t->options.trace_file, err);
    if (made != PS_OK) {
        return made; /* no row has run */
    }
    psi_trace_init(&trace, t->plan->session, "plan");
    t->trace = &trace;
    ps_status st = execute(t, err);
    trace.ended_ns = psi_io_now_ns();
    const ps_status written = psi_trace_write(&trace, t->options.trace_file, &bytes, &own);
    psi_trace_fini(&trace);
    if (st == PS_OK && written != PS_OK) {
        *err = own;
        err->applied = t->changed ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
        psi_err_prefix(err, "the run is over, its trace is not written");
        st = written;
    }
    return st;
}

ps_status psi_plan_execute(struct psi_trip *t, struct psi_err *err)
{
    const bool traced = t->options.trace_level == PS_FULL_TRACE && t->options.trace_file != NULL;
    return traced ? execute_traced(t, err) : execute(t, err);
}

ps_status psi_plan_arguments(struct psi_trip *t, const ps_run_options *options, struct psi_err *err)
{
    ps_run_options_init(&t->options);
    if (t->plan == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the plan is NULL");
    }
    ps_status st = psi_api_check(t->plan->session, false, err);
    st = st == PS_OK && options != NULL ? psi_struct_take(options, &t->options, sizeof(t->options), "ps_run_options_init", err)
                                        : st;
    if (st == PS_OK && ((t->feeds == NULL && t->feed_count > 0) || (t->fetches == NULL && t->fetch_count > 0))) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "feeds or fetches is NULL");
    }
    if (st == PS_OK && t->options.trace_level != PS_NO_TRACE && t->options.trace_level != PS_FULL_TRACE) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "trace_level %d is none of PS_NO_TRACE, PS_FULL_TRACE",
                      (int)t->options.trace_level);
    }
    return st;
}

ps_status ps_plan_run(ps_plan *p, const ps_feed *feeds, size_t feed_count, const ps_value *fetches, size_t fetch_count,
                      ps_fetched *outs, const ps_run_options *options)
{
    PSI_API_VISIT(p != NULL ? p->session : NULL);
    struct psi_err err = {0};
    struct psi_trip t = {
        .plan = p, .feeds = feeds, .feed_count = feed_count, .fetches = fetches, .fetch_count = fetch_count, .outs = outs};
    ps_status st = psi_plan_arguments(&t, options, &err);
    st = st == PS_OK ? psi_plan_run_begin(p, true, &err) : st;
    if (st == PS_OK) {
        st = p->error.code;
        if (st != PS_OK) {
            err = p->error;
        }
        st = st == PS_OK ? psi_plan_execute(&t, &err) : st;
        psi_plan_run_end(p);
    }
    if (st != PS_OK) {
        psi_err_prefix(&err, "ps_plan_run");
    }
    return psi_api_result(&err, st);
}

ps_status ps_plan_eval(ps_value v, void *dst, size_t dst_bytes)
{
    ps_fetched out = {.buffer = dst, .buffer_bytes = dst_bytes};
    if (v.plan == NULL || dst == NULL) {
        struct psi_err err = {0};
        return psi_api_result(&err,
                              psi_fail(&err, PS_INVALID_ARGUMENT, "ps_plan_eval: %s",
                                       dst == NULL ? "dst is NULL" : "no value: the call that should have made it has failed"));
    }
    return ps_plan_run(v.plan, NULL, 0, &v, 1, &out, NULL);
}
