/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_export(): live values into one safetensors file.
 *
 * Happy path: the file's directory takes a new file -> list of the variables -> records -> header -> the values in pieces of
 * 256 KiB, up to 32 on their way while the oldest is written, so that network and disk work at the same time -> commit
 * (file_target.c). The header has the variables in the order of creation: the first of each task, then the second of each, which
 * is the order of a program that was placed round robin; their values lie in the file by element size. Failure modes: whatever
 * fails ends it, and nothing is left of the file.
 */
#include "api_files.h"

#include "../common/mem.h"
#include "../common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, PROGRESS_BYTES = 1 << 20 };

struct slot {
    struct psi_api_call call;
    const struct psi_file_var *var;
    uint64_t first, elements; /* of var */
    uint64_t offset;          /* in the file */
    size_t bytes;
    uint8_t *memory; /* [PSI_FILES_PIECE_BYTES] */
    bool last;       /* of its variable */
};

struct export
{
    ps_session *session;
    const char *container;
    const ps_file_options *options; /* may be NULL */
    struct psi_file_target target;
    struct psi_file_var *vars; /* in the order of the header */
    size_t count;
    struct psi_tensor *tensors; /* [count] */
    size_t *order;              /* [count]: as the values lie in the file */
    struct psi_buf header;
    uint64_t total_bytes; /* of values */
    /* the pump */
    struct slot *slots;
    size_t next;         /* entry of order that is asked for next */
    uint64_t next_first; /* element of it */
    size_t head, flying; /* slots in use: head and those behind it, round */
    uint64_t done_bytes, said_bytes;
};

/* ---- what goes into it ---- */

static int by_task_and_handle(const void *a, const void *b)
{
    const struct psi_file_var *x = a;
    const struct psi_file_var *y = b;
    int order = (x->task > y->task) - (x->task < y->task);
    return order != 0 ? order : (x->handle > y->handle) - (x->handle < y->handle);
}

/* handle is the rank at its task here */
static int by_rank_and_task(const void *a, const void *b)
{
    const struct psi_file_var *x = a;
    const struct psi_file_var *y = b;
    int order = (x->handle > y->handle) - (x->handle < y->handle);
    return order != 0 ? order : (x->task > y->task) - (x->task < y->task);
}

static void order_by_creation(struct psi_file_var *vars, size_t count)
{
    uint32_t rank = 0;
    qsort(vars, count, sizeof(*vars), by_task_and_handle);
    for (size_t i = 0; i < count; i++) {
        rank = i > 0 && vars[i].task == vars[i - 1].task ? rank + 1 : 1;
        vars[i].handle = rank;
    }
    qsort(vars, count, sizeof(*vars), by_rank_and_task);
}

/* Variables without a value are left out. */
static ps_status choose(struct export *e, struct psi_err *err)
{
    size_t kept = 0;
    ps_status st = psi_files_list(e->session, e->container, &e->vars, &e->count, err);
    for (size_t i = 0; st == PS_OK && i < e->count; i++) {
        if (e->vars[i].info.initialised) {
            e->vars[kept++] = e->vars[i];
        }
    }
    if (st == PS_OK && kept == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "container '%s' has no variable with a value: there is nothing to export",
                        e->container);
    }
    if (st != PS_OK) {
        return st;
    }
    e->count = kept;
    st = psi_files_open(e->session, e->vars, e->count, err);
    if (st == PS_OK) {
        order_by_creation(e->vars, e->count);
    }
    return st;
}

static ps_status make_tensors(struct export *e, struct psi_err *err)
{
    e->tensors = psi_calloc(e->count, sizeof(*e->tensors));
    e->order = psi_calloc(e->count, sizeof(*e->order));
    if (e->tensors == NULL || e->order == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", e->count);
    }
    for (size_t i = 0; i < e->count; i++) {
        struct psi_tensor *t = &e->tensors[i];
        t->name = e->vars[i].info.name;
        t->type = psi_tensor_type_of(e->vars[i].info.dtype);
        t->shape = e->vars[i].info.shape;
        if (t->type == NULL) {
            return psi_fail(err, PS_UNIMPLEMENTED, "variable '%s': safetensors has no %s", t->name,
                            ps_dtype_name(e->vars[i].info.dtype));
        }
    }
    return PS_OK;
}

