/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reads are worth beside assigns and pushes: of one moment where they say so, and of the moment that they say, whatever
 * other threads do with the same variable. Values of all sizes: one segment, one frame, several frames, atomic ones.
 */
#include "api_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 4, WRITERS = 4, SMALL = 1000, FRAME = 100000, LARGE = 1500000, READS = 20, VERSIONS = 1 << 16 };

/* A variable with writers, each of them a session, and readers, which share a session and the variable's object. */
struct scene {
    int64_t elements;
    ps_variable *v;      /* the readers' */
    bool pushes;         /* the writers push, else they assign */
    atomic_int reads;    /* that are yet to be made */
    atomic_int torn;     /* reads that have values of two moments, and say so */
    atomic_int exact;    /* that say that they are exact */
    atomic_int failures; /* of any kind */
    _Atomic float *of;   /* [VERSIONS] what an assign has made each version; 0: not known */
    char name[32];
    bool atomic;
};

static ps_variable *get_it(ps_session *s, const struct scene *sc)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = sc->name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(sc->elements);
    spec.optimizer = ps_sgd(1);
    spec.atomic = sc->atomic;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    return v;
}

struct writer {
    struct scene *sc;
    int number;
};

/* Assigns values of its own, all elements alike: one that is made of two assigns has two of them. */
static void *write_main(void *arg)
{
    const struct writer *w = arg;
    struct scene *sc = w->sc;
    const size_t bytes = (size_t)sc->elements * sizeof(float);
    float *values = malloc(bytes);
    ps_session *s = open_session(60000);
    ps_variable *v = get_it(s, sc);
    for (int round = 1; atomic_load(&sc->reads) > 0 && atomic_load(&sc->failures) == 0; round++) {
        const float value = sc->pushes ? 1 : (float)(round * WRITERS + w->number);
        for (int64_t i = 0; i < sc->elements; i++) {
            values[i] = value;
        }
        const ps_status st = sc->pushes ? ps_variable_push(v, values, bytes, 1) : ps_variable_assign(v, values, bytes);
        const uint64_t version = ps_variable_version(v, NULL);
        if (st != PS_OK) {
            atomic_fetch_add(&sc->failures, 1);
        } else if (!sc->pushes && version < VERSIONS) {
            atomic_store(&sc->of[version], value);
        }
    }
    free(values);
    if (ps_session_close(s) != 0) {
        atomic_fetch_add(&sc->failures, 1);
    }
    return NULL;
}

static void *read_main(void *arg)
{
    struct scene *sc = arg;
    const size_t bytes = (size_t)sc->elements * sizeof(float);
    float *values = malloc(bytes);
    while (atomic_fetch_sub(&sc->reads, 1) > 0) {
        uint64_t version = 0;
        bool exact = false;
        if (ps_variable_read_versioned(sc->v, values, bytes, &version, &exact) != PS_OK) {
            atomic_fetch_add(&sc->failures, 1);
            break;
        }
        bool whole = true;
        for (int64_t i = 1; i < sc->elements; i++) {
            whole = whole && values[i] == values[0];
        }
        const float of = version < VERSIONS ? atomic_load(&sc->of[version]) : 0; /* 0: its writer has not said it yet */
        if (exact && (!whole || (of != 0 && of != values[0]))) {
            print_error("version %llu is %g, and read as %g%s\n", (unsigned long long)version, (double)of, (double)values[0],
                        whole ? "" : " and others");
            atomic_fetch_add(&sc->failures, 1);
        }
        atomic_fetch_add(&sc->torn, !whole && !exact);
        atomic_fetch_add(&sc->exact, exact);
    }
    free(values);
    return NULL;
}

/* always: each read is exact. */
static void play(const char *name, int64_t elements, bool atomic, bool pushes, bool always)
{
    struct scene sc = {.elements = elements, .pushes = pushes, .atomic = atomic, .reads = READS * READERS};
    struct writer writers[WRITERS];
    pthread_t writing[WRITERS], reading[READERS];
    (void)snprintf(sc.name, sizeof(sc.name), "exact/%s", name);
    sc.of = calloc(VERSIONS, sizeof(*sc.of));
    ps_session *s = open_session(60000);
    sc.v = get_it(s, &sc);
    assert_int_equal(ps_variable_init(sc.v, false), PS_OK);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.sc = &sc, .number = i};
        assert_int_equal(pthread_create(&writing[i], NULL, write_main, &writers[i]), 0);
    }
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&reading[i], NULL, read_main, &sc), 0);
    }
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(reading[i], NULL), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writing[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&sc.failures), 0);
    if (always) {
        assert_int_equal(atomic_load(&sc.exact), READS * READERS);
    }
    print_message("%s: %d reads, %d exact, %d torn that said so\n", name, READS * READERS, atomic_load(&sc.exact),
                  atomic_load(&sc.torn));
    free(sc.of);
    assert_int_equal(ps_session_close(s), 0);
}

static void beside_assigns(void **state)
{
    (void)state;
    play("small", SMALL, false, false, true);
    play("frame", FRAME, false, false, false);
    play("large", LARGE, false, false, false);
    play("atomic", FRAME, true, false, true);
}

static void beside_pushes(void **state)
{
    (void)state;
    play("pushed/small", SMALL, false, true, true);
    play("pushed/frame", FRAME, false, true, false);
    play("pushed/atomic", FRAME, true, true, true);
}

/* Alone, every kind of read is exact, of the version that it says; one that fails says nothing. */
static void alone(void **state)
{
    (void)state;
    enum { N = 100000 };
    float *values = calloc(N, sizeof(*values)), *got = calloc(N, sizeof(*got));
    uint64_t version = 99;
    bool exact = true;
    ps_session *s = open_session(60000);
    ps_variable *v = get(s, "exact/alone", PS_F32, PS_SHAPE(N), ps_momentum(1, 0.5));
    assert_int_equal(ps_variable_read_versioned(v, got, N * sizeof(*got), &version, &exact), PS_FAILED_PRECONDITION);
    assert_true(version == 99 && exact);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    for (int i = 0; i < N; i++) {
        values[i] = 1;
    }
    for (uint64_t round = 1; round <= 3; round++) {
        version = 99, exact = false;
        assert_int_equal(
            ps_variable_push_pull_versioned(v, values, N * sizeof(*values), got, N * sizeof(*got), 1, &version, &exact), PS_OK);
        const uint64_t pushed = version;
        assert_int_equal(ps_variable_version(v, NULL), pushed);
        version = 99, exact = false;
        assert_int_equal(ps_variable_read_versioned(v, got, N * sizeof(*got), &version, &exact), PS_OK);
        assert_true(version == pushed && exact);
        version = 99, exact = false;
        assert_int_equal(ps_variable_read_slot_versioned(v, 0, got, N * sizeof(*got), &version, &exact), PS_OK);
        assert_true(version == pushed && exact);
        assert_int_equal(ps_variable_read_versioned(v, got, N * sizeof(*got), NULL, NULL), PS_OK);
    }
    ps_variable *small = get(s, "exact/small_alone", PS_F32, PS_SHAPE(3), ps_sgd(1));
    assert_int_equal(ps_variable_init(small, false), PS_OK);
    assert_int_equal(
        ps_variable_push_pull_versioned(small, values, 3 * sizeof(*values), got, 3 * sizeof(*got), 1, &version, &exact), PS_OK);
    assert_true(exact && version == ps_variable_version(small, NULL));
    assert_true(got[0] == -1);
    free(values);
    free(got);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(beside_assigns),
        cmocka_unit_test(beside_pushes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
