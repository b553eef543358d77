/* SPDX-License-Identifier: Apache-2.0 */
/* State machine of training (training.h). Happy path: a pull reads every parameter of which no value came ahead (STALE), and
 * waits for all values. A push takes the gradient buffer, and the caller sends it. The end of a step waits for the pushes, meets
 * the other workers if the session is a member, and adds one to the global step unless rounds count it. Failure modes: an
 * interrupted call begins nothing more, and waits only until its reads have ended. Its pushes and its addition to the global step
 * go on: the next call awaits them, and no addition is made twice. The caller says whether the session has failed (psi_now). */
#include "training.h"

#include "ways.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 300 };

/* ---- states and their transitions ---- */

static const uint8_t VALUE_WAYS[PSI_VALUES] = {
    [PSI_VALUE_STALE] = PSI_TO(PSI_VALUE_COMING),
    [PSI_VALUE_COMING] =
        PSI_TO(PSI_VALUE_THERE) | PSI_TO(PSI_VALUE_STALE), /* to STALE: the read or push has failed, or the model is gone */
    [PSI_VALUE_THERE] =
        PSI_TO(PSI_VALUE_STALE) | PSI_TO(PSI_VALUE_COMING), /* a pull takes the values, or a push makes them old */
};
static const uint8_t GRADIENT_WAYS[PSI_GRADIENTS] = {
    [PSI_GRADIENT_FREE] = PSI_TO(PSI_GRADIENT_PUSHING),
    [PSI_GRADIENT_PUSHING] = PSI_TO(PSI_GRADIENT_FREE) | PSI_TO(PSI_GRADIENT_FETCHING),
    [PSI_GRADIENT_FETCHING] = PSI_TO(PSI_GRADIENT_PUSHING) | PSI_TO(PSI_GRADIENT_FREE),
};
static const uint8_t STATE_WAYS[PSI_TRAINING_STATES] = {
    [PSI_TRAINING_RUNNING] = PSI_TO(PSI_TRAINING_READYING) | PSI_TO(PSI_TRAINING_STEPPING),
    [PSI_TRAINING_READYING] = PSI_TO(PSI_TRAINING_RUNNING),
    [PSI_TRAINING_STEPPING] = PSI_TO(PSI_TRAINING_RUNNING),
};
static const uint8_t MEMBER_WAYS[PSI_MEMBERSHIPS] = {
    [PSI_MEMBER_NONE] = PSI_TO(PSI_MEMBER_JOINED),
    [PSI_MEMBER_JOINED] = PSI_TO(PSI_MEMBER_STEPPED) | PSI_TO(PSI_MEMBER_WAITED) | PSI_TO(PSI_MEMBER_NONE),
    [PSI_MEMBER_STEPPED] = PSI_TO(PSI_MEMBER_WAITED) | PSI_TO(PSI_MEMBER_JOINED) | PSI_TO(PSI_MEMBER_NONE),
    [PSI_MEMBER_WAITED] = PSI_TO(PSI_MEMBER_STEPPED) | PSI_TO(PSI_MEMBER_JOINED) | PSI_TO(PSI_MEMBER_NONE),
};
enum { VALUE, GRADIENT, STATE, MEMBER, TABLES };
static const struct psi_ways WAYS[TABLES] = {[VALUE] = {"value", VALUE_WAYS, PSI_VALUES, PSI_MARKS_VALUE},
                                             [GRADIENT] = {"gradient", GRADIENT_WAYS, PSI_GRADIENTS, PSI_MARKS_GRADIENT},
                                             [STATE] = {"state", STATE_WAYS, PSI_TRAINING_STATES, PSI_MARKS_STATE},
                                             [MEMBER] = {"member", MEMBER_WAYS, PSI_MEMBERSHIPS, PSI_MARKS_MEMBER}};
_Static_assert(PSI_MARKS <= 64, "bits of psi_training.marks");

static void value_move(struct psi_training *t, struct psi_training_param *p, enum psi_param_value to)
{
    p->value = (enum psi_param_value)psi_ways_move(&WAYS[VALUE], &t->marks, p->value, to);
}

