/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and opening a container's variables for export and import. Names are full: no variable scope is put in front.
 *
 * Happy path: psi_files_list() sends VARS to all tasks at the same time. psi_files_open() looks up or creates the variables that
 * the session does not have, in batches. Failure modes: a task does not answer: UNAVAILABLE names it; a variable was deleted
 * meanwhile: the error of the look-up. */
#include "files.h"

#include "common/abi.h"
#include "common/map.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { OPEN_AT_ONCE = 256 };

void psi_files_map_seed(uint64_t out[2])
{
    /* only if the system has no random bytes: addresses, which differ between processes */
    const uint64_t instead[2] = {(uint64_t)(uintptr_t)psi_files_map_seed, (uint64_t)(uintptr_t)&out};
    const size_t bytes = sizeof(instead);
    if (getrandom(out, bytes, 0) != (ssize_t)bytes) {
        memcpy(out, instead, bytes);
    }
}

void psi_files_map_init(struct psi_map *m, bool borrowing)
{
    uint64_t seed[2];
    psi_files_map_seed(seed);
    (borrowing ? psi_map_init_borrowing : psi_map_init)(m, seed);
}

void ps_file_options_init(ps_file_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
}

ps_status psi_files_options(ps_session *s, const char *path, const ps_file_options *given, ps_file_options *out,
                            struct psi_err *err)
{
    ps_status st = psi_api_check(s, true, err);
    ps_file_options_init(out);
    if (st != PS_OK) {
        return st;
    }
    if (path == NULL || path[0] == '\0') {
        return psi_fail(err, PS_INVALID_ARGUMENT, "path is %s", path == NULL ? "NULL" : "empty");
    }
    if (given != NULL) {
        st = psi_struct_take(given, out, sizeof(*out), "ps_file_options_init", err);
        if (st != PS_OK) {
            psi_err_prefix(err, "options");
            return st;
        }
    }
    if (out->container == NULL) {
        out->container = s->scopes.container;
        return PS_OK;
    }
    return psi_container_name_check(out->container, strlen(out->container), err);
}

int64_t psi_files_timeout_ms(const ps_session *s, uint64_t bytes)
{
    uint64_t more = bytes / ((uint64_t)64 << 20) * 1000;
    return s->operation_timeout_ms > INT64_MAX / 2 ? s->operation_timeout_ms : s->operation_timeout_ms + (int64_t)more;
}

struct listing {
    struct psi_api_call call;
    struct psi_list_sink sink;
    const char *container;
    struct psi_file_var *vars;
    size_t count, capacity;
    uint32_t task;
    bool started, no_memory;
};

static void take_variable(void *ctx, const ps_variable_info *info)
{
    struct listing *l = ctx;
    if (strcmp(info->container, l->container) != 0 || l->no_memory) {
        return;
    }
    struct psi_file_var *vars = psi_grow(l->vars, l->count, &l->capacity, sizeof(*vars));
    l->no_memory = vars == NULL;
    if (vars != NULL) {
        l->vars = vars;
        vars[l->count++] = (struct psi_file_var){.info = *info, .task = l->task};
    }
}

static ps_status list_start(ps_session *s, struct listing *l, uint32_t task, const char *container, struct psi_err *err)
{
    l->task = task;
    l->container = container;
    l->sink = (struct psi_list_sink){.variable = take_variable, .ctx = l};
    l->call = (struct psi_api_call){.session = s, .req = {.kind = PSI_REQ_VARS, .task = s->tasks[task].index, .dst = &l->sink}};
    ps_status st = psi_api_call_start(&l->call, err);
    l->started = st == PS_OK;
    return st;
}

static ps_status list_wait(ps_session *s, struct listing *l, struct psi_err *err)
{
    ps_status st = psi_api_call_wait(&l->call, err);
    if (st == PS_DEADLINE_EXCEEDED) { /* the question is small: a task that does not answer in time counts as unavailable */
        err->code = PS_UNAVAILABLE;
        st = PS_UNAVAILABLE;
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "variables of %s", s->tasks[l->task].name);
    } else if (l->no_memory) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the list of variables");
    }
    return st;
}

static ps_status list_join(const struct listing *lists, uint32_t tasks, struct psi_file_var **out_vars, size_t *out_count,
                           struct psi_err *err)
{
    size_t count = 0;
    for (uint32_t i = 0; i < tasks; i++) {
        count += lists[i].count;
    }
    struct psi_file_var *all = psi_calloc(count + 1, sizeof(*all));
    if (all == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu variables", count);
    }
    count = 0;
    for (uint32_t i = 0; i < tasks; i++) {
        if (lists[i].count > 0) {
            memcpy(&all[count], lists[i].vars, lists[i].count * sizeof(*all));
            count += lists[i].count;
        }
    }
    *out_vars = all;
    *out_count = count;
    return PS_OK;
}

