/* SPDX-License-Identifier: Apache-2.0 */
/* ps_export(): the present values into one safetensors file.
 *
 * Happy path: ps_export() makes a new file in the directory of path; lists the variables, and their names in the file (choice.c);
 * opens them; reads strings whole, because the header needs their size; writes the header; copies the values in pieces of 256
 * KiB; and lets the file appear (target.c). Up to 32 pieces are requested while the oldest is written, so that network and disk
 * work at the same time. A piece of a part of a variable goes to where its elements are in the whole variable (cut.c). The header
 * lists the variables in order of creation; their values are sorted by element size.
 *
 * In synchronous rounds all values are from one round: the directory (first ps task) is asked before and after. If a round has
 * ended in between, all values are read again and overwritten in the file, until psi_files_timeout_ms() of their bytes is over. A
 * round begins only when the round before has ended on all tasks, so an equal answer before and after means that nothing has
 * changed. Failure modes: after any error no file is left. */
#include "choice.h"
#include "files.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 32, PROGRESS_BYTES = 1 << 20 };

struct slot {
    struct psi_api_call call;
    const struct psi_file_var *var;
    uint32_t part;      /* index of the part, for a variable in parts */
    uint64_t at;        /* first byte of the piece in the part or whole variable */
    uint64_t tensor_at; /* where the tensor begins in the file */
    size_t bytes;
    uint8_t *memory; /* [PSI_FILES_PIECE_BYTES] */
};

/* Where the values of one tensor of the file come from: memory, or the ps tasks. */
struct part {
    const struct psi_file_var *var;
    const uint8_t *memory; /* strings: the tensor's bytes, read before the header; NULL: read from ps tasks */
    uint8_t *blob;         /* allocation that holds both tensors of a string variable; the second tensor has NULL here */
    char *name;            /* name in the file, to be freed */
};

struct exporter {
    ps_session *session;
    ps_file_options options;
    struct psi_file_target target;
    struct psi_file_var *vars; /* [var_count]; choose() moves the selected variables to the first `count` entries */
    size_t count, var_count;
    struct psi_tensor *tensors; /* [tensor_count], in the header's order; strings have two */
    struct part *parts;
    size_t tensor_count;
    size_t *order; /* [order_count]: indices of the tensors to read from ps tasks, sorted by position in the file */
    size_t order_count;
    struct psi_buf header;
    uint64_t total_bytes; /* bytes of all values */
    /* pieces that were requested but not written yet, and which piece to request next: */
    struct slot *slots;
    size_t next;                     /* index in `order`: tensor of the piece to request next */
    uint32_t next_part;              /* index of the part that has this piece, for a variable in parts */
    uint64_t next_first;             /* first element of that piece */
    size_t head, flying;             /* slots is a ring: `flying` pieces are in use, the oldest in slots[head] */
    uint64_t done_bytes, said_bytes; /* bytes of values written so far; done_bytes at the last options.copied() */
};

/* qsort(): by order of creation at the task, then by task. */
static int in_order(const void *a, const void *b)
{
    const struct psi_file_var *x = a, *y = b;
    int order = (x->info.order > y->info.order) - (x->info.order < y->info.order);
    return order != 0 ? order : (x->task > y->task) - (x->task < y->task);
}

struct names {
    const char *container;
    uint32_t count;
};

static void on_container(void *ctx, const ps_container_info *info)
{
    struct names *n = ctx;
    if (strcmp(info->name, n->container) == 0 && info->names > n->count) {
        n->count = info->names; /* the highest answer is from the directory task, which knows the variables of all tasks */
    }
}

/* List the container's variables. DATA_LOSS: the directory (the first ps task) knows more of them, because a ps task was
 * restarted and has lost some. An export would then have only a part of the model. */
