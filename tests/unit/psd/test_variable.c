/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: definitions, containers and incarnations, handles that are never used again, references that outlive a drop,
 * initialisation and slots, staging, the promise of memory; and each of its calls without memory.
 */
#include "task_test.h"

#include "common/mem.h"
#include "psd/store/mutate.h"

static const uint64_t seed[2] = {3, 4};
enum { VALUE = 4096 }; /* of 1,000 float32, as the arena gives it */

static struct psd_definition definition(ps_dtype dtype, int64_t elements, const ps_optimizer *opt)
{
    struct psd_definition d = {.dtype = dtype, .shape = {.rank = 1, .dims = {elements}}, .optimizer = *opt};
    return d;
}

/* Found, or made with incarnation 5. */
static ps_status container(struct psd_store *s, const char *name, struct psd_container **out, struct psi_err *err)
{
    *out = psd_container_own(psd_container_find(s, name));
    ps_status st = *out != NULL ? PS_OK : psd_container_reserve(s, name, out, err);
    if (st == PS_OK && psd_container_find(s, name) == NULL) {
        psd_container_add(s, *out, 5);
    }
    return st;
}

static ps_status create(struct psd_store *s, struct psd_container *c, const char *name, const struct psd_definition *d,
                        struct psd_variable **out, struct psi_err *err)
{
    ps_status st = psd_variable_reserve(s, c, name, d, out, err);
    if (st == PS_OK) {
        psd_variable_add(s, c, *out, 1000 + s->next_handle);
    }
    return st;
}

static struct psd_variable *make(struct psd_store *s, const char *container_name, const char *name,
                                 const struct psd_definition *d)
{
    struct psd_container *c = NULL;
    struct psd_variable *v = NULL;
    struct psi_err err;
    assert_int_equal(container(s, container_name, &c, &err), PS_OK);
    assert_int_equal(create(s, c, name, d, &v, &err), PS_OK);
    psd_store_check_invariants(s);
    return v;
}

static ps_status initialise(struct psd_store *s, struct psd_variable *v, const ps_initializer *init, struct psi_err *err)
{
    struct psd_making m = {.init = *init, .seed = 9, .optimizer = v->optimizer};
    ps_status st = psd_variable_make_at_once(s, v, &m, err);
    if (st == PS_OK) {
        psd_variable_initialise(s, v, &m);
    }
    return st;
}

TEST(test_definitions)
{
    struct psi_err err;
    struct psd_definition d = definition(PS_F32, 10, ps_adam(0.1));
    assert_int_equal(psd_definition_check(&d, "v", &err), PS_OK);
    struct psd_definition bad = d;
    bad.dtype = (ps_dtype)11;
    assert_int_equal(psd_definition_check(&bad, "v", &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "'v'"));
    bad = d;
    bad.shape.rank = 9;
    assert_int_equal(psd_definition_check(&bad, "v", &err), PS_INVALID_ARGUMENT);
    bad = d;
    bad.shape.dims[0] = -1;
    assert_int_equal(psd_definition_check(&bad, "v", &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "variable 'v'"));
    bad = definition(PS_I64, 10, ps_sgd(1));
    assert_int_equal(psd_definition_check(&bad, "v", &err), PS_INVALID_ARGUMENT);
    bad = d;
    bad.optimizer.learning_rate = 0.5; /* hyperparameters do not make a conflict */
    assert_int_equal(psd_definition_compare(&d, "here", &bad, "v", &err), PS_OK);
    bad.shape = (ps_shape){.rank = 2, .dims = {5, 2}};
    assert_int_equal(psd_definition_compare(&d, "here", &bad, "v", &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "(10,)"));
    assert_non_null(strstr(err.text, "(5, 2)"));
    assert_non_null(strstr(err.text, "here"));
}

