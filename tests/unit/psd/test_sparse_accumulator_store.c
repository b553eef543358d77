/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse accumulators in the store, change by change, each test replayed: sums and counts by row, what a take gives, memory. */
#include "queue_life.h"

#include "common/sparse.h"

enum { COLUMNS = 2, ROWS_MAX = 6 };

static struct psi_queue_spec rows_spec(uint32_t reduction)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_ACCUMULATOR, -1);
    spec.kind = PSI_QUEUE_SPARSE_ACCUMULATOR;
    spec.reduction = reduction;
    spec.components[0].shape = PS_SHAPE(ROWS_MAX, COLUMNS);
    return spec;
}

/* A gradient that has row i, (value, -value), where values[i] is not 0. */
static struct psd_element *rows(struct life *l, const double values[ROWS_MAX])
{
    uint64_t count = 0, k = 0;
    for (int64_t i = 0; i < ROWS_MAX; i++) {
        count += values[i] != 0;
    }
    struct psd_element *e = psd_element_new(&l->task->store, psi_sparse_bytes(&l->q->spec, count));
    assert_non_null(e);
    const struct psi_sparse s = psi_sparse_lay_out(&l->q->spec, count, e->data);
    for (int64_t i = 0; i < ROWS_MAX; i++) {
        const double row[COLUMNS] = {values[i], -values[i]};
        const int64_t one = 1;
        if (values[i] != 0) {
            memcpy(s.indices + k * sizeof(i), &i, sizeof(i));
            memcpy(s.counts + k * sizeof(one), &one, sizeof(one));
            memcpy(s.rows + k * sizeof(row), row, sizeof(row));
            k++;
        }
    }
    return e;
}

static void apply_rows(struct life *l, uint64_t id, const double values[ROWS_MAX])
{
    struct psd_change c = putting(l, 0, id, rows(l, values));
    c.attempt.last = true;
    must(l, c);
}

/* e has row i, (value, -value) of so many gradients, where values[i] is not 0. */
static void assert_has(const struct life *l, const struct psd_element *e, const double values[ROWS_MAX],
                       const int64_t counts[ROWS_MAX])
{
    uint64_t k = 0;
    assert_int_equal(psi_sparse_check(&l->q->spec, e->data, e->bytes, e->serial, NULL), PS_OK);
    const struct psi_sparse s = psi_sparse_of(&l->q->spec, e->data);
    for (int64_t i = 0; i < ROWS_MAX; i++) {
        double row[COLUMNS];
        if (values[i] == 0) {
            continue;
        }
        assert_in_range(k, 0, s.count - 1);
        memcpy(row, s.rows + k * s.row_bytes, sizeof(row));
        if (psi_sparse_number(s.indices, k) != i || psi_sparse_number(s.counts, k) != counts[i] || row[0] != values[i] ||
            row[1] != -values[i]) {
            fail_msg("row %lld is %lld: %g of %lld, expected %g of %lld", (long long)i,
                     (long long)psi_sparse_number(s.indices, k), row[0], (long long)psi_sparse_number(s.counts, k), values[i],
                     (long long)counts[i]);
        }
        k++;
    }
    assert_int_equal(k, s.count);
}

static const struct psd_element *taken(struct life *l, uint64_t id)
{
    struct psd_change c = by(l, PSD_CHANGE_DEQUEUE, 1, id);
    c.attempt.last = true;
    must(l, c);
    return first_of(&psd_attempt_find(l->records[1], id)->elements);
}

