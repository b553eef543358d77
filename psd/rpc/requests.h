/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests: how a task treats each operation. A new operation is a row of proto/operations.h (name, flags, meta,
 * body), a row of rows.h and its handler.
 */
#ifndef PSD_REQUESTS_H
#define PSD_REQUESTS_H

#include "rpc.h"

/* Where the container comes from whose rights a request needs. */
enum psd_place {
    PSD_PLACE_NONE,      /* none: the request is about the connection or the session's own numbers */
    PSD_PLACE_CLUSTER,   /* the cluster's rights */
    PSD_PLACE_HANDLE,    /* the container of the header's handle; the handler gets its variable or queue */
    PSD_PLACE_HANDLES,   /* the container of each HandleItem's variable or queue */
    PSD_PLACE_NAMES,     /* the container of each NameItem */
    PSD_PLACE_CREATES,   /* the container of each CreateItem */
    PSD_PLACE_CONTAINERS /* each ContainerItem's container; without items the default container */
};

/* What the handles or names in a request refer to. */
enum psd_target { PSD_TARGET_NONE, PSD_TARGET_VARIABLE, PSD_TARGET_QUEUE };

struct psd_row {
    uint8_t op;
    uint16_t rules;
    enum psd_place place;
    enum psd_target target;
    uint16_t rights;     /* enum psi_right, all of them are needed; 0: none */
    uint16_t meta_bytes; /* length of the meta of a first frame; 0: a message or nothing, checked by psi_form_check() */
    void (*handle)(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
};

/** The row of a frame on c; NULL: c may not send it. */
const struct psd_row *psd_request_row(const struct psd_conn *c, const struct ps_frame_header *h);
/** May c have r carried out here? Fills in r->variable. All checks that follow from the row are made here, and rights are checked
 * nowhere else: one item without the right refuses the whole request. */
ps_status psd_request_admit(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, struct psd_request *r,
                            struct psi_err *err) PSI_MUST;
/** True for a mutation or a waiting request: a refusal is its outcome, which the handler keeps. */
bool psd_request_is_kept(const struct psd_row *row);
/** True if the handler gets only the head: the body goes to psd_push_segment(), the end to psd_push_end(). */
bool psd_request_is_in_parts(const struct psd_row *row);

/* ---- dispatch.c ---- */
/** Handle bytes of c: frames and their requests, until all are consumed or c is closed. */
void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n);
/** Handle the frames of the directory's connection to its own task (base/loop.h), until there is none. */
void psd_dispatch_loop(struct psd_task *t);
/** Handle the bytes that were kept while c was not read. */
void psd_dispatch_rest(struct psd_task *t, struct psd_conn *c);

#endif
