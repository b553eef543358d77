/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts for inputs that do not fit each other: they show the dtypes and shapes of all inputs. */
#include "rows.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { SHOWN_INPUTS = 4 };

static const char *dims_format(const ps_shape *shape, char *buf, size_t n)
{
    char text[PSI_TYPE_TEXT_MAX] = "(";
    size_t used = 1;
    if (shape->rank > PS_RANK_MAX) {
        (void)snprintf(buf, n, "(invalid rank %" PRIu32 ")", shape->rank);
        return buf;
    }
    for (uint32_t d = 0; d < shape->rank; d++) {
        const char *before = d > 0 ? ", " : "";
        used += (size_t)(shape->dims[d] == PSI_DIM_UNKNOWN
                             ? snprintf(text + used, sizeof(text) - used, "%s?", before)
                             : snprintf(text + used, sizeof(text) - used, "%s%" PRId64, before, shape->dims[d]));
    }
    (void)snprintf(buf, n, "%s%s)", text, shape->rank == 1 ? "," : "");
    return buf;
}

const char *psi_type_format(const struct psi_type *type, char *buf, size_t n)
{
    char dims[PSI_TYPE_TEXT_MAX];
    (void)snprintf(buf, n, "%s %s", dims_format(&type->shape, dims, sizeof(dims)), ps_dtype_name(type->dtype));
    return buf;
}

ps_status psi_op_misfit(const struct psi_op *op, const struct psi_type *in, uint32_t in_count, struct psi_err *err,
                        const char *format, ...)
{
    char sides[PSI_ERR_TEXT_MAX] = "";
    char why[PSI_ERR_TEXT_MAX];
    char one[PSI_TYPE_TEXT_MAX];
    size_t used = 0;
    const uint32_t shown = in_count <= SHOWN_INPUTS ? in_count : SHOWN_INPUTS - 1;
    for (uint32_t i = 0; i < shown && used < sizeof(sides); i++) {
        used += (size_t)snprintf(sides + used, sizeof(sides) - used, "%s%s",
                                 i == 0             ? ""
                                 : i + 1 < in_count ? ", "
                                                    : " and ",
                                 psi_type_format(&in[i], one, sizeof(one)));
    }
    if (shown < in_count && used < sizeof(sides)) {
        (void)snprintf(sides + used, sizeof(sides) - used, " and %" PRIu32 " more", in_count - shown);
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s%s%s", op->name, sides, in_count > 0 ? ": " : "", why);
}

ps_status psi_op_go_on(const struct psi_op *op, const struct psi_op_context *ctx, struct psi_err *err)
{
    return ctx->cancelled == NULL || !ctx->cancelled(ctx->arg)
               ? PS_OK
               : psi_fail(err, PS_CANCELLED, "%s: the run was cancelled", op->name);
}

ps_status psi_type_accepts(const char *who, const ps_shape *declared, const ps_shape *shape, struct psi_err *err)
{
    bool fits = declared->rank == shape->rank;
    for (uint32_t d = 0; fits && d < declared->rank && d < PS_RANK_MAX; d++) {
        fits = psi_dims_agree(declared->dims[d], shape->dims[d]);
    }
    if (fits) {
        return PS_OK;
    }
    char wanted[PSI_TYPE_TEXT_MAX], given[PSI_TYPE_TEXT_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s has shape %s, a value of shape %s does not fit", who,
                    dims_format(declared, wanted, sizeof(wanted)), dims_format(shape, given, sizeof(given)));
}
