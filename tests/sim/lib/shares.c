/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A work queue in the simulated world, in one seed of five of the QUEUES profile: every program fills it with the same items,
 * then takes one, holds it for a while, for longer than a lease too, and says that it is done (some say so again), or gives it
 * back. Meanwhile connections break, programs die and stand still, and the container is reset.
 *
 * The oracle is a ledger of the items, fed with the changes of the task and compared with what it has after every event, and with
 * what programs are told:
 *   - the queue is filled once, and others that fill it with the same are told OK, with something else INVALID_ARGUMENT;
 *   - an item is handed out only where nobody holds it and it is not done in this epoch; it goes back where its holder says so,
 *     never got it, is over, or was away for a lease, and at the end no session that is over holds one;
 *   - it is done once in each epoch, by who holds it and says so; who is told 0 has done it, 1 means that it was done before, and
 *     that it is not his any more is said only to those who were away;
 *   - an epoch is over, and all of them are, when every item was done in it; what an answer says of epoch and deliveries is so.
 */
#include "sim.h"

#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

enum { CALLS_MANY = 300, HASH = 7, OTHER_HASH = 8 };
/* An item in memory: bytes of its blob, two offsets, and its text, which is its serial. */
enum { ITEM_WORDS = 4, ITEM_BYTES = 8 * ITEM_WORDS };

static const struct psd_element *first_of(const struct psd_queue *q)
{
    return PSI_CONTAINER_OF(q->elements.next, struct psd_element, link);
}

/* Which item these bytes are. */
static uint64_t serial_of(struct sim *s, const uint8_t *data, uint64_t bytes)
{
    uint64_t words[ITEM_WORDS] = {0};
    if (bytes == ITEM_BYTES) {
        memcpy(words, data, ITEM_BYTES);
    }
    if (words[0] != 24 || words[1] != 0 || words[2] != 8 || words[3] == 0 || words[3] > s->shares.count) {
        sim_fail(s, "MIXED: an item of %llu bytes is none that anybody filled in", (unsigned long long)bytes);
    }
    return words[3];
}

static struct sim_share *share_at(struct sim *s, uint64_t serial)
{
    if (serial == 0 || serial > s->shares.count) {
        sim_fail(s, "an item %llu, and there are %u", (unsigned long long)serial, s->shares.count);
    }
    return &s->shares.item[serial - 1];
}

/* The ledger of this queue; a new one where it is another creation than before. */
static struct sim_shares *ledger_of(struct sim *s, const struct psd_variable *v)
{
    if (s->shares.creation != v->creation) {
        s->shares = (struct sim_shares){.count = s->shares.count, .epochs = s->shares.epochs, .creation = v->creation};
    }
    return &s->shares;
}

static bool is_by(const struct sim_element_key *key, uint32_t life, uint64_t number)
{
    return key->life == life && key->number == number;
}

/* number 0: whichever request of the session brought it. */
static bool has_lost(const struct sim_share *i, uint32_t life, uint64_t number)
{
    for (uint32_t n = 0; n < i->lost_count; n++) {
        if (i->lost[n].life == life && (number == 0 || i->lost[n].number == number)) {
            return true;
        }
    }
    return false;
}

/* ---- what a task does, before it is carried out ---- */

static void on_put(struct sim *s, const struct psd_change *c)
{
    struct sim_shares *all = ledger_of(s, c->attempt.variable);
    const struct psd_element *e = c->attempt.element;
    if (all->filled || serial_of(s, e->data, e->bytes) != all->put + 1) {
        sim_fail(s, "FILLED TWICE: session %u puts item %llu in, and %u are in", c->attempt.record->pid,
                 (unsigned long long)serial_of(s, e->data, e->bytes), all->put);
    }
    all->put++;
}

static void on_filled(struct sim *s, const struct psd_variable *v)
{
    struct sim_shares *all = ledger_of(s, v);
    if (all->filled || all->put != all->count) {
        sim_fail(s, "FILLED TWICE: %u of %u items are in", all->put, all->count);
    }
    all->filled = true;
    for (uint32_t i = 0; i < all->count; i++) {
        all->item[i].place = SIM_PLACE_QUEUE;
    }
}

