/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as bytes, and the memory that they need. One function walks over the members of a change in both directions: it writes
 * them, or reads and resolves them in a task.
 *
 * The bytes: kind u8; then its members as they stand in walk(), little-endian: numbers in their width, a text as u16 length (all
 * ones: NULL), bytes and NUL, a record as its session's id, a variable as its creation number; a segment's bytes begin at a
 * multiple of 8, and so does the next change. Failure: bytes that are no change, or not of this task: DATA_LOSS, nothing is done.
 */
#include "commit.h"

#include "mutate.h"
#include "psd/state.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"
#include "common/tuple.h"

#include <string.h>

/* ---- memory ---- */

struct psd_progress *psd_progress_new(struct psd_task *t, const struct psd_variable *v)
{
    struct psi_list *link = psi_list_pop_front(&t->free_progress);
    struct psd_progress *p = link != NULL ? PSI_CONTAINER_OF(link, struct psd_progress, link) : psi_malloc(sizeof(*p));
    if (p != NULL) {
        memset(p, 0, sizeof(*p));
        psi_list_init(&p->link);
        p->variable = psd_variable_ref(v);
    }
    return p;
}

void psd_progress_free(struct psd_task *t, struct psd_progress *p)
{
    if (p->staging != NULL) {
        psd_variable_unstage(&t->store, p->variable, p->staging, p->staging_bytes);
    }
    PSI_IGNORE(psd_area_end(p, false)); /* nothing of it is there, unless it ended before */
    psd_variable_unref(&t->store, p->variable);
    psi_list_push_front(&t->free_progress, &p->link);
}

static ps_status reserve_record(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    c->session.reserved = psd_record_new(c->session.session, c->session.name);
    if (c->session.reserved == NULL || psi_map_reserve(&t->records, sizeof(c->session.reserved->session), NULL) != PS_OK) {
        psd_record_free(c->session.reserved);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a session", t->name);
    }
    return PS_OK;
}

static ps_status reserve_reset(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    if (psd_reset_record(&t->resets, c->reset.container) == NULL) {
        c->reset.reserved = psd_reset_new(t->peer_count);
        if (c->reset.reserved == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "reset of container '%s': memory", c->reset.container);
        }
    }
    return PS_OK;
}

static ps_status reserve_staging(struct psd_task *t, struct psd_progress *p, struct psi_err *err)
{
    if (p->staging_bytes == 0 || p->staging != NULL) {
        return PS_OK;
    }
    p->staging = psd_variable_stage_first(&t->store, p->variable, p->staging_bytes);
    if (p->staging == NULL) {
        p->staging = psd_store_stage(&t->store, p->staging_bytes);
    }
    return p->staging != NULL ? PS_OK
                              : psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': no memory to stage %llu bytes",
                                         p->variable->name, (unsigned long long)p->staging_bytes);
}

static ps_status reserve_create(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    struct psd_variable *v = NULL;
    ps_status st = psd_variable_reserve(&t->store, c->create.container, c->create.name, c->create.definition, &v, err);
    if (st == PS_OK && c->create.queue != NULL) {
        v->queue = psd_queue_new(&t->store, v, c->create.queue);
        if (v->queue == NULL) {
            psd_variable_unref(&t->store, v);
            return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "queue '%s': memory for its record",
                               c->create.name);
        }
    }
    c->create.reserved = v;
    return st;
}

