/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_import(): values of a safetensors file into the variables of a container.
 *
 * Happy path: the whole file is checked (file_source.c) -> VARS of all tasks: each tensor's variable exists with the same dtype
 * and shape, or is missing -> records of those that exist -> the missing ones are created, in the order of the header -> ASSIGN,
 * several on their way. An assign to a variable without a value is its initialisation (version 0, fresh slots), so nobody else's
 * can come in between. Failure modes: before the first ASSIGN nothing has a new value; afterwards the error says how many have.
 */
#include "files.h"
#include "source.h"

#include "common/map.h"
#include "common/mem.h"
#include "common/shape.h"
#include "common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4 };

struct slot {
    struct psi_api_call call;
    struct psi_file_var *var;
    uint64_t bytes;
    uint8_t *memory;
    uint64_t capacity;
};

struct importer {
    ps_session *session;
    const char *path;
    ps_file_options options;
    struct psi_file_source source;
    struct psi_file_var *vars; /* [source.item_count], in the order of the header */
    struct slot slots[SLOTS];
    size_t head, flying;
    uint64_t flying_bytes, done_bytes;
    size_t done;
};

/* ---- what is to be done ---- */

static ps_status compare(const struct psi_file_var *v, const ps_variable_info *there, struct psi_err *err)
{
    char a[PSI_SHAPE_TEXT_MAX];
    char b[PSI_SHAPE_TEXT_MAX];
    const ps_variable_spec *item = &v->spec;
    bool as_many = v->any_shape && ps_shape_elements(&item->shape) == ps_shape_elements(&there->shape);
    if (item->dtype == there->dtype && (as_many || psi_shape_equal(&item->shape, &there->shape))) {
        return PS_OK;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is %s %s, the variable of that name on /job:%s/task:%u is %s %s",
                    v->info.name, ps_dtype_name(item->dtype), psi_shape_format(&item->shape, a, sizeof(a)), there->job,
                    there->task, ps_dtype_name(there->dtype), psi_shape_format(&there->shape, b, sizeof(b)));
}

/* Which of them exist, and are they the same? */
static ps_status match(struct importer *m, struct psi_err *err)
{
    static const uint64_t seed[2] = {0, 0}; /* names that this cluster has taken already */
    struct psi_file_var *there = NULL;
    size_t count = 0;
    struct psi_map names;
    ps_status st = psi_files_list(m->session, m->options.container, &there, &count, err);
    psi_map_init(&names, seed);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = psi_map_put(&names, there[i].info.name, strlen(there[i].info.name), &there[i], NULL, err);
    }
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const struct psi_file_item *item = &m->source.items[i];
        struct psi_file_var *v = &m->vars[i];
        const struct psi_file_var *old = psi_map_find(&names, item->name, strlen(item->name));
        v->missing = old == NULL;
        if (old != NULL) {
            v->info = old->info;
            v->task = old->task;
            st = compare(v, &old->info, err);
        }
    }
    psi_map_fini(&names);
    psi_free(there);
    return st;
}

/* What the file says of each. */
static ps_status define(struct importer *m, struct psi_err *err)
{
    const char *format = psi_safetensors_metadata(&m->source.table, PSI_FILES_KEY_FORMAT);
    const char *text = psi_safetensors_metadata(&m->source.table, PSI_FILES_KEY_VARIABLES);
    ps_status st = PS_OK;
    for (size_t i = 0; i < m->source.item_count; i++) {
        const struct psi_file_item *item = &m->source.items[i];
        struct psi_file_var *v = &m->vars[i];
        ps_variable_spec_init(&v->spec);
        v->spec.dtype = item->dtype;
        v->spec.shape = item->shape;
        v->any_shape = item->dtype == PS_STRING;
        (void)snprintf(v->info.name, sizeof(v->info.name), "%s", item->name);
        (void)snprintf(v->info.container, sizeof(v->info.container), "%s", m->options.container);
    }
    if (text != NULL && format != NULL && strcmp(format, PSI_FILES_FORMAT) == 0) {
        st = psi_files_understand(text, m->vars, m->source.item_count, err);
    }
    return st;
}

/* The definitions of those that are to be created, all before the first is. */
static ps_status check_missing(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        if (m->vars[i].missing) {
            m->vars[i].spec.name = m->vars[i].info.name;
            st = psi_client_definition_check(&m->vars[i].spec, err);
            if (st != PS_OK) {
                psi_err_prefix(err, "tensor '%s'", m->source.items[i].name);
            }
        }
    }
    return st;
}

/* Records of those that exist; nothing is created before they all are as they were listed. */
static ps_status open_all(struct importer *m, struct psi_err *err)
{
    size_t count = m->source.item_count;
    size_t found = 0;
    struct psi_file_var *there = psi_calloc(count + 1, sizeof(*there));
    if (there == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu variables", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!m->vars[i].missing) {
            there[found++] = m->vars[i];
        }
    }
    ps_status st = psi_files_open(m->session, there, found, err);
    found = 0;
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        if (!m->vars[i].missing) {
            m->vars[i].var = there[found].var;
            m->vars[i].handle = there[found].handle;
            st = compare(&m->vars[i], &there[found++].info, err);
        }
    }
    psi_free(there);
    return st == PS_OK ? psi_files_open(m->session, m->vars, count, err) : st;
}

/* ---- the values ---- */

static ps_status room(struct slot *slot, const struct psi_file_item *item, struct psi_err *err)
{
    uint64_t bytes = item->bytes + item->text_bytes;
    if (slot->capacity >= bytes) {
        return PS_OK;
    }
    psi_free(slot->memory);
    slot->capacity = 0;
    slot->memory = psi_aligned_malloc(PSI_PARAM_ALIGN, (size_t)bytes);
    if (slot->memory == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "tensor '%s': out of memory for its %llu bytes", item->name,
                        (unsigned long long)bytes);
    }
    slot->capacity = bytes;
    return PS_OK;
}

