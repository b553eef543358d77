/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of gradients before they are pushed: sums of micro-batches, limits on norms.
 *
 * Happy path: ps_accumulate() adds the gradient buffer to the parameter's sum. ps_clip_norm() and ps_clip_global_norm() calculate
 * the norm of the next gradient, and keep the factor that limits it, which becomes the push's scale. ps_param_lend() keeps a
 * pointer to the program's memory. The next push uses all three (gather() in param.c). Failure: the error sticks, no change.
 */
#include "api.h"
#include "compute.h"

#include "common/clones.h"
#include "common/mem.h"
#include "common/squares.h"

#include <math.h>

/* Add share * grad to made [n]; first: made has no values yet, and is set to share * grad. */
PSI_CLONES
static void add(float *restrict made, const float *restrict grad, size_t n, float share, bool first)
{
    for (size_t i = 0; i < n; i++) {
        made[i] = (first ? 0 : made[i]) + share * grad[i];
    }
}

/* Get the gradient buffer on the host, once no push uses it. NULL: the error is in *err, or in the session if *err has none. */
static const float *gradient(ps_param *p, struct psi_err *err)
{
    void *memory = NULL;
    struct psk_block *block = psi_param_grad_block(p);
    return block != NULL && psk_block_read(block, p->bytes, &memory, err) == PS_OK ? memory : NULL;
}

static ps_status failed(ps_session *s, struct psi_err *err, const char *call)
{
    return err->code != PS_OK ? psi_api_refused(s, err, call) : psi_api_last(s, psi_api_sticky(s, NULL));
}

static ps_status accumulate(ps_param *p, double share)
{
    struct psi_err err = {0};
    ps_session *s = ps_param_session(p);
    const ps_status st = psi_api_enter(s, true);
    if (st != PS_OK || p == NULL) {
        return st;
    }
    if (!isfinite(share) || !isfinite((float)share)) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "parameter '%s': share %g; allowed: finite", p->name, share);
        return failed(s, &err, "ps_accumulate");
    }
    if (p->rows != NULL) {
        (void)psi_fail(&err, PS_UNIMPLEMENTED, "'%s' is an embedding: batches have different rows", p->name);
        return failed(s, &err, "ps_accumulate");
    }
    const float *grad = gradient(p, &err);
    if (grad == NULL) {
        return failed(s, &err, "ps_accumulate");
    }
    p->sum = p->sum != NULL ? p->sum : psi_aligned_calloc(PSI_CACHE_LINE, p->bytes + 1);
    if (p->sum == NULL) {
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "parameter '%s': no memory for a sum of %zu bytes", p->name, p->bytes);
        return failed(s, &err, "ps_accumulate");
    }
    add(p->sum, grad, p->bytes / sizeof(*p->sum), (float)share, !p->summed);
    p->summed = true;
    return PS_OK;
}

ps_status ps_accumulate(ps_param *p, double share)
{
    ps_session *s = ps_param_session(p);
    PSI_API_VISIT(s);
    return psi_api_last(s, accumulate(p, share));
}

static ps_status lend(ps_param *p, const float *grad)
{
    struct psi_err err = {0};
    ps_session *s = ps_param_session(p);
    const ps_status st = psi_api_enter(s, true);
    if (st != PS_OK || p == NULL) {
        return st;
    }
    if (p->rows != NULL) {
        (void)psi_fail(&err, PS_UNIMPLEMENTED, "'%s' is an embedding: its gradient goes with the ids of a pull", p->name);
        return failed(s, &err, "ps_param_lend");
    }
    p->lent = grad;
    return PS_OK;
}

ps_status ps_param_lend(ps_param *p, const float *gradient)
{
    ps_session *s = ps_param_session(p);
    PSI_API_VISIT(s);
    return psi_api_last(s, lend(p, gradient));
}