static void gradient_move(struct psi_training *t, struct psi_training_param *p, enum psi_param_gradient to)
{
    t->pushes += p->gradient == PSI_GRADIENT_FREE ? 1 : 0;
    p->gradient = (enum psi_param_gradient)psi_ways_move(&WAYS[GRADIENT], &t->marks, p->gradient, to);
    t->pushes -= p->gradient == PSI_GRADIENT_FREE ? 1 : 0;
}

static void state_move(struct psi_training *t, enum psi_training_state to)
{
    t->state = (enum psi_training_state)psi_ways_move(&WAYS[STATE], &t->marks, t->state, to);
}

static void member_move(struct psi_training *t, enum psi_membership to)
{
    t->member = (enum psi_membership)psi_ways_move(&WAYS[MEMBER], &t->marks, t->member, to);
}

bool psi_training_unmarked(uint64_t marks, char out[64])
{
    for (size_t i = 0; i < TABLES; i++) {
        if (psi_ways_unmarked(&WAYS[i], marks, out)) {
            return true;
        }
    }
    for (unsigned bit = PSI_MARK_ADD_LEFT; bit < PSI_MARKS; bit++) {
        if ((marks >> bit & 1u) == 0) {
            (void)snprintf(out, 64, "mark %u", bit);
            return true;
        }
    }
    return false;
}

void psi_training_init(struct psi_training *t)
{
    *t = (struct psi_training){.mode = PS_SYNC_NONE, .step = 1};
    psi_list_init(&t->params);
    psi_list_init(&t->adds_left);
    psi_list_init(&t->adds_spare);
}

void psi_training_add(struct psi_training *t, struct psi_training_param *p)
{
    psi_list_push_back(&t->params, &p->link);
}

static struct psi_training_param *param_of(const struct psi_training *t, struct psi_list *link)
{
    return link != &t->params ? PSI_CONTAINER_OF(link, struct psi_training_param, link) : NULL;
}

void psi_training_check_invariants(const struct psi_training *t)
{
    uint32_t pushes = 0;
    for (struct psi_list *it = t->params.next; it != &t->params; it = it->next) {
        const struct psi_training_param *p = PSI_CONTAINER_OF(it, struct psi_training_param, link);
        pushes += p->gradient != PSI_GRADIENT_FREE ? 1 : 0;
        /* values on their way come from a read ahead or a push */
        PSI_ASSERT(p->value != PSI_VALUE_COMING || p->read == PSI_READING_AHEAD || p->gradient != PSI_GRADIENT_FREE);
        PSI_ASSERT(p->read != PSI_READING_AHEAD || t->prefetch);
        PSI_ASSERT(p->open || (p->read == PSI_READING_NONE && p->gradient == PSI_GRADIENT_FREE));
        PSI_ASSERT(p->pushed_step <= t->step);
    }
    PSI_ASSERT(pushes == t->pushes);
    PSI_ASSERT((t->member == PSI_MEMBER_NONE) == (t->mode == PS_SYNC_NONE));
    PSI_ASSERT(t->member != PSI_MEMBER_WAITED || t->mode == PS_SYNC_STALENESS);
}

/* The request that fills p's second buffer has ended. ok: the next pull takes the values; else the next pull reads. */
static void came(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact)
{
    if (p->value == PSI_VALUE_COMING) {
        value_move(t, p, ok ? PSI_VALUE_THERE : PSI_VALUE_STALE);
        p->next_version = version;
        p->next_exact = exact;
    }
}

void psi_training_read(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact)
{
    if (p->read == PSI_READING_AHEAD) {
        came(t, p, ok, version, exact);
    } else if (ok) {
        p->version = version;
        p->exact = exact;
        p->value_pull = p->read_pull;
    }
    p->read = PSI_READING_NONE;
}

void psi_training_pushed(struct psi_training *t, struct psi_training_param *p, bool ok, uint64_t version, bool exact)
{
    if (!t->prefetch) {
        came(t, p, ok, version, exact);
    }
    p->apart = false;
    gradient_move(t, p, PSI_GRADIENT_FREE);
}

void psi_training_refused(struct psi_training *t, struct psi_training_param *p)
{
    gradient_move(t, p, PSI_GRADIENT_FREE);
    value_move(t, p, PSI_VALUE_STALE); /* a push that could not start brings no values: the next pull reads them */
}

