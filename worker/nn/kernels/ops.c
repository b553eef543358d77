/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of operations, and the checks that follow. Arguments are checked in order; a letter of a row's dimensions
 * stands for the size that the first argument with this letter has, and later sizes must be equal. Failure modes: an argument is
 * missing, too large, or of wrong dtype, rank or size. The error names it, what it should be, and the argument that says so. */
#include "ops.h"

#include "common/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEEP_MIN (1.0f / 1048576.0f) /* 2^-20 */
#define BIT(i) (1u << (i))

const struct psk_row psk_rows[PSK_OPS] = {
    [PSK_DENSE] = {.name = "dense",
                   .attrs = PSK_ACTIVATION,
                   .gemm = true,
                   .nmse_max = 1e-11,
                   .args = {{.name = "x", .dims = "BI", .dtype = PS_F32},
                            {.name = "w", .dims = "IO", .dtype = PS_F32},
                            {.name = "b", .dims = "O", .dtype = PS_F32, .optional = true},
                            {.name = "y", .dims = "BO", .dtype = PS_F32, .output = true}}},
    [PSK_DENSE_DX] = {.name = "dense_dx",
                      .attrs = PSK_ACTIVATION,
                      .gemm = true,
                      .nmse_max = 1e-11,
                      .args = {{.name = "dy", .dims = "BO", .dtype = PS_F32},
                               {.name = "w", .dims = "IO", .dtype = PS_F32},
                               {.name = "x", .dims = "BI", .dtype = PS_F32, .optional = true},
                               {.name = "dx", .dims = "BI", .dtype = PS_F32, .output = true}}},
    [PSK_DENSE_DW] = {.name = "dense_dw",
                      .gemm = true,
                      .nmse_max = 1e-11,
                      .args = {{.name = "x", .dims = "BI", .dtype = PS_F32},
                               {.name = "dy", .dims = "BO", .dtype = PS_F32},
                               {.name = "dw", .dims = "IO", .dtype = PS_F32, .output = true},
                               {.name = "db", .dims = "O", .dtype = PS_F32, .output = true, .optional = true}}},
    [PSK_ACT] = {.name = "activation",
                 .attrs = PSK_ACTIVATION,
                 .nmse_max = 1e-12,
                 .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                          {.name = "y", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0)}}},
    [PSK_ACT_BACKWARD] = {.name = "activation_backward",
                          .attrs = PSK_ACTIVATION,
                          .nmse_max = 1e-12,
                          .args = {{.name = "y", .dims = "BN", .dtype = PS_F32},
                                   {.name = "dy", .dims = "BN", .dtype = PS_F32},
                                   {.name = "dx", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0) | BIT(1)}}},
    [PSK_DROPOUT] = {.name = "dropout",
                     .attrs = PSK_SEED | PSK_STEP | PSK_KEEP,
                     .nmse_max = 1e-13,
                     .args = {{.name = "in", .dims = "BN", .dtype = PS_F32},
                              {.name = "out", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0)}}},
    [PSK_SOFTMAX_XENT] =
        {.name = "softmax_xent",
         .nmse_max = 1e-12,
         .args = {{.name = "logits", .dims = "BC", .dtype = PS_F32},
                  {.name = "labels", .dims = "B", .dtype = PS_I32, .below = 'C'},
                  {.name = "dlogits", .dims = "BC", .dtype = PS_F32, .output = true, .optional = true, .in_place = BIT(0)},
                  {.name = "loss", .dims = "", .dtype = PS_F64, .output = true, .optional = true}}},
    [PSK_ARGMAX_COUNT] = {.name = "argmax_count",
                          .nmse_max = 0,
                          .args = {{.name = "logits", .dims = "BC", .dtype = PS_F32},
                                   {.name = "labels", .dims = "B", .dtype = PS_I32, .below = 'C'},
                                   {.name = "count", .dims = "", .dtype = PS_I64, .output = true}}},
    [PSK_SGD] = {.name = "sgd",
                 .attrs = PSK_RATE,
                 .nmse_max = 1e-13,
                 .args = {{.name = "w", .dims = "BN", .dtype = PS_F32},
                          {.name = "dw", .dims = "BN", .dtype = PS_F32},
                          {.name = "out", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0) | BIT(1)}}},
    [PSK_SPARSE] = {.name = "sparse",
                    .attrs = PSK_ACTIVATION,
                    .gemm = true,
                    .sparse = true,
                    .nmse_max = 1e-11,
                    .args = {{.name = "ends", .dims = "B", .dtype = PS_I32},
                             {.name = "columns", .dims = "K", .dtype = PS_I32},
                             {.name = "values", .dims = "K", .dtype = PS_F32},
                             {.name = "w", .dims = "IO", .dtype = PS_F32},
                             {.name = "b", .dims = "O", .dtype = PS_F32, .optional = true},
                             {.name = "y", .dims = "BO", .dtype = PS_F32, .output = true}}},
    [PSK_SPARSE_DW] = {.name = "sparse_dw",
                       .gemm = true,
                       .sparse = true,
                       .nmse_max = 1e-11,
                       .args = {{.name = "ends", .dims = "B", .dtype = PS_I32},
                                {.name = "columns", .dims = "K", .dtype = PS_I32},
                                {.name = "values", .dims = "K", .dtype = PS_F32},
                                {.name = "dy", .dims = "BO", .dtype = PS_F32},
                                {.name = "dw", .dims = "IO", .dtype = PS_F32, .output = true},
                                {.name = "db", .dims = "O", .dtype = PS_F32, .output = true, .optional = true}}},
    [PSK_LOSS] =
        {.name = "loss",
         .attrs = PSK_LOSS_KIND,
         .nmse_max = 1e-12,
         .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                  {.name = "t", .dims = "BN", .dtype = PS_F32},
                  {.name = "dx", .dims = "BN", .dtype = PS_F32, .output = true, .optional = true, .in_place = BIT(0) | BIT(1)},
                  {.name = "loss", .dims = "", .dtype = PS_F64, .output = true, .optional = true}}},
    [PSK_GELU] = {.name = "gelu",
                  .nmse_max = 1e-12,
                  .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                           {.name = "y", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0)}}},
    [PSK_GELU_BACKWARD] = {.name = "gelu_backward",
                           .nmse_max = 1e-12,
                           .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                                    {.name = "dy", .dims = "BN", .dtype = PS_F32},
                                    {.name = "dx", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0) | BIT(1)}}},
    [PSK_ADD] = {.name = "add",
                 .nmse_max = 1e-13,
                 .args = {{.name = "a", .dims = "BN", .dtype = PS_F32},
                          {.name = "b", .dims = "BN", .dtype = PS_F32},
                          {.name = "out", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0) | BIT(1)}}},
    [PSK_LAYER_NORM] = {.name = "layer_norm",
                        .attrs = PSK_EPSILON,
                        .nmse_max = 1e-11,
                        .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                                 {.name = "gamma", .dims = "N", .dtype = PS_F32},
                                 {.name = "beta", .dims = "N", .dtype = PS_F32},
                                 {.name = "y", .dims = "BN", .dtype = PS_F32, .output = true, .in_place = BIT(0)}}},
    [PSK_LAYER_NORM_BACKWARD] =
        {.name = "layer_norm_backward",
         .attrs = PSK_EPSILON,
         .nmse_max = 1e-11,
         .args = {{.name = "x", .dims = "BN", .dtype = PS_F32},
                  {.name = "gamma", .dims = "N", .dtype = PS_F32},
                  {.name = "dy", .dims = "BN", .dtype = PS_F32},
                  {.name = "dx", .dims = "BN", .dtype = PS_F32, .output = true, .optional = true, .in_place = BIT(2)},
                  {.name = "dgamma", .dims = "N", .dtype = PS_F32, .output = true, .optional = true},
                  {.name = "dbeta", .dims = "N", .dtype = PS_F32, .output = true, .optional = true}}},
    [PSK_EMBEDDING] = {.name = "embedding",
                       .attrs = PSK_PADDING,
                       .nmse_max = 0,
                       .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32},
                                {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                                {.name = "y", .dims = "KN", .dtype = PS_F32, .output = true}}},
    [PSK_EMBEDDING_BACKWARD] = {.name = "embedding_backward",
                                .attrs = PSK_PADDING,
                                .nmse_max = 1e-12,
                                .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32, .optional = true},
                                         {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                                         {.name = "dy", .dims = "KN", .dtype = PS_F32},
                                         {.name = "drows", .dims = "RN", .dtype = PS_F32, .output = true}}},
    [PSK_EMBEDDING_BAG] = {.name = "embedding_bag",
                           .attrs = PSK_PADDING | PSK_COMBINER,
                           .nmse_max = 1e-11,
                           .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32},
                                    {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                                    {.name = "ends", .dims = "B", .dtype = PS_I64},
                                    {.name = "weights", .dims = "K", .dtype = PS_F32, .optional = true},
                                    {.name = "y", .dims = "BN", .dtype = PS_F32, .output = true}}},
    [PSK_EMBEDDING_BAG_BACKWARD] = {.name = "embedding_bag_backward",
                                    .attrs = PSK_PADDING | PSK_COMBINER,
                                    .nmse_max = 1e-11,
                                    .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32, .optional = true},
                                             {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                                             {.name = "ends", .dims = "B", .dtype = PS_I64},
                                             {.name = "weights", .dims = "K", .dtype = PS_F32, .optional = true},
                                             {.name = "dy", .dims = "BN", .dtype = PS_F32},
                                             {.name = "drows", .dims = "RN", .dtype = PS_F32, .output = true}}},
    [PSK_FM] = {.name = "fm",
                .attrs = PSK_PADDING,
                .nmse_max = 1e-11,
                .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32},
                         {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                         {.name = "ends", .dims = "B", .dtype = PS_I64},
                         {.name = "weights", .dims = "K", .dtype = PS_F32, .optional = true},
                         {.name = "y", .dims = "B", .dtype = PS_F32, .output = true},
                         {.name = "sums", .dims = "BN", .dtype = PS_F32, .output = true}}},
    [PSK_FM_BACKWARD] = {.name = "fm_backward",
                         .attrs = PSK_PADDING,
                         .nmse_max = 1e-11,
                         .args = {{.name = "rows", .dims = "RN", .dtype = PS_F32},
                                  {.name = "indices", .dims = "K", .dtype = PS_I64, .below = 'R'},
                                  {.name = "ends", .dims = "B", .dtype = PS_I64},
                                  {.name = "weights", .dims = "K", .dtype = PS_F32, .optional = true},
                                  {.name = "sums", .dims = "BN", .dtype = PS_F32},
                                  {.name = "dy", .dims = "B", .dtype = PS_F32},
                                  {.name = "drows", .dims = "RN", .dtype = PS_F32, .output = true}}},
    [PSK_DOT] = {.name = "dot",
                 .attrs = PSK_FIELDS,
                 .nmse_max = 1e-11,
                 .args = {{.name = "x", .dims = "BM", .dtype = PS_F32},
                          {.name = "y", .dims = "BP", .dtype = PS_F32, .output = true}}},
    [PSK_DOT_BACKWARD] = {.name = "dot_backward",
                          .attrs = PSK_FIELDS,
                          .nmse_max = 1e-11,
                          .args = {{.name = "x", .dims = "BM", .dtype = PS_F32},
                                   {.name = "dy", .dims = "BP", .dtype = PS_F32},
                                   {.name = "dx", .dims = "BM", .dtype = PS_F32, .output = true}}},
};

