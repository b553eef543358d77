/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl: look at a psd cluster and end it, from the command line.
 * Happy path: flags and verb -> connect -> the verb prints -> exit 0. Failure modes: exit 1 when something failed or a task is
 * down, 2 for a command line that makes no sense; the reason goes to standard error.
 */
#include "psctl.h"

#include <stdlib.h>
#include <string.h>

static const struct psctl_verb verbs[] = {
    {.name = "status",
     .arguments = "",
     .summary = "tasks: up or down, memory, variables, traffic",
     .run = psctl_status,
     .help = "One line per task and the total. Exit status 1 when a task is down.\n"},
    {.name = "vars",
     .arguments = "",
     .summary = "variables: owner, shape, dtype, optimizer in force, version",
     .run = psctl_vars,
     .help = "All variables of all tasks, with the optimizer and the values that are in force. STATE is `uninitialised`,\n"
             "`initialised`, or `ready` once the chief has declared the model ready.\n"},
    {.name = "get",
     .arguments = "NAME [--npy FILE]",
     .summary = "value of a variable",
     .args_max = 1,
     .takes_npy = true,
     .run = psctl_get,
     .help =
         "Prints the variable's definition and its first 1,000 values; with --json all of them (NaN and infinities as null).\n"
         "  --npy FILE    write all values to FILE for numpy.load(); - is standard output, with nothing else on it\n"},
    {.name = "ping",
     .arguments = "",
     .summary = "round-trip time to each task",
     .run = psctl_ping,
     .help = "The time of one empty request on an open connection.\n"},
    {.name = "config",
     .arguments = "[/job:JOB/task:N]",
     .summary = "settings of the tasks",
     .args_max = 1,
     .run = psctl_config,
     .help = "Value and default of every setting that the tasks run with.\n"},
    {.name = "shutdown",
     .arguments = "[/job:JOB/task:N | --all]",
     .summary = "let a task, or all, finish and end",
     .args_max = 1,
     .takes_all = true,
     .takes_yes = true,
     .run = psctl_shutdown,
     .help =
         "Without an argument it ends the task that -t names, or the only one. Asks first when standard input is a terminal.\n"
         "  --all         every task of the cluster\n"
         "  --yes         do not ask\n"},
};
enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

static const char common_help[] = "  -t, --target HOST:PORT   any task of the cluster, also psd://HOST:PORT and unix:PATH\n"
                                  "                           (default: PSD_TARGET, then 127.0.0.1:2222)\n"
                                  "      --timeout SECONDS    for the whole command (default 5)\n"
                                  "      --json               print JSON\n"
                                  "  -h, --help               this, or help for VERB\n"
                                  "      --version            version of psctl\n";

static void usage(FILE *to)
{
    (void)fprintf(to, "usage: psctl [-t TARGET] [--timeout S] [--json] VERB ...\n\n");
    for (int i = 0; i < VERB_COUNT; i++) {
        char line[64];
        (void)snprintf(line, sizeof(line), "%s %s", verbs[i].name, verbs[i].arguments);
        (void)fprintf(to, "  %-36s %s\n", line, verbs[i].summary);
    }
    (void)fprintf(to, "\n%s\nExit status: 0 done, 1 something failed or a task is down, 2 usage.\n", common_help);
}

static void verb_usage(const struct psctl_verb *verb)
{
    (void)printf("usage: psctl [-t TARGET] [--timeout S] [--json] %s%s%s\n%s.\n\n%s%s", verb->name,
                 verb->arguments[0] == '\0' ? "" : " ", verb->arguments, verb->summary, verb->help, common_help);
}

