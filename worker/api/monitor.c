/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a monitored session (which recovers from losses), and functions that read its state or report events to it. The
 * state is in the machine of worker/core/session.h. No function here waits; monitored.c recovers sessions. */
#include "lock.h"
#include "monitored.h"

#include "common/abi.h"
#include "common/mem.h"

#include <string.h>

enum { RECOVERIES = 10, RECOVERY_MS = 600000 };

void ps_monitored_options_init(ps_monitored_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
    options->max_recoveries = RECOVERIES;
    options->max_recovery_ms = RECOVERY_MS;
}

ps_status psi_monitor_new(const ps_monitored_options *options, struct psi_monitor **out_monitor, struct psi_err *err)
{
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_monitored_options_init", err) : PS_OK;
    if (st == PS_OK && o.max_recovery_ms <= 0) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "max_recovery_ms: %lld ms is not > 0", (long long)o.max_recovery_ms);
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "options of the monitored session");
        return st;
    }
    struct psi_monitor *m = psi_calloc(1, sizeof(*m));
    if (m == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    }
    m->options = o;
    *out_monitor = m;
    return PS_OK;
}

void psi_monitor_free(struct psi_monitor *m)
{
    psi_free(m);
}

bool psi_monitor_is_here(const ps_session *s)
{
    return s != NULL && s->monitor != NULL && psi_api_here(s);
}

bool psi_monitor_says(ps_session *s, ps_status st)
{
    return psi_monitor_tell(s, PSI_MAY_RECOVER, 0) != 0 && psi_api_sticky(s, NULL) == st;
}

uint32_t psi_monitor_life(ps_session *s)
{
    uint32_t life = 0;
    if (psi_monitor_is_here(s)) {
        psi_api_copy(s, &life, &s->monitor->last.count, sizeof(life));
    }
    return life;
}

bool psi_monitor_deletes(const ps_session *s, const ps_variable *v)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->gets.kept) {
        const struct psi_api_get *get = PSI_CONTAINER_OF(it, struct psi_api_get, get.link);
        if (get->v == v && get->get.state == PSI_GET_DELETED) {
            return true;
        }
    }
    return s->machine.deleting > 0;
}

bool psi_monitor_is_lost(ps_session *s)
{
    struct psi_err err = {0};
    return s->monitor != NULL && psi_api_check(s, false, &err) == PS_OK && psi_api_tell(s, PSI_IS_LOST, 0) != 0;
}

ps_status psi_monitor_found(ps_session *s, struct psi_found *out_found)
{
    psi_api_copy(s, out_found, &s->monitor->found, sizeof(*out_found));
    return PS_OK;
}

ps_status psi_monitor_step(ps_session *s, enum psi_session_event event, struct psi_err *err)
{
    if (!psi_monitor_is_here(s)) {
        return PS_OK;
    }
    struct psi_api_visit *visit = psi_api_visit_of(s);
    const uint64_t life = psi_api_tell(s, event, 0);
    if (visit != NULL) {
        visit->life = life;
    }
    return life != 0 ? PS_OK : psi_fail(err, PS_ABORTED, PSI_STEP_IS_BROKEN);
}

int64_t psi_monitor_dropped(const ps_session *s)
{
    return s->monitor != NULL ? s->monitor->dropped : 0;
}

bool psi_monitor_restores(const ps_session *s)
{
    return s->monitor != NULL && s->monitor->options.restore != NULL;
}

void psi_monitor_readied(ps_session *s, const struct psi_readied *readied, ps_status st)
{
    const struct psi_monitor *m = s->monitor;
    if (m == NULL) {
        return;
    }
    const bool restores = m->options.restore != NULL && !m->options.restore_part;
    enum psi_readiness readiness = PSI_READY_NOT_ASKED;
    psi_api_copy(s, &readiness, &s->machine.readiness, sizeof(readiness));
    const bool may_empty = (restores && readiness == PSI_READY_ONCE) || m->options.start_over;
    (void)psi_api_tell(s, st == PS_DATA_LOSS && may_empty ? PSI_ON_READIED_HALF : PSI_ON_READIED, readied->chief_number);
}

void psi_monitor_was_ready(ps_session *s, const struct psi_found *found)
{
    if (s->monitor != NULL && psi_api_tell(s, PSI_ON_WAS_READY, 0) != 0) {
        psi_api_copy(s, &s->monitor->found, found, sizeof(*found));
    }
}
