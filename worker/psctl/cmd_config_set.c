/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl config set: change a setting of the tasks while they run.
 *
 * Happy path: every task that is meant is up, has the setting and can change it -> change it on one after the other, printing
 * what it was and is. Failure modes: one of them is down, lacks the setting or wants a restart for it: nothing is changed; a
 * value that the first one refuses is tried on no other; exit 1.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 512 };

struct looking {
    struct settings_seen seen;
    bool live;
    char value[VALUE_MAX];
};

bool settings_wanted(struct settings_seen *s, const ps_config_info *info)
{
    bool is = s->only == NULL || strcmp(s->only, info->name) == 0;
    s->found = s->found || is;
    if (s->count < SETTINGS_MAX) {
        (void)snprintf(s->names[s->count++], sizeof(s->names[0]), "%s", info->name);
    }
    return is;
}

void settings_say_none(const struct settings_seen *s, const char *task)
{
    char near[64] = "";
    if (s->count == 0) {
        (void)fprintf(stderr, "psctl: %s has no settings that can be seen or changed: its program is not psd\n", task);
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        psctl_nearer(s->only, s->names[i], near, sizeof(near));
    }
    (void)fprintf(stderr, "psctl: %s has no setting '%.100s'%s%s%s; psctl config lists them\n", task, s->only,
                  near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
}

static void each(void *ctx, const ps_config_info *info)
{
    struct looking *l = ctx;
    if (settings_wanted(&l->seen, info)) {
        l->live = info->reloadable;
        (void)snprintf(l->value, sizeof(l->value), "%s", info->value);
    }
}

/* May it be changed on this task? What it is now goes to before. */
static bool look(struct psctl *c, int i, const char *name, char *before)
{
    const char *task = ps_cluster_task_name(c->session, i);
    struct looking l = {.seen = {.only = name}};
    ps_status st = ps_task_config(c->session, i, psctl_left_ms(c), each, &l);
    if (st != PS_OK) {
        psctl_failed(c, st, ps_last_reason(), "%s: %s", task, ps_last_error());
    } else if (!l.seen.found) {
        settings_say_none(&l.seen, task);
    } else if (!l.live) {
        psctl_error(c, PS_FAILED_PRECONDITION, "%s: '%s' cannot change while it runs: start it anew with --%s", task, name, name);
    } else {
        (void)snprintf(before, VALUE_MAX, "%s", l.value);
        return true;
    }
    return false;
}

static bool change(struct psctl *c, int i, const char *name, const char *value, const char *before, int changed)
{
    const char *task = ps_cluster_task_name(c->session, i);
    ps_status st = ps_task_config_set(c->session, i, name, value, psctl_left_ms(c));
    if (st != PS_OK) {
        (void)fprintf(stderr, "psctl: %s: %s%s\n", task, ps_last_error(),
                      changed == 0 ? "; nothing was changed" : "; the tasks before it were changed");
        return false;
    }
    struct looking now = {.seen = {.only = name}}; /* what the task made of it: 5 is 5s */
    if (ps_task_config(c->session, i, psctl_left_ms(c), each, &now) == PS_OK && now.seen.found) {
        value = now.value;
    }
    if (c->json) {
        cli_json_put(NULL, json_pack("{s:s, s:s, s:o, s:o}", "name", task, "setting", name, "old", cli_json_text(before), "new",
                                     cli_json_text(value)));
    } else {
        (void)printf("%s: %s %s -> %s\n", task, name, before[0] != '\0' ? before : "\"\"", value[0] != '\0' ? value : "\"\"");
    }
    return true;
}

static enum psctl_exit change_all(struct psctl *c, int only, const char *name, const char *value, char (*before)[VALUE_MAX])
{
    int changed = 0;
    bool ok = true;
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && !look(c, i, name, before[i])) {
            return PSCTL_FAILED;
        }
    }
    psctl_answer(c);
    if (c->json) {
        cli_json_list("changed");
    }
    for (int i = 0; i < c->task_count && ok; i++) {
        if (psctl_is_meant(only, i)) {
            ok = change(c, i, name, value, before[i], changed);
            changed += ok ? 1 : 0;
        }
    }
    if (c->json) {
        cli_json_end();
    }
    psctl_answer_end(c);
    return ok ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit config_set(struct psctl *c, const char *name, const char *value)
{
    int only = -1;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!psctl_only_task(c, c->task, &only)) {
        return PSCTL_USAGE;
    }
    if (!psctl_all_up(c, only)) {
        psctl_error(c, PS_UNAVAILABLE, "nothing was changed; --task changes one task");
        return PSCTL_FAILED;
    }
    char(*before)[VALUE_MAX] = calloc((size_t)c->task_count + 1, sizeof(*before));
    if (before == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory");
        return PSCTL_FAILED;
    }
    code = change_all(c, only, name, value, before);
    free(before);
    return code;
}
