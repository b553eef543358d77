/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training as a machine: training.h.
 *
 * Happy path: a pull reads every parameter that has no values, and waits for all -> a push takes the gradient buffer, and is
 * handed over -> the end of a step waits for the pushes, meets the other workers (a member), and adds one to the global step (who
 * is in no round). Failure modes: a call that is interrupted stops where it is, takes back what it has not handed over, and
 * leaves the rest to the next call: values on their way, and an addition, which is never made twice. A failed session is the
 * caller's to know; the machine asks before it begins anything that waits.
 */
#include "training.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES = 300 };

/* ---- states and their ways ---- */

#define TO(state) (1u << (state))
static const uint8_t VALUE_WAYS[PSI_VALUES] = {
    [PSI_VALUE_STALE] = TO(PSI_VALUE_COMING),
    [PSI_VALUE_COMING] = TO(PSI_VALUE_THERE) | TO(PSI_VALUE_STALE), /* STALE: it failed, or the model is gone */
    [PSI_VALUE_THERE] = TO(PSI_VALUE_STALE) | TO(PSI_VALUE_COMING), /* a pull has them, or a later push makes them old */
};
static const uint8_t GRADIENT_WAYS[PSI_GRADIENTS] = {
    [PSI_GRADIENT_FREE] = TO(PSI_GRADIENT_PUSHING),
    [PSI_GRADIENT_PUSHING] = TO(PSI_GRADIENT_FREE) | TO(PSI_GRADIENT_FETCHING),
    [PSI_GRADIENT_FETCHING] = TO(PSI_GRADIENT_PUSHING) | TO(PSI_GRADIENT_FREE),
};
static const uint8_t STATE_WAYS[PSI_TRAINING_STATES] = {
    [PSI_TRAINING_RUNNING] = TO(PSI_TRAINING_READYING) | TO(PSI_TRAINING_STEPPING),
    [PSI_TRAINING_READYING] = TO(PSI_TRAINING_RUNNING),
    [PSI_TRAINING_STEPPING] = TO(PSI_TRAINING_RUNNING),
};
static const uint8_t MEMBER_WAYS[PSI_MEMBERSHIPS] = {
    [PSI_MEMBER_NONE] = TO(PSI_MEMBER_JOINED),
    [PSI_MEMBER_JOINED] = TO(PSI_MEMBER_STEPPED) | TO(PSI_MEMBER_WAITED) | TO(PSI_MEMBER_NONE),
    [PSI_MEMBER_STEPPED] = TO(PSI_MEMBER_WAITED) | TO(PSI_MEMBER_JOINED) | TO(PSI_MEMBER_NONE),
    [PSI_MEMBER_WAITED] = TO(PSI_MEMBER_STEPPED) | TO(PSI_MEMBER_JOINED) | TO(PSI_MEMBER_NONE),
};
static const struct {
    const char *name;
    const uint8_t *ways;
    unsigned states, marks;
} TABLES[] = {{"value", VALUE_WAYS, PSI_VALUES, PSI_MARKS_VALUE},
              {"gradient", GRADIENT_WAYS, PSI_GRADIENTS, PSI_MARKS_GRADIENT},
              {"state", STATE_WAYS, PSI_TRAINING_STATES, PSI_MARKS_STATE},
              {"member", MEMBER_WAYS, PSI_MEMBERSHIPS, PSI_MARKS_MEMBER}};
_Static_assert(PSI_MARKS <= 64, "bits of psi_training.marks");

/* The one way from a state to another; to stay is always allowed. Returns `to`. */
static unsigned move(struct psi_training *t, const uint8_t *ways, unsigned marks, unsigned from, unsigned to)
{
    if (from != to) {
        PSI_ASSERT((ways[from] >> to & 1u) != 0);
        PSI_MARK(t, marks + from * 4 + to);
    }
    return to;
}

static void value_move(struct psi_training *t, struct psi_training_param *p, enum psi_param_value to)
{
    p->value = (enum psi_param_value)move(t, VALUE_WAYS, PSI_MARKS_VALUE, p->value, to);
}

