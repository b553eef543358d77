/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of sessions in the simulated world, as plans use them: each session makes variables in its own container, pinned on
 * several tasks; other programs, which get its container and key in the harness' memory as a call would bring them, look them up,
 * read and assign them; some come with another key or none, or guess the handle. Meanwhile programs die and stand still, tasks
 * are started again, the directory as well, and connections break.
 *
 * Promised (docs/PROTOCOL.md, section 3):
 *   - what a session that lives has there stays, and is found: it goes with its task, and else only where the session's lease was
 *     over at the directory, or nobody has claimed it in a new life of the directory for a lease and a grace, or a task of
 * another job has had no word from the directory for a lease;
 *   - who has not the key gets at nothing; who has it, is not refused for it;
 *   - a value is one that somebody with the key assigned to this variable, in this life of it, and not an older one than an
 *     assign that had ended;
 *   - when all programs are gone nothing of it is left anywhere: no container, variable, name or record of a call, and what is
 *     counted is what the rest takes.
 */
#include "sim.h"
#include "task_look.h"

#include "psd/directory/directory.h"
#include "psd/state.h"
#include "worker/core/client.h"

#include "../../../common/limits.h"
#include "../../../common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS = 3, HANDLES_MAX = 24, RECENT = 8, LATE_MS = 150, GRACE_MS = 3 * PS_RECONNECT_MAX_MS };
static const char no_part[] = "intruder"; /* of those who have not the key */

enum key_kind { KEY_RIGHT, KEY_OTHER, KEY_NONE };

struct own_session {
    uint32_t life, program;
    bool told; /* something was made: others may be told of it */
    char container[PSI_SESSION_CONTAINER_BYTES];
    uint8_t key[PSI_KEY_BYTES];
};
/* One life of a variable of a session at a task. */
struct own_birth {
    uint64_t creation;
    uint32_t session, part, task;
    bool alive, seen;
    bool excused; /* its session's lease was over at the directory while it was there */
    uint64_t born_event;
};
struct own_handle {
    struct psi_var *var; /* NULL: free */
    uint32_t session, part, calls;
    enum key_kind key;
    bool got;
    bool guessed; /* without the key: var has the handle that somebody with the key has got */
};
struct own_call {
    struct psi_request req; /* first: a request is its call */
    struct sim_program *program;
    uint32_t life, handle;
    struct own_handle is; /* as it was when the call began */
    uint64_t creation;    /* 0: whatever is got next, for the session has not used what it got */
    uint64_t started_event, deadline_ms, tag;
    bool killed;
    double *values;
    struct own_call *next;
};
/* An assign: its tag is its index + 1. */
struct own_tag {
    uint32_t session, part;
    uint64_t creation, started_event, done_event; /* done_event 0: not over */
    ps_status status;
    ps_applied applied;
};
struct sim_own {
    uint64_t elements[PARTS];
    struct own_session *session;
    struct own_birth *birth;
    struct own_tag *tag;
    size_t session_count, birth_count, tag_count;
    struct own_handle handle[SIM_PROGRAMS_MAX][HANDLES_MAX];
    struct own_call *calls;
    uint32_t directory_life;
    uint64_t claimed[SIM_PROGRAMS_MAX]; /* since which event its session is known to the directory; 0: it is not */
    uint64_t tick_ms, ran_ms;           /* of the directory in this life: its last tick, and how long it has run */
};

/* Room for one more of `bytes`: grown to the next power of two. */
static void *grown(void *of, size_t count, size_t bytes)
{
    if ((count & (count - 1)) != 0) {
        return of;
    }
    void *p = realloc(of, (count == 0 ? 1 : count * 2) * bytes);
    if (p == NULL) {
        abort();
    }
    return p;
}

void sim_own_draw(struct sim *s)
{
    s->own = sim_alloc(sizeof(*s->own));
    s->own->elements[0] = sim_range(s, 1, 40);
    s->own->elements[1] = PS_SEGMENT_BYTES / 8 + sim_range(s, 1, 300);
    s->own->elements[2] = sim_range(s, 1, 2000);
}

