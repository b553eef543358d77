/* SPDX-License-Identifier: Apache-2.0 */
/* A dense layer by three matrix products (oneDNN if the machine has it, else CBLAS) and loops over rows.
 *   y = act(x w + b)        dw = x^T dy        db_j = sum_i dy_ij        dx = (dy w^T) act'(x)
 * Happy path: the host has checked the shapes, so BLAS cannot fail. The work is cut into as many parts as there are threads, or
 * fewer. Each part is a product of its own, followed by its bias and activation while the data is in the cache. With beta = 0
 * BLAS would first set the result to zero; copying b into its rows instead, with beta = 1, makes the bias cost nothing.
 *
 * If w has many more rows than x, y is cut along the inner dimension and is the sum of the parts. Each thread then works on its
 * own rows of w, as it does in dx, dw and sgd, so that rows of w that one CPU has written are mostly read by it too. Failure:
 * without memory for these sums y is cut by columns.
 *
 * The program may use OpenBLAS too. The plugin takes over OpenBLAS's number of threads only if OPENBLAS_NUM_THREADS sets it.
 * Otherwise OpenBLAS has one thread during products made here, and the program's number again afterwards.
 *
 * This is the only file that includes cblas.h (OpenBLAS's defines the macro I). */
#include "cpu.h"

#include "common/clones.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* functions of OpenBLAS; weak, so NULL if another library is installed as libblas.so.3 */
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

/* Fewest multiplications of a part that is handed to another thread: they take 5 us, the hand-over 2 us. */
enum { PART_PRODUCTS = 1 << 18 };

/* Cutting along the inner dimension costs additions of partial sums. It pays if w has very many rows: at least INNER_ROWS *
 * max(rows of y, PSK_CPU_CUT) * (number of parts). Otherwise y is cut by columns. */
enum { INNER_ROWS = 2 };

static pthread_mutex_t blas_mutex = PTHREAD_MUTEX_INITIALIZER;
/* under blas_mutex: */
static uint32_t blas_products; /* number of products that threads are computing now */
static int blas_threads;       /* the program's number of threads, to be restored after the last product */

void psk_cpu_blas_open(void)
{
    const char *text = getenv("OPENBLAS_NUM_THREADS");
    if (text == NULL || text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || strtol(text, NULL, 10) < 2) {
        return;
    }
    const int threads = openblas_get_num_threads != NULL ? openblas_get_num_threads() : 1;
    if (threads > 1) { /* the user wants so many threads: the plugin makes them, and OpenBLAS makes none */
        psk_cpu_threads_set((uint32_t)threads);
        openblas_set_num_threads(1);
    }
}

/* Begin a product: make OpenBLAS use one thread. After the last concurrent product, blas_leave() restores blas_threads. */
static void blas_enter(void)
{
    if (openblas_get_num_threads == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&blas_mutex);
    if (blas_products++ == 0) {
        blas_threads = openblas_get_num_threads();
        if (blas_threads != 1) {
            openblas_set_num_threads(1);
        }
    }
    (void)pthread_mutex_unlock(&blas_mutex);
}

static void blas_leave(void)
{
    if (openblas_get_num_threads == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&blas_mutex);
    if (--blas_products == 0 && blas_threads != 1) {
        openblas_set_num_threads(blas_threads);
    }
    (void)pthread_mutex_unlock(&blas_mutex);
}

void psk_cpu_blas_describe(char *name, size_t name_bytes, char *warning, size_t warning_bytes)
{
    int version[3];
    const uint32_t threads = psk_cpu_threads();
    const char *s = threads == 1 ? "" : "s";
    warning[0] = '\0';
    if (psk_cpu_onednn_has(version)) {
        (void)snprintf(name, name_bytes, "oneDNN %d.%d.%d, %u thread%s", version[0], version[1], version[2], threads, s);
    } else if (openblas_get_corename != NULL) {
        (void)snprintf(name, name_bytes, "OpenBLAS %s, %u thread%s", openblas_get_corename(), threads, s);
    } else {
        (void)snprintf(name, name_bytes, "BLAS");
        (void)snprintf(warning, warning_bytes,
                       "libblas.so.3 is not OpenBLAS; the reference BLAS is 20 times slower (Debian: libopenblas0-pthread)");
    }
}

