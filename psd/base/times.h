/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how long the task takes over requests with flag TIMES (docs/PROTOCOL.md §1).
 *
 * A timed request has a struct psd_timed on its connection, from its first frame to its reply. Each step of its handling ends an
 * interval, which is added to one of four sums (struct ps_times). The reply carries the sums, and the psd_timed is freed. The
 * clock (psd_task_config.clock_ns) is read for timed requests only. Any other request costs two tests. */
#ifndef PSD_TIMES_H
#define PSD_TIMES_H

#include "psd/state.h"

enum { PSD_TIMED_MAX = 512 }; /* timed requests of one connection at a time; more of them are answered without times */

/** Call when a frame with flag TIMES has come on c: its request becomes c->timing. Without memory or a clock it is not timed. */
void psd_times_ask(struct psd_task *t, struct psd_conn *c);
/** Find the timed request to which a later frame of c (without flag TIMES) belongs. NULL: this request is not timed. */
struct psd_timed *psd_times_find(const struct psd_conn *c, uint64_t id, bool seq);
/** Call when the task's thread begins to work on c->timing, which is not NULL: the time until now counts as queue time. */
void psd_times_begin(struct psd_task *t, const struct psd_conn *c);
/** Call when the task's thread stops working on c->timing. Does nothing if the request was answered. waits: it will be answered
 * later, and its time until then is not the thread's work. */
void psd_times_worked(struct psd_task *t, const struct psd_conn *c, bool waits);
/** Note that a compute thread has worked for kernel_ns for the waiting request `id` of c, which may be NULL. */
void psd_times_kernel(const struct psd_conn *c, uint64_t id, uint64_t kernel_ns);
/** Move the times of c's request with this id to *out, for its reply. seq: the request has flag SEQ. False: it is not timed. */
bool psd_times_take(struct psd_task *t, struct psd_conn *c, uint64_t id, bool seq, struct ps_times *out);
/** The present time in ns by psd_task_config.clock_ns, for the times of requests: when bytes come, and when a reply enters and
 * leaves the send queue. 0: there is no clock. */
uint64_t psd_times_now(const struct psd_task *t);
uint64_t psd_times_bytes(const struct psd_conn *c);
void psd_times_free(struct psd_task *t, struct psd_conn *c);

#endif
