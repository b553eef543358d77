/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what config and config set share. */
#ifndef PSCTL_CONFIG_H
#define PSCTL_CONFIG_H

#include "psctl.h"

struct setting {
    char name[64], value[512], default_value[256], help[512];
    bool live;
};
/* The settings of one task. Starts as {0}; the caller frees `at` with free(). */
struct settings {
    struct setting *at;
    size_t count, capacity;
};
/** Ask task i for its settings, which replace those in *out. */
ps_status settings_ask(const struct psctl *c, int i, struct settings *out);
/** Print that the task does not have the setting, or has no settings at all, and the nearest name. */
void settings_say_none(const struct settings *all, const char *task, const char *name);
enum psctl_exit config_set(struct psctl *c, const char *name, const char *value);

#endif
