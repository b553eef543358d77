/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernel operations: what a backend plugin (libpsworker_<device>.so) gives to libpsworker.
 *
 * A plugin exports one symbol, psk_open. The host (worker/nn/nn.c) has checked all arguments before it calls: no pointer is NULL
 * unless it says so, all counts are >= 1 and <= INT32_MAX for matrix sizes, labels are in range, forbidden overlaps do not
 * occur. cpu is the reference: the same input gives the same bits on one machine; other devices match it within a bound.
 */
#ifndef PSK_KERNELS_H
#define PSK_KERNELS_H

#include "common/status.h"

/* rises with every change of struct psk_table or of what an operation means */
#define PSK_ABI 1u

/** Shapes as in ps_nn.h, float32 row-major. Every operation returns PS_OK, or PS_INTERNAL when a device failed. */
struct psk_table {
    uint32_t abi;                  /* PSK_ABI that the plugin was built with */
    uint32_t struct_bytes;         /* sizeof(struct psk_table) there */
    const char *device;            /* "cpu" */
    const char *(*describe)(void); /* what does the work: "OpenBLAS SkylakeX"; static text; called once, under the host's lock */
    /* y (batch, out) = x (batch, in) w (in, out) + b (out); b may be NULL */
    ps_status (*dense_forward)(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out);
    /* dw = x^T dy, db = column sums of dy, dx = dy w^T; each output may be NULL, x without dw and w without dx too */
    ps_status (*dense_backward)(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx, int64_t batch,
                                int64_t in, int64_t out);
    /* element by element; in place is fine */
    ps_status (*relu_forward)(const float *x, float *y, int64_t count);
    ps_status (*relu_backward)(const float *y, const float *dy, float *dx, int64_t count);
    ps_status (*sigmoid_forward)(const float *x, float *y, int64_t count);
    ps_status (*sigmoid_backward)(const float *y, const float *dy, float *dx, int64_t count);
    ps_status (*tanh_forward)(const float *x, float *y, int64_t count);
    ps_status (*tanh_backward)(const float *y, const float *dy, float *dx, int64_t count);
    /* out[i] = kept(seed, step, i) ? in[i] / keep : 0; 2^-20 <= keep <= 1; in place is fine */
    ps_status (*dropout)(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step);
    /* mean loss over the batch; dlogits may be NULL or logits */
    ps_status (*softmax_xent)(const float *logits, const int32_t *labels, float *dlogits, int64_t batch, int64_t classes,
                              double *out_loss);
    /* rows whose first largest value is at the label; rows with a NaN do not count */
    ps_status (*argmax_count)(const float *logits, const int32_t *labels, int64_t batch, int64_t classes, int64_t *out_count);
};

#define PSK_OPEN_SYMBOL "psk_open"
typedef const struct psk_table *(*psk_open_fn)(uint32_t abi);

/** Exported by each plugin: its table, or NULL when it does not speak abi or the device cannot be used. Any thread. */
PS_API const struct psk_table *psk_open(uint32_t abi);

/* ---- the host's side: worker/nn/kernels/plugin.c ---- */

#define PSK_PLACES_MAX 6

/**
 * The table of a device ("cpu"); finds and opens the plugin at the first call and keeps it for the life of the process. Looks
 * into PS_PLUGIN_DIR, the directory of the library (or program) that holds this function, the directory of the program, the
 * ../lib of both, and the compiled-in PSI_LIBDIR, in this order.
 *
 * Thread   any; the first one opens, others wait.
 * Errors   PS_UNIMPLEMENTED  no usable plugin: the text says what was wrong with those that exist, and where it looked
 *          PS_INVALID_ARGUMENT  not a device name ([a-z0-9], at most 15 bytes)
 */
PSI_MUST ps_status psk_table_get(const char *device, const struct psk_table **out_table, struct psi_err *err);
/** "cpu: PATH (what does the work)" of the open CPU plugin, or NULL when it is not open. Static text; any thread. */
const char *psk_backend(void);
/** Open the plugin of a device from the first of the given directories that has a usable one. path (may be NULL) gets its path,
 *  cut at path_bytes. Sets and removes BLAS settings in the environment. Never closes a plugin that it returned. */
PSI_MUST ps_status psk_table_load(const char *device, const char *const *places, size_t place_count,
                                  const struct psk_table **out_table, char *path, size_t path_bytes, struct psi_err *err);
/** The OPENBLAS_CORETYPE with the fastest kernels on this CPU (AVX-512), or NULL when OpenBLAS finds out by itself. */
const char *psk_blas_coretype(void);

#endif
