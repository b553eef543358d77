/* SPDX-License-Identifier: Apache-2.0 */
/* Executes runs on tasks. Each run of a level is encoded as a call (run.h). Its inputs are values that the client has, and
 * variables, which the executing task reads. Its outputs are values that the client or a later run needs, and values to assign,
 * add and push. All calls are sent in one event of the loop; meanwhile the client executes its own run. Then the thread waits for
 * all answers, and takes the values. Failure modes: the error of a call names its rows and its task; if several runs fail, the
 * first error is returned. A lost task is ABORTED with outcome unknown; a task without PSI_RUN_CALL is UNIMPLEMENTED. */
#include "keep.h"

#include "common/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* bytes from which on a value is sent without copying it into the call: one more buffer to send costs less than the copy */
enum { LEND_BYTES = 32 << 10 };
enum { NO_NUMBER = UINT16_MAX }; /* instead of a value's index in a run: indices are below PSI_RUN_VALUES_MAX */

struct sent {
    struct psi_api_call call;
    struct psi_call_io io;
    struct psi_buf in;
    struct psi_lent *lents; /* values that are sent from their own memory, not from `in`; NULL: there are none */
    uint32_t lent_count;
    uint8_t *out;
    uint32_t run;
    uint32_t task; /* index of the task in the client's table of tasks */
    char device[PSI_TASK_NAME_MAX];
    uint32_t *results; /* [result_count] index, among the plan's values, of each result in the answer */
    uint32_t result_count;
    uint64_t sent_ns, ended_ns; /* for a traced run; ended_ns 0: the call failed */
    struct psi_run_times times; /* for a traced run: the task's report */
};

const char *psi_trip_names(const struct psi_trip *t, uint32_t run, char *buf, size_t n)
{
    enum { SHOWN = 4 };
    uint32_t shown = 0, count = t->runs[run].row_count;
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < t->plan->row_count && shown < SHOWN && used < n; i++) {
        if (t->run_of[i] == run) {
            used += (size_t)snprintf(buf + used, n - used, "%s'%.40s'", shown > 0 ? ", " : "", t->plan->rows[i]->name);
            shown++;
        }
    }
    if (count > shown && used < n) {
        (void)snprintf(buf + used, n - used, " and %" PRIu32 " more", count - shown);
    }
    return buf;
}

/* A run being encoded. Arrays have room for all its inputs, rows and outputs. */
struct writer {
    const struct psi_trip *trip;
    uint32_t run;
    struct psi_run to;
    uint16_t *numbers; /* [value_count] index in the run of each value of the plan; NO_NUMBER: the run has no such value */
    uint16_t *refs;    /* inputs of all rows, one row after the other, as indices of values in the run */
    uint32_t ref_count;
    char (*jobs)[PS_JOB_BYTES_MAX + 1];
    uint32_t job_count;
    size_t feeds_bytes; /* bytes of the program's large input values in the call (psi_trip_value.travels) */
};

static bool in_run(const struct writer *w, uint32_t row)
{
    return w->trip->run_of[row] == w->run;
}

static void variable_of(struct writer *w, const ps_variable *v, struct psi_run_variable *to)
{
    struct psi_device device;
    char *job = w->jobs[w->job_count++];
    if (psi_device_parse(v->device, &device, NULL) == PS_OK) { /* cannot fail: this library wrote the text */
        memcpy(job, device.job, sizeof(device.job));
    }
    *to = (struct psi_run_variable){.container = v->container, .name = v->name, .job = job, .task = (uint32_t)v->task};
}

/* Make the value an input of the run being encoded, unless a row of the run makes it, or it is an input already. */
static void input_add(struct writer *w, struct psi_plan_ref ref)
{
    const struct psi_trip *t = w->trip;
    const struct psi_plan_ref maker = psi_plan_maker(t->plan, ref);
    const struct psi_plan_row *row = t->plan->rows[maker.row];
    const uint32_t number = row->first_value + maker.output;
    const struct psi_trip_value *v = &t->values[number];
    if (in_run(w, maker.row) || w->numbers[number] != NO_NUMBER) {
        return;
    }
    struct psi_run_input *in = &w->to.inputs[w->to.input_count];
    *in = (struct psi_run_input){.type = v->type};
    if (psi_trip_reads_itself(t, row)) {
        in->from = PSI_RUN_FROM_VARIABLE;
        variable_of(w, row->variable, &in->variable);
    } else if (v->keep != NULL) {
        PSI_ASSERT(v->kept); /* a run of an earlier level, or the client, has assigned the value */
        in->from = PSI_RUN_FROM_VARIABLE;
        variable_of(w, &v->keep->variable, &in->variable);
        w->to.container = w->trip->plan->container;
    } else {
        PSI_ASSERT(v->here); /* the client has the value, from a run of an earlier level */
        in->from = PSI_RUN_FROM_CALL;
        in->data = v->value.data;
        in->bytes = v->value.bytes;
        w->feeds_bytes += v->travels ? v->value.bytes : 0;
    }
    w->numbers[number] = (uint16_t)w->to.input_count++;
}

