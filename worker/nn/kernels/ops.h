/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations: what each takes and gives, as data. One row serves the checks of ps_nn.h, the tests of every device,
 * and whoever runs an operation by name. What an operation computes is in kernels.h, beside its number. Pure; any thread.
 */
#ifndef PSK_OPS_H
#define PSK_OPS_H

#include "worker/nn/kernels/kernels.h"

enum { PSK_SEED = 1, PSK_STEP = 2, PSK_KEEP = 4, PSK_ACTIVATION = 8, PSK_RATE = 16 }; /* bits of psk_row.attrs */

struct psk_arg {
    const char *name; /* "x"; NULL: the row has no more arguments */
    const char *dims; /* a letter per dimension, as in kernels.h; the same letter is the same size */
    ps_dtype dtype;
    bool output;
    bool optional;
    uint8_t in_place; /* bits: arguments whose very memory it may be */
    char below;       /* a letter: the elements are >= 0 and below that size; 0: any */
};

struct psk_row {
    const char *name; /* "dense_dx" */
    uint32_t attrs;   /* bits: what it reads of psk_attrs */
    bool gemm;        /* a matrix product: no size is above INT32_MAX */
    bool sparse;      /* begins with ends, columns and values of compressed sparse rows; only devices with host_memory have it */
    double
        nmse_max; /* sum of (result - exact)^2 over sum of exact^2, of every float output on every device (f32; random input) */
    struct psk_arg args[PSK_ARGS_MAX];
};

extern const struct psk_row psk_rows[PSK_OPS];

/** Arguments of an operation, inputs and outputs. */
size_t psk_arg_count(psk_op op);
/** What an argument is called in errors: names[arg], or the row's name where that, or names, is NULL. */
const char *psk_op_name_of(psk_op op, const char *const *names, size_t arg);

/**
 * What kernels.h lets a plugin rely on: arguments that are there, dtypes, ranks, sizes that fit each other and the machine,
 * attributes. Addresses are not looked at.
 *
 * args    psk_arg_count(op); one with dtype PS_DTYPE_NONE is not there.
 * names   what the arguments are called in errors, or NULL entries (or NULL) for the row's names.
 * Errors  INVALID_ARGUMENT  names what does not fit and what it should be: "w is (4, 5), but x is (6, 3): w must be (3, *)"
 */
PSI_MUST ps_status psk_op_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, const char *const *names,
                                struct psi_err *err);
/** The shape of argument `arg` (an output) as the others have it; false where they leave it open. */
bool psk_op_shape(psk_op op, const struct psk_tensor *args, size_t arg, ps_shape *out);
/** They share no byte. */
bool psk_tensors_apart(const struct psk_tensor *a, const struct psk_tensor *b);
/** Each output shares no byte with another argument, or is in place of it. */
PSI_MUST ps_status psk_op_check_overlap(psk_op op, const struct psk_tensor *args, const char *const *names, struct psi_err *err);
/** Elements of an argument with `below` lie in host memory, at tensor->address: each is in range. */
PSI_MUST ps_status psk_op_check_labels(psk_op op, const struct psk_tensor *args, struct psi_err *err);

/** The first three arguments of a sparse operation lie in host memory, at tensor->address: ends do not fall and the last one is
 * the number of values, columns are in range and rise strictly within a row. INVALID_ARGUMENT names the row. PS_OK for other
 * operations. */
PSI_MUST ps_status psk_op_check_rows(psk_op op, const struct psk_tensor *args, struct psi_err *err);

/** Bytes of all elements; the shape was checked. */
size_t psk_tensor_bytes(const struct psk_tensor *t);

#endif
