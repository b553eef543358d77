/* SPDX-License-Identifier: Apache-2.0 */
/* A call of the executor from its first compute thread to its end (exec.h lists the stages).
 *
 * Happy path: run() prepares the run, starts its reads and returns PENDING. When the last read has ended, again() makes the
 * server call run() again, which computes the rows, starts the deliveries and returns PENDING. When the last delivery has ended,
 * finish() sends the answer. A stage without transfers is followed by the next stage at once. A value for a variable of the own
 * task is written into a draft, memory that the server has prepared while the inputs came. If the server refuses the draft or its
 * publication, the executor's session delivers the value, as for other tasks. Failure modes: an error before the first delivery
 * has changed nothing. If deliveries fail, the error says how many values have arrived, and is ABORTED if that is not known for
 * one. A cancelled run ends its transfers and waits for their ends, because they use its memory. */
#include "exec.h"

#include "common/buf.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Transfers end before the call's deadline, by EARLY_MS or half of the time left, so that the call can report their errors. */
enum { EARLY_MS = 250 };
enum { VALUE_NAME_MAX = PS_NAME_BYTES_MAX + 8, TARGET_NAME_MAX = PS_NAME_BYTES_MAX + PSI_TASK_NAME_MAX + 8 };

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds since the previous lap() of this run, for the durations of its stages. */
static uint64_t lap(struct psi_exec_run *r)
{
    const uint64_t before = r->since_ns;
    r->since_ns = now_ns();
    return r->since_ns - before;
}

static int64_t transfer_timeout_ms(const struct psi_exec_run *r)
{
    const int64_t left = r->ops->functions->left_ms(r->call);
    const int64_t early = left / 2 < EARLY_MS ? left / 2 : EARLY_MS;
    return left - early > 0 ? left - early : 1;
}

static void note_error(struct psi_exec_run *r, const struct psi_err *err)
{
    (void)pthread_mutex_lock(&r->ops->lock);
    if (r->err.code == PS_OK) {
        r->err = *err;
    }
    (void)pthread_mutex_unlock(&r->ops->lock);
}

static const char *target_name(const struct psi_exec_transfer *t, char *buf, size_t n)
{
    (void)snprintf(buf, n, "'%s' at /job:%s/task:%u", t->variable->name, t->variable->job, t->variable->task);
    return buf;
}

static const char *value_name(const struct psi_exec_run *r, uint32_t value, char *buf, size_t n)
{
    const struct psi_run_row *row = NULL;
    for (uint32_t i = 0; i < r->run.row_count && value >= r->run.rows[i].first_value; i++) {
        row = &r->run.rows[i];
    }
    if (row != NULL) {
        (void)snprintf(buf, n, "row '%s'", row->name);
    } else {
        (void)snprintf(buf, n, "input %u", (unsigned)value);
    }
    return buf;
}

static bool may_have_arrived(const struct psi_exec_transfer *t)
{
    return t->begun && (t->err.code == PS_OK || t->err.applied != PS_NOTHING_APPLIED);
}

/* Set the error of a run whose deliveries failed: why the first of them failed, and how many values have arrived. */
static void deliveries_error(struct psi_exec_run *r, struct psi_err *err)
{
    const struct psi_exec_transfer *failed = NULL;
    char what[VALUE_NAME_MAX], where[TARGET_NAME_MAX];
    uint32_t arrived = 0, unknown = 0;
    for (uint32_t i = r->read_count; i < r->move_count; i++) {
        const struct psi_exec_transfer *t = &r->moves[i];
        const bool uncertain = t->begun && t->err.code != PS_OK && t->err.applied != PS_NOTHING_APPLIED;
        arrived += t->begun && t->err.code == PS_OK ? 1 : 0;
        unknown += uncertain ? 1 : 0;
        failed = failed == NULL && (!t->begun || t->err.code != PS_OK) ? t : failed;
        failed = uncertain && (failed == NULL || !may_have_arrived(failed)) ? t : failed; /* one that may have arrived */
    }
    if (failed == NULL) {
        return;
    }
    const ps_status st = unknown > 0 ? PS_ABORTED : failed->err.code != PS_OK ? failed->err.code : PS_CANCELLED;
    const struct psi_err why = failed->err;
    PSI_IGNORE(psi_fail_as(err, st, unknown > 0 ? PS_REASON_NONE : why.reason, /* the caller reads *err */
                           "the value of %s %s %s%s; %u of the run's %u deliveries %s arrived: %s",
                           value_name(r, failed->value, what, sizeof(what)),
                           may_have_arrived(failed) ? "may or may not have arrived in" : "did not arrive in",
                           target_name(failed, where, sizeof(where)), unknown > 0 ? ", outcome unknown" : "", arrived,
                           r->move_count - r->read_count, arrived == 1 ? "has" : "have", why.text));
}

