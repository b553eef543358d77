/* SPDX-License-Identifier: Apache-2.0 */
/* CALL: make a task run a function of its program's call table (docs/PROTOCOL.md, section 3). Happy path: name, input and
 * remaining time go out as one waiting request; the answer's body is the output. Input and output that do not fit one frame are
 * sent in parts (parts.c). Failure: the request keeps its number across reconnects, so that the function runs at most once. If
 * the task has lost the session's record, the request ends as outcome unknown. If the task refuses the request for a while,
 * before the function runs, the request is sent again. An output that does not fit the caller's memory is lost: OUT_OF_RANGE. */
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
    if (io->in_bytes > PS_CALL_LARGE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s': %zu bytes go in, at most %zu", io->name, io->in_bytes,
                        PS_CALL_LARGE_BYTES_MAX);
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
    if (io->out_capacity > PS_CALL_BYTES_MAX) {
        m.out_bytes = (uint32_t)(io->out_capacity < PS_CALL_LARGE_BYTES_MAX ? io->out_capacity : PS_CALL_LARGE_BYTES_MAX);
    }
    ps_status st = psi_ask_meta(call, &ps_v1_Call_msg, &m, err);
    if (st == PS_OK) {
        psi_parts_begin(call);
    }
    return st;
}

void psi_control_call(struct psi_client *c, struct psi_ask *call, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = call->req;
    struct psi_call_io *io = req->dst;
    uint64_t bytes = 0;
    if (r->status != PS_OK) {
        psi_parts_refused(call, r);
        return;
    }
    if (r->result_bytes == sizeof(bytes)) {
        memcpy(&bytes, r->result, sizeof(bytes));
    }
    const uint64_t first = r->body_bytes < bytes ? r->body_bytes : bytes;
    if (r->result_bytes != sizeof(bytes) || r->more || bytes > PS_CALL_LARGE_BYTES_MAX || r->body_bytes - first >= 8) {
        psi_parts_not_understood(call, "its answer is not understood");
        return;
    }
    io->out_bytes = (size_t)bytes;
    if (bytes > io->out_capacity) {
        const char *where = call->peer->name; /* psi_ask_taken() frees the ask, not the peer */
        psi_ask_taken(call);
        psi_request_end(req, PS_OUT_OF_RANGE, PS_MAYBE_PARTLY_APPLIED,
                        "call '%s' at %s: its result has %llu bytes, there is room for %zu", io->name, where,
                        (unsigned long long)bytes, io->out_capacity);
        return;
    }
    if (first > 0) {
        memcpy(io->out, r->body, (size_t)first);
    }
    psi_parts_get(call, first);
}