uint64_t psi_training_fetches(struct psi_training *t, struct psi_training_param *p)
{
    gradient_move(t, p, PSI_GRADIENT_FETCHING);
    t->fetching++;
    return p->push_number;
}

void psi_training_handed(struct psi_training *t, struct psi_training_param *p, uint64_t push_number)
{
    t->fetching--;
    if (p->push_number == push_number && p->gradient == PSI_GRADIENT_FETCHING) {
        gradient_move(t, p, PSI_GRADIENT_PUSHING);
    } else {
        PSI_MARK(t, PSI_MARK_LATE_HANDED);
    }
}

void psi_training_joined(struct psi_training *t, ps_sync_mode mode)
{
    t->mode = mode;
    member_move(t, PSI_MEMBER_JOINED);
}

void psi_training_stepped(struct psi_training *t)
{
    t->step++;
    if (t->member != PSI_MEMBER_NONE) { /* NONE: the session has left the rounds during its step */
        member_move(t, t->mode == PS_SYNC_STALENESS ? PSI_MEMBER_WAITED : PSI_MEMBER_STEPPED);
    }
}

void psi_training_left(struct psi_training *t)
{
    t->mode = PS_SYNC_NONE;
    member_move(t, PSI_MEMBER_NONE);
}

bool psi_training_is_pushed(const struct psi_training *t, const struct psi_training_param *p)
{
    return p->pushed_step == t->step;
}

void psi_training_forget(struct psi_training *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->params) {
        struct psi_training_param *p = PSI_CONTAINER_OF(it, struct psi_training_param, link);
        PSI_ASSERT(p->read == PSI_READING_NONE && p->gradient == PSI_GRADIENT_FREE);
        p->pushed_step = 0;
        p->value_pull = 0;
        p->exact = false;
        value_move(t, p, PSI_VALUE_STALE);
    }
    psi_list_move_all(&t->adds_spare, &t->adds_left);
    t->ending = NULL; /* a STEP call that still waits belongs to a step of the old model, so no addition is begun for it */
}

static enum psi_do over(struct psi_training *t, struct psi_call *call, enum psi_call_end end)
{
    if (call->turn && call->kind == PSI_CALL_STEP) {
        call->turn = false;
        state_move(t, PSI_TRAINING_RUNNING);
    }
    call->end = end;
    return PSI_DO_OVER;
}

/* True if a call cannot continue now. *out is OVER if it was interrupted, or WAIT if it must wait (busy). */
static bool waits(struct psi_training *t, struct psi_call *call, const struct psi_now *now, bool busy, enum psi_do *out)
{
    if (now->interrupted) {
        *out = over(t, call, PSI_END_INTERRUPTED);
    } else if (busy) {
        *out = PSI_DO_WAIT;
    }
    return now->interrupted || busy;
}

/* True if a call is over (*out), because the call was interrupted or the session has failed. */
static bool stops(struct psi_training *t, struct psi_call *call, const struct psi_now *now, enum psi_do *out)
{
    if (now->failed) {
        *out = over(t, call, PSI_END_FAILED);
        return true;
    }
    return waits(t, call, now, false, out);
}

enum { PULL_START, PULL_BEGIN, PULL_END, PULL_AHEAD };

/* Begin a stage of a pull, at the first of the call's parameters. */
static void to_stage(const struct psi_training *t, struct psi_call *call, unsigned stage)
{
    call->stage = stage;
    call->passed = false;
    call->at = call->param != NULL ? call->param : param_of(t, t->params.next);
}

/* The parameter that the present stage of the call has reached; NULL: the stage is done. */
static struct psi_training_param *present(const struct psi_training *t, struct psi_call *call)
{
    if (call->passed) {
        call->passed = false;
        call->at = call->param != NULL ? NULL : param_of(t, call->at->link.next);
    }
    return call->at;
}

/* True if a read of p may begin. Not while a read is in flight, nor while a device's gradient of p is being copied to the host:
 * the gradient is pushed first, so that the values include it. */
