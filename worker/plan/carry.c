/* SPDX-License-Identifier: Apache-2.0 */
/* How values get from one run (rows that one task executes in one call) to another: in calls, or in session variables (keeps).
 *
 * Happy path: before the first level a way is chosen for each value that leaves its run.
 * - A value that a task makes and another run needs is assigned to a variable at that task, which the other run reads.
 * - A value that the client has is sent in the call of the run that needs it, while all such values fit. The largest ones go into
 *   variables at the task that uses them first. A large value that only one run needs is sent in that run's call.
 * - A large constant is put into a variable, which keeps it for all further runs.
 * - A fetched value comes in the answer if it fits, else the client reads it from a variable.
 * The first run with these types makes all variables at once (keep.c). Failure modes: a variable cannot be made or used. */
#include "keep.h"

#include "common/blob.h"
#include "common/mem.h"

#include <string.h>

enum {
    /* most bytes, in a call, of large values that only its run needs: the task keeps a call's input until the run is over */
    FEEDS_BYTES_MAX = 1 << 20,
    FEED_BYTES_MIN = 16 << 10, /* a value is large if it has more bytes than this */
    ALWAYS_INLINE = 1024,      /* a value of at most this many bytes is always sent in the call, and needs no variable */
    ROW_BYTES = 96,            /* largest encoded row without its texts and inputs */
    INPUT_BYTES = 192,         /* largest encoded input without its value and texts, with the padding before the value */
    VARIABLE_BYTES = PS_CONTAINER_BYTES_MAX + PS_JOB_BYTES_MAX + 24 /* largest encoded variable without its name */
};

/* Most bytes that value `number` can have. For strings that a task will make, strings_bound() has set the bound. */
static uint64_t value_bytes(const struct psi_trip *t, uint32_t number)
{
    const struct psi_trip_value *v = &t->values[number];
    const uint64_t elements = (uint64_t)ps_shape_elements(&v->type.shape);
    if (v->here) {
        return v->value.bytes;
    }
    return v->type.dtype != PS_STRING ? elements * ps_dtype_bytes(v->type.dtype) : v->bytes_most;
}

/* Set bytes_most of each string value that a needed row makes. Rows only copy strings: at most the bytes of the first input. */
static void strings_bound(struct psi_trip *t)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        const struct psi_plan_row *row = p->rows[i];
        for (uint32_t k = 0; t->needed[i] && k < row->output_count; k++) {
            struct psi_trip_value *v = &t->values[row->first_value + k];
            if (v->type.dtype == PS_STRING) {
                v->bytes_most = row->kind == PSI_PLAN_OP ? value_bytes(t, psi_plan_number(p, row->inputs[0]))
                                                         : psi_blob_bytes_max((uint64_t)ps_shape_elements(&v->type.shape));
            }
        }
    }
}

/* Most bytes that the call of a run can need, without the values in it. */
static size_t rows_bytes(const struct psi_trip *t, uint32_t run)
{
    const ps_plan *p = t->plan;
    size_t bytes = INPUT_BYTES;
    for (uint32_t i = 0; i < p->row_count; i++) {
        const struct psi_plan_row *row = p->rows[i];
        if (t->run_of[i] == run) {
            bytes += ROW_BYTES + strlen(row->name) + (row->message != NULL ? strlen(row->message) : 0);
            bytes += row->input_count * (size_t)(2 + INPUT_BYTES);
            bytes += row->variable != NULL ? VARIABLE_BYTES + strlen(row->variable->name) : 0;
        }
    }
    return bytes;
}

static bool is_remote(const struct psi_trip *t, uint32_t run)
{
    return run != PSI_CUT_NO_RUN && t->runs[run].place != PSI_PLAN_CLIENT;
}

static ps_status keep_value(struct psi_trip *t, uint32_t number, uint32_t place, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[number];
    if (v->keep == NULL) {
        v->keep = psi_plan_keep_for(t, number, place, err);
    }
    return v->keep != NULL ? PS_OK : err->code;
}