static void row_add(struct writer *w, const struct psi_plan_row *row, uint32_t *next)
{
    struct psi_run_row *to = &w->to.rows[w->to.row_count++];
    *to = (struct psi_run_row){.op = row->op->name,
                               .name = row->name,
                               .device = row->local,
                               .inputs = w->refs + w->ref_count,
                               .input_count = row->input_count,
                               .output_count = row->output_count,
                               .attrs = row->attrs,
                               .printed = row->ran};
    to->attrs.step = w->trip->plan->runs;
    for (uint32_t k = 0; k < row->input_count; k++) {
        w->refs[w->ref_count++] = w->numbers[psi_plan_number(w->trip->plan, row->inputs[k])];
    }
    for (uint32_t k = 0; k < row->output_count; k++) {
        w->numbers[row->first_value + k] = (uint16_t)(*next)++;
    }
}

static void change_add(struct writer *w, const struct psi_plan_row *row, struct sent *sent)
{
    static const enum psi_run_to TO[] = {
        [PSI_PLAN_ASSIGN] = PSI_RUN_TO_ASSIGN, [PSI_PLAN_ADD] = PSI_RUN_TO_ADD, [PSI_PLAN_PUSH] = PSI_RUN_TO_PUSH};
    struct psi_run_output *to = &w->to.outputs[w->to.output_count++];
    *to = (struct psi_run_output){.to = TO[row->kind],
                                  .value = w->numbers[psi_plan_number(w->trip->plan, row->inputs[0])],
                                  .scale = row->kind == PSI_PLAN_PUSH ? row->scale : 0,
                                  .answers = row->kind == PSI_PLAN_ADD && row->types[0].dtype != PS_DTYPE_NONE};
    variable_of(w, row->variable, &to->variable);
    if (to->answers) {
        sent->results[sent->result_count++] = row->first_value;
    }
}

static void results_add(struct writer *w, const struct psi_plan_row *row, struct sent *sent)
{
    for (uint32_t k = 0; k < row->output_count; k++) {
        const struct psi_trip_value *v = &w->trip->values[row->first_value + k];
        if (v->keep != NULL) {
            struct psi_run_output *to = &w->to.outputs[w->to.output_count++];
            *to = (struct psi_run_output){.to = PSI_RUN_TO_ASSIGN, .value = w->numbers[row->first_value + k]};
            variable_of(w, &v->keep->variable, &to->variable);
            w->to.container = w->trip->plan->container;
        }
        if (v->fetched && !v->pulled) {
            w->to.outputs[w->to.output_count++] =
                (struct psi_run_output){.to = PSI_RUN_TO_ANSWER, .value = w->numbers[row->first_value + k]};
            sent->results[sent->result_count++] = row->first_value + k;
        }
    }
}

static ps_status parts_add(struct writer *w, struct sent *sent, struct psi_err *err)
{
    const ps_plan *p = w->trip->plan;
    for (uint32_t i = 0; i < p->row_count; i++) {
        for (uint32_t k = 0; in_run(w, i) && k < p->rows[i]->input_count; k++) {
            input_add(w, p->rows[i]->inputs[k]);
        }
    }
    uint64_t values = w->to.input_count;
    for (uint32_t i = 0; i < p->row_count; i++) {
        values += in_run(w, i) && p->rows[i]->kind == PSI_PLAN_OP ? p->rows[i]->output_count : 0;
    }
    if (values > PSI_RUN_VALUES_MAX) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_TOO_LARGE, "%" PRIu64 " values in one run, at most %u", values,
                           PSI_RUN_VALUES_MAX);
    }
    uint32_t next = w->to.input_count;
    for (uint32_t i = 0; i < p->row_count; i++) {
        if (in_run(w, i) && p->rows[i]->kind == PSI_PLAN_OP) {
            row_add(w, p->rows[i], &next);
        }
    }
    for (uint32_t i = 0; i < p->row_count; i++) {
        if (in_run(w, i) && p->rows[i]->kind == PSI_PLAN_OP) {
            results_add(w, p->rows[i], sent);
        } else if (in_run(w, i)) {
            change_add(w, p->rows[i], sent);
        }
    }
    return PS_OK;
}