static bool may_read(const struct psi_training_param *p)
{
    return p->read == PSI_READING_NONE && p->gradient != PSI_GRADIENT_FETCHING;
}

static enum psi_do begin_read(const struct psi_training *t, struct psi_training_param *p, const struct psi_call *call)
{
    if (!may_read(p)) {
        return PSI_DO_WAIT;
    }
    p->read = PSI_READING_HERE;
    p->interrupts = call->interrupts;
    p->read_pull = t->pulls;
    return PSI_DO_READ;
}

static bool is_pulled(const struct psi_training_param *p)
{
    return p->open && !p->by_rows;
}

/* Begin to read the next parameter whose value is STALE. True: *out says what to do. False: all reads have begun. */
static bool pull_begin(struct psi_training *t, struct psi_call *call, const struct psi_now *now, enum psi_do *out)
{
    struct psi_training_param *p = NULL;
    while (!now->interrupted && (p = present(t, call)) != NULL) {
        if (!is_pulled(p) || p->value != PSI_VALUE_STALE) {
            call->passed = true;
            continue;
        }
        *out = begin_read(t, p, call);
        return true;
    }
    to_stage(t, call, PULL_END);
    return false;
}

/* True if values of p are on their way and the call must wait for them. An interrupted call waits only for reads that the
 * interrupt ends, because they write to the program's memory until then. */
static bool waits_for_values(struct psi_training *t, const struct psi_training_param *p, const struct psi_call *call,
                             const struct psi_now *now)
{
    const bool coming = p->read != PSI_READING_NONE || p->value == PSI_VALUE_COMING;
    const bool own = p->read == PSI_READING_HERE && p->interrupts == call->interrupts;
    if (own && now->interrupted) {
        PSI_MARK(t, PSI_MARK_OWN_READ);
    }
    return coming && (own || !now->interrupted);
}

/* Wait for the next parameter's values, and give them to the program. True: *out says what to do. False: all are given. */
static bool pull_end(struct psi_training *t, struct psi_call *call, const struct psi_now *now, enum psi_do *out)
{
    struct psi_training_param *p = NULL;
    while ((p = present(t, call)) != NULL) {
        if (waits_for_values(t, p, call, now)) {
            *out = PSI_DO_WAIT;
            return true;
        }
        const bool goes_on = !now->interrupted && !now->failed && !call->only_waits && is_pulled(p);
        if (goes_on && p->value == PSI_VALUE_STALE && p->value_pull < call->number) {
            PSI_MARK(t, PSI_MARK_READ_AGAIN);
            *out = begin_read(t, p, call);
            return true;
        }
        call->passed = true;
        if (now->interrupted || !is_pulled(p)) { /* if interrupted, values in the second buffer stay for the next call */
            continue;
        }
        call->exchange = p->value == PSI_VALUE_THERE;
        if (call->exchange) {
            p->version = p->next_version;
            p->exact = p->next_exact;
            p->value_pull = t->pulls;
            value_move(t, p, PSI_VALUE_STALE);
        }
        *out = PSI_DO_TAKE;
        return true;
    }
    if (stops(t, call, now, out)) {
        return true;
    }
    if (call->only_waits) { /* after a failure the call has not read all values: REFUSED, even if the session has recovered */
        *out = over(t, call, PSI_END_REFUSED);
        return true;
    }
    to_stage(t, call, PULL_AHEAD);
    return false;
}

static enum psi_do pull_ahead(struct psi_training *t, struct psi_call *call, const struct psi_now *now)
{
    enum psi_do what = PSI_DO_OVER;
    struct psi_training_param *p = NULL;
    while (t->prefetch && (p = present(t, call)) != NULL) {
        if (!is_pulled(p)) {
            call->passed = true;
            continue;
        }
        if (waits(t, call, now, !may_read(p), &what)) {
            return what;
        }
        p->read = PSI_READING_AHEAD;
        value_move(t, p, PSI_VALUE_COMING);
        return PSI_DO_AHEAD;
    }
    return over(t, call, PSI_END_FINE);
}

