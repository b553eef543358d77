/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See change_code.h. One function walks over the members of a change in both directions: it writes them, or reads and resolves
 * them in a task.
 *
 * The bytes: kind u8; then its members as they stand in walk(), little-endian: numbers in their width, a text as u16 length (all
 * ones: NULL), bytes and NUL, a record as its session's id, a variable as its creation number; a segment's bytes begin at a
 * multiple of 8, and so does the next change. Failure: bytes that are no change, or not of this task: DATA_LOSS, nothing is done.
 */
#include "change_code.h"
#include "change_codec.h"

#include "psd/state.h"

#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

/* ---- kind by kind ---- */

static void container(struct psd_codec *k, struct psd_change *c)
{
    psd_code_name(k, &c->container.name, PS_CONTAINER_BYTES_MAX);
    PSD_CODE(k, c->container.incarnation);
}

static void create(struct psd_codec *k, struct psd_change *c)
{
    const char *where = k->out != NULL ? c->create.container->name : NULL;
    psd_code_name(k, &where, PS_CONTAINER_BYTES_MAX);
    psd_code_name(k, &c->create.name, PS_NAME_BYTES_MAX);
    psd_code_definition(k, &c->create.definition);
    if (c->create.definition->queue) {
        psd_code_queue_spec(k, &c->create.queue);
    }
    PSD_CODE(k, c->create.creation);
    PSD_CODE(k, c->create.pin);
    PSD_CODE(k, c->create.order);
    if (k->out == NULL && k->st == PS_OK) {
        c->create.container = psd_container_find(&k->task->store, where);
    }
}

static void init(struct psd_codec *k, struct psd_change *c)
{
    if (k->out == NULL) {
        c->init.making = &k->storage->making;
    }
    struct psd_making *m = c->init.making;
    psd_code_record(k, &c->init.record);
    PSD_CODE(k, c->init.number);
    psd_code_variable(k, &c->init.variable);
    PSD_CODE(k, c->init.chief_number);
    psd_code_flag(k, &c->init.runs);
    PSD_CODE(k, m->init);
    PSD_CODE(k, m->seed);
    PSD_CODE(k, m->optimizer);
}

static void session(struct psd_codec *k, struct psd_change *c)
{
    const uint8_t *id = c->session.session;
    uint8_t session[sizeof(((struct psd_record *)NULL)->session)] = {0};
    if (k->out != NULL) {
        memcpy(session, id, sizeof(session));
    } else {
        c->session.session = k->in; /* read below */
    }
    psd_code_raw(k, session, sizeof(session));
    PSD_CODE(k, c->session.name);
    psd_code_text(k, &c->session.who, sizeof(c->session.reserved->who) - 1);
}

static void begin(struct psd_codec *k, struct psd_change *c)
{
    const struct psd_variable *v = k->out != NULL ? c->begin.reserved->variable : NULL;
    psd_code_record(k, &c->begin.record);
    psd_code_variable(k, &v);
    if (k->st != PS_OK) {
        return;
    }
    struct psd_progress *p = k->out != NULL ? c->begin.reserved : psd_progress_new(k->task, v);
    if (p == NULL) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "a recorded change: memory");
        return;
    }
    PSD_CODE(k, p->number);
    PSD_CODE(k, p->kind);
    PSD_CODE(k, p->wire);
    psd_code_flag(k, &p->init_only);
    PSD_CODE(k, p->scale);
    PSD_CODE(k, p->total);
    PSD_CODE(k, p->scalars);
    if (psd_push_is_assign(p->kind)) {
        PSD_CODE(k, p->chief_number);
    }
    if (psd_push_is_rows(p->kind)) {
        PSD_CODE(k, p->highest);
        p->last_index = UINT64_MAX;
    }
    if (psd_push_is_applied(p->kind)) {
        PSD_CODE(k, p->step);
    }
    if (psd_push_contributes(p->kind)) {
        PSD_CODE(k, p->member);
        PSD_CODE(k, p->round);
    }
    if (k->out == NULL) {
        c->begin.reserved = p; /* freed by whoever does not commit it */
        p->unit = k->st == PS_OK ? psd_progress_unit(p) : 0;
        p->staging_bytes = k->st == PS_OK ? psd_progress_staging_bytes(p) : 0;
    }
}

