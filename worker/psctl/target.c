/* SPDX-License-Identifier: Apache-2.0 */
/* Which task psctl asks for the cluster: the first of the targets that answers.
 *
 * Happy path: the targets are those of -t A,B or else of PSD_TARGET. A session is opened with A, whose answer names all tasks of
 * the cluster. If A refuses or is silent, B is asked. Each target gets an equal share of the time that is left; one more share is
 * for the verb. So a silent target leaves time for the others. Failure modes: no target answers: each is named with its reason,
 * exit 1; a target is no address: exit 2 when its turn comes; an empty target or too many: exit 2, and nobody was asked. */
#include "psctl.h"

#include <stdlib.h>
#include <string.h>

enum { TARGETS_MAX = 64, TEXT_MAX = 4096 };

struct targets {
    char *text;                  /* owned: copy of -t or PSD_TARGET, with NUL bytes for the commas */
    const char *of[TARGETS_MAX]; /* [count] pointers into `text`; count 1 and NULL: the target that the library chooses itself */
    int count;
};

/* Split the list in -t or PSD_TARGET at its commas. Prints an error: an empty entry, or too many. */
static enum psctl_exit split(const struct psctl *c, struct targets *t)
{
    const char *from = c->target != NULL ? "target" : "PSD_TARGET";
    const char *list = c->target != NULL ? c->target : getenv("PSD_TARGET");
    *t = (struct targets){.count = 1};
    if (list == NULL || strchr(list, ',') == NULL) {
        t->of[0] = c->target;
        return PSCTL_OK; /* a single target: the library reads PSD_TARGET itself, and checks the address */
    }
    t->text = strdup(list);
    if (t->text == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory");
        return PSCTL_FAILED;
    }
    t->count = 0;
    for (char *at = t->text; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        if (t->count == TARGETS_MAX) {
            return psctl_misused(c, "%s: more than %d targets", from, TARGETS_MAX);
        }
        if (at[0] == '\0') {
            return psctl_misused(c, "%s: an empty target in '%.200s'; targets are apart by one comma", from, list);
        }
        t->of[t->count++] = at;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return PSCTL_OK;
}

/* Open a session with this target and learn all tasks. The error is in error [n] if c->session is NULL, else ps_last_error(). */
static ps_status ask(struct psctl *c, const ps_session_options *o, const char *target, char *error, size_t n)
{
    ps_session_options with = *o;
    with.target = target;
    psctl_leave_hold();
    ps_status st = ps_session_open(&with, &c->session, error, n);
    psctl_leave_session(c->session);
    if (st == PS_OK) {
        c->task_count = -1;
        psctl_restart_clock(c);
    }
    return st;
}

static enum psctl_exit ask_each(struct psctl *c, const ps_session_options *o, const struct targets *t)
{
    char text[TEXT_MAX] = "", error[512] = "";
    size_t used = 0;
    const int64_t end_ms = cli_clock_ms() + c->timeout_ms;
    const size_t most = (sizeof(text) - 1) / (size_t)t->count;
    for (int i = 0; i < t->count; i++) {
        const int64_t left_ms = end_ms - cli_clock_ms();
        ps_status st = ask(c, o, t->of[i], error, sizeof(error));
        if (st != PS_OK) {
            psctl_error(c, st, "%s%s%s%s", text, i > 0 ? "; " : "", t->count > 1 && c->target == NULL ? "PSD_TARGET: " : "",
                        error);
            return st == PS_INVALID_ARGUMENT ? PSCTL_USAGE : PSCTL_FAILED;
        }
        if (t->count > 1) { /* share the time among the targets that are left and the verb */
            const int64_t part_ms = left_ms / (t->count - i + 1);
            ps_session_set_deadline(c->session, part_ms > 1 ? part_ms : 1);
        }
        c->task_count = ps_cluster_tasks(c->session);
        if (c->task_count >= 0) {
            break;
        }
        int wrote = snprintf(text + used, sizeof(text) - used, "%s%.*s", i > 0 ? "; " : "", (int)(most > 2 ? most - 2 : 0),
                             ps_last_error());
        used += wrote > 0 ? (size_t)wrote : 0;
        if (i + 1 == t->count) {
            const ps_reason why = ps_last_reason(); /* PS_REASON_IDENTITY: a ps task is there, but has refused this psctl's key */
            psctl_failed(c, PS_UNAVAILABLE, why, "%s%s", text,
                         why == PS_REASON_IDENTITY ? "" : "; is a psd running there? -t HOST:PORT names another");
            return PSCTL_FAILED;
        }
        psctl_disconnect(c);
    }
    if (t->count > 1) {
        const int64_t left_ms = end_ms - cli_clock_ms();
        c->deadline_ms = end_ms;
        ps_session_set_deadline(c->session, c->verb->each ? 0 : left_ms > 1 ? left_ms : 1);
    }
    psctl_asked(c);
    return PSCTL_OK;
}

enum psctl_exit psctl_first_target(struct psctl *c, const ps_session_options *o)
{
    struct targets t;
    enum psctl_exit code = split(c, &t);
    code = code == PSCTL_OK ? ask_each(c, o, &t) : code;
    free(t.text);
    return code;
}