static ps_status write_answer(struct psi_exec_run *r, size_t *out_bytes, struct psi_err *err)
{
    struct psi_run_answer answer = {.times = r->times};
    struct psi_run_result *results = r->results;
    struct psi_buf buf;
    uint32_t move = r->read_count;
    for (uint32_t i = 0; i < r->run.output_count; i++) {
        const struct psi_run_output *out = &r->run.outputs[i];
        const struct psi_exec_transfer *t = out->to != PSI_RUN_TO_ANSWER ? &r->moves[move++] : NULL;
        const struct psi_value *value = &r->values[out->value];
        if (t == NULL) {
            results[answer.result_count++] =
                (struct psi_run_result){.type = r->types[out->value], .data = value->data, .bytes = value->bytes};
        } else if (out->answers) {
            results[answer.result_count++] =
                (struct psi_run_result){.type = r->types[out->value], .data = t->result, .bytes = t->result_bytes};
        }
    }
    answer.results = results;
    psi_buf_init(&buf, r->out_capacity);
    const ps_status st = psi_run_answer_encode(&answer, &buf, err);
    if (st == PS_OK) {
        memcpy(r->out, buf.data, buf.len);
        *out_bytes = buf.len;
    }
    psi_buf_fini(&buf);
    return st;
}

/* Write the answer of a run without transfers in progress, or return the run's first error. */
static ps_status conclude(struct psi_exec_run *r, size_t *out_bytes, struct psi_err *err)
{
    (void)pthread_mutex_lock(&r->ops->lock);
    *err = r->err;
    const bool cancelled = r->cancelled;
    (void)pthread_mutex_unlock(&r->ops->lock);
    if (err->code == PS_OK && r->stage == PSI_EXEC_DELIVERING) {
        deliveries_error(r, err);
        r->times.outputs_ns = r->run.trace ? lap(r) : 0;
    }
    if (err->code == PS_OK && cancelled) {
        return psi_fail(err, PS_CANCELLED, "nobody waits for the run any more");
    }
    r->stage = PSI_EXEC_OVER;
    return err->code == PS_OK ? write_answer(r, out_bytes, err) : err->code;
}

/* Call before the run is freed: tells the server why it failed, and replaces the call's pointer to the run, which run() and
 * cancel() read. data: NULL, or the executor if the call has not ended yet, so that neither of them begins anything. */
static void leave(struct psi_exec_run *r, ps_reason reason, void *data)
{
    r->ops->functions->reason(r->call, reason);
    (void)pthread_mutex_lock(&r->ops->lock);
    *r->ops->functions->data(r->call) = data;
    (void)pthread_mutex_unlock(&r->ops->lock);
}

static void finish(struct psi_exec_run *r)
{
    const psd_call_functions *functions = r->ops->functions;
    psd_call *call = r->call;
    struct psi_err err;
    size_t out_bytes = 0;
    psi_err_none(&err);
    const ps_status st = conclude(r, &out_bytes, &err);
    leave(r, err.reason, r->ops);
    psi_exec_run_free(r); /* before the answer is sent: the client's next run may need the memory at once */
    PSI_IGNORE(functions->finish(call, st, out_bytes, err.text)); /* no other thread can have finished the call */
}

/* Something that the run waited for has ended. True: nothing is pending any more, so this thread alone continues the run. */
static bool was_last(struct psi_exec_run *r)
{
    return atomic_fetch_sub_explicit(&r->pending, 1, memory_order_acq_rel) == 1;
}

static bool has_failed(struct psi_exec_run *r)
{
    (void)pthread_mutex_lock(&r->ops->lock);
    const bool failed = r->err.code != PS_OK || r->cancelled;
    (void)pthread_mutex_unlock(&r->ops->lock);
    return failed;
}