/* ---- sessions ---- */

void sim_own_begin(struct sim *s, const struct sim_program *p)
{
    struct sim_own *o = s->own;
    o->session = grown(o->session, o->session_count, sizeof(o->session[0]));
    struct own_session *x = &o->session[o->session_count++];
    *x = (struct own_session){.life = p->life, .program = p->index};
    psi_client_own_container(p->core, x->container, x->key);
    for (size_t i = 0; i + 1 < o->session_count; i++) {
        if (strcmp(o->session[i].container, x->container) == 0) {
            sim_fail(s, "sessions %u and %u have the same container", o->session[i].life, x->life);
        }
    }
}

void sim_own_killed(struct sim *s, const struct sim_program *p)
{
    for (struct own_call *c = s->own != NULL ? s->own->calls : NULL; c != NULL; c = c->next) {
        c->killed = c->killed || (c->program == p && c->life == p->life);
    }
}

void sim_own_gone(struct sim *s, const struct sim_program *p)
{
    if (s->own != NULL) {
        memset(s->own->handle[p->index], 0, sizeof(s->own->handle[p->index]));
        s->own->claimed[p->index] = 0;
    }
}

void sim_own_late(struct sim *s, const struct sim_program *p)
{
    for (const struct own_call *c = s->own != NULL ? s->own->calls : NULL; c != NULL; c = c->next) {
        if (c->program == p && !c->killed && s->now > c->deadline_ms + LATE_MS) {
            sim_fail(s, "%s of part %u of session %u has had no callback %llu ms after its deadline", sim_kind_name(c->req.kind),
                     c->is.part, s->own->session[c->is.session].life, (unsigned long long)(s->now - c->deadline_ms));
        }
    }
}

static bool is_over(const struct sim *s, const struct own_session *x)
{
    return sim_session_over(s, x->life);
}

/* ---- what tasks have ---- */

static struct own_birth *birth_of(struct sim_own *o, uint64_t creation)
{
    for (size_t i = o->birth_count; i > 0 && creation != 0; i--) {
        if (o->birth[i - 1].creation == creation) {
            return &o->birth[i - 1];
        }
    }
    return NULL;
}

static struct own_birth *born(struct sim *s, const struct sim_task *t, const char *container, const char *name, uint64_t creation)
{
    struct sim_own *o = s->own;
    for (uint32_t i = 0; i < o->session_count; i++) {
        if (strcmp(o->session[i].container, container) != 0) {
            continue;
        }
        if (strncmp(name, "part", 4) != 0) {
            sim_fail(s, "INTRUDER: somebody without the key of '%s' made '%s' there, at %s:%u", container, name, t->job,
                     t->index);
        }
        o->birth = grown(o->birth, o->birth_count, sizeof(o->birth[0]));
        struct own_birth *b = &o->birth[o->birth_count++];
        *b = (struct own_birth){.creation = creation,
                                .session = i,
                                .part = (uint32_t)(name[4] - '0'),
                                .task = (uint32_t)(t - s->task),
                                .alive = true,
                                .born_event = s->event};
        sim_trace(s, "%s of session %u is at %s:%u", name, o->session[i].life, t->job, t->index);
        return b;
    }
    sim_fail(s, "/job:%s/task:%u has a variable '%s' in container '%s', which no session has", t->job, t->index, name, container);
}

/* All elements of a value: somebody who had the key assigned it here. Returns the newest tag; 0: the first value. */
static uint64_t check_value(struct sim *s, uint32_t session, uint32_t part, uint64_t creation, const double *value,
                            uint64_t count, const char *where)
{
    const struct sim_own *o = s->own;
    uint64_t newest = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t tag = value[i] >= 1 && value[i] <= (double)o->tag_count ? (uint64_t)value[i] : 0;
        const struct own_tag *a = tag != 0 ? &o->tag[tag - 1] : NULL;
        if ((a == NULL && value[i] != 0) || (a != NULL && (double)tag != value[i])) {
            sim_fail(s, "%s: element %llu of part %u of session %u is %g, which nobody assigned", where, (unsigned long long)i,
                     part, o->session[session].life, value[i]);
        }
        if (a != NULL && (a->session != session || a->part != part || (a->creation != 0 && a->creation != creation))) {
            sim_fail(s, "%s: MIXED: part %u of session %u has a value of part %u of session %u, or of another life of it", where,
                     part, o->session[session].life, a->part, o->session[a->session].life);
        }
        if (a != NULL && a->done_event != 0 && a->status != PS_OK && a->applied == PS_NOTHING_APPLIED) {
            sim_fail(s, "%s: part %u of session %u has a value whose assign was told that nothing was applied", where, part,
                     o->session[session].life);
        }
        newest = tag > newest ? tag : newest;
    }
    return newest;
}

