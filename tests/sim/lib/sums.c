/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An accumulator in the simulated world, in one seed of five of the QUEUES profile: every program applies gradients of the step
 * that is, of the one before and of later ones, takes what has been added up, and now and then sets the step, also back.
 * Meanwhile connections break in the middle of gradients, programs die and stand still, and the container is reset.
 *
 * Gradient number g is g in each of its elements, so that a sum says what is in it, exactly. In every second seed the accumulator
 * is sparse: gradient g has row 0 and some others, which g says, so that rows come to a sum in any order. The oracle is a second
 * accumulator of plain numbers, one for each row, fed with the changes of the task and compared with what it has after every
 * event, and with what programs are told:
 *   - a gradient is added once, whole, and only when its step is not below the accumulator's; who is told 1 it counts, who is
 * told 0 or "nothing applied" it never does;
 *   - takes come in their order, and none before its gradients are there; a result is all that had been added, divided by that;
 *     then the step is one more, and nothing is there;
 *   - a result has one program, and comes again only from one that died or was away for a lease before its ACK.
 */
#include "sim.h"

#include "psd/session/wait.h"
#include "psd/state.h"

#include "common/rows.h"
#include "common/sparse.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MANY = 300, STEPS_AROUND = 3 };

/* The accumulator of this creation; a new one where it is another than before. */
static struct sim_sums *ledger_of(struct sim *s, const struct psd_variable *v)
{
    if (s->sums.creation != v->creation) {
        s->sums = (struct sim_sums){.creation = v->creation};
    }
    return &s->sums;
}

static bool is_sparse(const struct psi_queue_spec *spec)
{
    return spec->kind == PSI_QUEUE_SPARSE_ACCUMULATOR;
}

/* What all elements are. */
static double uniform(struct sim *s, const uint8_t *data, uint64_t elements)
{
    double first = 0;
    memcpy(&first, data, sizeof(first));
    for (uint64_t i = 1; i < elements; i++) {
        if (memcmp(data + i * sizeof(first), &first, sizeof(first)) != 0) {
            sim_fail(s, "TORN: element %llu differs from the first, %g", (unsigned long long)i, first);
        }
    }
    return first;
}

/* What an element of `bytes` has. */
static struct sim_sum_rows rows_of(struct sim *s, const struct psi_queue_spec *spec, const uint8_t *data, uint64_t bytes)
{
    struct sim_sum_rows rows = {.has = {false}};
    if (!is_sparse(spec)) {
        rows.has[0] = true;
        rows.value[0] = uniform(s, data, (uint64_t)ps_shape_elements(&spec->components[0].shape));
        return rows;
    }
    if (psi_sparse_check(spec, data, bytes, UINT64_MAX, NULL) != PS_OK) {
        sim_fail(s, "TORN: %llu bytes are no rows", (unsigned long long)bytes);
    }
    const struct psi_sparse have = psi_sparse_of(spec, data);
    for (uint64_t i = 0; i < have.count; i++) {
        const int64_t row = psi_sparse_number(have.indices, i);
        rows.has[row] = true;
        rows.count[row] = (uint64_t)psi_sparse_number(have.counts, i);
        rows.value[row] = uniform(s, have.rows + i * have.row_bytes, have.columns);
    }
    return rows;
}

/* The rows of gradient g. */
static struct sim_sum_rows gradient_rows(const struct psi_queue_spec *spec, uint64_t g)
{
    struct sim_sum_rows rows = {.has = {true}, .value = {(double)g}, .count = {is_sparse(spec)}};
    for (uint64_t i = 1; is_sparse(spec) && i < SIM_SUM_ROWS; i++) {
        rows.has[i] = (g * 0x9e3779b97f4a7c15u >> (60 + i) & 1) != 0;
        rows.value[i] = rows.has[i] ? (double)g : 0;
        rows.count[i] = rows.has[i];
    }
    return rows;
}

static bool same_rows(const struct sim_sum_rows *a, const struct sim_sum_rows *b)
{
    for (uint32_t i = 0; i < SIM_SUM_ROWS; i++) {
        if (a->has[i] != b->has[i] || (a->has[i] && (a->value[i] != b->value[i] || a->count[i] != b->count[i]))) {
            return false;
        }
    }
    return true;
}

