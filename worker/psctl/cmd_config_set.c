/* SPDX-License-Identifier: Apache-2.0 */
/* psctl config set: change a setting of tasks while they run. Happy path: all tasks (or that of --task) are up, have the setting
 * and can change it; psctl sets it at one after the other, and prints the old and the new value. Failure modes, exit 1: a task is
 * down, lacks the setting or needs a restart for it: nothing is changed. A task refuses the value: later tasks are not asked. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

static void each(void *ctx, const ps_config_info *info)
{
    struct settings *all = ctx;
    all->at = cli_grow(all->at, all->count, &all->capacity, sizeof(*all->at));
    struct setting *s = &all->at[all->count++];
    (void)snprintf(s->name, sizeof(s->name), "%s", info->name);
    (void)snprintf(s->value, sizeof(s->value), "%s", info->value);
    (void)snprintf(s->default_value, sizeof(s->default_value), "%s", info->default_value);
    (void)snprintf(s->help, sizeof(s->help), "%s", info->help);
    s->live = info->reloadable;
}

ps_status settings_ask(const struct psctl *c, int i, struct settings *out)
{
    out->count = 0;
    return ps_task_config(c->session, i, psctl_left_ms(c), each, out);
}

static const struct setting *find_setting(const struct settings *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->at[i].name, name) == 0) {
            return &all->at[i];
        }
    }
    return NULL;
}

void settings_say_none(const struct settings *all, const char *task, const char *name)
{
    char near[64] = "";
    if (all->count == 0) {
        (void)fprintf(stderr, "psctl: %s has no settings that can be seen or changed: its program is not psd\n", task);
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        psctl_nearer(name, all->at[i].name, near, sizeof(near));
    }
    (void)fprintf(stderr, "psctl: %s has no setting '%.100s'%s%s%s; psctl config lists them\n", task, name,
                  near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
}

/* True if task i has the setting and can change it while it runs. Sets *before to its value. False: the error was printed. */
static bool may_change(struct psctl *c, int i, const char *name, struct setting *before)
{
    const char *task = ps_cluster_task_name(c->session, i);
    struct settings all = {.count = 0};
    ps_status st = settings_ask(c, i, &all);
    const struct setting *s = find_setting(&all, name);
    bool may = st == PS_OK && s != NULL && s->live;
    if (st != PS_OK) {
        psctl_failed(c, st, ps_last_reason(), "%s: %s", task, ps_last_error());
    } else if (s == NULL) {
        settings_say_none(&all, task, name);
    } else if (!may) {
        psctl_error(c, PS_FAILED_PRECONDITION, "%s: '%s' cannot change while it runs: start it anew with --%s", task, name, name);
    } else {
        *before = *s;
    }
    free(all.at);
    return may;
}

static bool change(struct psctl *c, int i, const char *name, const char *value, const char *before, int changed)
{
    const char *task = ps_cluster_task_name(c->session, i);
    ps_status st = ps_task_config_set(c->session, i, name, value, psctl_left_ms(c));
    if (st != PS_OK) {
        char text[1024];
        bool nothing = changed == 0 && ps_last_applied() == PS_NOTHING_APPLIED;
        (void)fprintf(stderr, "psctl: %s: %s%s%s\n", task, psctl_change_error(c, text, sizeof(text)),
                      nothing ? "; nothing was changed" : "", changed > 0 ? "; the tasks before it were changed" : "");
        return false;
    }
    struct settings all = {.count = 0};
    const struct setting *now = settings_ask(c, i, &all) == PS_OK ? find_setting(&all, name) : NULL;
    value = now != NULL ? now->value : value; /* show the value in the form in which the task reports it: 5s for 5 */
    if (c->json) {
        cli_json_put(NULL, json_pack("{s:s, s:s, s:o, s:o}", "name", task, "setting", name, "old", cli_json_text(before), "new",
                                     cli_json_text(value)));
    } else {
        (void)printf("%s: %s %s -> %s\n", task, name, before[0] != '\0' ? before : "\"\"", value[0] != '\0' ? value : "\"\"");
    }
    free(all.at);
    return true;
}

static enum psctl_exit change_all(struct psctl *c, int only, const char *name, const char *value, struct setting *before)
{
    int changed = 0;
    bool ok = true;
    for (int i = 0; i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && c->infos[i].up && !may_change(c, i, name, &before[i])) {
            return PSCTL_FAILED;
        }
    }
    psctl_answer(c);
    if (c->json) {
        cli_json_list("changed");
    }
    for (int i = 0; i < c->task_count && ok; i++) {
        if (psctl_is_meant(only, i) && c->infos[i].up) {
            ok = change(c, i, name, value, before[i].value, changed);
            changed += ok ? 1 : 0;
        }
    }
    if (c->json) {
        cli_json_end();
    }
    psctl_answer_end(c);
    return ok ? PSCTL_OK : PSCTL_FAILED;
}

/* After a change of `allow` (the table of rights): warn of each task that refuses this psctl now. */
static void warn_of_rights(struct psctl *c, int only)
{
    bool asked = psctl_ask(c, psctl_left_ms(c) / 2) == PSCTL_OK;
    for (int i = 0; asked && i < c->task_count; i++) {
        if (psctl_is_meant(only, i) && psctl_refused(&c->infos[i])) {
            psctl_note(c,
                       "with these rows %s does not let this program in any more: SIGHUP there takes the rows of its start "
                       "again",
                       ps_cluster_task_name(c->session, i));
        }
    }
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
        psctl_error(c, PS_UNAVAILABLE, "nothing was changed%s", only < 0 ? "; --task changes one task" : "");
        return PSCTL_FAILED;
    }
    struct setting *before = calloc((size_t)c->task_count + 1, sizeof(*before));
    if (before == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory");
        return PSCTL_FAILED;
    }
    code = change_all(c, only, name, value, before);
    free(before);
    if (code == PSCTL_OK && strcmp(name, "allow") == 0) {
        warn_of_rights(c, only);
    }
    return code;
}
