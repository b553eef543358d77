/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioned variables: a composite of variables NAME/part_0 ... that are parts of it.
 *
 * Happy path: ps_partition() and its like put a number of parts into a spec; parts_get.c gets them; an operation is one call for
 * each part, all at once; a part whose elements lie beside each other in the whole uses the caller's memory, another one a copy.
 * Failure mode: a part that fails makes a change one that may be partly applied, with the parts named.
 */
#include "monitored.h"

#include "common/mem.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- partitioners ---- */

static ps_status partition(const char *call, ps_variable_spec *spec, uint32_t kind, uint32_t parts, uint64_t bytes)
{
    struct psi_err err = {0};
    const bool known = spec != NULL && spec->struct_bytes > offsetof(ps_variable_spec, partition_layout);
    ps_status st = known ? psi_shape_check(&spec->shape, &err)
                         : psi_fail(&err, PS_INVALID_ARGUMENT, "the spec is not filled by ps_variable_spec_init()");
    if (st == PS_OK) {
        const struct psi_partitioner p = {.kind = kind, .axis = spec->partition_axis, .parts = parts, .bytes = bytes};
        st = psi_partition_count(&p, spec->dtype, &spec->shape, &spec->partitions, &err);
    }
    psi_err_prefix(st == PS_OK ? NULL : &err, "%s", call);
    return psi_api_result(&err, st);
}

ps_status ps_partition(ps_variable_spec *spec, uint32_t parts)
{
    return partition("ps_partition", spec, PSI_PARTITION_EXACT, parts, 0);
}

ps_status ps_partition_fixed_size(ps_variable_spec *spec, uint32_t parts)
{
    return partition("ps_partition_fixed_size", spec, PSI_PARTITION_FIXED, parts, 0);
}

ps_status ps_partition_axis_size(ps_variable_spec *spec, uint64_t part_bytes_max, uint32_t parts_max)
{
    return partition("ps_partition_axis_size", spec, PSI_PARTITION_AXIS_SIZE, parts_max, part_bytes_max);
}

ps_status ps_partition_min_max(ps_variable_spec *spec, uint32_t parts_max, uint64_t part_bytes_min)
{
    return partition("ps_partition_min_max", spec, PSI_PARTITION_MIN_MAX, parts_max, part_bytes_min);
}

uint32_t ps_variable_partitions(const ps_variable *v)
{
    return v != NULL && v->parts != NULL ? v->cut.count : 0;
}

ps_variable *ps_variable_partition(const ps_variable *v, uint32_t index)
{
    return index < ps_variable_partitions(v) ? v->parts[index] : NULL;
}

/* ---- operations ---- */

/* The call of one part. */
struct part_call {
    struct psi_api_call call;
    void *gathered, *scattered; /* copies of what it reads and writes; NULL: it uses the caller's memory */
    struct psi_err err;
};

static void finish_part(struct psi_api_call *call)
{
    psi_api_note_version(call->variable, &call->req);
}

/* Copy the part's elements out of the whole's memory, or into it. */
static void part_copy(const ps_variable *v, uint32_t index, const void *whole, void *part, bool out)
{
    const size_t each = ps_dtype_bytes(v->dtype);
    const ps_shape shape = psi_part_shape(&v->cut, index);
    const uint64_t elements = (uint64_t)ps_shape_elements(&shape);
    for (uint64_t at = 0; at < elements;) {
        const struct psi_part_run run = psi_part_run(&v->cut, index, at, elements - at);
        char *there = (char *)(uintptr_t)whole + run.whole * each; /* written only where the whole is the caller's to write */
        memcpy(out ? (char *)part + at * each : there, out ? there : (char *)part + at * each, run.count * each);
        at += run.count;
    }
}

/* The address of the part's elements in the whole's memory; NULL: the elements do not lie beside each other. */
static char *part_in(const ps_variable *v, uint32_t index, const void *whole)
{
    const ps_shape shape = psi_part_shape(&v->cut, index);
    const uint64_t elements = (uint64_t)ps_shape_elements(&shape);
    const struct psi_part_run run =
        elements > 0 ? psi_part_run(&v->cut, index, 0, elements) : (struct psi_part_run){.whole = 0, .count = 0};
    return run.count == elements ? (char *)(uintptr_t)whole + run.whole * ps_dtype_bytes(v->dtype) : NULL;
}