static ps_status give(struct importer *m, size_t i, struct psi_err *err)
{
    const struct psi_file_item *item = &m->source.items[i];
    struct slot *slot = &m->slots[(m->head + m->flying) % SLOTS];
    ps_status st = room(slot, item, err);
    st = st == PS_OK ? psi_file_source_read(&m->source, item, slot->memory, err) : st;
    if (st != PS_OK) {
        return st;
    }
    slot->var = &m->vars[i];
    slot->bytes = item->bytes + item->text_bytes;
    slot->call = (struct psi_api_call){
        .session = m->session,
        .timeout_ms = psi_files_timeout_ms(m->session, slot->bytes),
        .req = {.kind = PSI_REQ_ASSIGN, .var = slot->var->var, .src = slot->memory, .bytes = slot->bytes, .scale = 1}};
    st = psi_api_call_start(&slot->call, err);
    if (st == PS_OK) {
        m->flying++;
        m->flying_bytes += slot->bytes;
    }
    return st;
}

/* The oldest one's end. */
static ps_status take(struct importer *m, struct psi_err *err)
{
    struct slot *slot = &m->slots[m->head];
    ps_status st = psi_api_call_wait(&slot->call, err);
    m->flying--;
    m->flying_bytes -= slot->bytes;
    m->head = m->flying == 0 ? 0 : (m->head + 1) % SLOTS; /* one large value after the other uses the same memory */
    if (st == PS_OK) {
        m->done++;
        slot->var->given = true;
        m->done_bytes += slot->bytes;
        if (m->options.copied != NULL) {
            m->options.copied(m->options.ctx, slot->var->info.name, m->done_bytes, m->source.value_bytes);
        }
    }
    return st;
}

static bool fits(const struct importer *m, size_t i)
{
    return m->flying == 0 || (m->flying < SLOTS && m->flying_bytes + m->source.items[i].bytes + m->source.items[i].text_bytes <=
                                                       PSI_FILES_FLIGHT_BYTES);
}

static ps_status assign_all(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    size_t next = 0;
    while (st == PS_OK && (next < m->source.item_count || m->flying > 0)) {
        bool more = next < m->source.item_count && fits(m, next);
        st = more ? give(m, next, err) : take(m, err);
        next += more ? 1 : 0;
    }
    while (m->flying > 0) {
        PSI_IGNORE(take(m, NULL)); /* the first error counts */
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "%zu of %zu variables had been given their values", m->done, m->source.item_count);
        err->applied = m->done > 0 && err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied;
    }
    return st;
}

/* ---- all of it ---- */

/* What a failure leaves behind besides values: variables that it has created. They are not deleted: somebody else may have found
 * them meanwhile. */
static void tell_created(const struct importer *m, struct psi_err *err)
{
    size_t count = 0;
    const char *first = "";
    for (size_t i = 0; m->vars != NULL && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (v->missing && v->handle != 0 && !v->given) {
            first = count++ == 0 ? v->info.name : first;
        }
    }
    if (count > 0) {
        char shown[128]; /* why it failed matters more */
        psi_err_prefix(err, "%zu variable%s that it created, '%s'%s, ha%s no value", count, count > 1 ? "s" : "",
                       psi_utf8_shorten(first, shown, sizeof(shown)), count > 1 ? " the first" : "", count > 1 ? "ve" : "s");
    }
}

static ps_status run(struct importer *m, struct psi_err *err)
{
    ps_status st = psi_file_source_open(&m->source, m->path, err);
    if (st != PS_OK) {
        return st;
    }
    m->vars = psi_calloc(m->source.item_count + 1, sizeof(*m->vars));
    if (m->vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", m->source.item_count);
    }
    st = define(m, err);
    st = st == PS_OK ? match(m, err) : st;
    st = st == PS_OK ? check_missing(m, err) : st;
    st = st == PS_OK ? open_all(m, err) : st;
    return st == PS_OK ? assign_all(m, err) : st;
}

ps_status ps_import(ps_session *s, const char *path, const ps_file_options *options, int *out_variables)
{
    struct psi_err err = {0};
    ps_status st = PS_RESOURCE_EXHAUSTED;
    struct importer *m = psi_calloc(1, sizeof(*m));
    if (m == NULL) {
        PSI_IGNORE(psi_fail(&err, st, "out of memory")); /* returned below */
        return psi_api_last_error_set(&err);
    }
    *m = (struct importer){.session = s, .path = path, .source = {.fd = -1}};
    st = psi_files_options(s, path, options, &m->options, &err);
    if (st == PS_OK) {
        PSI_IGNORE(psi_api_settle(s)); /* parameters of the program before those of the file; a failure is the session's */
        st = run(m, &err);
    }
    if (st == PS_OK && out_variables != NULL) {
        *out_variables = (int)m->done;
    }
    for (size_t i = 0; i < SLOTS; i++) {
        psi_free(m->slots[i].memory);
    }
    if (st != PS_OK) {
        tell_created(m, &err);
    }
    psi_file_source_close(&m->source);
    psi_free(m->vars);
    psi_free(m);
    if (st != PS_OK) {
        char shown[PSI_PATH_SHOWN];
        psi_err_prefix(&err, "%s", psi_utf8_shorten(path == NULL ? "import" : path, shown, sizeof(shown)));
        return psi_api_last_error_set(&err);
    }
    return PS_OK;
}