static enum psi_do pull(struct psi_training *t, struct psi_call *call, const struct psi_now *now)
{
    enum psi_do what = PSI_DO_OVER;
    if (call->stage == PULL_START) {
        call->number = ++t->pulls;
        to_stage(t, call, call->only_waits ? PULL_END : PULL_BEGIN);
    }
    if ((call->stage == PULL_BEGIN && pull_begin(t, call, now, &what)) ||
        (call->stage == PULL_END && pull_end(t, call, now, &what))) {
        return what;
    }
    return pull_ahead(t, call, now);
}

static void pull_did(struct psi_training *t, struct psi_call *call, bool ok)
{
    struct psi_training_param *p = call->at;
    call->passed = call->stage != PULL_END; /* at PULL_END the call stays at this parameter, and waits for its values */
    if (ok) {
        return;
    }
    p->read = PSI_READING_NONE;
    value_move(t, p, PSI_VALUE_STALE);
    if (call->stage == PULL_AHEAD) {
        call->refused = true;
    } else {
        call->only_waits = true;
        to_stage(t, call, PULL_END); /* the session has failed: reads that have begun must end before the call returns */
    }
}

enum { PUSH_START, PUSH_TAKE, PUSH_DONE };

static enum psi_do push(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    struct psi_training_param *p = call->param;
    const bool rounds = t->mode == PS_SYNC_ROUNDS;
    if (call->stage == PUSH_START) {
        if (rounds && psi_training_is_pushed(t, p)) {
            PSI_MARK(t, PSI_MARK_PUSHED_TWICE);
            PSI_IGNORE(psi_fail(err, PS_FAILED_PRECONDITION,
                                "parameter '%s' was pushed before in this step: a round takes one gradient of each worker, "
                                "ps_step_done() completes it",
                                p->name)); /* REFUSED tells the caller */
            return over(t, call, PSI_END_REFUSED);
        }
        p->pushed_step = rounds ? t->step : 0;
        call->stage = PUSH_TAKE;
    }
    if (call->stage == PUSH_DONE) {
        return over(t, call, PSI_END_FINE);
    }
    if (waits(t, call, now, p->gradient != PSI_GRADIENT_FREE, &what)) {
        p->pushed_step = what == PSI_DO_OVER ? 0 : p->pushed_step;
        return what;
    }
    gradient_move(t, p, PSI_GRADIENT_PUSHING);
    p->push_number++;
    call->stage = PUSH_DONE;
    call->brings = call->brings && !rounds && !t->prefetch; /* in rounds the new values exist only after the round */
    if (!t->prefetch) { /* with prefetch, the second buffer keeps the values that were read ahead for the next pull */
        value_move(t, p, call->brings ? PSI_VALUE_COMING : PSI_VALUE_STALE); /* older values lack this push's gradient */
    }
    return PSI_DO_PUSH;
}

enum { STEP_TURN, STEP_PUSHES, STEP_COUNT, STEP_ADDS };

/* True if a call that `wants` exclusive use of the session must wait, because a thread has it (state is not RUNNING). */
static bool is_taken(struct psi_training *t, bool wants)
{
    const bool taken = wants && t->state != PSI_TRAINING_RUNNING;
    if (taken) {
        PSI_MARK(t, PSI_MARK_TURN_WAITS);
    }
    return taken;
}

/* Write the trained parameters that were not pushed in this step: "'w', 'b' and 3 more"; "": none. */
static void not_pushed(const struct psi_training *t, char names[NAMES_BYTES])
{
    struct psi_list *it = NULL;
    size_t at = 0;
    uint32_t more = 0;
    names[0] = '\0';
    PSI_LIST_FOREACH(it, &t->params) {
        const struct psi_training_param *p = PSI_CONTAINER_OF(it, struct psi_training_param, link);
        if (!p->trained || psi_training_is_pushed(t, p)) {
            continue;
        }
        bool fits = more == 0 && at + strlen(p->name) + sizeof(", '' and 4294967295 more") < NAMES_BYTES;
        if (fits) {
            at += (size_t)snprintf(names + at, NAMES_BYTES - at, "%s'%s'", at > 0 ? ", " : "", p->name);
        }
        more += fits ? 0 : 1;
    }
    if (more > 0) {
        (void)snprintf(names + at, NAMES_BYTES - at, "%s%u%s", at > 0 ? " and " : "", more, at > 0 ? " more" : " parameters");
    }
}

