/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library calls of the training programs of train.c: hooks, and callbacks of the loop. Hooks: each session has the
 * machine of hooks (worker/core/hook_calls.h) beside that of training, as worker/api has. A thread for which a moment has come
 * waits until no other thread calls hooks, and calls them one after the other. A hook takes its time; it returns, fails, says
 * that the input has ended, or is interrupted. Meanwhile other threads go on, recover the session, or close it.
 *
 * The oracle has a book of its own of what was called:
 *   - one thread at a time is in a hook;
 *   - the hooks of a moment are called in their order, from the first one on, or from the one at which an interrupt has ended the
 *     moment's last calls;
 *   - nothing comes before `begin`, no step before `after_create_session`, and nothing after `end`, which comes once;
 *   - a step that counts comes to its after_run once, and has had one before_run, unless the session was made anew within it.
 */
#include "train.h"

enum { HOOKS_MOST = 3, HOOK_MS = 40 };

static const char *const names[PSI_HOOK_MOMENTS] = {[PSI_HOOK_BEGIN] = "begin",
                                                    [PSI_HOOK_CREATED] = "after_create_session",
                                                    [PSI_HOOK_BEFORE_RUN] = "before_run",
                                                    [PSI_HOOK_AFTER_RUN] = "after_run",
                                                    [PSI_HOOK_END] = "end"};

void sim_hooks_begin(struct sim *s, struct sim_train *t)
{
    const struct psi_who who = {.thread = 1};
    const uint32_t count = (uint32_t)sim_below(s, HOOKS_MOST + 1);
    for (uint32_t i = 0; i < count; i++) {
        (void)psi_hook_event(&t->hooks.m, &who, PSI_ON_HOOK_ADD);
    }
}

enum psi_hook_moment sim_hooks_before(const struct sim_train *t)
{
    return !t->hooks.has_begun              ? PSI_HOOK_BEGIN
           : !t->ready                      ? PSI_HOOK_NONE /* ps_session_ready() */
           : !t->hooks.was_created          ? PSI_HOOK_CREATED
           : !t->stepping && t->pushed == 0 ? PSI_HOOK_BEFORE_RUN
                                            : PSI_HOOK_NONE;
}

void sim_hooks_come(const struct sim_train *t, struct thread *h, enum psi_hook_moment moment, bool recovered)
{
    const bool of_call =
        moment == PSI_HOOK_AFTER_RUN || (moment == PSI_HOOK_CREATED && !recovered && h->call.kind == PSI_CALL_READY);
    h->moment = (struct moment){.of = moment, .recovered = recovered, .interrupts = of_call ? h->call.interrupts : t->interrupts};
}

/* The first hook of a moment is called, or the one at which the last calls were interrupted. */
static void check_begin(struct sim *s, struct sim_train *t, enum psi_hook_moment of)
{
    struct hooks *k = &t->hooks;
    const bool fresh = k->m.at == 0;
    if (k->m.at != 0 && (k->cut != of || k->cut_at != k->m.at)) {
        sim_fail(s, "HOOKS: %s begins with hook %u, and was interrupted at hook %u of %s", names[of], k->m.at, k->cut_at,
                 k->cut != PSI_HOOK_NONE ? names[k->cut] : "nothing");
    }
    const bool early =
        (of != PSI_HOOK_BEGIN && !k->begun) || ((of == PSI_HOOK_BEFORE_RUN || of == PSI_HOOK_AFTER_RUN) && !k->created);
    if (early || (k->ended && of != PSI_HOOK_END)) {
        sim_fail(s, "HOOKS: %s comes %s", names[of], early ? "too early" : "after the end");
    }
    if (of == PSI_HOOK_BEFORE_RUN && fresh && k->stepping && k->cut != of) {
        sim_fail(s, "HOOKS: before_run comes twice in a step");
    }
    if (of == PSI_HOOK_AFTER_RUN && fresh && k->cut != of && ++k->told > t->counted) {
        sim_fail(s, "HOOKS: after_run of %llu steps, and %llu count", (unsigned long long)k->told,
                 (unsigned long long)t->counted);
    }
    k->begun = true;
    k->stepping = of == PSI_HOOK_BEFORE_RUN;
    k->cut = PSI_HOOK_NONE;
    s->count_train_hooks++;
}

/* The moment's calls are over, or there were none. */
static void over(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h, bool ok, bool cut)
{
    const struct psi_who who = sim_who(t, h);
    const enum psi_hook_moment of = h->moment.of;
    const bool due = h->moment.due;
    h->moment.of = PSI_HOOK_NONE;
    switch (of) {
    case PSI_HOOK_BEGIN:
        t->hooks.has_begun = !cut;
        break;
    case PSI_HOOK_CREATED:
        t->hooks.was_created = t->hooks.was_created || (!cut && !h->moment.recovered);
        break;
    case PSI_HOOK_BEFORE_RUN:
        t->stepping = !due || psi_hook_step_begins(&t->hooks.m, ok);
        t->hooks.stepping = t->hooks.stepping && t->stepping;
        if (!t->stepping && t->hooks.m.stop_asked) {
            s->trainer[p->index].until = s->now;
        }
        break;
    case PSI_HOOK_AFTER_RUN:
        if (!due && !t->hooks.ended) {
            sim_fail(s, "HOOKS: a step counts, and after_run does not come");
        }
        (void)psi_hook_event(&t->hooks.m, &who, PSI_ON_VALUES_SEEN);
        if (psi_hook_event(&t->hooks.m, &who, PSI_IS_STEP_LEFT) != 0 && sim_one_in(s, 2)) { /* the program ends its step again */
            sim_hooks_come(t, h, PSI_HOOK_AFTER_RUN, false);
        }
        break;
    default: /* PSI_HOOK_END */
        break;
    }
    psi_hook_calls_check_invariants(&t->hooks.m);
}

