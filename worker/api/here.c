/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a session belongs to. Happy path: a count of forks identifies the process without a system call. Failure
 * mode: pthread_atfork() finds no memory: psi_api_here() then compares process ids.
 */
#include "api.h"

#include "worker/io.h"

#include <stdatomic.h>
#include <unistd.h>

/* Number of fork() calls up to this process, in it and its ancestors. A session belongs to the process in which this number is
 * as at its opening. A child made by the system call itself cannot use the library, nor libc's locks. */
static atomic_uint forks;
static bool forks_counted;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void on_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void count_forks(void)
{
    forks_counted = pthread_atfork(NULL, NULL, on_fork) == 0;
}

bool psi_api_here(const ps_session *s)
{
    return forks_counted ? s->forks == atomic_load_explicit(&forks, memory_order_relaxed) : s->pid == getpid();
}

void psi_api_be_here(ps_session *s)
{
    (void)pthread_once(&forks_once, count_forks);
    s->forks = atomic_load(&forks);
    s->pid = getpid();
}

void ps_after_fork_child(void)
{
    psi_io_after_fork_child();
}