/* Let the caller wait for the other workers. True: *out says how. False: nothing to do, because the session is no member, or an
 * earlier, interrupted call has waited for them. */
static bool meet(struct psi_training *t, struct psi_call *call, enum psi_do *out, struct psi_err *err)
{
    char names[NAMES_BYTES] = "";
    call->stage = STEP_COUNT;
    call->rounds = t->mode == PS_SYNC_ROUNDS;
    if (t->member == PSI_MEMBER_NONE || t->member == PSI_MEMBER_WAITED) {
        return false;
    }
    if (call->rounds) {
        not_pushed(t, names);
    }
    if (names[0] != '\0') {
        PSI_MARK(t, PSI_MARK_NOT_PUSHED);
        PSI_IGNORE(psi_fail(err, PS_FAILED_PRECONDITION,
                            "not pushed since the last step: %s; in rounds every parameter takes part in each",
                            names)); /* REFUSED tells the caller */
        *out = over(t, call, PSI_END_REFUSED);
        return true;
    }
    call->first = t->member == PSI_MEMBER_JOINED;
    *out = PSI_DO_STEP;
    return true;
}

static enum psi_do step_over(struct psi_training *t, struct psi_call *call)
{
    if (t->member == PSI_MEMBER_WAITED) {
        member_move(t, PSI_MEMBER_STEPPED);
    }
    call->counted = true;
    return over(t, call, PSI_END_FINE);
}

static struct psi_training_add *add_of(struct psi_list *link)
{
    return link != NULL ? PSI_CONTAINER_OF(link, struct psi_training_add, link) : NULL;
}

/* Wait until the addition to the global step is over. An interrupted call leaves the addition to the next call. */
static enum psi_do adds(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    struct psi_training_add *add = call->add;
    if (!add->over && !now->interrupted) {
        return PSI_DO_WAIT;
    }
    call->add = NULL;
    psi_list_push_front(add->over ? &t->adds_spare : &t->adds_left, &add->link);
    if (!add->over) {
        call->add_pending = true;
        return over(t, call, PSI_END_INTERRUPTED);
    }
    call->value = add->value;
    if (add->err.code != PS_OK) {
        *err = add->err;
        /* the gradients of the step are applied, whatever has become of the addition */
        err->applied = err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied;
        return over(t, call, PSI_END_REFUSED);
    }
    return step_over(t, call);
}

/* Count the step, unless its round has counted it: add one to the global step, or wait for the addition that an interrupted call
 * has begun. Counting comes last, so that a step that is broken off does not count. */
static enum psi_do count(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    if (call->rounds) {
        return step_over(t, call);
    }
    call->stage = STEP_ADDS;
    call->add = add_of(psi_list_pop_front(&t->adds_left));
    if (call->add != NULL) {
        PSI_MARK(t, PSI_MARK_ADD_LEFT);
        return adds(t, call, now, err);
    }
    call->add = add_of(psi_list_pop_front(&t->adds_spare));
    return PSI_DO_ADD;
}

struct psi_training_add *psi_training_begins_add(struct psi_training *t)
{
    struct psi_call *call = t->ending;
    const bool begins = call != NULL && call->stage == STEP_PUSHES && !call->skips && t->pushes == 0 &&
                        t->member == PSI_MEMBER_NONE && psi_list_empty(&t->adds_left) && !psi_list_empty(&t->adds_spare);
    if (!begins) {
        return NULL;
    }
    PSI_MARK(t, PSI_MARK_ADD_AT_ONCE);
    call->stage = STEP_ADDS;
    call->rounds = false;
    call->add = add_of(psi_list_pop_front(&t->adds_spare));
    call->add->over = false;
    return call->add;
}

bool psi_training_ending_waits(const struct psi_training *t)
{
    const struct psi_call *call = t->ending;
    return call != NULL && (call->stage == STEP_PUSHES ? t->pushes > 0 : !call->add->over);
}

