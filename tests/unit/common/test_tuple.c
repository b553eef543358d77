/* SPDX-License-Identifier: Apache-2.0 */
/* common/tuple.c: the bytes of an element, each prefix of them, each thing that a peer may get wrong. */
#include "test.h"

#include "common/blob.h"
#include "common/sparse.h"
#include "common/tuple.h"

/* float32 (3,), int8 of any shape, string (2,), string of any shape */
static const struct psi_queue_spec SPEC = {
    .kind = PSI_QUEUE_FIFO,
    .component_count = 4,
    .capacity = -1,
    .components = {{.dtype = PS_F32, .shaped = true, .shape = {.rank = 1, .dims = {3}}},
                   {.dtype = PS_I8},
                   {.dtype = PS_STRING, .shaped = true, .shape = {.rank = 1, .dims = {2}}},
                   {.dtype = PS_STRING}},
};

struct element {
    uint8_t bytes[256];
    uint64_t n;
};

static void put(struct element *e, const struct psi_queue_component *c, const ps_shape *shape, const void *data, uint64_t bytes)
{
    uint64_t before = e->n;
    e->n += psi_tuple_head(c, shape, bytes, e->bytes + e->n);
    memcpy(e->bytes + e->n, data, bytes);
    e->n += psi_tuple_padded(bytes);
    assert_true(e->n - before == psi_tuple_part_bytes(c, shape, bytes));
    assert_true(e->n <= sizeof(e->bytes));
}

/* {1, 2, 3}, [[1, 2, 3, 4, 5]], {"ab", "cde"}, "" */
static struct element element_of(void)
{
    static const float f[] = {1, 2, 3};
    static const int8_t i[] = {1, 2, 3, 4, 5};
    static const struct {
        int64_t offsets[3];
        char text[5];
    } two = {{0, 2, 5}, "abcde"};
    static const int64_t empty[] = {0, 0};
    const ps_shape row = PS_SHAPE(1, 5), scalar = PS_SCALAR;
    struct element e = {.n = 0};
    put(&e, &SPEC.components[0], &SPEC.components[0].shape, f, sizeof(f));
    put(&e, &SPEC.components[1], &row, i, sizeof(i));
    put(&e, &SPEC.components[2], &SPEC.components[2].shape, &two, 29);
    put(&e, &SPEC.components[3], &scalar, empty, sizeof(empty));
    return e;
}

/* where things lie in it */
enum { PADDING_AT = 12, RANK_AT = 16, DIM_AT = 24, BLOB_BYTES_AT = 48, OFFSET_AT = 64, LAST_RANK_AT = 88, N = 120 };

TEST(test_read_back)
{
    struct psi_err err;
    struct psi_tuple_part part;
    struct element e = element_of();
    const uint8_t *p = e.bytes;
    uint64_t left = e.n;
    assert_int_equal(e.n, N);
    assert_ok(psi_tuple_check(&SPEC, e.bytes, e.n, &err), &err);
    assert_ok(psi_tuple_next(&SPEC.components[0], &p, &left, &part, &err), &err);
    assert_int_equal(part.bytes, 12);
    assert_ptr_equal(part.data, e.bytes);
    assert_ok(psi_tuple_next(&SPEC.components[1], &p, &left, &part, &err), &err);
    assert_int_equal(part.bytes, 5);
    assert_int_equal(part.shape.rank, 2);
    assert_int_equal(part.shape.dims[1], 5);
    assert_int_equal(part.data[4], 5);
    assert_ok(psi_tuple_next(&SPEC.components[2], &p, &left, &part, &err), &err);
    assert_int_equal(part.bytes, 29);
    assert_int_equal(psi_blob_offset(part.data, 1), 2);
    assert_ok(psi_tuple_next(&SPEC.components[3], &p, &left, &part, &err), &err);
    assert_int_equal(part.shape.rank, 0);
    assert_int_equal(left, 0);
}

