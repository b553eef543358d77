/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of tables for indices, bags, the interaction of a factorization machine and the dot interaction, on every device: against
 * the plainest loops in double, whose gradients are checked against central differences; empty tables, bags and batches, one
 * value, odd sizes; padding inside and outside of the table; the same bits twice and with several threads; wrong indices, ends
 * and shapes are refused by name, and nothing is written.
 */
#include "nn_test.h"

#include "worker/nn/kernels/block.h"

#define NMSE_MAX 1e-11 /* of the rows of the table */
#define MAX 4096

enum kind { SINGLE, BAG, FM };

struct example {
    enum kind kind;
    int64_t R, K, B, N;
    int64_t indices[MAX], ends[MAX];
    int64_t padding;
    ps_combiner combiner;
    bool weighted;
    double w[MAX], rows[MAX], dy[MAX]; /* float values */
    double y[MAX], sums[MAX], drows[MAX];
};

static double weight(const struct example *e, int64_t k)
{
    return e->weighted ? e->w[k] : 1;
}

static int64_t first_of(const struct example *e, int64_t bag)
{
    return bag > 0 ? e->ends[bag - 1] : 0;
}

static double divisor(const struct example *e, int64_t bag)
{
    double sum = 0;
    for (int64_t k = first_of(e, bag); k < e->ends[bag]; k++) {
        const double w = e->indices[k] == e->padding ? 0 : weight(e, k);
        sum += e->combiner == PS_MEAN ? w : w * w;
    }
    return e->combiner == PS_SUM ? 1 : e->combiner == PS_MEAN ? sum : sqrt(sum);
}

/* y, and of fm sums. All pairs, one by one. */
static void forward(struct example *e)
{
    memset(e->y, 0, sizeof(e->y));
    memset(e->sums, 0, sizeof(e->sums));
    for (int64_t i = 0; i < e->B; i++) {
        const double by = divisor(e, i);
        for (int64_t k = first_of(e, i); k < e->ends[i]; k++) {
            for (int64_t j = 0; e->indices[k] != e->padding && j < e->N; j++) {
                const double value = weight(e, k) * e->rows[e->indices[k] * e->N + j];
                e->sums[i * e->N + j] += value;
                if (e->kind != FM) {
                    e->y[i * e->N + j] += by != 0 ? value / by : 0;
                }
                for (int64_t l = first_of(e, i); e->kind == FM && l < k; l++) {
                    e->y[i] += e->indices[l] != e->padding ? value * weight(e, l) * e->rows[e->indices[l] * e->N + j] : 0;
                }
            }
        }
    }
}

static void backward(struct example *e)
{
    memset(e->drows, 0, sizeof(e->drows));
    for (int64_t i = 0; i < e->B; i++) {
        const double by = divisor(e, i);
        for (int64_t k = first_of(e, i); k < e->ends[i]; k++) {
            for (int64_t j = 0; e->indices[k] != e->padding && j < e->N; j++) {
                const int64_t at = e->indices[k] * e->N + j;
                const double w = weight(e, k);
                e->drows[at] += e->kind == FM ? e->dy[i] * w * (e->sums[i * e->N + j] - w * e->rows[at])
                                : by != 0     ? e->dy[i * e->N + j] * w / by
                                              : 0;
            }
        }
    }
}

static int64_t size_of_y(const struct example *e)
{
    return e->kind == FM ? e->B : e->B * e->N;
}

static void draw(struct example *e, enum kind kind)
{
    static const int64_t sizes[] = {0, 1, 3, 17, 40};
    memset(e, 0, sizeof(*e));
    e->kind = kind;
    e->R = sizes[test_random() % 5];
    e->N = sizes[1 + test_random() % 4];
    e->B = sizes[test_random() % 5];
    e->combiner = kind == BAG ? (ps_combiner)(test_random() % 3) : PS_SUM;
    e->weighted = kind != SINGLE && test_random() % 2 == 0;
    const int64_t paddings[] = {PS_NO_PADDING, 0, e->R > 0 ? e->R - 1 : 0, 1000000007};
    e->padding = paddings[test_random() % 4];
    for (int64_t i = 0; i < e->B; i++) {
        const int64_t most = kind == SINGLE ? 1 : test_random() % 3 == 0 ? 0 : test_random() % 6;
        for (int64_t k = 0; k < most; k++) {
            const bool padding = e->R == 0 || test_random() % 5 == 0;
            if (padding && e->padding == PS_NO_PADDING && e->R == 0) {
                e->B = 0; /* there is nothing to point to */
                e->K = 0;
                break;
            }
            e->indices[e->K++] = padding && e->padding != PS_NO_PADDING ? e->padding : test_random() % (uint32_t)e->R;
        }
        e->ends[i] = e->K;
    }
    for (int64_t i = 0; i < MAX; i++) {
        e->w[i] = (double)(test_random() % 7 == 0 ? 0.0f : 0.25f + fabsf(test_uniform())); /* a bag's may all be 0 */
        e->rows[i] = (double)test_uniform();
        e->dy[i] = (double)test_uniform();
    }
    forward(e);
    backward(e);
}

