/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on all parts of a partitioned variable: a request to each part, and one outcome. psi_parts_op_new() makes the
 * operation; psi_parts_op_values(), or rows.c, fills the requests; psi_parts_op_run(), which blocks, or psi_parts_op_start()
 * sends them. psi_parts_op_ended() is called at the end of each request, and psi_parts_op_end() when all have ended. */
#ifndef PSI_WORKER_PARTS_H
#define PSI_WORKER_PARTS_H

#include "api.h"

struct psi_part_op {
    struct psi_request req; /* the part's request; set: kind, src, dst, bytes, scale, waited and interrupts */
    void *gathered;         /* copy of the part's values, from which the request sends; NULL: it sends from the caller's memory */
    void *scattered;        /* memory into which the request reads the part's values; NULL: it reads into the caller's memory */
    bool asked;             /* false: no request is sent for this part */
    ps_status code;         /* how the request has ended */
    ps_applied applied;
    uint64_t version;
};

struct psi_parts_op {
    ps_variable *v;
    /* how the caller's memory is cut: as v; if v is cut by columns and the call names rows, as if v had only these rows */
    struct psi_parts cut;
    enum psi_request_kind kind;
    void *dst;          /* the caller's memory for the whole value */
    struct psi_err err; /* error of part `failed` */
    uint32_t failed;    /* lowest index of a part whose request has failed; cut.count: none has failed */
    struct psi_part_op parts[];
};

/** Make an operation; psi_parts_op_free() frees it. RESOURCE_EXHAUSTED: memory. */
PSI_MUST ps_status psi_parts_op_new(ps_variable *v, enum psi_request_kind kind, struct psi_parts_op **out, struct psi_err *err);
/** Fill the requests of all parts from `req`, a request for the whole variable: to read or write all values, or to initialise. */
PSI_MUST ps_status psi_parts_op_values(struct psi_parts_op *op, const struct psi_request *req, struct psi_err *err);
/** Copy part `index` of the caller's memory `whole` to `part`, or back. */
void psi_parts_op_copy(const struct psi_parts_op *op, uint32_t index, const void *whole, void *part, bool to_part);
/** Call when the request of part `index` has ended. version: the part's version, used if err->code is PS_OK. */
void psi_parts_op_ended(struct psi_parts_op *op, uint32_t index, const struct psi_err *err, uint64_t version);
/** Call when all requests have ended: puts read values into the caller's memory, and notes the version. *out_version: the lowest
 * version of the asked parts. On failure *err says which part failed, and which parts a change was applied to. */
PSI_MUST ps_status psi_parts_op_end(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err);
/** Send the requests, wait until all have ended, and call psi_parts_op_end(). */
PSI_MUST ps_status psi_parts_op_run(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err);
void psi_parts_op_free(struct psi_parts_op *op);
/** Send the requests, as psi_api_start(); done is called once, when all have ended. Frees op, also on failure. In request.c. */
PSI_MUST ps_status psi_parts_op_start(struct psi_parts_op *op, const struct psi_request *what, int64_t timeout_ms,
                                      ps_request *req, ps_done_fn done, void *ctx);

#endif