/* Rows before, between and behind those of the sum, and rows of both. A take divides each row by its own count, or by all. */
TEST(test_sums_by_row)
{
    static const double gradients[4][ROWS_MAX] = {{0, 1, 0, 3}, {0.5, 0, 0, 4, 0, 8}, {0, 0, 2, 5, 7}, {0}};
    static const double sums[ROWS_MAX] = {0.5, 1, 2, 12, 7, 8};
    static const int64_t counts[ROWS_MAX] = {1, 1, 1, 3, 1, 1};
    for (uint32_t reduction = PSI_REDUCTION_MEAN; reduction <= PSI_REDUCTION_MEAN_OF_ALL; reduction++) {
        const struct psi_queue_spec spec = rows_spec(reduction);
        struct life *l = life_new(&spec);
        const uint64_t empty = psd_arena_bytes(sizeof(struct psd_queue));
        double want[ROWS_MAX];
        for (uint64_t i = 0; i < 4; i++) {
            apply_rows(l, i + 1, gradients[i]); /* the last one has no rows, and counts */
            assert_int_equal(psd_queue_length(l->q), i + 1);
            assert_int_equal(l->task->store.promised_bytes, empty + psd_arena_bytes(psd_element_memory_bytes(l->q->sum->bytes)));
            assert_replayed(l);
        }
        assert_has(l, l->q->sum, sums, counts);
        for (uint64_t i = 0; i < ROWS_MAX; i++) {
            want[i] = reduction == PSI_REDUCTION_SUM    ? sums[i]
                      : reduction == PSI_REDUCTION_MEAN ? sums[i] / (double)counts[i]
                                                        : sums[i] / 4;
        }
        const struct psd_element *e = taken(l, 1);
        assert_int_equal(e->serial, 4);
        assert_has(l, e, want, counts);
        assert_int_equal(l->q->step, 1);
        assert_int_equal(psd_queue_length(l->q), 0);
        assert_replayed(l);
        apply_rows(l, 9, gradients[0]);
        end(l, 1, 1, true); /* comes back, and is not added to */
        e = taken(l, 2);
        assert_has(l, e, want, counts);
        end(l, 1, 2, false);
        e = taken(l, 3);
        assert_int_equal(e->serial, 1);
        end(l, 1, 3, false);
        assert_int_equal(l->task->store.promised_bytes, empty);
        assert_replayed(l);
    }
}

/* A gradient whose rows the sum has takes no memory. */
TEST(test_added_in_place)
{
    static const double first[ROWS_MAX] = {1, 2, 0, 3, 0, 4}, second[ROWS_MAX] = {0, 5, 0, 0, 0, 6};
    static const double sums[ROWS_MAX] = {1, 7, 0, 3, 0, 10};
    static const int64_t counts[ROWS_MAX] = {1, 2, 0, 1, 0, 2};
    const struct psi_queue_spec spec = rows_spec(PSI_REDUCTION_SUM);
    struct life *l = life_new(&spec);
    apply_rows(l, 1, first);
    const struct psd_element *sum = l->q->sum;
    apply_rows(l, 2, second);
    assert_ptr_equal(l->q->sum, sum);
    assert_has(l, sum, sums, counts);
    assert_replayed(l);
}

/* Memory for the longer sum is reserved before the change: without it the gradient is not added, and the sum is as it was. */
TEST(test_no_memory_for_a_longer_sum)
{
    enum { WIDE = 8000, MANY = 480 };
    struct psi_queue_spec spec = rows_spec(PSI_REDUCTION_SUM);
    spec.components[0].shape = PS_SHAPE(2 * MANY, WIDE);
    struct life *l = life_new(&spec);
    struct psd_change c;
    for (int64_t which = 0; which < 2; which++) { /* 480 rows of 64,000 bytes, twice */
        struct psd_element *e = psd_element_new(&l->task->store, psi_sparse_bytes(&spec, MANY));
        const struct psi_sparse s = psi_sparse_lay_out(&spec, MANY, e->data);
        memset(s.rows, 0, MANY * s.row_bytes);
        for (int64_t i = 0; i < MANY; i++) {
            const int64_t index = which * MANY + i, one = 1;
            memcpy(s.indices + i * (int64_t)sizeof(index), &index, sizeof(index));
            memcpy(s.counts + i * (int64_t)sizeof(one), &one, sizeof(one));
        }
        c = putting(l, 0, (uint64_t)which + 1, e);
        c.attempt.last = true;
        l->silent = true; /* an invariant is looked at below */
        assert_int_equal(change(l, &c), which == 0 ? PS_OK : PS_RESOURCE_EXHAUSTED);
        if (which == 1) {
            assert_null(c.attempt.sum);
            psd_element_free(&l->task->store, e);
        }
    }
    psd_store_check_invariants(&l->task->store);
    assert_int_equal(psd_queue_length(l->q), 1);
    assert_int_equal(psi_sparse_of(&spec, l->q->sum->data).count, MANY);
}
