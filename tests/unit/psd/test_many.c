/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer may send many of is found by a look-up, not by going through a list: comparisons of names are counted, and grow
 * with the number of items, not with its square.
 */
#include "save_test.h"

#include "psd/directory/saves.h"
#include "psd/directory/starts.h"
#include "psd/rpc/start.h"

enum { MANY = 2000, EACH_MOST = 8 /* comparisons of names for one item */ };

static uint64_t compared;

/* In place of libc's: all of this program's calls come here. */
int strcmp(const char *a, const char *b)
{
    compared++;
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* The same length for all, so that no list is spared the comparison. */
static const char *name_of(uint32_t i)
{
    static char name[16];
    (void)snprintf(name, sizeof(name), "c%06u", i);
    return name;
}

static void count_begins(void)
{
    compared = 0;
}

static void count_ends(void)
{
    assert_in_range(compared, 0, (uint64_t)MANY * EACH_MOST);
}

TEST(test_containers_of_a_checkpoint)
{
    struct sv *sv = sv_new();
    const struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_FileItem item = {.kind = PS_FILE_NOTE, .notes = PS_NOTE_DELETED};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saves_take_part(t->saves, &t->peers[1], &item, &err), &err);
    }
    assert_ok(psd_saves_check_parts(t, &err), &err);
    count_ends();
    psd_saves_parts_free(t->saves);
}

TEST(test_containers_that_are_barred)
{
    struct sv *sv = sv_new();
    const struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.saved = {.number = 1}};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saves_take_bar(t->saves, &item, &err), &err);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_saves_bar(t, name_of(i)), 1);
    }
    count_ends();
}

/* As many as there may be: each name that is listed or made is looked for among them. */
TEST(test_resets)
{
    struct cl *cl = cl_new();
    struct psd_task *t = cl->ps0->core;
    struct psi_err err;
    for (uint32_t i = 0; i < PSD_RESETS_MAX; i++) {
        struct psd_change c = {.kind = PSD_CHANGE_RESET, .reset = {.container = name_of(i)}};
        assert_ok(psd_change_reserve(t, &c, &err), &err);
        psd_commit(t, &c);
    }
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_reset_covers(t, &t->peers[1], name_of(i)), i < PSD_RESETS_MAX);
        assert_int_equal(psd_reset_check(t, name_of(i), &err), i < PSD_RESETS_MAX ? PS_UNAVAILABLE : PS_OK);
    }
    count_ends();
    assert_reply(fc_reset(&cl->c, 50, "more"), PS_RESOURCE_EXHAUSTED,
                 "there are 1024 resets that tasks still miss, the most that the directory keeps: start the tasks that are down");
    struct psd_change over = {.kind = PSD_CHANGE_RESET_END, .reset = {.container = name_of(0)}};
    psd_commit(t, &over);
    assert_applied(fc_reset(&cl->c, 51, "more"));
}

static void names_of_many_containers(struct psd_task *t)
{
    struct psi_err err;
    for (uint32_t i = 0; i < MANY; i++) {
        struct psd_create item = {.definition = {.dtype = PS_F32}};
        (void)snprintf(item.container, sizeof(item.container), "%s", name_of(i));
        (void)snprintf(item.name, sizeof(item.name), "v");
        assert_ok(psd_name_record(t, &item, &t->peers[1], &err), &err);
    }
}

/* A reset looks at the names of its container alone. */
TEST(test_names_of_containers_that_are_reset)
{
    struct cl *cl = cl_new();
    struct psd_task *t = cl->ps0->core;
    struct psi_err err;
    names_of_many_containers(t);
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        struct psd_change c = {.kind = PSD_CHANGE_RESET, .reset = {.container = name_of(i)}};
        assert_ok(psd_change_reserve(t, &c, &err), &err);
        psd_commit(t, &c);
        c = (struct psd_change){.kind = PSD_CHANGE_RESET_END, .reset = {.container = name_of(i)}};
        psd_commit(t, &c);
        assert_null(psd_directory_find(&t->names, name_of(i), "v"));
    }
    count_ends();
    psd_task_check_invariants(t);
}

TEST(test_bars_of_a_disk)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ok(psd_bars_note(t, &t->save->bars, name_of(i), i % 2 == 0 ? "" : "v", 0, &err), &err);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_bars_find(t, name_of(i)) != NULL, i % 2 == 0);
    }
    count_ends();
    psd_bars_check_invariants(t);
}

