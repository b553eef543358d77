/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the directory task, and of the other tasks for it. */
#ifndef PSD_DIRECTORY_H
#define PSD_DIRECTORY_H

#include "psd/base/orders.h"
#include "psd/owner/owner.h"
#include "psd/rpc/rpc.h"

/* ---- create.c: CREATE FIND DELETE (directory); chief.c: CHIEF ---- */
/** Orders as frames. TASK_CREATE: o->what is a struct psd_create. TASK_DELETE: of o->container and o->name. TASK_RESET: o->what
 * is a struct psd_reset. */
void psd_create_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_delete_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_reset_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** The owner has answered a TASK_CREATE, or a TASK_DELETE; err NULL: done. r NULL: the owner's connection is gone. */
void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);
void psd_delete_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);

/** The directory records that item is at owner, and its definition. */
ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner,
                          struct psi_err *err) PSI_MUST;

/* ---- reset.c (directory) ---- */
/** UNAVAILABLE while a reset of this container is pending; the text names the tasks that have not answered. */
ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err) PSI_MUST;
/** The first task whose disk has not noted the reset, and why, as psd_reset_check() says it. "": every disk has noted it. */
void psd_reset_text(const struct psd_task *t, char *buf, size_t n);
/** The task at peer has yet to carry out a reset of this container, so what it lists of the container does not count. */
bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container);
/** The task at peer has done its part (err NULL), its disk has failed to note that and is asked again, or the connection is gone
 * (r NULL) and the reset stays pending. */
void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                        const struct psi_err *err);
/** The end of an event. Once our disk is read, resets that are open on it, from an earlier life of this directory,
 * begin again. */
void psd_resets_turn(struct psd_task *t);
void psd_resets_tick(struct psd_task *t);
/** The first: a reset still has names to forget. The second: forget psd_task_config.reset_slice_names names of the oldest such
 * reset. */
bool psd_resets_have_work(const struct psd_task *t);
void psd_resets_work(struct psd_task *t);
/** A task lists: it takes part in every reset that is pending or that it has missed. TASK_RESET goes out before the answer to its
 * list. */
void psd_reset_join(struct psd_task *t, struct psd_peer *peer);

/** A task drops out: resets of containers of sessions do not wait for it. What it lists later is reset again (own.c). */
void psd_resets_lost(struct psd_task *t, struct psd_peer *peer);
/** Reset the container of a session that has ended, on the tasks that are connected. Nothing is done while another reset of the
 * container goes on, or memory is short; psd_own_tick() tries again. */
void psd_reset_own(struct psd_task *t, const char *container);

/* ---- own.c (directory): containers of sessions ---- */
/** A session whose container this is, with this key, is alive: its lease is not over. */
bool psd_own_lives(const struct psd_task *t, const char *container, const uint8_t key[PSI_KEY_BYTES]);
/** Whether the session that created item may create in its container: PERMISSION_DENIED. */
ps_status psd_own_create_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** How many items from the first one on are parts of one variable, as far as the request has them. *out_parts: how many parts the
 * variable's definition says; 0: the first item is no part. Items that were refused before are counted as well. */
uint32_t psd_parts_span(const struct psd_create *items, uint32_t count, uint32_t *out_parts);
/** Whether these items are all parts of the variable, in the order of their index. INVALID_ARGUMENT: the text says what is
 * missing. */
ps_status psd_parts_complete(const struct psd_create *items, uint32_t span, struct psi_err *err) PSI_MUST;
/** SHAPE_MISMATCH: item is a part, and a whole variable with the name exists; or item is whole, and parts of that name exist. */
ps_status psd_parts_whole_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** Whether the variable can be made at that task. UNIMPLEMENTED: a task of an older release would show the variable to everybody,
 * and save it. */
ps_status psd_own_owner_check(const struct psd_peer *owner, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** Whether this client may find or delete the name: PERMISSION_DENIED (the key differs), INVALID_ARGUMENT. */
ps_status psd_own_name_check(const struct psd_task *t, const ps_v1_NameItem *item, const char *container,
                             struct psi_err *err) PSI_MUST;
/** A name of a session's container may be on a task of another job that has not listed yet. That is so in the first lease and
 * grace of this life of the directory. The tasks are added to names. For other containers the lists of other jobs are not waited
 * for. */
bool psd_own_lists_missing(const struct psd_task *t, const char *container, struct psd_names *names);
/** The list of the task at peer is over: forget the names in containers of sessions that this task has lost. */
void psd_own_list_end(struct psd_task *t, const struct psd_peer *peer);
/** Reset containers of sessions that have ended. One call looks at psd_task_config.tick_looks containers of sessions at most, in
 * turn, and at no other container. */
void psd_own_tick(struct psd_task *t);

/* ---- tasklink.c ---- */
void psd_task_link_hello(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** There was no memory for a frame to the directory's own task (base/loop.h): orders to it, and attempts that need it, end. */
void psd_task_link_loop_turn(struct psd_task *t);
/** The end of an event. This task sends the directory its list again, if psd_task.list_again is set. */
void psd_task_link_turn(struct psd_task *t);
/** As psd_task_dialed(); the connection may be closed already. */
struct psd_conn *psd_task_link_dialed(struct psd_task *t, void *shell, const char *why);
/** c is closed, or is about to be. The task whose connection c was counts as not connected. */
void psd_task_link_lost(struct psd_task *t, struct psd_conn *c);
void psd_task_link_tick(struct psd_task *t);

#endif