static const struct psctl_verb *find_verb(const char *name)
{
    for (int i = 0; i < VERB_COUNT; i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static bool parse_timeout(const char *text, int64_t *out_ms)
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

/* "--name" or "--name=value" */
static bool is_flag(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && (arg[n] == '\0' || arg[n] == '=');
}

/* The value of argv[*at], which may be in the next element; NULL: there is none. */
static const char *flag_value(int argc, char **argv, int *at)
{
    const char *equals = strncmp(argv[*at], "--", 2) == 0 ? strchr(argv[*at], '=') : NULL;
    if (equals != NULL) {
        return equals + 1;
    }
    if (strncmp(argv[*at], "--", 2) != 0 && argv[*at][2] != '\0') {
        return argv[*at] + 2; /* -tHOST:PORT */
    }
    return *at + 1 < argc ? argv[++*at] : NULL;
}

/* One flag at argv[*at]; false: usage error, said. */
static bool parse_flag(struct psctl *c, int argc, char **argv, int *at)
{
    const char *arg = argv[*at];
    const char *value = NULL;
    bool *on = is_flag(arg, "--json")                             ? &c->json
               : is_flag(arg, "--all")                            ? &c->all
               : is_flag(arg, "--yes")                            ? &c->yes
               : is_flag(arg, "--version")                        ? &c->version
               : is_flag(arg, "--help") || strcmp(arg, "-h") == 0 ? &c->help
                                                                  : NULL;
    if (on != NULL && strchr(arg, '=') == NULL) {
        *on = true;
        return true;
    }
    bool target = strncmp(arg, "-t", 2) == 0 || is_flag(arg, "--target");
    bool timeout = is_flag(arg, "--timeout");
    if (on != NULL || (!target && !timeout && !is_flag(arg, "--npy"))) {
        (void)fprintf(stderr, "psctl: %s %s; see psctl --help\n", on != NULL ? "no value is allowed in" : "unknown flag", arg);
        return false;
    }
    value = flag_value(argc, argv, at);
    if (value == NULL || value[0] == '\0') {
        (void)fprintf(stderr, "psctl: %s needs a value; see psctl --help\n", arg);
        return false;
    }
    if (timeout && !parse_timeout(value, &c->timeout_ms)) {
        (void)fprintf(stderr, "psctl: --timeout %s: seconds, 0.001 to 86400, such as 5 or 0.5 or 500ms\n", value);
        return false;
    }
    if (!timeout) {
        *(target ? &c->target : &c->npy) = value;
    }
    return true;
}

/* Take the flags out; what is left goes to c->argv, the verb first. */
static bool parse(struct psctl *c, int argc, char **argv)
{
    bool flags = true;
    for (int i = 1; i < argc; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (flags && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!parse_flag(c, argc, argv, &i)) {
                return false;
            }
        } else {
            c->argv[c->argc++] = argv[i];
        }
    }
    return true;
}

static enum psctl_exit run(struct psctl *c)
{
    if (c->version) {
        (void)printf("psctl %s\n", ps_version());
        return PSCTL_OK;
    }
    if (c->argc == 0) {
        usage(c->help ? stdout : stderr);
        return c->help ? PSCTL_OK : PSCTL_USAGE;
    }
    const struct psctl_verb *verb = find_verb(c->argv[0]);
    if (verb == NULL) {
        (void)fprintf(stderr, "psctl: unknown verb '%s'; see psctl --help\n", c->argv[0]);
        return PSCTL_USAGE;
    }
    if (c->help) {
        verb_usage(verb);
        return PSCTL_OK;
    }
    c->argc--;
    c->argv++;
    const char *flag = c->npy != NULL && !verb->takes_npy ? "--npy"
                       : c->all && !verb->takes_all       ? "--all"
                       : c->yes && !verb->takes_yes       ? "--yes"
                                                          : NULL;
    if (flag != NULL || c->argc > verb->args_max) {
        (void)fprintf(stderr, "psctl: %s takes no %s; see psctl %s --help\n", verb->name,
                      flag != NULL ? flag : c->argv[verb->args_max], verb->name);
        return PSCTL_USAGE;
    }
    return verb->run(c);
}

int main(int argc, char **argv)
{
    struct psctl c = {.timeout_ms = 5000};
    char **rest = (char **)calloc((size_t)argc + 1, sizeof(*rest));
    if (rest == NULL) {
        (void)fprintf(stderr, "psctl: out of memory\n");
        return PSCTL_FAILED;
    }
    c.argv = rest;
    enum psctl_exit code = parse(&c, argc, argv) ? run(&c) : PSCTL_USAGE;
    psctl_disconnect(&c);
    free((void *)rest);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)fprintf(stderr, "psctl: cannot write to standard output\n");
        code = PSCTL_FAILED;
    }
    return (int)code;
}