static void to_float(float *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = (float)from[i];
    }
}

static void close_to(const struct example *e, const char *what, const float *got, const double *want, int64_t count)
{
    double error = 0, exact = 0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        exact += want[i] * want[i];
    }
    if (!(error <= NMSE_MAX * exact)) {
        fail_msg("%s of kind %d, R %lld K %lld B %lld N %lld, combiner %d, weights %d, padding %lld: error^2 %g of %g", what,
                 e->kind, (long long)e->R, (long long)e->K, (long long)e->B, (long long)e->N, e->combiner, e->weighted,
                 (long long)e->padding, error, exact);
    }
}

/* The tensors of an example; outputs get their shapes from the inputs. */
struct tensors {
    float rows_[MAX], w_[MAX], dy_[MAX];
    ps_tensor rows, indices, ends, weights, dy, y, sums, drows;
};

static void run_tensors(const struct example *e, struct tensors *t)
{
    ps_tensor *weights = e->weighted ? &t->weights : NULL;
    to_float(t->rows_, e->rows, e->R * e->N);
    to_float(t->w_, e->w, e->K);
    to_float(t->dy_, e->dy, size_of_y(e));
    ps_tensor_wrap(&t->rows, t->rows_, e->R, e->N);
    ps_tensor_wrap_indices(&t->indices, e->indices, e->K);
    ps_tensor_wrap_indices(&t->ends, e->ends, e->B);
    ps_tensor_wrap(&t->weights, t->w_, e->K, 1);
    ps_tensor_wrap(&t->dy, t->dy_, e->B, e->kind == FM ? 1 : e->N);
    ps_status st = PS_OK;
    if (e->kind == SINGLE) {
        st = ps_embedding(&t->rows, &t->indices, e->padding, &t->y);
        st = st == PS_OK ? ps_embedding_backward(&t->rows, &t->indices, e->padding, &t->dy, &t->drows) : st;
    } else if (e->kind == BAG) {
        st = ps_embedding_bag(&t->rows, &t->indices, &t->ends, weights, e->combiner, e->padding, &t->y);
        st = st == PS_OK
                 ? ps_embedding_bag_backward(&t->rows, &t->indices, &t->ends, weights, e->combiner, e->padding, &t->dy, &t->drows)
                 : st;
    } else {
        st = ps_fm(&t->rows, &t->indices, &t->ends, weights, e->padding, &t->y, &t->sums);
        st = st == PS_OK ? ps_fm_backward(&t->rows, &t->indices, &t->ends, weights, e->padding, &t->sums, &t->dy, &t->drows) : st;
    }
    if (st != PS_OK) {
        fail_msg("%s", ps_nn_error());
    }
}

static void tensors_free(struct tensors *t)
{
    ps_tensor *const all[] = {&t->rows, &t->indices, &t->ends, &t->weights, &t->dy, &t->y, &t->sums, &t->drows};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ps_tensor_free(all[i]);
    }
}

/* The same by plain pointers; the same bits as by tensors. */
static void check_pointers(const struct example *e, const struct tensors *t, const float *y, const float *drows)
{
    const ps_bags bags = {e->B, e->kind == SINGLE ? NULL : e->ends, e->K, e->indices, e->weighted ? t->w_ : NULL, e->padding};
    float *again = test_floats(size_of_y(e)), *back = test_floats(e->R * e->N), *sums = test_floats(e->B * e->N);
    if (e->kind == FM) {
        assert_int_equal(ps_nn_fm_forward(t->rows_, e->R, e->N, &bags, again, sums), PS_OK);
        assert_int_equal(ps_nn_fm_backward(t->rows_, e->R, e->N, &bags, sums, t->dy_, back), PS_OK);
    } else {
        assert_int_equal(ps_nn_embedding_bag_forward(t->rows_, e->R, e->N, &bags, e->combiner, again), PS_OK);
        assert_int_equal(ps_nn_embedding_bag_backward(&bags, e->combiner, t->dy_, back, e->R, e->N), PS_OK);
    }
    assert_memory_equal(again, y, (size_t)size_of_y(e) * sizeof(float));
    assert_memory_equal(back, drows, (size_t)(e->R * e->N) * sizeof(float));
    test_floats_free(again, size_of_y(e));
    test_floats_free(back, e->R * e->N);
    test_floats_free(sums, e->B * e->N);
}