static ps_status list(struct exporter *e, struct psi_err *err)
{
    enum { LOOKS = 2 }; /* look twice: the directory may know a new variable a moment before its task has it */
    struct names names = {.container = e->options.container};
    int tasks = ps_cluster_tasks(e->session);
    for (int look = 0; look < LOOKS; look++) {
        names.count = 0;
        for (int i = 0; i < tasks; i++) {
            ps_status st = ps_task_containers(e->session, i, 0, on_container, &names);
            if (st != PS_OK) {
                return psi_fail_as(err, st, ps_last_reason(), "%s", ps_last_error());
            }
        }
        psi_free(e->vars);
        e->vars = NULL;
        ps_status st = psi_files_list(e->session, e->options.container, &e->vars, &e->var_count, err);
        if (st != PS_OK || e->var_count >= names.count) {
            return st;
        }
    }
    return psi_fail(
        err, PS_DATA_LOSS,
        "container '%s' should have %u variables and its tasks have %zu: a task has lost some (psctl containers, psctl "
        "vars). Create them again or reset the container",
        e->options.container, names.count, e->var_count);
}

/* Select variable i: move it behind the variables selected before, and make its name in the file. */
static ps_status choose_one(struct exporter *e, size_t i, struct psi_choice *choice, struct psi_map *names, struct psi_err *err)
{
    const struct psi_file_var v = e->vars[i];
    e->vars[i] = e->vars[e->count];
    e->vars[e->count] = v;
    struct psi_file_var *kept = &e->vars[e->count++];
    return psi_choice_export(choice, names, kept->info.name, &kept->as, err);
}

/* Select variables that the options name and that have values, and open them. */
static ps_status choose(struct exporter *e, struct psi_err *err)
{
    struct psi_choice choice;
    struct psi_map names;
    ps_status st = psi_choice_init(&choice, e->options.only, e->options.prefixes, err);
    st = st == PS_OK ? list(e, err) : st;
    st = st == PS_OK ? psi_files_join(e->vars, &e->var_count, err) : st;
    if (st == PS_OK) {
        qsort(e->vars, e->var_count, sizeof(*e->vars), in_order);
    }
    psi_files_map_init(&names, false);
    for (size_t i = 0; st == PS_OK && i < e->var_count; i++) {
        const struct psi_file_var *v = &e->vars[i];
        const bool meant = (v->info.initialised || v->torn) && psi_choice_takes(&choice, v->info.name);
        st = !meant    ? PS_OK
             : v->torn ? psi_fail(err, PS_DATA_LOSS,
                                  "variable '%s': some of its parts have values, and some have none (psctl vars)", v->info.name)
                       : choose_one(e, i, &choice, &names, err);
    }
    psi_map_fini(&names);
    st = st == PS_OK ? psi_choice_check(&choice, "the container that has a value", err) : st;
    if (st == PS_OK && e->count == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "container '%s' has no variable with a value: there is nothing to export",
                        e->options.container);
    }
    if (st != PS_OK) {
        return st;
    }
    return psi_files_open(e->session, e->vars, e->count, err);
}

/* ---- strings: read whole, because the header needs their size ---- */

/* Read a string variable as one blob (common/blob.h), which the caller frees with psi_free(). */
static ps_status read_strings(struct exporter *e, const struct psi_file_var *var, uint64_t elements, uint8_t **out_blob,
                              struct psi_err *err)
{
    uint64_t bytes = psi_blob_bytes_max(elements);
    uint8_t *blob = psi_malloc((size_t)bytes);
    if (blob == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': out of memory for its strings", var->info.name);
    }
    struct psi_api_call call = {.session = e->session,
                                .req = {.kind = PSI_REQ_PULL, .var = var->var, .dst = blob, .bytes = bytes, .scale = 1}};
    ps_status st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        psi_free(blob);
        return st;
    }
    uint8_t *fitting = psi_realloc(blob, (size_t)(psi_blob_bytes_min(elements) + psi_blob_offset(blob, elements)));
    *out_blob = fitting != NULL ? fitting : blob;
    return PS_OK;
}

