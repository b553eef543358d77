/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a program names, made ready for the wire: any order, several times, none, all sizes around a segment, bad indices. */
#include "test.h"
#include "wire.h"

#include "worker/core/rows.h"

#include "common/half.h"

enum { N = 3000, COLUMNS = 11 };

static int64_t indices[N];

static struct psi_rows *made(const struct psi_rows_given *g)
{
    struct psi_rows *r = NULL;
    struct psi_err err;
    assert_ok(psi_rows_new(g, &r, &err), &err);
    return r;
}

/* Row k of what would be sent: its index and its values. */
static const uint8_t *row_at(const struct psi_rows *r, uint64_t k, uint64_t *out_index)
{
    const uint32_t unit = psi_rows_unit(r->row_bytes);
    const uint64_t per = psi_rows_per_segment(unit), first = k / per * per;
    const uint64_t n = r->count - first < per ? r->count - first : per;
    const uint8_t *segment = r->segments + k / per * PS_SEGMENT_BYTES;
    *out_index = psi_rows_index(segment, k % per);
    return segment + n * PSI_INDEX_BYTES + k % per * r->row_bytes;
}

/* Against sums made the slow way, in order of occurrence, for counts around a segment and lists that rise or not. */
TEST(test_sums)
{
    enum { ROWS = 5000, PER = PS_SEGMENT_BYTES / (8 + 4 * COLUMNS) };
    static const uint64_t counts[] = {0, 1, 2, PER - 1, PER, PER + 1, 2 * PER, 2 * PER + 1, N};
    static float values[N * COLUMNS], want[ROWS * COLUMNS];
    static bool named[ROWS];
    const ps_shape shape = {.rank = 2, .dims = {ROWS, COLUMNS}};
    struct wire_random random = {7};
    for (size_t c = 0; c < 3 * sizeof(counts) / sizeof(counts[0]); c++) {
        const uint64_t count = counts[c / 3];
        struct psi_rows_given g = {.name = "v", .shape = &shape, .dtype = PS_F32, .indices = indices, .values = values};
        g.count = count;
        g.use = c % 3 == 2 ? PSI_ROWS_LAST : PSI_ROWS_SUM;
        memset(want, 0, sizeof(want));
        memset(named, 0, sizeof(named));
        for (uint64_t i = 0; i < count; i++) {
            indices[i] = c % 3 == 0 ? (int64_t)(i + ROWS - count) : (int64_t)wire_below(&random, ROWS);
            for (size_t k = 0; k < COLUMNS; k++) {
                float *x = &want[(size_t)indices[i] * COLUMNS + k];
                values[i * COLUMNS + k] = (float)wire_below(&random, 1 << 20) / 3;
                *x = g.use == PSI_ROWS_SUM ? *x + values[i * COLUMNS + k] : values[i * COLUMNS + k];
            }
            named[indices[i]] = true;
        }
        struct psi_rows *r = made(&g);
        uint64_t k = 0, index = 0;
        for (uint64_t row = 0; row < ROWS; row++) {
            if (named[row]) {
                const uint8_t *got = row_at(r, k++, &index);
                assert_int_equal(index, row);
                assert_memory_equal(got, want + row * COLUMNS, r->row_bytes);
            }
        }
        assert_int_equal(r->count, k);
        assert_int_equal(r->highest, index);
        const uint32_t unit = psi_rows_unit(r->row_bytes);
        for (uint64_t s = 1; k > 0 && s <= (k - 1) / PER; s++) { /* behind the rows of a whole segment */
            for (uint64_t at = PER * unit; at < PS_SEGMENT_BYTES; at++) {
                assert_int_equal(r->segments[(s - 1) * PS_SEGMENT_BYTES + at], 0);
            }
        }
        psi_rows_free(r);
    }
}

