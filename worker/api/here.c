/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that a session belongs to. Happy path: the one that opened it, told by a count of forks, which needs no system
 * call. Failure: no memory for the handler that counts: the process id is asked for.
 */
#include "api.h"

#include <stdatomic.h>
#include <unistd.h>

/* fork() so far, in this process and those that it came from: a session's process is the one where this is as at its opening. A
 * child that is made without fork() (the system call itself) has no use of the library, as it has none of libc's locks. */
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