bool sim_own_variable(struct sim *s, const struct sim_task *t, const char *container, const char *name, uint64_t creation,
                      const void *value, size_t value_bytes)
{
    if (s->own == NULL || !psi_container_is_session(container)) {
        return false;
    }
    struct own_birth *b = birth_of(s->own, creation);
    b = b == NULL ? born(s, t, container, name, creation) : b;
    if (!b->alive || b->task != (uint32_t)(t - s->task) || strcmp(s->own->session[b->session].container, container) != 0) {
        sim_fail(s, "creation number %llx of '%s' is used again", (unsigned long long)creation, name);
    }
    b->seen = true;
    if (value_bytes > 0) { /* the ends; a pull looks at all of it */
        const double *v = value;
        PSI_IGNORE(check_value(s, b->session, b->part, creation, v, 1, "at the task"));
        PSI_IGNORE(check_value(s, b->session, b->part, creation, v + value_bytes / 8 - 1, 1, "at the task"));
    }
    return true;
}

void sim_own_looking(struct sim *s)
{
    for (size_t i = 0; s->own != NULL && i < s->own->birth_count; i++) {
        s->own->birth[i].seen = false;
    }
}

void sim_own_looked(struct sim *s, const struct sim_task *t)
{
    for (size_t i = 0; s->own != NULL && i < s->own->birth_count; i++) {
        struct own_birth *b = &s->own->birth[i];
        const struct own_session *x = &s->own->session[b->session];
        if (!b->alive || b->seen || &s->task[b->task] != t) {
            continue;
        }
        b->alive = false;
        sim_trace(s, "part%u of session %u goes from %s:%u", b->part, x->life, t->job, t->index);
        if (!is_over(s, x) && !b->excused) {
            sim_fail(s, "RESET: part %u of session %u goes from /job:%s/task:%u, and the session lives and held its lease",
                     b->part, x->life, t->job, t->index);
        }
        s->count_own_reset++;
        s->count_own_lapsed += !is_over(s, x);
    }
}

void sim_own_restart(struct sim *s, const struct sim_task *t)
{
    for (size_t i = 0; s->own != NULL && i < s->own->birth_count; i++) {
        struct own_birth *b = &s->own->birth[i];
        if (b->alive && &s->task[b->task] == t) {
            b->alive = false;
            s->count_own_lost++;
        }
    }
}

/* ---- the directory ---- */

/* Of the session, once it has said its container. NULL: none. */
static const struct psd_record *record_of(const struct sim_task *t, uint32_t life)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        if (r->pid == life && r->own.container[0] != '\0') {
            return r;
        }
    }
    return NULL;
}

/* The directory takes it that the session lives. */
static bool is_held(const struct sim *s, const struct sim_task *t, const struct own_session *x)
{
    const struct psd_record *r = record_of(t, x->life);
    return r != NULL ? r->lease_until_ms > t->core->now_ms : s->own->ran_ms < (uint64_t)s->k.lease_ms + GRACE_MS;
}