TEST(test_handles_and_incarnations)
{
    struct psd_store s;
    struct psd_definition d = definition(PS_F32, 10, ps_sgd(1));
    psd_store_init(&s, seed, 1 << 20);
    struct psd_variable *a = make(&s, "c", "a", &d);
    uint32_t handle = a->handle;
    assert_int_not_equal(handle, 0);
    assert_ptr_equal(psd_variable_by_handle(&s, handle), a);
    assert_null(psd_variable_by_handle(&s, 0));
    struct psd_container *c = psd_container_own(psd_container_find(&s, "c"));
    assert_ptr_equal(psd_variable_find(c, "a"), a);
    assert_null(psd_variable_find(NULL, "a"));
    assert_null(psd_container_find(&s, "d"));
    psd_variable_drop(&s, a);
    assert_null(psd_variable_by_handle(&s, handle));
    for (int i = 0; i < 50; i++) {
        struct psd_variable *v = make(&s, "c", "a", &d);
        assert_true(v->handle > handle); /* never used again */
        handle = v->handle;
        psd_variable_drop(&s, v);
    }
    a = make(&s, "c", "a", &d);
    struct psd_variable *other = make(&s, "other", "a", &d);
    psd_container_reset(&s, c, 77);
    assert_int_equal(c->incarnation, 77);
    assert_null(psd_variable_find(c, "a"));
    assert_ptr_equal(psd_variable_find(psd_container_find(&s, "other"), "a"), other);
    assert_int_equal(s.variable_count, 1);
    psd_store_check_invariants(&s);
    psd_store_fini(&s);
}

/* Whoever holds a reference keeps the value. */
TEST(test_references)
{
    struct psd_store s;
    struct psi_err err;
    struct psd_definition d = definition(PS_F32, 1000, ps_adagrad(1));
    psd_store_init(&s, seed, 1 << 20);
    struct psd_variable *v = make(&s, "c", "v", &d);
    assert_int_equal(initialise(&s, v, ps_ones(), &err), PS_OK);
    const struct psd_variable *held = psd_variable_ref(v);
    psd_variable_drop(&s, v);
    assert_null(psd_variable_by_creation(&s, held->creation));
    assert_true(held->gone);
    assert_null(held->container);
    assert_floats(held->value, 0, 1000, 1);
    assert_int_equal(s.promised_bytes, 2 * VALUE);
    assert_int_equal(s.arena.taken_bytes, 2 * VALUE);
    psd_store_check_invariants(&s);
    psd_variable_unref(&s, held);
    assert_int_equal(s.promised_bytes, 0);
    assert_int_equal(s.arena.taken_bytes, 0);
    psd_store_fini(&s);
}

TEST(test_initialise_and_slots)
{
    struct psd_store s;
    struct psi_err err;
    struct psd_definition d = definition(PS_F32, 1000, ps_adagrad_from(1, 0.5));
    psd_store_init(&s, seed, 1 << 20);
    struct psd_variable *v = make(&s, "c", "v", &d);
    assert_null(v->value);
    assert_int_equal(s.promised_bytes, 2 * VALUE);
    assert_int_equal(initialise(&s, v, ps_constant(2), &err), PS_OK);
    assert_true(v->initialised);
    assert_int_equal(v->version, 0);
    assert_int_equal(v->seed, 9);
    assert_floats(v->value, 0, 1000, 2);
    assert_floats(v->slots[0], 0, 1000, 0.5F);
    assert_null(v->slots[1]);
    v->version = 5;
    ((float *)v->slots[0])[3] = 99;
    void *value = v->value;
    assert_int_equal(initialise(&s, v, ps_zeros(), &err), PS_OK);
    assert_int_equal(v->version, 6);
    assert_ptr_equal(v->value, value);
    assert_floats(v->value, 0, 1000, 0);
    assert_floats(v->slots[0], 0, 1000, 0.5F);
    psd_store_check_invariants(&s);
    psd_store_fini(&s);
}