static void test_random_bags(void **state)
{
    (void)state;
    struct example *e = malloc(sizeof(*e));
    struct tensors *t = calloc(1, sizeof(*t));
    assert_true(e != NULL && t != NULL);
    for (int i = 0; i < 300; i++) {
        draw(e, (enum kind)(i % 3));
        run_tensors(e, t);
        assert_int_equal(t->drows.rows, e->R);
        assert_int_equal(t->y.rows, e->B);
        const float *y = ps_tensor_read(&t->y);
        const float *drows = ps_tensor_read(&t->drows);
        assert_true(y != NULL && drows != NULL);
        close_to(e, "y", y, e->y, size_of_y(e));
        close_to(e, "drows", drows, e->drows, e->R * e->N);
        if (e->kind == FM) {
            close_to(e, "sums", ps_tensor_read(&t->sums), e->sums, e->B * e->N);
        }
        check_pointers(e, t, y, drows);
    }
    tensors_free(t);
    free(t);
    free(e);
}

/* What the backward references say is the slope of the forward ones. */
static void test_references(void **state)
{
    (void)state;
    struct example *e = malloc(sizeof(*e));
    assert_non_null(e);
    int looked = 0;
    for (int i = 0; i < 300; i++) {
        draw(e, (enum kind)(i % 3));
        if (e->R == 0) {
            continue;
        }
        const int64_t at = test_random() % (uint32_t)(e->R * e->N);
        const double want = e->drows[at], x = e->rows[at];
        double slope = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            e->rows[at] = x + sign * STEP_H;
            forward(e);
            for (int64_t k = 0; k < size_of_y(e); k++) {
                slope += sign * e->dy[k] * e->y[k] / (2 * STEP_H);
            }
        }
        test_near("drows", at, want, slope, 1e-6);
        looked += want != 0;
    }
    assert_true(looked > 50);
    free(e);
}

/* Values of known result: a bag with a duplicate, weights, an empty bag, a bag of padding only. */
static void test_by_hand(void **state)
{
    (void)state;
    const float rows[] = {1, 2, 10, 20, 100, 200};
    const int64_t indices[] = {2, 0, 2, 1, 1}, ends[] = {3, 3, 5};
    const float weights[] = {1, 2, 3, 4, 5};
    ps_bags bags = {.bags = 3, .ends = ends, .count = 5, .indices = indices, .weights = weights, .padding = 1};
    float y[6];
    const float sum[] = {402, 804, 0, 0, 0, 0}, mean[] = {67, 134, 0, 0, 0, 0};
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, &bags, PS_SUM, y), PS_OK);
    assert_memory_equal(y, sum, sizeof(sum));
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, &bags, PS_MEAN, y), PS_OK);
    test_near("mean", 0, (double)y[0], (double)mean[0], 1e-6);
    test_near("mean", 1, (double)y[1], (double)mean[1], 1e-6);
    test_near("mean", 2, (double)y[2], 0, 0);
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, &bags, PS_SQRTN, y), PS_OK);
    test_near("sqrtn", 0, (double)y[0], 402 / sqrt(14), 1e-6);
    bags.padding = PS_NO_PADDING;
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, &bags, PS_SUM, y), PS_OK);
    test_near("padding", 4, (double)y[4], 90, 0);
    /* drows of a duplicate: 1 (1, 2) + 3 (1, 2) */
    const float dy[] = {1, 2, 3, 4, 5, 6}, want[] = {2, 4, 45, 54, 4, 8};
    assert_int_equal(ps_nn_embedding_bag_backward(&bags, PS_SUM, dy, y, 3, 2), PS_OK);
    assert_memory_equal(y, want, sizeof(want));
}

