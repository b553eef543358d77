/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State machine that says which hook of a session is called next; hook_calls.h draws it.
 *
 * Happy path: hooks are called at moments (enum psi_hook_moment): BEGIN and CREATED, then BEFORE_RUN and AFTER_RUN in each step,
 * and END. Failure modes: a hook that fails ends the calls of its moment; an interrupted call is made again when its moment comes
 * again; a recovery within a step makes the step BROKEN; a guard that skips too many steps in a row stops the session.
 */
#include "hook_calls.h"

void psi_hook_calls_check_invariants(const struct psi_hook_calls *m)
{
    PSI_ASSERT((m->calling == PSI_HOOK_NONE) == (m->caller == 0));
    PSI_ASSERT(m->calling == PSI_HOOK_NONE || m->at < m->count);
    PSI_ASSERT(m->interrupted == PSI_HOOK_NONE || m->interrupted_at < m->count);
    PSI_ASSERT(m->step == PSI_HOOKS_BETWEEN || m->age >= PSI_HOOKS_CREATED);
}

bool psi_hook_calls_within(const struct psi_hook_calls *m, const struct psi_who *who)
{
    return m->calling != PSI_HOOK_NONE && m->caller == who->thread;
}

static void values_drop(struct psi_hook_calls *m)
{
    m->skipping = false;
    m->values_step++;
}

static void step_over(struct psi_hook_calls *m, const struct psi_who *who)
{
    m->trainer = who->thread;
    m->step = PSI_HOOKS_BETWEEN;
}

/* ---- moments ---- */

static bool begin_comes(struct psi_hook_calls *m)
{
    const bool first = m->age == PSI_HOOKS_NEW;
    m->age = first ? PSI_HOOKS_BEGUN : m->age;
    return first || m->interrupted == PSI_HOOK_BEGIN;
}

static bool created_comes(struct psi_hook_calls *m, const struct psi_who *who, bool recovered)
{
    if (!recovered) {
        m->trainer = who->thread;
        m->age = m->age < PSI_HOOKS_CREATED ? PSI_HOOKS_CREATED : m->age;
    }
    m->made_anew = recovered;
    m->step = m->step == PSI_HOOKS_STEPPING ? PSI_HOOKS_BROKEN : m->step;
    return m->age == PSI_HOOKS_CREATED;
}

static bool before_run_comes(struct psi_hook_calls *m, const struct psi_who *who)
{
    if (m->age != PSI_HOOKS_CREATED || m->step == PSI_HOOKS_STEPPING || m->trainer != who->thread) {
        return false;
    }
    /* a new step begins: if an interrupt cut off the AFTER_RUN hooks of the last step, the rest of them is never called */
    m->interrupted = m->interrupted == PSI_HOOK_AFTER_RUN ? PSI_HOOK_NONE : m->interrupted;
    if (m->step == PSI_HOOKS_BROKEN) {
        values_drop(m);
    }
    m->step = PSI_HOOKS_STEPPING;
    return true;
}

static bool end_comes(struct psi_hook_calls *m)
{
    const bool ends = m->age == PSI_HOOKS_CREATED;
    m->age = PSI_HOOKS_ENDED;
    return ends;
}

bool psi_hook_comes(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_moment moment, bool recovered)
{
    const bool within = psi_hook_calls_within(m, who);
    switch (moment) {
    case PSI_HOOK_BEGIN:
        return begin_comes(m) && !within;
    case PSI_HOOK_CREATED:
        return created_comes(m, who, recovered) && !within;
    case PSI_HOOK_BEFORE_RUN:
        return !within && before_run_comes(m, who);
    case PSI_HOOK_AFTER_RUN:
        if (!within) {
            step_over(m, who);
            m->skips_in_row = 0;
        }
        return !within && m->age != PSI_HOOKS_ENDED; /* ENDED: another thread has closed the session within this step */
    default:                                         /* PSI_HOOK_END */
        return end_comes(m) && !within;
    }
}