static void multiply(const struct psk_cpu_product *p)
{
    if (psk_cpu_onednn_multiply(p)) {
        return;
    }
    blas_enter();
    cblas_sgemm(CblasRowMajor, p->a_turned ? CblasTrans : CblasNoTrans, p->b_turned ? CblasTrans : CblasNoTrans, (int)p->rows,
                (int)p->columns, (int)p->inner, 1.0f, p->a, (int)p->a_stride, p->b, (int)p->b_stride, p->beta, p->c,
                (int)p->c_stride);
    blas_leave();
}

enum cut { CUT_ROWS, CUT_COLUMNS, CUT_INNER };

/* A matrix product, how it is cut into parts for the threads, and the bias, activation or bias gradient that each part adds. */
struct layer {
    struct psk_cpu_product product;
    enum cut cut;
    float *sums; /* CUT_INNER: results of all parts but the first, one behind the other */
    psk_activation act;
    const float *b;  /* dense: bias, copied into the result's rows before the product */
    const float *x;  /* dense_dx: result of the activation, in the product's shape */
    const float *dy; /* dense_dw: gradient of the result, with product.inner rows, whose sum is db */
    float *db;       /* NULL: not wanted */
};

static struct psk_cpu_product cut_product(const struct layer *l, uint32_t part, uint32_t parts)
{
    struct psk_cpu_product p = l->product;
    int64_t *const size = l->cut == CUT_INNER ? &p.inner : l->cut == CUT_COLUMNS ? &p.columns : &p.rows;
    const int64_t at = psk_cpu_cut(*size, part, parts);
    *size = psk_cpu_cut(*size, part + 1, parts) - at;
    if (l->cut == CUT_INNER) {
        p.a += p.a_turned ? at * p.a_stride : at;
        p.b += p.b_turned ? at : at * p.b_stride;
        p.beta = part > 0 ? 0.0f : p.beta;
        p.c = part > 0 ? l->sums + (part - 1) * p.rows * p.columns : p.c;
    } else if (l->cut == CUT_COLUMNS) {
        p.b += p.b_turned ? at * p.b_stride : at;
        p.c += at;
    } else {
        p.a += p.a_turned ? at : at * p.a_stride;
        p.c += at * p.c_stride;
    }
    return p;
}

/* Set l->cut; return the number of parts, each worth a hand-over to a thread; 1: the library computes one product at a time. */
static uint32_t parts_of(struct layer *l)
{
    int version[3];
    const struct psk_cpu_product *p = &l->product;
    const uint32_t threads = openblas_get_corename != NULL || psk_cpu_onednn_has(version) ? psk_cpu_threads() : 1;
    l->cut = p->columns > p->rows ? CUT_COLUMNS : CUT_ROWS; /* cut the longer side: then all parts read the smaller matrix */
    const int64_t cuts = (l->cut == CUT_COLUMNS ? p->columns : p->rows) / PSK_CPU_CUT;
    const int64_t worth = (int64_t)((double)p->rows * (double)p->columns * (double)p->inner / PART_PRODUCTS);
    const int64_t most = cuts < worth ? cuts : worth;
    return most < 1 ? 1 : most < (int64_t)threads ? (uint32_t)most : threads;
}

PSI_CLONES static void psk_clone_add_row(float *restrict sum, const float *restrict row, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] += row[j];
    }
}

static void dense_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct layer *l = work;
    const struct psk_cpu_product p = cut_product(l, part, parts);
    const int64_t first = l->cut == CUT_COLUMNS ? p.c - l->product.c : 0;
    for (int64_t i = 0; p.beta != 0 && i < p.rows; i++) {
        memcpy(p.c + i * p.c_stride, l->b + first, (size_t)p.columns * sizeof(float));
    }
    multiply(&p);
    for (int64_t i = 0; l->act != PSK_LINEAR && l->cut != CUT_INNER && i < p.rows; i++) {
        psk_cpu_act(p.c + i * p.c_stride, p.c + i * p.c_stride, p.columns, l->act);
    }
}

/* Add up the parts' results for a range of y's columns (cut at cache lines, for one writer each), and apply the activation. */
static void dense_sum_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct layer *l = work;
    const struct psk_cpu_product *p = &l->product;
    const int64_t at = psk_cpu_cut(p->columns, part, parts);
    const int64_t n = psk_cpu_cut(p->columns, part + 1, parts) - at;
    for (int64_t i = 0; i < p->rows; i++) {
        float *const y = p->c + i * p->c_stride + at;
        for (uint32_t k = 1; k < parts; k++) {
            psk_clone_add_row(y, l->sums + ((k - 1) * p->rows + i) * p->columns + at, n);
        }
        if (l->act != PSK_LINEAR) {
            psk_cpu_act(y, y, n, l->act);
        }
    }
}

