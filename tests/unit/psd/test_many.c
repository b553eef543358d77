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