/* Subtract 1 from r->pending, outside of run(). If nothing is pending any more, finish the run or hand it to a compute thread. */
static void on_ended(struct psi_exec_run *r)
{
    if (!was_last(r)) {
        return;
    }
    if (r->stage == PSI_EXEC_DELIVERING || has_failed(r)) {
        finish(r);
        return;
    }
    const ps_ops *ops = r->ops;
    psd_call *call = r->call;
    (void)pthread_mutex_lock(&r->ops->lock);
    r->ready = true;
    (void)pthread_mutex_unlock(&r->ops->lock);
    PSI_IGNORE(ops->functions->again(call)); /* cannot fail: the call is not finished */
}

/* Under ops->lock. */
static void cancel_moves(struct psi_exec_run *r)
{
    for (uint32_t i = 0; i < r->move_count; i++) {
        if (r->moves[i].begun && !r->moves[i].ended) {
            r->ops->reach.cancel(r->ops->reach.ctx, &r->moves[i]);
        }
    }
}

/* Make the run fail with the error of read t, and cancel its other reads. */
static void read_failed(const struct psi_exec_transfer *t)
{
    struct psi_exec_run *r = t->run;
    struct psi_err err = t->err;
    char where[TARGET_NAME_MAX];
    psi_err_prefix(&err, "input %s", target_name(t, where, sizeof(where)));
    err.applied = PS_NOTHING_APPLIED;
    (void)pthread_mutex_lock(&r->ops->lock);
    if (r->err.code == PS_OK) {
        r->err = err;
    }
    cancel_moves(r);
    (void)pthread_mutex_unlock(&r->ops->lock);
}

static void on_moved(struct psi_exec_transfer *t)
{
    struct psi_exec_run *r = t->run;
    (void)pthread_mutex_lock(&r->ops->lock);
    t->ended = true;
    (void)pthread_mutex_unlock(&r->ops->lock);
    if (t->kind == PSI_EXEC_READ && t->err.code != PS_OK) {
        read_failed(t);
    }
    on_ended(r);
}

static void on_copied(void *ctx, const psd_call_read_result *result)
{
    struct psi_exec_transfer *t = ctx;
    psi_err_none(&t->err);
    if (result->status != PS_OK) {
        PSI_IGNORE(psi_fail_as(&t->err, result->status, result->reason, "%s", result->error)); /* t->err has the error */
    }
    t->same = result->same && t->kept != NULL;
    t->creation = result->exact ? result->creation : 0;
    t->version = result->version;
    on_moved(t);
}

static ps_status start_copy(struct psi_exec_transfer *t, struct psi_err *err)
{
    psi_exec_kept_find(t);
    const psd_call_read what = {.struct_bytes = sizeof(what),
                                .container = t->variable->container,
                                .key = t->key,
                                .name = t->variable->name,
                                .dtype = t->type->dtype,
                                .dst = t->data,
                                .bytes = t->bytes,
                                .have_creation = t->kept != NULL ? t->creation : 0,
                                .have_version = t->version};
    const ps_status st = t->run->ops->functions->read(t->run->call, &what, on_copied, t);
    return st == PS_OK ? PS_OK : psi_fail(err, st, "the task does not copy it: %s", ps_status_name(st));
}

/* Start a transfer by ops->reach, under ops->lock: so cancel() finds each transfer that was started here, and none is started
 * after cancel(). Reads by psd_call_functions.read are not cancelled. */
static ps_status start_carried(struct psi_exec_transfer *t, struct psi_err *err)
{
    ps_ops *ops = t->run->ops;
    (void)pthread_mutex_lock(&ops->lock);
    ps_status st = t->run->cancelled ? psi_fail(err, PS_CANCELLED, "nobody waits for the run any more")
                                     : ops->reach.start(ops->reach.ctx, t, err);
    t->begun = st == PS_OK;
    (void)pthread_mutex_unlock(&ops->lock);
    return st;
}

static void ended_by_publish(struct psi_exec_transfer *t, bool begun)
{
    (void)pthread_mutex_lock(&t->run->ops->lock);
    t->begun = begun;
    t->ended = true;
    (void)pthread_mutex_unlock(&t->run->ops->lock);
    on_ended(t->run);
}

/* Called when the server has published the draft of a value, or has refused to. A refusal has changed nothing: the session then
 * sends the value as an ordinary assignment, which can wait, and can find a new variable of that name. */
