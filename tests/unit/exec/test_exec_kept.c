/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/exec: memory that outlives a run. Copies of variables that are kept for the next run, and memory of values that later
 * values get.
 */
#include "exec_test.h"

enum { LONG = 20000, LONG_BYTES = LONG * 4 };

static bool long_is_torn;

/* sum(own - 2) of a run whose copy of `own` says so: the subtraction works in place where it may. value: of all elements. */
static void run_long(struct fake_exec *f, float value, uint64_t version, bool has, bool same, float expected)
{
    static float values[LONG];
    struct psi_run_input in = {.from = PSI_RUN_FROM_VARIABLE, .type = {PS_F32, {.rank = 1, .dims = {LONG}}}, .variable = OWN};
    struct psi_run_row rows[] = {
        {.op = "sub", .name = "less", .device = "", .inputs = (const uint16_t[]){0, 1}, .input_count = 2, .output_count = 1},
        {.op = "reduce_sum", .name = "all", .device = "", .inputs = (const uint16_t[]){2}, .input_count = 1, .output_count = 1}};
    struct psi_run_input inputs[] = {in, inline_of(&TWO)};
    struct psi_run_output out = answer_of(3);
    const struct psi_run run = {
        .container = "", .inputs = inputs, .input_count = 2, .rows = rows, .row_count = 2, .outputs = &out, .output_count = 1};
    for (int i = 0; i < LONG; i++) {
        values[i] = value;
    }
    begin(f, &run);
    struct fake_move *m = &f->call.moves[0];
    assert_true(f->call.move_count == 1 && m->is_copy && m->what.bytes == LONG_BYTES);
    assert_true(has ? m->what.have_creation == 7 && m->what.have_version == version - (same ? 0 : 1)
                    : m->what.have_creation == 0);
    m->creation = 7;
    m->version = version;
    m->exact = !long_is_torn;
    m->same = same;
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, values);
    enter(f);
    assert_over(f, PS_OK, "");
    assert_true(result_of(f, 0) == expected);
}

/* The second exact copy of a value is kept; the third run has it, whatever rows did with the value; a change is copied, and one
 * that comes each time is never kept. */
TEST(test_copies_are_kept)
{
    struct fake_exec *f = fake_exec_new(0);
    run_long(f, 5, 1, false, false, 3 * LONG);
    run_long(f, 5, 1, false, false, 3 * LONG);
    assert_int_equal(f->ops->kept_bytes, LONG_BYTES);
    run_long(f, -1, 1, true, true, 3 * LONG);
    run_long(f, -1, 1, true, true, 3 * LONG);
    run_long(f, 6, 2, true, false, 4 * LONG);
    assert_int_equal(f->ops->kept_bytes, 0);
    run_long(f, 7, 3, false, false, 5 * LONG);
    run_long(f, 8, 4, false, false, 6 * LONG);
    run_long(f, 8, 4, false, false, 6 * LONG);
    run_long(f, -1, 4, true, true, 6 * LONG);
}

TEST(test_copies_that_are_torn)
{
    struct fake_exec *f = fake_exec_new(0);
    long_is_torn = true;
    for (int i = 0; i < 3; i++) {
        run_long(f, 5, 1, false, false, 3 * LONG);
    }
    assert_int_equal(f->ops->kept_bytes, 0);
    long_is_torn = false;
}

/* A value of the next run is in the memory that the value of its size had: no memory is taken from the system. */
TEST(test_values_have_spares)
{
    struct fake_exec *f = fake_exec_new(0);
    long_is_torn = true; /* no copy is kept, so the run's memory ends with it */
    run_long(f, 5, 1, false, false, 3 * LONG);
    const void *first = f->call.moves[0].what.dst;
    assert_int_equal(f->ops->spare_bytes, LONG_BYTES);
    run_long(f, 6, 1, false, false, 4 * LONG);
    assert_ptr_equal(f->call.moves[0].what.dst, first);
    assert_true(f->ops->spare_bytes == LONG_BYTES && f->ops->spare_count == 1);
    long_is_torn = false;
}