static void add_rows(struct sim_sum_rows *to, const struct sim_sum_rows *rows)
{
    for (uint32_t i = 0; i < SIM_SUM_ROWS; i++) {
        to->has[i] = to->has[i] || rows->has[i];
        to->value[i] += rows->value[i];
        to->count[i] += rows->count[i];
    }
}

/* What a take makes of the sum of so many gradients. */
static struct sim_sum_rows reduced(const struct psi_queue_spec *spec, const struct sim_sum_rows *sum, uint64_t gradients)
{
    struct sim_sum_rows rows = *sum;
    for (uint32_t i = 0; spec->reduction != PSI_REDUCTION_SUM && i < SIM_SUM_ROWS; i++) {
        const bool by_row = is_sparse(spec) && spec->reduction == PSI_REDUCTION_MEAN;
        rows.value[i] = rows.has[i] ? rows.value[i] / (double)(by_row ? rows.count[i] : gradients) : 0;
    }
    return rows;
}

static struct sim_element *gradient_at(struct sim *s, double value)
{
    if (value < 1 || value > (double)s->element_count || (double)(uint64_t)value != value) {
        sim_fail(s, "a gradient %g, which nobody applied", value);
    }
    return &s->element[(uint64_t)value - 1];
}

static bool has_key(const struct sim_element_key *keys, uint32_t count, uint32_t life, uint64_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i].life == life && keys[i].number == number) {
            return true;
        }
    }
    return false;
}

static void add_key(struct sim *s, struct sim_element_key *keys, uint32_t *count, uint32_t life, uint64_t number)
{
    if (*count == SIM_ELEMENT_KEYS) {
        sim_fail(s, "one result came more than %d times: a fault of the workload", SIM_ELEMENT_KEYS);
    }
    keys[(*count)++] = (struct sim_element_key){.life = life, .number = number};
}

/* The result that this request took last; NULL: none. */
static struct sim_result *result_of(struct sim *s, uint32_t life, uint64_t number)
{
    for (size_t i = s->result_count; i > 0; i--) {
        struct sim_result *r = &s->result[i - 1];
        if (r->by.life == life && r->by.number == number) {
            return r;
        }
    }
    return NULL;
}

/* ---- what a task does, before it is carried out ---- */

static void on_apply(struct sim *s, const struct psd_change *c)
{
    struct sim_sums *all = ledger_of(s, c->attempt.variable);
    const struct psi_queue_spec *spec = &c->attempt.variable->queue->spec;
    const struct sim_sum_rows rows = rows_of(s, spec, c->attempt.element->data, c->attempt.element->bytes);
    const double value = rows.value[0];
    struct sim_element *e = gradient_at(s, value);
    const struct sim_sum_rows wanted = gradient_rows(spec, (uint64_t)value);
    char text[200];
    if (!same_rows(&rows, &wanted)) {
        sim_fail(s, "TORN: gradient %g of %s has other rows than it was sent with", value, sim_op_text(e->put, text));
    }
    if (e->place != SIM_PLACE_NONE || e->told == SIM_TOLD_OUT) {
        sim_fail(s, "TWICE: gradient %g of %s counts %s", value, sim_op_text(e->put, text),
                 e->told == SIM_TOLD_OUT ? "although its program was told that it does not" : "again");
    }
    if (e->put->life != c->attempt.record->pid || (e->creation != 0 && e->creation != all->creation)) {
        sim_fail(s, "gradient %g of %s lands elsewhere", value, sim_op_text(e->put, text));
    }
    if (e->put->add < all->step) {
        sim_fail(s, "STALE: gradient %g of step %lld counts at step %lld", value, (long long)e->put->add, (long long)all->step);
    }
    e->place = SIM_PLACE_QUEUE;
    e->creation = all->creation;
    add_rows(&all->sum, &rows);
    all->count++;
    s->count_gradients++;
}

