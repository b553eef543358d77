/* SPDX-License-Identifier: Apache-2.0 */
/* The directory (the first ps task) records which task has which variable. Its work, and what other tasks do for it. */
#ifndef PSD_DIRECTORY_H
#define PSD_DIRECTORY_H

#include "psd/base/orders.h"
#include "psd/owner/owner.h"
#include "psd/rpc/rpc.h"

/* ---- create.c: CREATE FIND DELETE (directory); chief.c: CHIEF ---- */
/** Write the body of order o to task p into l. o->what points to a psd_create for TASK_CREATE, to a psd_reset for TASK_RESET. */
void psd_create_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_delete_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
void psd_reset_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l);
/** Handle the answer of peer to the order `ask`. err NULL: success. r NULL: the connection was lost before the answer. */
void psd_create_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);
void psd_delete_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                         const struct psi_err *err);

/** Record at the directory that task `owner` has this variable or queue, and its definition. RESOURCE_EXHAUSTED. */
ps_status psd_name_record(struct psd_task *t, const struct psd_create *item, const struct psd_peer *owner,
                          struct psi_err *err) PSI_MUST;

/* ---- reset.c (directory) ---- */
/** Check that no reset of the container goes on. UNAVAILABLE: one does, or may, because this task has not read its disk yet. */
ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err) PSI_MUST;
/** Write into buf [n] the text about the first unfinished reset that a disk could not note: which tasks have not answered, and
 * the disk's error, worded as in psd_reset_check()'s error. "": no disk has failed. */
void psd_reset_text(const struct psd_task *t, char *buf, size_t n);
/** True if peer has not yet carried out a reset of this container: then what its list says about the container does not count. */
bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container);
/** Handle peer's answer to TASK_RESET. err NULL: success; else peer's disk failed, and it gets the order again. r NULL:
 * connection lost. */
void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                        const struct psi_err *err);
/** Call at the end of each event. Once this task has read its disk, continues resets that an earlier directory process began. */
void psd_resets_turn(struct psd_task *t);
void psd_resets_tick(struct psd_task *t);
/** True if the directory still has names to forget of a container that all tasks have reset. */
bool psd_resets_have_work(const struct psd_task *t);
void psd_resets_work(struct psd_task *t);
/** Call when peer begins to send its list of names: first sends TASK_RESET for each reset that peer has not carried out. */
void psd_reset_join(struct psd_task *t, struct psd_peer *peer);

/** Call when the connection of peer is lost: resets of containers that belonged to sessions stop waiting for peer. If peer lists
 * such a container later, psd_own_tick() resets it. */
void psd_resets_lost(struct psd_task *t, struct psd_peer *peer);
/** Reset the container of a session that has ended, on the connected tasks only. Does nothing if an earlier reset of it goes on
 * or memory is short: then psd_own_tick() tries again. */
void psd_reset_own(struct psd_task *t, const char *container);

/* ---- own.c, parts.c (directory): containers that belong to sessions, partitioned variables ---- */
/** True if a session that was heard within its lease owns this container with this key. */
bool psd_own_lives(const struct psd_task *t, const char *container, const uint8_t key[PSI_KEY_BYTES]);
/** If the container belongs to a session: check that item has its key, and that the session is alive. PERMISSION_DENIED: no. */
ps_status psd_own_create_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** Count the items, from items[0] on, that are parts of one variable, refused ones included. *out_parts: number of parts that the
 * variable has, as the first item says; 0: the first item is no part. */
uint32_t psd_parts_span(const struct psd_create *items, uint32_t count, uint32_t *out_parts);
/** Check that these items are all parts of one variable, in order. INVALID_ARGUMENT: the text says what is missing. */
ps_status psd_parts_complete(const struct psd_create *items, uint32_t span, struct psi_err *err) PSI_MUST;
/** Check that no variable exists both whole and in parts. SHAPE_MISMATCH: item is a part of a whole variable, or the reverse. */
ps_status psd_parts_whole_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** Iterate over the recorded parts of the variable `whole`: returns the part with index *at or later; raises *at. NULL: end. */
const struct psd_name *psd_parts_next(const struct psd_task *t, const char *container, const char *whole, uint32_t *at);
/** If item's container belongs to a session: check that the owner's version of psd knows such containers, so that it hides them
 * and leaves them out of checkpoints. UNIMPLEMENTED: it is too old. Other containers: PS_OK. */
ps_status psd_own_owner_check(const struct psd_peer *owner, const struct psd_create *item, struct psi_err *err) PSI_MUST;
/** If the container belongs to a session: check item's key. PERMISSION_DENIED: missing or wrong; INVALID_ARGUMENT: a bad name. */
ps_status psd_own_name_check(const struct psd_task *t, const ps_v1_NameItem *item, const char *container,
                             struct psi_err *err) PSI_MUST;
/** Append to `names` the tasks of other jobs that may have variables of this session's container and have not sent their lists
 * yet. True: there are such tasks. Always false once this directory process has run for a lease and GRACE_MS. */
bool psd_own_lists_missing(const struct psd_task *t, const char *container, struct psd_names *names);
/** Call when peer has sent its whole list: forgets the names in sessions' containers that are recorded for peer, unless its
 * present process has the variable or was asked to create it. */
void psd_own_list_end(struct psd_task *t, const struct psd_peer *peer);
/** Reset containers whose session has ended. Each call examines at most psd_task_config.tick_looks containers, in turn. */
void psd_own_tick(struct psd_task *t);

/* ---- addresses.c (directory) ---- */
/** Note the address that a HELLO reports, if the cluster spec gives its task port 0. On an error the caller refuses the task. */
ps_status psd_address_take(struct psd_task *t, struct psd_peer *p, const ps_v1_Hello *hello, struct psi_err *err) PSI_MUST;

/* ---- tasklink.c ---- */
void psd_task_link_hello(struct psd_task *t, struct psd_conn *c, const ps_v1_Hello *hello, const struct psd_request *r);
/** Call after each event. If there was no memory for a frame that this task, as the directory, sends to itself, that counts as a
 * lost connection: its unanswered orders to itself end, and the connection is open again at once (base/loop.h). */
void psd_task_link_loop_turn(struct psd_task *t);
/** Call at the end of each event. If psd_task.list_again is set, this task sends its list of names to the directory once more; if
 * a list is being sent at present, the new one begins after its end. */
void psd_task_link_turn(struct psd_task *t);
/** Call when a dial to the directory has succeeded (shell: the caller's pointer for the connection) or failed (why: the reason).
 * The returned psd_conn may be closing already. */
struct psd_conn *psd_task_link_dialed(struct psd_task *t, void *shell, const char *why);
void psd_task_link_lost(struct psd_task *t, struct psd_conn *c);
void psd_task_link_tick(struct psd_task *t);

#endif