TEST(test_stage_and_swap_in)
{
    struct psd_kept *nobody = NULL;
    struct psd_store s;
    struct psi_err err;
    struct psd_definition d = definition(PS_F32, 1000, ps_sgd(1));
    psd_store_init(&s, seed, 2 * VALUE + PSD_CONTAINER_BYTES + psd_variable_record_bytes("v", 1, false));
    struct psd_variable *v = make(&s, "c", "v", &d);
    float *staged = psd_store_stage(&s, 4000);
    assert_non_null(staged);
    assert_null(psd_store_stage(&s, 1)); /* the budget is full */
    psd_store_unstage(&s, staged, 4000);
    staged = psd_store_stage(&s, 4000);
    PSI_IGNORE(filled(staged, 1000, 8)); /* its own argument */
    assert_int_equal(psd_variable_reserve_slots(&s, v, &err), PS_OK);
    psd_variable_swap_in(&s, v, staged, 4000, &nobody);
    assert_int_equal(v->version, 0);
    assert_ptr_equal(v->value, staged);
    psd_store_check_invariants(&s);
    staged = psd_store_stage(&s, 4000);
    PSI_IGNORE(filled(staged, 1000, 9)); /* likewise */
    psd_variable_swap_in(&s, v, staged, 4000, &nobody);
    assert_int_equal(v->version, 1);
    assert_floats(v->value, 0, 1000, 9);
    assert_int_equal(s.arena.taken_bytes, VALUE);
    assert_int_equal(s.promised_bytes, VALUE);
    psd_store_fini(&s);
}

TEST(test_budget_at_its_limit)
{
    for (int64_t delta = -1; delta <= 1; delta++) {
        struct psd_store s;
        struct psd_container *c = NULL;
        struct psd_variable *v = NULL;
        struct psi_err err;
        struct psd_definition d = definition(PS_F64, 1000, ps_adam(1));
        const uint64_t values = psd_definition_memory_bytes(&d), record = psd_variable_record_bytes("v", 1, false);
        assert_int_equal(values, 3 * 2 * VALUE);
        psd_store_init(&s, seed, values + record + PSD_CONTAINER_BYTES + (uint64_t)delta);
        assert_int_equal(container(&s, "c", &c, &err), PS_OK);
        ps_status st = create(&s, c, "v", &d, &v, &err);
        assert_int_equal(st, delta < 0 ? PS_RESOURCE_EXHAUSTED : PS_OK);
        if (delta < 0) {
            char want[96];
            PSI_IGNORE(snprintf(want, sizeof(want),
                                "variable 'v' needs %llu bytes; of the memory budget of %llu bytes %u are taken",
                                (unsigned long long)(values + record), (unsigned long long)s.budget_bytes,
                                (unsigned)PSD_CONTAINER_BYTES)); /* fits */
            assert_non_null(strstr(err.text, want));
            assert_non_null(strstr(err.text, "containers"));
            assert_non_null(strstr(err.text, "psd --memory_budget"));
        }
        assert_int_equal(s.promised_bytes, delta < 0 ? 0 : values);
        if (delta >= 0) { /* would fit, were the other not there */
            assert_int_equal(create(&s, c, "w", &d, &v, &err), PS_RESOURCE_EXHAUSTED);
        }
        psd_store_check_invariants(&s);
        psd_store_fini(&s);
    }
}

/* Nothing is half there afterwards, and the same call works. */
TEST(test_no_memory)
{
    struct psd_definition d = definition(PS_F32, 1000, ps_adam(1));
    for (int64_t n = 0;; n++) {
        struct psd_store s;
        struct psd_container *c = NULL;
        struct psd_variable *v = NULL;
        struct psi_err err;
        int failed = 0;
        psd_store_init(&s, seed, 1 << 20);
        psi_mem_fail_after(n);
        while (container(&s, "c", &c, &err) != PS_OK) {
            assert_int_equal(err.code, PS_RESOURCE_EXHAUSTED);
            failed++;
        }
        while (create(&s, c, "v", &d, &v, &err) != PS_OK) {
            assert_int_equal(err.code, PS_RESOURCE_EXHAUSTED);
            assert_null(psd_variable_find(c, "v"));
            assert_int_equal(s.promised_bytes, 0);
            failed++;
        }
        while (initialise(&s, v, ps_ones(), &err) != PS_OK) {
            assert_int_equal(err.code, PS_RESOURCE_EXHAUSTED);
            assert_false(v->initialised);
            psd_store_check_invariants(&s);
            failed++;
        }
        bool fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        assert_int_equal(failed, fired ? 1 : 0);
        assert_int_equal(s.promised_bytes, 3 * VALUE);
        assert_int_equal(s.arena.taken_bytes, 3 * VALUE);
        assert_floats(v->value, 0, 1000, 1);
        psd_store_check_invariants(&s);
        psd_store_fini(&s);
        if (!fired) {
            assert_true(n > 5);
            break;
        }
    }
}