size_t psk_arg_count(psk_op op)
{
    size_t n = 0;
    while (n < PSK_ARGS_MAX && psk_rows[op].args[n].name != NULL) {
        n++;
    }
    return n;
}

static bool there(const struct psk_tensor *t)
{
    return t->dtype != PS_DTYPE_NONE;
}

const char *psk_op_name_of(psk_op op, const char *const *names, size_t arg)
{
    return names != NULL && names[arg] != NULL ? names[arg] : psk_rows[op].args[arg].name;
}

size_t psk_tensor_bytes(const struct psk_tensor *t)
{
    return (size_t)ps_shape_elements(&t->shape) * ps_dtype_bytes(t->dtype);
}

struct sizes {
    int64_t of[26];  /* size that each dimension letter 'A' .. 'Z' of psk_arg.dims stands for; -1: no argument has the letter */
    uint8_t arg[26]; /* index of the first argument that has the letter */
};

static size_t letter(char c)
{
    return (size_t)(c - 'A');
}

/* Get the size of each dimension letter, from the first argument that has the letter. Argument `without` is left out. */
static struct sizes sizes_of(psk_op op, const struct psk_tensor *args, size_t without)
{
    struct sizes s;
    memset(s.of, 0xff, sizeof(s.of));
    memset(s.arg, 0, sizeof(s.arg));
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        const char *dims = psk_rows[op].args[i].dims;
        for (size_t d = 0; i != without && there(&args[i]) && d < args[i].shape.rank && dims[d] != '\0'; d++) {
            if (s.of[letter(dims[d])] < 0) {
                s.of[letter(dims[d])] = args[i].shape.dims[d];
                s.arg[letter(dims[d])] = (uint8_t)i;
            }
        }
    }
    return s;
}

