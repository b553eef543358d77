/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations: arguments and results of each, as data. A row serves the checks of ps_nn.h, the tests of every device,
 * and callers that run an operation by name. What an operation computes is in kernels.h. Pure; any thread. */
#ifndef PSK_OPS_H
#define PSK_OPS_H

#include "worker/nn/kernels/kernels.h"

/* bits of psk_row.attrs */
enum {
    PSK_SEED = 1,
    PSK_STEP = 2,
    PSK_KEEP = 4,
    PSK_ACTIVATION = 8,
    PSK_RATE = 16,
    PSK_LOSS_KIND = 32,
    PSK_EPSILON = 64,
    PSK_COMBINER = 128,
    PSK_FIELDS = 256,
    PSK_PADDING = 512
};

struct psk_arg {
    const char *name; /* "x"; NULL: the operation has no more arguments */
    const char *dims; /* a letter per dimension, as in kernels.h: equal letters mean equal sizes */
    ps_dtype dtype;
    bool output;
    bool optional;
    uint8_t in_place; /* bit i: the output may be in the memory of argument i */
    char below;       /* elements are >= 0 and < the size of this letter in dims, or the padding index; 0: any value */
};

struct psk_row {
    const char *name; /* "dense_dx" */
    uint32_t attrs;   /* fields of psk_attrs that the operation reads, as bits PSK_SEED ... */
    bool gemm;        /* a matrix product: no size may exceed INT32_MAX */
    bool sparse;      /* arguments 0 to 2 are ends, columns and values of sparse rows; needs host_memory */
    /* for tests with random float32 input: limit, for each float output, of sum((result - exact)^2) / sum(exact^2) */
    double nmse_max;
    struct psk_arg args[PSK_ARGS_MAX];
};

extern const struct psk_row psk_rows[PSK_OPS];

size_t psk_arg_count(psk_op op);
/** Name of an argument in errors: names[arg]; if names or names[arg] is NULL, the name in psk_rows[op]. */
const char *psk_op_name_of(psk_op op, const char *const *names, size_t arg);

/** Check all that kernels.h promises to a plugin: required arguments, dtypes, ranks, sizes that fit each other and the machine,
 * attributes. Addresses are not looked at.
 *
 * args    psk_arg_count(op); dtype PS_DTYPE_NONE: missing.
 * names   names of the arguments in errors; NULL, or a NULL entry: the names in psk_rows[op].
 * Errors  INVALID_ARGUMENT  says what does not fit and what it should be: "w is (4, 5), but x is (6, 3): w must be (3, *)" */
PSI_MUST ps_status psk_op_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, const char *const *names,
                                struct psi_err *err);
/** Shape of argument `arg`, an output, as the other arguments give it. False: they do not determine it. */
bool psk_op_shape(psk_op op, const struct psk_tensor *args, size_t arg, ps_shape *out);
/** True if a and b share no byte. */
bool psk_tensors_apart(const struct psk_tensor *a, const struct psk_tensor *b);
/** Check that each output shares no byte with another argument, or has that argument's memory if in_place allows it. */
PSI_MUST ps_status psk_op_check_overlap(psk_op op, const struct psk_tensor *args, const char *const *names, struct psi_err *err);
/** Check that labels and indices (psk_arg.below is set), in host memory at tensor->address, are in range. */
PSI_MUST ps_status psk_op_check_labels(psk_op op, const struct psk_tensor *args, struct psi_err *err);

/** Check the first three arguments of a sparse operation, in host memory at tensor->address: ends do not descend, the last one is
 * the number of values, columns are in range and ascend within a row. INVALID_ARGUMENT names the row. Other operations: PS_OK. */
PSI_MUST ps_status psk_op_check_rows(psk_op op, const struct psk_tensor *args, struct psi_err *err);

/** Check indices and ends of bags, in host memory at tensor->address: indices are rows of the table or the padding index, ends do
 * not descend and the last one is the number of indices. INVALID_ARGUMENT names the entry. PS_OK for other operations. */
PSI_MUST ps_status psk_op_check_indices(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                                        struct psi_err *err);

size_t psk_tensor_bytes(const struct psk_tensor *t);

#endif