ps_status psi_files_list(ps_session *s, const char *container, struct psi_file_var **out_vars, size_t *out_count,
                         struct psi_err *err)
{
    ps_status st = psi_api_know_tasks(s, 0, err);
    if (st != PS_OK) {
        return st;
    }
    uint32_t tasks = s->task_count;
    struct listing *lists = psi_calloc((size_t)tasks + 1, sizeof(*lists));
    if (lists == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the lists of %u tasks", tasks);
    }
    for (uint32_t i = 0; i < tasks && st == PS_OK; i++) {
        st = list_start(s, &lists[i], i, container, err);
    }
    for (uint32_t i = 0; i < tasks; i++) {
        struct psi_err one = {0};
        ps_status ended = lists[i].started ? list_wait(s, &lists[i], &one) : PS_OK;
        if (ended != PS_OK && st == PS_OK) {
            st = ended;
            *err = one;
        } else if (ended != PS_OK) {
            psi_api_likewise(s, s->tasks[i].name, err);
        }
    }
    st = st == PS_OK ? list_join(lists, tasks, out_vars, out_count, err) : st;
    for (uint32_t i = 0; i < tasks; i++) {
        psi_free(lists[i].vars);
    }
    psi_free(lists);
    return st;
}

/* The entries to open at tasks: each whole variable, and each part of the partitioned variables. */
struct records {
    struct psi_file_var **vars;
    size_t count;
};

static size_t key_of(char *key, size_t n, const char *container, const char *name)
{
    return (size_t)snprintf(key, n, "%s:%s", container, name); /* names have no colon */
}

static bool is_usable(const struct psi_var *var)
{
    return !var->lost && var->queue == NULL &&
           (var->open ? var->wire == var->dtype : var->found_only && var->wire_asked == PS_F32);
}

static ps_status records_known(struct psi_client *c, struct psi_map *known, struct psi_err *err)
{
    char key[PS_CONTAINER_BYTES_MAX + PS_NAME_BYTES_MAX + 2];
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, psi_client_variables(c)) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, link);
        if (is_usable(var)) {
            ps_status st = psi_map_put(known, key, key_of(key, sizeof(key), var->container, var->name), var, NULL, err);
            if (st != PS_OK) {
                return st;
            }
        }
    }
    return PS_OK;
}

/* Loop thread: set each entry's `var`. If the session has a record of the variable already, that is used, so that exports do not
 * add records; but no record with a wire dtype of half precision, because copies must be exact. */
static ps_status prepare_records(struct psi_api_call *call, struct psi_err *err)
{
    const struct records *r = call->arg;
    char key[PS_CONTAINER_BYTES_MAX + PS_NAME_BYTES_MAX + 2];
    struct psi_map known;
    psi_files_map_init(&known, false);
    ps_status st = records_known(call->client, &known, err);
    for (size_t i = 0; st == PS_OK && i < r->count; i++) {
        struct psi_file_var *v = r->vars[i];
        if (v->var != NULL) {
            continue;
        }
        v->var = psi_map_find(&known, key, key_of(key, sizeof(key), v->info.container, v->info.name));
        if (v->missing || v->var == NULL) {
            const struct psi_part part = psi_files_part(&v->info);
            const struct psi_var_scope scope = {.container = v->info.container,
                                                .name = v->info.name,
                                                .must_exist = !v->missing,
                                                .part = v->missing && part.count > 0 ? &part : NULL};
            st = psi_client_variable_in(call->client, &v->spec, &scope, !v->missing, &v->var, err);
        }
    }
    psi_map_fini(&known);
    return st;
}

static ps_status prepare_open(struct psi_api_call *call, struct psi_err *err)
{
    const struct psi_file_var *v = call->arg;
    (void)err;
    if (!v->var->open || v->var->lost) {
        call->req.kind = v->var->must_exist ? PSI_REQ_LOOKUP : PSI_REQ_GET;
        call->req.var = v->var;
    }
    return PS_OK;
}

static void finish_open(struct psi_api_call *call)
{
    struct psi_file_var *v = call->arg;
    const struct psi_part listed = psi_files_part(&v->info);
    v->info.dtype = v->var->dtype;
    v->info.shape = v->var->shape;
    v->handle = v->var->handle;
    v->torn = !psi_part_equal(&v->var->part, &listed);
}