bool psi_hook_calls_begin(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_moment moment, bool interrupted)
{
    const uint32_t first = m->interrupted == moment ? m->interrupted_at : 0;
    PSI_ASSERT((interrupted || m->calling == PSI_HOOK_NONE) && first < m->count);
    if (m->age == PSI_HOOKS_ENDED && moment != PSI_HOOK_END) {
        return false;
    }
    if (interrupted) {
        m->interrupted = moment;
        m->interrupted_at = first;
        return false;
    }
    m->calling = moment;
    m->caller = who->thread;
    m->at = first;
    return true;
}

bool psi_hook_called(struct psi_hook_calls *m, enum psi_hook_return how)
{
    const bool at_end = m->calling == PSI_HOOK_END; /* at the end, an interrupted hook does not stop the later ones */
    const bool goes_on = how == PSI_HOOK_RETURNED || (at_end && how != PSI_HOOK_FAILED);
    if (goes_on && m->at + 1 < m->count) {
        m->at++;
        return true;
    }
    m->interrupted = how == PSI_HOOK_INTERRUPTED && !at_end ? m->calling : PSI_HOOK_NONE;
    m->interrupted_at = m->at;
    m->calling = PSI_HOOK_NONE;
    m->caller = 0;
    return false;
}

bool psi_hook_step_begins(struct psi_hook_calls *m, bool ok)
{
    const bool begins = ok && !m->stop_asked;
    if (begins) {
        m->step = PSI_HOOKS_STEPPING;
    } else if (m->step == PSI_HOOKS_STEPPING) {
        m->step = PSI_HOOKS_BETWEEN;
    }
    return begins;
}

/* ---- other events ---- */

enum psi_guarded psi_hook_guard(struct psi_hook_calls *m, ps_nan_action action, bool pushed, bool *out_news)
{
    const bool late = pushed || m->calling == PSI_HOOK_AFTER_RUN;
    *out_news = false;
    if (action == 0 || (m->skipping && action == PS_NAN_SKIP)) {
        return PSI_GUARD_PASSES;
    }
    if (action == PS_NAN_END) { /* training ends after this step, which is skipped if it is not too late for that */
        *out_news = !m->stop_asked;
        m->skipping = m->skipping || !late;
        m->stop_asked = true;
        return PSI_GUARD_ENDS;
    }
    if (action == PS_NAN_STOP || m->skips_in_row >= PS_NAN_SKIPS_MAX) {
        return PSI_GUARD_STOPS;
    }
    if (late) {
        return PSI_GUARD_TOO_LATE;
    }
    *out_news = m->skipping = true;
    return PSI_GUARD_SKIPS;
}

static bool step_skipped(struct psi_hook_calls *m, const struct psi_who *who)
{
    if (!m->skipping || psi_hook_calls_within(m, who)) {
        return false;
    }
    step_over(m, who);
    values_drop(m);
    m->skipped++;
    m->skips_in_row++;
    return true;
}

uint64_t psi_hook_event(struct psi_hook_calls *m, const struct psi_who *who, enum psi_hook_event event)
{
    bool answer = true;
    switch (event) {
    case PSI_ON_HOOK_ADD:
        answer = m->age == PSI_HOOKS_NEW;
        m->count += answer ? 1 : 0;
        break;
    case PSI_ON_STOP_ASKED:
        answer = !m->stop_asked;
        m->stop_asked = true;
        break;
    case PSI_ON_STEP_SKIPPED:
        answer = step_skipped(m, who);
        break;
    case PSI_ON_VALUES_SEEN:
        answer = m->interrupted != PSI_HOOK_AFTER_RUN;
        if (answer) {
            values_drop(m);
        }
        break;
    case PSI_IN_HOOK:
        answer = psi_hook_calls_within(m, who);
        break;
    case PSI_IS_STEP_SKIPPED:
        answer = m->skipping;
        break;
    case PSI_IS_CREATED_LEFT:
        answer = m->made_anew && m->interrupted == PSI_HOOK_CREATED;
        break;
    case PSI_IS_STEP_LEFT:
        answer = m->interrupted == PSI_HOOK_AFTER_RUN && !psi_hook_calls_within(m, who);
        break;
    }
    return answer ? 1 : 0;
}