/* Each dtype adds as the task would. */
TEST(test_dtypes)
{
    static const ps_dtype dtypes[] = {PS_F64, PS_I32, PS_I64, PS_I8, PS_U8, PS_F16, PS_BF16};
    const ps_shape shape = {.rank = 1, .dims = {4}};
    static const int64_t twice[] = {2, 0, 2, 2};
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        uint8_t values[4 * 8] = {0};
        const size_t width = ps_dtype_bytes(dtypes[d]);
        const float floats[4] = {1.5F, 2, 0.25F, 1000};
        const double doubles[4] = {1.5, 2, 0.25, 1000};
        const int64_t whole[4] = {100, 7, 100, -3};
        for (size_t i = 0; i < 4; i++) {
            if (dtypes[d] == PS_F64) {
                memcpy(values + i * width, &doubles[i], width);
            } else if (dtypes[d] == PS_F16 || dtypes[d] == PS_BF16) {
                psi_half_narrow(dtypes[d], &floats[i], values + i * width, 1);
            } else {
                memcpy(values + i * width, &whole[i], width); /* little-endian */
            }
        }
        const struct psi_rows_given g = {
            .name = "v", .shape = &shape, .dtype = dtypes[d], .indices = twice, .count = 4, .values = values};
        struct psi_rows *r = made(&g);
        uint64_t index = 0;
        const uint8_t *sum = row_at(r, 1, &index);
        assert_int_equal(r->count, 2);
        assert_int_equal(index, 2);
        if (dtypes[d] == PS_F64) {
            double x = 0;
            memcpy(&x, sum, sizeof(x));
            assert_true(x == 1001.75);
        } else if (dtypes[d] == PS_F16 || dtypes[d] == PS_BF16) {
            float x = 0;
            psi_half_widen(dtypes[d], sum, &x, 1);
            assert_true(x == (dtypes[d] == PS_F16 ? 1002 : 1000)); /* 1001.75, rounded to their 11 and 8 bits */
        } else {
            int64_t x = 0;
            memcpy(&x, sum, width);
            const uint64_t mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * width) - 1;
            assert_int_equal((uint64_t)x & mask, (uint64_t)(100 + 100 - 3) & mask);
        }
        psi_rows_free(r);
    }
}

/* READ: each index gets its row back, wherever it stands. */
TEST(test_spread)
{
    const ps_shape shape = {.rank = 2, .dims = {100, 2}};
    static const int64_t asked[] = {7, 3, 99, 3, 0, 7};
    static const float came[] = {0, 0.5F, 3, 3.5F, 7, 7.5F, 99, 99.5F};
    static const float want[] = {7, 7.5F, 3, 3.5F, 99, 99.5F, 3, 3.5F, 0, 0.5F, 7, 7.5F};
    float got[12];
    struct psi_rows_given g = {.name = "v", .shape = &shape, .dtype = PS_F32, .indices = asked, .count = 6, .use = PSI_ROWS_READ};
    struct psi_rows *r = made(&g);
    static const uint64_t rising[] = {0, 3, 7, 99};
    assert_int_equal(r->count, 4);
    assert_memory_equal(r->indices, rising, sizeof(rising));
    psi_rows_spread(r, came, got);
    assert_memory_equal(got, want, sizeof(want));
    psi_rows_free(r);
}

TEST(test_refused)
{
    struct psi_rows *r = NULL;
    struct psi_err err;
    ps_shape shape = {.rank = 2, .dims = {100, 2}};
    static const int64_t over[] = {7, 100}, below[] = {0, 5, -1};
    struct psi_rows_given g = {.name = "v", .shape = &shape, .dtype = PS_F32, .indices = over, .count = 2, .use = PSI_ROWS_READ};
    assert_int_equal(psi_rows_new(&g, &r, &err), PS_OUT_OF_RANGE);
    assert_non_null(strstr(err.text, "'v': index 100, number 1 of 2, is outside [0, 100)"));
    g.indices = below;
    g.count = 3;
    assert_int_equal(psi_rows_new(&g, &r, &err), PS_OUT_OF_RANGE);
    assert_non_null(strstr(err.text, "index -1, number 2 of 3"));
    shape.rank = 0;
    assert_int_equal(psi_rows_new(&g, &r, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "scalar"));
    shape = (ps_shape){.rank = 2, .dims = {100, PSI_ROW_BYTES_MAX / 4 + 1}};
    assert_int_equal(psi_rows_new(&g, &r, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(err.reason, PS_REASON_TOO_LARGE);
    assert_null(r);
}