static void segment(struct psd_codec *k, struct psd_change *c)
{
    bool has_scalars = c->segment.scalars != NULL;
    uint64_t number = k->out != NULL ? c->segment.number->number : 0;
    psd_code_record(k, &c->segment.record);
    PSD_CODE(k, number);
    PSD_CODE(k, c->segment.count);
    psd_code_flag(k, &c->segment.last);
    psd_code_flag(k, &has_scalars);
    if (has_scalars) {
        if (k->out != NULL) {
            k->storage->scalars = *c->segment.scalars;
        }
        PSD_CODE(k, k->storage->scalars);
        c->segment.scalars = &k->storage->scalars;
    }
    psd_code_align(k);
    if (k->st != PS_OK) {
        return;
    }
    const struct psd_number *n = k->out != NULL ? c->segment.number : psd_record_find(c->segment.record, number);
    if (n == NULL || n->progress == NULL || c->segment.count > n->progress->total - n->offset) {
        psd_code_wrong(k, "a segment of nothing in progress");
        return;
    }
    size_t bytes = c->segment.count * n->progress->unit;
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, c->segment.bytes, bytes, k->err);
    } else if (bytes > k->left) {
        psd_code_wrong(k, "its end is missing");
    } else {
        c->segment.number = n;
        c->segment.bytes = k->in;
        k->in += bytes;
        k->left -= bytes;
    }
}

static void move(struct psd_codec *k, struct psd_change *c)
{
    uint64_t number = k->out != NULL ? c->move.number->number : 0;
    psd_code_record(k, &c->move.record);
    PSD_CODE(k, number);
    PSD_CODE(k, c->move.count);
    if (k->out == NULL && k->st == PS_OK) {
        c->move.number = psd_record_find(c->move.record, number);
        if (c->move.number == NULL) {
            psd_code_wrong(k, "a move of a number that is not known");
        }
    }
}

static void end(struct psd_codec *k, struct psd_change *c)
{
    uint32_t status = (uint32_t)c->end.status, reason = (uint32_t)c->end.reason, applied = (uint32_t)c->end.applied;
    psd_code_record(k, &c->end.record);
    PSD_CODE(k, c->end.number);
    PSD_CODE(k, applied);
    c->end.applied = (ps_applied)applied;
    if (c->kind == PSD_CHANGE_ABANDON) {
        return;
    }
    const char *why = c->end.text;
    PSD_CODE(k, status);
    PSD_CODE(k, reason);
    psd_code_text(k, &why, PSI_ERR_TEXT_MAX);
    c->end.status = (ps_status)status;
    c->end.reason = (ps_reason)reason;
    if (k->out == NULL && k->st == PS_OK && why != NULL) {
        c->end.text = psi_strndup(why, strlen(why));
    }
}

static void names(struct psd_codec *k, struct psd_change *c)
{
    psd_code_name(k, &c->name.container, PS_CONTAINER_BYTES_MAX);
    psd_code_name(k, &c->name.name, PS_NAME_BYTES_MAX);
    if (c->kind == PSD_CHANGE_NAME) {
        psd_code_definition(k, &c->name.definition);
        psd_code_name(k, &c->name.job, PS_JOB_BYTES_MAX);
        PSD_CODE(k, c->name.task);
    }
}

static void reset(struct psd_codec *k, struct psd_change *c)
{
    psd_code_name(k, &c->reset.container, PS_CONTAINER_BYTES_MAX);
    if (c->kind == PSD_CHANGE_RESET_TASK) {
        psd_code_name(k, &c->reset.job, PS_JOB_BYTES_MAX);
        PSD_CODE(k, c->reset.task);
        psd_code_flag(k, &c->reset.outstanding);
        psd_code_flag(k, &c->reset.owed);
    }
}

static void chief(struct psd_codec *k, struct psd_change *c)
{
    bool given = k->out != NULL && c->chief.record != NULL;
    PSD_CODE(k, c->chief.number);
    psd_code_text(k, &c->chief.container, PS_CONTAINER_BYTES_MAX);
    if (c->chief.container == NULL) {
        return;
    }
    psd_code_name(k, &c->chief.text, sizeof(((struct psd_chief *)NULL)->text) - 1);
    psd_code_flag(k, &given);
    if (given) {
        psd_code_record(k, &c->chief.record);
    }
    const char *forgotten = k->out != NULL && c->chief.forgotten != NULL ? c->chief.forgotten->container : NULL;
    psd_code_text(k, &forgotten, PS_CONTAINER_BYTES_MAX);
    if (k->out == NULL && k->st == PS_OK && forgotten != NULL) {
        c->chief.forgotten = psd_chief_find(&k->task->chiefs, forgotten);
        if (c->chief.forgotten == NULL) {
            psd_code_wrong(k, "the chief that it forgets is not known");
        }
    }
}

static void enqueue(struct psd_codec *k, struct psd_change *c)
{
    struct psd_element *e = c->attempt.element;
    uint64_t bytes = k->out != NULL ? e->bytes : 0;
    PSD_CODE(k, bytes);
    psd_code_align(k);
    if (k->st != PS_OK) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, e->data, bytes, k->err);
        return;
    }
    if (bytes > k->left) {
        psd_code_wrong(k, "its end is missing");
        return;
    }
    e = psd_element_new(&k->task->store, bytes); /* freed by whoever does not commit it */
    if (e == NULL) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "a recorded change: memory for an element");
        return;
    }
    c->attempt.element = e;
    psd_code_raw(k, e->data, bytes);
}

