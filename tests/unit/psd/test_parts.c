/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of variables at the directory and at their owners: all that one CREATE has are made, in the order of their index, or none
 * is recorded; what a part is of comes with OPEN, is compared, and survives a restart of the directory; first values are those of
 * the whole variable.
 */
#include "cluster_test.h"

#include "psd/store/cut.h"

#include "common/rng.h"

enum { ROWS = 10, PARTS = 3 };

/* Part i of a (ROWS, 2) variable, placed at ps task i % 2. */
static ps_v1_CreateItem part_item(const char *whole, uint32_t i, uint32_t layout)
{
    const struct psi_parts cut = {.shape = {.rank = 2, .dims = {ROWS, 2}}, .axis = 0, .count = PARTS, .layout = layout};
    const ps_shape shape = psi_part_shape(&cut, i);
    char name[PS_NAME_BYTES_MAX + 1];
    ps_v1_CreateItem m;
    struct psi_err err = {0};
    assert_ok(psi_part_name(name, whole, i, &err), &err);
    fc_create_item(&m, name, PS_F32, 1, ps_sgd(1));
    m.dims_count = 2;
    m.dims[0] = shape.dims[0];
    m.dims[1] = 2;
    m.task = i % 2;
    m.has_part = true;
    m.part = (ps_v1_PartOf){.count = PARTS, .index = i, .axis = 0, .layout = layout, .rows = ROWS};
    return m;
}

/* All parts of `whole`, in order. */
static void part_items(const char *whole, uint32_t layout, ps_v1_CreateItem items[PARTS])
{
    for (uint32_t i = 0; i < PARTS; i++) {
        items[i] = part_item(whole, i, layout);
    }
}

/* Nothing of what `answers` refuse is recorded. */
static void refused(struct cl *cl, const ps_v1_CreateItem *items, uint32_t count, const char *says_it)
{
    ps_v1_CreateAnswer answers[PARTS + 1];
    assert_int_equal(fc_create_list(&cl->c, items, count, answers), PS_OK);
    for (uint32_t i = 0; i < count; i++) {
        char name[PS_NAME_BYTES_MAX + 1];
        assert_int_equal(PSI_BYTES_TEXT(items[i].name, name, sizeof(name)), PS_OK);
        assert_int_not_equal(answers[i].status, PS_OK);
        if (!says(&answers[i], says_it)) {
            fail_msg("'%s': %.*s", name, (int)answers[i].text.size, (const char *)answers[i].text.bytes);
        }
        assert_int_equal(fc_find(&cl->c, name, NULL), PS_NOT_FOUND);
    }
}