TEST(test_each_prefix_is_refused)
{
    struct psi_err err;
    struct element e = element_of();
    for (uint64_t n = 0; n < e.n; n++) {
        uint8_t *cut = test_alloc(n + 1); /* the sanitizer sees a byte too many */
        memcpy(cut, e.bytes, n);
        assert_int_equal(psi_tuple_check(&SPEC, cut, n, &err), PS_INVALID_ARGUMENT);
    }
    assert_fails(psi_tuple_check(&SPEC, e.bytes, e.n + 8, &err), PS_INVALID_ARGUMENT, &err, "8 bytes behind the last");
}

static void assert_refused(size_t at, uint64_t value, const char *fault)
{
    struct psi_err err;
    struct element e = element_of();
    memcpy(e.bytes + at, &value, sizeof(value));
    assert_fails(psi_tuple_check(&SPEC, e.bytes, e.n, &err), PS_INVALID_ARGUMENT, &err, fault);
}

TEST(test_wrong_numbers)
{
    struct psi_err err;
    struct element e = element_of();
    e.bytes[PADDING_AT] = 1;
    assert_fails(psi_tuple_check(&SPEC, e.bytes, e.n, &err), PS_INVALID_ARGUMENT, &err, "component 0: padding that is not 0");
    assert_refused(RANK_AT, PS_RANK_MAX + 1, "component 1: a shape of rank 9");
    assert_refused(RANK_AT, UINT64_MAX, "component 1: a shape of rank");
    assert_refused(DIM_AT, 0, "component 2: "); /* none of its values is there, so the next component begins with them */
    assert_refused(DIM_AT, UINT64_MAX, "component 1: shape (-1, 5)");
    assert_refused(DIM_AT, UINT64_C(1) << 41, "more than");
    assert_refused(DIM_AT, UINT64_C(1) << 38, "bytes of values");
    assert_refused(BLOB_BYTES_AT, 23, "component 2: a value of 23 bytes");
    assert_refused(BLOB_BYTES_AT, UINT64_MAX, "component 2: a value of");
    assert_refused(BLOB_BYTES_AT, 24 + PS_STRING_BYTES_MAX, "bytes of values");
    assert_refused(OFFSET_AT, 6, "component 2: string 1");
    assert_refused(LAST_RANK_AT, 1, "component 3: ");
}

TEST(test_fixed_bytes)
{
    struct psi_queue_spec spec = SPEC;
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 0);
    spec.component_count = 2;
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 0);
    spec.components[1] = (struct psi_queue_component){.dtype = PS_I64, .shaped = true};
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 24);
    spec.components[1].dtype = PS_STRING;
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 0);
}

/* Components without bytes: alone they make an element of eight bytes of 0, beside others they are not there. */
TEST(test_nothing)
{
    struct psi_err err;
    struct psi_tuple_part part;
    struct psi_queue_spec spec = {
        .kind = PSI_QUEUE_FIFO,
        .component_count = 2,
        .capacity = -1,
        .components = {{.dtype = PS_F32, .shaped = true, .shape = PS_SHAPE(0)},
                       {.dtype = PS_I64, .shaped = true, .shape = PS_SHAPE(2, 0)}},
    };
    const uint64_t zeros[2] = {0}, ones[1] = {1};
    const uint8_t *p = (const uint8_t *)zeros;
    uint64_t left = 8;
    assert_int_equal(psi_tuple_fixed_bytes(&spec), PSI_TUPLE_BYTES_MIN);
    assert_ok(psi_tuple_check(&spec, p, 8, &err), &err);
    assert_fails(psi_tuple_check(&spec, p, 0, &err), PS_INVALID_ARGUMENT, &err, "8 bytes of 0");
    assert_fails(psi_tuple_check(&spec, p, 16, &err), PS_INVALID_ARGUMENT, &err, "8 bytes of 0");
    assert_fails(psi_tuple_check(&spec, (const uint8_t *)ones, 8, &err), PS_INVALID_ARGUMENT, &err, "8 bytes of 0");
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(psi_tuple_next(&spec.components[i], &p, &left, &part, &err), &err);
        assert_int_equal(part.bytes, 0);
        assert_int_equal(part.shape.dims[i], 0);
    }
    spec.components[1].shape = PS_SHAPE(1);
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 8);
    assert_ok(psi_tuple_check(&spec, (const uint8_t *)ones, 8, &err), &err);
    assert_fails(psi_tuple_check(&spec, (const uint8_t *)zeros, 16, &err), PS_INVALID_ARGUMENT, &err, "8 bytes behind the last");
    spec.components[0].shaped = false; /* whose shape is said with each element */
    spec.component_count = 1;
    const uint64_t said[] = {2, 0, 7};
    assert_int_equal(psi_tuple_fixed_bytes(&spec), 0);
    assert_ok(psi_tuple_check(&spec, (const uint8_t *)said, sizeof(said), &err), &err);
}