static void attempt(struct psd_codec *k, struct psd_change *c)
{
    psd_code_record(k, &c->attempt.record);
    PSD_CODE(k, c->attempt.id);
    if (c->kind == PSD_CHANGE_ATTEMPT_END) {
        psd_code_flag(k, &c->attempt.give_back);
    }
    if (c->kind != PSD_CHANGE_ENQUEUE && c->kind != PSD_CHANGE_DEQUEUE) {
        return;
    }
    psd_code_variable(k, &c->attempt.variable);
    psd_code_flag(k, &c->attempt.last);
    if (c->kind == PSD_CHANGE_ENQUEUE) {
        enqueue(k, c);
    } else {
        PSD_CODE(k, c->attempt.index);
    }
}

static void filled(struct psd_codec *k, struct psd_change *c)
{
    psd_code_variable(k, &c->filled.variable);
    PSD_CODE(k, c->filled.hash);
}

static void work_end(struct psd_codec *k, struct psd_change *c)
{
    psd_code_record(k, &c->work_end.record);
    PSD_CODE(k, c->work_end.number);
    psd_code_variable(k, &c->work_end.variable);
    PSD_CODE(k, c->work_end.serial);
    psd_code_flag(k, &c->work_end.give_back);
    psd_code_flag(k, &c->work_end.repeated);
}

static void set_step(struct psd_codec *k, struct psd_change *c)
{
    psd_code_record(k, &c->set_step.record);
    PSD_CODE(k, c->set_step.number);
    psd_code_variable(k, &c->set_step.variable);
    PSD_CODE(k, c->set_step.step);
}

static void rounds(struct psd_codec *k, struct psd_change *c)
{
    struct psd_rounds_def *own = &k->storage->rounds;
    bool begins = c->rounds.def != NULL;
    psd_code_container(k, &c->rounds.container);
    psd_code_flag(k, &begins);
    if (!begins) {
        return;
    }
    if (k->out != NULL) {
        *own = *c->rounds.def;
    }
    c->rounds.def = own;
    bool step = own->step != NULL;
    PSD_CODE(k, own->options);
    PSD_CODE(k, own->awaited);
    PSD_CODE(k, own->generation);
    psd_code_flag(k, &step);
    if (step) {
        psd_code_variable(k, &own->step);
    }
    PSD_CODE(k, own->count);
    own->parts = psd_code_array(k, own->parts, own->count, sizeof(*own->parts));
    PSD_CODE(k, own->owner_count);
    own->owners = psd_code_array(k, own->owners, own->owner_count, sizeof(*own->owners));
}

static void member(struct psd_codec *k, struct psd_change *c)
{
    psd_code_container(k, &c->member.container);
    PSD_CODE(k, c->member.id);
    PSD_CODE(k, c->member.awaited);
    if (c->kind == PSD_CHANGE_ROUND_JOIN) {
        c->member.session = psd_code_array(k, c->member.session, 1, sizeof(((struct psd_member *)NULL)->session));
        psd_code_name(k, &c->member.job, PS_JOB_BYTES_MAX);
        PSD_CODE(k, c->member.task);
    } else {
        psd_code_flag(k, &c->member.over);
    }
}

static void flip(struct psd_codec *k, struct psd_change *c)
{
    psd_code_container(k, &c->flip.container);
    if (k->st == PS_OK && c->flip.container->rounds == NULL) {
        psd_code_wrong(k, "a round of no group");
        return;
    }
    PSD_CODE(k, c->flip.round);
    PSD_CODE(k, c->flip.count);
    PSD_CODE(k, c->flip.step);
    PSD_CODE(k, c->flip.factor);
    c->flip.members = psd_code_array(k, c->flip.members, c->flip.count, sizeof(*c->flip.members));
    uint32_t parts = k->st == PS_OK ? c->flip.container->rounds->part_count : 0;
    c->flip.scalars = psd_code_array(k, c->flip.scalars, parts, sizeof(*c->flip.scalars));
}

static void rate(struct psd_codec *k, struct psd_change *c)
{
    psd_code_variable(k, &c->rate.variable);
    PSD_CODE(k, c->rate.rate);
}