static ps_status reserve_attempt(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    const struct psd_queue *q = c->attempt.variable->queue;
    ps_status st = c->kind == PSD_CHANGE_ENQUEUE ? psd_queue_reserve(&t->store, q, 1, err) : PS_OK;
    if (st == PS_OK && c->attempt.reserved == NULL) {
        c->attempt.reserved = psd_attempt_find(c->attempt.record, c->attempt.id);
    }
    if (st == PS_OK && c->attempt.reserved == NULL) {
        c->attempt.reserved = psd_attempt_new(&t->store);
    }
    return st != PS_OK || c->attempt.reserved != NULL
               ? st
               : psi_fail(err, PS_RESOURCE_EXHAUSTED, "queue '%s': memory", c->attempt.variable->name);
}

ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        return psd_container_reserve(&t->store, c->container.name, &c->container.reserved, err);
    case PSD_CHANGE_CREATE:
        return reserve_create(t, c, err);
    case PSD_CHANGE_INIT:
        return c->init.runs && c->init.making->value == NULL
                   ? psd_variable_make_at_once(&t->store, c->init.variable, c->init.making, err)
                   : PS_OK;
    case PSD_CHANGE_SESSION:
        return reserve_record(t, c, err);
    case PSD_CHANGE_BEGIN:
        return reserve_staging(t, c->begin.reserved, err);
    case PSD_CHANGE_SEGMENT: {
        const struct psd_progress *p = c->segment.number->progress;
        bool first = c->segment.last && p->kind == PSD_ASSIGN && !p->variable->initialised;
        return first ? psd_variable_reserve_slots(&t->store, p->variable, err) : PS_OK;
    }
    case PSD_CHANGE_NAME:
        return psd_directory_find(&t->names, c->name.container, c->name.name) == NULL
                   ? psd_name_reserve(&t->names, c->name.name, &c->name.reserved, err)
                   : PS_OK;
    case PSD_CHANGE_RESET:
        return reserve_reset(t, c, err);
    case PSD_CHANGE_ENQUEUE:
    case PSD_CHANGE_DEQUEUE:
        return reserve_attempt(t, c, err);
    case PSD_CHANGE_ROUNDS:
        return c->rounds.def == NULL
                   ? PS_OK
                   : psd_rounds_reserve(&t->store, c->rounds.container, c->rounds.def, &c->rounds.reserved, err);
    case PSD_CHANGE_ROUND_JOIN:
        return psd_member_reserve(&t->store, c->member.container->rounds, &c->member.reserved, err);
    default:
        return PS_OK;
    }
}

/* ---- both directions ---- */

/* What a change that is read points to. */
struct storage {
    struct psd_definition definition;
    struct psi_queue_spec queue;
    struct psd_making making;
    struct psd_optim_scalars scalars;
    struct psd_rounds_def rounds;
};

struct codec {
    struct psi_buf *out; /* NULL: it reads */
    const uint8_t *in;
    size_t left;
    struct psd_task *task; /* where it is resolved; NULL while it writes */
    struct storage *storage;
    ps_status st;
    struct psi_err *err;
};

static void wrong(struct codec *k, const char *what)
{
    if (k->st == PS_OK) {
        k->st = psi_fail(k->err, PS_DATA_LOSS, "a recorded change: %s", what);
    }
}

static void raw(struct codec *k, void *p, size_t n)
{
    if (k->st != PS_OK) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, p, n, k->err);
    } else if (n > k->left) {
        wrong(k, "its end is missing");
    } else {
        memcpy(p, k->in, n);
        k->in += n;
        k->left -= n;
    }
}
#define MEMBER(k, x) raw(k, &(x), sizeof(x))

static void flag(struct codec *k, bool *x)
{
    uint8_t byte = k->out != NULL && *x;
    MEMBER(k, byte);
    *x = byte == 1;
    if (byte > 1) {
        wrong(k, "neither yes nor no");
    }
}

static void align(struct codec *k)
{
    uint8_t zeros[8] = {0};
    size_t at = k->out != NULL ? k->out->len : (uintptr_t)k->in;
    raw(k, zeros, (sizeof(zeros) - at % sizeof(zeros)) % sizeof(zeros));
}

/* At most max bytes and a NUL; NULL is written as such. */
static void text(struct codec *k, const char **s, size_t max)
{
    uint16_t n = k->out != NULL ? (uint16_t)(*s == NULL ? UINT16_MAX : strlen(*s)) : 0;
    MEMBER(k, n);
    if (k->st != PS_OK || n == UINT16_MAX) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, *s, (size_t)n + 1, k->err);
    } else if (n > max || n + 1u > k->left || memchr(k->in, 0, n + 1u) != k->in + n) {
        wrong(k, "a text that is none");
    } else {
        *s = (const char *)k->in;
        k->in += n + 1u;
        k->left -= n + 1u;
    }
}

static void name_of(struct codec *k, const char **s, size_t max)
{
    text(k, s, max);
    if (k->st == PS_OK && *s == NULL) {
        wrong(k, "a name is missing");
    }
}

static void record(struct codec *k, struct psd_record **r)
{
    uint8_t session[sizeof((*r)->session)] = {0};
    if (k->out != NULL) {
        memcpy(session, (*r)->session, sizeof(session));
    }
    raw(k, session, sizeof(session));
    if (k->out == NULL && k->st == PS_OK) {
        *r = psi_map_find(&k->task->records, session, sizeof(session));
        if (*r == NULL) {
            wrong(k, "its session is not known");
        }
    }
}

static void variable(struct codec *k, const struct psd_variable **v)
{
    uint64_t creation = k->out != NULL ? (*v)->creation : 0;
    MEMBER(k, creation);
    if (k->out == NULL && k->st == PS_OK) {
        *v = psd_variable_by_creation(&k->task->store, creation);
        if (*v == NULL) {
            wrong(k, "its variable is not known");
        }
    }
}