void sim_own_look(struct sim *s, const struct sim_task *t)
{
    struct sim_own *o = s->own;
    for (size_t i = 0; o != NULL && t->core->fenced && i < o->birth_count; i++) { /* no word from the directory for a lease */
        o->birth[i].excused = o->birth[i].excused || &s->task[o->birth[i].task] == t;
    }
    if (o == NULL || t != &s->task[0]) {
        return;
    }
    if (o->directory_life != t->life) {
        o->directory_life = t->life;
        o->tick_ms = t->core->last_tick_ms;
        o->ran_ms = 0;
    }
    uint64_t gap = t->core->last_tick_ms - o->tick_ms;
    o->tick_ms = t->core->last_tick_ms;
    o->ran_ms += gap > s->k.lease_ms / 4 ? 0 : gap; /* while it stands still nobody can claim anything */
    for (uint32_t i = 0; i < s->program_count; i++) {
        bool known = s->program[i].core != NULL && record_of(t, s->program[i].life) != NULL;
        o->claimed[i] = !known ? 0 : o->claimed[i] == 0 ? s->event : o->claimed[i];
    }
    for (size_t i = 0; i < o->birth_count; i++) {
        struct own_birth *b = &o->birth[i];
        if (b->alive && !b->excused && !is_held(s, t, &o->session[b->session])) {
            b->excused = true;
        }
    }
}

/* ---- calls ---- */

static void handle_free(struct own_handle *h, struct psi_client *c)
{
    if (h->var != NULL && h->calls == 0 && psi_client_variable_drop(c, h->var)) {
        *h = (struct own_handle){.var = NULL};
    }
}

static struct own_handle *handle_for(struct sim *s, struct sim_program *p, uint32_t session, uint32_t part, enum key_kind key)
{
    struct sim_own *o = s->own;
    struct own_handle *all = o->handle[p->index], *free_one = NULL;
    for (uint32_t i = 0; i < HANDLES_MAX; i++) {
        struct own_handle *h = &all[i];
        if (h->var != NULL && h->var->lost) {
            handle_free(h, p->core);
        }
        if (h->var != NULL && h->session == session && h->part == part && h->key == key) {
            return h;
        }
        free_one = h->var == NULL ? h : free_one;
    }
    if (free_one == NULL) {
        free_one = &all[sim_below(s, HANDLES_MAX)];
        handle_free(free_one, p->core);
    }
    return free_one->var == NULL ? free_one : NULL;
}

static void define(struct sim *s, struct sim_program *p, struct own_handle *h, uint32_t session, uint32_t part, enum key_kind key,
                   bool look_up)
{
    const struct own_session *x = &s->own->session[session];
    const struct sim_task *t = &s->task[(session + part) % s->task_count];
    char name[16], device[40];
    uint8_t bytes[PSI_KEY_BYTES];
    struct psi_err err = {.code = PS_OK};
    bool own = x->life == p->life;
    (void)snprintf(name, sizeof(name), "part%u", part);
    (void)snprintf(device, sizeof(device), "/job:%s/task:%u", t->job, t->index);
    memcpy(bytes, x->key, sizeof(bytes));
    bytes[sim_below(s, sizeof(bytes))] ^= (uint8_t)(key == KEY_OTHER ? 1u << sim_below(s, 8) : 0);
    ps_variable_spec spec = {.struct_bytes = sizeof(spec),
                             .name = key == KEY_RIGHT || look_up ? name : no_part,
                             .dtype = PS_F64,
                             .init = ps_zeros(),
                             .optimizer = ps_no_optimizer(),
                             .device = device};
    spec.shape.rank = 1;
    spec.shape.dims[0] = (int64_t)s->own->elements[part];
    struct psi_var_scope scope = {
        .container = x->container, .apart = true, .key = own || key == KEY_NONE ? NULL : bytes, .must_exist = look_up};
    *h = (struct own_handle){.session = session, .part = part, .key = key};
    if (psi_client_variable_in(p->core, &spec, &scope, look_up, &h->var, &err) != PS_OK) {
        sim_fail(s, "psi_client_variable_in('%s'): %s", x->container, err.text);
    }
}

static void call_free(struct sim *s, struct own_call *call)
{
    struct own_call **at = &s->own->calls;
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    free(call->values);
    free(call);
}

