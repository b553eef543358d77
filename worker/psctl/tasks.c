/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of the cluster: which are up, and which of them the command line means. Happy path: all tasks are asked at the same
 * time, and their answers are in c->infos. Failure modes: a task that does not answer is down in c->infos, with the reason, which
 * is printed behind the answers of the others; a text that names no task: the error lists the tasks. */
#include "psctl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum psctl_exit psctl_ask(struct psctl *c, int64_t timeout_ms)
{
    if (c->infos == NULL) {
        c->infos = (ps_task_info *)calloc((size_t)c->task_count + 1, sizeof(*c->infos));
    }
    if (c->infos == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory");
        return PSCTL_FAILED;
    }
    ps_status st = ps_cluster_info(c->session, c->infos, sizeof(*c->infos), c->task_count, timeout_ms);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    for (int i = 0; i < c->task_count; i++) {
        psctl_add_in_all(c, c->infos[i].reason, c->infos[i].error, sizeof(c->infos[i].error));
    }
    psctl_asked(c);
    return PSCTL_OK;
}

enum psctl_exit psctl_begin(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    return code == PSCTL_OK ? psctl_ask(c, psctl_left_ms(c) / 2) : code;
}

bool psctl_is_meant(int only, int i)
{
    return only < 0 || only == i;
}

int psctl_directory(const struct psctl *c)
{
    for (int i = 0; i < c->task_count; i++) {
        if (c->infos[i].up && c->infos[i].directory) {
            return i;
        }
    }
    return -1;
}

bool psctl_next(const struct psctl *c, int only, int *i)
{
    do {
        (*i)++;
    } while (*i < c->task_count && (!c->infos[*i].up || !psctl_is_meant(only, *i)));
    return *i < c->task_count;
}

bool psctl_heard(const struct psctl *c, int i, ps_status st)
{
    ps_task_info *t = &c->infos[i];
    if (st != PS_OK) {
        t->up = false;
        t->status = st;
        t->reason = ps_last_reason();
        (void)snprintf(t->error, sizeof(t->error), "%.*s", (int)sizeof(t->error) - 1, ps_last_error());
    }
    return st == PS_OK;
}

bool psctl_refused(const ps_task_info *t)
{
    return !t->up && (t->status == PS_PERMISSION_DENIED || t->reason == PS_REASON_IDENTITY);
}

bool psctl_missing(const struct psctl *c, int only, int i)
{
    const int directory = psctl_directory(c);
    const bool other_job = directory >= 0 && strcmp(c->infos[i].job, c->infos[directory].job) != 0;
    return !c->infos[i].up && !(only < 0 && other_job && psctl_refused(&c->infos[i]));
}

bool psctl_all_up(const struct psctl *c, int only)
{
    bool all = true;
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && !c->infos[i].up) {
            bool waits = c->infos[i].reason == PS_REASON_NOT_READY;
            psctl_note(c, "%s (%s) %s: %s", ps_cluster_task_name(c->session, i), c->infos[i].address,
                       waits                         ? "has nothing to show yet"
                       : psctl_refused(&c->infos[i]) ? "does not let this program in"
                                                     : "is down",
                       c->infos[i].error);
            all = all && !psctl_missing(c, only, i);
        }
    }
    return all;
}

bool psctl_none_lost(const struct psctl *c, int only)
{
    bool none = true;
    for (int i = 0; i < c->task_count; i++) {
        const ps_task_info *t = &c->infos[i];
        if (psctl_is_meant(only, i) && t->lost > 0) {
            psctl_note(c,
                       "%s (%s) came back without %" PRIu32
                       " variable%s that it had: %s; checkpoint restore or import brings them back, reset gives them up",
                       ps_cluster_task_name(c->session, i), t->address, t->lost, t->lost == 1 ? "" : "s", t->lost_names);
            none = false;
        }
    }
    return none;
}

const char *psctl_waiting_for(const ps_task_info *info, char buf[sizeof(info->waiting_for) + sizeof("...")])
{
    enum { FULL = sizeof(info->waiting_for) - 2 }; /* the task may have cut a text of this length or more */
    size_t n = strlen(info->waiting_for);
    (void)snprintf(buf, sizeof(info->waiting_for), "%s", info->waiting_for);
    char *blank = n >= FULL ? strrchr(buf, ' ') : NULL;
    if (blank != NULL) {
        memcpy(blank + 1, "...", sizeof("..."));
    }
    return buf;
}

void psctl_down(const struct psctl *c, int only)
{
    if (!c->json) {
        return;
    }
    cli_json_list("down");
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && !c->infos[i].up) {
            cli_json_put(NULL, json_pack("{s:s, s:o, s:o, s:b}", "task", ps_cluster_task_name(c->session, i), "address",
                                         cli_json_text(c->infos[i].address), "error", cli_json_text(c->infos[i].error), "refused",
                                         psctl_refused(&c->infos[i])));
        }
    }
    cli_json_end();
}

/* Index of the task that text names, as "/job:ps/task:1" or "ps:1". -1: no such task; printed, with the list of tasks. */
static int find_task(const struct psctl *c, const char *text)
{
    char tasks[512] = "";
    size_t len = 0;
    for (int i = 0; i < c->task_count; i++) {
        const char *name = ps_cluster_task_name(c->session, i);
        char text_of[160];
        (void)snprintf(text_of, sizeof(text_of), "%s:%u", c->infos[i].job, c->infos[i].task);
        if (strcmp(name, text) == 0 || strcmp(text_of, text) == 0) {
            return i;
        }
        if (len < sizeof(tasks)) {
            len += (size_t)snprintf(tasks + len, sizeof(tasks) - len, "%s%s", i > 0 ? ", " : "", name);
        }
    }
    psctl_error(c, PS_INVALID_ARGUMENT, "there is no task '%.100s'; the cluster has %s", text, tasks);
    return -1;
}

bool psctl_only_task(const struct psctl *c, const char *text, int *out_task)
{
    *out_task = text != NULL ? find_task(c, text) : -1;
    return text == NULL || *out_task >= 0;
}

bool psctl_list_begin(struct psctl_list *l, struct psctl *c, const char *text, const char *key, const struct cli_column *columns,
                      size_t column_count)
{
    *l = (struct psctl_list){.c = c, .task = -1};
    if (!psctl_only_task(c, text, &l->only)) {
        return false;
    }
    psctl_answer(c);
    cli_list_begin(&l->rows, key, columns, column_count, c->json);
    return true;
}

bool psctl_list_next(struct psctl_list *l)
{
    bool more = psctl_next(l->c, l->only, &l->task);
    l->at = more ? ps_cluster_task_name(l->c->session, l->task) : NULL;
    return more;
}

enum psctl_exit psctl_list_end(struct psctl_list *l)
{
    struct psctl *c = l->c;
    cli_list_end(&l->rows, &c->room);
    if (!c->json && l->rows.count == 0 && l->none != NULL) {
        (void)printf("%s\n", l->none);
    }
    psctl_down(c, l->only);
    psctl_answer_end(c);
    return psctl_all_up(c, l->only) ? PSCTL_OK : PSCTL_FAILED;
}
