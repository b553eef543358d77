/* SPDX-License-Identifier: Apache-2.0 */
/* test-transport: plain (OpenSSL allocates) */
/*
 * No allocation per push, pull, element of a queue or item of work: the test has its own malloc, which counts. Sanitizers have
 * theirs, so the case is skipped there.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS 0
#endif
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

static atomic_long allocations;

#if COUNTS
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? 12 /* ENOMEM */ : 0;
}
#endif

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void step(ps_session *s, ps_param *small, ps_param *large, bool overlapped)
{
    assert_int_equal(ps_pull(s), PS_OK);
    ((float *)ps_param_grad(small))[0] = 1;
    ((float *)ps_param_grad(large))[0] = 1;
    assert_int_equal(ps_push(s, small), PS_OK);
    assert_int_equal(overlapped ? ps_push_pull(s, large) : ps_push(s, large), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
}

enum overlap { NONE, PUSH_PULL, PREFETCH };

static void allocate_nothing(ps_dtype wire, ps_progress progress, enum overlap overlap)
{
    if (!COUNTS) {
        skip(); /* the sanitizer's allocator is in the way */
    }
    struct test_cluster c;
    ps_session_options o;
    ps_session *s = NULL;
    test_cluster_init(&c, 1, "");
    test_cluster_start_all(&c);
    ps_session_options_init(&o);
    o.target = c.address[0];
    o.log = no_log;
    o.wire_dtype = wire;
    o.progress = progress;
    o.prefetch = overlap == PREFETCH;
    long before_open = atomic_load(&allocations);
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    ps_param *small = ps_param_get(s, "small", PS_SHAPE(10), ps_zeros(), ps_sgd(1));
    ps_param *large = ps_param_get(s, "large", PS_SHAPE(3 << 20), ps_zeros(), ps_adagrad(0.1)); /* 12 MiB: three frames */
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_true(atomic_load(&allocations) > before_open); /* it does count */
    for (int i = 0; i < 20; i++) {
        step(s, small, large, overlap == PUSH_PULL);
    }
    long made = 1; /* the first write that is cut makes the connection's hold, also in the first window */
    for (int window = 0; window < 2 && made != 0; window++) {
        long before = atomic_load(&allocations);
        for (int i = 0; i < 50; i++) {
            step(s, small, large, overlap == PUSH_PULL);
        }
        made = atomic_load(&allocations) - before;
    }
    assert_int_equal(made, 0);
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&c);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    allocate_nothing(PS_DTYPE_NONE, PS_PROGRESS_THREAD, NONE);
}

static void narrow_steps_allocate_nothing(void **state)
{
    (void)state;
    allocate_nothing(PS_BF16, PS_PROGRESS_THREAD, NONE);
}

static void driven_steps_allocate_nothing(void **state)
{
    (void)state;
    allocate_nothing(PS_DTYPE_NONE, PS_PROGRESS_CALLER, NONE);
}

static void overlapped_steps_allocate_nothing(void **state)
{
    (void)state;
    allocate_nothing(PS_DTYPE_NONE, PS_PROGRESS_THREAD, PUSH_PULL);
    allocate_nothing(PS_DTYPE_NONE, PS_PROGRESS_THREAD, PREFETCH);
}

/* Elements of 4 KiB, and items of work. */
static void queues_allocate_nothing(void **state)
{
    (void)state;
    if (!COUNTS) {
        skip();
    }
    static float values[1024];
    static const char *const ITEMS[] = {"a", "b", "c"};
    struct test_cluster c;
    ps_session_options o;
    ps_session *s = NULL;
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_work *w = NULL;
    ps_work_item item;
    test_cluster_init(&c, 1, "");
    test_cluster_start_all(&c);
    ps_session_options_init(&o);
    o.target = c.address[0];
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    ps_queue_spec_init(&spec, "q", PS_F32, PS_SHAPE(1024));
    assert_int_equal(ps_queue_get(s, &spec, &q), PS_OK);
    assert_int_equal(ps_work_get(s, "w", ITEMS, NULL, 3, 1000, 0, &w), PS_OK);
    long before = 0;
    for (int i = 0; i < 700; i++) { /* what is said with ACK is remembered, the last 1,024 of it: three in each round */
        before = i == 600 ? atomic_load(&allocations) : before;
        assert_int_equal(ps_enqueue(q, PS_FROM({values, sizeof(values)}), 0), PS_OK);
        assert_int_equal(ps_dequeue(q, PS_INTO({values, sizeof(values)}), 0), PS_OK);
        assert_int_equal(ps_work_next(w, &item, 0), PS_OK);
        assert_int_equal(ps_work_done(w, &item), PS_OK);
    }
    assert_int_equal(atomic_load(&allocations) - before, 0);
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing),        cmocka_unit_test(narrow_steps_allocate_nothing),
        cmocka_unit_test(driven_steps_allocate_nothing), cmocka_unit_test(overlapped_steps_allocate_nothing),
        cmocka_unit_test(queues_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