/* It was there from the beginning of the call to its end, and its session lives. */
static bool stayed(const struct sim *s, const struct own_call *call)
{
    for (size_t i = 0; i < s->own->birth_count && !is_over(s, &s->own->session[call->is.session]); i++) {
        const struct own_birth *b = &s->own->birth[i];
        if (b->alive && !b->excused && b->session == call->is.session && b->part == call->is.part &&
            b->born_event < call->started_event) {
            return call->creation == 0 || call->creation == b->creation;
        }
    }
    return false;
}

static void check_pulled(struct sim *s, const struct own_call *call)
{
    const struct sim_own *o = s->own;
    uint64_t newest =
        check_value(s, call->is.session, call->is.part, call->creation, call->values, o->elements[call->is.part], "in a pull");
    const struct own_tag *of = newest != 0 ? &o->tag[newest - 1] : NULL;
    for (size_t i = 0; i < o->tag_count; i++) {
        const struct own_tag *a = &o->tag[i];
        bool before = a->creation == call->creation && a->creation != 0 && a->status == PS_OK && a->done_event != 0 &&
                      a->done_event < call->started_event;
        if (before && (of == NULL || (of->done_event != 0 && of->status == PS_OK && of->done_event < a->started_event))) {
            sim_fail(s, "LOST: a pull of part %u of session %u shows assign %llu, and assign %zu had ended OK after it",
                     call->is.part, o->session[call->is.session].life, (unsigned long long)newest, i + 1);
        }
    }
}

static void check_denied(struct sim *s, const struct own_call *call, const char *why)
{
    const struct own_session *x = &s->own->session[call->is.session];
    /* what is not looked up may be created, which a new directory allows when the session is back */
    uint64_t since = s->own->claimed[x->program];
    bool known = call->is.var->must_exist || (since != 0 && since < call->started_event && stayed(s, call));
    if (call->is.key == KEY_RIGHT && known) {
        sim_fail(s, "REFUSED: %s of part %u of session %u with its key: %s", sim_kind_name(call->req.kind), call->is.part,
                 x->life, why);
    }
    if (strstr(why, x->container) == NULL && !call->is.guessed) { /* the handle may be another one's meanwhile */
        sim_fail(s, "who has not the key of '%s' is told: %s", x->container, why);
    }
    s->count_own_denied += call->is.key != KEY_RIGHT;
    s->count_own_guessed += call->is.guessed;
}

static void check_failed(struct sim *s, const struct own_call *call, ps_status st)
{
    const struct psi_err *err = call->req.err;
    const char *why = err != NULL ? err->text : "";
    const struct own_session *x = &s->own->session[call->is.session];
    bool fine = false;
    switch (st) {
    case PS_UNAVAILABLE:
    case PS_DEADLINE_EXCEEDED:
    case PS_RESOURCE_EXHAUSTED:
        fine = true;
        break;
    case PS_PERMISSION_DENIED:
        check_denied(s, call, why);
        fine = true;
        break;
    case PS_ABORTED:
        fine = call->is.guessed || call->creation == 0 || !call->is.var->lost || !stayed(s, call);
        break;
    case PS_NOT_FOUND: /* whoever has not the key is not told what there is */
        fine = call->req.kind == PSI_REQ_LOOKUP && !stayed(s, call);
        break;
    case PS_FAILED_PRECONDITION: /* no value yet; another process is that worker */
        fine = call->req.kind == PSI_REQ_PULL || (err != NULL && err->reason == PS_REASON_CONFLICT);
        break;
    default:
        break;
    }
    if (!fine || why[0] == '\0') {
        sim_fail(s, "%s of part %u of session %u by client%u.%u failed without a cause: %s %s", sim_kind_name(call->req.kind),
                 call->is.part, x->life, call->program->index, call->life, ps_status_name(st), why);
    }
    if (call->program->role == SIM_FINAL && x->life == call->life) {
        sim_fail(s, "after all faults: %s of part %u of its own: %s", sim_kind_name(call->req.kind), call->is.part, why);
    }
}