/* How the hook that runs now ends. */
static enum psi_hook_return hook_ends(struct sim *s, struct sim_train *t, const struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    if (h->moment.interrupts != t->interrupts && sim_one_in(s, 2)) {
        return PSI_HOOK_INTERRUPTED;
    }
    if (!s->k.quiet && sim_one_in(s, 300)) {
        sim_train_fails(s, t, &(struct psi_err){.code = sim_one_in(s, 2) ? PS_ABORTED : PS_INTERNAL},
                        h->moment.of == PSI_HOOK_BEGIN);
    } else if (!s->k.quiet && sim_one_in(s, 300)) {
        (void)psi_hook_event(&t->hooks.m, &who, PSI_ON_STOP_ASKED);
        return PSI_HOOK_INPUT_ENDED;
    }
    return psi_session_error(&t->m, &who, NULL) != PS_OK ? PSI_HOOK_FAILED : PSI_HOOK_RETURNED;
}

/* Go on with a hook. */
static void call(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h)
{
    struct hooks *k = &t->hooks;
    if (s->now < h->moment.until) {
        return;
    }
    const uint32_t at = k->m.at;
    const enum psi_hook_return how = hook_ends(s, t, h);
    const bool more = psi_hook_called(&k->m, how);
    const bool cut = how == PSI_HOOK_INTERRUPTED && h->moment.of != PSI_HOOK_END;
    if (more ? k->m.at != at + 1 : how == PSI_HOOK_RETURNED && at + 1 != k->m.count) {
        sim_fail(s, "HOOKS: after hook %u of %u of %s comes %u", at, k->m.count, names[h->moment.of],
                 more ? k->m.at : k->m.count);
    }
    if (more) {
        h->moment.until = s->now + sim_below(s, HOOK_MS);
        return;
    }
    k->cut = cut ? h->moment.of : PSI_HOOK_NONE;
    k->cut_at = at;
    over(s, p, t, h, how == PSI_HOOK_RETURNED, cut);
}

void sim_hooks_go_on(struct sim *s, const struct sim_program *p, struct sim_train *t, struct thread *h)
{
    struct hooks *k = &t->hooks;
    struct moment *m = &h->moment;
    const struct psi_who who = sim_who(t, h);
    if (m->in_hook) {
        call(s, p, t, h);
        return;
    }
    if (!m->asked) {
        const bool after = m->of == PSI_HOOK_AFTER_RUN || m->of == PSI_HOOK_CREATED;
        m->asked = true;
        m->due = psi_hook_comes(&k->m, &who, m->of, m->recovered);
        k->stepping = k->stepping && !after;
        k->ended = k->ended || m->of == PSI_HOOK_END;
        k->created = k->created || (m->of == PSI_HOOK_CREATED && !m->recovered);
    }
    const ps_status st = m->due ? psi_session_error(&t->m, &who, NULL) : PS_OK;
    if (!m->due || st != PS_OK || k->m.count == 0) {
        const bool again =
            m->due && st != PS_OK && k->m.count > 0 && m->of == PSI_HOOK_BEGIN; /* the program becomes ready later */
        if (again) {
            PSI_IGNORE(psi_hook_calls_begin(&k->m, &who, m->of, true)); /* none is called now */
            k->cut = m->of;
            k->cut_at = k->m.interrupted_at;
        }
        over(s, p, t, h, st == PS_OK, again);
        return;
    }
    const bool interrupted = m->interrupts != t->interrupts && m->of != PSI_HOOK_END; /* ps_session_close() is not */
    if (k->m.calling != PSI_HOOK_NONE && !interrupted) {
        return;
    }
    const enum psi_hook_moment left = k->m.interrupted;
    if (psi_hook_calls_begin(&k->m, &who, m->of, interrupted)) {
        m->in_hook = true;
        m->until = s->now + sim_below(s, HOOK_MS);
        check_begin(s, t, m->of);
    } else if (k->ended && m->of != PSI_HOOK_END) {
        over(s, p, t, h, false, false);
    } else {
        k->cut = m->of;
        k->cut_at = left == m->of ? k->m.interrupted_at : 0;
        over(s, p, t, h, false, true);
    }
    psi_hook_calls_check_invariants(&k->m);
}

/* The loop calls the program back: no call that it makes there may wait. */
void sim_train_call_back(struct sim *s, struct sim_train *t)
{
    struct psi_err err = {0};
    struct psi_call call = sim_train_any(s, t);
    const struct psi_now now = {.on_loop = true, .interrupted = sim_one_in(s, 4), .failed = sim_one_in(s, 4)};
    if (call.kind == PSI_CALL_PUSH || call.kind == PSI_CALL_STEP) {
        return; /* these do more than wait */
    }
    call.only_waits = now.failed;
    s->count_train_back++;
    if (psi_training_next(&t->t, &call, &now, &err) != PSI_DO_OVER || call.end != PSI_END_REFUSED || err.code == PS_OK) {
        sim_fail(s, "WAITS IN A CALLBACK: call %d", (int)call.kind);
    }
}