static void bounds_of(const struct psi_trip *t, uint32_t run, size_t *inputs, size_t *outputs)
{
    *inputs = *outputs = 0;
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        if (t->run_of[i] == run) {
            *inputs += t->plan->rows[i]->input_count;
            *outputs += t->plan->rows[i]->output_count;
        }
    }
}

static ps_status run_write(const struct psi_trip *t, struct sent *sent, struct psi_err *err)
{
    size_t inputs = 0, outputs = 0;
    bounds_of(t, sent->run, &inputs, &outputs);
    struct writer w = {.trip = t, .run = sent->run, .to = {.container = "", .trace = t->trace != NULL}};
    w.numbers = psi_malloc(((size_t)t->plan->value_count + 1) * sizeof(*w.numbers));
    w.refs = psi_calloc(inputs + 1, sizeof(*w.refs));
    w.jobs = psi_calloc(inputs + 2 * outputs + 1, sizeof(*w.jobs));
    w.to.inputs = psi_calloc(inputs + 1, sizeof(*w.to.inputs));
    w.to.rows = psi_calloc((size_t)t->runs[sent->run].row_count + 1, sizeof(*w.to.rows));
    w.to.outputs = psi_calloc(2 * outputs + 1, sizeof(*w.to.outputs));
    sent->results = psi_calloc(outputs + 1, sizeof(*sent->results));
    sent->lents = psi_calloc(inputs + 1, sizeof(*sent->lents));
    const bool room = w.numbers != NULL && w.refs != NULL && w.jobs != NULL && w.to.inputs != NULL && w.to.rows != NULL &&
                      w.to.outputs != NULL && sent->results != NULL && sent->lents != NULL;
    ps_status st = room ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a run of %zu inputs", inputs);
    if (st == PS_OK) {
        memset(w.numbers, 0xff, ((size_t)t->plan->value_count + 1) * sizeof(*w.numbers));
        st = parts_add(&w, sent, err);
    }
    if (w.to.container[0] != '\0') {
        memcpy(w.to.key, t->plan->key, sizeof(w.to.key));
    }
    sent->in.max = PS_CALL_BYTES_MAX + w.feeds_bytes;
    st = st == PS_OK ? psi_run_encode_lending(&w.to, LEND_BYTES, &sent->in, sent->lents, &sent->lent_count, err) : st;
    psi_free(w.numbers);
    psi_free(w.refs);
    psi_free(w.jobs);
    psi_free(w.to.inputs);
    psi_free(w.to.rows);
    psi_free(w.to.outputs);
    return st;
}

static ps_status call_prepare(struct psi_api_call *call, struct psi_err *err)
{
    struct sent *sent = call->arg;
    const char *name = psi_client_task_name(call->client, sent->task);
    if (name == NULL) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "the session's cluster has fewer tasks than when the row was placed");
    }
    (void)snprintf(sent->device, sizeof(sent->device), "%s", name);
    call->req.kind = PSI_REQ_CALL;
    call->req.task = sent->task;
    call->req.dst = &sent->io;
    return PS_OK;
}

/* Loop thread: note the answer's time for the trace now, because the thread that waits for the answers may wake up much later. */
static void call_finish(struct psi_api_call *call)
{
    struct sent *sent = call->arg;
    sent->ended_ns = sent->sent_ns != 0 ? psi_io_now_ns() : 0;
}

static ps_status call_make(const struct psi_trip *t, struct sent *sent, struct psi_err *err)
{
    sent->out = psi_malloc(PS_CALL_BYTES_MAX);
    if (sent->out == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the results of a run");
    }
    sent->io = (struct psi_call_io){.name = PSI_RUN_CALL,
                                    .in = sent->in.data,
                                    .in_bytes = sent->in.len,
                                    .lents = sent->lents,
                                    .lent_count = sent->lent_count,
                                    .out = sent->out,
                                    .out_capacity = PS_CALL_BYTES_MAX};
    for (uint32_t i = 0; i < sent->lent_count; i++) {
        sent->io.in_bytes += sent->lents[i].bytes;
    }
    sent->call = (struct psi_api_call){.session = t->plan->session,
                                       .prepare = call_prepare,
                                       .finish = call_finish,
                                       .arg = sent,
                                       .timeout_ms = psi_trip_left_ms(t)};
    sent->sent_ns = psi_trip_now(t);
    return PS_OK;
}