static void on_done(struct psi_request *req)
{
    struct own_call *call = (struct own_call *)(void *)req;
    struct sim_program *p = call->program;
    struct sim *s = p->sim;
    struct sim_own *o = s->own;
    struct own_handle *h = &o->handle[p->index][call->handle];
    ps_status st = req->status;
    if (call->killed) {
        call_free(s, call);
        return;
    }
    if (p->in_start) {
        sim_fail(s, "the callback of %s runs from within a start", sim_kind_name(req->kind));
    }
    if (st == PS_CANCELLED && req->err != NULL && req->err->reason == PS_REASON_INTERRUPTED) {
        st = PS_DEADLINE_EXCEEDED; /* it is withdrawn as at a deadline */
    }
    sim_trace(s, "client%u.%u done %s of part%u of session %u, key %d: %s %s", p->index, p->life, sim_kind_name(req->kind),
              call->is.part, o->session[call->is.session].life, (int)call->is.key, ps_status_name(st),
              req->err != NULL ? req->err->text : "");
    s->count_ok += st == PS_OK;
    s->count_failed += st != PS_OK;
    call->creation = call->creation == 0 && st == PS_OK ? req->var->creation : call->creation;
    if (call->tag != 0) {
        struct own_tag *a = &o->tag[call->tag - 1];
        a->creation = call->creation;
        a->done_event = s->event;
        a->status = st;
        a->applied = req->applied;
    }
    if (st == PS_OK && call->is.key != KEY_RIGHT) {
        sim_fail(s, "INTRUDER: %s of session %u ended OK with %s", sim_kind_name(req->kind), o->session[call->is.session].life,
                 call->is.key == KEY_OTHER ? "another key" : "no key");
    }
    if (st != PS_OK) {
        check_failed(s, call, st);
    } else if (req->kind == PSI_REQ_PULL) {
        check_pulled(s, call);
        s->count_own_read += o->session[call->is.session].life != p->life;
    } else if (req->kind == PSI_REQ_GET) {
        o->session[call->is.session].told = true;
        s->count_own_made++;
    }
    h->got = h->got || (st == PS_OK && (req->kind == PSI_REQ_GET || req->kind == PSI_REQ_LOOKUP));
    h->calls--;
    p->calls_out--;
    call_free(s, call);
}

static void prepare_value(struct sim *s, struct own_call *call)
{
    struct sim_own *o = s->own;
    uint64_t n = o->elements[call->is.part];
    call->values = sim_alloc(n * 8);
    call->req.bytes = n * 8;
    call->req.scale = 1;
    if (call->req.kind == PSI_REQ_PULL) {
        memset(call->values, 0xff, n * 8); /* NaN */
        call->req.dst = call->values;
        return;
    }
    o->tag = grown(o->tag, o->tag_count, sizeof(o->tag[0]));
    o->tag[o->tag_count++] = (struct own_tag){.session = call->is.session,
                                              .part = call->is.part,
                                              .creation = call->creation,
                                              .started_event = s->event,
                                              .applied = PS_MAYBE_PARTLY_APPLIED};
    call->tag = o->tag_count;
    for (uint64_t i = 0; i < n; i++) {
        call->values[i] = (double)call->tag;
    }
    call->req.src = call->values;
}

static void start(struct sim *s, struct sim_program *p, struct own_handle *h, enum psi_request_kind kind)
{
    struct sim_own *o = s->own;
    struct own_call *call = sim_alloc(sizeof(*call));
    struct psi_err err = {.code = PS_OK};
    *call = (struct own_call){.program = p,
                              .life = p->life,
                              .handle = (uint32_t)(h - o->handle[p->index]),
                              .is = *h,
                              .creation = h->var->used ? h->var->creation : 0,
                              .started_event = s->event,
                              .deadline_ms = s->now + s->k.operation_ms};
    call->req = (struct psi_request){.done = on_done, .kind = kind, .var = h->var, .deadline_ms = call->deadline_ms};
    if (kind == PSI_REQ_PULL || kind == PSI_REQ_ASSIGN) {
        prepare_value(s, call);
    }
    call->next = o->calls;
    o->calls = call;
    sim_trace(s, "client%u.%u calls %s of part%u of session %u, key %d", p->index, p->life, sim_kind_name(kind), h->part,
              o->session[h->session].life, (int)h->key);
    p->in_start = true;
    ps_status st = psi_client_start(p->core, &call->req, &err);
    p->in_start = false;
    if (st == PS_OK) {
        h->calls++;
        p->calls_out++;
        return;
    }
    bool gone = h->var->lost || !h->var->open;
    if (err.text[0] == '\0' || (st != PS_RESOURCE_EXHAUSTED && !(gone && (st == PS_FAILED_PRECONDITION || st == PS_ABORTED)))) {
        sim_fail(s, "%s of part %u is refused: %s", sim_kind_name(kind), h->part, err.text);
    }
    if (call->tag != 0) {
        struct own_tag *a = &o->tag[call->tag - 1];
        a->done_event = s->event;
        a->status = st;
        a->applied = PS_NOTHING_APPLIED;
    }
    h->got = false; /* it is looked up again */
    call_free(s, call);
}

