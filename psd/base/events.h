/* SPDX-License-Identifier: Apache-2.0 */
/* The newest psd_task_config.events_max events of this task, for `psctl events`, and the clients that wait for more. */
#ifndef PSD_EVENTS_H
#define PSD_EVENTS_H

#include "base.h"

enum {
    PSD_EVENT_TEXT_MAX = 479,      /* bytes of an event's fields; longer ones are cut */
    PSD_EVENTS_A_SECOND = 8,       /* most entries with one name in a second: peers can cause some events as often as they like */
    PSD_EVENTS_AN_ANSWER = 128,    /* events of one answer; the client asks for the rest */
    PSD_EVENTS_WAIT_MS_MAX = 30000 /* after this time a waiting client gets an empty answer, and asks again */
};

/** Note an event, if its name is in the table of events.c. kv [count]: its fields. Without memory the event is left out. */
void psd_event_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count);
#define psd_event(t_, level_, event_, ...) psd_event_fields(t_, level_, event_, PSI_KVS(__VA_ARGS__))
/** Handle an EVENTS request of c with this id: answer it, or let it wait. */
void psd_events_ask(struct psd_task *t, struct psd_conn *c, uint64_t id, const ps_v1_Events *m);
/** Call when the task has handled an input: answers the waiting clients if entries were added. */
void psd_events_turn(struct psd_task *t);
/** Answer the clients that have waited long enough, with an empty list. */
void psd_events_tick(struct psd_task *t);
void psd_events_free(struct psd_task *t);
void psd_events_check_invariants(const struct psd_task *t);

#endif