static struct sim_result *result_new(struct sim *s)
{
    if (s->result_count == s->result_capacity) {
        s->result_capacity = s->result_capacity == 0 ? 256 : 2 * s->result_capacity;
        s->result = realloc(s->result, s->result_capacity * sizeof(s->result[0]));
        if (s->result == NULL) {
            abort();
        }
    }
    struct sim_result *r = &s->result[s->result_count++];
    *r = (struct sim_result){.creation = s->sums.creation};
    return r;
}

/* The first of those that came back; NULL: none did. */
static struct sim_result *first_back(struct sim *s)
{
    struct sim_result *first = NULL;
    for (size_t i = 0; i < s->result_count; i++) {
        struct sim_result *r = &s->result[i];
        if (r->place == SIM_PLACE_QUEUE && r->creation == s->sums.creation && (first == NULL || r->order < first->order)) {
            first = r;
        }
    }
    return first;
}

static bool still_waits(const struct sim_task *t, const struct sim_element_key *key)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        const struct psd_wait *w = r->pid == key->life ? psi_u64_map_find(&r->waits, key->number) : NULL;
        if (w != NULL) {
            return w->stage == PSD_WAIT_OPEN;
        }
    }
    return false;
}

/* Those at the head of the line that have ended otherwise are gone; then the first one takes. */
static void leave_line(struct sim *s, const struct sim_task *t, struct sim_sums *all, uint32_t life, uint64_t number)
{
    uint32_t at = 0;
    while (at < all->waiting_count && !still_waits(t, &all->waiting[at])) {
        at++;
    }
    if (at < all->waiting_count && (all->waiting[at].life != life || all->waiting[at].number != number)) {
        sim_fail(s, "ORDER: request %llu of session %u takes before request %llu of session %u", (unsigned long long)number, life,
                 (unsigned long long)all->waiting[at].number, all->waiting[at].life);
    }
    at += at < all->waiting_count;
    all->waiting_count -= at;
    memmove(&all->waiting[0], &all->waiting[at], all->waiting_count * sizeof(all->waiting[0]));
}

static void on_take(struct sim *s, const struct sim_task *t, const struct psd_change *c)
{
    struct sim_sums *all = ledger_of(s, c->attempt.variable);
    const struct psd_queue *q = c->attempt.variable->queue;
    const struct psd_wait *w = psi_u64_map_find(&c->attempt.record->waits, c->attempt.id);
    struct sim_result *r = first_back(s);
    uint32_t life = c->attempt.record->pid;
    leave_line(s, t, all, life, c->attempt.id);
    if (r == NULL) {
        if (w == NULL || all->count < w->queue.count) {
            sim_fail(s, "a take of %u gradients is done with %llu", w == NULL ? 0 : w->queue.count,
                     (unsigned long long)all->count);
        }
        r = result_new(s);
        r->count = all->count;
        r->rows = reduced(&q->spec, &all->sum, all->count);
        all->sum = (struct sim_sum_rows){.has = {false}};
        all->count = 0;
        all->step++;
        s->count_results++;
    }
    r->place = SIM_PLACE_TAKEN;
    r->by = (struct sim_element_key){.life = life, .number = c->attempt.id};
}

static void on_end(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    const struct psd_record *record = c->attempt.record;
    const struct psd_attempt *a = psd_attempt_find(record, c->attempt.id);
    struct sim_result *r = a->element_count == 0 ? NULL : result_of(s, record->pid, a->id);
    bool over = sim_session_over(s, record->pid) || sim_lease_over(s, t, record);
    if (a->variable->gone || a->element_count == 0) {
        return;
    }
    if (r == NULL || r->place != SIM_PLACE_TAKEN ||
        (!c->attempt.give_back && !has_key(r->got, r->got_count, record->pid, a->id))) {
        sim_fail(s, "LOST: a result goes with request %llu of session %u, which has not got it", (unsigned long long)a->id,
                 record->pid);
    }
    r->place = c->attempt.give_back ? SIM_PLACE_QUEUE : SIM_PLACE_GONE;
    r->by = (struct sim_element_key){0};
    if (!c->attempt.give_back) {
        return;
    }
    if (record->conn == NULL && !over) {
        sim_fail(s, "a result is taken from session %u, which was heard %llu ms ago, and the lease is %u ms", record->pid,
                 (unsigned long long)(t->core->now_ms - record->heard_ms), s->k.lease_ms);
    }
    if (over || record->conn == NULL) {
        add_key(s, r->lost, &r->lost_count, record->pid, a->id);
        s->count_results_back++;
    }
    r->order = --s->sums.front; /* before all others that came back */
}