/* Add the squares of an embedding's gradient rows to *sum, in the order in which the owners add them in rounds, so that both sums
 * have equal bits. Each part of the embedding has its own sum, in which the rows not given count as zeros. */
static ps_status add_rows(const ps_param *p, const float *grad, double *sum, struct psi_err *err)
{
    const struct psi_embedding *e = p->rows;
    const size_t columns = e->row_bytes / sizeof(*grad);
    const struct psi_parts *cut = p->variable != NULL && p->variable->parts != NULL && p->variable->cut.axis == 0
                                      ? &p->variable->cut
                                      : NULL; /* NULL: a whole variable, or cut by columns: one sum */
    const uint32_t count = cut != NULL ? cut->count : 1;
    struct psi_squares *squares = psi_calloc(count, sizeof(*squares));
    if (squares == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "embedding '%s': no memory for sums of %u parts", p->name, count);
    }
    for (size_t i = 0; i < e->count; i++) {
        int64_t at = e->ids[i];
        struct psi_squares *of = &squares[cut != NULL ? psi_part_of(cut, e->ids[i], &at) : 0];
        of->count = (uint64_t)at * columns;
        psi_squares_add(of, PS_F32, grad + i * columns, columns);
    }
    for (uint32_t k = 0; k < count; k++) {
        *sum += psi_squares_sum(&squares[k]);
    }
    psi_free(squares);
    return PS_OK;
}

static ps_status add_squares(const ps_param *p, const float *grad, double *sum, struct psi_err *err)
{
    if (p->rows != NULL) {
        return add_rows(p, grad, sum, err);
    }
    struct psi_squares squares = {.count = 0};
    psi_squares_add(&squares, PS_F32, grad, p->bytes / sizeof(*grad));
    *sum += psi_squares_sum(&squares);
    return PS_OK;
}

static ps_status clip(ps_session *s, ps_param *const *params, size_t count, double max_norm, double *out_norm, const char *call)
{
    struct psi_err err = {0};
    double sum = 0;
    ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        return st;
    }
    if (psi_max_norm_check(max_norm, &err) == PS_OK && psi_api_in_rounds(s)) {
        (void)psi_fail(&err, PS_UNIMPLEMENTED,
                       "the session is in rounds: ps_session_clip_norm() limits the norm of their averages");
    }
    for (size_t i = 0; err.code == PS_OK && i < count; i++) {
        const float *grad = NULL;
        if (params[i] == NULL || params[i]->session != s) {
            (void)psi_fail(&err, PS_INVALID_ARGUMENT, "parameter %zu is %s", i,
                           params[i] == NULL ? "NULL" : "of another session");
        } else {
            const ps_param *p = params[i];
            grad = p->summed ? p->sum : p->lent != NULL ? p->lent : gradient(params[i], &err);
        }
        if (grad == NULL || add_squares(params[i], grad, &sum, &err) != PS_OK) {
            return failed(s, &err, call);
        }
    }
    if (err.code != PS_OK) {
        return failed(s, &err, call);
    }
    const float factor = psi_clip_factor(sum, max_norm);
    for (size_t i = 0; i < count; i++) {
        params[i]->limit = factor;
    }
    if (out_norm != NULL) {
        *out_norm = sqrt(sum);
    }
    return PS_OK;
}

ps_status ps_clip_norm(ps_param *p, double max_norm, double *out_norm)
{
    ps_session *s = ps_param_session(p);
    PSI_API_VISIT(s);
    return psi_api_last(s, clip(s, &p, p != NULL, max_norm, out_norm, "ps_clip_norm"));
}

ps_status ps_clip_global_norm(ps_param *const *params, size_t count, double max_norm, double *out_norm)
{
    ps_session *s = params != NULL && count > 0 ? ps_param_session(params[0]) : NULL;
    PSI_API_VISIT(s);
    return psi_api_last(s, clip(s, params, count, max_norm, out_norm, "ps_clip_global_norm"));
}