static ps_status add_tensor(struct exporter *e, const struct psi_file_var *var, const char *ending, ps_dtype dtype,
                            ps_shape shape, const uint8_t *memory, struct psi_err *err)
{
    const char *name = psi_files_name(var);
    size_t n = strlen(name) + strlen(ending) + 1;
    struct psi_tensor *t = &e->tensors[e->tensor_count];
    struct part *part = &e->parts[e->tensor_count];
    part->var = var;
    part->memory = memory;
    part->name = psi_malloc(n);
    if (part->name == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the tensors");
    }
    (void)snprintf(part->name, n, "%s%s", name, ending);
    *t = (struct psi_tensor){.name = part->name, .type = psi_tensor_type_of(dtype), .shape = shape};
    e->tensor_count++;
    return t->type != NULL
               ? PS_OK
               : psi_fail(err, PS_UNIMPLEMENTED, "variable '%s': safetensors has no %s", var->info.name, ps_dtype_name(dtype));
}

static ps_status add_strings(struct exporter *e, const struct psi_file_var *var, struct psi_err *err)
{
    uint8_t *blob = NULL;
    int64_t count = ps_shape_elements(&var->info.shape);
    ps_status st = read_strings(e, var, (uint64_t)count, &blob, err);
    if (st != PS_OK) {
        return st;
    }
    uint64_t start = psi_blob_bytes_min((uint64_t)count);
    int64_t text = (int64_t)psi_blob_offset(blob, (uint64_t)count);
    e->parts[e->tensor_count].blob = blob;
    st = add_tensor(e, var, PSI_FILES_BYTES, PS_U8, PS_SHAPE(text), blob + start, err);
    return st == PS_OK ? add_tensor(e, var, PSI_FILES_OFFSETS, PS_I64, PS_SHAPE(count + 1), blob, err) : st;
}

static ps_status make_tensors(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    e->tensors = psi_calloc(2 * e->count, sizeof(*e->tensors));
    e->parts = psi_calloc(2 * e->count, sizeof(*e->parts));
    e->order = psi_calloc(2 * e->count, sizeof(*e->order));
    if (e->tensors == NULL || e->parts == NULL || e->order == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu variables", e->count);
    }
    for (size_t i = 0; st == PS_OK && i < e->count; i++) {
        const struct psi_file_var *v = &e->vars[i];
        st = v->info.dtype == PS_STRING ? add_strings(e, v, err) : add_tensor(e, v, "", v->info.dtype, v->info.shape, NULL, err);
    }
    return st;
}