TEST(test_items_of_work_are_bounded)
{
    struct psi_err err;
    const struct psi_queue_spec spec = {.kind = PSI_QUEUE_WORK,
                                        .component_count = 1,
                                        .capacity = -1,
                                        .epochs = 1,
                                        .components = {{.dtype = PS_STRING, .shaped = true}}};
    for (uint64_t more = 0; more < 2; more++) {
        const uint64_t text = PSI_WORK_ITEM_BYTES_MAX + more, blob = 16 + text;
        uint8_t *e = test_alloc(8 + psi_tuple_padded(blob));
        assert_int_equal(psi_tuple_head(&spec.components[0], &spec.components[0].shape, blob, e), 8);
        memcpy(e + 16, &text, sizeof(text));
        ps_status st = psi_tuple_check(&spec, e, 8 + psi_tuple_padded(blob), &err);
        assert_int_equal(st, more == 0 ? PS_OK : PS_INVALID_ARGUMENT);
    }
    assert_non_null(strstr(err.text, "an item of 65537 bytes; at most 65536"));
    assert_int_equal(err.reason, PS_REASON_TOO_LARGE);
}

TEST(test_batch)
{
    struct psi_err err;
    const uint64_t batch[] = {8, 11, 16, 21, 22};
    const uint8_t *p = (const uint8_t *)batch, *element = NULL;
    uint64_t left = sizeof(batch), bytes = 0;
    assert_ok(psi_batch_next(&p, &left, &element, &bytes, &err), &err);
    assert_int_equal(bytes, 8);
    assert_ptr_equal(element, &batch[1]);
    assert_ok(psi_batch_next(&p, &left, &element, &bytes, &err), &err);
    assert_int_equal(bytes, 16);
    assert_int_equal(left, 0);
    const uint64_t wrong[] = {0, 4, 24, UINT64_MAX - 7};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        uint64_t bad[] = {wrong[i], 0, 0};
        p = (const uint8_t *)bad;
        left = sizeof(bad);
        assert_fails(psi_batch_next(&p, &left, &element, &bytes, &err), PS_INVALID_ARGUMENT, &err, "an element of");
    }
    left = 7;
    assert_fails(psi_batch_next(&p, &left, &element, &bytes, &err), PS_INVALID_ARGUMENT, &err, "7 bytes into a number");
}

static const struct psi_queue_spec SPARSE = {
    .kind = PSI_QUEUE_SPARSE_ACCUMULATOR,
    .component_count = 1,
    .capacity = -1,
    .reduction = PSI_REDUCTION_SUM,
    .components = {{.dtype = PS_F32, .shaped = true, .shape = {.rank = 3, .dims = {5, 1, 3}}}},
};

/* Rows 1 and 4 of three float32 each, of 1 and 2 gradients; of the alignment of a buffer. */
static uint64_t sparse_of(uint64_t *buffer)
{
    static const int64_t indices[2] = {1, 4}, counts[2] = {1, 2};
    static const float rows[6] = {1, 2, 3, 4, 5, 6};
    const struct psi_sparse s = psi_sparse_lay_out(&SPARSE, 2, (uint8_t *)buffer);
    memcpy(s.indices, indices, sizeof(indices));
    memcpy(s.counts, counts, sizeof(counts));
    memcpy(s.rows, rows, sizeof(rows));
    return psi_sparse_bytes(&SPARSE, 2);
}

