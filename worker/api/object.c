/* SPDX-License-Identifier: Apache-2.0 */
/* The initial state of a session; and the sessions that a program gets if none could be opened (bad options, no memory), or that
 * stand for NULL. Calls with such a session return its error; its dummy parameter can be read and written. */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <time.h>

/* value and gradient of ps_session.spare: one element each, shared by all sessions; the library never writes them */
static _Alignas(PSI_PARAM_ALIGN) float spare_buffers[2][PSI_PARAM_ALIGN / sizeof(float)];

static void spare_init(ps_session *s)
{
    s->spare.session = s;
    s->spare.shape = PS_SCALAR;
    s->spare.value = (struct psk_block){.host = spare_buffers[0], .host_bytes = sizeof(spare_buffers[0]), .on_host = true};
    s->spare.grad = (struct psk_block){.host = spare_buffers[1], .host_bytes = sizeof(spare_buffers[1]), .on_host = true};
    s->spare.bytes = sizeof(float);
    psi_list_init(&s->spare.train.link);
    (void)snprintf(s->spare.name, sizeof(s->spare.name), "none");
}

void psi_api_session_init(ps_session *s)
{
    psi_api_be_here(s);
    s->log_level = PS_LOG_INFO;
    s->operation_timeout_ms = PS_OPERATION_TIMEOUT_MS;
    s->ready_timeout_ms = PS_READY_TIMEOUT_MS;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->log_lock, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    psi_list_init(&s->variables);
    psi_list_init(&s->wholes);
    psi_training_init(&s->train);
    psi_session_init(&s->machine, &s->sync);
    psi_list_init(&s->queues);
    psi_list_init(&s->plans);
    psi_list_init(&s->plan_runs);
    psi_gets_init(&s->gets);
    psi_api_hooks_init(&s->hooks);
    psi_scopes_init(&s->scopes);
    (void)psi_fail(&s->traced, PS_NOT_FOUND, "no step was traced");
    spare_init(s);
}

/* What psi_api_broken() returns: no_memory if there is no memory for a session, no_session for err NULL. Never freed. */
static ps_session no_memory, no_session;
static pthread_once_t statics_once = PTHREAD_ONCE_INIT;

static void static_init(ps_session *s, ps_status st, const char *text)
{
    struct psi_err err = {0};
    psi_api_session_init(s);
    s->opened = PSI_OPENED_STATIC;
    (void)psi_fail(&err, st, "%s", text);
    (void)psi_session_fails(&s->machine, &(struct psi_who){.thread = 0}, &err, true);
}

static void statics_init(void)
{
    static_init(&no_memory, PS_RESOURCE_EXHAUSTED, "out of memory for a session");
    static_init(&no_session, PS_INVALID_ARGUMENT, "the session is NULL");
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
        s->opened = PSI_OPENED_HELP;
        s->machine.stop = PSI_STOP_ASKED;
    } else {
        PSI_IGNORE(psi_api_stick(s, err)); /* the error is in the session now */
    }
    return s;
}
