/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer may send many of is found by a look-up, not by going through a list: comparisons of names are counted, and grow
 * with the number of items, not with its square.
 */
#include "save_test.h"

#include "psd/directory/directory.h"
#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/checkpoint/beside.h"

#include <malloc.h>

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

static void end_net(void *arg)
{
    shell_net_fini(arg);
}

TEST(test_containers_of_a_checkpoint)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_FileItem item = {.kind = PS_FILE_NOTE, .notes = PS_NOTE_DELETED};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saver_take_part(t, &t->peers[1], &item, &err), &err);
    }
    assert_ok(psd_saver_check_parts(t, &err), &err);
    count_ends();
    psd_saver_parts_free(t);
}

TEST(test_containers_that_are_barred)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.saved = {.number = 1}};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saver_take_bar(t, &item, &err), &err);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_saver_bar(t, name_of(i)), 1);
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
        assert_ok(psd_bars_note(t, &t->shards->bars, name_of(i), i % 2 == 0 ? "" : "v", 0, &err), &err);
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
    struct psd_containers l = {.of = NULL};
    struct psi_err err;
    count_begins();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.has_start = true, .start = {.start = 7}};
        PSI_IGNORE(PSI_BYTES_SET(item.start.container, name_of(i))); /* fits */
        assert_ok(psd_loader_list_item(t, &t->peers[1], &item, &err), &err);
        assert_ok(psd_containers_put(t, &l, name_of(i), i, &err), &err);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_containers_find(&l, name_of(i))->start, i);
        assert_int_equal(psd_loader_living(t, name_of(i))->start, 7);
        assert_false(psd_loader_is_torn(t, name_of(i)));
    }
    count_ends();
    psd_containers_fini(&l);
}

/* Containers of which a task places something: its names of them are forgotten. */
TEST(test_names_of_a_start)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psd_containers l = {.of = NULL};
    struct psi_err err;
    names_of_many_containers(t);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ok(i % 2 == 0 ? psd_containers_put(t, &l, name_of(i), 1, &err) : PS_OK, &err);
    }
    count_begins();
    psd_loader_forget_names(t, &t->peers[1], &l);
    count_ends();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(psd_directory_find(&t->names, name_of(i), "v") != NULL, i % 2 == 1);
    }
    psd_containers_fini(&l);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static uint64_t heap_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* What MANY of them take of the memory is counted, and what goes is counted off. */
static void assert_counted(const char *what, uint64_t counted, uint64_t taken)
{
    print_message("%s: %llu bytes counted, %llu taken\n", what, (unsigned long long)counted / MANY,
                  (unsigned long long)taken / MANY);
    assert_in_range(taken, counted * 3 / 4, counted * 23 / 20);
}

/* What a directory keeps of what others have: parts of a checkpoint, bars, containers that a task holds, and resets. */
TEST(test_what_a_directory_keeps_is_counted)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    const uint64_t *counted = &t->store.counted[PSD_MEMORY_CONTAINERS];
    struct psi_err err;
    uint64_t before = *counted, heap = heap_bytes();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_FileItem item = {.kind = PS_FILE_NOTE, .notes = PS_NOTE_TRAINED};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saver_take_part(t, &t->peers[1], &item, &err), &err);
    }
    assert_counted("a part of a checkpoint", *counted - before, heap_bytes() - heap);
    psd_task_check_invariants(t);
    psd_saver_parts_free(t);
    assert_int_equal(*counted, before);
    heap = heap_bytes();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.saved = {.number = 1}};
        PSI_IGNORE(PSI_BYTES_SET(item.container, name_of(i))); /* fits */
        assert_ok(psd_saver_take_bar(t, &item, &err), &err);
    }
    assert_counted("a bar", *counted - before, heap_bytes() - heap);
    before = *counted;
    heap = heap_bytes();
    for (uint32_t i = 0; i < MANY; i++) {
        ps_v1_ListItem item = {.has_start = true, .start = {.start = 7}};
        PSI_IGNORE(PSI_BYTES_SET(item.start.container, name_of(i))); /* fits */
        assert_ok(psd_loader_list_item(t, &t->peers[1], &item, &err), &err);
    }
    assert_counted("a container that a task holds", *counted - before, heap_bytes() - heap);
    psd_task_check_invariants(t);
    psd_loader_list_begin(t, &t->peers[1]);
    assert_in_range(*counted, before - (uint64_t)MANY, before); /* the containers from before this list went as well */
    before = *counted;
    heap = heap_bytes();
    for (uint32_t i = 0; i < PSD_RESETS_MAX; i++) {
        struct psd_change c = {.kind = PSD_CHANGE_RESET, .reset = {.container = name_of(i)}};
        assert_ok(psd_change_reserve(t, &c, &err), &err);
        psd_commit(t, &c);
    }
    assert_in_range(heap_bytes() - heap, (*counted - before) * 3 / 4, (*counted - before) * 23 / 20);
    psd_task_check_invariants(t);
    for (uint32_t i = 0; i < PSD_RESETS_MAX; i++) {
        struct psd_change c = {.kind = PSD_CHANGE_RESET_END, .reset = {.container = name_of(i)}};
        psd_commit(t, &c);
    }
    assert_int_equal(*counted, before);
}
#endif

/* In place of libc's: a look-up that finds its key compares it once. Each map of the program calls this one. */
int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    compared++;
    for (size_t i = 0; i < n; i++) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