static void on_published(void *ctx, const psd_call_draft_result *result)
{
    struct psi_exec_transfer *t = ctx;
    struct psi_err err;
    psi_err_none(&t->err);
    if (result->status == PS_OK) {
        ended_by_publish(t, true);
        return;
    }
    psi_err_none(&err);
    t->timeout_ms = transfer_timeout_ms(t->run);
    if (start_carried(t, &err) != PS_OK) {
        t->err = err;
        ended_by_publish(t, false);
    }
}

static ps_status start_delivery(struct psi_exec_transfer *t, struct psi_err *err)
{
    const psd_call_functions *functions = t->run->ops->functions;
    if (t->room == NULL) {
        return start_carried(t, err);
    }
    if (t->data != t->room && t->bytes > 0) {
        memcpy(t->room, t->data, t->bytes);
        t->data = t->room;
    }
    return functions->publish(t->run->call, t->room, on_published, t) == PS_OK ? PS_OK : start_carried(t, err);
}

/* Start t: deliver its value, or read one. PS_OK: on_ended() is called when t has ended. Otherwise t->err has the error. */
static ps_status start_move(struct psi_exec_transfer *t)
{
    struct psi_exec_run *r = t->run;
    struct psi_err err;
    psi_err_none(&err);
    t->timeout_ms = transfer_timeout_ms(r);
    t->who = r->ops->functions->identity(r->call, &t->role);
    t->done = on_moved;
    (void)atomic_fetch_add_explicit(&r->pending, 1, memory_order_relaxed);
    const ps_status st = t->kind != PSI_EXEC_READ ? start_delivery(t, &err)
                         : t->own_task            ? start_copy(t, &err)
                                                  : start_carried(t, &err);
    if (st != PS_OK) {
        (void)atomic_fetch_sub_explicit(&r->pending, 1, memory_order_relaxed); /* cannot reach 0, because run() itself counts 1 */
        t->err = err;
    }
    return st;
}

/* Set the values that are in the call's input, all of which has arrived. Values that are not aligned are copied. */
static ps_status take_values(struct psi_exec_run *r, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t n = 0; n < r->run.input_count && st == PS_OK; n++) {
        const struct psi_run_input *in = &r->run.inputs[n];
        if (in->from == PSI_RUN_FROM_CALL && !r->slots[n].own) {
            r->values[n] = (struct psi_value){
                .dtype = in->type.dtype, .shape = in->type.shape, .data = (void *)(uintptr_t)in->data, .bytes = in->bytes};
        } else if (in->from == PSI_RUN_FROM_CALL) {
            st = psi_exec_value_new(r, n, in->bytes, err);
            if (st == PS_OK && in->bytes > 0) {
                memcpy(r->values[n].data, in->data, in->bytes);
            }
        }
    }
    return st;
}

static ps_status start_reads(struct psi_exec_run *r, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t i = 0; i < r->read_count && st == PS_OK; i++) {
        struct psi_exec_transfer *t = &r->moves[i];
        st = psi_exec_value_new(r, t->value, psi_exec_read_bytes(t->type), err);
        t->data = r->values[t->value].data;
        t->bytes = r->values[t->value].bytes;
    }
    for (uint32_t i = 0; i < r->read_count && st == PS_OK && !has_failed(r); i++) {
        if (start_move(&r->moves[i]) != PS_OK) {
            read_failed(&r->moves[i]);
        }
    }
    return st;
}

static void on_drafted(void *ctx, const psd_call_draft_result *result)
{
    struct psi_exec_transfer *t = ctx;
    t->room = result->status == PS_OK ? result->room : NULL;
    on_ended(t->run);
}

/* Ask the server for drafts, memory for new values of variables. If it refuses, the session delivers the value instead. */
static void start_drafts(struct psi_exec_run *r)
{
    for (uint32_t i = r->read_count; i < r->move_count && !has_failed(r); i++) {
        struct psi_exec_transfer *t = &r->moves[i];
        const psd_call_draft what = {.struct_bytes = sizeof(what),
                                     .container = t->variable->container,
                                     .key = t->key,
                                     .name = t->variable->name,
                                     .dtype = t->type->dtype,
                                     .shape = t->type->shape};
        if (!t->own_task) {
            continue;
        }
        (void)atomic_fetch_add_explicit(&r->pending, 1, memory_order_relaxed);
        if (r->ops->functions->draft(r->call, &what, on_drafted, t) != PS_OK) {
            (void)atomic_fetch_sub_explicit(&r->pending, 1, memory_order_relaxed); /* cannot reach 0, as run() counts 1 */
        }
    }
}