static enum psi_do next_of_step(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    switch (call->stage) {
    case STEP_TURN:
        if (waits(t, call, now, is_taken(t, !call->nested && t->member != PSI_MEMBER_NONE), &what)) {
            return what;
        }
        call->turn = !call->nested && t->member != PSI_MEMBER_NONE;
        if (call->turn) {
            state_move(t, PSI_TRAINING_STEPPING);
        }
        call->stage = STEP_PUSHES;
        return PSI_DO_CHECK;
    case STEP_PUSHES:
        /* an interrupt does not end the wait of a skipped step: CHECK skips a step once; the next call would count the step */
        if (t->pushes > 0 && (call->skips || !now->interrupted)) {
            return PSI_DO_WAIT;
        }
        if (call->skips) {
            return over(t, call, PSI_END_FINE);
        }
        if (stops(t, call, now, &what) || meet(t, call, &what, err)) {
            return what;
        }
        return count(t, call, now, err);
    case STEP_COUNT:
        return count(t, call, now, err);
    default:
        return adds(t, call, now, err);
    }
}

static enum psi_do step(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    t->ending = t->ending == call ? NULL : t->ending;
    const enum psi_do what = next_of_step(t, call, now, err);
    const bool sleeps = what == PSI_DO_WAIT && (call->stage == STEP_PUSHES || call->stage == STEP_ADDS);
    t->ending = sleeps && t->ending == NULL ? call : t->ending;
    return what;
}

static void step_did(struct psi_training *t, struct psi_call *call, bool ok)
{
    call->refused = !ok;
    if (!ok && call->stage == STEP_ADDS && call->add != NULL) {
        psi_list_push_front(&t->adds_spare, &call->add->link);
        call->add = NULL;
    }
}

/* Give an interrupted call a gradient buffer that no push uses. The call waits while a device's gradient is being copied into the
 * buffer, or while a push uses the only buffer. */
static enum psi_do exchange(struct psi_training *t, struct psi_call *call)
{
    struct psi_training_param *p = call->param;
    const bool pushes = p->gradient == PSI_GRADIENT_PUSHING;
    if (p->gradient != PSI_GRADIENT_FREE && !(pushes && (p->apart || call->has_apart))) {
        return PSI_DO_WAIT;
    }
    if (!pushes || p->apart) {
        return over(t, call, PSI_END_FINE);
    }
    p->apart = true;
    call->at = p;
    return PSI_DO_TAKE;
}

enum psi_do psi_training_next(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    if (call->refused) {
        return over(t, call, PSI_END_REFUSED);
    }
    if (now->on_loop && call->kind != PSI_CALL_PUSH) { /* a callback of the loop would wait for the loop itself */
        (void)psi_fail(err, PS_FAILED_PRECONDITION, PSI_CALL_BLOCKS);
        return over(t, call, PSI_END_REFUSED);
    }
    switch (call->kind) {
    case PSI_CALL_PULL:
        return pull(t, call, now);
    case PSI_CALL_PUSH:
        return push(t, call, now, err);
    case PSI_CALL_STEP:
        return step(t, call, now, err);
    case PSI_CALL_READY:
        if (!waits(t, call, now, is_taken(t, !call->nested), &what) && !call->nested) {
            call->turn = true;
            state_move(t, PSI_TRAINING_READYING);
        }
        break;
    case PSI_CALL_EXCHANGE:
        return exchange(t, call);
    case PSI_CALL_GRADIENT:
        if (call->param->gradient != PSI_GRADIENT_FREE) {
            PSI_IGNORE(waits(t, call, now, true, &what)); /* `what` tells the caller */
        }
        break;
    case PSI_CALL_QUIET:
        PSI_IGNORE(waits(t, call, now, t->pushes > 0, &what)); /* `what` tells the caller */
        break;
    }
    return what;
}

void psi_training_did(struct psi_training *t, struct psi_call *call, bool ok)
{
    switch (call->kind) {
    case PSI_CALL_PULL:
        pull_did(t, call, ok);
        break;
    case PSI_CALL_PUSH:
        call->refused = !ok;
        if (!ok) {
            psi_training_refused(t, call->param);
        }
        break;
    default:
        step_did(t, call, ok);
        break;
    }
}

void psi_training_turn_over(struct psi_training *t)
{
    state_move(t, PSI_TRAINING_RUNNING);
}