static ps_status make_header(struct exporter *e, struct psi_err *err)
{
    char cluster[PS_JOB_BYTES_MAX + 1];
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char format[] = PSI_FILES_FORMAT;
    char version[] = PS_VERSION;
    char keys[][sizeof(PSI_FILES_KEY_CONTAINER)] = {PSI_FILES_KEY_FORMAT, PSI_FILES_KEY_VERSION, PSI_FILES_KEY_CLUSTER,
                                                    PSI_FILES_KEY_CONTAINER, PSI_FILES_KEY_VARIABLES};
    (void)snprintf(container, sizeof(container), "%s", e->options.container);
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
    st = psi_safetensors_encode(e->tensors, e->tensor_count, metadata, sizeof(metadata) / sizeof(metadata[0]), &e->header, err);
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

/* Make e->order: the tensors that are to be read from ps tasks, sorted by their position in the file. */
static ps_status make_order(struct exporter *e, struct psi_err *err)
{
    struct by_begin *all = psi_calloc(e->tensor_count, sizeof(*all));
    if (all == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", e->tensor_count);
    }
    for (size_t i = 0; i < e->tensor_count; i++) {
        e->total_bytes += e->tensors[i].end - e->tensors[i].begin;
        if (e->parts[i].memory == NULL) {
            all[e->order_count++] = (struct by_begin){.begin = e->tensors[i].begin, .tensor = i};
        }
    }
    qsort(all, e->order_count, sizeof(*all), by_begin);
    for (size_t i = 0; i < e->order_count; i++) {
        e->order[i] = all[i].tensor;
    }
    psi_free(all);
    return PS_OK;
}

/* Request the next piece (at most 256 KiB) from its ps task. A slot must be free. */
static ps_status ask(struct exporter *e, struct psi_err *err)
{
    struct slot *slot = &e->slots[(e->head + e->flying) % SLOTS];
    size_t tensor = e->order[e->next];
    const struct psi_tensor *t = &e->tensors[tensor];
    const struct psi_file_var *v = e->parts[tensor].var, *from = v->parts != NULL ? &v->parts[e->next_part] : v;
    uint64_t elements = (uint64_t)ps_shape_elements(&from->info.shape);
    uint64_t most = PSI_FILES_PIECE_BYTES / t->type->bytes;
    uint64_t left = elements - e->next_first;
    uint64_t piece = left < most ? left : most;
    slot->var = v;
    slot->part = e->next_part;
    slot->bytes = (size_t)piece * t->type->bytes;
    slot->at = e->next_first * t->type->bytes;
    slot->tensor_at = e->header.len + t->begin;
    slot->call = (struct psi_api_call){.session = e->session,
                                       .timeout_ms = psi_files_timeout_ms(e->session, slot->bytes),
                                       .req = {.kind = PSI_REQ_PULL,
                                               .var = from->var,
                                               .dst = slot->memory,
                                               .bytes = slot->bytes,
                                               .part_first = e->next_first,
                                               .part_elements = piece,
                                               .scale = 1}};
    ps_status st = psi_api_call_start(&slot->call, err);
    if (st != PS_OK) {
        return st;
    }
    e->flying++;
    e->next_first = piece == left ? 0 : e->next_first + piece;
    if (piece == left) {
        const bool last = v->parts == NULL || e->next_part + 1 == v->cut.count;
        e->next_part = last ? 0 : e->next_part + 1;
        e->next += last ? 1 : 0;
    }
    return PS_OK;
}

/* Write a received piece into the file. A part's elements go to their places in the whole variable. */
static ps_status write_piece(struct exporter *e, const struct slot *slot, struct psi_err *err)
{
    const struct psi_file_var *v = slot->var;
    if (v->parts == NULL) {
        return psi_file_target_write(&e->target, slot->memory, slot->bytes, slot->tensor_at + slot->at, err);
    }
    ps_status st = PS_OK;
    for (uint64_t done = 0, n = 0, to = 0; st == PS_OK && done < slot->bytes; done += n) {
        n = psi_files_run(&v->cut, slot->part, ps_dtype_bytes(v->info.dtype), slot->at + done, slot->bytes - done, &to);
        st = psi_file_target_write(&e->target, slot->memory + done, (size_t)n, slot->tensor_at + to, err);
    }
    return st;
}

static void say(struct exporter *e, const char *name)
{
    bool end = e->done_bytes == e->total_bytes;
    if (e->options.copied != NULL && (end || e->done_bytes - e->said_bytes >= PROGRESS_BYTES)) {
        e->said_bytes = e->done_bytes;
        e->options.copied(e->options.ctx, name, e->done_bytes, e->total_bytes);
    }
}

static ps_status take(struct exporter *e, struct psi_err *err)
{
    struct slot *slot = &e->slots[e->head];
    ps_status st = psi_api_call_wait(&slot->call, err);
    e->head = (e->head + 1) % SLOTS;
    e->flying--;
    if (st == PS_OK) {
        st = write_piece(e, slot, err);
    }
    if (st == PS_OK) {
        e->done_bytes += slot->bytes;
        say(e, slot->var->info.name);
    }
    return st;
}

static ps_status pump(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    while (st == PS_OK && (e->next < e->order_count || e->flying > 0)) {
        st = e->next < e->order_count && e->flying < SLOTS ? ask(e, err) : take(e, err);
    }
    while (e->flying > 0) { /* after an error: wait for the requests under way, because they use the slots' memory */
        struct slot *slot = &e->slots[e->head];
        PSI_IGNORE(psi_api_call_wait(&slot->call, NULL)); /* the first error is returned */
        e->head = (e->head + 1) % SLOTS;
        e->flying--;
    }
    return st;
}

static ps_status write_ready(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < e->tensor_count; i++) {
        const struct psi_tensor *t = &e->tensors[i];
        const struct part *part = &e->parts[i];
        uint64_t bytes = t->end - t->begin;
        if (part->memory != NULL && bytes > 0) {
            st = psi_file_target_write(&e->target, part->memory, (size_t)bytes, e->header.len + t->begin, err);
            e->done_bytes += bytes;
            say(e, part->var->info.name);
        }
    }
    return st;
}

