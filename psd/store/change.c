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

#include "psd/state.h"

#include "common/mem.h"
#include "common/shape.h"

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

ps_status psd_change_reserve(struct psd_task *t, struct psd_change *c, struct psi_err *err)
{
    switch (c->kind) {
    case PSD_CHANGE_CONTAINER:
        return psd_container_reserve(&t->store, c->container.name, &c->container.reserved, err);
    case PSD_CHANGE_CREATE:
        return psd_variable_reserve(&t->store, c->create.container, c->create.name, c->create.definition, &c->create.reserved,
                                    err);
    case PSD_CHANGE_INIT:
        return c->init.runs && c->init.making->value == NULL
                   ? psd_variable_make_at_once(&t->store, c->init.variable, c->init.making, err)
                   : PS_OK;
    case PSD_CHANGE_SESSION:
        return reserve_record(t, c, err);
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
    default:
        return PS_OK;
    }
}

/* ---- both directions ---- */

/* What a change that is read points to. */
struct storage {
    struct psd_definition definition;
    struct psd_making making;
    struct psd_optim_scalars scalars;
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

static void definition(struct codec *k, const struct psd_definition **d, const char *name)
{
    struct psd_definition *own = &k->storage->definition;
    if (k->out != NULL) {
        *own = **d;
    }
    uint32_t dtype = (uint32_t)own->dtype;
    MEMBER(k, dtype);
    MEMBER(k, own->shape);
    MEMBER(k, own->optimizer);
    MEMBER(k, own->atomic);
    own->dtype = (ps_dtype)dtype;
    *d = own;
    /* of a name the directory may know the kind of its optimizer only, so that one is not checked */
    if (k->out == NULL && k->st == PS_OK && psi_variable_check(own->dtype, &own->shape, own->atomic, NULL) != PS_OK) {
        k->st = psi_fail(k->err, PS_DATA_LOSS, "a recorded change: the definition of '%s'", name);
    }
}

/* ---- kind by kind ---- */

static void container(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->container.name, PS_CONTAINER_BYTES_MAX);
    MEMBER(k, c->container.incarnation);
    if (k->out == NULL && k->st == PS_OK) {
        bool there = psd_container_find(&k->task->store, c->container.name) != NULL;
        if (there != (c->kind == PSD_CHANGE_CONTAINER_RESET)) {
            wrong(k, "its container is there, or is not");
        }
    }
}