bool psk_op_shape(psk_op op, const struct psk_tensor *args, size_t arg, ps_shape *out)
{
    const struct sizes s = sizes_of(op, args, arg);
    const char *dims = psk_rows[op].args[arg].dims;
    ps_shape shape = {.rank = (uint32_t)strlen(dims)};
    for (uint32_t d = 0; d < shape.rank; d++) {
        shape.dims[d] = s.of[letter(dims[d])];
        if (shape.dims[d] < 0) {
            return false;
        }
    }
    *out = shape;
    return true;
}

/* Make the error for an argument that does not fit the others: "w is (4, 5), but x is (6, 3): w must be (3, *)". */
static ps_status misfit(psk_op op, const struct psk_tensor *args, size_t arg, const struct sizes *s, const char *const *names,
                        struct psi_err *err)
{
    char is[PSI_SHAPE_TEXT_MAX];
    char other[PSI_SHAPE_TEXT_MAX];
    char others[256] = "";
    char must[128] = "";
    const char *dims = psk_rows[op].args[arg].dims;
    const bool one = dims[0] != '\0' && dims[1] == '\0'; /* written as in Python: (5,) */
    uint32_t said = 0;
    size_t used = 0;
    size_t listed = 0;
    for (size_t d = 0; dims[d] != '\0'; d++) {
        const int64_t size = s->of[letter(dims[d])];
        const size_t who = s->arg[letter(dims[d])];
        used += (size_t)(size >= 0 ? snprintf(must + used, sizeof(must) - used, "%s%" PRId64, d > 0 ? ", " : "", size)
                                   : snprintf(must + used, sizeof(must) - used, "%s*", d > 0 ? ", " : ""));
        if (size >= 0 && who != arg && (said & BIT(who)) == 0) {
            said |= BIT(who);
            listed += (size_t)snprintf(others + listed, sizeof(others) - listed, "%s%.80s is %s", listed > 0 ? " and " : ", but ",
                                       psk_op_name_of(op, names, who), psi_shape_format(&args[who].shape, other, sizeof(other)));
            listed = listed < sizeof(others) ? listed : sizeof(others) - 1;
        }
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %s%s: %s must be (%s%s)", psk_op_name_of(op, names, arg),
                    psi_shape_format(&args[arg].shape, is, sizeof(is)), others, psk_op_name_of(op, names, arg), must,
                    one ? "," : "");
}