static void gradient_move(struct psi_training *t, struct psi_training_param *p, enum psi_param_gradient to)
{
    t->pushes += p->gradient == PSI_GRADIENT_FREE ? 1 : 0;
    p->gradient = (enum psi_param_gradient)move(t, GRADIENT_WAYS, PSI_MARKS_GRADIENT, p->gradient, to);
    t->pushes -= p->gradient == PSI_GRADIENT_FREE ? 1 : 0;
}

static void state_move(struct psi_training *t, enum psi_training_state to)
{
    t->state = (enum psi_training_state)move(t, STATE_WAYS, PSI_MARKS_STATE, t->state, to);
}

static void member_move(struct psi_training *t, enum psi_membership to)
{
    t->member = (enum psi_membership)move(t, MEMBER_WAYS, PSI_MARKS_MEMBER, t->member, to);
}

bool psi_training_unmarked(uint64_t marks, char out[64])
{
    for (size_t i = 0; i < sizeof(TABLES) / sizeof(TABLES[0]); i++) {
        for (unsigned way = 0; way < TABLES[i].states * 4; way++) {
            if (((unsigned)TABLES[i].ways[way / 4] >> way % 4 & 1u) != 0 && (marks >> (TABLES[i].marks + way) & 1u) == 0) {
                (void)snprintf(out, 64, "%s: %u to %u", TABLES[i].name, way / 4, way % 4);
                return true;
            }
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
        /* somebody brings the values that are on their way */
        PSI_ASSERT(p->value != PSI_VALUE_COMING || p->read == PSI_READING_AHEAD || p->gradient != PSI_GRADIENT_FREE);
        PSI_ASSERT(p->read != PSI_READING_AHEAD || t->prefetch);
        PSI_ASSERT(p->open || (p->read == PSI_READING_NONE && p->gradient == PSI_GRADIENT_FREE));
        PSI_ASSERT(p->pushed_step <= t->step);
    }
    PSI_ASSERT(pushes == t->pushes);
    PSI_ASSERT((t->member == PSI_MEMBER_NONE) == (t->mode == PS_SYNC_NONE));
    PSI_ASSERT(t->member != PSI_MEMBER_WAITED || t->mode == PS_SYNC_STALENESS);
}

/* ---- ends of requests ---- */

/* The request that fills the second buffer has ended. ok: the next pull takes its values; else the next pull reads. */
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
    value_move(t, p, PSI_VALUE_STALE); /* the session has failed, or the call was interrupted */
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

bool psi_training_exchanges(struct psi_training_param *p)
{
    const bool exchanges = p->gradient == PSI_GRADIENT_PUSHING && !p->apart;
    p->apart = p->apart || exchanges;
    return exchanges;
}

/* ---- membership ---- */

void psi_training_joined(struct psi_training *t, ps_sync_mode mode)
{
    t->mode = mode;
    member_move(t, PSI_MEMBER_JOINED);
}

void psi_training_stepped(struct psi_training *t)
{
    t->step++;
    if (t->member != PSI_MEMBER_NONE) { /* it may have left beside its step */
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
}

/* ---- calls ---- */

static enum psi_do over(struct psi_training *t, struct psi_call *call, enum psi_call_end end)
{
    if (call->turn && call->kind == PSI_CALL_STEP) {
        call->turn = false;
        state_move(t, PSI_TRAINING_RUNNING);
    }
    call->end = end;
    return PSI_DO_OVER;
}

/* True: the call is interrupted, and over, or waits while `busy`; *out says so. */
static bool waits(struct psi_training *t, struct psi_call *call, const struct psi_now *now, bool busy, enum psi_do *out)
{
    if (now->interrupted) {
        *out = over(t, call, PSI_END_INTERRUPTED);
    } else if (busy) {
        *out = PSI_DO_WAIT;
    }
    return now->interrupted || busy;
}

/* waits(), and over after a failure of the session. */
static bool stops(struct psi_training *t, struct psi_call *call, const struct psi_now *now, enum psi_do *out)
{
    if (now->failed) {
        *out = over(t, call, PSI_END_FAILED);
        return true;
    }
    return waits(t, call, now, false, out);
}

/* ---- pulls ---- */

enum { PULL_START, PULL_BEGIN, PULL_END, PULL_AHEAD };

/* A stage of a pull goes through its parameters, in order of creation. */
static void to_stage(const struct psi_training *t, struct psi_call *call, unsigned stage)
{
    call->stage = stage;
    call->passed = false;
    call->at = call->param != NULL ? call->param : param_of(t, t->params.next);
}

/* The parameter that the stage has come to; NULL: it is through. */
static struct psi_training_param *present(const struct psi_training *t, struct psi_call *call)
{
    if (call->passed) {
        call->passed = false;
        call->at = call->param != NULL ? NULL : param_of(t, call->at->link.next);
    }
    return call->at;
}

/* Nothing reads p, and no gradient of it comes from a device: such a gradient is pushed before a read, whose values then contain
 * it. */
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

/* Pulls read its values. */
static bool is_pulled(const struct psi_training_param *p)
{
    return p->open && !p->by_rows;
}

/* Read what has no values. False: all is begun that is to begin. */
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

/* Values of p are on their way, and the call must wait for them. An interrupted call waits only for values that the interrupt
 * ends, because these are written to the program's memory until then. */
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

/* Wait for the values, and give them to the program. False: it has them all, and values are read ahead. */
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
        if (now->interrupted || !is_pulled(p)) { /* the next call takes the second buffer */
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
    call->passed = call->stage != PULL_END; /* there it waits for the values next */
    if (ok) {
        return;
    }
    p->read = PSI_READING_NONE;
    value_move(t, p, PSI_VALUE_STALE);
    if (call->stage == PULL_AHEAD) {
        call->refused = true;
    } else {
        call->only_waits = true;
        to_stage(t, call, PULL_END); /* what was begun ends before the call does; the session has failed */
    }
}

/* ---- pushes ---- */

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
    call->brings = call->brings && !rounds && !t->prefetch; /* in rounds the new values exist only when the round has ended */
    if (!t->prefetch) { /* with prefetch, values for the next pull are there, or on their way */
        value_move(t, p, call->brings ? PSI_VALUE_COMING : PSI_VALUE_STALE); /* values that are there lack this gradient */
    }
    return PSI_DO_PUSH;
}

/* ---- steps ---- */

enum { STEP_TURN, STEP_PUSHES, STEP_COUNT, STEP_ADDS };

/* Another thread has the session for itself. */
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

/* Meet the other workers. False: the session is no member, or this wait was over before the call before was interrupted. */
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

/* Wait for the addition; an interrupted call leaves it to the next one. */
static enum psi_do adds(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    struct psi_training_add *add = call->add;
    if (!add->over && !now->interrupted) {
        return PSI_DO_WAIT;
    }
    call->add = NULL;
    psi_list_push_front(add->over ? &t->adds_spare : &t->adds_left, &add->link);
    if (!add->over) {
        call->left = true;
        return over(t, call, PSI_END_INTERRUPTED);
    }
    call->value = add->value;
    if (add->err.code != PS_OK) {
        *err = add->err;
        err->applied = err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied; /* the gradients are */
        return over(t, call, PSI_END_REFUSED);
    }
    return step_over(t, call);
}

/* Await the addition of an interrupted call, or begin one. It comes last: a step that is broken off before is not counted, and is
 * made again. */
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
    const bool begins = call != NULL && call->stage == STEP_PUSHES && t->pushes == 0 && t->member == PSI_MEMBER_NONE &&
                        psi_list_empty(&t->adds_left) && !psi_list_empty(&t->adds_spare);
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
        if (call->skips) {
            return over(t, call, PSI_END_FINE);
        }
        if (t->pushes > 0 && !now->interrupted) {
            return PSI_DO_WAIT;
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

/* ---- all kinds ---- */

enum psi_do psi_training_next(struct psi_training *t, struct psi_call *call, const struct psi_now *now, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    if (call->refused) {
        return over(t, call, PSI_END_REFUSED);
    }
    if (now->on_loop && call->kind != PSI_CALL_PUSH) { /* what it waits for would be waiting for it */
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
    case PSI_CALL_GRADIENT:
        if (call->param->gradient != PSI_GRADIENT_FREE) {
            PSI_IGNORE(waits(t, call, now, true, &what)); /* *what says so */
        }
        break;
    case PSI_CALL_QUIET:
        PSI_IGNORE(waits(t, call, now, t->pushes > 0, &what)); /* *what says so */
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
