/* SPDX-License-Identifier: Apache-2.0 */
/* Helper threads, which compute parts of the work of a thread that calls psk_cpu_split().
 *
 * Happy path: the caller publishes its work, wakes helpers that sleep, and does part 0. Helpers take parts. The caller then does
 * parts that nobody has taken, and waits for the others. Helpers check for new work for SPIN_NS and then sleep. What a part is
 * depends on the number of parts alone, not on the thread that does it, so results are reproducible. Failure modes: a helper
 * cannot be made, or is late: others do the parts. A second caller at the same time does all of its own parts itself.
 *
 * Helpers are made by the first work that needs them. They are joined when a device is closed, when the number changes, before
 * fork() (a child makes its own) and at exit(), before leak checkers run. The plugin stays loaded once there are helpers, because
 * they run its code.
 *
 *   ticket   number of the work (32 bits), its number of parts (16), index of the next free part (16). A thread takes a part by a
 *            compare-and-exchange of the whole ticket, so that it never takes a part of newer work. `part` and `part_work` stay
 *            valid while a thread computes a part, because the caller waits for all parts. */
#include "cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* In ns. SPIN_NS: so long a helper checks for work, and a caller for the end of its work, before it sleeps; longer than the pause
 * between operations of a training step. ALONE_NS: from then on each check yields the CPU. PAUSES: instructions a check. */
enum { SPIN_NS = 100000, ALONE_NS = 10000, PAUSES = 8 };

static pthread_mutex_t one_caller = PTHREAD_MUTEX_INITIALIZER; /* taken before `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
static pthread_once_t looked_after = PTHREAD_ONCE_INIT;

static uint32_t wanted = 1; /* atomic: number of threads that compute, including the caller */
/* under one_caller: */
static uint32_t made_for = 1; /* value of `wanted` when the helpers were made; fewer exist if the system refused some */
static uint32_t helper_count;
static pthread_t helpers[PSK_CPU_THREADS_MAX];
static psk_cpu_part_fn part;
static const void *part_work;

static uint64_t ticket;    /* atomic */
static uint32_t done;      /* atomic: number of parts of the last work that are done */
static uint32_t sleeping;  /* atomic: number of helpers that sleep, and must be woken for work */
static bool caller_sleeps; /* atomic: the caller must be woken */
static bool ending;        /* atomic: helpers are to return */

static uint32_t ticket_parts(uint64_t t)
{
    return (uint32_t)(t >> 16) & 0xffffu;
}

