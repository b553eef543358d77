/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened at this task, for `psctl events`: the newest settings.events_max events, and the clients that wait for the
 * next one. */
#ifndef PSD_EVENTS_H
#define PSD_EVENTS_H

#include "base.h"

enum {
    PSD_EVENT_TEXT_MAX = 479,      /* bytes of an event's fields; longer ones are cut */
    PSD_EVENTS_A_SECOND = 8,       /* of one name: peers cause some of them as often as they like */
    PSD_EVENTS_AN_ANSWER = 128,    /* a client asks again for those that follow */
    PSD_EVENTS_WAIT_MS_MAX = 30000 /* a client that waits longer gets an empty answer, and asks again */
};

/** Note an event, if its name is one of those that are kept. Without memory it is left out. Fields as psd_log(). */
void psd_event_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count);
#define psd_event(t_, level_, event_, ...) psd_event_fields(t_, level_, event_, PSI_KVS(__VA_ARGS__))
/** EVENTS of c, request id: answer it, or let it wait. */
void psd_events_ask(struct psd_task *t, struct psd_conn *c, uint64_t id, const ps_v1_Events *m);
/** The end of an event of the shell: who waits for news gets them, if there are any. */
void psd_events_turn(struct psd_task *t);
/** Who has waited long enough gets an empty answer. */
void psd_events_tick(struct psd_task *t);
void psd_events_free(struct psd_task *t);
void psd_events_check_invariants(const struct psd_task *t);

#endif
