/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/plan/cut.c: lists that show a rule each; random lists, of which all that cut.h promises is found out another way: from
 * the longest chain of rows behind each row.
 */
#include "test.h"

#include "common/mem.h"
#include "common/rng.h"
#include "worker/plan/cut.h"

enum { MOST = 64, MOST_EDGES = 6 };
#define NOWHERE PSI_CUT_NOWHERE

struct list {
    struct psi_cut_row rows[MOST];
    struct psi_cut_edge edges[MOST][MOST_EDGES];
    uint32_t count;
    uint32_t run[MOST];
    struct psi_cut_run runs[MOST];
    uint32_t run_count;
};

static uint32_t add(struct list *l, uint32_t place)
{
    l->rows[l->count] = (struct psi_cut_row){.place = place, .edges = l->edges[l->count]};
    return l->count++;
}

static void needs(struct list *l, uint32_t row, uint32_t other, bool strict)
{
    l->edges[row][l->rows[row].edge_count++] = (struct psi_cut_edge){.row = other, .strict = strict};
}

static void cut(struct list *l)
{
    struct psi_err err = {0};
    assert_ok(psi_cut(l->rows, l->count, l->run, l->runs, &l->run_count, &err), &err);
}

static void is_run(const struct list *l, uint32_t run, uint32_t level, uint32_t place, uint32_t rows)
{
    assert_true(run < l->run_count);
    assert_int_equal(l->runs[run].level, level);
    assert_int_equal(l->runs[run].place, place);
    assert_int_equal(l->runs[run].row_count, rows);
}

TEST(a_chain_on_one_task_is_one_run)
{
    struct list l = {.count = 0};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t row = add(&l, 7);
        if (i > 0) {
            needs(&l, row, row - 1, false);
        }
    }
    cut(&l);
    assert_int_equal(l.run_count, 1);
    is_run(&l, 0, 0, 7, 3);
}

TEST(two_tasks_that_need_each_other_have_four_runs)
{
    struct list l = {.count = 0};
    const uint32_t a0 = add(&l, 0), b0 = add(&l, 1), a1 = add(&l, 0), b1 = add(&l, 1);
    needs(&l, a1, a0, false);
    needs(&l, a1, b0, false);
    needs(&l, b1, b0, false);
    needs(&l, b1, a0, false);
    cut(&l);
    assert_int_equal(l.run_count, 4);
    is_run(&l, l.run[a0], 0, 0, 1);
    is_run(&l, l.run[b0], 0, 1, 1);
    is_run(&l, l.run[a1], 1, 0, 1);
    is_run(&l, l.run[b1], 1, 1, 1);
}

TEST(what_does_not_need_each_other_goes_out_together)
{
    struct list l = {.count = 0};
    const uint32_t split = add(&l, 0), first = add(&l, 1), second = add(&l, 2), total = add(&l, 0);
    needs(&l, first, split, false);
    needs(&l, second, split, false);
    needs(&l, total, first, false);
    needs(&l, total, second, false);
    cut(&l);
    assert_int_equal(l.run_count, 4);
    assert_int_equal(l.runs[l.run[first]].level, l.runs[l.run[second]].level);
    assert_int_equal(l.runs[l.run[total]].level, 2);
}

TEST(what_is_nowhere_is_in_no_run_and_holds_nothing_up)
{
    struct list l = {.count = 0};
    const uint32_t fed = add(&l, NOWHERE), row = add(&l, 3);
    needs(&l, row, fed, true);
    cut(&l);
    assert_int_equal(l.run_count, 1);
    assert_int_equal(l.run[fed], PSI_CUT_NO_RUN);
    is_run(&l, l.run[row], 0, 3, 1);
}

TEST(a_strict_edge_ends_a_run)
{
    struct list l = {.count = 0};
    const uint32_t change = add(&l, 0), reads = add(&l, 0);
    needs(&l, reads, change, true);
    cut(&l);
    assert_int_equal(l.run_count, 2);
    assert_int_equal(l.runs[l.run[reads]].level, 1);
}