static ps_status size_check(const struct psk_row *row, const char *name, char c, int64_t size, struct psi_err *err)
{
    const int64_t min = c == 'B' || c == 'K' || c == 'R' ? 0 : 1;
    const int64_t max = row->gemm || c == 'C' ? INT32_MAX : INT64_MAX / (int64_t)sizeof(double);
    if (size < min || size > max) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s has a size of %" PRId64 ", allowed is %" PRId64 " to %" PRId64, name, size,
                        min, max);
    }
    return PS_OK;
}

static ps_status arg_check(psk_op op, const struct psk_tensor *args, size_t i, const struct sizes *s, const char *const *names,
                           struct psi_err *err)
{
    const struct psk_arg *arg = &psk_rows[op].args[i];
    const char *name = psk_op_name_of(op, names, i);
    const struct psk_tensor *t = &args[i];
    int64_t bytes = (int64_t)ps_dtype_bytes(t->dtype);
    if (!there(t)) {
        return arg->optional ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "%s is NULL", name);
    }
    if (t->dtype != arg->dtype) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is %s: it must be %s", name, ps_dtype_name(t->dtype),
                        ps_dtype_name(arg->dtype));
    }
    if (t->shape.rank != strlen(arg->dims)) {
        return misfit(op, args, i, s, names, err);
    }
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        ps_status st = size_check(&psk_rows[op], name, arg->dims[d], t->shape.dims[d], err);
        if (st != PS_OK) {
            return st;
        }
        if (t->shape.dims[d] != s->of[letter(arg->dims[d])]) {
            return misfit(op, args, i, s, names, err);
        }
        if (__builtin_mul_overflow(bytes, t->shape.dims[d], &bytes)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s is too large", name);
        }
    }
    return PS_OK;
}

