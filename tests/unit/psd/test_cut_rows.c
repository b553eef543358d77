/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes of rows behind the instant of a cut: the cut has all rows as they were at the instant, and keeps little more than the
 * rows that change (psd/store/cut_grains.c). */
#include "cut_test.h"

#include "psd/store/rows.h"

#include "common/optimizer.h"

#include <stdlib.h>

enum { COLUMNS = 16, ROWS = 20000, BLOCK_ROWS = BLOCK / (COLUMNS * 4), LARGE_ROWS = 64 * BLOCK_ROWS, GRAIN = 64 };

static const struct psd_variable *embedding(struct life *l, uint32_t kind, int64_t rows, int64_t columns)
{
    const ps_optimizer given = {.learning_rate = 0.5}, opt = psi_optimizer_standard(kind, &given);
    return variable_of(l, "w", (ps_shape){.rank = 2, .dims = {rows, columns}}, &opt, true);
}

static struct life *life(void)
{
    struct psi_queue_spec spec = spec_of(PSI_QUEUE_FIFO, -1);
    struct life *l = life_new(&spec);
    l->silent = true;
    psd_task_consumer(l->task, NULL, NULL);
    return l;
}

/* A push of session 1 of `count` rows, the last of which is `highest`. */
static const struct psd_number *rows_begin(struct life *l, const struct psd_variable *v, uint64_t count, uint64_t highest)
{
    static uint64_t number = 0;
    struct psd_progress *p = psd_progress_new(l->task, v);
    assert_non_null(p);
    p->number = ++number;
    p->kind = PSD_PUSH_ROWS;
    p->wire = PS_F32;
    p->unit = psi_rows_unit(psd_rows_columns(v) * sizeof(float));
    p->total = count;
    p->highest = highest;
    p->last_index = UINT64_MAX;
    p->scale = 1;
    psd_variable_capture(v, 0, 1, &p->scalars);
    must(l, (struct psd_change){.kind = PSD_CHANGE_BEGIN, .begin = {.record = l->records[1], .reserved = p}});
    return psd_record_find(l->records[1], p->number);
}

static uint8_t *segment_of(const struct psd_number *n, const uint64_t *rows, uint64_t count)
{
    const uint64_t columns = psd_rows_columns(n->progress->variable);
    uint8_t *segment = malloc(count * psi_rows_unit(columns * sizeof(float)));
    assert_non_null(segment);
    memcpy(segment, rows, count * PSI_INDEX_BYTES);
    for (uint64_t i = 0; i < count * columns; i++) {
        const float grad = (float)(1 + i % 3);
        memcpy(segment + count * PSI_INDEX_BYTES + i * sizeof(grad), &grad, sizeof(grad));
    }
    return segment;
}

/* The next `count` rows of n. */
static void rows_segment(struct life *l, const struct psd_number *n, const uint64_t *rows, uint64_t count)
{
    uint8_t *segment = segment_of(n, rows, count);
    must(l, (struct psd_change){.kind = PSD_CHANGE_SEGMENT,
                                .segment = {.record = l->records[1],
                                            .number = n,
                                            .bytes = segment,
                                            .count = count,
                                            .last = n->offset + count == n->progress->total}});
    free(segment);
}

static void push_rows(struct life *l, const struct psd_variable *v, const uint64_t *rows, uint64_t count)
{
    const struct psd_number *n = rows_begin(l, v, count, rows[count - 1]);
    while (n->progress != NULL) {
        const uint64_t per = psi_rows_per_segment(n->progress->unit), left = count - n->offset;
        rows_segment(l, n, rows + n->offset, left < per ? left : per);
    }
}

/* ---- what the arrays were at the instant ---- */

struct was {
    uint32_t arrays;
    uint8_t *bytes[1 + PSD_OPTIM_SLOTS_MAX];
};

static const uint8_t *array_of(const struct psd_variable *v, uint32_t which)
{
    return which == 0 ? v->value : v->slots[which - 1];
}

static struct was was_of(const struct psd_variable *v)
{
    struct was was = {.arrays = 1 + psd_optim_slot_count(&v->optimizer)};
    for (uint32_t k = 0; k < was.arrays; k++) {
        was.bytes[k] = test_alloc(psd_variable_bytes_of(v, k));
        memcpy(was.bytes[k], array_of(v, k), psd_variable_bytes_of(v, k));
    }
    return was;
}

static void assert_was(const struct psd_variable *v, const struct was *was)
{
    for (uint32_t k = 0; k < was->arrays; k++) {
        assert_memory_equal(array_of(v, k), was->bytes[k], psd_variable_bytes_of(v, k));
    }
}

