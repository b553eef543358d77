/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layer by three matrix products (CBLAS) and two row loops.
 *   y = x w + b        dw = x^T dy        db_j = sum_i dy_ij        dx = dy w^T
 * Happy path: the host has checked shapes, so BLAS cannot complain. There are no failure modes.
 * The only file that includes cblas.h (OpenBLAS's defines the macro I).
 */
#include "cpu.h"

#include "common/clones.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

/* OpenBLAS has it, other providers of libblas.so.3 do not */
extern char *openblas_get_corename(void) __attribute__((weak));

const char *psk_cpu_describe(void)
{
    static char text[64];
    if (openblas_get_corename == NULL) {
        return "BLAS";
    }
    snprintf(text, sizeof(text), "OpenBLAS %s", openblas_get_corename());
    return text;
}

PSI_CLONES static void psk_clone_add_row(float *restrict sum, const float *restrict row, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += row[j];
    }
}

ps_status psk_cpu_dense_forward(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out)
{
    /* x (B,I), w (I,O), b (O), y (B,O): y = x w + b */
    if (b != NULL) {
        for (int64_t i = 0; i < batch; i++) {
            memcpy(y + i * out, b, (size_t)out * sizeof(float));
        }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)batch, (int)out, (int)in, 1.0f, x, (int)in, w, (int)out,
                b != NULL ? 1.0f : 0.0f, y, (int)out);
    return PS_OK;
}

ps_status psk_cpu_dense_backward(const float *x, const float *w, const float *dy, float *dw, float *db, float *dx, int64_t batch,
                                 int64_t in, int64_t out)
{
    /* x (B,I), w (I,O), dy (B,O), dw (I,O), db (O), dx (B,I) */
    if (dw != NULL) {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)out, (int)batch, 1.0f, x, (int)in, dy, (int)out, 0.0f,
                    dw, (int)out);
    }
    if (db != NULL) {
        memcpy(db, dy, (size_t)out * sizeof(float));
        for (int64_t i = 1; i < batch; i++) {
            psk_clone_add_row(db, dy + i * out, out);
        }
    }
    if (dx != NULL) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)batch, (int)in, (int)out, 1.0f, dy, (int)out, w, (int)out, 0.0f,
                    dx, (int)in);
    }
    return PS_OK;
}
