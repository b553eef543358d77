/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a variable through real psd processes and the public API: gather, push and scatter against a table of this process, in
 * any order and with rows that are named several times; large ones in several frames; requests in flight; what is refused.
 */
#include "api_test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 20000, COLUMNS = 16, BATCH = 4096, ROW_BYTES = COLUMNS * 4, MANY = 60000 };

static int64_t indices[MANY];
static float rows[MANY * COLUMNS], came[MANY * COLUMNS], table[ROWS * COLUMNS], sums[ROWS * COLUMNS], squares[ROWS * COLUMNS];
static uint64_t seed = 88172645463325252;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Some rows, many of them several times, in no order. */
static void draw_batch(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        indices[i] = (int64_t)(draw() % (draw() % 2 == 0 ? 64 : ROWS));
        for (size_t k = 0; k < COLUMNS; k++) {
            rows[i * COLUMNS + k] = (float)(draw() % 4096) / 1024 - 2;
        }
    }
}

/* What a push or scatter has for each row: added in the order of the batch. */
static void add_up(size_t count)
{
    memset(sums, 0, sizeof(sums));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            sums[(size_t)indices[i] * COLUMNS + k] += rows[i * COLUMNS + k];
        }
    }
}

static void assert_came(size_t count, float most)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            const float want = table[(size_t)indices[i] * COLUMNS + k];
            if (!(fabsf(came[i * COLUMNS + k] - want) <= most * fmaxf(1, fabsf(want)))) {
                fail_msg("row %lld, column %zu, number %zu of the batch: %.9g, expected %.9g", (long long)indices[i], k, i,
                         (double)came[i * COLUMNS + k], (double)want);
            }
        }
    }
}

static void assert_gathers(ps_variable *v, size_t count, float most)
{
    assert_int_equal(ps_gather(v, indices, count, came, count * ROW_BYTES), PS_OK);
    assert_came(count, most);
}

static void trains_as_a_table_does(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    ps_variable *v = get(s, "embedding", PS_F32, PS_SHAPE(ROWS, COLUMNS), ps_adagrad(0.5));
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        table[i] = 0;
        squares[i] = 0.1F;
    }
    for (int step = 0; step < 5; step++) {
        draw_batch(BATCH);
        add_up(BATCH);
        assert_int_equal(ps_push_rows(v, indices, BATCH, rows, BATCH * ROW_BYTES, 0.5F), PS_OK);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            const float g = 0.5F * sums[i];
            squares[i] += g * g;
            table[i] -= g * 0.5F / sqrtf(squares[i]);
        }
        assert_gathers(v, BATCH, 1e-5F);
    }
    /* the new values come with a push, of each index that is named, also where they replace the gradients */
    for (int step = 0; step < 3; step++) {
        draw_batch(step == 2 ? MANY : BATCH);
        const size_t count = step == 2 ? MANY : BATCH;
        add_up(count);
        float *to = step == 1 ? rows : came;
        assert_int_equal(ps_push_pull_rows(v, indices, count, rows, count * ROW_BYTES, to, count * ROW_BYTES, 0.5F), PS_OK);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            const float g = 0.5F * sums[i];
            squares[i] += g * g;
            table[i] -= g * 0.5F / sqrtf(squares[i]);
        }
        memmove(came, to, count * ROW_BYTES);
        assert_came(count, 1e-4F);
        assert_gathers(v, count, 1e-4F);
    }
    assert_int_equal(ps_push_pull_rows(v, NULL, 0, NULL, 0, NULL, 0, 1), PS_OK);
    /* no rows, one row, the last row */
    assert_int_equal(ps_push_rows(v, NULL, 0, NULL, 0, 1), PS_OK);
    assert_int_equal(ps_gather(v, NULL, 0, NULL, 0), PS_OK);
    indices[0] = ROWS - 1;
    assert_gathers(v, 1, 1e-5F);
    assert_int_equal(ps_session_close(s), 0);
}

/* More than a frame of each: 60,000 rows of 64 bytes, most of them several times. Whole numbers are added exactly. */
static void scatters(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    ps_variable *v = get(s, "scattered", PS_F32, PS_SHAPE(ROWS, 4, 4), NULL);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    memset(table, 0, sizeof(table));
    draw_batch(MANY);
    add_up(MANY);
    assert_int_equal(ps_scatter_add(v, indices, MANY, rows, MANY * ROW_BYTES), PS_OK);
    memcpy(table, sums, sizeof(table));
    assert_gathers(v, MANY, 0);
    assert_int_equal(ps_scatter_sub(v, indices, MANY, rows, MANY * ROW_BYTES), PS_OK);
    memset(table, 0, sizeof(table));
    assert_gathers(v, MANY, 0);
    assert_int_equal(ps_scatter_update(v, indices, MANY, rows, MANY * ROW_BYTES), PS_OK);
    for (size_t i = 0; i < MANY; i++) {
        memcpy(table + (size_t)indices[i] * COLUMNS, rows + i * COLUMNS, ROW_BYTES); /* the last one counts */
    }
    assert_gathers(v, MANY, 0);
    assert_int_equal(ps_variable_read(v, came, sizeof(table)), PS_OK);
    assert_memory_equal(came, table, sizeof(table));
    assert_int_equal(ps_session_close(s), 0);
}