static void write_value(struct psd_codec *k, struct psd_change *c)
{
    psd_code_variable(k, &c->write.variable);
    psd_code_raw(k, c->write.giver, sizeof(c->write.giver));
    psd_code_align(k);
    if (k->st != PS_OK) {
        return;
    }
    const uint64_t bytes = c->write.variable->bytes;
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, c->write.value, bytes, k->err);
    } else if (bytes > k->left) {
        psd_code_wrong(k, "its end is missing");
    } else {
        c->write.bytes = k->in;
        k->in += bytes;
        k->left -= bytes;
    }
}

static void walk(struct psd_codec *k, struct psd_change *c)
{
    uint8_t kind = (uint8_t)c->kind;
    PSD_CODE(k, kind);
    c->kind = (enum psd_change_kind)kind;
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
    case PSD_CHANGE_CONTAINER_RESET:
        container(k, c);
        break;
    case PSD_CHANGE_CREATE:
        create(k, c);
        break;
    case PSD_CHANGE_DROP:
    case PSD_CHANGE_QUEUE_CLOSE:
        psd_code_variable(k, &c->variable);
        break;
    case PSD_CHANGE_SEAL:
        psd_code_variable(k, &c->seal.variable);
        PSD_CODE(k, c->seal.chief_number);
        break;
    case PSD_CHANGE_INIT:
        init(k, c);
        break;
    case PSD_CHANGE_CHIEF:
        chief(k, c);
        break;
    case PSD_CHANGE_SESSION:
        session(k, c);
        break;
    case PSD_CHANGE_SESSION_END:
        psd_code_record(k, &c->record);
        break;
    case PSD_CHANGE_BEGIN:
        begin(k, c);
        break;
    case PSD_CHANGE_SEGMENT:
        segment(k, c);
        break;
    case PSD_CHANGE_MOVE:
        move(k, c);
        break;
    case PSD_CHANGE_REFUSE:
    case PSD_CHANGE_ABANDON:
        end(k, c);
        break;
    case PSD_CHANGE_NAME:
    case PSD_CHANGE_NAME_FORGET:
        names(k, c);
        break;
    case PSD_CHANGE_RESET:
    case PSD_CHANGE_RESET_TASK:
    case PSD_CHANGE_RESET_END:
        reset(k, c);
        break;
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
    case PSD_CHANGE_ATTEMPT_DONE:
    case PSD_CHANGE_ATTEMPT_END:
        attempt(k, c);
        break;
    case PSD_CHANGE_WORK_FILLED:
        filled(k, c);
        break;
    case PSD_CHANGE_WORK_END:
        work_end(k, c);
        break;
    case PSD_CHANGE_SET_STEP:
        set_step(k, c);
        break;
    case PSD_CHANGE_ROUNDS:
        rounds(k, c);
        break;
    case PSD_CHANGE_ROUND_JOIN:
    case PSD_CHANGE_ROUND_LEAVE:
        member(k, c);
        break;
    case PSD_CHANGE_ROUND_FLIP:
        flip(k, c);
        break;
    case PSD_CHANGE_RATE:
        rate(k, c);
        break;
    case PSD_CHANGE_WRITE:
        write_value(k, c);
        break;
    default:
        psd_code_wrong(k, "its kind is not known");
        break;
    }
    psd_code_align(k);
}

ps_status psd_change_encode(const struct psd_change *c, struct psi_buf *out, struct psi_err *err)
{
    struct psd_change copy = *c;
    struct psd_code_storage storage;
    struct psd_codec k = {.out = out, .storage = &storage, .what = "a recorded change", .err = err};
    size_t before = out->len;
    walk(&k, &copy);
    if (k.st != PS_OK) {
        out->len = before;
    }
    return k.st;
}

/* It was read, and is not committed. */
static void release(struct psd_task *t, const struct psd_change *c)
{
    if (c->kind == PSD_CHANGE_BEGIN && c->begin.reserved != NULL) {
        psd_progress_free(t, c->begin.reserved);
    } else if (c->kind == PSD_CHANGE_REFUSE) {
        psi_free(c->end.text);
    } else if (c->kind == PSD_CHANGE_ENQUEUE) {
        psd_element_free(&t->store, c->attempt.element);
    }
}

ps_status psd_replay(struct psd_task *t, const uint8_t **p, size_t *n, struct psi_err *err)
{
    struct psd_change c = {0};
    struct psd_code_storage storage = {0};
    struct psd_codec k = {.in = *p, .left = *n, .task = t, .storage = &storage, .what = "a recorded change", .err = err};
    walk(&k, &c);
    if (k.st == PS_OK && !psd_change_fits(t, &c)) {
        psd_code_wrong(&k, "it cannot be the next one of this task");
    }
    if (k.st == PS_OK) {
        k.st = psd_change_reserve(t, &c, err);
    }
    if (k.st != PS_OK) {
        release(t, &c);
        return k.st;
    }
    psd_commit(t, &c);
    *p = k.in;
    *n = k.left;
    return PS_OK;
}