static void on_set(struct sim *s, const struct psd_change *c)
{
    struct sim_sums *all = ledger_of(s, c->set_step.variable);
    for (size_t i = 0; i < 2 * s->op_count; i++) { /* of several with that step the first one that waits for its answer */
        struct sim_op *op = s->op[i % s->op_count];
        bool waits = op->state == SIM_OP_PENDING || i >= s->op_count;
        if (op->kind == PSI_REQ_SET_STEP && op->life == c->set_step.record->pid && op->add == c->set_step.step && !op->ran &&
            waits) {
            op->ran = true;
            all->step = c->set_step.step;
            return;
        }
    }
    sim_fail(s, "TWICE: session %u sets step %lld, and did not ask for it any more", c->set_step.record->pid,
             (long long)c->set_step.step);
}

void sim_sums_change(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    switch (c->kind) {
    case PSD_CHANGE_ENQUEUE:
        on_apply(s, c);
        break;
    case PSD_CHANGE_DEQUEUE:
        on_take(s, t, c);
        break;
    case PSD_CHANGE_ATTEMPT_END:
        on_end(s, t, c);
        break;
    case PSD_CHANGE_SET_STEP:
        on_set(s, c);
        break;
    default:
        break;
    }
}

/* ---- what it has ---- */

static uint64_t count_at(const struct sim *s, enum sim_place place)
{
    uint64_t count = 0;
    for (size_t i = 0; i < s->result_count; i++) {
        count += s->result[i].place == place && s->result[i].creation == s->sums.creation;
    }
    return count;
}

/* Those that waited stand as they did, and new ones behind them. */
static void look_at_line(struct sim *s, struct sim_sums *all, const struct psd_queue *q)
{
    struct sim_element_key now[SIM_WAITING_MAX];
    uint32_t count = 0, kept = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &q->dequeuers) {
        const struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        if (count == SIM_WAITING_MAX) {
            sim_fail(s, "more than %d takes wait: a fault of the workload", SIM_WAITING_MAX);
        }
        now[count++] = (struct sim_element_key){.life = w->record->pid, .number = w->id};
    }
    for (uint32_t i = 0; i < all->waiting_count; i++) { /* a subsequence of what was, then what was not */
        bool still = has_key(now, count, all->waiting[i].life, all->waiting[i].number);
        if (still && (now[kept].life != all->waiting[i].life || now[kept].number != all->waiting[i].number)) {
            sim_fail(s, "ORDER: request %llu of session %u has lost its place", (unsigned long long)all->waiting[i].number,
                     all->waiting[i].life);
        }
        kept += still;
    }
    memcpy(all->waiting, now, count * sizeof(now[0]));
    all->waiting_count = count;
}

void sim_sums_look(struct sim *s, const struct psd_variable *v)
{
    const struct psd_queue *q = v->queue;
    struct sim_sums *all = ledger_of(s, v);
    const struct sim_sum_rows none = {.has = {false}};
    const struct sim_sum_rows sum = q->sum == NULL ? none : rows_of(s, &q->spec, q->sum->data, q->sum->bytes);
    if (q->step != all->step || psd_queue_length(q) != all->count || !same_rows(&sum, &all->sum) ||
        q->size != count_at(s, SIM_PLACE_QUEUE) || q->taken != count_at(s, SIM_PLACE_TAKEN)) {
        sim_fail(
            s,
            "REFERENCE: accumulator '%s': step %lld, %g of %llu gradients, %llu results back, %llu out; by the reference %lld, "
            "%g of %llu, %llu, %llu",
            v->name, (long long)q->step, sum.value[0], (unsigned long long)psd_queue_length(q), (unsigned long long)q->size,
            (unsigned long long)q->taken, (long long)all->step, all->sum.value[0], (unsigned long long)all->count,
            (unsigned long long)count_at(s, SIM_PLACE_QUEUE), (unsigned long long)count_at(s, SIM_PLACE_TAKEN));
    }
    const struct psd_wait *first = psd_wait_first(&q->dequeuers);
    bool held = psi_list_linked(&q->dirty); /* by a cut that is full: its turns come when there is room */
    if (!held && (!psi_list_empty(&q->enqueuers) || (first != NULL && (q->size > 0 || all->count >= first->queue.count)))) {
        sim_fail(s, "accumulator '%s': somebody waits for nothing", v->name);
    }
    look_at_line(s, all, q);
    s->count_compared++;
}