static const struct psd_variable *in_task(const struct psd_task *t)
{
    return psd_variable_find(psd_container_find(&t->store, "c"), "w");
}

static void turns(struct life *l, struct checkpoint *c)
{
    while (psd_cut_status(l->task) == PSD_CUT_GOES) {
        psd_cut_turn(l->task, 1000);
        drain(l, c);
    }
}

/* The cut is carried to its end, and w in its checkpoint is as it was at the instant. */
static void assert_saved(struct life *l, struct checkpoint *c, const struct was *was)
{
    struct psi_err err;
    turns(l, c);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_WRITTEN);
    assert_int_equal(psd_cut_held_bytes(&l->task->store), 0);
    psd_cut_end(l->task);
    psd_store_check_invariants(&l->task->store);
    struct psd_task *t = task_new(l);
    assert_ok(load_into(t, c, &err), &err);
    assert_was(in_task(t), was);
    psd_task_free(t);
}

/* ---- cases ---- */

/* Rows that are pushed behind the instant of a cut, and those that an optimizer moves with them, are in it as they were. Rows of
 * a part of a grain, of one, of some that lie askew, and of more than a block may keep in grains. */
TEST(test_rows_as_they_were)
{
    static const uint32_t kinds[] = {PS_OPT_SGD, PS_OPT_ADAGRAD, PS_OPT_ADAM, PS_OPT_ROWWISE_ADAGRAD, PS_OPT_ROWWISE_ADAM};
    static const int64_t columns[] = {1, COLUMNS, COLUMNS + 1, 5000};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) * sizeof(columns) / sizeof(columns[0]); i++) {
        struct life *l = life();
        const int64_t wide = columns[i % 4], count = wide == 5000 ? 90 : ROWS + 3;
        const struct psd_variable *w = embedding(l, kinds[i / 4], count, wide);
        push_rows(l, w, (const uint64_t[]){0, (uint64_t)count / 2, (uint64_t)count - 2},
                  3); /* Adam moves all three again below */
        const struct was was = was_of(w);
        cut_begin(l, 16 << 20);
        for (int again = 0; again < 2; again++) { /* what is kept stays as it is */
            push_rows(l, w, (const uint64_t[]){7, (uint64_t)count - 3, (uint64_t)count - 1}, 3);
        }
        assert_memory_not_equal(w->value, was.bytes[0], w->bytes);
        assert_saved(l, checkpoint_new(), &was);
    }
}

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Pushes of rows here and there, and of many in a few blocks, while the walk goes on and the disk takes what there is. */
TEST(test_rows_while_the_walk_goes_on)
{
    static const uint32_t kinds[] = {PS_OPT_ADAGRAD, PS_OPT_ROWWISE_ADAGRAD, PS_OPT_SGD};
    static uint64_t rows[LARGE_ROWS];
    for (uint64_t turn = 0; turn < 9; turn++) {
        struct life *l = life();
        struct checkpoint *c = checkpoint_new();
        uint64_t seed = 0x9e3779b97f4a7c15 + turn;
        const struct psd_variable *w = embedding(l, kinds[turn % 3], LARGE_ROWS, COLUMNS);
        push_rows(l, w, (const uint64_t[]){1, BLOCK_ROWS, LARGE_ROWS - 1}, 3);
        const struct was was = was_of(w);
        cut_begin(l, 1 << 20);
        for (int i = 0; i < 40; i++) {
            const uint64_t apart = 1 + draw(&seed) % (i % 2 == 0 ? 3 : 700);
            uint64_t count = 0;
            for (uint64_t at = draw(&seed) % LARGE_ROWS; at < LARGE_ROWS && count < 3000; at += 1 + draw(&seed) % apart) {
                rows[count++] = at;
            }
            push_rows(l, w, rows, count);
            psd_cut_turn(l->task, draw(&seed) % 60000);
            if (draw(&seed) % 4 == 0) {
                drain(l, c);
            }
        }
        assert_saved(l, c, &was);
    }
}

/* A push of rows of which one segment is applied at the instant, and the others behind it: what is loaded is resumed there, and
 * ends as the living one has ended. */
