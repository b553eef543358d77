/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of requests: what each operation is to a task. A new operation is a row of proto/operations.h (name, flags, meta,
 * body), a row of rows.h and its handler.
 */
#ifndef PSD_REQUESTS_H
#define PSD_REQUESTS_H

#include "rpc.h"

/* Whose right a request needs: where its container comes from. */
enum psd_place {
    PSD_PLACE_NONE,      /* nobody's: it is about the connection, or its own numbers */
    PSD_PLACE_CLUSTER,   /* the cluster's */
    PSD_PLACE_HANDLE,    /* that of its target, the thing of its handle, which the handler gets */
    PSD_PLACE_HANDLES,   /* the container of the thing of each HandleItem */
    PSD_PLACE_NAMES,     /* the container of each NameItem */
    PSD_PLACE_CREATES,   /* the container of each CreateItem */
    PSD_PLACE_CONTAINERS /* each ContainerItem's container; without items the default container */
};

/* What kind of thing the handles in a request, or its names, are of. */
enum psd_target { PSD_TARGET_NONE, PSD_TARGET_VARIABLE, PSD_TARGET_QUEUE };

struct psd_row {
    uint8_t op;
    uint16_t rules;
    enum psd_place place;
    enum psd_target target;
    uint16_t rights;     /* enum psi_right, all of them; 0: none is asked */
    uint16_t meta_bytes; /* of a first frame; 0: a message, or none, and what psi_form_check() says */
    void (*handle)(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
};

/** The row of a frame on c; NULL: c may not send it. */
const struct psd_row *psd_request_row(const struct psd_conn *c, const struct ps_frame_header *h);
/** May r be carried out here, and by c? Fills in r->variable. Everything that can be said of it by its row is said here, and the
 * rights are asked here and nowhere else: one item of a list that is refused refuses the request. */
ps_status psd_request_admit(struct psd_task *t, struct psd_conn *c, const struct psd_row *row, struct psd_request *r,
                            struct psi_err *err) PSI_MUST;
/** A mutation or a waiting request: a refusal is its outcome, which its handler keeps. */
bool psd_request_is_kept(const struct psd_row *row);
/** Its body goes to psd_push_segment(), and its end to psd_push_end(); the handler has had its head. */
bool psd_request_is_in_parts(const struct psd_row *row);

/* ---- dispatch.c ---- */
/** Bytes of c: frames, and what they ask for, until they are used up or c is closed. */
void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n);
/** What was kept of a connection that is read again. */
void psd_dispatch_rest(struct psd_task *t, struct psd_conn *c);

#endif