TEST(test_all_or_none)
{
    ps_v1_CreateItem items[PARTS + 1];
    ps_v1_CreateAnswer answers[PARTS + 1];
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new();
    part_items("w", PSI_LAYOUT_DIV, items);
    refused(cl, items, 1, "has 3 parts: the request has 1 from part 0 on");
    refused(cl, items, 2, "has 3 parts: the request has 2 from part 0 on");
    refused(cl, &items[1], 2, "the request has 2 from part 1 on");
    items[1] = part_item("w", 2, PSI_LAYOUT_DIV);
    refused(cl, items, 1, "the request has 1 from part 0 on");
    items[2] = part_item("w", 1, PSI_LAYOUT_DIV);
    refused(cl, items, 3, "has 3 parts: the request has"); /* not in their order */
    items[1] = part_item("w", 1, PSI_LAYOUT_DIV);
    refused(cl, items, 3, "has 3 parts: the request has"); /* part 1 twice, part 2 never */
    items[2] = part_item("w", 2, PSI_LAYOUT_DIV);
    items[1] = part_item("other", 1, PSI_LAYOUT_DIV);
    refused(cl, items, 3, "has 3 parts: the request has");
    part_items("w", PSI_LAYOUT_DIV, items);
    items[2].dtype = PS_F64;
    refused(cl, items, 3, "has 3 parts: the request has");
    part_items("w", PSI_LAYOUT_DIV, items);
    items[2].atomic = true;
    refused(cl, items, 3, "has 3 parts: the request has");
    part_items("w", PSI_LAYOUT_DIV, items);
    items[1].part.layout = PSI_LAYOUT_MOD;
    refused(cl, items, 3, "has 3 parts: the request has");
    /* a part that is refused by itself takes the others with it */
    part_items("w", PSI_LAYOUT_DIV, items);
    items[2].task = 7;
    refused(cl, items, 2, "has 3 parts");
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_true(says(&answers[0], "another part is refused: variable 'w/part_2': there is no /job:'ps'/task:7"));
    assert_int_equal(fc_find(&cl->c, "w/part_0", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_NOT_FOUND);
    /* all of them, beside another variable */
    part_items("w", PSI_LAYOUT_DIV, items);
    fc_create_item(&items[PARTS], "whole", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_create_list(&cl->c, items, PARTS + 1, answers), PS_OK);
    for (uint32_t i = 0; i <= PARTS; i++) {
        assert_int_equal(answers[i].status, PS_OK);
        assert_true(answers[i].created);
    }
    assert_int_equal(fc_open(&cl->at1, "w/part_1", &v), PS_OK);
    assert_true(v.has_part && v.part.count == PARTS && v.part.index == 1 && v.part.rows == ROWS);
    assert_int_equal(fc_open(&cl->c, "whole", &v), PS_OK);
    assert_false(v.has_part);
    /* and once more: they are there */
    assert_int_equal(fc_create_list(&cl->c, items, PARTS + 1, answers), PS_OK);
    assert_true(answers[1].status == PS_OK && !answers[1].created);
}

/* An owner refuses its part for lack of memory: the others stay, and the same CREATE finds them when there is room. */
TEST(test_an_owner_refuses)
{
    ps_v1_CreateItem items[PARTS], large;
    ps_v1_CreateAnswer answers[PARTS], a;
    struct cl *cl = cl_new();
    const uint64_t budget = cl->ps1->core->store.budget_bytes;
    fc_create_item(&large, "large", PS_F32, (budget - (1 << 20)) / sizeof(float), ps_no_optimizer());
    large.task = 1;
    assert_int_equal(fc_create(&cl->c, &large, &a), PS_OK);
    part_items("w", PSI_LAYOUT_DIV, items);
    for (uint32_t i = 0; i < PARTS; i++) {
        items[i].dims[1] = 1 << 17; /* 1.5 MiB and more */
    }
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_true(answers[0].status == PS_OK && answers[0].created && answers[2].status == PS_OK && answers[2].created);
    assert_int_equal(answers[1].status, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(fc_find(&cl->c, "w/part_0", NULL), PS_OK);
    assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_delete(&cl->c, 900, "large").status, PS_OK);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_true(answers[0].status == PS_OK && !answers[0].created && answers[1].status == PS_OK && answers[1].created);
}

TEST(test_definitions_that_cannot_be)
{
    struct cl *cl = cl_new();
    static const struct {
        ps_v1_PartOf part;
        const char *says;
    } rows[] = {
        {{.count = 3, .index = 3, .rows = 10}, "part 3 of 3"},
        {{.count = 3, .index = 0, .axis = 2, .rows = 10}, "along axis 2"},
        {{.count = 3, .index = 0, .layout = 2, .rows = 10}, "there is no layout 2"},
        {{.count = 3, .index = 0, .rows = 9}, "has 3 rows, not 4"},
        {{.count = 3, .index = 0, .rows = -1}, "(-1, 2)"},
        {{.count = 3, .index = 0, .rows = INT64_MAX}, "("},
        {{.count = 257, .index = 0, .rows = 1028}, "257 parts"},
        {{.count = 0, .index = 1, .rows = 10}, "a part of a variable that has 0 parts"},
        {{.count = 3, .index = 1, .rows = 12}, "its name ends in /part_1"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ps_v1_CreateItem m = part_item("w", 0, PSI_LAYOUT_DIV);
        ps_v1_CreateAnswer a;
        m.part = rows[i].part;
        assert_int_equal(fc_create_list(&cl->c, &m, 1, &a), PS_OK);
        assert_int_equal(a.status, PS_INVALID_ARGUMENT);
        if (!says(&a, rows[i].says)) {
            fail_msg("row %zu: %.*s", i, (int)a.text.size, (const char *)a.text.bytes);
        }
    }
    ps_v1_CreateItem strings = part_item("w", 0, PSI_LAYOUT_DIV);
    strings.dtype = PS_STRING;
    strings.has_optimizer = false;
    refused(cl, &strings, 1, "strings are in no parts");
}

TEST(test_other_layouts)
{
    ps_v1_CreateItem items[PARTS];
    ps_v1_CreateAnswer answers[PARTS], a;
    struct cl *cl = cl_new();
    part_items("w", PSI_LAYOUT_DIV, items);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_int_equal(answers[2].status, PS_OK);
    part_items("w", PSI_LAYOUT_MOD, items);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_int_equal(answers[i].reason, PS_REASON_SHAPE_MISMATCH);
        assert_true(
            says(&answers[i], "exists at /job:ps/task:0 as float32 (4, 2) as part 0 of 3 of (10, 2) along axis 0, layout div"));
        assert_true(says(&answers[i], "asked for as float32 (4, 2) as part 0 of 3 of (10, 2) along axis 0, layout mod"));
    }
    assert_int_equal(cl_create(cl, "w", "ps", 0, false, &a), PS_INVALID_ARGUMENT);
    assert_true(says(&a, "SHAPE_MISMATCH: 'w/part_0' exists as part 0 of 3"));
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    part_items("x", PSI_LAYOUT_DIV, items);
    refused(cl, items, PARTS, "SHAPE_MISMATCH: 'x' exists as a whole variable");
    /* a variable that is only called like a part is none */
    assert_int_equal(cl_create(cl, "y/part_0", "ps", 0, false, &a), PS_OK);
    assert_int_equal(cl_create(cl, "y", "ps", 0, false, &a), PS_OK);
}

/* The values of a part are the whole's at its rows, to the bit; also where they are made in slices. */
TEST(test_first_values)
{
    for (uint32_t layout = 0; layout <= PSI_LAYOUT_MOD; layout++) {
        const ps_shape whole = {.rank = 2, .dims = {ROWS, 2}};
        float want[ROWS * 2], got[ROWS * 2];
        ps_v1_CreateItem items[PARTS];
        ps_v1_CreateAnswer answers[PARTS];
        struct cl *cl = cl_new();
        psi_init_fill(ps_normal(0, 1), PS_F32, &whole, 17, "a/w", 0, ROWS * 2, want);
        part_items("a/w", layout, items);
        assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
        for (uint32_t i = 0; i < PARTS; i++) {
            const struct psi_parts cut = {.shape = whole, .axis = 0, .count = PARTS, .layout = layout};
            const ps_shape shape = psi_part_shape(&cut, i);
            struct fc *owner = i % 2 == 0 ? &cl->c : &cl->at1;
            char name[PS_NAME_BYTES_MAX + 1];
            ps_v1_OpenAnswer v;
            assert_int_equal(PSI_BYTES_TEXT(items[i].name, name, sizeof(name)), PS_OK);
            assert_int_equal(fc_open(owner, name, &v), PS_OK);
            assert_applied(fc_init_var(owner, v.handle, ps_normal(0, 1), ps_sgd(1), 17, false));
            assert_int_equal(fc_pull(owner, &v, 0, (uint32_t)ps_shape_elements(&shape), got).status, PS_OK);
            for (int64_t k = 0; k < shape.dims[0]; k++) {
                assert_memory_equal(&got[2 * k], &want[2 * psi_part_row(&cut, i, k)], 2 * sizeof(float));
            }
        }
    }
}

/* A variable in parts is deleted by its one name, with all that is left of it; a part alone stays. */
TEST(test_delete)
{
    ps_v1_CreateItem items[PARTS];
    ps_v1_CreateAnswer answers[PARTS], a;
    struct cl *cl = cl_new();
    part_items("w", PSI_LAYOUT_DIV, items);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_int_equal(cl_create(cl, "x/part_0", "ps", 0, false, &a), PS_OK); /* only called like a part */
    assert_reply(fc_delete(&cl->c, 901, "x"), PS_NOT_FOUND, "'x' in container");
    assert_reply(fc_delete(&cl->c, 902, "w/part_1"), PS_INVALID_ARGUMENT, "'w/part_1' exists as part 1 of 3 of (10, 2)");
    assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_OK);
    assert_applied(fc_delete(&cl->c, 903, "w"));
    for (uint32_t i = 0; i < PARTS; i++) {
        char name[16];
        ps_v1_OpenAnswer v;
        PSI_IGNORE(snprintf(name, sizeof(name), "w/part_%u", i));
        assert_int_equal(fc_find(&cl->c, name, NULL), PS_NOT_FOUND);
        assert_int_equal(fc_open(i % 2 == 0 ? &cl->c : &cl->at1, name, &v), PS_NOT_FOUND);
    }
    assert_applied(fc_delete(&cl->c, 904, "x/part_0"));
    assert_reply(fc_delete(&cl->c, 905, "w"), PS_NOT_FOUND, "'w' in container");
    /* parts that an owner had no memory for are not there */
    part_items("w", PSI_LAYOUT_MOD, items);
    for (uint32_t i = 0; i < PARTS; i++) {
        items[i].dims[1] = (int64_t)(cl->ps1->core->store.budget_bytes / sizeof(float) / 5);
    }
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_true(answers[0].status == PS_OK && answers[1].status == PS_OK && answers[2].status == PS_RESOURCE_EXHAUSTED);
    assert_applied(fc_delete(&cl->c, 906, "w"));
    part_items("w", PSI_LAYOUT_MOD, items);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_true(answers[2].status == PS_OK && answers[2].created);
}

