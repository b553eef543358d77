/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of a trace. Happy path: psi_trace_begin() gives the session the trace, in which the core then records exchanges
 * (requests and answers). Threads add spans (span.c). psi_trace_end() stops the recording, and calls over(), which writes the
 * trace. Failure modes: in a recovery the exchanges of the old core stay, and the new core adds to them; a closed session ends
 * its trace. */
#include "api.h"

#include "common/mem.h"

#include <unistd.h>

void psi_trace_init(struct psi_trace *t, ps_session *s, const char *root)
{
    *t = (struct psi_trace){.root = root, .session = s, .thread = (uint32_t)gettid(), .begun_ns = psi_io_now_ns()};
}

void psi_trace_fini(struct psi_trace *t)
{
    psi_free(t->exchanges.at);
    psi_free(t->spans);
}

/* Loop thread: make the core record its exchanges in call->arg, a struct psi_exchanges; arg NULL: make it stop. */
static ps_status attach(struct psi_api_call *call, struct psi_err *err)
{
    (void)err; /* attaching cannot fail */
    psi_io_stamp(call->session->io, call->arg != NULL);
    psi_client_time(call->client, psi_io_now_ns());
    psi_client_trace(call->client, call->arg);
    return PS_OK;
}

ps_status psi_trace_begin(ps_session *s, struct psi_trace *t, struct psi_err *err)
{
    t->session = s;
    t->thread = (uint32_t)gettid();
    psi_list_init(&t->link);
    if (!psi_trace_claim(t, s)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "the session is being traced already: one trace at a time");
    }
    struct psi_api_call call = {.session = s, .prepare = attach, .arg = &t->exchanges};
    const ps_status st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        psi_trace_leave(t, s);
        return st;
    }
    psi_trace_enter(t);
    return PS_OK;
}

static void write_and_free(struct psi_trace *t, ps_session *s)
{
    psi_trace_leave(t, s);
    t->over(t);
    psi_trace_fini(t);
    psi_free(t);
}

void psi_trace_end(ps_session *s, bool of_step)
{
    struct psi_trace *t = psi_trace_stop(s, of_step);
    if (t == NULL) {
        return;
    }
    struct psi_api_call call = {.session = s, .prepare = attach};
    if (psi_api_call_run(&call, NULL) == PS_OK) {
        write_and_free(t, s);
    }
}

void psi_trace_again(ps_session *s)
{
    struct psi_trace *t = psi_trace_running(s);
    struct psi_api_call call = {.session = s, .prepare = attach, .arg = t != NULL ? &t->exchanges : NULL};
    if (t != NULL) {
        PSI_IGNORE(psi_api_call_run(&call, NULL)); /* if it fails, the recovery fails too, and its error has the reason */
    }
}

void psi_trace_close(ps_session *s)
{
    struct psi_trace *t = s->trace;
    if (t != NULL) {
        t->ended_ns = t->ended_ns != 0 ? t->ended_ns : psi_io_now_ns();
        write_and_free(t, s);
    }
}
