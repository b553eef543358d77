/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: flags from a table, the verb, its arguments.
 * Happy path: `--name value`, `--name=value`, `-tVALUE`, anywhere on the line; the first word is the verb; what is left are its
 * arguments; negative numbers are arguments. Failure modes: what is unknown or not for this verb is named, with what was likely
 * meant; exit 2.
 */
#include "psctl.h"

#include "common/near.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_MAX_SEEN = 64 };

const struct psctl_flag_row psctl_flags[PSCTL_FLAG_COUNT] = {
    [PSCTL_TARGET] = {"target", 't', "HOST:PORT",
                      "any task of the cluster, also psd://HOST:PORT and unix:PATH\n(default: PSD_TARGET, then 127.0.0.1:2222)",
                      PSCTL_TEXT, offsetof(struct psctl, target)},
    [PSCTL_TIMEOUT] = {"timeout", 0, "SECONDS", "for the whole command (default 5)", PSCTL_SECONDS,
                       offsetof(struct psctl, timeout_ms)},
    [PSCTL_JSON] = {"json", 0, NULL, "print JSON", PSCTL_ON, offsetof(struct psctl, json)},
    [PSCTL_HELP] = {"help", 'h', NULL, "this, or help for VERB", PSCTL_ON, offsetof(struct psctl, help)},
    [PSCTL_VERSION] = {"version", 0, NULL, "version of psctl", PSCTL_ON, offsetof(struct psctl, version)},
    [PSCTL_WATCH] = {"watch", 0, "[SECONDS]", "again and again until interrupted, every so often (default 2)", PSCTL_SECONDS,
                     offsetof(struct psctl, watch_ms)},
    [PSCTL_NPY] = {"npy", 0, "FILE", "values in NumPy's format; - is standard output, or input", PSCTL_TEXT,
                   offsetof(struct psctl, npy)},
    [PSCTL_FILL] = {"fill", 0, NULL, "one VALUE for every element", PSCTL_ON, offsetof(struct psctl, fill)},
    [PSCTL_CONTAINER] = {"container", 0, "NAME",
                         "this container (default: " PSCTL_CONTAINER_DEFAULT ", where variables are by default)", PSCTL_TEXT,
                         offsetof(struct psctl, container)},
    [PSCTL_TASK] = {"task", 0, "TASK", "this task only, /job:ps/task:1 or ps:1", PSCTL_TEXT, offsetof(struct psctl, task)},
    [PSCTL_ALL] = {"all", 0, NULL, "everything: all tasks (shutdown), all containers (reset)", PSCTL_ON,
                   offsetof(struct psctl, all)},
    [PSCTL_YES] = {"yes", 'y', NULL, "do not ask", PSCTL_ON, offsetof(struct psctl, yes)},
};

void psctl_nearer(const char *text, const char *name, char *near, size_t n)
{
    if (psi_near(text, name) < psi_near(text, near)) {
        (void)snprintf(near, n, "%s", name);
    }
}

const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name)
{
    char near[NAME_MAX_SEEN] = "";
    for (int i = 0; i < psctl_verb_count; i++) {
        if (strcmp(psctl_verbs[i].name, name) == 0) {
            return &psctl_verbs[i];
        }
        psctl_nearer(name, psctl_verbs[i].name, near, sizeof(near));
    }
    psctl_error(c, PS_INVALID_ARGUMENT, "unknown verb '%.100s'%s%s%s; see psctl --help", name,
                near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
    return NULL;
}

static enum psctl_exit unknown_flag(const struct psctl *c, const char *arg)
{
    char name[NAME_MAX_SEEN];
    char near[NAME_MAX_SEEN] = "";
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg, "="), arg);
    for (size_t i = 0; i < PSCTL_FLAG_COUNT && strncmp(name, "--", 2) == 0; i++) {
        psctl_nearer(name + 2, psctl_flags[i].name, near, sizeof(near));
    }
    return psctl_misused(c, "unknown flag %.100s%s%s%s; see psctl --help", arg, near[0] != '\0' ? " (did you mean --" : "", near,
                         near[0] != '\0' ? "?)" : "");
}

/* ---- flags ---- */

static bool parse_seconds(const char *text, int64_t *out_ms)
{
    char *end = NULL;
    double value = strtod(text, &end);
    double scale = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "") == 0 || strcmp(end, "s") == 0 ? 1000 : 0;
    if (end == text || scale == 0 || !(value * scale >= 1) || value * scale > 86400e3) {
        return false;
    }
    *out_ms = (int64_t)(value * scale);
    return true;
}