/* An owner refuses to delete its part because a checkpoint holds as much memory as it may, and other parts are deleted: the
 * client is told that a part stays, and may ask once more. Where no part is deleted the answer says so. */
TEST(test_delete_where_an_owner_refuses)
{
    enum { COLUMNS = 1 << 17, ELEMENTS = 3 * COLUMNS };
    const struct psd_cut_options o = {.number = 1, .memory_bytes = 1 << 20}; /* part 1 has 1.5 MiB */
    float *gradient = test_alloc(ELEMENTS * sizeof(*gradient));
    ps_v1_CreateItem items[PARTS];
    ps_v1_CreateAnswer answers[PARTS];
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new();
    part_items("w", PSI_LAYOUT_DIV, items);
    for (uint32_t i = 0; i < PARTS; i++) {
        items[i].dims[1] = COLUMNS;
    }
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "w/part_1", &v), PS_OK);
    assert_applied(fc_init_var(&cl->at1, v.handle, ps_zeros(), ps_sgd(1), 1, false));
    assert_int_equal(psd_cut_begin(cl->ps1->core, &o, NULL), PS_OK);
    shell_run(&cl->net); /* the walk goes as far as it may */
    assert_int_equal(fc_push(&cl->at1, PS_OP_PUSH, &v, gradient, 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&cl->ps1->core->store));
    for (uint64_t id = 901; id < 903; id++) {
        const bool others = id == 901;
        const struct fc_reply r = fc_delete(&cl->c, id, "w");
        assert_reply(r, PS_UNAVAILABLE, "holds as much memory as it may");
        assert_true(r.retry_after_ms > 0);
        assert_int_equal(r.applied, others ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED);
        assert_true(others == (strstr(r.text, "other parts are deleted, and this one is not") != NULL));
        assert_int_equal(fc_find(&cl->c, "w/part_0", NULL), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl->c, "w/part_2", NULL), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_OK);
    }
    psd_cut_cancel(cl->ps1->core);
    psd_cut_end(cl->ps1->core);
    assert_applied(fc_delete(&cl->c, 903, "w"));
    assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_NOT_FOUND);
}