static void sent_fini(struct sent *sent)
{
    psi_buf_fini(&sent->in);
    psi_free(sent->out);
    psi_free(sent->results);
    psi_free(sent->lents);
}

/* True if the task lacks the function PSI_RUN_CALL, and so executes no rows. A row's own NOT_FOUND has another `applied`. */
static bool is_absent(const struct psi_err *err)
{
    return err->code == PS_NOT_FOUND && err->applied == PS_NOTHING_APPLIED;
}

static ps_status call_error(const struct psi_trip *t, const struct sent *sent, struct psi_err *err)
{
    char names[PSI_ERR_TEXT_MAX / 2];
    if (is_absent(err)) {
        (void)psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_NONE,
                          "%s executes no operations; `pstrain --serve` does, and programs with ps_ops_table()", sent->device);
    } else if (err->applied == PS_OUTCOME_UNKNOWN && err->code != PS_DEADLINE_EXCEEDED && err->code != PS_CANCELLED) {
        err->code = PS_ABORTED; /* the task, or its record of the session, is lost: a monitored session recovers from ABORTED */
    }
    psi_err_prefix(err, "rows %s at %s", psi_trip_names(t, sent->run, names, sizeof(names)), sent->device);
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        if (t->run_of[i] == sent->run && t->plan->rows[i]->replica > 0) {
            psi_err_prefix(err, "replica %u", (unsigned)t->plan->rows[i]->replica - 1);
            break;
        }
    }
    return err->code;
}

static ps_status result_take(struct psi_trip *t, uint32_t number, const struct psi_run_result *r, struct psi_err *err)
{
    struct psi_trip_value *v = &t->values[number];
    char have[PSI_TYPE_TEXT_MAX], want[PSI_TYPE_TEXT_MAX];
    bool same = r->type.dtype == v->type.dtype && r->type.shape.rank == v->type.shape.rank;
    for (uint32_t d = 0; same && d < v->type.shape.rank; d++) {
        same = r->type.shape.dims[d] == v->type.shape.dims[d];
    }
    if (!same) {
        return psi_fail(err, PS_INTERNAL, "a result is %s, expected was %s", psi_type_format(&r->type, have, sizeof(have)),
                        psi_type_format(&v->type, want, sizeof(want)));
    }
    ps_status st = psi_trip_room(t, number, r->bytes, err);
    if (st == PS_OK && r->bytes > 0) {
        memcpy(v->value.data, r->data, r->bytes);
    }
    return st;
}

static void keeps_note(struct psi_trip *t, uint32_t run)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        const struct psi_plan_row *row = t->plan->rows[i];
        for (uint32_t k = 0; t->run_of[i] == run && row->kind == PSI_PLAN_OP && k < row->output_count; k++) {
            t->values[row->first_value + k].kept = t->values[row->first_value + k].keep != NULL;
        }
    }
}

static ps_status answer_take(struct psi_trip *t, struct sent *sent, struct psi_err *err)
{
    struct psi_run_answer answer = {0};
    ps_status st = psi_run_answer_decode(sent->out, sent->io.out_bytes, &answer, err);
    if (st == PS_OK && answer.result_count != sent->result_count) {
        st = psi_fail(err, PS_INTERNAL, "%" PRIu32 " results, expected were %" PRIu32, answer.result_count, sent->result_count);
    }
    for (uint32_t i = 0; st == PS_OK && i < sent->result_count; i++) {
        st = result_take(t, sent->results[i], &answer.results[i], err);
    }
    sent->times = answer.times;
    psi_run_answer_fini(&answer);
    if (st == PS_OK) {
        keeps_note(t, sent->run);
    }
    return st;
}

/* In a traced run: add the call to the trace, with the times that the task has reported for the parts of the run. */
static void call_trace(struct psi_trip *t, const struct sent *sent, ps_status status)
{
    static const char *const PARTS[PSI_EXCHANGE_PARTS] = {"queue", "inputs", "rows", "outputs"};
    struct psi_exchange *x =
        /* device "": the call was not sent */
        t->trace != NULL && sent->device[0] != '\0' ? psi_exchanges_add(&t->trace->exchanges) : NULL;
    if (x == NULL) {
        return;
    }
    *x = (struct psi_exchange){
        .begun_ns = sent->sent_ns,
        .sent_ns = sent->sent_ns,
        .ended_ns = sent->ended_ns != 0 ? sent->ended_ns : psi_io_now_ns(),
        .parts_ns = {sent->times.queue_ns, sent->times.inputs_ns, sent->times.rows_ns, sent->times.outputs_ns},
        .part_names = status == PS_OK ? PARTS : NULL,
        .op = PS_OP_CALL,
        .status = status,
        .task = sent->task,
        .bytes = sent->io.in_bytes + sent->io.out_bytes};
    (void)snprintf(x->task_name, sizeof(x->task_name), "%s", sent->device);
    (void)psi_trip_names(t, sent->run, x->name, sizeof(x->name));
}

