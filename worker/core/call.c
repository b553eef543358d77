/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CALL: have a task run a call of its program's table (docs/PROTOCOL.md, section 3).
 *
 * Happy path: name, input and the time that is left go out as one waiting request; its answer's body is the output.
 * Failure: the request keeps its number across reconnects, so that it runs at most once; a task that has lost its record of the
 * session ends it as outcome unknown. What was refused before it ran is asked again when the task says later.
 */
#include "client.h"

#include <string.h>

ps_status psi_control_call_check(const struct psi_request *req, struct psi_err *err)
{
    const struct psi_call_io *io = req->dst;
    if (io->name == NULL || (io->in == NULL && io->in_bytes > 0) || (io->out == NULL && io->out_capacity > 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call: its name or memory is not given");
    }
    if (io->name[0] == '\0' || strlen(io->name) >= sizeof(((ps_v1_Call *)0)->name.bytes) + 1) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%.80s': a name has 1 to %zu bytes", io->name,
                        sizeof(((ps_v1_Call *)0)->name.bytes));
    }
    if (io->in_bytes > PS_CALL_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s': %zu bytes go in, at most %zu", io->name, io->in_bytes,
                        PS_CALL_BYTES_MAX);
    }
    return PS_OK;
}

const char *psi_control_call_name(const struct psi_request *req)
{
    return ((const struct psi_call_io *)req->dst)->name;
}

ps_status psi_control_call_build(struct psi_ask *call, struct psi_err *err)
{
    const struct psi_call_io *io = call->req->dst;
    ps_v1_Call m = ps_v1_Call_init_zero;
    PSI_BYTES_SET(m.name, io->name);
    m.timeout_ms = psi_time_to_give(call->req->owner, call->req->deadline_ms);
    m.in_bytes = (uint32_t)io->in_bytes;
    ps_status st = psi_ask_meta(call, &ps_v1_Call_msg, &m, err);
    return st == PS_OK && io->in_bytes > 0 ? psi_buf_append(&call->body, io->in, io->in_bytes, err) : st;
}

void psi_control_call(struct psi_client *c, struct psi_ask *call, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = call->req;
    struct psi_call_io *io = req->dst;
    uint64_t bytes = 0;
    if (r->status != PS_OK) {
        psi_control_refused(call, r);
        return;
    }
    if (!psi_control_body(r, &bytes)) {
        psi_request_end(req, PS_INTERNAL, PS_MAYBE_PARTLY_APPLIED, "call '%s' at %s: its answer is not understood", io->name,
                        call->peer->name);
        return;
    }
    io->out_bytes = (size_t)bytes;
    if (bytes > io->out_capacity) {
        psi_request_end(req, PS_OUT_OF_RANGE, PS_MAYBE_PARTLY_APPLIED,
                        "call '%s' at %s: its result has %llu bytes, there is room for %zu", io->name, call->peer->name,
                        (unsigned long long)bytes, io->out_capacity);
        return;
    }
    if (bytes > 0) {
        memcpy(io->out, r->body, (size_t)bytes);
    }
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}
