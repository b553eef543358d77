/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation on all parts of a partitioned variable: what is asked of each part, and the outcome of the whole.
 *
 * psi_parts_op_new() -> psi_parts_op_values(), or rows.c fills the parts -> each part that is asked gets its request, blocking
 * (psi_parts_op_run()) or not (request.c) -> psi_parts_op_ended() for each -> psi_parts_op_end().
 */
#ifndef PSI_WORKER_PARTS_H
#define PSI_WORKER_PARTS_H

#include "api.h"

/* What is asked of one part. */
struct psi_part_op {
    struct psi_request req; /* kind, src, dst, bytes, scale, waited, interrupts */
    void *gathered;         /* copy of the part's values that the request reads; NULL: it reads the caller's memory */
    void *scattered;        /* memory for the part's values; NULL: the request writes the caller's memory */
    bool asked;             /* false: nothing is asked of this part */
    ps_status code;         /* how its request has ended */
    ps_applied applied;
    uint64_t version;
};

struct psi_parts_op {
    ps_variable *v;
    struct psi_parts cut; /* how the caller's memory is cut: as the variable; rows by their columns: as many rows as are named */
    enum psi_request_kind kind;
    void *dst;          /* of the whole, of the caller */
    struct psi_err err; /* of the first part, by index, that has failed */
    uint32_t failed;    /* its index; cut.count: none */
    struct psi_part_op parts[];
};

/** RESOURCE_EXHAUSTED: memory. psi_parts_op_free() frees it. */
PSI_MUST ps_status psi_parts_op_new(ps_variable *v, enum psi_request_kind kind, struct psi_parts_op **out, struct psi_err *err);
/** Ask all parts for what `req` asks of the whole: whole values, or an initializer. */
PSI_MUST ps_status psi_parts_op_values(struct psi_parts_op *op, const struct psi_request *req, struct psi_err *err);
/** Copy part `index` of the caller's memory `whole` to `part`, or back. */
void psi_parts_op_copy(const struct psi_parts_op *op, uint32_t index, const void *whole, void *part, bool to_part);
/** The request of part `index` has ended. err->code PS_OK: with this version. */
void psi_parts_op_ended(struct psi_parts_op *op, uint32_t index, const struct psi_err *err, uint64_t version);
/** All have ended: values that were read are put into the caller's memory, and versions are noted. *out_version: the least of a
 * part that was asked. Otherwise *err says which part failed, and which parts a change was applied to. */
PSI_MUST ps_status psi_parts_op_end(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err);
/** Ask, and wait for all. The end is psi_parts_op_end()'s. */
PSI_MUST ps_status psi_parts_op_run(struct psi_parts_op *op, uint64_t *out_version, struct psi_err *err);
/** NULL is fine. */
void psi_parts_op_free(struct psi_parts_op *op);
/** request.c: ask, and call done once when all have ended, as psi_api_start() does. Takes op, also after an error. */
PSI_MUST ps_status psi_parts_op_start(struct psi_parts_op *op, const struct psi_request *what, int64_t timeout_ms,
                                      ps_request *req, ps_done_fn done, void *ctx);

#endif
