/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program does to gradients between computing and pushing them: sums of micro-batches, limits on norms.
 *
 * Happy path: ps_accumulate() adds the gradient buffer to the parameter's sum; ps_clip_norm() and ps_clip_global_norm() sum the
 * squares of what the next push sends, and keep the factor, which travels as the push's scale. The push takes both
 * (gather() of param.c). Failure: the error sticks to the session; nothing has changed.
 */
#include "api.h"
#include "compute.h"

#include "common/clones.h"
#include "common/mem.h"

#include <float.h>
#include <math.h>

enum { LANES = 8 /* sums beside each other, so that the compiler uses vectors; they are added in their order */ };

/* made = share * grad (first), or made += share * grad */
PSI_CLONES
static void add(float *restrict made, const float *restrict grad, size_t n, float share, bool first)
{
    for (size_t i = 0; i < n; i++) {
        made[i] = (first ? 0 : made[i]) + share * grad[i];
    }
}

PSI_CLONES
static double squares(const float *x, size_t n)
{
    double lanes[LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lanes[k] += (double)x[i + k] * (double)x[i + k];
        }
    }
    for (size_t k = 0; k < LANES; k++) {
        all += lanes[k];
    }
    for (; i < n; i++) {
        all += (double)x[i] * (double)x[i];
    }
    return all;
}

/* The gradient buffer on the host, when no push uses it; NULL: st says why, or the session's error. */
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

static ps_status clip(ps_session *s, ps_param *const *params, size_t count, double max_norm, double *out_norm, const char *call)
{
    struct psi_err err = {0};
    double sum = 0;
    ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        return st;
    }
    if (!isfinite(max_norm) || max_norm <= 0) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "max_norm %g; allowed: finite and > 0", max_norm);
    } else if (psi_api_in_rounds(s)) {
        (void)psi_fail(&err, PS_UNIMPLEMENTED, "the session is in rounds: a limit on a norm is for single pushes only");
    }
    for (size_t i = 0; err.code == PS_OK && i < count; i++) {
        const float *grad = NULL;
        if (params[i] == NULL || params[i]->session != s) {
            (void)psi_fail(&err, PS_INVALID_ARGUMENT, "parameter %zu is %s", i,
                           params[i] == NULL ? "NULL" : "of another session");
        } else {
            grad = params[i]->summed ? params[i]->sum : gradient(params[i], &err);
        }
        if (grad == NULL) {
            return failed(s, &err, call);
        }
        sum += squares(grad, params[i]->bytes / sizeof(*grad));
    }
    if (err.code != PS_OK) {
        return failed(s, &err, call);
    }
    const double norm = sqrt(sum);
    const float factor = isfinite(norm) && norm > max_norm ? fmaxf((float)(max_norm / norm), FLT_MIN) : 1;
    for (size_t i = 0; i < count; i++) {
        params[i]->limit = factor;
    }
    if (out_norm != NULL) {
        *out_norm = norm;
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