static uint32_t ticket_next(uint64_t t)
{
    return (uint32_t)t & 0xffffu;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Pause between two checks for new work or the end of work. waited_ns: time of waiting so far. */
static void look_away(uint64_t waited_ns)
{
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    if (waited_ns > ALONE_NS) {
        (void)sched_yield(); /* another thread may need this CPU */
    }
}

static bool part_take(void)
{
    uint64_t t = __atomic_load_n(&ticket, __ATOMIC_ACQUIRE);
    do {
        if (ticket_next(t) >= ticket_parts(t)) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&ticket, &t, t + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    part(part_work, ticket_next(t), ticket_parts(t));
    const bool last = __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST) == ticket_parts(t);
    if (last && __atomic_load_n(&caller_sleeps, __ATOMIC_SEQ_CST)) {
        (void)pthread_mutex_lock(&lock);
        (void)pthread_cond_signal(&work_done);
        (void)pthread_mutex_unlock(&lock);
    }
    return true;
}

static bool part_waits(void)
{
    const uint64_t t = __atomic_load_n(&ticket, __ATOMIC_SEQ_CST);
    return ticket_next(t) < ticket_parts(t);
}

static bool is_ending(void)
{
    return __atomic_load_n(&ending, __ATOMIC_RELAXED);
}

static void sleep_until_work(void)
{
    (void)pthread_mutex_lock(&lock);
    (void)__atomic_add_fetch(&sleeping, 1, __ATOMIC_SEQ_CST);
    while (!part_waits() && !is_ending()) {
        (void)pthread_cond_wait(&work_came, &lock);
    }
    (void)__atomic_sub_fetch(&sleeping, 1, __ATOMIC_SEQ_CST);
    (void)pthread_mutex_unlock(&lock);
}

static void *help(void *arg)
{
    (void)arg;
    for (uint64_t since = now_ns(); !is_ending();) {
        const uint64_t waited = now_ns() - since;
        if (part_take()) {
            since = now_ns();
        } else if (waited < SPIN_NS) {
            look_away(waited);
        } else {
            sleep_until_work();
        }
    }
    return NULL;
}

/* ---- making and ending helpers; the caller holds one_caller ---- */

static void helpers_end(void)
{
    (void)pthread_mutex_lock(&lock);
    __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
    (void)pthread_cond_broadcast(&work_came);
    (void)pthread_mutex_unlock(&lock);
    for (; helper_count > 0; helper_count--) {
        (void)pthread_join(helpers[helper_count - 1], NULL);
    }
    __atomic_store_n(&ending, false, __ATOMIC_RELAXED);
    made_for = 1;
}

static void before_fork(void)
{
    (void)pthread_mutex_lock(&one_caller);
    helpers_end();
}

static void after_fork(void)
{
    (void)pthread_mutex_unlock(&one_caller);
}

/* Keep this plugin's library loaded until the process ends, since helper threads run its code. */
static bool stay(void)
{
    Dl_info mine;
    return dladdr(&wanted, &mine) != 0 && dlopen(mine.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}

static void look_after_helpers(void)
{
    if (!stay() || atexit(psk_cpu_threads_end) != 0 || pthread_atfork(before_fork, after_fork, after_fork) != 0) {
        psk_cpu_threads_set(1); /* no memory: compute without helpers */
    }
}

static void helpers_make(void)
{
    sigset_t all, before;
    (void)pthread_once(&looked_after, look_after_helpers);
    helpers_end();
    made_for = psk_cpu_threads();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* helpers take no signals; the program's threads do */
    while (helper_count + 1 < made_for && pthread_create(&helpers[helper_count], NULL, help, NULL) == 0) {
        helper_count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void psk_cpu_threads_end(void)
{
    (void)pthread_mutex_lock(&one_caller);
    helpers_end();
    (void)pthread_mutex_unlock(&one_caller);
}

void psk_cpu_threads_set(uint32_t threads)
{
    __atomic_store_n(&wanted, threads < PSK_CPU_THREADS_MAX ? threads : PSK_CPU_THREADS_MAX, __ATOMIC_RELAXED);
}

uint32_t psk_cpu_threads(void)
{
    return __atomic_load_n(&wanted, __ATOMIC_RELAXED);
}

static void wait_for_parts(uint32_t parts)
{
    const uint64_t since = now_ns();
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < parts) {
        const uint64_t waited = now_ns() - since;
        if (waited < SPIN_NS) {
            look_away(waited);
            continue;
        }
        (void)pthread_mutex_lock(&lock);
        __atomic_store_n(&caller_sleeps, true, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < parts) {
            (void)pthread_cond_wait(&work_done, &lock);
        }
        __atomic_store_n(&caller_sleeps, false, __ATOMIC_SEQ_CST);
        (void)pthread_mutex_unlock(&lock);
    }
}

void psk_cpu_split(uint32_t parts, psk_cpu_part_fn fn, const void *work)
{
    if (parts < 2 || pthread_mutex_trylock(&one_caller) != 0) {
        for (uint32_t i = 0; i < parts; i++) {
            fn(work, i, parts);
        }
        return;
    }
    if (made_for != psk_cpu_threads()) {
        helpers_make();
    }
    part = fn;
    part_work = work;
    __atomic_store_n(&done, 0, __ATOMIC_RELAXED);
    const uint64_t t = ((__atomic_load_n(&ticket, __ATOMIC_RELAXED) >> 32) + 1) << 32 | (uint64_t)parts << 16 | 1;
    __atomic_store_n(&ticket, t, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&sleeping, __ATOMIC_SEQ_CST) > 0) {
        (void)pthread_mutex_lock(&lock);
        (void)pthread_cond_broadcast(&work_came);
        (void)pthread_mutex_unlock(&lock);
    }
    fn(work, 0, parts);
    (void)__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    while (part_take()) {
    }
    wait_for_parts(parts);
    (void)pthread_mutex_unlock(&one_caller);
}
