/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a task counts what things cost besides their values: each kind is made when it fits exactly and refused when a
 * byte is missing, with nothing made; what goes is counted off; a full budget locks no operator out. What is counted is what the
 * process takes.
 */
#include "daemon.h"
#include "queue_test.h"

#include "common/mem.h"
#include "psd/store/mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANY = 100000, BYTES_MAX = 1024 };

static struct psd_store *store_of(const struct env *e)
{
    return &e->t->core->store;
}

static void variable_item(ps_v1_CreateItem *m, const char *container, const char *name)
{
    fc_create_item(m, name, PS_F32, 100, ps_adagrad(1));
    PSI_IGNORE(PSI_BYTES_SET(m->container, container)); /* fits */
}

/* It is made with what it took before, and with a byte more, and refused with a byte less. */
static void assert_exact(struct env *e, const ps_v1_CreateItem *m, const char *what)
{
    struct psd_store *s = store_of(e);
    ps_v1_CreateAnswer a;
    const uint64_t before = psd_store_taken(s);
    char name[PS_NAME_BYTES_MAX + 1];
    assert_int_equal(fc_create(&e->c, m, &a), PS_OK);
    const uint64_t needs = psd_store_taken(s) - before;
    PSI_IGNORE(PSI_BYTES_TEXT(m->name, name, sizeof(name))); /* fits */
    for (int delta = -1; delta <= 1; delta++) {
        assert_applied(fc_delete(&e->c, e->c.next_id++, name));
        const uint64_t taken = psd_store_taken(s), names = s->counted[PSD_MEMORY_NAMES];
        const uint32_t variables = s->variable_count, container_count = psi_map_count(&s->containers);
        assert_int_equal(taken, before);
        psd_store_set_budget(s, before + needs + (uint64_t)delta);
        ps_status st = fc_create(&e->c, m, &a);
        assert_int_equal(st, delta < 0 ? PS_RESOURCE_EXHAUSTED : PS_OK);
        if (delta < 0) {
            assert_non_null(memmem(a.text.bytes, a.text.size, what, strlen(what)));
            assert_non_null(memmem(a.text.bytes, a.text.size, "--memory_budget", 15));
            assert_non_null(memmem(a.text.bytes, a.text.size, "containers", 10)); /* what fills it */
            assert_int_equal(psd_store_taken(s), taken);
            assert_int_equal(s->counted[PSD_MEMORY_NAMES], names);
            assert_true(s->variable_count == variables && psi_map_count(&s->containers) == container_count);
            psd_store_set_budget(s, UINT64_MAX / 2);
            assert_int_equal(fc_create(&e->c, m, &a), PS_OK);
        }
        psd_store_set_budget(s, UINT64_MAX / 2);
        psd_task_check_invariants(e->t->core);
    }
}

TEST(test_a_variable_at_the_limit)
{
    ps_v1_CreateItem m;
    struct env *e = env_new(NULL);
    variable_item(&m, "", "first");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK); /* its container is there */
    variable_item(&m, "", "a-name-of-some-length");
    assert_exact(e, &m, "variable 'a-name-of-some-length' needs");
}

TEST(test_a_queue_at_the_limit)
{
    ps_v1_CreateItem m;
    struct env *e = env_new(NULL);
    variable_item(&m, "", "first");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    const ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, 10);
    m = queue_item("q", &q);
    assert_exact(e, &m, "queue 'q' needs");
}

/* With its container, of which nothing stays when the variable does not fit. */
TEST(test_a_container_at_the_limit)
{
    for (int delta = -1; delta <= 1; delta++) {
        ps_v1_CreateItem m;
        struct env *e = env_new(NULL);
        struct psd_store *s = store_of(e);
        variable_item(&m, "", "first");
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
        const struct psd_definition d = psd_variable_definition(psd_variable_find(psd_container_find(s, "localhost"), "first"));
        const uint64_t needs = PSD_CONTAINER_BYTES + psd_variable_record_bytes("v", 1, false) + psd_definition_memory_bytes(&d) +
                               psd_name_bytes(&e->t->core->names, "another", "v", &d);
        variable_item(&m, "another", "v");
        const uint64_t taken = psd_store_taken(s);
        psd_store_set_budget(s, taken + needs + (uint64_t)delta);
        assert_int_equal(fc_create(&e->c, &m, NULL), delta < 0 ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_int_equal(psd_container_find(s, "another") != NULL, delta >= 0);
        assert_int_equal(psd_store_taken(s), delta < 0 ? taken : taken + needs);
        psd_task_check_invariants(e->t->core);
    }
}

/* The directory's name is refused before its owner is asked. */
TEST(test_a_name_at_the_limit)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    struct psd_store *s = store_of(e);
    variable_item(&m, "", "first");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    const struct psd_definition d = psd_variable_definition(psd_variable_find(psd_container_find(s, "localhost"), "first"));
    const uint64_t needs = psd_name_bytes(&e->t->core->names, "localhost", "v", &d);
    variable_item(&m, "", "v");
    for (int delta = -1; delta <= 1; delta++) {
        psd_store_set_budget(s, psd_store_taken(s) + needs + (uint64_t)delta);
        assert_int_equal(fc_create(&e->c, &m, &a), PS_RESOURCE_EXHAUSTED);
        const char *who = delta < 0 ? "the directory's record of 'v' needs" : "variable 'v' needs";
        assert_non_null(memmem(a.text.bytes, a.text.size, who, strlen(who)));
        psd_task_check_invariants(e->t->core);
    }
}