static void on_taken(struct sim *s, const struct psd_change *c)
{
    uint64_t serial = first_of(c->attempt.variable->queue)->serial;
    struct sim_share *i = share_at(s, serial);
    if (i->place != SIM_PLACE_QUEUE) {
        sim_fail(s, "HANDED OUT TWICE: session %u is given item %llu of epoch %u, which %s session %u", c->attempt.record->pid,
                 (unsigned long long)serial, s->shares.epoch + 1, i->place == SIM_PLACE_TAKEN ? "is held by" : "was done by",
                 i->by.life);
    }
    i->place = SIM_PLACE_TAKEN;
    i->by = (struct sim_element_key){.life = c->attempt.record->pid, .number = c->attempt.id};
    i->got = false;
}

static void on_attempt_end(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    const struct psd_record *r = c->attempt.record;
    const struct psd_attempt *a = psd_attempt_find(r, c->attempt.id);
    if (a->variable->gone || a->element_count == 0) {
        return;
    }
    uint64_t serial = PSI_CONTAINER_OF(a->elements.next, struct psd_element, link)->serial;
    struct sim_share *i = share_at(s, serial);
    bool over = sim_session_over(s, r->pid) || sim_lease_over(s, t, r);
    if (i->place != SIM_PLACE_TAKEN || !is_by(&i->by, r->pid, a->id) || (!c->attempt.give_back && !i->got)) {
        sim_fail(s, "LOST: item %llu goes with request %llu of session %u, which has not got it", (unsigned long long)serial,
                 (unsigned long long)a->id, r->pid);
    }
    if (!c->attempt.give_back) {
        return;
    }
    if (!over && (i->got || r->conn == NULL)) {
        sim_fail(s, "item %llu is taken from session %u, which was heard %llu ms ago, and the lease is %u ms",
                 (unsigned long long)serial, r->pid, (unsigned long long)(t->core->now_ms - r->heard_ms), s->k.lease_ms);
    }
    if (i->lost_count == SIM_SHARE_LOST) {
        sim_fail(s, "item %llu went back more than %d times: a fault of the workload", (unsigned long long)serial,
                 SIM_SHARE_LOST);
    }
    if (over) {
        i->lost[i->lost_count++] = i->by;
        s->count_shares_back++;
    }
    i->place = SIM_PLACE_QUEUE;
    i->again++;
}

/* Did the session say that of the item? */
static bool has_said(const struct sim *s, uint32_t life, uint64_t serial, bool give_back)
{
    for (size_t n = s->op_count; n > 0; n--) {
        const struct sim_op *op = s->op[n - 1];
        bool refused = op->state == SIM_OP_DONE && op->status != PS_OK && op->applied == PS_NOTHING_APPLIED;
        if (op->kind == PSI_REQ_WORK_END && op->life == life && op->number == serial && op->cancel == give_back &&
            op->count == s->shares.epoch + 1 && !refused) {
            return true;
        }
    }
    return false;
}

static void on_work_end(struct sim *s, const struct psd_change *c)
{
    struct sim_shares *all = &s->shares;
    struct sim_share *i = share_at(s, c->work_end.serial);
    uint32_t life = c->work_end.record->pid, done = 0;
    if (c->work_end.repeated) {
        return; /* nothing happens; its program will see whether it is so */
    }
    if (i->place != SIM_PLACE_TAKEN || i->by.life != life || !has_said(s, life, c->work_end.serial, c->work_end.give_back)) {
        sim_fail(s, "session %u ends item %llu, which %s session %u", life, (unsigned long long)c->work_end.serial,
                 i->place == SIM_PLACE_TAKEN ? "is held by" : "is not held; last by", i->by.life);
    }
    if (c->work_end.give_back) {
        i->place = SIM_PLACE_QUEUE;
        i->again++;
        return;
    }
    i->place = SIM_PLACE_GONE;
    i->done_by[all->epoch] = life;
    s->count_shares_done++;
    for (uint32_t n = 0; n < all->count; n++) {
        done += all->item[n].place == SIM_PLACE_GONE;
    }
    if (done < all->count) {
        return;
    }
    all->epoch++;
    if (all->epoch == all->epochs) {
        s->shares_over[s->count_shares_over++ % SIM_SHARES_OVER] = all->creation;
    }
    for (uint32_t n = 0; n < all->count && all->epoch < all->epochs; n++) {
        all->item[n].place = SIM_PLACE_QUEUE;
        all->item[n].again = 0;
    }
}