TEST(test_containers_of_a_start)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psd_start_list l = {.of = NULL};
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.has_start = true, .start = {.start = 7}};
        PSI_IGNORE(PSI_BYTES_SET(item.start.container, name_of(i))); /* fits */
        assert_ok(psd_starts_list_item(t, &t->peers[1], &item, &err), &err);
        assert_ok(psd_start_list_put(t, &l, name_of(i), i, &err), &err);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_start_list_find(&l, name_of(i))->start, i);
        assert_int_equal(psd_starts_living(t, name_of(i))->start, 7);
        assert_false(psd_starts_is_torn(t, name_of(i)));
    }
    count_ends();
    psd_start_list_fini(&l);
}

/* Containers of which a task places something: its names of them are forgotten. */
TEST(test_names_of_a_start)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psd_start_list l = {.of = NULL};
    struct psi_err err;
    names_of_many_containers(t);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ok(i % 2 == 0 ? psd_start_list_put(t, &l, name_of(i), 1, &err) : PS_OK, &err);
    }
    count_begins();
    psd_starts_forget_names(t, &t->peers[1], &l);
    count_ends();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_directory_find(&t->names, name_of(i), "v") != NULL, i % 2 == 1);
    }
    psd_start_list_fini(&l);
}

/* What is looked at in slices: the names that the directory knows. */
enum { ROWS = 4, NAMES = 18 };

static struct psd_task *with_names(struct sv *sv)
{
    struct psd_task *t = sv->t[0]->core;
    for (uint32_t i = 0; i < NAMES; i++) {
        assert_int_equal(fc_make(&sv->c, name_of(i), PS_F32, 1, ps_sgd(1)), PS_OK);
    }
    t->config.list_slice_rows = ROWS;
    return t;
}

/* Turns until the names are looked at: each looks at ROWS of them. `slices` have been looked at. */
static void look_on(struct sv *sv, uint32_t slices, const bool *left, const uint64_t *cursor)
{
    for (; slices <= NAMES / ROWS; slices++) {
        assert_true(*left && psd_task_has_work(sv->t[0]->core));
        assert_int_equal(*cursor, slices * ROWS);
        psd_task_work(sv->t[0]->core);
        shell_settle(sv->t[0]);
    }
    assert_false(*left);
}

/* Before a checkpoint begins: has an owner lost a name? */
TEST(test_names_before_a_checkpoint)
{
    for (int lost = 0; lost < 2; lost++) {
        struct sv *sv = sv_new();
        struct psd_task *t = with_names(sv);
        struct psd_saves *s = t->saves;
        const struct psd_name *last = psd_directory_find(&t->names, "localhost", name_of(NAMES - 1));
        if (lost == 1) {
            psd_name_unsure(last, 12345); /* another process had it */
        }
        s->names_checked = false; /* as after a list */
        s->names_cursor = 0;
        sv->t[0]->work_held = true;
        sv_ask(sv);
        look_on(sv, 2, &s->names_left, &s->names_cursor);
        assert_true(s->names_checked == (lost == 0) && (s->phase == PSD_SAVES_IDLE) == (lost == 1));
        if (lost == 1) {
            assert_reply(fc_take(&sv->c, NULL), PS_FAILED_PRECONDITION, name_of(NAMES - 1));
        } else {
            sv->t[0]->work_held = false;
            sv_run(sv);
            assert_applied(fc_take(&sv->c, NULL));
        }
    }
}

/* Before a start is decided: what has each task made? What is made meanwhile, and what rounds make, is noted at once. */
TEST(test_names_before_a_start)
{
    struct sv *sv = sv_new();
    struct psd_task *t = with_names(sv);
    struct psd_starts *s = t->starts;
    sv->t[0]->work_held = true;
    s->look = true;
    psd_task_work(t); /* an event */
    assert_int_equal(s->names_cursor, ROWS);
    assert_null(psd_starts_find_held(&s->peers[1], "other"));
    psd_starts_made(t, &t->peers[1], "other");
    psd_starts_by_rounds(t, "rounds");
    assert_non_null(psd_starts_find_held(&s->peers[1], "other"));
    assert_non_null(psd_start_list_find(&s->by_rounds, "rounds"));
    look_on(sv, 1, &s->looks_on, &s->names_cursor);
    assert_false(s->look);
    psd_starts_made(t, &t->peers[1], "later"); /* it is decided, and nothing starts: the next look finds it */
    assert_null(psd_starts_find_held(&s->peers[1], "later"));
    /* a task that lists begins it anew */
    s->look = true;
    psd_task_work(t); /* an event */
    assert_true(s->looks && s->names_cursor == ROWS);
    t->peers[1].listed = false;
    psd_task_work(t);
    assert_false(s->looks || s->looks_on);
    t->peers[1].listed = true;
    psd_task_work(t);
    assert_int_equal(s->names_cursor, ROWS);
}