static void create(struct codec *k, struct psd_change *c)
{
    const char *where = k->out != NULL ? c->create.container->name : NULL;
    name_of(k, &where, PS_CONTAINER_BYTES_MAX);
    name_of(k, &c->create.name, PS_NAME_BYTES_MAX);
    definition(k, &c->create.definition, c->create.name);
    MEMBER(k, c->create.creation);
    if (k->out == NULL && k->st == PS_OK) {
        c->create.container = psd_container_find(&k->task->store, where);
        if (c->create.container == NULL || psd_variable_find(c->create.container, c->create.name) != NULL) {
            wrong(k, "its container is not there, or its variable is");
        }
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
    MEMBER(k, c->init.runs);
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
    if (k->out == NULL && k->st == PS_OK && psi_map_find(&k->task->records, session, sizeof(session)) != NULL) {
        wrong(k, "its session is known already");
    }
}

/* What follows from the members that were read: its memory. */
static void stage(struct codec *k, struct psd_progress *p)
{
    struct psd_store *s = &k->task->store;
    p->unit = psi_wire_unit((ps_dtype)p->wire);
    p->staging_bytes = psd_progress_staging_bytes(p);
    if (p->staging_bytes > 0) {
        p->staging = psd_variable_stage_first(s, p->variable, p->staging_bytes);
        if (p->staging == NULL) {
            p->staging = psd_store_stage(s, p->staging_bytes);
        }
        if (p->staging == NULL) {
            k->st = psi_fail(k->err, PS_RESOURCE_EXHAUSTED, "a recorded change: no memory to stage %llu bytes",
                             (unsigned long long)p->staging_bytes);
        }
    }
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
    MEMBER(k, p->init_only);
    MEMBER(k, p->scale);
    MEMBER(k, p->total);
    MEMBER(k, p->scalars);
    if (k->out != NULL) {
        return;
    }
    c->begin.reserved = p;
    bool fits = p->kind >= PSD_PUSH && p->kind <= PSD_ADD && psi_wire_fits(v->dtype, p->wire) &&
                (p->total == v->elements || v->dtype == PS_STRING);
    if (!fits || !psd_record_admits(c->begin.record, p->number)) {
        wrong(k, "its number cannot begin");
    }
    if (k->st == PS_OK) {
        stage(k, p);
    }
}

static void segment(struct codec *k, struct psd_change *c)
{
    bool has_scalars = c->segment.scalars != NULL;
    uint64_t number = k->out != NULL ? c->segment.number->number : 0;
    record(k, &c->segment.record);
    MEMBER(k, number);
    MEMBER(k, c->segment.count);
    MEMBER(k, c->segment.last);
    MEMBER(k, has_scalars);
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
    const char *why = k->out != NULL && c->kind == PSD_CHANGE_REFUSE ? c->end.text : NULL;
    uint32_t status = (uint32_t)c->end.status, applied = (uint32_t)c->end.applied;
    record(k, &c->end.record);
    MEMBER(k, c->end.number);
    MEMBER(k, status);
    MEMBER(k, applied);
    text(k, &why, PSI_ERR_TEXT_MAX);
    c->end.status = (ps_status)status;
    c->end.applied = (ps_applied)applied;
    if (k->out == NULL && k->st == PS_OK && why != NULL) {
        c->end.text = psi_strndup(why, strlen(why));
    }
}

static void names(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->name.container, PS_CONTAINER_BYTES_MAX);
    name_of(k, &c->name.name, PS_NAME_BYTES_MAX);
    if (c->kind == PSD_CHANGE_NAME) {
        definition(k, &c->name.definition, c->name.name);
        name_of(k, &c->name.job, PS_JOB_BYTES_MAX);
        MEMBER(k, c->name.task);
    }
    if (k->out == NULL && k->st == PS_OK) {
        bool known = psd_directory_find(&k->task->names, c->name.container, c->name.name) != NULL;
        bool forgets = c->kind == PSD_CHANGE_NAME_FORGET;
        if (forgets ? !known : psi_cluster_task_number(&k->task->cluster, c->name.job, c->name.task) >= k->task->peer_count) {
            wrong(k, "a name that is not known, or a task that is not there");
        }
    }
}

static void reset(struct codec *k, struct psd_change *c)
{
    name_of(k, &c->reset.container, PS_CONTAINER_BYTES_MAX);
    if (c->kind == PSD_CHANGE_RESET_TASK) {
        name_of(k, &c->reset.job, PS_JOB_BYTES_MAX);
        MEMBER(k, c->reset.task);
        MEMBER(k, c->reset.outstanding);
        MEMBER(k, c->reset.owed);
    }
    if (k->out != NULL || k->st != PS_OK || c->kind == PSD_CHANGE_RESET) {
        return;
    }
    const struct psd_task *t = k->task;
    bool task =
        c->kind == PSD_CHANGE_RESET_END || psi_cluster_task_number(&t->cluster, c->reset.job, c->reset.task) < t->peer_count;
    if (!task || psd_reset_record(&t->resets, c->reset.container) == NULL) {
        wrong(k, "a reset that is not known, or a task that is not there");
    }
}

static void chief(struct codec *k, struct psd_change *c)
{
    bool given = k->out != NULL && c->chief.record != NULL;
    MEMBER(k, given);
    if (given) {
        record(k, &c->chief.record);
    }
    MEMBER(k, c->chief.number);
    text(k, &c->chief.text, sizeof(k->task->chief_text) - 1);
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
    }
}

ps_status psd_replay(struct psd_task *t, const uint8_t **p, size_t *n, struct psi_err *err)
{
    struct psd_change c = {0};
    struct storage storage = {0};
    struct codec k = {.in = *p, .left = *n, .task = t, .storage = &storage, .err = err};
    walk(&k, &c);
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