void sim_shares_change(struct sim *s, struct sim_task *t, const struct psd_change *c)
{
    switch (c->kind) {
    case PSD_CHANGE_ENQUEUE:
        on_put(s, c);
        break;
    case PSD_CHANGE_WORK_FILLED:
        on_filled(s, c->filled.variable);
        break;
    case PSD_CHANGE_DEQUEUE:
        on_taken(s, c);
        break;
    case PSD_CHANGE_ATTEMPT_END:
        on_attempt_end(s, t, c);
        break;
    case PSD_CHANGE_WORK_END:
        on_work_end(s, c);
        break;
    default:
        break;
    }
}

/* ---- what it has ---- */

static uint32_t count_at(const struct sim *s, enum sim_place place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->shares.count; i++) {
        count += s->shares.item[i].place == place;
    }
    return count;
}

void sim_shares_look(struct sim *s, const struct psd_variable *v)
{
    const struct psd_queue *q = v->queue;
    const struct sim_shares *all = ledger_of(s, v);
    if (q->filled != all->filled || q->epoch != all->epoch || q->size != count_at(s, SIM_PLACE_QUEUE) ||
        q->taken != count_at(s, SIM_PLACE_TAKEN) || q->done != count_at(s, SIM_PLACE_GONE)) {
        sim_fail(
            s,
            "work queue '%s': %s, epoch %u, %llu items to be had, %llu held, %llu done; by the ledger %s, epoch %u, %u, %u, %u",
            v->name, q->filled ? "filled" : "not filled", q->epoch, (unsigned long long)q->size, (unsigned long long)q->taken,
            (unsigned long long)q->done, all->filled ? "filled" : "not filled", all->epoch, count_at(s, SIM_PLACE_QUEUE),
            count_at(s, SIM_PLACE_TAKEN), count_at(s, SIM_PLACE_GONE));
    }
    s->count_compared++;
}

/* Those that were held are to be had again. */
void sim_shares_back(struct sim *s, const struct psd_variable *v, const struct sim_saved *was)
{
    s->shares = was->work->shares;
    s->shares.creation = v->creation;
    for (uint32_t i = 0; i < s->shares.count; i++) {
        struct sim_share *one = &s->shares.item[i];
        one->again += one->place == SIM_PLACE_TAKEN;
        one->place = one->place == SIM_PLACE_TAKEN ? SIM_PLACE_QUEUE : one->place;
        one->lost_count = 0;
        s->count_back_elements++;
    }
    if (s->shares.epoch == s->shares.epochs) {
        s->shares_over[s->count_shares_over++ % SIM_SHARES_OVER] = v->creation;
    }
}

void sim_shares_check_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->shares.count; i++) {
        if (s->shares.item[i].place == SIM_PLACE_TAKEN) {
            sim_fail(s, "LOST: item %u is still held by session %u, and no session is left", i + 1, s->shares.item[i].by.life);
        }
    }
}

/* ---- what programs do ---- */

void sim_shares_draw(struct sim *s)
{
    struct sim_var *v = &s->var[s->var_count++];
    (void)snprintf(v->name, sizeof(v->name), "work");
    v->container = SIM_CONTAINER;
    v->kind = SIM_VAR_QUEUE;
    s->shares.count = (uint32_t)sim_range(s, 5, SIM_SHARES_MAX);
    s->shares.epochs = (uint32_t)sim_range(s, 2, SIM_SHARE_EPOCHS);
    v->queue = (struct psi_queue_spec){.kind = PSI_QUEUE_WORK,
                                       .capacity = -1,
                                       .component_count = 1,
                                       .seed = sim_below(s, 3),
                                       .epochs = s->shares.epochs,
                                       .components = {{.dtype = PS_STRING, .shaped = true}}};
}