static bool is_from_client(const struct psi_trip *t, uint32_t run, struct psi_plan_ref ref)
{
    const struct psi_plan_row *maker = t->plan->rows[psi_plan_maker(t->plan, ref).row];
    const uint32_t made = t->run_of[maker->number];
    const bool sum = maker->kind == PSI_PLAN_ADD; /* the client knows the sum only from the answer */
    return made != run && !psi_trip_reads_itself(t, maker) && (sum || !is_remote(t, made));
}

static bool is_constant(const struct psi_trip *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        if (t->plan->rows[i]->first_value == number) {
            return t->plan->rows[i]->kind == PSI_PLAN_CONST;
        }
    }
    return false;
}

static bool is_used_by(const struct psi_trip *t, uint32_t number, uint32_t row)
{
    for (uint32_t k = 0; k < t->plan->rows[row]->input_count; k++) {
        if (psi_plan_number(t->plan, t->plan->rows[row]->inputs[k]) == number) {
            return true;
        }
    }
    return false;
}

/* True if value `number` is to be sent in the call of run `run`: no other run on a task needs it, and it is no constant. */
static bool travels(const struct psi_trip *t, uint32_t number, uint32_t run)
{
    bool alone = !is_constant(t, number);
    for (uint32_t i = 0; i < t->plan->row_count && alone; i++) {
        alone = t->run_of[i] == run || !is_remote(t, t->run_of[i]) || !is_used_by(t, number, i);
    }
    return alone;
}

struct inlined {
    uint64_t feeds_bytes, rest_bytes;
};

/* Find the largest value of more than ALWAYS_INLINE bytes that the run's call carries, among values that travel (feeds true) or
 * all others. Returns its index; UINT32_MAX: none. *total gets the bytes of both groups; seen [value_count] is overwritten. */
static uint32_t largest_inline(const struct psi_trip *t, uint32_t run, bool feeds, bool *seen, struct inlined *total)
{
    const ps_plan *p = t->plan;
    uint32_t largest = UINT32_MAX;
    *total = (struct inlined){0};
    memset(seen, 0, p->value_count * sizeof(*seen));
    for (uint32_t i = 0; i < p->row_count; i++) {
        for (uint32_t k = 0; t->run_of[i] == run && k < p->rows[i]->input_count; k++) {
            const uint32_t number = psi_plan_number(p, p->rows[i]->inputs[k]);
            if (seen[number] || t->values[number].keep != NULL || !is_from_client(t, run, p->rows[i]->inputs[k])) {
                continue;
            }
            seen[number] = true;
            const bool feed = t->values[number].travels;
            total->feeds_bytes += feed ? value_bytes(t, number) : 0;
            total->rest_bytes += feed ? 0 : value_bytes(t, number);
            if (feed == feeds && value_bytes(t, number) > ALWAYS_INLINE &&
                (largest == UINT32_MAX || value_bytes(t, number) > value_bytes(t, largest))) {
                largest = number;
            }
        }
    }
    return largest;
}

/* Set psi_trip_value.travels for the inputs of run `run`: true for a large value of the client that only this run needs. */
static void inputs_travel(struct psi_trip *t, uint32_t run)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        for (uint32_t k = 0; t->run_of[i] == run && k < t->plan->rows[i]->input_count; k++) {
            const uint32_t number = psi_plan_number(t->plan, t->plan->rows[i]->inputs[k]);
            struct psi_trip_value *v = &t->values[number];
            v->travels = is_from_client(t, run, t->plan->rows[i]->inputs[k]) && value_bytes(t, number) > FEED_BYTES_MIN &&
                         travels(t, number, run);
        }
    }
}