enum { COUNT_AT = 8, INDEX_AT = 16, COUNTS_AT = 48, ROW_RANK_AT = 64, ROW_DIMS_AT = 72, ROWS_AT = 96, SPARSE_N = 120 };

TEST(test_sparse_read_back)
{
    uint64_t buffer[SPARSE_N / 8 + 1];
    struct psi_err err;
    assert_int_equal(sparse_of(buffer), SPARSE_N);
    assert_int_equal(psi_tuple_fixed_bytes(&SPARSE), 0);
    assert_int_equal(psi_tuple_check(&SPARSE, (uint8_t *)buffer, SPARSE_N, &err), PS_OK);
    assert_int_equal(psi_sparse_check(&SPARSE, (uint8_t *)buffer, SPARSE_N, 2, &err), PS_OK);
    const struct psi_sparse s = psi_sparse_of(&SPARSE, (uint8_t *)buffer);
    assert_true(s.count == 2 && s.columns == 3 && s.row_bytes == 12);
    assert_ptr_equal(s.rows, (uint8_t *)buffer + ROWS_AT);
    assert_true(psi_sparse_number(s.indices, 1) == 4 && psi_sparse_number(s.counts, 1) == 2);
    struct psi_queue_spec form;
    psi_sparse_form(&SPARSE, &form); /* the same bytes as an element of a queue */
    assert_int_equal(psi_tuple_check(&form, (uint8_t *)buffer, SPARSE_N, &err), PS_OK);
    const struct psi_sparse none = psi_sparse_lay_out(&SPARSE, 0, (uint8_t *)buffer);
    assert_int_equal(none.count, 0);
    assert_int_equal(psi_sparse_check(&SPARSE, (uint8_t *)buffer, psi_sparse_bytes(&SPARSE, 0), 1, &err), PS_OK);
}

TEST(test_sparse_refused)
{
    uint64_t buffer[SPARSE_N / 8 + 1];
    struct psi_err err;
    for (uint64_t n = 0; n < SPARSE_N; n++) {
        sparse_of(buffer);
        assert_int_equal(psi_tuple_check(&SPARSE, (uint8_t *)buffer, n, &err), PS_INVALID_ARGUMENT);
    }
    buffer[SPARSE_N / 8] = 0;
    assert_int_equal(psi_tuple_check(&SPARSE, (uint8_t *)buffer, SPARSE_N + 8, &err), PS_INVALID_ARGUMENT);
    static const struct {
        uint32_t at;
        int64_t value;
        const char *text;
    } rows[] = {
        {0, 2, "component 0"},
        {COUNT_AT, 1, "component"},
        {COUNT_AT, -1, "component 0"},
        {INDEX_AT, -1, "index -1 of row 0 does not rise within [0, 5)"},
        {INDEX_AT, 4, "index 4 of row 1 does not rise"},
        {INDEX_AT + 8, 5, "index 5 of row 1"},
        {COUNTS_AT, 0, "row 0 counts 0 gradients; 1 to 2"},
        {COUNTS_AT + 8, 3, "row 1 counts 3 gradients"},
        {ROW_RANK_AT, 2, "component 2"},
        {ROW_DIMS_AT, 0, "shape (0, 1, 3); allowed: (2, 1, 3)"},
        {ROW_DIMS_AT + 8, 3, "component 2"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        sparse_of(buffer);
        memcpy((uint8_t *)buffer + rows[i].at, &rows[i].value, sizeof(rows[i].value));
        assert_int_equal(psi_sparse_check(&SPARSE, (uint8_t *)buffer, SPARSE_N, 2, &err), PS_INVALID_ARGUMENT);
        if (strstr(err.text, rows[i].text) == NULL) {
            fail_msg("row %zu: '%s', not '%s'", i, err.text, rows[i].text);
        }
    }
}