/* Check attrs->fields and the sizes of the two operations on fields, whose first two arguments are (B,M) and (B,P). */
static ps_status fields_check(const struct psk_tensor *args, const struct psk_attrs *attrs, struct psi_err *err)
{
    const int64_t fields = attrs->fields;
    const int64_t values = args[0].shape.dims[1];
    const int64_t pairs = fields * (fields - 1) / 2;
    if (fields < 2 || values % fields != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "fields is %" PRId64 ", allowed are 2 and more that divide the %" PRId64 " columns of x", fields, values);
    }
    return args[1].shape.dims[1] == pairs
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%" PRId64 " columns for the pairs of %" PRId64 " fields: there are %" PRId64,
                          args[1].shape.dims[1], fields, pairs);
}

static ps_status attrs_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, struct psi_err *err)
{
    const uint32_t reads = psk_rows[op].attrs;
    if ((reads & PSK_KEEP) != 0 && !(attrs->keep >= KEEP_MIN && attrs->keep <= 1.0f)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "keep is %g, allowed is 2^-20 to 1", (double)attrs->keep);
    }
    if ((reads & PSK_ACTIVATION) != 0 && attrs->activation >= PSK_ACTIVATIONS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "there is no activation %" PRIu32, attrs->activation);
    }
    if ((reads & PSK_RATE) != 0 && !isfinite(attrs->rate)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "rate is %g, which is not finite", (double)attrs->rate);
    }
    if ((reads & PSK_LOSS_KIND) != 0 && attrs->loss >= PSK_LOSSES) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "there is no loss %" PRIu32, attrs->loss);
    }
    if ((reads & PSK_LOSS_KIND) != 0 && attrs->loss == PSK_HUBER && !(attrs->delta > 0.0f && isfinite(attrs->delta))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "delta is %g, allowed are finite numbers above 0", (double)attrs->delta);
    }
    if ((reads & PSK_EPSILON) != 0 && !(attrs->epsilon > 0.0f && isfinite(attrs->epsilon))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "epsilon is %g, allowed are finite numbers above 0", (double)attrs->epsilon);
    }
    if ((reads & PSK_COMBINER) != 0 && attrs->combiner >= PSK_COMBINERS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "there is no combiner %" PRIu32, attrs->combiner);
    }
    if ((reads & PSK_FIELDS) != 0) {
        return fields_check(args, attrs, err);
    }
    if (op == PSK_DENSE_DX && attrs->activation != PSK_LINEAR && !there(&args[2])) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "x is NULL, which the activation needs");
    }
    return PS_OK;
}

ps_status psk_op_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, const char *const *names,
                       struct psi_err *err)
{
    const struct sizes s = sizes_of(op, args, PSK_ARGS_MAX);
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        ps_status st = arg_check(op, args, i, &s, names, err);
        if (st != PS_OK) {
            return st;
        }
    }
    return attrs_check(op, args, attrs, err);
}

bool psk_tensors_apart(const struct psk_tensor *a, const struct psk_tensor *b)
{
    const size_t a_bytes = psk_tensor_bytes(a);
    const size_t b_bytes = psk_tensor_bytes(b);
    return a_bytes == 0 || b_bytes == 0 || a->address + a_bytes <= b->address || b->address + b_bytes <= a->address;
}

ps_status psk_op_check_overlap(psk_op op, const struct psk_tensor *args, const char *const *names, struct psi_err *err)
{
    const size_t count = psk_arg_count(op);
    for (size_t o = 0; o < count; o++) {
        const struct psk_arg *out = &psk_rows[op].args[o];
        for (size_t i = 0; out->output && there(&args[o]) && i < count; i++) {
            const bool same = args[i].address == args[o].address && (out->in_place & BIT(i)) != 0;
            if (i != o && there(&args[i]) && !same && !psk_tensors_apart(&args[o], &args[i])) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "%s overlaps %s", psk_op_name_of(op, names, o),
                                psk_op_name_of(op, names, i));
            }
        }
    }
    return PS_OK;
}