static ps_status inputs_choose(struct psi_trip *t, uint32_t run, bool *seen, struct psi_err *err)
{
    const size_t rows = rows_bytes(t, run);
    const uint64_t room = rows < PS_CALL_BYTES_MAX ? PS_CALL_BYTES_MAX - rows : 0;
    struct inlined total = {0};
    ps_status st = PS_OK;
    inputs_travel(t, run);
    for (uint32_t largest = largest_inline(t, run, true, seen, &total);
         st == PS_OK && total.feeds_bytes > FEEDS_BYTES_MAX && largest != UINT32_MAX;
         largest = largest_inline(t, run, true, seen, &total)) {
        st = keep_value(t, largest, t->runs[run].place, err);
    }
    for (uint32_t largest = largest_inline(t, run, false, seen, &total);
         st == PS_OK && total.rest_bytes > room && largest != UINT32_MAX; largest = largest_inline(t, run, false, seen, &total)) {
        st = keep_value(t, largest, t->runs[run].place, err);
    }
    return st;
}

static ps_status results_choose(struct psi_trip *t, uint32_t run, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    uint64_t room = PS_CALL_BYTES_MAX - PSI_RUN_ANSWER_BYTES_MAX;
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < p->row_count; i++) {
        room -= t->run_of[i] == run && p->rows[i]->kind == PSI_PLAN_ADD ? PS_RESULT_BYTES_MAX + PSI_RUN_RESULT_HEAD_BYTES_MAX : 0;
    }
    for (uint32_t i = 0; i < p->row_count; i++) {
        const struct psi_plan_row *row = p->rows[i];
        for (uint32_t k = 0; t->run_of[i] == run && row->kind == PSI_PLAN_OP && k < row->output_count && st == PS_OK; k++) {
            struct psi_trip_value *v = &t->values[row->first_value + k];
            const uint64_t bytes = value_bytes(t, row->first_value + k) + PSI_RUN_RESULT_HEAD_BYTES_MAX;
            v->pulled = v->fetched && bytes > room;
            room -= v->fetched && !v->pulled ? bytes : 0;
            st = v->wanted || v->pulled ? keep_value(t, row->first_value + k, t->runs[run].place, err) : PS_OK;
        }
    }
    return st;
}

ps_status psi_trip_carry(struct psi_trip *t, struct psi_err *err)
{
    bool *seen = psi_calloc((size_t)t->plan->value_count + 1, sizeof(*seen));
    ps_status st = seen != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    if (st == PS_OK) {
        strings_bound(t);
    }
    for (uint32_t run = 0; run < t->run_count && st == PS_OK; run++) {
        if (is_remote(t, run)) {
            st = results_choose(t, run, err);
            st = st == PS_OK ? inputs_choose(t, run, seen, err) : st;
        }
    }
    psi_free(seen);
    return st == PS_OK ? psi_plan_keeps_make(t, err) : st;
}

/* One transfer of value `number` between the client's memory and the session variable that carries it (its keep). */
struct moved {
    struct psi_api_call call;
    enum psi_request_kind kind;
    uint32_t number;
};

/* psi_api_call.prepare(): set the request's kind only now, because psi_api_calls_start() refuses an ASSIGN of a session that only
 * evaluates. Such a session may still assign values of its plans to its own variables. */
static ps_status moved_prepare(struct psi_api_call *call, struct psi_err *err)
{
    (void)err;
    call->req.kind = PSI_CONTAINER_OF(call, struct moved, call)->kind;
    return PS_OK;
}

static bool used_by_level(const struct psi_trip *t, uint32_t number, uint32_t first, uint32_t end)
{
    const ps_plan *p = t->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        for (uint32_t k = 0; t->run_of[i] >= first && t->run_of[i] < end && k < p->rows[i]->input_count; k++) {
            if (psi_plan_number(p, p->rows[i]->inputs[k]) == number && is_remote(t, t->run_of[i])) {
                return true;
            }
        }
    }
    return false;
}