/* All epochs of this creation; it may have been reset since. */
static bool all_over(const struct sim *s, uint64_t creation)
{
    for (uint32_t i = 0; i < SIM_SHARES_OVER; i++) {
        if (s->shares_over[i] == creation) {
            return true;
        }
    }
    return false;
}

void sim_shares_work(struct sim *s, struct sim_program *p)
{
    struct sim_var *v = &s->var[0];
    struct sim_holder *h = &s->holder[p->index];
    bool final = p->role == SIM_FINAL;
    p->next_call_at = s->now + 1 + sim_below(s, (uint64_t)s->k.think_ms + 1);
    if (s->op_count > CALLS_MANY && !final) {
        p->next_call_at = s->now + sim_range(s, 100, 600);
    }
    if (h->life != p->life) {
        *h = (struct sim_holder){.life = p->life};
    }
    if (h->out) {
        return;
    }
    bool over = h->filled && all_over(s, p->var[0]->creation);
    enum psi_request_kind kind = !h->filled || (!final && sim_one_in(s, 30)) ? PSI_REQ_ENQUEUE
                                 : h->serial != 0 && s->now >= h->until      ? PSI_REQ_WORK_END
                                 : h->serial != 0 || (over && final)         ? PSI_REQ_STATUS
                                                                             : PSI_REQ_DEQUEUE;
    if (kind == PSI_REQ_STATUS && !final && !sim_one_in(s, 8)) {
        return;
    }
    uint32_t timeout_ms =
        final ? s->k.operation_ms + 2 * s->k.lease_ms : (uint32_t)sim_range(s, 20, sim_one_in(s, 3) ? 6000 : 900);
    h->out = kind != PSI_REQ_STATUS;
    if (sim_call_start(s, p, kind, v, timeout_ms) == NULL) {
        sim_program_end_soon(s, p, 500);
    }
}

static void prepare_fill(struct sim *s, struct sim_call *call)
{
    const struct sim_holder *h = &s->holder[call->program->index];
    uint64_t *at = sim_alloc((size_t)s->shares.count * (8 + ITEM_BYTES));
    call->op->cancel = h->filled && sim_one_in(s, 2);
    call->bytes = (size_t)s->shares.count * (8 + ITEM_BYTES);
    call->src = (uint8_t *)at;
    for (uint64_t i = 1; i <= s->shares.count; i++, at += 1 + ITEM_WORDS) {
        const uint64_t words[1 + ITEM_WORDS] = {ITEM_BYTES, 24, 0, 8, i};
        memcpy(at, words, sizeof(words));
    }
    call->put = (struct psi_enqueue){.data = call->src,
                                     .bytes = call->bytes,
                                     .count = s->shares.count,
                                     .many = true,
                                     .fill = true,
                                     .fill_hash = call->op->cancel ? OTHER_HASH : HASH};
    call->req.src = &call->put;
}

void sim_shares_prepare(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    const struct sim_holder *h = &s->holder[call->program->index];
    if (op->kind == PSI_REQ_ENQUEUE) {
        prepare_fill(s, call);
    } else if (op->kind == PSI_REQ_DEQUEUE) {
        call->take = (struct psi_dequeue){.count = 1, .room = sim_queue_room, .ctx = call};
        call->req.dst = &call->take;
    } else if (op->kind == PSI_REQ_WORK_END) {
        op->number = h->serial;
        op->count = h->epoch;
        op->cancel = !h->done && sim_one_in(s, 6);
        call->end = (struct psi_work_end){.serial = h->serial, .epoch = h->epoch, .give_back = op->cancel};
        call->req.src = &call->end;
    }
}

/* ---- what they are told ---- */

bool sim_shares_cause(struct sim *s, const struct sim_op *op)
{
    switch (op->status) {
    case PS_INVALID_ARGUMENT:
        return op->kind == PSI_REQ_ENQUEUE && op->cancel;
    case PS_OUT_OF_RANGE:
        return op->kind == PSI_REQ_DEQUEUE && all_over(s, op->creation);
    case PS_FAILED_PRECONDITION:
        return op->kind == PSI_REQ_WORK_END &&
               (op->creation != s->shares.creation || has_lost(share_at(s, op->number), op->life, 0));
    default:
        return false;
    }
}