/* What the directory (first ps task) says of the container's synchronous rounds. there: the container has rounds, or may have. */
struct rounds {
    const char *container;
    bool there;
    uint64_t generation, round;
    ps_round_phase phase;
};

static void on_round(void *ctx, const ps_round_info *info)
{
    struct rounds *r = ctx;
    if (strcmp(info->container, r->container) == 0 && info->options.mode == PS_SYNC_ROUNDS) {
        r->there = true;
        r->generation = info->generation;
        r->round = info->round;
        r->phase = info->phase;
    } else if (info->container[0] == '\0' && !r->there) { /* the directory task was restarted: any container may have rounds */
        r->there = true;
        r->phase = info->phase;
    }
}

static ps_status look(struct exporter *e, struct rounds *out, struct psi_err *err)
{
    *out = (struct rounds){.container = e->options.container};
    const ps_status st = ps_rounds(e->session, 0, on_round, NULL, out);
    return st == PS_OK || st == PS_UNIMPLEMENTED ? PS_OK : psi_fail_as(err, st, ps_last_reason(), "%s", ps_last_error());
}

/* True if no round of synchronous training is being committed at the moment: then all ps tasks have the values of one round. */
static bool is_still(const struct rounds *r)
{
    return !r->there || (r->phase != PS_ROUND_COMMITS && r->phase != PS_ROUND_IN_DOUBT);
}

static bool are_same(const struct rounds *a, const struct rounds *b)
{
    return is_still(a) && is_still(b) && a->there == b->there && a->generation == b->generation && a->round == b->round;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static ps_status copy_of_one_round(struct exporter *e, struct psi_err *err)
{
    const int64_t end = now_ms() + psi_files_timeout_ms(e->session, e->total_bytes);
    const uint64_t ready_bytes = e->done_bytes;
    struct rounds before, after;
    uint32_t tries = 0;
    do {
        ps_status st = look(e, &before, err);
        if (st == PS_OK && !is_still(&before)) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* sleep: no event tells that the round has ended */
            continue;
        }
        tries++;
        e->next = 0;
        e->next_part = 0;
        e->next_first = 0;
        e->done_bytes = ready_bytes;
        e->said_bytes = ready_bytes;
        st = st == PS_OK ? pump(e, err) : st;
        st = st == PS_OK ? look(e, &after, err) : st;
        if (st != PS_OK || are_same(&before, &after)) {
            return st;
        }
    } while (now_ms() < end);
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_IN_ROUNDS,
                       "container '%s' is trained in rounds, and %s: let a worker export between two of its steps, or when "
                       "training has stopped",
                       e->options.container,
                       tries == 0 ? "one waits for a task all the time (psctl rounds)"
                                  : "one ended each time while the values were read");
}

static ps_status copy_values(struct exporter *e, struct psi_err *err)
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
    st = st == PS_OK ? write_ready(e, err) : st;
    st = st == PS_OK ? copy_of_one_round(e, err) : st;
    psi_free(memory);
    return st;
}

static ps_status run(struct exporter *e, const char *path, struct psi_err *err)
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
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct exporter e = {.session = s, .target = {.fd = -1, .directory_fd = -1}};
    ps_status st = psi_files_options(s, path, options, &e.options, &err);
    psi_buf_init(&e.header, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        st = run(&e, path, &err);
        psi_api_go_outside(s);
    }
    psi_file_target_close(&e.target);
    psi_buf_fini(&e.header);
    psi_free(e.slots);
    psi_free(e.order);
    for (size_t i = 0; e.parts != NULL && i < 2 * e.count; i++) {
        psi_free(e.parts[i].blob);
        psi_free(e.parts[i].name);
    }
    psi_free(e.parts);
    psi_free(e.tensors);
    psi_files_vars_free(e.vars, e.var_count);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    if (out_variables != NULL) {
        *out_variables = (int)e.count;
    }
    return PS_OK;
}