/* Make the call of part i of what is asked of the whole. */
static ps_status part_prepare(ps_variable *v, uint32_t i, const struct psi_request *req, struct part_call *c, struct psi_err *err)
{
    ps_variable *part = v->parts[i];
    c->call = (struct psi_api_call){.session = v->session, .finish = finish_part, .variable = part, .on = part, .req = *req};
    struct psi_request *own = &c->call.req;
    (void)pthread_mutex_lock(&v->session->lock);
    own->from = part->from;
    (void)pthread_mutex_unlock(&v->session->lock);
    if (req->kind == PSI_REQ_INIT) {
        return PS_OK; /* bytes says whether it is forced */
    }
    own->bytes = part->bytes;
    own->src = req->src != NULL ? part_in(v, i, req->src) : NULL;
    own->dst = req->dst != NULL ? part_in(v, i, req->dst) : NULL;
    if (req->src != NULL && own->src == NULL) {
        own->src = c->gathered = psi_aligned_malloc(64, part->bytes);
    }
    if (req->dst != NULL && own->dst == NULL) {
        own->dst = c->scattered = psi_aligned_malloc(64, part->bytes);
    }
    if ((req->src != NULL && own->src == NULL) || (req->dst != NULL && own->dst == NULL)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "part %" PRIu32 " of '%s': no memory for a copy of %" PRIu64 " bytes", i,
                        v->name, part->bytes);
    }
    if (c->gathered != NULL) {
        part_copy(v, i, req->src, c->gathered, true);
    }
    return PS_OK;
}

/* Write "0, 1 and 3": the parts whose calls have ended with this outcome. */
static void parts_text(const struct part_call *calls, uint32_t count, bool applied, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if ((calls[i].err.code == PS_OK) == applied && used + 16 < bytes) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%" PRIu32, used > 0 ? ", " : "", i);
        }
    }
}

/* The result of the whole operation, after all calls have ended: the error of the first part that has failed. */
static ps_status outcome(const ps_variable *v, const struct part_call *calls, bool changes, struct psi_err *err)
{
    char in[128], out[128];
    uint32_t failed = 0, first = v->cut.count;
    bool some = false;
    for (uint32_t i = 0; i < v->cut.count; i++) {
        const struct psi_err *e = &calls[i].err;
        some = some || e->code == PS_OK || e->applied != PS_NOTHING_APPLIED;
        failed += e->code != PS_OK;
        first = e->code != PS_OK && i < first ? i : first;
    }
    if (failed == 0) {
        return PS_OK;
    }
    *err = calls[first].err;
    psi_err_prefix(err, "part %" PRIu32 " of %" PRIu32 " of '%s'", first, v->cut.count, v->name);
    if (changes && some) {
        parts_text(calls, v->cut.count, true, in, sizeof(in));
        parts_text(calls, v->cut.count, false, out, sizeof(out));
        const size_t at = strlen(err->text);
        (void)snprintf(err->text + at, sizeof(err->text) - at, "; applied to parts %s, not or not surely to %s",
                       in[0] != '\0' ? in : "none", out);
        err->applied = PS_MAYBE_PARTLY_APPLIED;
    }
    return err->code;
}

static ps_status run_all(ps_variable *v, struct part_call *calls, struct psi_err *err)
{
    struct psi_list works;
    psi_list_init(&works);
    for (uint32_t i = 0; i < v->cut.count; i++) {
        psi_list_push_back(&works, &calls[i].call.work.link);
    }
    const ps_status st = psi_api_calls_start(v->session, &works, err);
    for (uint32_t i = 0; st == PS_OK && i < v->cut.count; i++) {
        PSI_IGNORE(psi_api_call_wait(&calls[i].call, &calls[i].err)); /* outcome() looks at the error */
    }
    return st;
}

/* After the calls of all parts: the version of the whole is the least one of a part. The parts are no snapshot of one instant. */
static void note(ps_variable *v, const struct part_call *calls, struct psi_request *req)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < v->cut.count; i++) {
        const uint64_t version = calls[i].call.req.version;
        least = version < least ? version : least;
    }
    req->version = least;
    req->exact = false;
    psi_api_note_version(v, req);
}

ps_status psi_api_parts_run(ps_variable *v, struct psi_request *req, struct psi_err *err)
{
    struct part_call *calls = psi_calloc(v->cut.count, sizeof(*calls));
    if (calls == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for the calls of its parts", v->name);
    }
    ps_status st = PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < v->cut.count; i++) {
        st = part_prepare(v, i, req, &calls[i], err);
    }
    st = st == PS_OK ? run_all(v, calls, err) : st;
    st = st == PS_OK ? outcome(v, calls, req->kind != PSI_REQ_PULL, err) : st;
    for (uint32_t i = 0; i < v->cut.count; i++) {
        if (st == PS_OK && calls[i].scattered != NULL) {
            part_copy(v, i, req->dst, calls[i].scattered, false);
        }
        psi_free(calls[i].gathered);
        psi_free(calls[i].scattered);
    }
    if (st == PS_OK) {
        note(v, calls, req);
    }
    psi_free(calls);
    return st;
}