static ps_status moved_all(struct psi_trip *t, struct moved *moved, uint32_t count, struct psi_err *err)
{
    struct psi_list works;
    ps_status st = PS_OK;
    psi_list_init(&works);
    for (uint32_t i = 0; i < count; i++) {
        psi_list_push_back(&works, &moved[i].call.work.link);
    }
    st = count > 0 ? psi_api_calls_start(t->plan->session, &works, err) : PS_OK;
    for (uint32_t i = 0; i < count && (st == PS_OK || i > 0); i++) {
        struct psi_err own = {0};
        ps_status ended = psi_api_call_wait(&moved[i].call, &own);
        if (ended != PS_OK && st == PS_OK) {
            st = ended;
            *err = own;
            psi_err_prefix(err, "the variable of a value, %s", t->values[moved[i].number].keep->variable.name);
        }
    }
    return st;
}

static void moved_init(struct psi_trip *t, struct moved *moved, uint32_t number, enum psi_request_kind kind)
{
    struct psi_trip_value *v = &t->values[number];
    moved->number = number;
    moved->kind = kind;
    moved->call = (struct psi_api_call){.session = t->plan->session,
                                        .prepare = moved_prepare,
                                        .on = &v->keep->variable,
                                        .timeout_ms = psi_trip_left_ms(t),
                                        .req = {.src = v->value.data, .dst = v->value.data, .bytes = v->value.bytes, .scale = 1}};
}

ps_status psi_trip_give(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err)
{
    const uint32_t values = t->plan->value_count;
    struct moved *moved = NULL;
    uint32_t count = 0;
    for (uint32_t n = 0; n < values; n++) {
        struct psi_trip_value *v = &t->values[n];
        if (v->keep == NULL || v->kept || !v->here || !used_by_level(t, n, first, end)) {
            continue;
        }
        v->kept = true;
        if (v->keep->holds) {
            continue;
        }
        moved = moved != NULL ? moved : psi_calloc(values, sizeof(*moved));
        if (moved == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u values", (unsigned)values);
        }
        moved_init(t, &moved[count++], n, PSI_REQ_ASSIGN);
    }
    ps_status st = moved_all(t, moved, count, err);
    for (uint32_t i = 0; i < count && st == PS_OK; i++) {
        t->values[moved[i].number].keep->holds = is_constant(t, moved[i].number);
    }
    psi_free(moved);
    return st;
}

static ps_status pull_room(struct psi_trip *t, uint32_t number, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[number];
    const uint64_t elements = (uint64_t)ps_shape_elements(&v->type.shape);
    return psi_trip_room(t, number, v->type.dtype == PS_STRING ? (size_t)psi_blob_bytes_max(elements) : 0, err);
}

ps_status psi_trip_fetch(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err)
{
    const ps_plan *p = t->plan;
    struct moved *moved = NULL;
    uint32_t count = 0;
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < p->row_count && st == PS_OK; i++) {
        const struct psi_plan_row *row = p->rows[i];
        for (uint32_t n = row->first_value; st == PS_OK && n < row->first_value + row->output_count; n++) {
            if (t->run_of[i] < first || t->run_of[i] >= end || !t->values[n].pulled) {
                continue;
            }
            moved = moved != NULL ? moved : psi_calloc(p->value_count, sizeof(*moved));
            st = moved != NULL ? pull_room(t, n, err) : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the results");
            if (st == PS_OK) {
                moved_init(t, &moved[count++], n, PSI_REQ_PULL);
            }
        }
    }
    st = st == PS_OK ? moved_all(t, moved, count, err) : st;
    for (uint32_t i = 0; i < count && st == PS_OK; i++) {
        struct psi_value *v = &t->values[moved[i].number].value;
        if (v->dtype == PS_STRING) {
            const uint64_t elements = (uint64_t)ps_shape_elements(&v->shape);
            v->bytes = (size_t)psi_blob_offset(v->data, elements) + (size_t)psi_blob_bytes_min(elements);
        }
    }
    psi_free(moved);
    return st;
}