/* Let rows write outputs straight into their drafts, unless the value is also an input of the run or another output. */
static void use_drafts(struct psi_exec_run *r)
{
    uint32_t move = r->read_count;
    for (uint32_t i = 0; i < r->run.output_count; i++) {
        const struct psi_exec_transfer *t = r->run.outputs[i].to != PSI_RUN_TO_ANSWER ? &r->moves[move++] : NULL;
        if (t != NULL && t->room != NULL && psi_exec_is_output_alone(r, i)) {
            r->slots[t->value].room = t->room;
        }
    }
}

static void start_deliveries(struct psi_exec_run *r)
{
    ps_status st = PS_OK;
    for (uint32_t i = r->read_count; i < r->move_count && st == PS_OK; i++) {
        struct psi_exec_transfer *t = &r->moves[i];
        t->data = r->values[t->value].data;
        t->bytes = r->values[t->value].bytes;
        st = start_move(t);
    }
}

/* Set the sizes of the values that were read: the blob of strings may be shorter than its memory. */
static void trim_strings(struct psi_exec_run *r)
{
    for (uint32_t i = 0; i < r->read_count; i++) {
        r->values[r->moves[i].value].bytes = r->moves[i].bytes;
    }
}

static ps_status compute(struct psi_exec_run *r, struct psi_err *err)
{
    r->times.inputs_ns = r->run.trace ? lap(r) : 0;
    trim_strings(r);
    for (uint32_t i = 0; i < r->read_count; i++) {
        psi_exec_kept_use(&r->moves[i]);
    }
    use_drafts(r);
    ps_status st = take_values(r, err);
    st = st == PS_OK ? psi_exec_compute(r, err) : st;
    st = st == PS_OK ? psi_exec_answer_fits(r, err) : st;
    r->times.rows_ns = r->run.trace ? lap(r) : 0;
    return st;
}

/* Run stages until one must wait. PENDING: another thread may already continue the run, so the caller must not touch it. */
static ps_status advance(struct psi_exec_run *r, size_t *out_bytes, struct psi_err *err)
{
    ps_status st = PS_OK;
    if (r->stage == PSI_EXEC_READING) {
        st = start_reads(r, err);
        if (st != PS_OK) {
            note_error(r, err);
        }
        start_drafts(r);
        if (!was_last(r)) {
            return (ps_status)PSD_CALL_PENDING;
        }
        r->stage = PSI_EXEC_COMPUTING;
    }
    st = has_failed(r) ? PS_CANCELLED : compute(r, err);
    if (st == PS_OK && r->move_count > r->read_count) {
        r->stage = PSI_EXEC_DELIVERING;
        atomic_store_explicit(&r->pending, 1, memory_order_relaxed);
        start_deliveries(r);
        if (!was_last(r)) {
            return (ps_status)PSD_CALL_PENDING;
        }
    } else if (err->code != PS_OK) {
        note_error(r, err);
    }
    return conclude(r, out_bytes, err);
}

enum entry { ENTRY_FIRST, ENTRY_INPUT_CAME, ENTRY_READY, ENTRY_SPURIOUS };

/* Find out why the server has called run(). *out_run: the run; NULL in the first call. ENTRY_INPUT_CAME: all input has arrived,
 * and the caller must call was_last(), because `pending` counts 1 for the input. */
static enum entry entry_of(ps_ops *ops, psd_call *call, bool whole, struct psi_exec_run **out_run)
{
    enum entry entry = ENTRY_SPURIOUS;
    (void)pthread_mutex_lock(&ops->lock);
    void *data = *ops->functions->data(call);
    struct psi_exec_run *r = data == ops ? NULL : data;
    if (data == ops) {
        entry = ENTRY_SPURIOUS; /* finish() is ending the call */
    } else if (r == NULL) {
        entry = ENTRY_FIRST;
    } else if (r->ready) {
        r->ready = false; /* a further entry that the server had begun before is spurious */
        entry = ENTRY_READY;
    } else if (r->awaits && whole) {
        r->awaits = false;
        entry = ENTRY_INPUT_CAME;
    }
    (void)pthread_mutex_unlock(&ops->lock);
    *out_run = r;
    return entry;
}