/* This program never has the key of that session. */
static bool is_thief(const struct sim_program *p, uint32_t session)
{
    return (p->life + session) % 4 == 0;
}

/* Whoever has not the key takes a handle for his own that somebody with the key has got: it is a number, and can be guessed. */
static void guess(struct sim *s, struct own_handle *h)
{
    const struct sim_task *t = &s->task[(h->session + h->part) % s->task_count];
    for (uint32_t i = 0; i < s->program_count; i++) {
        for (uint32_t k = 0; k < HANDLES_MAX; k++) {
            const struct own_handle *of = &s->own->handle[i][k];
            if (of->var == NULL || !of->got || of->key != KEY_RIGHT || of->session != h->session || of->part != h->part ||
                !of->var->open || of->var->lost || t->core == NULL || of->var->life != t->core->life) {
                continue;
            }
            h->var->dtype = h->var->wire = of->var->dtype;
            h->var->owner = of->var->owner;
            h->var->handle = of->var->handle;
            h->var->life = of->var->life;
            h->var->shape = of->var->shape;
            h->var->elements = of->var->elements;
            h->var->incarnation = of->var->incarnation;
            h->var->creation = of->var->creation;
            h->var->initialised = h->var->open = true;
            h->got = h->guessed = true;
            return;
        }
    }
}

/* One of the last sessions that have made something, p's own one left out. UINT32_MAX: none. */
static uint32_t other_session(struct sim *s, const struct sim_program *p)
{
    const struct sim_own *o = s->own;
    uint32_t found = UINT32_MAX;
    uint64_t seen = 0;
    for (size_t i = o->session_count > RECENT ? o->session_count - RECENT : 0; i < o->session_count; i++) {
        if (o->session[i].told && o->session[i].life != p->life && sim_below(s, ++seen) == 0) {
            found = (uint32_t)i;
        }
    }
    return found;
}

static uint32_t own_session_of(const struct sim *s, const struct sim_program *p)
{
    size_t i = s->own->session_count;
    while (s->own->session[i - 1].life != p->life) {
        i--;
    }
    return (uint32_t)(i - 1);
}

bool sim_own_work(struct sim *s, struct sim_program *p)
{
    uint64_t x = sim_below(s, 100);
    bool own = x < 40 || p->role == SIM_FINAL;
    enum key_kind key = own || x < 75 ? KEY_RIGHT : sim_one_in(s, 2) ? KEY_OTHER : KEY_NONE;
    if (x >= (p->role == SIM_FINAL ? 40u : 88u)) {
        return false;
    }
    uint32_t session = own ? own_session_of(s, p) : other_session(s, p);
    uint32_t part = (uint32_t)sim_below(s, PARTS);
    key = !own && key == KEY_RIGHT && session != UINT32_MAX && is_thief(p, session) ? KEY_OTHER : key;
    p->next_call_at = s->now + sim_below(s, (uint64_t)s->k.think_ms + 1);
    struct own_handle *h = session != UINT32_MAX ? handle_for(s, p, session, part, key) : NULL;
    if (h == NULL) {
        return true;
    }
    bool look_up = h->var != NULL ? h->var->must_exist : !own && !sim_one_in(s, 4);
    if (h->var == NULL) {
        define(s, p, h, session, part, key, look_up);
    }
    if (!h->got && h->calls == 0 && look_up && !own && is_thief(p, session)) {
        guess(s, h);
    }
    if (!h->got) {
        if (h->calls == 0) {
            start(s, p, h, look_up ? PSI_REQ_LOOKUP : PSI_REQ_GET);
        }
        return true;
    }
    start(s, p, h, sim_one_in(s, 3) || (own && h->var->version == 0) ? PSI_REQ_ASSIGN : PSI_REQ_PULL);
    return true;
}