/* The list of sessions is sorted in memory of its own. */
TEST(test_sessions_without_memory)
{
    ps_status st = FC_NONE;
    uint32_t refused = 0;
    for (int64_t n = 0; st != PS_OK && n < 100; n++) {
        struct env *e = env_new(NULL);
        psi_mem_fail_after(n);
        st = fc_list(&e->c, PS_OP_SESSIONS, NULL, NULL, wire_new()).status;
        refused += st == PS_RESOURCE_EXHAUSTED;
        psi_mem_fail_after(-1);
    }
    assert_int_equal(st, PS_OK);
    assert_true(refused > 0);
}

/* psctl looks, deletes and resets while nothing else has room, and room comes back. */
TEST(test_a_full_budget_locks_nobody_out)
{
    ps_v1_CreateItem m;
    ps_v1_InfoAnswer info;
    struct fc psctl;
    struct env *e = env_new(NULL);
    struct psd_store *s = store_of(e);
    for (char name[2] = "a"; name[0] <= 'e'; name[0]++) {
        variable_item(&m, "", name);
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    }
    psd_store_set_budget(s, psd_store_taken(s));
    variable_item(&m, "", "more");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_RESOURCE_EXHAUSTED);
    fc_init(&psctl, e->t, 99);
    assert_int_equal(fc_connect(&psctl), PS_OK);
    assert_int_equal(fc_info(&psctl, &info), PS_OK);
    assert_int_equal(info.memory_bytes, psd_store_memory_bytes(s));
    assert_int_equal(fc_list(&psctl, PS_OP_SESSIONS, NULL, NULL, wire_new()).status, PS_OK);
    assert_applied(fc_delete(&psctl, psctl.next_id++, "a"));
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    variable_item(&m, "", "another");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_RESOURCE_EXHAUSTED);
    assert_applied(fc_reset(&psctl, psctl.next_id++, "localhost"));
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
}

/* What all of them took is free again when they are gone. */
TEST(test_what_goes_is_counted_off)
{
    struct env *e = env_new(NULL);
    const struct psd_store *s = store_of(e);
    ps_v1_CreateItem m;
    variable_item(&m, "", "first");
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    uint64_t before[PSD_MEMORY_KINDS];
    memcpy(before, s->counted, sizeof(before));
    const uint64_t promised = s->promised_bytes;
    for (int round = 0; round < 3; round++) {
        struct fc other;
        fc_init(&other, e->t, 50);
        assert_int_equal(fc_connect(&other), PS_OK);
        const ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, 10);
        m = queue_item("q", &q);
        assert_int_equal(fc_create(&other, &m, NULL), PS_OK);
        variable_item(&m, "", "v");
        assert_int_equal(fc_create(&other, &m, NULL), PS_OK);
        assert_true(s->counted[PSD_MEMORY_SESSIONS] > before[PSD_MEMORY_SESSIONS]);
        assert_true(s->counted[PSD_MEMORY_CONNECTIONS] > before[PSD_MEMORY_CONNECTIONS]);
        assert_true(s->counted[PSD_MEMORY_VARIABLES] > before[PSD_MEMORY_VARIABLES]);
        for (int i = 0; i < 2; i++) {
            assert_applied(fc_delete(&e->c, e->c.next_id, i == 0 ? "q" : "v"));
            fc_ack(&e->c, e->c.next_id++);
        }
        assert_applied(fc_call(&other, PS_OP_GOODBYE, 0, 9000, 0, NULL, 0, NULL));
        shell_pass(&e->net, 100);
        for (uint32_t kind = 0; kind < PSD_MEMORY_KINDS; kind++) {
            assert_int_equal(s->counted[kind], before[kind]);
        }
        assert_int_equal(s->promised_bytes, promised);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Of many small variables with a value and their names: what is counted is what the process takes of the system, and is little.
 */
TEST(test_what_is_counted_is_what_is_taken)
{
    static const uint64_t seed[2] = {8, 9};
    struct psd_store *s = test_alloc(sizeof(*s));
    struct psd_directory *d = test_alloc(sizeof(*d));
    struct psd_container *c = NULL;
    struct psi_err err;
    const struct psd_definition def = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {16}}, .optimizer = *ps_sgd(0.1)};
    const uint64_t idle = test_resident_bytes(getpid());
    psd_store_init(s, seed, UINT64_MAX / 2);
    psd_directory_init(d, s, seed);
    assert_int_equal(psd_container_reserve(s, "localhost", &c, &err), PS_OK);
    psd_container_add(s, c, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        struct psd_variable *v = NULL;
        struct psd_name *n = NULL;
        (void)snprintf(name, sizeof(name), "layer/%u/weights", i);
        assert_int_equal(psd_variable_reserve(s, c, name, &def, &v, &err), PS_OK);
        psd_variable_add(s, c, v, 1000 + i);
        struct psd_making m = {.init = *ps_ones(), .seed = 9, .optimizer = v->optimizer};
        assert_int_equal(psd_variable_make_at_once(s, v, &m, &err), PS_OK);
        psd_variable_initialise(s, v, &m);
        assert_int_equal(psd_name_reserve(d, "localhost", name, &def, &n, &err), PS_OK);
        psd_directory_record(d, "localhost", name, &def, 0, n);
    }
    const double resident = (double)(test_resident_bytes(getpid()) - idle), counted = (double)psd_store_memory_bytes(s);
    print_message("a variable: %.0f bytes counted, %.0f taken of the system\n", counted / MANY, resident / MANY);
    assert_true(resident / MANY <= BYTES_MAX && counted / MANY <= BYTES_MAX);
    assert_true(resident <= 1.15 * counted);
    assert_int_equal(psd_store_taken(s), psd_store_memory_bytes(s)); /* nothing is promised that is not made */
    psd_store_check_invariants(s);
    psd_directory_fini(d);
    psd_store_fini(s);
}
#endif
