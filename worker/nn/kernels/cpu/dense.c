/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layer by three matrix products (oneDNN with one thread where it is there, otherwise CBLAS) and row loops.
 *   y = act(x w + b)        dw = x^T dy        db_j = sum_i dy_ij        dx = (dy w^T) act'(x)
 * Happy path: the host has checked shapes, so BLAS cannot complain. A product with beta = 0 has BLAS set its result to zero
 * before it adds to it; rows of b in place of the zeros (beta = 1) make the bias free. There are no failure modes. The only file
 * that includes cblas.h (OpenBLAS's defines the macro I).
 */
#include "cpu.h"

#include "common/clones.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

/* OpenBLAS has them, other providers of libblas.so.3 do not */
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

void psk_cpu_blas_threads(uint32_t threads)
{
    if (openblas_set_num_threads != NULL) {
        openblas_set_num_threads((int)threads);
    }
}

/* Nobody has asked OpenBLAS for more; another BLAS has no say. */
static bool one_thread(void)
{
    return openblas_get_num_threads == NULL || openblas_get_num_threads() == 1;
}

void psk_cpu_blas_describe(char *name, size_t name_bytes, char *warning, size_t warning_bytes)
{
    int version[3];
    warning[0] = '\0';
    if (one_thread() && psk_cpu_onednn_has(version)) {
        (void)snprintf(name, name_bytes, "oneDNN %d.%d.%d, 1 thread", version[0], version[1], version[2]);
        return;
    }
    if (openblas_get_corename == NULL || openblas_get_num_threads == NULL) {
        (void)snprintf(name, name_bytes, "BLAS");
        (void)snprintf(warning, warning_bytes,
                       "libblas.so.3 is not OpenBLAS; the reference BLAS is 20 times slower (Debian: libopenblas0-pthread)");
        return;
    }
    const int threads = openblas_get_num_threads();
    (void)snprintf(name, name_bytes, "OpenBLAS %s, %d thread%s", openblas_get_corename(), threads, threads == 1 ? "" : "s");
}

static void multiply(const struct psk_cpu_product *p)
{
    if (one_thread() && psk_cpu_onednn_multiply(p)) {
        return;
    }
    cblas_sgemm(CblasRowMajor, p->a_turned ? CblasTrans : CblasNoTrans, p->b_turned ? CblasTrans : CblasNoTrans, (int)p->rows,
                (int)p->columns, (int)p->inner, 1.0f, p->a, (int)(p->a_turned ? p->rows : p->inner), p->b,
                (int)(p->b_turned ? p->inner : p->columns), p->beta, p->c, (int)p->columns);
}

PSI_CLONES static void psk_clone_add_row(float *restrict sum, const float *restrict row, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += row[j];
    }
}

void psk_cpu_dense(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out,
                   psk_activation act)
{
    /* x (B,I), w (I,O), b (O), y (B,O) */
    if (batch == 0) {
        return;
    }
    for (int64_t i = 0; b != NULL && i < batch; i++) {
        memcpy(y + i * out, b, (size_t)out * sizeof(float));
    }
    multiply(&(struct psk_cpu_product){
        .a = x, .b = w, .c = y, .rows = batch, .columns = out, .inner = in, .beta = b != NULL ? 1.0f : 0.0f});
    psk_cpu_act(y, y, batch * out, act);
}

void psk_cpu_dense_dx(const float *dy, const float *w, const float *x, float *dx, int64_t batch, int64_t in, int64_t out,
                      psk_activation act)
{
    /* dy (B,O), w (I,O), x and dx (B,I) */
    if (batch == 0) {
        return;
    }
    multiply(&(struct psk_cpu_product){.a = dy, .b = w, .c = dx, .rows = batch, .columns = in, .inner = out, .b_turned = true});
    psk_cpu_act_backward(x, dx, dx, batch * in, act);
}

void psk_cpu_dense_dw(const float *x, const float *dy, float *dw, float *db, int64_t batch, int64_t in, int64_t out)
{
    /* x (B,I), dy (B,O), dw (I,O), db (O) */
    if (batch == 0) {
        memset(dw, 0, (size_t)(in * out) * sizeof(float));
    } else {
        multiply(
            &(struct psk_cpu_product){.a = x, .b = dy, .c = dw, .rows = in, .columns = out, .inner = batch, .a_turned = true});
    }
    if (db != NULL) {
        memset(db, 0, (size_t)out * sizeof(float));
        for (int64_t i = 0; i < batch; i++) {
            psk_clone_add_row(db, dy + i * out, out);
        }
    }
}