/* The owner of a part goes while it is asked to delete the part, and other parts are deleted: the client is told. Where it is
 * gone before, no part is deleted. When it is back the rest can be deleted. */
TEST(test_delete_where_a_task_is_gone)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    ps_v1_CreateItem items[PARTS];
    ps_v1_CreateAnswer answers[PARTS];
    ps_v1_OpenAnswer v;
    uint8_t meta[PS_META_BYTES_MAX];
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    part_items("w", PSI_LAYOUT_DIV, items);
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    end->frozen = true;
    struct wire *body = wire_new();
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w")); /* fits */
    wire_item(body, &ps_v1_NameItem_msg, &m);
    assert_int_equal(fc_call(&cl->c, PS_OP_DELETE, 0, 50, 0, meta, wait_meta(0, meta), body).status, FC_NONE);
    shell_cut(end);
    shell_run(&cl->net);
    struct fc_reply r = fc_take(&cl->c, NULL);
    assert_int_not_equal(r.status, PS_OK);
    assert_int_not_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_equal(fc_find(&cl->c, "w/part_0", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_find(&cl->c, "w/part_1", NULL), PS_OK);
    r = fc_delete(&cl->c, 901, "w");
    assert_reply(r, PS_UNAVAILABLE, "w/part_1");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    end = cl_join(cl, cl->ps1);
    assert_applied(fc_delete(&cl->c, 902, "w"));
    /* nothing of a variable is deleted where one of its owners is gone */
    assert_int_equal(fc_create_list(&cl->c, items, PARTS, answers), PS_OK);
    assert_int_equal(answers[0].status, PS_OK);
    shell_cut(end);
    r = fc_delete(&cl->c, 903, "w");
    assert_reply(r, PS_UNAVAILABLE, "w/part_1");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_equal(fc_open(&cl->c, "w/part_0", &v), PS_OK);
}