/* Of those that had not gone at the cut one with these rows; it is none of them any more. False: there is none. */
static bool take_of_cut(const struct sim *s, struct sim_saved_work *w, const struct sim_sum_rows *rows, uint64_t count)
{
    for (size_t i = 0; i < w->result_count; i++) {
        const struct sim_result *r = &s->result[i];
        bool there = w->place[i] == SIM_PLACE_QUEUE || w->place[i] == SIM_PLACE_TAKEN;
        if (there && r->creation == w->sums.creation && same_rows(&r->rows, rows) && r->count == count) {
            w->place[i] = SIM_PLACE_NONE;
            return true;
        }
    }
    return false;
}

/* Results that had been taken and not acknowledged are to be had again. */
static void results_back(struct sim *s, const struct psd_variable *v, struct sim_saved_work *w, uint64_t number)
{
    struct psi_list *it = NULL;
    int64_t order = 0;
    PSI_LIST_FOREACH(it, &v->queue->elements) {
        const struct psd_element *e = PSI_CONTAINER_OF(it, struct psd_element, link);
        const struct sim_sum_rows rows = rows_of(s, &v->queue->spec, e->data, e->bytes);
        if (!take_of_cut(s, w, &rows, e->serial)) {
            sim_fail(s, "NOT RESTORED: a result %g of %llu gradients comes back, which checkpoint %llu does not have",
                     rows.value[0], (unsigned long long)e->serial, (unsigned long long)number);
        }
        struct sim_result *r = result_new(s);
        r->rows = rows;
        r->count = e->serial;
        r->place = SIM_PLACE_QUEUE;
        r->order = order++;
        s->count_back_elements++;
    }
    for (size_t i = 0; i < w->result_count; i++) {
        bool there = w->place[i] == SIM_PLACE_QUEUE || w->place[i] == SIM_PLACE_TAKEN;
        if (there && s->result[i].creation == w->sums.creation) {
            sim_fail(s, "NOT RESTORED: a result %g of %llu gradients is in checkpoint %llu, and does not come back",
                     s->result[i].rows.value[0], (unsigned long long)s->result[i].count, (unsigned long long)number);
        }
    }
}

void sim_sums_back(struct sim *s, const struct psd_variable *v, const struct sim_saved *was)
{
    size_t bytes = sizeof(*was->work) + was->work->result_count * sizeof(was->work->place[0]);
    struct sim_saved_work *w = sim_alloc(bytes); /* the same checkpoint may come back once more */
    memcpy(w, was->work, bytes);
    s->sums = w->sums;
    s->sums.creation = v->creation;
    s->sums.front = 0;
    s->sums.waiting_count = 0;
    results_back(s, v, w, was->number);
    free(w);
}

void sim_sums_check_end(struct sim *s)
{
    if (count_at(s, SIM_PLACE_TAKEN) > 0) {
        sim_fail(s, "LOST: a result is still out, and no session is left");
    }
}

void sim_sums_free(struct sim *s)
{
    free(s->result);
}

/* ---- what programs do ---- */

