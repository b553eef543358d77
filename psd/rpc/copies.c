/* SPDX-License-Identifier: Apache-2.0 */
/* A call reads a variable of its own task by a copy, without a connection (psd_call_functions.read in common/ps_calls.h).
 *
 * Happy path: psd_task_copy() begins a copy. psd_copies_work() copies about psd_task_config.copy_slice_bytes in each turn of the
 * event loop; the copies take turns. psd_copy.done() is called at the end. If the caller has the present version already, and no
 * push is in progress, nothing is copied.
 *
 * A copy is exact if the version did not change from its first to its last byte, and no push was in progress then. A copy of an
 * atomic variable must be exact: after a change it begins anew, and after ATTEMPTS_MAX changes it is made in one turn.
 *
 * Failure: the errors of a pull; LOST: the variable was dropped; CANCELLED: the call is cancelled or has ended. */
#include "rpc.h"

#include "psd/store/overlay.h"

#include "common/name.h"

#include <string.h>

enum { ATTEMPTS_MAX = 3 };

static void copy_end(struct psd_task *t, struct psd_copy *copy, const struct psi_err *err)
{
    psi_list_remove(&copy->link);
    if (copy->variable != NULL) {
        psd_variable_unref(&t->store, copy->variable);
        copy->variable = NULL;
    }
    copy->done(copy, err);
}

static ps_status copy_check(const struct psd_task *t, const struct psd_copy *copy, const struct psd_variable *v,
                            struct psi_err *err)
{
    if (v == NULL || t->fenced) {
        return psi_fail(err, PS_NOT_FOUND, "%s has no variable '%s'", t->name, copy->name);
    }
    ps_status st = psd_target_check(t, v, false, err);
    if (st == PS_OK && !v->initialised) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED,
                           "UNINITIALIZED: variable '%s' at %s has no value yet", v->name, t->name);
    }
    if (st == PS_OK && (v->dtype != copy->dtype || v->dtype == PS_STRING || v->bytes != copy->bytes)) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH,
                           "SHAPE_MISMATCH: variable '%s' at %s is %s of %llu bytes, the copy is to be %s of %llu bytes", v->name,
                           t->name, ps_dtype_name(v->dtype), (unsigned long long)v->bytes, ps_dtype_name(copy->dtype),
                           (unsigned long long)copy->bytes);
    }
    return st;
}

static ps_status copy_find(struct psd_task *t, struct psd_copy *copy, struct psi_err *err)
{
    const char *container = copy->container[0] != '\0' ? copy->container : PSI_CONTAINER_DEFAULT;
    ps_status st = psd_peers_begun(t, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_work *k = psd_call_work(t, copy->call); /* copy_turn() has found the call */
    st = psd_rights_ask(t, "a call", &k->who, "a run", container, PSI_RIGHT_READ, err);
    if (st != PS_OK) {
        return st;
    }
    const struct psd_container *in = psd_container_find(&t->store, container);
    bool keyed = copy->key != NULL && (in == NULL || memcmp(in->key, copy->key, sizeof(in->key)) == 0);
    if (psi_container_is_session(container) && !keyed) {
        return psd_key_denied(container, err);
    }
    const struct psd_variable *v = psd_variable_find(in, copy->name);
    st = copy_check(t, copy, v, err);
    if (st == PS_OK) {
        copy->variable = psd_variable_ref(v);
        copy->creation = v->creation;
        copy->version = v->version;
        copy->same = copy->have_creation != 0 && v->creation == copy->have_creation && v->version == copy->have_version &&
                     v->in_progress == 0;
        copy->exact = copy->same;
    }
    return st;
}

/* Copy the next bytes, at most `room`; after ATTEMPTS_MAX changes of an atomic variable, all. Returns what is left of `room`. */
static uint64_t copy_slice(struct psd_copy *copy, uint64_t room)
{
    const struct psd_variable *v = copy->variable;
    if (v->atomic && copy->offset > 0 && v->version != copy->first_version) {
        copy->offset = 0;
        copy->attempts++;
    }
    if (copy->offset == 0) {
        copy->first_version = v->version;
        copy->exact = v->in_progress == 0;
    }
    uint64_t n = v->bytes - copy->offset;
    n = n > room && copy->attempts < ATTEMPTS_MAX ? room : n;
    if (n > 0) {
        psd_overlay_read(v, 0, copy->offset, n, (uint8_t *)copy->dst + copy->offset);
    }
    copy->offset += n;
    return n < room ? room - n : 0;
}

static uint64_t copy_turn(struct psd_task *t, struct psd_copy *copy, uint64_t room)
{
    struct psi_err err;
    const struct psd_work *k = psd_call_work(t, copy->call);
    ps_status st = k == NULL || k->cancelled
                       ? psi_fail(&err, PS_CANCELLED, "copy of '%s': the call that it is for is cancelled", copy->name)
                   : copy->variable == NULL               ? copy_find(t, copy, &err)
                   : psd_variable_is_gone(copy->variable) ? psd_fail_gone(t, copy->variable->handle, &err)
                                                          : PS_OK;
    if (st != PS_OK) {
        copy_end(t, copy, &err);
        return room;
    }
    if (copy->same) {
        copy_end(t, copy, NULL);
        return room;
    }
    room = copy_slice(copy, room);
    if (copy->offset == copy->variable->bytes) {
        copy->version = copy->variable->version;
        copy->exact = copy->exact && copy->variable->in_progress == 0 && copy->version == copy->first_version;
        copy_end(t, copy, NULL);
    }
    return room;
}

void psd_task_copy(struct psd_task *t, struct psd_copy *copy)
{
    copy->variable = NULL;
    copy->offset = copy->version = copy->first_version = copy->creation = 0;
    copy->attempts = 0;
    copy->exact = copy->same = false;
    psi_list_init(&copy->link);
    psi_list_push_back(&t->copies, &copy->link);
}

bool psd_copies_have_work(const struct psd_task *t)
{
    return !psi_list_empty(&t->copies);
}

void psd_copies_work(struct psd_task *t)
{
    uint64_t room = t->config.copy_slice_bytes;
    struct psi_list *link = NULL;
    while (room > 0 && (link = psi_list_pop_front(&t->copies)) != NULL) {
        psi_list_push_back(&t->copies, link); /* the next turn serves another copy */
        room = copy_turn(t, PSI_CONTAINER_OF(link, struct psd_copy, link), room);
    }
}

void psd_task_end_copies(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&t->copies)) != NULL) {
        struct psd_copy *copy = PSI_CONTAINER_OF(link, struct psd_copy, link);
        struct psi_err err;
        PSI_IGNORE(psi_fail(&err, PS_CANCELLED, "copy of '%s': %s ends", copy->name, t->name)); /* copy->done() gets err */
        copy_end(t, copy, &err);
    }
    psd_publishes_end(t);
}