static void test_dot(void **state)
{
    (void)state;
    static const int64_t batches[] = {0, 1, 17}, widths[] = {1, 3, 16};
    for (size_t i = 0; i < 27; i++) {
        const uint32_t fields = (uint32_t)(2 + i / 9 * 3);
        const int64_t B = batches[i % 3], n = widths[i / 3 % 3], F = fields, P = F * (F - 1) / 2;
        float *x = test_floats(B * F * n), *dy = test_floats(B * P);
        ps_tensor tx = {0}, ty = {0}, tdy = {0}, tdx = {0};
        ps_tensor_wrap(&tx, x, B, F * n);
        ps_tensor_wrap(&tdy, dy, B, P);
        if (ps_dot_interaction(&tx, fields, &ty) != PS_OK || ps_dot_interaction_backward(&tx, fields, &tdy, &tdx) != PS_OK) {
            fail_msg("%s", ps_nn_error());
        }
        const float *y = ps_tensor_read(&ty);
        const float *dx = ps_tensor_read(&tdx);
        assert_true(y != NULL && dx != NULL && ty.rows == B && ty.cols == P);
        for (int64_t b = 0; b < B; b++) {
            double want_dx[512] = {0};
            int64_t pair = 0;
            for (int64_t f = 1; f < F; f++) {
                for (int64_t g = 0; g < f; g++, pair++) {
                    double dot = 0;
                    for (int64_t c = 0; c < n; c++) {
                        const double xf = (double)x[(b * F + f) * n + c], xg = (double)x[(b * F + g) * n + c];
                        dot += xf * xg;
                        want_dx[f * n + c] += (double)dy[b * P + pair] * xg;
                        want_dx[g * n + c] += (double)dy[b * P + pair] * xf;
                    }
                    test_near("y", pair, (double)y[b * P + pair], dot, 1e-5);
                }
            }
            for (int64_t c = 0; c < F * n; c++) {
                test_near("dx", c, (double)dx[b * F * n + c], want_dx[c], 1e-5);
            }
        }
        float *again = test_floats(B * P), *back = test_floats(B * F * n);
        assert_int_equal(ps_nn_dot_forward(x, again, B, fields, n), PS_OK);
        assert_int_equal(ps_nn_dot_backward(x, dy, back, B, fields, n), PS_OK);
        assert_memory_equal(again, y, (size_t)(B * P) * sizeof(float));
        assert_memory_equal(back, dx, (size_t)(B * F * n) * sizeof(float));
        test_floats_free(again, B * P);
        test_floats_free(back, B * F * n);
        ps_tensor *const all[] = {&tx, &ty, &tdy, &tdx};
        for (size_t k = 0; k < 4; k++) {
            ps_tensor_free(all[k]);
        }
        test_floats_free(x, B * F * n);
        test_floats_free(dy, B * P);
    }
}

/* A batch that several threads share has the bits of one thread's. */
static void test_threads(void **state)
{
    (void)state;
    if (strcmp(test_device, "cpu") != 0) {
        return;
    }
    enum { ROWS = 500, WIDE = 33, BAGS = 3000, EACH = 9 };
    struct psi_err err = {0};
    struct psk_place *place = NULL;
    int64_t *indices = malloc(BAGS * EACH * sizeof(*indices)), *ends = malloc(BAGS * sizeof(*ends));
    float *rows = test_floats(ROWS * WIDE), *dy = test_floats(BAGS * WIDE), *w = test_floats(BAGS * EACH);
    float *results[2][4];
    assert_true(indices != NULL && ends != NULL);
    for (int64_t i = 0; i < BAGS * EACH; i++) {
        indices[i] = test_random() % ROWS;
        ends[i / EACH] = (i / EACH + 1) * EACH;
    }
    const ps_bags bags = {BAGS, ends, BAGS * EACH, indices, w, 7};
    for (int i = 0; i < 2; i++) {
        float **r = results[i];
        assert_int_equal(psk_place_open("cpu", i == 0 ? 1 : 4, &place, &err), PS_OK);
        r[0] = test_floats(BAGS * WIDE);
        r[1] = test_floats(ROWS * WIDE);
        r[2] = test_floats(BAGS * WIDE);
        r[3] = test_floats(ROWS * WIDE);
        assert_int_equal(ps_nn_embedding_bag_forward(rows, ROWS, WIDE, &bags, PS_SQRTN, r[0]), PS_OK);
        assert_int_equal(ps_nn_embedding_bag_backward(&bags, PS_SQRTN, dy, r[1], ROWS, WIDE), PS_OK);
        float *y = test_floats(BAGS);
        assert_int_equal(ps_nn_fm_forward(rows, ROWS, WIDE, &bags, y, r[2]), PS_OK);
        assert_int_equal(ps_nn_fm_backward(rows, ROWS, WIDE, &bags, r[2], dy, r[3]), PS_OK);
        test_floats_free(y, BAGS);
        psk_place_close(place);
    }
    for (int k = 0; k < 4; k++) {
        const int64_t count = (k % 2 == 0 ? BAGS : ROWS) * WIDE;
        assert_memory_equal(results[0][k], results[1][k], (size_t)count * sizeof(float));
        test_floats_free(results[0][k], count);
        test_floats_free(results[1][k], count);
    }
    test_floats_free(rows, ROWS * WIDE);
    test_floats_free(dy, BAGS * WIDE);
    test_floats_free(w, BAGS * EACH);
    free(indices);
    free(ends);
}