static void done_take(struct sim *s, const struct sim_call *call, struct sim_holder *h)
{
    const struct sim_op *op = call->op;
    const struct ps_dequeue_result *got = &call->take.got;
    uint64_t serial = serial_of(s, call->take.data, got->bytes);
    struct sim_share *i = share_at(s, serial);
    char text[200];
    if (got->count != 1 || got->serial != serial) {
        sim_fail(s, "MIXED: %s has %llu items, %llu by its text, %llu by its serial", sim_op_text(op, text),
                 (unsigned long long)got->count, (unsigned long long)serial, (unsigned long long)got->serial);
    }
    *h = (struct sim_holder){.life = op->life, .filled = true, .serial = serial, .epoch = got->epoch, .until = s->now};
    h->until += sim_one_in(s, 10) ? 2ull * s->k.lease_ms : sim_below(s, 4ull * s->k.think_ms + 10);
    if (op->creation != s->shares.creation) {
        return; /* it was reset meanwhile */
    }
    bool his = i->place == SIM_PLACE_TAKEN && is_by(&i->by, op->life, op->number);
    if (!his && !has_lost(i, op->life, op->number)) {
        sim_fail(s, "HANDED OUT TWICE: %s has item %llu, which is session %u's", sim_op_text(op, text),
                 (unsigned long long)serial, i->by.life);
    }
    if (his && (got->epoch != s->shares.epoch + 1 || got->deliveries != i->again)) {
        sim_fail(s, "%s says item %llu is of epoch %u and came back %u times; by the ledger %u and %u", sim_op_text(op, text),
                 (unsigned long long)serial, got->epoch, got->deliveries, s->shares.epoch + 1, i->again);
    }
    i->got = i->got || his;
}

static void done_end(struct sim *s, const struct sim_call *call, struct sim_holder *h)
{
    const struct sim_op *op = call->op;
    uint64_t before = 0;
    char text[200];
    if (op->status != PS_OK) {
        bool again = !op->cancel && op->status != PS_FAILED_PRECONDITION && op->status != PS_ABORTED && sim_one_in(s, 2);
        h->serial = again ? h->serial : 0;
        h->done = true; /* perhaps: it is not given back any more */
        return;
    }
    if (call->req.result_bytes != sizeof(before)) {
        sim_fail(s, "%s: an answer of %u bytes", sim_op_text(op, text), call->req.result_bytes);
    }
    memcpy(&before, call->req.result, sizeof(before));
    uint32_t by = share_at(s, op->number)->done_by[op->count - 1];
    bool so = before == 1 ? by != 0 : before == 0 && (op->cancel || by == op->life);
    if (op->creation == s->shares.creation && !so) {
        sim_fail(s, "DONE TWICE: %s is told %llu of item %llu of epoch %llu, which was done by session %u (0: none)",
                 sim_op_text(op, text), (unsigned long long)before, (unsigned long long)op->number, (unsigned long long)op->count,
                 by);
    }
    h->done = before == 0 && !op->cancel && sim_one_in(s, 6); /* it says so again */
    h->serial = h->done ? h->serial : 0;
}

void sim_shares_done(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    struct sim_holder *h = &s->holder[op->program];
    char text[200];
    if (h->life != op->life || op->kind == PSI_REQ_STATUS) {
        return;
    }
    h->out = false;
    if (op->kind == PSI_REQ_WORK_END) {
        done_end(s, call, h);
    } else if (op->kind == PSI_REQ_DEQUEUE && op->status == PS_OK) {
        done_take(s, call, h);
    } else if (op->kind == PSI_REQ_ENQUEUE && op->status == PS_OK) {
        if (op->cancel || (op->creation == s->shares.creation && !s->shares.filled)) {
            sim_fail(s, "FILLED TWICE: %s is OK, and %s", sim_op_text(op, text),
                     op->cancel ? "it has others" : "it is not filled");
        }
        h->filled = true;
    }
}
