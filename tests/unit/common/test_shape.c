/* SPDX-License-Identifier: Apache-2.0 */
/* common/shape.c: products, limits at their edges, NumPy's text form. */
#include "test.h"

#include "common/limits.h"
#include "common/shape.h"

TEST(test_mul_bytes)
{
    uint64_t out = 7;
    assert_true(psi_mul_bytes(6, 7, &out));
    assert_true(out == 42);
    assert_true(psi_mul_bytes(UINT64_MAX, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(psi_mul_bytes(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    out = 7;
    assert_false(psi_mul_bytes(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(out == 7);
    assert_true(psi_mul_bytes(0, UINT64_MAX, &out));
    assert_true(out == 0);
}

TEST(test_check)
{
    struct psi_err err;
    const int64_t most = (int64_t)(PS_VARIABLE_BYTES_MAX / 8);
    const struct {
        ps_shape shape;
        const char *fault; /* NULL: good */
    } rows[] = {
        {PS_SCALAR, NULL},
        {PS_SHAPE(1), NULL},
        {PS_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), NULL},
        {PS_SHAPE(64, 10), NULL},
        {PS_SHAPE(0), NULL},
        {PS_SHAPE(5, 0, 7), NULL},
        {PS_SHAPE(0, 0, 0, 0, 0, 0, 0, 0), NULL},
        {PS_SHAPE(0, most), NULL},
        {PS_SHAPE(0, most + 1), "shape (0, 2199023255553): more than 2199023255552 elements, its dimensions of 0 left out"},
        {PS_SHAPE(most / 4, 0, 5), "more than"},
        {PS_SHAPE(0, INT64_C(1) << 62, INT64_C(1) << 62), "more than"}, /* so nobody multiplies the last two */
        {PS_SHAPE(INT64_C(1) << 62, INT64_C(1) << 62, 0), "more than"},
        {PS_SHAPE(-1), "shape (-1,): dimension 0 is -1; a dimension must be known, 0 or more"},
        {PS_SHAPE(0, -1), "dimension 1 is -1"},
        {PS_SHAPE(most - 1), NULL},
        {PS_SHAPE(most), NULL},
        {PS_SHAPE(most + 1), "more than 2199023255552 elements"},
        {PS_SHAPE(most / 4, 4), NULL},
        {PS_SHAPE(most / 4, 5), "more than"},
        {PS_SHAPE(INT64_MAX, INT64_MAX), "more than"},
        {PS_SHAPE(INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 31), "more than"}, /* the product wraps to a small one */
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].fault == NULL) {
            assert_ok(psi_shape_check(&rows[i].shape, &err), &err);
        } else {
            assert_fails(psi_shape_check(&rows[i].shape, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        }
    }
    ps_shape bad = PS_SHAPE(2, 3);
    bad.dims[0] = -2;
    assert_fails(psi_shape_check(&bad, &err), PS_INVALID_ARGUMENT, &err, "shape (-2, 3): dimension 0 is -2");
    bad = (ps_shape){.rank = PS_RANK_MAX + 1};
    assert_fails(psi_shape_check(&bad, &err), PS_INVALID_ARGUMENT, &err, "rank 9");
    bad.rank = UINT32_MAX;
    assert_fails(psi_shape_check(&bad, &err), PS_INVALID_ARGUMENT, &err, "at most 8");
    assert_int_equal(psi_shape_check(&bad, NULL), PS_INVALID_ARGUMENT);
}

TEST(test_equal)
{
    ps_shape a = PS_SHAPE(64, 10);
    ps_shape b = PS_SHAPE(64, 10);
    assert_true(psi_shape_equal(&a, &b));
    b.dims[5] = 99; /* past the rank */
    assert_true(psi_shape_equal(&a, &b));
    b.dims[1] = 11;
    assert_false(psi_shape_equal(&a, &b));
    b = PS_SHAPE(64);
    assert_false(psi_shape_equal(&a, &b));
    a = PS_SCALAR;
    b = PS_SHAPE(1);
    assert_false(psi_shape_equal(&a, &b));
}

TEST(test_format)
{
    char buf[PSI_SHAPE_TEXT_MAX];
    const struct {
        ps_shape shape;
        const char *text;
    } rows[] = {
        {PS_SCALAR, "()"},
        {PS_SHAPE(10), "(10,)"},
        {PS_SHAPE(64, 10), "(64, 10)"},
        {PS_SHAPE(1, 2, 3, 4, 5, 6, 7, 8), "(1, 2, 3, 4, 5, 6, 7, 8)"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(psi_shape_format(&rows[i].shape, buf, sizeof(buf)), rows[i].text);
    }
    ps_shape longest = {.rank = PS_RANK_MAX};
    for (size_t i = 0; i < PS_RANK_MAX; i++) {
        longest.dims[i] = INT64_MIN;
    }
    assert_int_equal(strlen(psi_shape_format(&longest, buf, sizeof(buf))), 8 * 20 + 7 * 2 + 2);
    ps_shape bad = {.rank = 9};
    assert_string_equal(psi_shape_format(&bad, buf, sizeof(buf)), "(invalid rank 9)");
    char small[4];
    const ps_shape matrix = PS_SHAPE(64, 10);
    assert_string_equal(psi_shape_format(&matrix, small, sizeof(small)), "(64");
}

TEST(test_dtype_known)
{
    for (uint32_t d = PS_F32; d <= PS_STRING; d++) {
        assert_true(psi_dtype_known(d));
    }
    assert_false(psi_dtype_known(PS_DTYPE_NONE));
    assert_false(psi_dtype_known(PS_STRING + 1) || psi_dtype_known(UINT32_MAX));
}
