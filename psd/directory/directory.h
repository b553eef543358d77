/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the directory task, and of the others towards it. Handlers are as those of psd/rpc/rpc.h. */
#ifndef PSD_DIRECTORY_H
#define PSD_DIRECTORY_H

#include "psd/rpc/rpc.h"

/* ---- create.c: CREATE FIND DELETE (directory); chief.c: CHIEF ---- */
/** The owner's answer to an item (err NULL: it has it). */
void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, bool created, const struct psi_err *err);
void psd_delete_answered(struct psd_task *t, const struct psd_peer *peer, struct psd_ask *ask, const struct psi_err *err);

/** It takes item to be at owner, with its definition, from now on. */
ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner,
                          struct psi_err *err) PSI_MUST;

/* ---- reset.c (directory) ---- */
/** UNAVAILABLE while a reset of this container is pending: names those who have not answered it. */
ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err) PSI_MUST;
/** The first task whose disk has not noted the reset, and why, as psd_reset_check() says it. "": every disk has noted it. */
void psd_reset_text(const struct psd_task *t, char *buf, size_t n);
/** What the task at peer lists of this container goes with a reset that it has not carried out. */
bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container);
/** The task at peer has done its part; its disk has failed to note that: it is asked again. */
void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, const char *container);
void psd_reset_refused(struct psd_task *t, const struct psd_peer *peer, const char *container, const struct psi_err *err);
/** The end of an event: those that an earlier life of ours has begun are begun again, once our disk is read. */
void psd_resets_turn(struct psd_task *t);
void psd_resets_tick(struct psd_task *t);
/** Names are to be forgotten; psd_task_config.reset_slice_names of the oldest reset. */
bool psd_resets_have_work(const struct psd_task *t);
void psd_resets_work(struct psd_task *t);
/** A task lists: it joins every reset that is pending or that it has missed (RESET goes out before its list is answered). */
void psd_reset_join(struct psd_task *t, struct psd_peer *peer);

/* ---- rounds.c (directory) ---- */
/** FAILED_PRECONDITION: it is in a group of its container, that goes on. */
ps_status psd_group_delete_check(const struct psd_task *t, const struct psd_name *n, struct psi_err *err) PSI_MUST;

/* ---- tasklink.c ---- */
void psd_task_link_hello(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** The end of an event: our list goes to the directory again where what it says has changed. */
void psd_task_link_turn(struct psd_task *t);
/** As psd_task_dialed(); it may be closed already. */
struct psd_conn *psd_task_link_dialed(struct psd_task *t, void *shell, const char *why);
/** c is, or is about to be, closed: whose connection it is (if anybody's) is not connected any more. */
void psd_task_link_lost(struct psd_task *t, struct psd_conn *c);
void psd_task_link_tick(struct psd_task *t);

#endif