/* A container that is there. */
static void container_of(struct codec *k, const struct psd_container **c)
{
    const char *name = k->out != NULL ? (*c)->name : NULL;
    name_of(k, &name, PS_CONTAINER_BYTES_MAX);
    if (k->out == NULL && k->st == PS_OK) {
        *c = psd_container_find(&k->task->store, name);
        if (*c == NULL) {
            wrong(k, "its container is not known");
        }
    }
}

/* n things of `each` bytes, aligned; read where they lie. */
static const void *array(struct codec *k, const void *p, uint64_t n, size_t each)
{
    align(k);
    if (k->st != PS_OK) {
        return NULL;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, p, n * each, k->err);
        return p;
    }
    if (n > k->left / each) {
        wrong(k, "its end is missing");
        return NULL;
    }
    p = k->in;
    k->in += n * each;
    k->left -= n * each;
    return p;
}

static void definition(struct codec *k, const struct psd_definition **d)
{
    struct psd_definition *own = &k->storage->definition;
    if (k->out != NULL) {
        *own = **d;
    }
    uint32_t dtype = (uint32_t)own->dtype;
    MEMBER(k, dtype);
    MEMBER(k, own->shape);
    MEMBER(k, own->optimizer);
    flag(k, &own->atomic);
    flag(k, &own->queue);
    own->dtype = (ps_dtype)dtype;
    *d = own;
}

static void queue_spec(struct codec *k, const struct psi_queue_spec **spec)
{
    struct psi_queue_spec *own = &k->storage->queue;
    if (k->out != NULL) {
        *own = **spec;
    }
    MEMBER(k, own->kind);
    MEMBER(k, own->component_count);
    MEMBER(k, own->capacity);
    MEMBER(k, own->min_after_dequeue);
    MEMBER(k, own->seed);
    MEMBER(k, own->epochs);
    MEMBER(k, own->reduction);
    if (own->component_count > PSI_QUEUE_COMPONENTS_MAX) {
        wrong(k, "too many components");
    }
    for (uint32_t i = 0; k->st == PS_OK && i < own->component_count; i++) {
        struct psi_queue_component *part = &own->components[i];
        uint32_t dtype = (uint32_t)part->dtype;
        MEMBER(k, dtype);
        flag(k, &part->shaped);
        MEMBER(k, part->shape);
        part->dtype = (ps_dtype)dtype;
    }
    *spec = own;
}

/* ---- kind by kind ---- */

static void container(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->container.name, PS_CONTAINER_BYTES_MAX);
    MEMBER(k, c->container.incarnation);
}

static void create(struct codec *k, struct psd_change *c)
{
    const char *where = k->out != NULL ? c->create.container->name : NULL;
    name_of(k, &where, PS_CONTAINER_BYTES_MAX);
    name_of(k, &c->create.name, PS_NAME_BYTES_MAX);
    definition(k, &c->create.definition);
    if (c->create.definition->queue) {
        queue_spec(k, &c->create.queue);
    }
    MEMBER(k, c->create.creation);
    if (k->out == NULL && k->st == PS_OK) {
        c->create.container = psd_container_find(&k->task->store, where);
    }
}

static void init(struct codec *k, struct psd_change *c)
{
    if (k->out == NULL) {
        c->init.making = &k->storage->making;
    }
    struct psd_making *m = c->init.making;
    record(k, &c->init.record);
    MEMBER(k, c->init.number);
    variable(k, &c->init.variable);
    MEMBER(k, c->init.chief_number);
    flag(k, &c->init.runs);
    MEMBER(k, m->init);
    MEMBER(k, m->seed);
    MEMBER(k, m->optimizer);
}

static void session(struct codec *k, struct psd_change *c)
{
    const uint8_t *id = c->session.session;
    uint8_t session[sizeof(((struct psd_record *)NULL)->session)] = {0};
    if (k->out != NULL) {
        memcpy(session, id, sizeof(session));
    } else {
        c->session.session = k->in; /* read below */
    }
    raw(k, session, sizeof(session));
    MEMBER(k, c->session.name);
}