TEST(an_empty_list_has_no_runs)
{
    struct list l = {.count = 0};
    cut(&l);
    assert_int_equal(l.run_count, 0);
}

TEST(no_memory)
{
    struct list l = {.count = 0};
    struct psi_err err = {0};
    PSI_IGNORE(add(&l, 0));
    for (int64_t n = 0; n < 2; n++) {
        psi_mem_fail_after(n);
        assert_fails(psi_cut(l.rows, 1, l.run, l.runs, &l.run_count, &err), PS_RESOURCE_EXHAUSTED, &err, "out of memory");
    }
    psi_mem_fail_after(-1);
}

/* ---- random lists ---- */

static void make_list(struct list *l, uint64_t *random)
{
    const uint32_t count = 1 + (uint32_t)psi_random_below(random, MOST);
    const uint32_t places = 1 + (uint32_t)psi_random_below(random, 4);
    *l = (struct list){.count = 0};
    for (uint32_t i = 0; i < count; i++) {
        PSI_IGNORE(add(l, psi_random_below(random, 6) == 0 ? NOWHERE : (uint32_t)psi_random_below(random, places)));
        for (uint64_t e = i > 0 ? psi_random_below(random, MOST_EDGES) : 0; e > 0; e--) {
            needs(l, i, (uint32_t)psi_random_below(random, i), psi_random_below(random, 8) == 0);
        }
    }
}

/* Task changes, and strict edges, on the worst way to a row: computed by relaxing all edges until nothing changes. */
static void worst_ways(const struct list *l, uint32_t *steps)
{
    memset(steps, 0, MOST * sizeof(*steps));
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < l->count; i++) {
            for (uint32_t e = 0; e < l->rows[i].edge_count; e++) {
                const struct psi_cut_edge *edge = &l->edges[i][e];
                const bool counts = l->rows[edge->row].place != NOWHERE && l->rows[i].place != NOWHERE;
                const bool moves = edge->strict || l->rows[edge->row].place != l->rows[i].place;
                if (counts && steps[i] < steps[edge->row] + moves) {
                    steps[i] = steps[edge->row] + moves;
                    changed = true;
                }
            }
        }
    }
}

static void check_list(const struct list *l)
{
    uint32_t steps[MOST], members[MOST] = {0};
    worst_ways(l, steps);
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->rows[i].place == NOWHERE) {
            assert_int_equal(l->run[i], PSI_CUT_NO_RUN);
            continue;
        }
        const struct psi_cut_run *run = &l->runs[l->run[i]];
        assert_true(l->run[i] < l->run_count && run->place == l->rows[i].place);
        assert_int_equal(run->level, steps[i]); /* the lowest that there can be */
        members[l->run[i]]++;
        for (uint32_t e = 0; e < l->rows[i].edge_count; e++) {
            const uint32_t other = l->edges[i][e].row;
            if (l->rows[other].place == NOWHERE) {
                continue;
            }
            const bool over = l->runs[l->run[other]].level < run->level;
            assert_true(over || (!l->edges[i][e].strict && l->run[other] == l->run[i])); /* it is there in time */
        }
    }
    for (uint32_t r = 0; r < l->run_count; r++) {
        assert_true(members[r] > 0 && members[r] == l->runs[r].row_count);
        if (r > 0) { /* one run a place on each level */
            const struct psi_cut_run *a = &l->runs[r - 1], *b = &l->runs[r];
            assert_true(a->level < b->level ? b->level == a->level + 1 : a->level == b->level && a->place < b->place);
        }
    }
}

TEST(random_lists_are_cut_in_the_fewest_levels)
{
    uint64_t random = 33;
    struct list *l = test_alloc(sizeof(*l));
    for (int round = 0; round < 5000; round++) {
        make_list(l, &random);
        cut(l);
        check_list(l);
    }
}