ps_status psk_op_check_labels(psk_op op, const struct psk_tensor *args, struct psi_err *err)
{
    const struct sizes s = sizes_of(op, args, PSK_ARGS_MAX);
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        const char below = psk_rows[op].args[i].below;
        const int32_t *labels = (const int32_t *)(uintptr_t)args[i].address;
        const int64_t count = below != 0 && args[i].dtype == PS_I32 ? ps_shape_elements(&args[i].shape) : 0;
        for (int64_t k = 0; k < count; k++) {
            if (labels[k] < 0 || labels[k] >= s.of[letter(below)]) {
                return psi_fail(err, PS_INVALID_ARGUMENT,
                                "label %" PRId32 " of row %" PRId64 " is not a class, allowed is 0 to %" PRId64, labels[k], k,
                                s.of[letter(below)] - 1);
            }
        }
    }
    return PS_OK;
}

/* Check the columns of row `row`, which are columns[first] .. columns[end - 1]. */
static ps_status row_check(const int32_t *columns, int64_t first, int64_t end, int64_t row, int64_t size, struct psi_err *err)
{
    for (int64_t k = first; k < end; k++) {
        if (columns[k] < 0 || columns[k] >= size) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "columns: row %" PRId64 " has a value in %" PRId32 ", allowed is 0 to %" PRId64, row, columns[k],
                            size - 1);
        }
        if (k > first && columns[k] <= columns[k - 1]) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "columns: row %" PRId64 " has %" PRId32 " behind %" PRId32 ", columns must rise", row, columns[k],
                            columns[k - 1]);
        }
    }
    return PS_OK;
}

ps_status psk_op_check_rows(psk_op op, const struct psk_tensor *args, struct psi_err *err)
{
    if (!psk_rows[op].sparse) {
        return PS_OK;
    }
    const int64_t rows = args[0].shape.dims[0];
    const int64_t count = args[1].shape.dims[0];
    const int64_t size = args[op == PSK_SPARSE ? 3 : 4].shape.dims[0];
    const int32_t *ends = (const int32_t *)(uintptr_t)args[0].address;
    const int32_t *columns = (const int32_t *)(uintptr_t)args[1].address;
    int64_t first = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (ends[i] < first || ends[i] > count) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "ends: row %" PRId64 " ends at %" PRId32 ", allowed is %" PRId64 " to %" PRId64, i, ends[i], first,
                            count);
        }
        ps_status st = row_check(columns, first, ends[i], i, size, err);
        if (st != PS_OK) {
            return st;
        }
        first = ends[i];
    }
    return first == count
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "ends: the last row ends at %" PRId64 " of %" PRId64 " values", first, count);
}

static ps_status indices_check(const struct psk_tensor *t, int64_t rows, uint64_t padding_plus_1, struct psi_err *err)
{
    const int64_t *indices = (const int64_t *)(uintptr_t)t->address;
    for (int64_t k = 0; k < t->shape.dims[0]; k++) {
        const bool padding = padding_plus_1 != 0 && (uint64_t)indices[k] == padding_plus_1 - 1;
        if ((indices[k] < 0 || indices[k] >= rows) && !padding) {
            return rows > 0
                       ? psi_fail(err, PS_INVALID_ARGUMENT,
                                  "index %" PRId64 " at %" PRId64 " is not a row, allowed is 0 to %" PRId64, indices[k], k,
                                  rows - 1)
                       : psi_fail(err, PS_INVALID_ARGUMENT, "index %" PRId64 " at %" PRId64 ": there are no rows", indices[k], k);
        }
    }
    return PS_OK;
}

static ps_status ends_check(const struct psk_tensor *t, int64_t count, struct psi_err *err)
{
    const int64_t *ends = (const int64_t *)(uintptr_t)t->address;
    int64_t first = 0;
    for (int64_t i = 0; i < t->shape.dims[0]; i++) {
        if (ends[i] < first || ends[i] > count) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "ends: bag %" PRId64 " ends at %" PRId64 ", allowed is %" PRId64 " to %" PRId64, i, ends[i], first,
                            count);
        }
        first = ends[i];
    }
    return first == count ? PS_OK
                          : psi_fail(err, PS_INVALID_ARGUMENT, "ends: the last bag ends at %" PRId64 " of %" PRId64 " indices",
                                     first, count);
}

ps_status psk_op_check_indices(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, struct psi_err *err)
{
    const struct sizes s = sizes_of(op, args, PSK_ARGS_MAX);
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        const struct psk_arg *arg = &psk_rows[op].args[i];
        if (arg->dtype != PS_I64 || arg->output) {
            continue;
        }
        const ps_status st = arg->below != 0 ? indices_check(&args[i], s.of[letter(arg->below)], attrs->padding_plus_1, err)
                                             : ends_check(&args[i], s.of[letter('K')], err);
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}