static void begin(struct codec *k, struct psd_change *c)
{
    const struct psd_variable *v = k->out != NULL ? c->begin.reserved->variable : NULL;
    record(k, &c->begin.record);
    variable(k, &v);
    if (k->st != PS_OK) {
        return;
    }
    struct psd_progress *p = k->out != NULL ? c->begin.reserved : psd_progress_new(k->task, v);
    if (p == NULL) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "a recorded change: memory");
        return;
    }
    MEMBER(k, p->number);
    MEMBER(k, p->kind);
    MEMBER(k, p->wire);
    flag(k, &p->init_only);
    MEMBER(k, p->scale);
    MEMBER(k, p->total);
    MEMBER(k, p->scalars);
    if (p->kind == PSD_CONTRIBUTE) {
        MEMBER(k, p->member);
        MEMBER(k, p->round);
    }
    if (k->out == NULL) {
        c->begin.reserved = p; /* freed by whoever does not commit it */
        p->unit = k->st == PS_OK ? psi_wire_unit((ps_dtype)p->wire) : 0;
        p->staging_bytes = k->st == PS_OK ? psd_progress_staging_bytes(p) : 0;
    }
}

static void segment(struct codec *k, struct psd_change *c)
{
    bool has_scalars = c->segment.scalars != NULL;
    uint64_t number = k->out != NULL ? c->segment.number->number : 0;
    record(k, &c->segment.record);
    MEMBER(k, number);
    MEMBER(k, c->segment.count);
    flag(k, &c->segment.last);
    flag(k, &has_scalars);
    if (has_scalars) {
        if (k->out != NULL) {
            k->storage->scalars = *c->segment.scalars;
        }
        MEMBER(k, k->storage->scalars);
        c->segment.scalars = &k->storage->scalars;
    }
    align(k);
    if (k->st != PS_OK) {
        return;
    }
    const struct psd_number *n = k->out != NULL ? c->segment.number : psd_record_find(c->segment.record, number);
    if (n == NULL || n->progress == NULL || c->segment.count > n->progress->total - n->offset) {
        wrong(k, "a segment of nothing in progress");
        return;
    }
    size_t bytes = c->segment.count * n->progress->unit;
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, c->segment.bytes, bytes, k->err);
    } else if (bytes > k->left) {
        wrong(k, "its end is missing");
    } else {
        c->segment.number = n;
        c->segment.bytes = k->in;
        k->in += bytes;
        k->left -= bytes;
    }
}

static void end(struct codec *k, struct psd_change *c)
{
    uint32_t status = (uint32_t)c->end.status, reason = (uint32_t)c->end.reason, applied = (uint32_t)c->end.applied;
    record(k, &c->end.record);
    MEMBER(k, c->end.number);
    MEMBER(k, applied);
    c->end.applied = (ps_applied)applied;
    if (c->kind == PSD_CHANGE_ABANDON) {
        return;
    }
    const char *why = c->end.text;
    MEMBER(k, status);
    MEMBER(k, reason);
    text(k, &why, PSI_ERR_TEXT_MAX);
    c->end.status = (ps_status)status;
    c->end.reason = (ps_reason)reason;
    if (k->out == NULL && k->st == PS_OK && why != NULL) {
        c->end.text = psi_strndup(why, strlen(why));
    }
}

static void names(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->name.container, PS_CONTAINER_BYTES_MAX);
    name_of(k, &c->name.name, PS_NAME_BYTES_MAX);
    if (c->kind == PSD_CHANGE_NAME) {
        definition(k, &c->name.definition);
        name_of(k, &c->name.job, PS_JOB_BYTES_MAX);
        MEMBER(k, c->name.task);
    }
}

static void reset(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->reset.container, PS_CONTAINER_BYTES_MAX);
    if (c->kind == PSD_CHANGE_RESET_TASK) {
        name_of(k, &c->reset.job, PS_JOB_BYTES_MAX);
        MEMBER(k, c->reset.task);
        flag(k, &c->reset.outstanding);
        flag(k, &c->reset.owed);
    }
}

static void chief(struct codec *k, struct psd_change *c)
{
    bool given = k->out != NULL && c->chief.record != NULL;
    flag(k, &given);
    if (given) {
        record(k, &c->chief.record);
    }
    MEMBER(k, c->chief.number);
    text(k, &c->chief.text, sizeof(k->task->chief_text) - 1);
}

static void enqueue(struct codec *k, struct psd_change *c)
{
    struct psd_element *e = c->attempt.element;
    uint64_t bytes = k->out != NULL ? e->bytes : 0;
    MEMBER(k, bytes);
    align(k);
    if (k->st != PS_OK) {
        return;
    }
    if (k->out != NULL) {
        k->st = psi_buf_append(k->out, e->data, bytes, k->err);
        return;
    }
    if (bytes > k->left) {
        wrong(k, "its end is missing");
        return;
    }
    e = psd_element_new(&k->task->store, bytes); /* freed by whoever does not commit it */
    if (e == NULL) {
        k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "a recorded change: memory for an element");
        return;
    }
    c->attempt.element = e;
    raw(k, e->data, bytes);
}