/* A start of many tasks that hold the same containers: what it compares grows with tasks times containers. Each task has loaded
 * for a start before, which was given up, and this one sets in order what strays. */
TEST(test_containers_of_a_start_of_many_tasks)
{
    enum { TASKS = 64, CONTAINERS = 40, LOOKS_MOST = 12 /* for one container of one task */ };
    char *spec = test_alloc(TASKS * 32);
    struct shell_net *net = test_alloc(sizeof(*net));
    struct psi_err err;
    ps_status made = PS_OK;
    size_t used = 0;
    for (int i = 0; i < TASKS; i++) {
        used += (size_t)snprintf(spec + used, 32, "%s10.0.0.%d:1", i == 0 ? "ps=" : ",", i + 1);
    }
    shell_net_init(net);
    test_later(end_net, net);
    struct psd_task *t = shell_task_new(net, spec, "ps", 0, 7, START_MS, sv_with_disk, &made)->core;
    struct psd_loader *s = t->loader;
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct psd_peer *p = &t->peers[i];
        for (uint32_t k = 0; k < CONTAINERS; k++) {
            ps_v1_ListItem item = {.has_start = true, .start = {.start = 5, .next = 6, .moved = 1}};
            PSI_IGNORE(PSI_BYTES_SET(item.start.container, name_of(k))); /* fits */
            assert_ok(p->self ? PS_OK : psd_loader_list_item(t, p, &item, &err), &err);
            assert_ok(psd_containers_put(t, &s->peers[i].loaded, name_of(k), 0, &err), &err);
        }
    }
    compared = 0;
    assert_false(psd_loader_any_torn(t));
    assert_in_range(compared, CONTAINERS, TASKS * CONTAINERS * LOOKS_MOST);
    s->phase = PSD_LOADER_LOADING;
    t->loading = true;
    s->reason = PSD_LOAD_MENDS;
    s->number = s->moved = 7;
    s->start = 8;
    for (uint32_t i = 0; i < TASKS; i++) {
        s->peers[i].duty = i < TASKS - 1 ? PSD_DUTY_DONE : PSD_DUTY_OPEN;
    }
    compared = 0;
    struct psd_ask ask = {.op = PS_OP_TASK_LOAD, .number = 8};
    psd_loader_answered(t, &t->peers[TASKS - 1], &ask, &(const struct psd_request){.body_bytes = 0}, NULL);
    assert_in_range(compared, TASKS * CONTAINERS, TASKS * CONTAINERS * LOOKS_MOST);
    assert_int_equal(s->phase, PSD_LOADER_DUE); /* the directory does not know that checkpoint any more */
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
static void look_on(struct sv *sv, uint32_t slices, bool (*is_left)(const struct psd_task *t), const uint64_t *cursor)
{
    for (; slices <= NAMES / ROWS; slices++) {
        assert_true(is_left(sv->t[0]->core) && psd_task_has_work(sv->t[0]->core));
        assert_int_equal(*cursor, slices * ROWS);
        psd_task_work(sv->t[0]->core);
        shell_settle(sv->t[0]);
    }
    assert_false(is_left(sv->t[0]->core));
}

/* Before a checkpoint begins: has an owner lost a name? */
TEST(test_names_before_a_checkpoint)
{
    for (int lost = 0; lost < 2; lost++) {
        struct sv *sv = sv_new();
        struct psd_task *t = with_names(sv);
        struct psd_saver *s = t->saver;
        const struct psd_name *last = psd_directory_find(&t->names, "localhost", name_of(NAMES - 1));
        if (lost == 1) {
            psd_name_unsure(last, 12345); /* another process had it */
        }
        s->names = PSD_SAVER_NAMES_OPEN; /* as after a list */
        s->names_cursor = 0;
        sv->t[0]->work_held = true;
        sv_ask(sv);
        look_on(sv, 2, psd_saver_have_work, &s->names_cursor);
        assert_true((s->names == PSD_SAVER_NAMES_CHECKED) == (lost == 0) && (s->phase == PSD_SAVER_IDLE) == (lost == 1));
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
    struct psd_loader *s = t->loader;
    sv->t[0]->work_held = true;
    psd_loader_look(t);
    psd_task_work(t); /* an event */
    assert_int_equal(s->names_cursor, ROWS);
    assert_null(psd_containers_find(&s->peers[1].held, "other"));
    psd_loader_made(t, &t->peers[1], "other");
    psd_loader_by_rounds(t, "rounds");
    assert_non_null(psd_containers_find(&s->peers[1].held, "other"));
    assert_non_null(psd_containers_find(&s->by_rounds, "rounds"));
    look_on(sv, 1, psd_loader_has_work, &s->names_cursor);
    assert_int_equal(s->phase, PSD_LOADER_IDLE);
    psd_loader_made(t, &t->peers[1], "later"); /* it is decided, and nothing starts: the next look finds it */
    assert_null(psd_containers_find(&s->peers[1].held, "later"));
    /* a task that lists begins it anew */
    psd_loader_look(t);
    psd_task_work(t); /* an event */
    assert_true(s->phase == PSD_LOADER_CHOOSING && s->names_cursor == ROWS);
    t->peers[1].listed = false;
    psd_task_work(t);
    assert_int_equal(s->phase, PSD_LOADER_DUE);
    t->peers[1].listed = true;
    psd_task_work(t);
    assert_int_equal(s->names_cursor, ROWS);
}
