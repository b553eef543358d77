/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as an object, before it is opened: what it begins as, and those that never are opened: after bad options, for NULL,
 * and for when there is no memory for one. Their dummy of a parameter can be read and written.
 */
#include "api.h"

#include "common/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* value and gradient of the session's spare dummy: one element each, shared, never written by the library */
static _Alignas(PSI_PARAM_ALIGN) float spare_buffers[2][PSI_PARAM_ALIGN / sizeof(float)];

static void spare_init(ps_session *s)
{
    s->spare.session = s;
    s->spare.shape = PS_SCALAR;
    s->spare.value = (struct psk_block){.host = spare_buffers[0], .host_bytes = sizeof(spare_buffers[0]), .on_host = true};
    s->spare.grad = (struct psk_block){.host = spare_buffers[1], .host_bytes = sizeof(spare_buffers[1]), .on_host = true};
    s->spare.bytes = sizeof(float);
    psi_list_init(&s->spare.link);
    (void)snprintf(s->spare.name, sizeof(s->spare.name), "none");
}

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

void psi_api_session_init(ps_session *s)
{
    (void)pthread_once(&forks_once, count_forks);
    s->forks = atomic_load(&forks);
    s->pid = getpid();
    s->log_level = PS_LOG_INFO;
    s->operation_timeout_ms = PS_OPERATION_TIMEOUT_MS;
    s->ready_timeout_ms = PS_READY_TIMEOUT_MS;
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail with default attributes */
    (void)pthread_mutex_init(&s->log_lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    psi_list_init(&s->variables);
    psi_list_init(&s->params);
    psi_list_init(&s->queues);
    psi_list_init(&s->aside);
    psi_scopes_init(&s->scopes);
    spare_init(s);
}

/* What psi_api_broken() gives when there is no memory for a session, or no session at all; never freed. */
static ps_session no_memory, no_session;
static pthread_once_t statics_once = PTHREAD_ONCE_INIT;

static void statics_init(void)
{
    psi_api_session_init(&no_memory);
    psi_api_session_init(&no_session);
    no_memory.is_static = true;
    no_session.is_static = true;
    (void)psi_fail(&no_memory.error, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    (void)psi_fail(&no_session.error, PS_INVALID_ARGUMENT, "the session is NULL");
}

ps_session *psi_api_broken(const struct psi_err *err)
{
    ps_session *s = err == NULL ? NULL : psi_calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)pthread_once(&statics_once, statics_init);
        return err == NULL ? &no_session : &no_memory;
    }
    psi_api_session_init(s);
    if (err->code == PS_OK) {
        s->stopping = true;
    } else {
        PSI_IGNORE(psi_api_stick(s, err)); /* it is in the session now */
    }
    return s;
}