static ps_status make_header(struct export *e, struct psi_err *err)
{
    char cluster[PS_JOB_BYTES_MAX + 1];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char format[] = PSI_FILES_FORMAT;
    char version[] = PSI_API_VERSION;
    char keys[][sizeof(PSI_FILES_KEY_CONTAINER)] = {PSI_FILES_KEY_FORMAT, PSI_FILES_KEY_VERSION, PSI_FILES_KEY_CLUSTER,
                                                    PSI_FILES_KEY_CONTAINER, PSI_FILES_KEY_VARIABLES};
    (void)snprintf(container, sizeof(container), "%s", e->container);
    ps_status st = psi_files_cluster_name(e->session, cluster, sizeof(cluster), err);
    if (st != PS_OK) {
        return st;
    }
    char *variables = psi_files_describe(e->vars, e->count);
    if (variables == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    const struct psi_tensor_metadata metadata[] = {
        {keys[0], format}, {keys[1], version}, {keys[2], cluster}, {keys[3], container}, {keys[4], variables}};
    st = psi_safetensors_encode(e->tensors, e->count, metadata, sizeof(metadata) / sizeof(metadata[0]), &e->header, err);
    free(variables);
    return st;
}

struct by_begin {
    uint64_t begin;
    size_t tensor;
};

static int by_begin(const void *a, const void *b)
{
    const struct by_begin *x = a;
    const struct by_begin *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* As the values lie in the file; names and tensors are in the order of the header. */
static ps_status make_order(struct export *e, struct psi_err *err)
{
    struct by_begin *all = psi_calloc(e->count, sizeof(*all));
    if (all == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", e->count);
    }
    for (size_t i = 0; i < e->count; i++) {
        all[i] = (struct by_begin){.begin = e->tensors[i].begin, .tensor = i};
        e->total_bytes += e->tensors[i].end - e->tensors[i].begin;
    }
    qsort(all, e->count, sizeof(*all), by_begin);
    for (size_t i = 0; i < e->count; i++) {
        e->order[i] = all[i].tensor;
    }
    psi_free(all);
    return PS_OK;
}

/* ---- the values ---- */

static ps_status prepare_pull(struct psi_api_call *call, struct psi_err *err)
{
    const struct slot *slot = call->arg;
    (void)err;
    call->req.kind = PSI_REQ_PULL;
    call->req.var = slot->var->var;
    call->req.dst = slot->memory;
    call->req.bytes = slot->bytes;
    call->req.part_first = slot->first;
    call->req.part_elements = slot->elements;
    call->req.scale = 1;
    return PS_OK;
}

static ps_status ask(struct export *e, struct psi_err *err)
{
    struct slot *slot = &e->slots[(e->head + e->flying) % SLOTS];
    size_t tensor = e->order[e->next];
    const struct psi_tensor *t = &e->tensors[tensor];
    uint64_t elements = (t->end - t->begin) / t->type->bytes;
    uint64_t most = PSI_FILES_PIECE_BYTES / t->type->bytes;
    uint64_t left = elements - e->next_first;
    slot->var = &e->vars[tensor];
    slot->first = e->next_first;
    slot->elements = left < most ? left : most;
    slot->bytes = (size_t)slot->elements * t->type->bytes;
    slot->offset = e->header.len + t->begin + slot->first * t->type->bytes;
    slot->last = slot->elements == left;
    slot->call = (struct psi_api_call){
        .session = e->session, .prepare = prepare_pull, .arg = slot, .timeout_ms = psi_files_timeout_ms(e->session, slot->bytes)};
    ps_status st = psi_api_call_start(&slot->call, err);
    if (st == PS_OK) {
        e->flying++;
        e->next_first = slot->last ? 0 : e->next_first + slot->elements;
        e->next += slot->last ? 1 : 0;
    }
    return st;
}

static void say(struct export *e, const char *name)
{
    bool end = e->done_bytes == e->total_bytes;
    if (e->options != NULL && e->options->copied != NULL && (end || e->done_bytes - e->said_bytes >= PROGRESS_BYTES)) {
        e->said_bytes = e->done_bytes;
        e->options->copied(e->options->ctx, name, e->done_bytes, e->total_bytes);
    }
}

/* The oldest piece: wait for it, write it. */
static ps_status take(struct export *e, struct psi_err *err)
{
    struct slot *slot = &e->slots[e->head];
    ps_status st = psi_api_call_wait(&slot->call, err);
    e->head = (e->head + 1) % SLOTS;
    e->flying--;
    if (st == PS_OK) {
        st = psi_file_target_write(&e->target, slot->memory, slot->bytes, slot->offset, err);
    }
    if (st == PS_OK) {
        e->done_bytes += slot->bytes;
        say(e, slot->var->info.name);
    }
    return st;
}

static ps_status pump(struct export *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    while (st == PS_OK && (e->next < e->count || e->flying > 0)) {
        st = e->next < e->count && e->flying < SLOTS ? ask(e, err) : take(e, err);
    }
    while (e->flying > 0) { /* their memory must not go before they have ended */
        struct slot *slot = &e->slots[e->head];
        PSI_IGNORE(psi_api_call_wait(&slot->call, NULL)); /* the first error counts */
        e->head = (e->head + 1) % SLOTS;
        e->flying--;
    }
    return st;
}

static ps_status copy_values(struct export *e, struct psi_err *err)
{
    size_t piece = e->total_bytes < PSI_FILES_PIECE_BYTES ? (size_t)e->total_bytes : PSI_FILES_PIECE_BYTES;
    piece = (piece + PSI_PARAM_ALIGN) / PSI_PARAM_ALIGN * PSI_PARAM_ALIGN;
    e->slots = psi_calloc(SLOTS, sizeof(*e->slots));
    uint8_t *memory = psi_aligned_malloc(PSI_PARAM_ALIGN, piece * SLOTS);
    ps_status st = PS_OK;
    if (e->slots == NULL || memory == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %d pieces of %zu bytes", SLOTS, piece);
    }
    for (size_t i = 0; st == PS_OK && i < SLOTS; i++) {
        e->slots[i].memory = memory + i * piece;
    }
    st = st == PS_OK ? pump(e, err) : st;
    psi_free(memory);
    return st;
}

/* ---- all of it ---- */

static ps_status run(struct export *e, const char *path, struct psi_err *err)
{
    ps_status st = psi_file_target_open(&e->target, path, err);
    st = st == PS_OK ? choose(e, err) : st;
    st = st == PS_OK ? make_tensors(e, err) : st;
    st = st == PS_OK ? make_header(e, err) : st;
    st = st == PS_OK ? make_order(e, err) : st;
    st = st == PS_OK ? psi_file_target_write(&e->target, e->header.data, e->header.len, 0, err) : st;
    st = st == PS_OK ? copy_values(e, err) : st;
    return st == PS_OK ? psi_file_target_commit(&e->target, err) : st;
}

ps_status ps_export(ps_session *s, const char *path, const ps_file_options *options, int *out_variables)
{
    struct psi_err err = {0};
    struct export e = {.session = s, .options = options, .target = {.fd = -1, .directory_fd = -1}};
    ps_status st = psi_files_options(s, path, options, &e.container, &err);
    psi_buf_init(&e.header, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    st = st == PS_OK ? run(&e, path, &err) : st;
    psi_file_target_close(&e.target);
    psi_buf_fini(&e.header);
    psi_free(e.slots);
    psi_free(e.order);
    psi_free(e.tensors);
    psi_free(e.vars);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    if (out_variables != NULL) {
        *out_variables = (int)e.count;
    }
    return PS_OK;
}
