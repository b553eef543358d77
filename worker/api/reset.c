/* SPDX-License-Identifier: Apache-2.0 */
/* Reset of containers, and deletion of a variable. Happy path: all names are checked; then one RESET runs after the other, each
 * at all tasks. ps_reset_all() asks all tasks for their containers first. Failure modes: a bad name: nothing is done; a reset
 * fails: no further reset, and the error names the containers that were reset before. */
#include "lock.h"
#include "monitored.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ps_status reset_one(ps_session *s, const char *container, struct psi_err *err)
{
    struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_RESET, .src = container}};
    return psi_api_call_run(&call, err);
}

/* Write the names of the first `count` containers as "'a', 'b'", cut to n bytes. */
static void list_names(const char *const *containers, size_t count, char *dst, size_t n)
{
    size_t at = 0;
    dst[0] = '\0';
    for (size_t i = 0; i < count && at < n - 1; i++) {
        int more = snprintf(dst + at, n - at, "%s'%s'", i > 0 ? ", " : "", containers[i]);
        at = more > 0 && (size_t)more < n - at ? at + (size_t)more : n - 1;
    }
}

static ps_status reset_row(ps_session *s, const char *const *containers, size_t count, struct psi_err *err)
{
    for (size_t i = 0; i < count; i++) {
        ps_status st = reset_one(s, containers[i], err);
        if (st != PS_OK && i > 0) {
            char before[200];
            list_names(containers, i, before, sizeof(before));
            psi_err_prefix(err, "%zu of %zu containers were reset before (%s)", i, count, before);
            err->applied = err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied;
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

ps_status ps_reset(ps_session *s)
{
    return ps_reset_containers(s, NULL, 0);
}

ps_status ps_reset_containers(ps_session *s, const char *const *containers, size_t count)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    if (st == PS_OK && count > 0 && containers == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "containers is NULL");
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *name = containers[i] != NULL ? containers[i] : "";
        st = psi_container_name_check(name, strlen(name), &err);
    }
    if (st == PS_OK) {
        const char *const session_default[] = {s->scopes.container};
        st = count > 0 ? reset_row(s, containers, count, &err) : reset_row(s, session_default, 1, &err);
    }
    return psi_api_result(&err, st);
}

/* Names of the containers of all tasks. A container that several tasks have is named several times. */
struct names {
    char (*at)[PS_CONTAINER_BYTES_MAX + 1];
    size_t count, capacity;
    bool no_memory;
};

static void note_container(void *ctx, const ps_container_info *info)
{
    struct names *names = ctx;
    void *more = psi_grow(names->at, names->count, &names->capacity, sizeof(names->at[0]));
    names->no_memory = names->no_memory || more == NULL;
    if (more != NULL) {
        names->at = more;
        memcpy(names->at[names->count++], info->name, sizeof(names->at[0]));
    }
}

static int by_name(const void *a, const void *b)
{
    const char *x = a;
    const char *y = b;
    return strcmp(x, y);
}

static ps_status reset_names(ps_session *s, const struct names *names, struct psi_err *err)
{
    size_t count = 0;
    const char **row = psi_calloc(names->count + 1, sizeof(*row));
    if (row == NULL || names->no_memory) {
        psi_free(row);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the list of containers");
    }
    if (names->count > 0) {
        qsort(names->at, names->count, sizeof(names->at[0]), by_name);
    }
    for (size_t i = 0; i < names->count; i++) {
        if (i == 0 || strcmp(names->at[i], names->at[i - 1]) != 0) {
            row[count++] = names->at[i];
        }
    }
    ps_status st = reset_row(s, row, count, err);
    psi_free(row);
    return st;
}

ps_status ps_reset_all(ps_session *s)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct names names = {0};
    ps_status st = psi_api_know_tasks(s, 0, &err);
    if (st != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    for (int i = 0; st == PS_OK && (uint32_t)i < s->task_count; i++) {
        st = ps_task_containers(s, i, 0, note_container, &names); /* sets the thread's last error */
    }
    st = st == PS_OK ? psi_api_result(&err, reset_names(s, &names, &err)) : st;
    psi_free(names.at);
    return st;
}

ps_status ps_variable_delete(ps_session *s, const char *name)
{
    struct psi_err err = {0};
    struct psi_scoped scoped;
    ps_status st = psi_api_check(s, true, &err);
    if (st == PS_OK && name == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "the variable's name is NULL");
    }
    st = st == PS_OK ? psi_api_scope_name(s, name, &scoped, &err) : st;
    if (st == PS_OK) {
        struct psi_var_name full = {.container = scoped.container, .name = scoped.name};
        struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_DELETE, .src = &full}};
        (void)psi_monitor_tell(s, PSI_ON_DELETE, 1);
        st = psi_api_call_run(&call, &err);
        if (st == PS_OK) {
            psi_api_get_deleted(s, &scoped);
        }
        (void)psi_monitor_tell(s, PSI_ON_DELETE, 0);
    }
    return psi_api_result(&err, st);
}