/* Change l->cut to CUT_INNER and allocate l->sums, if w is so large that adding up the parts' results costs little. */
static void cut_inner(struct layer *l, uint32_t parts)
{
    const struct psk_cpu_product *p = &l->product;
    const int64_t rows = p->rows > PSK_CPU_CUT ? p->rows : PSK_CPU_CUT;
    if (parts > 1 && l->cut == CUT_COLUMNS && p->inner >= INNER_ROWS * rows * (int64_t)parts) {
        l->sums = malloc((size_t)((parts - 1) * p->rows * p->columns) * sizeof(float));
        l->cut = l->sums != NULL ? CUT_INNER : l->cut;
    }
}

void psk_cpu_dense(const float *x, const float *w, const float *b, float *y, int64_t batch, int64_t in, int64_t out,
                   psk_activation act)
{
    /* x (batch, in), w (in, out), b (out), y (batch, out) */
    struct layer l = {.product = {.a = x,
                                  .b = w,
                                  .c = y,
                                  .rows = batch,
                                  .columns = out,
                                  .inner = in,
                                  .a_stride = in,
                                  .b_stride = out,
                                  .c_stride = out,
                                  .beta = b != NULL ? 1.0f : 0.0f},
                      .act = act,
                      .b = b};
    const uint32_t parts = batch > 0 ? parts_of(&l) : 0;
    cut_inner(&l, parts);
    psk_cpu_split(parts, dense_part, &l);
    if (l.cut == CUT_INNER) {
        psk_cpu_split(parts, dense_sum_part, &l);
    }
    free(l.sums);
}

static void dense_dx_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct layer *l = work;
    const struct psk_cpu_product p = cut_product(l, part, parts);
    multiply(&p);
    for (int64_t i = 0; l->act != PSK_LINEAR && i < p.rows; i++) {
        float *dx = p.c + i * p.c_stride;
        psk_cpu_act_backward(l->x + (dx - l->product.c), dx, dx, p.columns, l->act);
    }
}

void psk_cpu_dense_dx(const float *dy, const float *w, const float *x, float *dx, int64_t batch, int64_t in, int64_t out,
                      psk_activation act)
{
    /* dy (batch, out), w (in, out), x and dx (batch, in) */
    struct layer l = {.product = {.a = dy,
                                  .b = w,
                                  .c = dx,
                                  .rows = batch,
                                  .columns = in,
                                  .inner = out,
                                  .a_stride = out,
                                  .b_stride = out,
                                  .c_stride = in,
                                  .b_turned = true},
                      .act = act,
                      .x = x};
    if (batch > 0) {
        psk_cpu_split(parts_of(&l), dense_dx_part, &l);
    }
}

static void dense_dw_part(const void *work, uint32_t part, uint32_t parts)
{
    const struct layer *l = work;
    const struct psk_cpu_product p = cut_product(l, part, parts);
    const int64_t at = psk_cpu_cut(l->product.columns, part, parts);
    const int64_t n = psk_cpu_cut(l->product.columns, part + 1, parts) - at;
    if (p.inner > 0) {
        multiply(&p);
    }
    if (l->db != NULL) {
        memset(l->db + at, 0, (size_t)n * sizeof(float));
        for (int64_t i = 0; i < p.inner; i++) {
            psk_clone_add_row(l->db + at, l->dy + i * l->product.columns + at, n);
        }
    }
}

void psk_cpu_dense_dw(const float *x, const float *dy, float *dw, float *db, int64_t batch, int64_t in, int64_t out)
{
    /* x (batch, in), dy (batch, out), dw (in, out), db (out) */
    struct layer l = {.product = {.a = x,
                                  .b = dy,
                                  .c = dw,
                                  .rows = in,
                                  .columns = out,
                                  .inner = batch,
                                  .a_stride = in,
                                  .b_stride = out,
                                  .c_stride = out,
                                  .a_turned = true},
                      .dy = dy,
                      .db = db};
    if (batch == 0) {
        memset(dw, 0, (size_t)(in * out) * sizeof(float));
    }
    psk_cpu_split(parts_of(&l), dense_dw_part, &l);
}