/* Spares have a number and a sum of bytes: the oldest are freed. Small values and those over the sum are no spares. */
TEST(test_spares_have_bounds)
{
    enum { PIECE = 64 << 10 };
    void *memory[PSI_EXEC_SPARES_MAX + 1];
    struct fake_exec *f = fake_exec_new(4 * PSI_EXEC_SPARES_MAX * (uint64_t)PIECE);
    for (size_t i = 0; i < PSI_EXEC_SPARES_MAX + 1; i++) {
        memory[i] = psi_exec_memory_new(f->ops, PIECE);
    }
    for (size_t i = 0; i < PSI_EXEC_SPARES_MAX + 1; i++) {
        psi_exec_memory_free(f->ops, memory[i], PIECE);
    }
    assert_true(f->ops->spare_count == PSI_EXEC_SPARES_MAX && f->ops->spares[0].memory == memory[1]);
    psi_exec_memory_free(f->ops, psi_exec_memory_new(f->ops, 3 * PIECE), 3 * PIECE);
    assert_true(f->ops->spare_count == PSI_EXEC_SPARES_MAX - 2 && f->ops->spare_bytes == PSI_EXEC_SPARES_MAX * PIECE);
    psi_exec_memory_free(f->ops, psi_exec_memory_new(f->ops, PIECE - 1), PIECE - 1);
    const size_t large = PSI_EXEC_SPARES_MAX * PIECE + 1;
    psi_exec_memory_free(f->ops, psi_exec_memory_new(f->ops, large), large);
    assert_int_equal(f->ops->spare_count, PSI_EXEC_SPARES_MAX - 2);
}

/* What is too much of the executor's memory is not kept. */
TEST(test_copies_that_are_not_kept)
{
    struct fake_exec *f = fake_exec_new(4 * LONG_BYTES - 1);
    for (int i = 0; i < 3; i++) {
        run_long(f, 5, 1, false, false, 3 * LONG);
    }
    assert_true(f->ops->kept_bytes == 0 && f->ops->kept_count == 0);
}

/* A transfer of a run that reads variable `name`, of so many bytes; its value is in memory of the run. */
static struct psi_exec_transfer *reader_of(struct fake_exec *f, const char *name, size_t bytes)
{
    struct psi_exec_run *r = test_alloc(sizeof(*r));
    struct psi_exec_transfer *t = test_alloc(sizeof(*t));
    struct psi_run_variable *v = test_alloc(sizeof(*v));
    r->ops = f->ops;
    r->slots = test_alloc(sizeof(*r->slots));
    r->values = test_alloc(sizeof(*r->values));
    *v = (struct psi_run_variable){"localhost", name, "worker", 0};
    *t = (struct psi_exec_transfer){.kind = PSI_EXEC_READ, .variable = v, .own_task = true, .run = r, .bytes = bytes};
    t->creation = 7;
    r->slots[0].memory = psi_aligned_malloc(PSI_CACHE_LINE, bytes);
    r->values[0].data = r->slots[0].memory;
    return t;
}

static bool is_kept(struct psi_exec_transfer *t)
{
    psi_exec_kept_use(t);
    const bool kept = t->kept != NULL;
    psi_exec_kept_release(t);
    psi_free(t->run->slots[0].memory);
    t->run->slots[0].memory = NULL;
    return kept;
}

/* The bound holds: who was used last stays, and who is in use. */
TEST(test_copies_that_give_way)
{
    enum { BYTES = 6 << 20 };
    static const char *const names[] = {"a", "b", "c"};
    struct fake_exec *f = fake_exec_new((uint64_t)1 << 30);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++) {
            assert_true(is_kept(reader_of(f, names[i], BYTES)) == (k == 1));
        }
    }
    assert_int_equal(f->ops->kept_bytes, 2 * BYTES);
    struct psi_exec_transfer *user[2] = {reader_of(f, "a", BYTES), reader_of(f, "b", BYTES)};
    for (int i = 0; i < 2; i++) {
        psi_exec_kept_find(user[i]);
        assert_non_null(user[i]->kept);
    }
    for (int k = 0; k < 2; k++) { /* both are in use */
        assert_false(is_kept(reader_of(f, "c", BYTES)));
    }
    psi_exec_kept_release(user[0]);
    assert_true(is_kept(reader_of(f, "c", BYTES))); /* "a" gives way */
    assert_int_equal(f->ops->kept_bytes, 2 * BYTES);
    struct psi_exec_transfer *again = reader_of(f, "a", BYTES);
    psi_exec_kept_find(again);
    assert_null(again->kept);
    user[1]->same = true;
    psi_exec_kept_use(user[1]);
    assert_true(user[1]->run->values[0].data != NULL && user[1]->run->slots[0].memory == NULL && !user[1]->run->slots[0].own);
    memset(user[1]->run->values[0].data, 1, BYTES); /* still there */
    psi_exec_kept_release(user[1]);
    psi_free(user[0]->run->slots[0].memory);
    psi_free(again->run->slots[0].memory);
    static char many[200][8];
    for (int i = 0; i < 200; i++) { /* those that are noted are bounded as well */
        (void)snprintf(many[i], sizeof(many[i]), "v%d", i);
        PSI_IGNORE(is_kept(reader_of(f, many[i], 64 << 10))); /* not the first time */
    }
    assert_true(f->ops->kept_count <= 64);
}