static const struct psctl_flag_row *find_flag(const char *arg)
{
    size_t n = strcspn(arg, "=");
    for (size_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        const struct psctl_flag_row *row = &psctl_flags[i];
        if (strncmp(arg, "--", 2) == 0 ? strlen(row->name) == n - 2 && strncmp(arg + 2, row->name, n - 2) == 0
                                       : row->letter != 0 && arg[1] == row->letter && (arg[2] == '\0' || row->value != NULL)) {
            return row;
        }
    }
    return NULL;
}

/* One flag at argv[*at]. */
static enum psctl_exit parse_flag(struct psctl *c, int argc, char **argv, int *at, uint32_t *given)
{
    const char *arg = argv[*at];
    const struct psctl_flag_row *row = find_flag(arg);
    if (row == NULL) {
        return unknown_flag(c, arg);
    }
    bool is_long = strncmp(arg, "--", 2) == 0;
    bool optional = row->value != NULL && row->value[0] == '[';
    const char *value = is_long && strchr(arg, '=') != NULL ? strchr(arg, '=') + 1 : !is_long && arg[2] != '\0' ? arg + 2 : NULL;
    char *field = (char *)c + row->field;
    *given |= 1u << (row - psctl_flags);
    if (row->kind == PSCTL_ON) {
        if (value != NULL) {
            return psctl_misused(c, "no value is allowed in %.100s; see psctl --help", arg);
        }
        *(bool *)(void *)field = true;
        return PSCTL_OK;
    }
    if (value == NULL && *at + 1 < argc && (!optional || isdigit((unsigned char)argv[*at + 1][0]) || argv[*at + 1][0] == '.')) {
        value = argv[++*at];
    }
    if (value == NULL && optional) {
        return PSCTL_OK; /* its default is there already */
    }
    if (value == NULL || value[0] == '\0') {
        return psctl_misused(c, "--%s needs a value, %s; see psctl --help", row->name, row->value);
    }
    if (row->kind == PSCTL_TEXT) {
        *(const char **)(void *)field = value;
        return PSCTL_OK;
    }
    if (!parse_seconds(value, (int64_t *)(void *)field)) {
        return psctl_misused(c, "--%s %.100s: seconds, 0.001 to 86400, such as 5 or 0.5 or 500ms", row->name, value);
    }
    return PSCTL_OK;
}

/* "-1", "-.5", "-inf": an argument */
static bool is_number(const char *arg)
{
    return isdigit((unsigned char)arg[1]) || arg[1] == '.' || strcasecmp(arg + 1, "inf") == 0 ||
           strcasecmp(arg + 1, "infinity") == 0 || strcasecmp(arg + 1, "nan") == 0;
}

/* ---- the line ---- */

static enum psctl_exit check(const struct psctl *c, uint32_t given)
{
    const struct psctl_verb *verb = c->verb;
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if ((given & ~(verb->flags | PSCTL_FLAGS_COMMON) & 1u << i) != 0) {
            return psctl_misused(c, "%s takes no --%s; see psctl %s --help", verb->name, psctl_flags[i].name, verb->name);
        }
    }
    if (c->argc > verb->args_max) {
        return psctl_misused(c, "%s takes no '%.100s'; see psctl %s --help", verb->name, c->argv[verb->args_max], verb->name);
    }
    if (c->argc < verb->args_min) {
        return psctl_misused(c, "%s needs %s; see psctl %s --help", verb->name, verb->arguments, verb->name);
    }
    return PSCTL_OK;
}

/* Where --json stands behind what is wrong, that is told in JSON too. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

enum psctl_exit psctl_parse(struct psctl *c, int argc, char **argv)
{
    bool flags = true;
    uint32_t given = 0;
    c->watch_ms = 2000;
    c->json = asks_for_json(argc, argv); /* until all is read */
    for (int i = 1; i < argc; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (flags && argv[i][0] == '-' && argv[i][1] != '\0' && !is_number(argv[i])) {
            enum psctl_exit code = parse_flag(c, argc, argv, &i, &given);
            if (code != PSCTL_OK) {
                return code;
            }
        } else {
            c->argv[c->argc++] = argv[i];
        }
    }
    c->watch_ms = (given & PSCTL_FLAG(WATCH)) != 0 ? c->watch_ms : 0;
    c->json = (given & PSCTL_FLAG(JSON)) != 0;
    if (c->version || (c->help && c->argc == 0)) {
        return PSCTL_OK;
    }
    if (c->argc == 0 && c->json) {
        return psctl_misused(c, "a verb is missing; see psctl --help");
    }
    if (c->argc == 0) {
        psctl_usage(stderr);
        return PSCTL_USAGE;
    }
    c->verb = psctl_find_verb(c, c->argv[0]);
    if (c->verb == NULL) {
        return PSCTL_USAGE;
    }
    c->argc--;
    c->argv++;
    return c->help ? PSCTL_OK : check(c, given);
}
