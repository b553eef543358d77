/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the calling process has opened a session, or is a child made by fork(), which must not use the session. A count of
 * forks shows this without a system call. Failure mode: pthread_atfork() finds no memory: process ids are compared instead. */
#include "api.h"

#include "worker/io.h"

#include <stdatomic.h>
#include <unistd.h>

/* Number of fork() calls between the first process and this one. A session can be used only in a process with the number that it
 * was opened at. A child made by the system call without libc's fork() has the parent's number: it must not use the library. */
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