static bool is_whole(const ps_ops *ops, psd_call *call, size_t in_bytes, size_t *out_come)
{
    const psd_call_functions *f = ops->functions;
    /* an older server calls run() only when all input has come */
    *out_come = f->struct_bytes >= sizeof(*f) ? f->come(call) : in_bytes;
    return *out_come == in_bytes;
}

/* Make the run, in the first call of run(). PENDING: too little input has come; the server calls run() again when all has. */
static ps_status begin(ps_ops *ops, psd_call *call, const void *in, size_t in_bytes, size_t come, void *out, size_t out_capacity,
                       struct psi_exec_run **out_run, struct psi_err *err)
{
    if (ops->functions->cancelled(call)) {
        return psi_fail(err, PS_CANCELLED, "nobody waits for the run any more");
    }
    ps_status st = psi_exec_prepare(ops, call, in, in_bytes, come, out, out_capacity, out_run, err);
    if (st != PS_OK) {
        /* PENDING: run() is called again when all input has come */
        return come < in_bytes ? (ps_status)PSD_CALL_PENDING : st;
    }
    struct psi_exec_run *r = *out_run;
    r->since_ns = r->run.trace ? now_ns() : 0;
    r->times.queue_ns = r->run.trace ? ops->functions->queued_ns(call) : 0;
    (void)pthread_mutex_lock(&ops->lock);
    r->cancelled = ops->functions->cancelled(call); /* cancel() may have come before it could find the run */
    r->awaits = r->awaits && !r->cancelled;
    atomic_store_explicit(&r->pending, r->awaits ? 2 : 1, memory_order_relaxed);
    *ops->functions->data(call) = r;
    (void)pthread_mutex_unlock(&ops->lock);
    return PS_OK;
}

ps_status psi_exec_call_run(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                            size_t *out_bytes, char *error, size_t error_bytes)
{
    ps_ops *ops = ctx;
    struct psi_exec_run *r = NULL;
    struct psi_err err;
    size_t come = 0;
    psi_err_none(&err);
    const bool whole = is_whole(ops, call, in_bytes, &come);
    const enum entry entry = entry_of(ops, call, whole, &r);
    if (entry == ENTRY_SPURIOUS) {
        return (ps_status)PSD_CALL_PENDING;
    }
    if (entry == ENTRY_INPUT_CAME) {
        r->since_ns = r->run.trace ? now_ns() : 0;
        if (!was_last(r)) {
            return (ps_status)PSD_CALL_PENDING;
        }
    }
    ps_status st = entry == ENTRY_FIRST ? begin(ops, call, in, in_bytes, come, out, out_capacity, &r, &err) : PS_OK;
    if (st == (ps_status)PSD_CALL_PENDING) {
        return st;
    }
    if (st == PS_OK) {
        r->stage = entry != ENTRY_FIRST ? PSI_EXEC_COMPUTING : r->stage;
        st = advance(r, out_bytes, &err);
        if (st == (ps_status)PSD_CALL_PENDING) {
            return st;
        }
        leave(r, err.reason, NULL);
        psi_exec_run_free(r);
    } else {
        ops->functions->reason(call, err.reason);
    }
    if (st != PS_OK) {
        (void)snprintf(error, error_bytes, "%s", err.text);
    }
    return st;
}

void psi_exec_call_cancel(void *ctx, psd_call *call)
{
    ps_ops *ops = ctx;
    (void)pthread_mutex_lock(&ops->lock);
    void *data = *ops->functions->data(call);
    struct psi_exec_run *r = data == ops ? NULL : data;
    const bool awaited = r != NULL && r->awaits;
    if (r != NULL) {
        r->cancelled = true;
        r->awaits = false;
        cancel_moves(r);
    }
    (void)pthread_mutex_unlock(&ops->lock);
    if (data == NULL) {
        PSI_IGNORE(ops->functions->again(call)); /* a call without a run may wait for input: run() is entered, and ends it */
    }
    if (awaited) {
        on_ended(r); /* `awaits` counted 1 in r->pending: the run no longer waits for input */
    }
}
