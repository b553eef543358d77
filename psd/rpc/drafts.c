/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts: memory into which a call of this task writes a new value of one of the task's variables. The result then needs no
 * connection (psd_call_functions.draft and publish in common/ps_calls.h).
 *
 * Happy path: psd_draft_new() makes the checks of an ASSIGN and allocates memory, into which a compute thread writes. A publish
 * repeats the checks whose result may have changed. Then the change WRITE makes the memory the variable's value. A publish waits
 * while a checkpoint would have to copy the old value and has no memory for that, and while a push updates the value in slices
 * (moves.c), but not longer than its call lasts.
 *
 * Failure: the errors of an ASSIGN; LOST: the variable was dropped meanwhile; CANCELLED: nobody waits for the call any more, or
 * it has ended. A refused publish has changed nothing. The memory stays until the call ends, even if its variable is dropped,
 * because a compute thread may be writing there. */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/shape.h"
#include "psd/store/cut.h"

#include <string.h>

/* Check what may have changed since the call k began: whether this task serves, and its client may write in the container. */
static ps_status may_write(struct psd_task *t, const struct psd_work *k, const char *container, struct psi_err *err)
{
    const ps_status st = psd_peers_begun(t, err);
    return st == PS_OK ? psd_rights_ask(t, "a call", &k->who, "a run", container, PSI_RIGHT_WRITE, err) : st;
}

static ps_status check_call(const struct psd_work *k, struct psi_err *err)
{
    return k != NULL && !k->cancelled ? PS_OK : psi_fail(err, PS_CANCELLED, "the call that writes it is cancelled");
}

static ps_status find(struct psd_task *t, const struct psd_work *k, const struct psd_draft_spec *what,
                      const struct psd_variable **out, struct psi_err *err)
{
    const char *container = what->container[0] != '\0' ? what->container : PSI_CONTAINER_DEFAULT;
    ps_status st = may_write(t, k, container, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_container *in = psd_container_find(&t->store, container);
    const bool keyed = what->key != NULL && (in == NULL || memcmp(in->key, what->key, sizeof(in->key)) == 0);
    if (psi_container_is_session(container) && !keyed) {
        return psd_key_denied(container, err);
    }
    *out = psd_variable_find(in, what->name);
    return *out != NULL && !t->fenced ? psd_target_check(t, *out, false, err)
                                      : psi_fail(err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, what->name);
}

static ps_status check_type(const struct psd_task *t, const struct psd_variable *v, const struct psd_draft_spec *what,
                            struct psi_err *err)
{
    char have[PSI_SHAPE_TEXT_MAX], want[PSI_SHAPE_TEXT_MAX];
    const ps_shape shape = psd_variable_shape(v);
    if (v->dtype == what->dtype && v->dtype != PS_STRING && psi_shape_equal(&shape, &what->shape)) {
        return PS_OK;
    }
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                       "SHAPE_MISMATCH: variable '%s' at %s is %s %s, the new value is to be %s %s", v->name, t->name,
                       ps_dtype_name(v->dtype), psi_shape_format(&shape, have, sizeof(have)), ps_dtype_name(what->dtype),
                       psi_shape_format(&what->shape, want, sizeof(want)));
}

ps_status psd_draft_new(struct psd_task *t, uint64_t call, const struct psd_draft_spec *what, void **out_room,
                        struct psi_err *err)
{
    struct psd_work *k = psd_call_work(t, call);
    const struct psd_variable *v = NULL;
    ps_status st = check_call(k, err);
    st = st == PS_OK ? find(t, k, what, &v, err) : st;
    st = st == PS_OK ? check_type(t, v, what, err) : st;
    st = st == PS_OK ? psd_round_check(t, v, err) : st;
    if (st == PS_OK && t->draining) {
        st = psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (st != PS_OK) {
        return st;
    }
    struct psd_draft *d = psi_calloc(1, sizeof(*d));
    void *memory = d != NULL ? psd_room_stage_first(t, v, v->bytes) : NULL;
    if (memory == NULL) {
        psi_free(d);
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                           "a new value of '%s': no room for %llu bytes within the memory budget of %s", v->name,
                           (unsigned long long)v->bytes, t->name);
    }
    d->variable = psd_variable_ref(v);
    d->memory = memory;
    psi_list_push_back(&k->drafts, &d->link);
    *out_room = memory;
    return PS_OK;
}

static void draft_free(struct psd_task *t, struct psd_draft *d)
{
    struct psd_kept *nobody = NULL; /* no checkpoint keeps a draft */
    psi_list_remove(&d->link);
    if (d->memory != NULL) {
        psd_variable_unstage_kept(&t->store, d->variable, d->memory, d->variable->bytes, &nobody);
    }
    psd_variable_unref(&t->store, d->variable);
    psi_free(d);
}

