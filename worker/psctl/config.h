/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what config and config set share. */
#ifndef PSCTL_CONFIG_H
#define PSCTL_CONFIG_H

#include "psctl.h"

enum { SETTINGS_MAX = 128 };

/* One task's settings as they come. */
struct settings_seen {
    const char *only; /* NULL: all */
    bool found;
    const char *task;             /* whose they are, for the caller's use */
    struct cli_list *list;        /* for the caller's use */
    char names[SETTINGS_MAX][64]; /* of all, to find the nearest */
    size_t count;
};
/** Note it; true when it is `only`, or any will do. */
bool settings_wanted(struct settings_seen *s, const ps_config_info *info);
/** Say that the task has no setting `only`, and which one was likely meant. */
void settings_say_none(const struct settings_seen *s, const char *task);
enum psctl_exit config_set(struct psctl *c, const char *name, const char *value);

#endif
