/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what the verbs config and config set share. */
#ifndef PSCTL_CONFIG_H
#define PSCTL_CONFIG_H

#include "psctl.h"

struct setting {
    char name[64], value[512], default_value[256], help[512];
    bool live; /* can be changed while the task runs */
};
/* The settings of one task. Begin with {0}; free `at` with free(). */
struct settings {
    struct setting *at;
    size_t count, capacity;
};
/** Ask task i for its settings; replaces those in *out. On an error ps_last_error() says why. */
ps_status settings_ask(const struct psctl *c, int i, struct settings *out);
/** Print an error: the task has no such setting, with the most similar name; or it has no settings at all. */
void settings_say_none(const struct settings *all, const char *task, const char *name);
/** psctl config set: change one setting at each task that the command line means. Prints old and new value, or what failed. */
enum psctl_exit config_set(struct psctl *c, const char *name, const char *value);

#endif