/* ---- the end ---- */

static void check_task_end(struct sim *s, const struct sim_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    uint64_t variables = 0;
    while (psi_map_next(&t->core->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (psi_container_is_session(c->name)) {
            sim_fail(s, "LEFT: /job:%s/task:%u has container '%s' with %u variables, and its session is gone", t->job, t->index,
                     c->name, psi_map_count(&c->variables));
        }
        variables += psi_map_count(&c->variables);
    }
    if (variables != t->core->store.variable_count) {
        sim_fail(s, "LEFT: /job:%s/task:%u has %u variables, of which %llu are in a container", t->job, t->index,
                 t->core->store.variable_count, (unsigned long long)variables);
    }
    cursor = 0;
    while (psi_map_next(&t->core->names.in, &cursor, NULL, NULL, &value)) {
        const struct psd_names_in *in = value;
        if (in->of_session) {
            sim_fail(s, "LEFT: the directory has %u names in '%s', and its session is gone", in->count, in->container);
        }
    }
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->core->resets.all) {
        const struct psd_reset *r = PSI_CONTAINER_OF(it, struct psd_reset, link);
        if (psi_container_is_session(r->container)) {
            sim_fail(s, "LEFT: the reset of '%s' is not over", r->container);
        }
    }
    if (t->core->names.of_sessions != 0 || t->core->names.session_names != 0) {
        sim_fail(s, "LEFT: the directory counts %u containers of sessions and %u names there", t->core->names.of_sessions,
                 t->core->names.session_names);
    }
    if (psi_map_count(&t->core->records) != 0 || psi_map_count(&t->core->owners) != 0) {
        sim_fail(s, "LEFT: /job:%s/task:%u has records of %u sessions, and %u containers that they own", t->job, t->index,
                 psi_map_count(&t->core->records), psi_map_count(&t->core->owners));
    }
    if (t->core->work_count != 0 || !psi_list_empty(&t->core->works) || !psi_list_empty(&t->core->copies)) {
        sim_fail(s, "LEFT: /job:%s/task:%u has %u calls", t->job, t->index, t->core->work_count);
    }
    psd_task_check_invariants(t->core); /* what is counted is what there is */
}

/* A task has the values of the model, and no other ones: no push is in progress, no optimizer has slots. */
static void check_bytes_end(struct sim *s, const struct sim_task *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        if (b->alive && &s->task[b->task] == t && b->initialised) {
            bytes += sim_var_bytes(b->var);
        }
    }
    if (psd_task_memory_bytes(t->core) != bytes) {
        sim_fail(s, "LEFT: /job:%s/task:%u counts %llu bytes of values, and the model has %llu", t->job, t->index,
                 (unsigned long long)psd_task_memory_bytes(t->core), (unsigned long long)bytes);
    }
}

void sim_own_check_end(struct sim *s)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->task[i].core == NULL) {
            sim_fail(s, "%s:%u is down at the end: a fault of the workload", s->task[i].job, s->task[i].index);
        }
        sim_births_poll(s, &s->task[i]);
        check_task_end(s, &s->task[i]);
        check_bytes_end(s, &s->task[i]);
    }
    for (size_t i = 0; i < s->own->birth_count; i++) {
        if (s->own->birth[i].alive) {
            sim_fail(s, "LEFT: part %u of session %u", s->own->birth[i].part, s->own->session[s->own->birth[i].session].life);
        }
    }
}

void sim_own_free(struct sim *s)
{
    if (s->own != NULL) {
        free(s->own->session);
        free(s->own->birth);
        free(s->own->tag);
        free(s->own);
    }
}
