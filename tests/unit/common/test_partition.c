/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/partition.c: the numbers of parts of TensorFlow 1.15's partitioners (python/ops/partitioned_variables.py; the rows with
 * TF are cases of its kernel_tests/partitioned_variables_test.py or follow from its formula), sizes and offsets of the parts
 * (_compute_slice_dim_and_shape, PartitionedVariable._offset), the two layouts against their definitions element by element, and
 * what is refused.
 */
#include "test.h"

#include "common/partition.h"
#include "common/shape.h"

static ps_shape shape_of(int64_t a, int64_t b, int64_t c)
{
    ps_shape s = {.rank = 3, .dims = {a, b, c}};
    s.rank = c >= 0 ? 3 : b >= 0 ? 2 : 1;
    return s;
}

TEST(test_counts)
{
    static const struct {
        struct psi_partitioner p;
        ps_dtype dtype;
        int64_t dims[3]; /* -1: none */
        uint32_t count;
    } rows[] = {
        /* fixed_size_partitioner(k, axis) */
        {{PSI_PARTITION_FIXED, 0, 5, 0}, PS_F32, {10, -1, -1}, 5},
        {{PSI_PARTITION_FIXED, 0, 4, 0}, PS_F32, {2, 2, -1}, 2}, /* TF: at most the dimension */
        {{PSI_PARTITION_FIXED, 1, 4, 0}, PS_F32, {2, 7, -1}, 4},
        {{PSI_PARTITION_FIXED, 0, 1, 0}, PS_F32, {1, -1, -1}, 1},
        /* variable_axis_size_partitioner(max_shard_bytes, axis, max_shards): TF testVariableAxisSizePartitioner */
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 4}, PS_F32, {1, 1, 1}, 1},
        {{PSI_PARTITION_AXIS_SIZE, 2, 0, 16}, PS_F32, {1, 1, 1024}, 256},
        {{PSI_PARTITION_AXIS_SIZE, 2, 0, 64}, PS_F32, {1, 1, 1024}, 64},
        {{PSI_PARTITION_AXIS_SIZE, 2, 0, 1024}, PS_F32, {1, 1, 1024}, 4},
        {{PSI_PARTITION_AXIS_SIZE, 2, 0, 4096}, PS_F32, {1, 1, 1024}, 1},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 1024}, PS_F32, {2, 1024, -1}, 2}, /* a row is larger: one row a part */
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 4095}, PS_F32, {3, 512, -1}, 3},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 4096}, PS_F32, {3, 512, -1}, 2},
        {{PSI_PARTITION_AXIS_SIZE, 2, 5, 64}, PS_F32, {1, 1, 1024}, 5},
        {{PSI_PARTITION_AXIS_SIZE, 2, 1000, 64}, PS_F32, {1, 1, 1024}, 64},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 64}, PS_STRING, {10, -1, -1}, 3}, /* 16 bytes each */
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 64}, PS_F64, {10, -1, -1}, 2},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 64}, PS_F32, {10, 0, -1}, 1}, /* rows without elements */
        /* min_max_variable_partitioner(max_partitions, axis, min_slice_size): TF testMinMaxVariablePartitioner */
        {{PSI_PARTITION_MIN_MAX, 0, 100, 2 << 10}, PS_F32, {2048, -1, -1}, 4},
        {{PSI_PARTITION_MIN_MAX, 0, 100, 256 << 10}, PS_F32, {2048, -1, -1}, 1},
        {{PSI_PARTITION_MIN_MAX, 0, 16, 256 << 10}, PS_F32, {1 << 22, -1, -1}, 16},
        {{PSI_PARTITION_MIN_MAX, 0, 100, 2 << 10}, PS_F32, {63, 1024, -1}, 63},
        {{PSI_PARTITION_MIN_MAX, 0, 3, 2 << 10}, PS_F32, {512, -1, -1}, 1},
        {{PSI_PARTITION_MIN_MAX, 0, 3, 2 << 10}, PS_F32, {513, -1, -1}, 2}, /* rounded up */
        {{PSI_PARTITION_MIN_MAX, 0, 3, 2 << 10}, PS_F32, {4, 0, -1}, 1},
        /* ps_partition(n) */
        {{PSI_PARTITION_EXACT, 0, 7, 0}, PS_F32, {7, -1, -1}, 7},
        {{PSI_PARTITION_EXACT, 0, PSI_PARTS_MAX, 0}, PS_F32, {PSI_PARTS_MAX, -1, -1}, PSI_PARTS_MAX},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, UINT64_MAX}, PS_F32, {1 << 20, 1 << 10, -1}, 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_shape shape = shape_of(rows[i].dims[0], rows[i].dims[1], rows[i].dims[2]);
        struct psi_err err = {0};
        uint32_t count = 0;
        assert_ok(psi_partition_count(&rows[i].p, rows[i].dtype, &shape, &count, &err), &err);
        if (count != rows[i].count) {
            fail_msg("row %zu: %u parts, must be %u", i, count, rows[i].count);
        }
    }
}