static void refused(const float *rows, const ps_bags *bags, ps_combiner combiner, float *y, const char *word)
{
    const float before = y[0];
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, bags, combiner, y), PS_INVALID_ARGUMENT);
    test_error_has(word);
    assert_true(y[0] == before);
}

static void test_bad_input(void **state)
{
    (void)state;
    const float rows[6] = {0};
    float y[6] = {7};
    int64_t indices[] = {0, 1, 2}, ends[] = {1, 3};
    const ps_bags good = {2, ends, 3, indices, NULL, PS_NO_PADDING};
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 3, 2, &good, PS_SUM, y), PS_OK);
    y[0] = 7;
    refused(rows, NULL, PS_SUM, y, "bags is NULL");
    refused(rows, &good, (ps_combiner)3, y, "there is no combiner 3");
    indices[1] = 3;
    refused(rows, &good, PS_SUM, y, "index 3 at 1 is not a row, allowed is 0 to 2");
    indices[1] = -1;
    refused(rows, &good, PS_SUM, y, "index -1 at 1 is not a row");
    indices[1] = INT64_MIN;
    refused(rows, &good, PS_SUM, y, "at 1 is not a row");
    indices[1] = 1;
    ends[0] = 4;
    refused(rows, &good, PS_SUM, y, "ends: bag 0 ends at 4, allowed is 0 to 3");
    ends[0] = -1;
    refused(rows, &good, PS_SUM, y, "ends: bag 0 ends at -1");
    ends[0] = 2;
    ends[1] = 1;
    refused(rows, &good, PS_SUM, y, "ends: bag 1 ends at 1, allowed is 2 to 3");
    ends[1] = 2;
    refused(rows, &good, PS_SUM, y, "the last bag ends at 2 of 3 indices");
    const ps_bags single = {2, NULL, 3, indices, NULL, PS_NO_PADDING};
    refused(rows, &single, PS_SUM, y, "2 bags of 3 indices without ends");
    const ps_bags of_three = {3, NULL, 3, indices, NULL, PS_NO_PADDING};
    refused(rows, &of_three, PS_MEAN, y, "a combiner without ends");
    assert_int_equal(ps_nn_embedding_bag_forward(rows, 0, 2, &of_three, PS_SUM, y), PS_INVALID_ARGUMENT);
    test_error_has("there are no rows");
    assert_int_equal(ps_nn_dot_forward(rows, y, 1, 1, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dot_forward(rows, y, 1, 0, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dot_forward(rows, y, 1, UINT32_MAX, 0), PS_INVALID_ARGUMENT);
    ps_tensor x = {0}, out = {0};
    ps_tensor_wrap(&x, rows, 1, 5);
    assert_int_equal(ps_dot_interaction(&x, 2, &out), PS_INVALID_ARGUMENT);
    test_error_has("fields is 2, allowed are 2 and more that divide the 5 columns of x");
    ps_tensor_free(&x);
    ps_tensor_free(&out);
    /* indices by a tensor of floats */
    ps_tensor table = {0}, wrong = {0};
    ps_tensor_wrap(&table, rows, 3, 2);
    ps_tensor_wrap(&wrong, rows, 3, 1);
    assert_int_equal(ps_embedding(&table, &wrong, PS_NO_PADDING, &out), PS_INVALID_ARGUMENT);
    test_error_has("indices is float32: it must be int64");
    ps_tensor_free(&table);
    ps_tensor_free(&wrong);
    ps_tensor_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bags), cmocka_unit_test(test_references), cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_dot),         cmocka_unit_test(test_threads),    cmocka_unit_test(test_bad_input),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