TEST(test_push_of_rows_goes_on_in_both)
{
    enum { COUNT = 2000 };
    static uint64_t rows[COUNT];
    struct life *l = life();
    struct checkpoint *c = checkpoint_new();
    struct psi_err err;
    const struct psd_variable *w = embedding(l, PS_OPT_ADAGRAD, LARGE_ROWS, COLUMNS);
    for (uint64_t i = 0; i < COUNT; i++) {
        rows[i] = i * 31 + i % 2;
    }
    const struct psd_number *n = rows_begin(l, w, COUNT, rows[COUNT - 1]);
    const uint64_t number = n->number, per = psi_rows_per_segment(n->progress->unit);
    rows_segment(l, n, rows, per);
    cut_begin(l, 8 << 20);
    rows_segment(l, n, rows + per, per);
    psd_cut_turn(l->task, 20 * BLOCK);
    rows_segment(l, n, rows + 2 * per, COUNT - 2 * per);
    assert_null(n->progress);
    turns(l, c);
    psd_cut_end(l->task);
    struct life other = *l;
    other.task = task_new(l);
    assert_ok(load_into(other.task, c, &err), &err);
    other.records[1] = psi_map_find(&other.task->records, l->records[1]->session, sizeof(l->records[1]->session));
    const struct psd_number *in = psd_record_find(other.records[1], number);
    assert_int_equal(in->offset, per);
    assert_int_equal(in->progress->last_index, rows[per - 1]);
    rows_segment(&other, in, rows + per, per);
    rows_segment(&other, in, rows + 2 * per, COUNT - 2 * per);
    assert_int_equal(in->state, PS_NUMBER_APPLIED);
    const struct was was = was_of(w);
    assert_was(in_task(other.task), &was);
    psd_task_free(other.task);
}

/* Scattered rows cost a cut a batch of grains in each block, and no block. A block of which more than three quarters change is
 * copied as a whole, once, and its grains are freed. */
TEST(test_rows_cost_little)
{
    static uint64_t rows[BLOCK_ROWS];
    struct life *l = life();
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = embedding(l, PS_OPT_SGD, LARGE_ROWS, COLUMNS);
    const struct was was = was_of(w);
    cut_begin(l, 8 << 20);
    psd_cut_turn(l->task, 2000); /* variables and texts */
    push_rows(l, w, (const uint64_t[]){3}, 1);
    const uint64_t before = psd_cut_held_bytes(s);
    for (uint64_t i = 0; i < 32; i++) {
        rows[i] = (2 + 2 * i) * BLOCK_ROWS - 1;
    }
    assert_int_equal(psd_cut_missing(s, w, rows[0] * GRAIN, GRAIN), GRAIN);
    push_rows(l, w, rows, 32);
    assert_int_equal(psd_cut_missing(s, w, rows[0] * GRAIN, GRAIN), 0);
    assert_int_equal(psd_cut_missing(s, w, rows[0] * GRAIN - GRAIN, 2 * GRAIN), GRAIN);
    assert_int_equal(psd_cut_missing(s, w, 2 * BLOCK, BLOCK), BLOCK);
    const uint64_t scattered = psd_cut_held_bytes(s) - before;
    assert_in_range(scattered, 32 * GRAIN, 32 * 1024);
    for (int i = 0; i < 8; i++) { /* again, more often than a batch has room: nothing is new */
        push_rows(l, w, rows, 32);
    }
    assert_int_equal(psd_cut_held_bytes(s) - before, scattered);
    for (uint64_t i = 0; i < BLOCK_ROWS; i++) {
        rows[i] = 2 * BLOCK_ROWS + i;
    }
    push_rows(l, w, rows, 3 * BLOCK_ROWS / 4);
    assert_in_range(psd_cut_held_bytes(s) - before - scattered, 3 * BLOCK / 4, BLOCK);
    assert_int_equal(psd_cut_missing(s, w, 3 * BLOCK - GRAIN, GRAIN), BLOCK); /* one more, and the block is copied */
    push_rows(l, w, rows, BLOCK_ROWS);
    assert_int_equal(psd_cut_held_bytes(s) - before - scattered, BLOCK);
    assert_int_equal(psd_cut_missing(s, w, 2 * BLOCK, BLOCK), 0);
    assert_saved(l, checkpoint_new(), &was);
}

/* Rounds build new values and slots in pieces of a quarter of a block, one behind the other: the first one copies the block. */
TEST(test_a_quarter_copies_the_block)
{
    struct life *l = life();
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = embedding(l, PS_OPT_SGD, LARGE_ROWS, COLUMNS);
    const struct was was = was_of(w);
    cut_begin(l, 8 << 20);
    psd_cut_turn(l->task, 2000); /* variables and texts */
    assert_int_equal(psd_cut_missing(s, w, 2 * BLOCK, BLOCK / 4 - GRAIN), BLOCK / 4 - GRAIN);
    assert_int_equal(psd_cut_missing(s, w, 2 * BLOCK, BLOCK / 4), BLOCK);
    psd_kept_change(w->kept[0], 2 * BLOCK, BLOCK / 4);
    assert_int_equal(psd_cut_missing(s, w, 2 * BLOCK, BLOCK), 0);
    assert_saved(l, checkpoint_new(), &was);
}