ps_status psi_trip_probe(const struct psi_trip *t, uint32_t task, bool *out_executes, struct psi_err *err)
{
    const struct psi_run nothing = {.container = ""};
    struct sent sent = {.task = task};
    psi_buf_init(&sent.in, PS_CALL_BYTES_MAX);
    ps_status st = psi_run_encode(&nothing, &sent.in, err);
    st = st == PS_OK ? call_make(t, &sent, err) : st;
    st = st == PS_OK ? psi_api_call_run(&sent.call, err) : st;
    *out_executes = st == PS_OK;
    if (st != PS_OK && is_absent(err)) {
        psi_err_none(err);
        st = PS_OK;
    }
    sent_fini(&sent);
    return st;
}

static bool may_change(const struct psi_trip *t, uint32_t run)
{
    for (uint32_t i = 0; i < t->plan->row_count; i++) {
        if (t->run_of[i] == run && t->plan->rows[i]->kind != PSI_PLAN_OP && t->plan->rows[i]->kind != PSI_PLAN_VARIABLE) {
            return true;
        }
    }
    return false;
}

static ps_status calls_make(struct psi_trip *t, uint32_t first, uint32_t end, struct sent *calls, uint32_t *out_count,
                            struct psi_list *works, struct psi_err *err)
{
    for (uint32_t run = first; run < end; run++) {
        if (t->runs[run].place == PSI_PLAN_CLIENT) {
            continue;
        }
        struct sent *sent = &calls[(*out_count)++];
        char names[PSI_ERR_TEXT_MAX / 2];
        sent->run = run;
        sent->task = t->runs[run].place;
        psi_buf_init(&sent->in, PS_CALL_BYTES_MAX);
        ps_status st = run_write(t, sent, err);
        st = st == PS_OK ? call_make(t, sent, err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "rows %s", psi_trip_names(t, run, names, sizeof(names)));
            return st;
        }
        psi_list_push_back(works, &sent->call.work.link);
    }
    return PS_OK;
}

static ps_status client_run(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t run = first; run < end && st == PS_OK; run++) {
        st = t->runs[run].place == PSI_PLAN_CLIENT ? psi_trip_local(t, run, err) : PS_OK;
    }
    return st;
}

static ps_status calls_wait(struct psi_trip *t, struct sent *calls, uint32_t count, ps_status st, struct psi_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        struct psi_err own = {0};
        ps_status ended = psi_api_call_wait(&calls[i].call, &own);
        if (ended == PS_OK && st == PS_OK) {
            ended = answer_take(t, &calls[i], &own);
        }
        call_trace(t, &calls[i], ended);
        t->changed = t->changed || ((ended == PS_OK || own.applied != PS_NOTHING_APPLIED) && may_change(t, calls[i].run));
        if (ended != PS_OK) {
            ended = call_error(t, &calls[i], &own);
        }
        if (ended != PS_OK && st == PS_OK) {
            st = ended;
            *err = own;
        }
    }
    return st;
}

ps_status psi_trip_level(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err)
{
    struct psi_list works;
    struct sent *calls = psi_calloc((size_t)(end - first) + 1, sizeof(*calls));
    uint32_t count = 0;
    psi_list_init(&works);
    ps_status st =
        calls != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u runs", (unsigned)(end - first));
    st = st == PS_OK ? psi_trip_give(t, first, end, err) : st;
    st = st == PS_OK ? calls_make(t, first, end, calls, &count, &works, err) : st;
    st = st == PS_OK && count > 0 ? psi_api_calls_start(t->plan->session, &works, err) : st;
    const bool started = st == PS_OK;
    st = st == PS_OK ? client_run(t, first, end, err) : st;
    st = started ? calls_wait(t, calls, count, st, err) : st;
    st = st == PS_OK ? psi_trip_fetch(t, first, end, err) : st;
    for (uint32_t i = 0; i < count; i++) {
        sent_fini(&calls[i]);
    }
    psi_free(calls);
    return st;
}