TEST(test_refused)
{
    static const struct {
        struct psi_partitioner p;
        int64_t dims[2];
        const char *says;
    } rows[] = {
        {{0, 0, 1, 0}, {4, 4}, "there is no partitioner 0"},
        {{5, 0, 1, 0}, {4, 4}, "there is no partitioner 5"},
        {{PSI_PARTITION_EXACT, 2, 1, 0}, {4, 4}, "axis 2 of shape (4, 4), which has 2 dimensions"},
        {{PSI_PARTITION_EXACT, 0, 0, 0}, {4, 4}, "0 parts"},
        {{PSI_PARTITION_FIXED, 0, 0, 0}, {4, 4}, "0 parts"},
        {{PSI_PARTITION_MIN_MAX, 0, 0, 1}, {4, 4}, "0 parts"},
        {{PSI_PARTITION_EXACT, 0, 5, 0}, {4, 9}, "5 parts of shape (4, 9) along axis 0, allowed is 1 to 4"},
        {{PSI_PARTITION_FIXED, 0, 5, 0}, {0, 4}, "0 parts of shape (0, 4)"},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 0}, {4, 4}, "parts of 0 bytes"},
        {{PSI_PARTITION_MIN_MAX, 0, 4, 0}, {4, 4}, "parts of 0 bytes"},
        {{PSI_PARTITION_EXACT, 0, PSI_PARTS_MAX + 1, 0}, {1 << 20, 1}, "257 parts, a variable has at most 256"},
        {{PSI_PARTITION_AXIS_SIZE, 0, 0, 4}, {1 << 20, 1}, "1048576 parts, a variable has at most 256"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const ps_shape shape = shape_of(rows[i].dims[0], rows[i].dims[1], -1);
        struct psi_err err = {0};
        uint32_t count = 7;
        assert_int_equal(psi_partition_count(&rows[i].p, PS_F32, &shape, &count, &err), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, rows[i].says));
        assert_int_equal(count, 7);
    }
    struct psi_err err = {0};
    assert_int_equal(psi_parts_check(&(struct psi_parts){shape_of(4, -1, -1), 0, 2, 2}, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "there is no layout 2"));
    assert_int_equal(psi_parts_check(&(struct psi_parts){shape_of(4, -1, -1), 0, 5, 0}, &err), PS_INVALID_ARGUMENT);
}

/* TF: 10 rows in 3 parts are 4, 3 and 3; offsets 0, 4 and 7. */
TEST(test_sizes)
{
    const struct psi_parts p = {shape_of(10, 6, -1), 0, 3, PSI_LAYOUT_DIV};
    static const int64_t sizes[] = {4, 3, 3}, offsets[] = {0, 4, 7};
    for (uint32_t i = 0; i < 3; i++) {
        const ps_shape part = psi_part_shape(&p, i);
        assert_int_equal(part.rank, 2);
        assert_int_equal(part.dims[0], sizes[i]);
        assert_int_equal(part.dims[1], 6);
        assert_int_equal(psi_part_offset(&p, i), offsets[i]);
    }
}

/* Every element of every part, against the definition of the layout; each of the whole is met once. */
TEST(test_layouts)
{
    static const int64_t shapes[][3] = {{1, -1, -1}, {7, -1, -1}, {10, 3, -1}, {3, 10, -1}, {2, 5, 3}, {4, 4, 4}};
    for (size_t s = 0; s < ARRAY_COUNT(shapes); s++) {
        const ps_shape shape = shape_of(shapes[s][0], shapes[s][1], shapes[s][2]);
        for (uint32_t n = 0; n < shape.rank * 2 * 10; n++) {
            const struct psi_parts p = {shape, n % shape.rank, 1 + n / shape.rank / 2, n / shape.rank % 2};
            if ((int64_t)p.count > shape.dims[p.axis]) {
                continue;
            }
            uint32_t met[256] = {0};
            struct psi_err err = {0};
            assert_ok(psi_parts_check(&p, &err), &err);
            int64_t inner = 1;
            for (uint32_t d = p.axis + 1; d < shape.rank; d++) {
                inner *= shape.dims[d];
            }
            for (uint32_t i = 0; i < p.count; i++) {
                const ps_shape part = psi_part_shape(&p, i);
                const uint64_t elements = (uint64_t)ps_shape_elements(&part);
                for (uint64_t at = 0; at < elements;) {
                    const struct psi_part_run run = psi_part_run(&p, i, at, at % 3 == 0 ? elements : 1 + at % 3);
                    assert_true(run.count >= 1 && run.count <= elements - at);
                    for (uint64_t k = 0; k < run.count; k++, at++) {
                        const int64_t row = (int64_t)at / inner % part.dims[p.axis];
                        const int64_t outer = (int64_t)at / inner / part.dims[p.axis];
                        const int64_t global = p.layout == PSI_LAYOUT_MOD ? row * p.count + i : psi_part_offset(&p, i) + row;
                        assert_int_equal(run.whole + k, (outer * shape.dims[p.axis] + global) * inner + (int64_t)at % inner);
                        met[run.whole + k]++;
                        int64_t back = -1;
                        assert_int_equal(psi_part_of(&p, global, &back), i);
                        assert_int_equal(back, row);
                        assert_int_equal(psi_part_row(&p, i, row), global);
                    }
                }
            }
            for (int64_t k = 0; k < ps_shape_elements(&shape); k++) {
                assert_int_equal(met[k], 1);
            }
        }
    }
}

TEST(test_names)
{
    char name[PS_NAME_BYTES_MAX + 1], whole[PS_NAME_BYTES_MAX + 1];
    struct psi_err err = {0};
    assert_ok(psi_part_name(name, "a/b", 0, &err), &err);
    assert_string_equal(name, "a/b/part_0");
    memset(whole, 'x', sizeof(whole));
    whole[PS_NAME_BYTES_MAX - 7] = '\0'; /* "/part_0" has 7 bytes */
    assert_ok(psi_part_name(name, whole, 9, &err), &err);
    assert_int_equal(psi_part_name(name, whole, 10, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "256 bytes"));
}