/* Rows fill the memory of a cut. The walk goes on, because it frees what they hold, and pushes may go on before the cut is over.
 */
TEST(test_walk_frees_what_rows_hold)
{
    static uint64_t rows[200];
    struct life *l = life();
    struct checkpoint *c = checkpoint_new();
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = embedding(l, PS_OPT_ADAGRAD, LARGE_ROWS, COLUMNS);
    const struct was was = was_of(w);
    cut_begin(l, 1 << 20);
    psd_cut_turn(l->task, 2000);
    for (uint64_t block = 0; !psd_cut_is_full(s); block++) {
        for (uint64_t i = 0; i < 200; i++) {
            rows[i] = block * BLOCK_ROWS + 5 * i;
        }
        push_rows(l, w, rows, 200);
        assert_in_range(block, 0, 60);
    }
    uint64_t steps = 0;
    for (; psd_cut_is_full(s); steps++) {
        assert_true(psd_cut_has_work(l->task));
        psd_cut_turn(l->task, BLOCK);
        drain(l, c);
    }
    assert_in_range(steps, 1, 20);
    assert_int_equal(psd_cut_status(l->task), PSD_CUT_GOES);
    assert_saved(l, c, &was);
}

/* A cut that is given up frees the grains at once; the next cut is whole. */
TEST(test_given_up_with_grains)
{
    struct life *l = life();
    const struct psd_store *s = &l->task->store;
    const struct psd_variable *w = embedding(l, PS_OPT_ADAGRAD, LARGE_ROWS, COLUMNS);
    push_rows(l, w, (const uint64_t[]){1}, 1); /* the memory of a push in progress is kept for the next one */
    const uint64_t counted = psd_store_memory_bytes(s);
    cut_begin(l, 1 << 20);
    push_rows(l, w, (const uint64_t[]){0, 5000, 9999, LARGE_ROWS - 1}, 4);
    assert_in_range(psd_cut_held_bytes(s), 8 * GRAIN, BLOCK + 8 * 1024);
    psd_cut_cancel(l->task);
    assert_int_equal(psd_cut_held_bytes(s), 0);
    push_rows(l, w, (const uint64_t[]){1, 5000}, 2); /* beside a cut that has failed */
    psd_cut_end(l->task);
    assert_int_equal(psd_store_memory_bytes(s), counted);
    psd_store_check_invariants(s);
    const struct was was = was_of(w);
    cut_begin(l, 1 << 20);
    push_rows(l, w, (const uint64_t[]){0, 5000, 9999, LARGE_ROWS - 1}, 4);
    assert_saved(l, checkpoint_new(), &was);
}

/* Allocation n behind the instant fails: the rows are changed nevertheless, and the cut has what was there, or has failed. */
TEST(test_no_memory_for_grains)
{
    static uint64_t rows[300];
    struct life *l = life();
    const struct psd_variable *w = embedding(l, PS_OPT_ADAGRAD, ROWS, COLUMNS);
    uint32_t failed = 0, whole = 0;
    for (uint64_t i = 0; i < 300; i++) {
        rows[i] = i * 66;
    }
    push_rows(l, w, rows, 1); /* the memory of a push in progress is kept for the next one */
    for (int64_t n = 0, fired = 1; fired; n++) {
        const struct was was = was_of(w);
        const uint64_t counted = psd_store_memory_bytes(&l->task->store);
        const struct psd_number *number = rows_begin(l, w, 300, rows[299]);
        uint8_t *segment = segment_of(number, rows, 300);
        struct psi_err err;
        cut_begin(l, 1 << 20);
        psi_mem_fail_after(n);
        must(l, (struct psd_change){
                    .kind = PSD_CHANGE_SEGMENT,
                    .segment = {.record = l->records[1], .number = number, .bytes = segment, .count = 300, .last = true}});
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        free(segment);
        assert_memory_not_equal(w->value, was.bytes[0], w->bytes);
        if (psd_cut_status(l->task) == PSD_CUT_FAILED) {
            assert_int_equal(psd_cut_error(l->task, &err), PS_RESOURCE_EXHAUSTED);
            psd_cut_end(l->task);
            failed++;
        } else {
            struct checkpoint *c = checkpoint_new();
            turns(l, c);
            psd_cut_end(l->task);
            struct psd_task *t = task_new(l);
            assert_ok(load_into(t, c, &err), &err);
            assert_was(in_task(t), &was);
            psd_task_free(t);
            whole += fired != 0;
        }
        assert_int_equal(psd_store_memory_bytes(&l->task->store), counted);
    }
    assert_in_range(failed, 4, 100);
    assert_in_range(whole, 2, 100);
}