void sim_sums_draw(struct sim *s)
{
    struct sim_var *v = &s->var[s->var_count++];
    (void)snprintf(v->name, sizeof(v->name), "sums");
    v->container = SIM_CONTAINER;
    v->kind = SIM_VAR_QUEUE;
    v->elements = sim_one_in(s, 3) ? sim_range(s, 20000, 60000) : 1;
    v->queue = (struct psi_queue_spec){.kind = PSI_QUEUE_ACCUMULATOR,
                                       .capacity = -1,
                                       .component_count = 1,
                                       .reduction = sim_one_in(s, 2) ? PSI_REDUCTION_SUM : PSI_REDUCTION_MEAN,
                                       .components = {{.dtype = PS_F64, .shaped = true}}};
    v->queue.components[0].shape.rank = 1;
    v->queue.components[0].shape.dims[0] = (int64_t)v->elements;
    if (sim_one_in(s, 2)) { /* sparse: v->elements are those of a row */
        v->elements = v->elements > PSI_ROW_BYTES_MAX / sizeof(double) ? PSI_ROW_BYTES_MAX / sizeof(double) : v->elements;
        v->queue.kind = PSI_QUEUE_SPARSE_ACCUMULATOR;
        v->queue.reduction = (uint32_t)sim_range(s, PSI_REDUCTION_MEAN, PSI_REDUCTION_MEAN_OF_ALL);
        v->queue.components[0].shape = (ps_shape){.rank = 2, .dims = {SIM_SUM_ROWS, (int64_t)v->elements}};
    }
    if (s->k.ps_tasks > 1 && sim_one_in(s, 2)) {
        (void)snprintf(v->device, sizeof(v->device), "/job:ps/task:1");
    }
}

void sim_sums_work(struct sim *s, struct sim_program *p)
{
    uint64_t x = sim_below(s, 100);
    bool final = p->role == SIM_FINAL;
    enum psi_request_kind kind = final    ? PSI_REQ_STATUS
                                 : x < 60 ? PSI_REQ_ENQUEUE
                                 : x < 92 ? PSI_REQ_DEQUEUE
                                 : x < 96 ? PSI_REQ_SET_STEP
                                          : PSI_REQ_STATUS;
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1);
    if (s->op_count > CALLS_MANY && !final) {
        p->next_call_at = s->now + sim_range(s, 100, 600);
    }
    uint32_t timeout_ms = kind == PSI_REQ_STATUS ? s->k.operation_ms : (uint32_t)sim_range(s, 20, sim_one_in(s, 4) ? 6000 : 900);
    if (sim_call_start(s, p, kind, &s->var[0], timeout_ms) == NULL) {
        sim_program_end_soon(s, p, 500);
    }
}

/* A step near the one that is. */
static int64_t near(struct sim *s)
{
    int64_t step = s->sums.step + (int64_t)sim_below(s, 2 * STEPS_AROUND + 1) - STEPS_AROUND;
    return step < 0 ? 0 : step;
}

static void prepare_apply(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    uint64_t id = sim_element_new(s, op);
    double value = (double)id;
    const struct psi_queue_spec *spec = &op->var->queue;
    const struct sim_sum_rows rows = gradient_rows(spec, id);
    uint64_t count = 0, k = 0;
    for (uint32_t i = 0; i < SIM_SUM_ROWS; i++) {
        count += rows.has[i];
    }
    call->bytes = is_sparse(spec) ? (size_t)psi_sparse_bytes(spec, count) : (size_t)op->var->elements * sizeof(value);
    call->src = sim_alloc(call->bytes);
    struct psi_sparse to = {.rows = call->src};
    if (is_sparse(spec)) {
        to = psi_sparse_lay_out(spec, count, call->src);
    }
    for (int64_t i = 0; is_sparse(spec) && i < SIM_SUM_ROWS; i++) {
        const int64_t one = 1;
        if (rows.has[i]) {
            memcpy(to.indices + k * sizeof(i), &i, sizeof(i));
            memcpy(to.counts + k * sizeof(one), &one, sizeof(one));
            k++;
        }
    }
    for (uint64_t i = 0; i < count * op->var->elements; i++) {
        memcpy(to.rows + i * sizeof(value), &value, sizeof(value));
    }
    op->first = id;
    op->add = sim_one_in(s, 2) ? s->sums.step : near(s);
    call->put = (struct psi_enqueue){.data = call->src, .bytes = call->bytes, .count = 1, .apply = true, .local_step = op->add};
    call->req.src = &call->put;
}