/* Open the variables that are not open, in one turn of the loop: one CREATE request then has all parts of a variable. */
static ps_status open_batch(ps_session *s, struct psi_file_var **vars, struct psi_api_call *calls, size_t count,
                            struct psi_err *err)
{
    struct psi_list works;
    size_t started = 0;
    psi_list_init(&works);
    for (size_t i = 0; i < count; i++) {
        if (vars[i]->handle == 0) {
            calls[started] = (struct psi_api_call){.session = s, .prepare = prepare_open, .finish = finish_open, .arg = vars[i]};
            psi_list_push_back(&works, &calls[started++].work.link);
        }
    }
    ps_status st = started > 0 ? psi_api_calls_start(s, &works, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    for (size_t i = 0; i < started; i++) {
        struct psi_err one = {0};
        ps_status ended = psi_api_call_wait(&calls[i], &one);
        if (ended != PS_OK && st == PS_OK) {
            st = ended;
            *err = one;
        }
    }
    return st;
}

/* Number of entries from index `from` on to open together: OPEN_AT_ONCE, or fewer so that no variable's parts are divided. */
static size_t batch_size(const struct records *r, size_t from)
{
    size_t n = r->count - from < OPEN_AT_ONCE ? r->count - from : OPEN_AT_ONCE;
    if (from + n < r->count && r->vars[from + n]->info.part > 0) {
        n -= r->vars[from + n]->info.part;
    }
    return n;
}
_Static_assert((int)OPEN_AT_ONCE >= (int)PSI_PARTS_MAX, "a batch has all parts of a variable");

/* Check that the opened parts of v are as they were listed, and copy handle and dtype to v. */
static ps_status parts_check(struct psi_file_var *v, struct psi_err *err)
{
    for (uint32_t i = 0; v->parts != NULL && i < v->cut.count; i++) {
        const ps_shape shape = psi_part_shape(&v->cut, i);
        if (v->parts[i].torn || v->parts[i].info.dtype != v->parts[0].info.dtype ||
            !psi_shape_equal(&v->parts[i].info.shape, &shape)) {
            return psi_fail(err, PS_ABORTED, "variable '%s': somebody else makes it anew", v->info.name);
        }
        v->handle = v->parts[i].handle;
        v->info.dtype = v->parts[i].info.dtype;
    }
    return PS_OK;
}

static void spec_prepare(struct psi_file_var *v)
{
    v->spec.struct_bytes = sizeof(v->spec);
    v->spec.name = v->info.name;
    v->spec.partitions = 0; /* not cut (again): v is a whole variable or one part */
    if (!v->missing) {      /* v exists: the look-up gets all but the dtype on the wire, which must be exact */
        v->spec.wire_dtype = PS_F32;
    }
}

/* List in *r all whole variables and all parts of partitioned ones; prepare their specs. The caller frees r->vars. */
static ps_status records_list(struct psi_file_var *vars, size_t count, struct records *r, struct psi_err *err)
{
    size_t total = 1;
    for (size_t i = 0; i < count; i++) {
        total += vars[i].parts != NULL ? vars[i].cut.count : 1;
    }
    r->vars = psi_calloc(total, sizeof(*r->vars));
    if (r->vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for look-ups");
    }
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < (vars[i].parts != NULL ? vars[i].cut.count : 1); k++) {
            r->vars[r->count] = vars[i].parts != NULL ? &vars[i].parts[k] : &vars[i];
            spec_prepare(r->vars[r->count++]);
        }
    }
    return PS_OK;
}

ps_status psi_files_open(ps_session *s, struct psi_file_var *vars, size_t count, struct psi_err *err)
{
    struct records r = {.count = 0};
    struct psi_api_call *calls = psi_calloc(OPEN_AT_ONCE, sizeof(*calls));
    struct psi_api_call call = {.session = s, .prepare = prepare_records, .arg = &r};
    ps_status st = calls != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for look-ups");
    st = st == PS_OK ? records_list(vars, count, &r, err) : st;
    st = st == PS_OK ? psi_api_call_run(&call, err) : st;
    for (size_t from = 0, n = 0; st == PS_OK && from < r.count; from += n) {
        n = batch_size(&r, from);
        st = open_batch(s, &r.vars[from], calls, n, err);
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = parts_check(&vars[i], err);
    }
    psi_free(r.vars);
    psi_free(calls);
    return st;
}

struct cluster_name {
    char *name;
    size_t n;
};

static ps_status prepare_cluster_name(struct psi_api_call *call, struct psi_err *err)
{
    const struct cluster_name *to = call->arg;
    const struct psi_cluster *cluster = psi_client_cluster(call->client);
    (void)err;
    (void)snprintf(to->name, to->n, "%s", cluster == NULL ? "" : cluster->name);
    return PS_OK;
}

ps_status psi_files_cluster_name(ps_session *s, char *name, size_t n, struct psi_err *err)
{
    struct cluster_name to = {name, n};
    struct psi_api_call call = {.session = s, .prepare = prepare_cluster_name, .arg = &to};
    return psi_api_call_run(&call, err);
}
