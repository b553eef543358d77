/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the directory to its own task, and the answers, as frames in memory.
 *
 * Happy path: at the directory, t->loop is a psd_conn of role PSD_ROLE_SELF, without a socket. psd_order() and the handlers write
 * frames to it as to any connection. At the end of the event each frame goes to its handler, until none is left: the order is
 * carried out in the event that gave it. Failure: without memory for a frame t->loop counts as lost (t->loop->closing): the
 * orders on it end, and it is open again at once. */
#ifndef PSD_LOOP_H
#define PSD_LOOP_H

#include "base.h"

/** If this task is the directory (the first ps task), make t->loop, for its orders to itself; t->loop of other tasks stays NULL.
 * Call it after psd_peers_init(). RESOURCE_EXHAUSTED: no memory. */
ps_status psd_loop_begin(struct psd_task *t, struct psi_err *err) PSI_MUST;
void psd_loop_fini(struct psd_task *t);
ps_status psd_loop_push(struct psd_task *t, const struct ps_frame_header *h, const void *meta, const void *body,
                        size_t body_bytes) PSI_MUST;
/** Take the oldest frame out. *out points to its bytes, which stay valid until the next call. False: there is no frame. */
bool psd_loop_next(struct psd_task *t, struct psd_request *out);
/** Drop all frames, and let t->loop count as connected again. */
void psd_loop_clear(struct psd_task *t);
/** True if frames to this task itself wait, or their connection t->loop counts as lost. */
static inline bool psd_loop_has_work(const struct psd_task *t)
{
    return t->loop != NULL && (t->loop->closing || !psi_list_empty(&t->looped));
}
/** The connection to task p; t->loop if p is this task itself. NULL: p is not connected. */
static inline struct psd_conn *psd_peer_conn(const struct psd_task *t, const struct psd_peer *p)
{
    return p->index == t->self ? t->loop : p->conn;
}
/** The connection on which this task answers the directory; NULL: there is none. */
static inline struct psd_conn *psd_directory_conn(const struct psd_task *t)
{
    return psd_peer_conn(t, &t->peers[t->directory]);
}

#endif
