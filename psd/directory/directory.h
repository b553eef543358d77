/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the directory task, and of the others towards it. */
#ifndef PSD_DIRECTORY_H
#define PSD_DIRECTORY_H

#include "psd/base/orders.h"
#include "psd/owner/owner.h"
#include "psd/rpc/rpc.h"

/* ---- create.c: CREATE FIND DELETE (directory); chief.c: CHIEF ---- */
/** Orders as frames: of the struct psd_create in o->what; of a name; of the struct psd_reset in o->what. */
void psd_create_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_delete_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_reset_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** The owner's answer to an item (err NULL: it has it); r NULL: the owner's connection is gone. */
void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);
void psd_delete_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);

/** It takes item to be at owner, with its definition, from now on. */
ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner,
                          struct psi_err *err) PSI_MUST;

/* ---- delete.c: the owner's side of DELETE ---- */
/** Drop a variable for good, if it exists: no checkpoint brings it back, once psd_bars_pending() is over. RESOURCE_EXHAUSTED:
 * nothing is done. */
ps_status psd_delete_here(struct psd_task *t, const char *container, const char *name, struct psi_err *err) PSI_MUST;
/** It is deleted, and the disk that was to note that has failed: what its client is told. */
struct psi_err psd_delete_not_noted(const struct psi_err *err);

/* ---- reset.c (directory) ---- */
/** UNAVAILABLE while a reset of this container is pending: names those who have not answered it. */
ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err) PSI_MUST;
/** The first task whose disk has not noted the reset, and why, as psd_reset_check() says it. "": every disk has noted it. */
void psd_reset_text(const struct psd_task *t, char *buf, size_t n);
/** What the task at peer lists of this container goes with a reset that it has not carried out. */
bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container);
/** The task at peer has done its part (err NULL), its disk has failed to note that and is asked again, or the connection is gone
 * (r NULL) and the reset stays pending. */
void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                        const struct psi_err *err);
/** The end of an event: those that an earlier life of ours has begun are begun again, once our disk is read. */
void psd_resets_turn(struct psd_task *t);
void psd_resets_tick(struct psd_task *t);
/** Names are to be forgotten; psd_task_config.reset_slice_names of the oldest reset. */
bool psd_resets_have_work(const struct psd_task *t);
void psd_resets_work(struct psd_task *t);
/** A task lists: it joins every reset that is pending or that it has missed (RESET goes out before its list is answered). */
void psd_reset_join(struct psd_task *t, struct psd_peer *peer);

/** A task drops out: resets of containers of sessions do not wait for it. What it lists later is reset again (own.c). */
void psd_resets_lost(struct psd_task *t, struct psd_peer *peer);
/** Reset the container of a session that has ended, on the tasks that are connected; nothing is done where that goes on already,
 * or memory is short. */
void psd_reset_own(struct psd_task *t, const char *container);

/* ---- own.c (directory): containers of sessions ---- */
/** A session with this container, under this key, holds its lease. */
bool psd_own_lives(const struct psd_task *t, const char *container, const uint8_t key[PSI_KEY_BYTES]);
/** May something be created there: PERMISSION_DENIED. */
ps_status psd_own_create_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** May it be made at that task: UNIMPLEMENTED, a task of an older release would make it for everybody, and save it. */
/** Number of items from the first one on that are parts of one variable, as far as the request says; *out_parts: how many its
 * definition says, 0: the first item is no part. Items that are refused already count as what is asked for. */
uint32_t psd_parts_span(const struct psd_create *items, uint32_t count, uint32_t *out_parts);
/** These are all parts of the variable, in the order of their index. INVALID_ARGUMENT: what is missing. */
ps_status psd_parts_complete(const struct psd_create *items, uint32_t span, struct psi_err *err) PSI_MUST;
/** SHAPE_MISMATCH: a whole variable has the name of item's whole, or item is whole and parts of its name are there. */
ps_status psd_parts_whole_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
ps_status psd_own_owner_check(const struct psd_peer *owner, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** May the name be looked for, or deleted: PERMISSION_DENIED, INVALID_ARGUMENT. */
ps_status psd_own_name_check(const struct psd_task *t, const ps_v1_NameItem *item, const char *container,
                             struct psi_err *err) PSI_MUST;
/** A task of another job may still list what is there, in the first lease and grace of this life of the directory: names gets
 * those that have not listed. Nobody waits for the lists of other jobs where a name is in any other container. */
bool psd_own_lists_missing(const struct psd_task *t, const char *container, struct psd_names *names);
/** The task at peer has listed: what it has lost of containers of sessions is forgotten. */
void psd_own_list_end(struct psd_task *t, const struct psd_peer *peer);
/** Reset containers of sessions that have ended. One call looks at psd_task_config.tick_looks containers of sessions at most, in
 * turn, and at no other container. */
void psd_own_tick(struct psd_task *t);

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