void sim_sums_prepare(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    if (op->kind == PSI_REQ_ENQUEUE) {
        prepare_apply(s, call);
    } else if (op->kind == PSI_REQ_DEQUEUE) {
        call->take = (struct psi_dequeue){.count = (uint32_t)sim_range(s, 1, 5), .room = sim_queue_room, .ctx = call};
        call->req.dst = &call->take;
    } else if (op->kind == PSI_REQ_SET_STEP) {
        op->add = near(s);
        call->req.src = &op->add;
    }
}

/* ---- what they are told ---- */

static void done_apply(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    struct sim_element *e = &s->element[op->first - 1];
    uint64_t counts = 0;
    bool knows = op->status == PS_OK || op->applied == PS_NOTHING_APPLIED;
    char text[200];
    if (op->status == PS_OK && call->req.result_bytes == sizeof(counts)) {
        memcpy(&counts, call->req.result, sizeof(counts));
    }
    if (knows && (counts > 1 || (counts == 1) != (e->place != SIM_PLACE_NONE))) {
        sim_fail(s, "%s is told that its gradient %s, and it %s", sim_op_text(op, text),
                 counts == 1 ? "counts" : "does not count", e->place != SIM_PLACE_NONE ? "does" : "does not");
    }
    if (knows) {
        e->told = counts == 1 ? SIM_TOLD_IN : SIM_TOLD_OUT;
        s->count_stale += op->status == PS_OK && counts == 0;
    }
}

static void done_take(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_dequeue *d = &call->take;
    struct sim_result *r = NULL;
    char text[200];
    if (d->got.count != 1 || (!is_sparse(&op->var->queue) && d->got.bytes != op->var->elements * sizeof(double))) {
        sim_fail(s, "%s has %llu results in %llu bytes", sim_op_text(op, text), (unsigned long long)d->got.count,
                 (unsigned long long)d->got.bytes);
    }
    const struct sim_sum_rows rows = rows_of(s, &op->var->queue, d->data, d->got.bytes);
    if (s->k.beside && op->creation != s->sums.creation) {
        return; /* it is there again since, as it was at a cut */
    }
    r = result_of(s, op->life, op->number);
    for (size_t i = 0; r == NULL && i < s->result_count; i++) { /* it was his */
        r = has_key(s->result[i].lost, s->result[i].lost_count, op->life, op->number) ? &s->result[i] : NULL;
    }
    if (r == NULL || !same_rows(&r->rows, &rows) || r->count != d->got.serial) {
        sim_fail(s, "REFERENCE: %s has %g of %llu gradients; by the reference %g of %llu", sim_op_text(op, text), rows.value[0],
                 (unsigned long long)d->got.serial, r == NULL ? 0 : r->rows.value[0],
                 r == NULL ? 0 : (unsigned long long)r->count);
    }
    if (has_key(r->lost, r->lost_count, op->life, op->number)) {
        return; /* it stood still for a lease, and it is somebody else's */
    }
    for (uint32_t i = 0; i < r->got_count; i++) {
        if (!has_key(r->lost, r->lost_count, r->got[i].life, r->got[i].number)) {
            sim_fail(s, "TWICE: %s has a result that session %u has", sim_op_text(op, text), r->got[i].life);
        }
    }
    add_key(s, r->got, &r->got_count, op->life, op->number);
}

void sim_sums_done(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    char text[200];
    if (op->kind == PSI_REQ_ENQUEUE) {
        done_apply(s, call);
    } else if (op->kind == PSI_REQ_DEQUEUE && op->status == PS_OK) {
        done_take(s, call);
    } else if (op->kind == PSI_REQ_SET_STEP && (op->status == PS_OK || op->applied == PS_NOTHING_APPLIED) &&
               (op->status == PS_OK) != op->ran) {
        sim_fail(s, "%s ended with %s, and was %scarried out", sim_op_text(op, text), ps_status_name(op->status),
                 op->ran ? "" : "not ");
    }
}
