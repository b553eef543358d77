/* SPDX-License-Identifier: Apache-2.0 */
/* The table of requests. A new operation needs a row of proto/operations.h, a row of rows.h, and a handler. */
#ifndef PSD_REQUESTS_H
#define PSD_REQUESTS_H

#include "rpc.h"

/* Where a request names the containers in which its sender needs the rights of the row. */
enum psd_place {
    PSD_PLACE_NONE,      /* none: the request concerns only its connection or session */
    PSD_PLACE_CLUSTER,   /* the cluster's rights */
    PSD_PLACE_SAVED,     /* the cluster's rights; the check psd_rights_saved() follows */
    PSD_PLACE_HANDLE,    /* the container of the header's handle; r->variable gets the variable or queue */
    PSD_PLACE_HANDLES,   /* the containers of the variables or queues in the list of HandleItem */
    PSD_PLACE_NAMES,     /* the container of each NameItem */
    PSD_PLACE_CREATES,   /* the container of each CreateItem */
    PSD_PLACE_CONTAINERS /* the container of each ContainerItem; with an empty list the default container */
};

/* What the handles or names in a request stand for. */
enum psd_target { PSD_TARGET_NONE, PSD_TARGET_VARIABLE, PSD_TARGET_QUEUE };

struct psd_row {
    uint8_t op;
    uint16_t rules;
    enum psd_place place;
    enum psd_target target;
    uint16_t rights; /* bits of enum psi_right: all of them are needed, or with rule EITHER one of them; 0: no right */
    /* size of the meta in a first frame, if it is a C structure; 0: a protobuf message or empty, which psi_form_check() checks */
    uint16_t meta_bytes;
    void (*handle)(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
};

/** Find the row for a frame that came on c. NULL: c may not send this operation. */
const struct psd_row *psd_request_row(const struct psd_conn *c, const struct ps_frame_header *h);
/** Check whether this task may do what r asks for: rights of c's peer, keys of containers, handles. Sets r->variable. If a right
 * is missing for one item, the whole request is refused. What a running CALL may access is checked in copies.c and drafts.c. */
ps_status psd_request_admit(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, struct psd_request *r,
                            struct psi_err *err) PSI_MUST;
/** True for mutations and waiting requests: their handler is called also for a refused request, and keeps the refusal as the
 * outcome, so that a client that repeats the request gets it again. */
bool psd_request_is_kept(const struct psd_row *row);
/** True if the handler is called before the frame's body has come; psd_push_segment() and psd_push_end() then get the body. */
bool psd_request_is_in_parts(const struct psd_row *row);

/* ---- dispatch.c ---- */
/** Process n bytes that have come on c, until c is closed. If a frame must wait, c keeps it and the bytes behind it. */
void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n);
/** At the directory: process the frames that it has sent to itself as a ps task (base/loop.h). */
void psd_dispatch_loop(struct psd_task *t);
/** Process the bytes that c has kept while it was not read. */
void psd_dispatch_rest(struct psd_task *t, struct psd_conn *c);

#endif