struct ends {
    atomic_int count, failed;
};

static void ended(void *ctx, ps_request *req, const ps_result *result)
{
    struct ends *e = ctx;
    (void)req;
    if (result->status != PS_OK) {
        atomic_fetch_add(&e->failed, 1);
    }
    atomic_fetch_add(&e->count, 1);
}

/* A gather that was started behind pushes sees them. What is given to a push may change at once. */
static void in_flight(void **state)
{
    (void)state;
    enum { PUSHES = 8 };
    static ps_request requests[PUSHES + 1];
    struct ends e = {0};
    ps_session *s = open_session(60000);
    ps_variable *v = get(s, "in_flight", PS_F32, PS_SHAPE(ROWS, COLUMNS), ps_sgd(1.0));
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    memset(table, 0, sizeof(table));
    for (int i = 0; i < PUSHES; i++) {
        draw_batch(BATCH);
        add_up(BATCH);
        for (size_t k = 0; k < ROWS * COLUMNS; k++) {
            table[k] -= sums[k];
        }
        assert_int_equal(ps_push_rows_start(v, indices, BATCH, rows, BATCH * ROW_BYTES, 1, 0, &requests[i], ended, &e), PS_OK);
        memset(rows, 0x41, sizeof(rows));
    }
    memset(came, 0x41, sizeof(came));
    assert_int_equal(ps_gather_start(v, indices, BATCH, came, BATCH * ROW_BYTES, 0, &requests[PUSHES], ended, &e), PS_OK);
    while (atomic_load(&e.count) < PUSHES + 1) {
        usleep(1000); /* sleep: until callbacks on another thread have come */
    }
    assert_int_equal(atomic_load(&e.failed), 0);
    for (size_t i = 0; i < BATCH; i++) {
        assert_memory_equal(came + i * COLUMNS, table + (size_t)indices[i] * COLUMNS, ROW_BYTES);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void refused(void **state)
{
    (void)state;
    static ps_request request;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "refused", PS_F32, PS_SHAPE(10, COLUMNS), ps_sgd(1.0));
    ps_variable *adam = get(s, "adam", PS_F32, PS_SHAPE(10, COLUMNS), ps_adam(0.1));
    ps_variable *scalar = get(s, "scalar", PS_F32, (ps_shape){0}, NULL);
    const int64_t over[] = {3, 10}, good[] = {3, 9};
    assert_int_equal(ps_gather(v, good, 2, came, 2 * ROW_BYTES), PS_FAILED_PRECONDITION); /* no value yet */
    assert_int_equal(ps_last_reason(), PS_REASON_UNINITIALIZED);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_init(adam, false), PS_OK);
    memset(rows, 0, sizeof(rows));
    assert_int_equal(ps_push_rows(v, over, 2, rows, 2 * ROW_BYTES, 1), PS_OUT_OF_RANGE);
    assert_non_null(strstr(ps_last_error(), "push_rows: 'refused': index 10, number 1 of 2, is outside [0, 10)"));
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_int_equal(ps_gather_start(v, over, 2, came, 2 * ROW_BYTES, 0, &request, ended, NULL), PS_OUT_OF_RANGE);
    assert_int_equal(ps_gather(v, good, 2, came, ROW_BYTES), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "64 bytes are given; 2 rows of 16 elements have 128"));
    assert_int_equal(ps_gather(scalar, good, 1, came, 4), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "scalar"));
    assert_int_equal(ps_push_rows(v, good, 2, rows, 2 * ROW_BYTES, -1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_rows(adam, good, 2, rows, 2 * ROW_BYTES, 1), PS_OK);
    rows[COLUMNS + 5] = NAN;
    assert_int_equal(ps_push_rows(v, good, 2, rows, 2 * ROW_BYTES, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_last_reason(), PS_REASON_NOT_FINITE);
    assert_non_null(strstr(ps_last_error(), "element 5 of the row with index 9"));
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_as_a_table_does),
        cmocka_unit_test(scatters),
        cmocka_unit_test(in_flight),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