static void attempt(struct codec *k, struct psd_change *c)
{
    record(k, &c->attempt.record);
    MEMBER(k, c->attempt.id);
    if (c->kind == PSD_CHANGE_ATTEMPT_END) {
        flag(k, &c->attempt.give_back);
    }
    if (c->kind != PSD_CHANGE_ENQUEUE && c->kind != PSD_CHANGE_DEQUEUE) {
        return;
    }
    variable(k, &c->attempt.variable);
    flag(k, &c->attempt.last);
    if (c->kind == PSD_CHANGE_ENQUEUE) {
        enqueue(k, c);
    } else {
        MEMBER(k, c->attempt.index);
    }
}

static void filled(struct codec *k, struct psd_change *c)
{
    variable(k, &c->filled.variable);
    MEMBER(k, c->filled.hash);
}

static void work_end(struct codec *k, struct psd_change *c)
{
    record(k, &c->work_end.record);
    MEMBER(k, c->work_end.number);
    variable(k, &c->work_end.variable);
    MEMBER(k, c->work_end.serial);
    flag(k, &c->work_end.give_back);
    flag(k, &c->work_end.repeated);
}

static void set_step(struct codec *k, struct psd_change *c)
{
    record(k, &c->set_step.record);
    MEMBER(k, c->set_step.number);
    variable(k, &c->set_step.variable);
    MEMBER(k, c->set_step.step);
}

static void rounds(struct codec *k, struct psd_change *c)
{
    struct psd_rounds_def *own = &k->storage->rounds;
    bool begins = c->rounds.def != NULL;
    container_of(k, &c->rounds.container);
    flag(k, &begins);
    if (!begins) {
        return;
    }
    if (k->out != NULL) {
        *own = *c->rounds.def;
    }
    c->rounds.def = own;
    bool step = own->step != NULL;
    MEMBER(k, own->options);
    MEMBER(k, own->generation);
    flag(k, &step);
    if (step) {
        variable(k, &own->step);
    }
    MEMBER(k, own->count);
    own->creations = array(k, own->creations, own->count, sizeof(*own->creations));
    MEMBER(k, own->owner_count);
    own->owners = array(k, own->owners, own->owner_count, sizeof(*own->owners));
}

static void member(struct codec *k, struct psd_change *c)
{
    container_of(k, &c->member.container);
    MEMBER(k, c->member.id);
    if (c->kind == PSD_CHANGE_ROUND_JOIN) {
        c->member.session = array(k, c->member.session, 1, sizeof(((struct psd_member *)NULL)->session));
        name_of(k, &c->member.job, PS_JOB_BYTES_MAX);
        MEMBER(k, c->member.task);
    }
}

static void flip(struct codec *k, struct psd_change *c)
{
    container_of(k, &c->flip.container);
    if (k->st == PS_OK && c->flip.container->rounds == NULL) {
        wrong(k, "a round of no group");
        return;
    }
    MEMBER(k, c->flip.round);
    MEMBER(k, c->flip.count);
    c->flip.members = array(k, c->flip.members, c->flip.count, sizeof(*c->flip.members));
    uint32_t parts = k->st == PS_OK ? c->flip.container->rounds->part_count : 0;
    c->flip.scalars = array(k, c->flip.scalars, parts, sizeof(*c->flip.scalars));
}

static void rate(struct codec *k, struct psd_change *c)
{
    variable(k, &c->rate.variable);
    MEMBER(k, c->rate.rate);
}

static void walk(struct codec *k, struct psd_change *c)
{
    uint8_t kind = (uint8_t)c->kind;
    MEMBER(k, kind);
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
    case PSD_CHANGE_SEAL:
    case PSD_CHANGE_QUEUE_CLOSE:
        variable(k, &c->variable);
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
        record(k, &c->record);
        break;
    case PSD_CHANGE_BEGIN:
        begin(k, c);
        break;
    case PSD_CHANGE_SEGMENT:
        segment(k, c);
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
    default:
        wrong(k, "its kind is not known");
        break;
    }
    align(k);
}

ps_status psd_change_encode(const struct psd_change *c, struct psi_buf *out, struct psi_err *err)
{
    struct psd_change copy = *c;
    struct storage storage;
    struct codec k = {.out = out, .storage = &storage, .err = err};
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
    struct storage storage = {0};
    struct codec k = {.in = *p, .left = *n, .task = t, .storage = &storage, .err = err};
    walk(&k, &c);
    if (k.st == PS_OK && !psd_change_fits(t, &c)) {
        wrong(&k, "it cannot be the next one of this task");
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
