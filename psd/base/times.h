/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the task had the requests that ask for times (flag TIMES, docs/PROTOCOL.md §1).
 *
 * A timed request has a struct psd_timed on its connection, from its first frame to its reply. Each piece of work on it ends an
 * interval, which is added to one of four sums. The reply takes the sums, and the record is freed. All intervals use the shell's
 * clock (psd_task_config.clock_ns), which is read for timed requests only. Other requests pay a test of the flag, and a test of
 * an empty list at their reply.
 */
#ifndef PSD_TIMES_H
#define PSD_TIMES_H

#include "psd/state.h"

enum { PSD_TIMED_MAX = 512 }; /* timed requests of a connection at a time; further ones are answered without times */

/** A frame with flag TIMES has come on c: its request is c->timing from now on. Without memory, or a clock, it is not timed. */
void psd_times_ask(struct psd_task *t, struct psd_conn *c);
/** The timed request that a frame of c without the flag belongs to. NULL: it is not timed. */
struct psd_timed *psd_times_find(const struct psd_conn *c, uint64_t id, bool seq);
/** The task's thread begins to work at c->timing, which must not be NULL: it was queued until now. */
void psd_times_begin(struct psd_task *t, const struct psd_conn *c);
/** The task's thread has worked at c->timing since psd_times_begin(). A request that is answered is skipped. waits: the answer
 * comes later, and meanwhile this thread does not work at it. */
void psd_times_worked(struct psd_task *t, const struct psd_conn *c, bool waits);
/** A compute thread has worked for the waiting request `id` of c, which may be NULL. */
void psd_times_kernel(const struct psd_conn *c, uint64_t id, uint64_t kernel_ns);
/** Request (id, seq) of c is answered: *out is for its reply. False: it is not timed. */
bool psd_times_take(struct psd_task *t, struct psd_conn *c, uint64_t id, bool seq, struct ps_times *out);
/** The shell's clock, for frames in a send queue. 0: there is none. */
uint64_t psd_times_now(const struct psd_task *t);
uint64_t psd_times_bytes(const struct psd_conn *c);
void psd_times_free(struct psd_task *t, struct psd_conn *c);

#endif