void psd_drafts_free(struct psd_task *t, struct psd_work *k)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&k->drafts)) != NULL) {
        draft_free(t, PSI_CONTAINER_OF(link, struct psd_draft, link));
    }
}

static struct psd_draft *draft_of(const struct psd_work *k, const void *room)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &k->drafts) {
        struct psd_draft *d = PSI_CONTAINER_OF(it, struct psd_draft, link);
        if (d->memory == room) {
            return d;
        }
    }
    return NULL;
}

/* Check that draft d of call k can still be published: what psd_draft_new() has checked may have changed. */
static ps_status check_again(struct psd_task *t, const struct psd_work *k, const struct psd_draft *d, struct psi_err *err)
{
    const struct psd_variable *v = d->variable;
    if (psd_variable_is_gone(v)) {
        return psd_fail_gone(t, v->handle, err);
    }
    ps_status st = may_write(t, k, v->container->name, err);
    if (st == PS_OK && t->fenced) {
        st = psi_fail(err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, v->name);
    }
    return st == PS_OK ? psd_round_check(t, v, err) : st;
}

static void note_giver(const struct psd_work *k, uint8_t giver[8])
{
    const struct psd_wait *w = psd_wait_first(&k->waiters);
    /* w is NULL if the session has ended: then the call is about to be cancelled */
    if (w != NULL) {
        memcpy(giver, w->record->session, 8);
    }
}

/* Do the publish p and call its done(). False: it must wait for a checkpoint's memory or for a push (moves.c). */
static bool publish(struct psd_task *t, struct psd_publish *p)
{
    struct psd_work *k = psd_call_work(t, p->call);
    struct psi_err err;
    ps_status st = check_call(k, &err);
    struct psd_draft *d = st == PS_OK ? draft_of(k, p->room) : NULL;
    if (st == PS_OK && d == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "%s: this is no draft of the call", t->name);
    }
    st = st == PS_OK ? check_again(t, k, d, &err) : st;
    if (st == PS_OK && (psd_moves_value(t, d->variable) ||
                        (psd_cut_is_full(&t->store) && psd_cut_missing(&t->store, d->variable, 0, d->variable->bytes) > 0))) {
        return false;
    }
    struct psd_change c = {.kind = PSD_CHANGE_WRITE};
    if (st == PS_OK) {
        c.write.variable = d->variable;
        c.write.value = d->memory;
        note_giver(k, c.write.giver);
        st = psd_change_reserve(t, &c, &err);
    }
    if (st == PS_OK) {
        const bool first = !d->variable->initialised;
        psd_commit(t, &c);
        d->memory = NULL; /* the variable owns it now */
        p->version = d->variable->version;
        if (first) {
            psd_wait_look(t, psd_variable_waiters(d->variable));
        }
        draft_free(t, d);
    }
    p->done(p, st == PS_OK ? NULL : &err);
    return true;
}

void psd_publish_begin(struct psd_task *t, struct psd_publish *p)
{
    psi_list_init(&p->link);
    if (!publish(t, p)) {
        psi_list_push_back(&t->publishes, &p->link);
    }
}

void psd_publishes_cancel(struct psd_task *t, uint64_t call)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->publishes) {
        struct psd_publish *p = PSI_CONTAINER_OF(it, struct psd_publish, link);
        if (p->call == call) {
            psi_list_remove(it);
            const bool over = publish(t, p);
            PSI_ASSERT(over); /* cannot fail: the publish of a cancelled call never waits */
        }
    }
}

/* True if a push is changing, in slices, the value that p will replace. */
static bool is_moved(const struct psd_task *t, const struct psd_publish *p)
{
    const struct psd_work *k = psi_list_empty(&t->moves) ? NULL : psd_call_work(t, p->call);
    const struct psd_draft *d = k == NULL ? NULL : draft_of(k, p->room);
    return d != NULL && psd_moves_value(t, d->variable);
}

bool psd_publishes_have_work(const struct psd_task *t)
{
    struct psi_list *first = psi_list_first(&t->publishes);
    return first != NULL && !psd_cut_is_full(&t->store) && !is_moved(t, PSI_CONTAINER_OF(first, struct psd_publish, link));
}

void psd_publishes_work(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while (psd_publishes_have_work(t) && (link = psi_list_pop_front(&t->publishes)) != NULL) {
        if (!publish(t, PSI_CONTAINER_OF(link, struct psd_publish, link))) {
            psi_list_push_front(&t->publishes, link);
            return;
        }
    }
}

void psd_publishes_end(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&t->publishes)) != NULL) {
        struct psd_publish *p = PSI_CONTAINER_OF(link, struct psd_publish, link);
        struct psi_err err;
        PSI_IGNORE(psi_fail(&err, PS_CANCELLED, "a new value: %s ends", t->name)); /* p->done() gets err */
        p->done(p, &err);
    }
}
