/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. Flags stand anywhere (common/options.h); the first word is the verb; the other words are its arguments.
 * Failure modes, exit 2: an unknown flag or verb, or a flag that the verb does not take, is named with the nearest name. */
#include "psctl.h"

#include "common/near.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_SEEN = 64, NAMES_BYTES = 200, DAY_MS = 24 * 60 * 60 * 1000 };

#define FIELD(field_) PSI_OPTION_FIELD(struct psctl, field_)
#define ON .type = PSI_OPTION_BOOL, .flag_only = true
#define OF_TEXT .type = PSI_OPTION_TEXT, .flag_only = true, .min = 1
#define PATH .type = PSI_OPTION_TEXT, .flag_only = true, .metavar = "FILE"
#define TEXTS .type = PSI_OPTION_TEXTS, .flag_only = true, .max = PSCTL_TEXTS_MAX
#define TIME .type = PSI_OPTION_DURATION, .unit = "s", .flag_only = true, .min = 1, .max = DAY_MS
const struct psi_option psctl_flags[PSCTL_FLAG_COUNT] = {
    [PSCTL_TARGET] =
        {.name = "target",
         .letter = 't',
         OF_TEXT,
         .metavar = "HOST:PORT,...",
         .help = "any task of the cluster, also psd://HOST:PORT, grpc://HOST:PORT and unix:PATH; of several the first that "
                 "answers (default: PSD_TARGET, then 127.0.0.1:2222)",
         FIELD(target)},
    [PSCTL_KEY_FILE] = {.name = "key_file",
                        PATH,
                        .help = "your key (psctl key export); else PSD_KEY_FILE, ~/.config/psd/key or /etc/psd/psd.keys, if it "
                                "is there; an empty one: no key",
                        FIELD(key_file)},
    [PSCTL_TLS_CERT] = {.name = "tls_cert",
                        PATH,
                        .help = "your certificate instead of a key, PEM, with --tls_key and --tls_ca",
                        FIELD(tls_cert)},
    [PSCTL_TLS_KEY] = {.name = "tls_key", PATH, .help = "its private key", FIELD(tls_key)},
    [PSCTL_TLS_CA] = {.name = "tls_ca", PATH, .help = "authority whose certificates tasks must have", FIELD(tls_ca)},
    [PSCTL_TIMEOUT] =
        {.name = "timeout", TIME, .default_text = "5s", .metavar = "SECONDS", .help = "for the whole command", FIELD(timeout_ms)},
    [PSCTL_JSON] = {.name = "json", ON, .help = "print JSON", FIELD(json)},
    [PSCTL_HELP] = {.name = "help", .letter = 'h', ON, .help = "this, or help for VERB", FIELD(help)},
    [PSCTL_VERSION] = {.name = "version", ON, .help = "version of psctl", FIELD(version)},
    [PSCTL_WATCH] = {.name = "watch",
                     TIME,
                     .bare = "2s",
                     .metavar = "[SECONDS]",
                     .help = "again and again until interrupted, every so often (2 s without SECONDS)",
                     FIELD(watch_ms)},
    [PSCTL_NPY] = {.name = "npy",
                   OF_TEXT,
                   .metavar = "FILE",
                   .help = "values in NumPy's format; - is standard output, or input",
                   FIELD(npy)},
    [PSCTL_FILL] = {.name = "fill", ON, .help = "one VALUE for every element", FIELD(fill)},
    [PSCTL_CONTAINER] = {.name = "container",
                         TEXTS,
                         .metavar = "NAME",
                         .help =
                             "this container (default: " PSCTL_CONTAINER_DEFAULT ", where variables are by default; of a restore "
                             "all, and it may be given again)",
                         FIELD(containers)},
    [PSCTL_TASK] = {.name = "task", OF_TEXT, .metavar = "TASK", .help = "this task only, /job:ps/task:1 or ps:1", FIELD(task)},
    [PSCTL_ALL] = {.name = "all",
                   ON,
                   .help =
                       "everything: all tasks (shutdown), all containers (reset), all variables (set-lr), also sessions that are "
                       "long gone (workers)",
                   FIELD(all)},
    [PSCTL_YES] = {.name = "yes", .letter = 'y', ON, .help = "do not ask", FIELD(yes)},
    [PSCTL_SLOTS] = {.name = "slots", ON, .help = "slots of the optimizers, too, under TensorFlow's names", FIELD(slots)},
    [PSCTL_SHARD] = {.name = "shard",
                     .type = PSI_OPTION_BYTES,
                     .flag_only = true,
                     .min = 1,
                     .max = INT64_MAX,
                     .metavar = "BYTES",
                     .help = "several files of at most so many bytes of values each (512M, 2GiB), and an index of them",
                     FIELD(shard_bytes)},
    [PSCTL_FORCE] = {.name = "force", ON, .help = "also the newest checkpoint that is whole", FIELD(force)},
    [PSCTL_ONLY] = {.name = "only",
                    TEXTS,
                    .metavar = "PATTERN",
                    .help =
                        "only variables of such names (* ? [a-z]; * also stands for a /), and their slots; may be given again",
                    FIELD(only)},
    [PSCTL_PREFIX] =
        {.name = "prefix",
         TEXTS,
         .metavar = "OLD=NEW",
         .help = "names that begin with OLD begin with NEW instead, here of an import, in the file of an export; OLD= takes "
                 "it off, =NEW goes before every name; may be given again: the longest OLD counts",
         FIELD(prefix)},
    [PSCTL_CREATE] = {.name = "create", ON, .help = "with --only or --prefix: create what is not there", FIELD(create)},
    [PSCTL_SPREAD] = {.name = "spread", ON, .help = "dealt anew over all ps tasks there are, and saved so", FIELD(spread)},
    [PSCTL_NO_SAVE] = {.name = "no_save", ON, .help = "do not save first what a restore discards", FIELD(no_save)},
    [PSCTL_DEF] = {.name = "def", ON, .help = "TensorFlow's VariableDef of each instead", FIELD(def)},
    [PSCTL_FILE] = {.name = "file",
                    OF_TEXT,
                    .metavar = "FILE",
                    .help =
                        "the key file, with all lines of a server; else PSD_KEY_FILE, ~/.config/psd/key or /etc/psd/psd.keys, "
                        "as every program finds it",
                    FIELD(file)},
    [PSCTL_OUT] = {.name = "out", OF_TEXT, .metavar = "FILE", .help = "the file that is made (default: NAME.key)", FIELD(out)},
    [PSCTL_ROLE] = {.name = "role", OF_TEXT, .metavar = "ROLE", .help = "of a key: ps, worker, monitor or admin", FIELD(role)},
    [PSCTL_HOSTS] =
        {.name = "hosts", OF_TEXT, .metavar = "A,B,...", .help = "a key for each host, NAME-A, NAME-B, ...", FIELD(hosts)},
    [PSCTL_UNTIL] = {.name = "until",
                     OF_TEXT,
                     .metavar = "YYYY-MM-DD",
                     .help = "the last day, UTC, on which the key is good (default: it does not expire)",
                     FIELD(until)},
    [PSCTL_CLUSTER] = {.name = "cluster",
                       OF_TEXT,
                       .metavar = "NAME",
                       .help =
                           "name of the cluster that a key is for; of psctl cluster what psd and pstrain take (default: auto)",
                       FIELD(cluster)},
    [PSCTL_DIR] = {.name = "dir",
                   OF_TEXT,
                   .metavar = "DIR",
                   .help = "where the authority and its certificates are (default: this directory)",
                   FIELD(dir)},
    [PSCTL_USER] = {.name = "user", OF_TEXT, .metavar = "NAME", .help = "a certificate for this person or program", FIELD(user)},
    [PSCTL_DAYS] = {.name = "days",
                    .type = PSI_OPTION_INT,
                    .flag_only = true,
                    .min = 1,
                    .max = 36500,
                    .metavar = "DAYS",
                    .help = "how long a certificate is good (default: 3650 of an authority, 365 of others)",
                    FIELD(days)},
    [PSCTL_BY_KEY] = {.name = "by_key", ON, .help = "how many sessions each line of the key file has", FIELD(by_key)},
    [PSCTL_CLEAR] = {.name = "clear", ON, .help = "the program's own again", FIELD(clear)},
    [PSCTL_SHOW] = {.name = "show", ON, .help = "what the variables of the cluster manager say", FIELD(show)},
    [PSCTL_FOLLOW] = {.name = "follow", ON, .help = "and what happens from now on, until interrupted", FIELD(follow)},
    [PSCTL_JOB_NAME] = {.name = "job_name",
                        OF_TEXT,
                        .metavar = "JOB",
                        .help = "job of this process, where the variables do not say it",
                        FIELD(job_name)},
#define RESOLVER_ROW(name_, kind_, metavar_, help_, ...)                                                                         \
    [PSCTL_RESOLVER_##name_] = {.name = #name_,                                                                                  \
                                .type = PSI_OPTION_##kind_,                                                                      \
                                .flag_only = true,                                                                               \
                                .metavar = (metavar_),                                                                           \
                                .help = help_,                                                                                   \
                                FIELD(resolver.name_),                                                                           \
                                __VA_ARGS__},
    PSI_RESOLVER_ROWS(RESOLVER_ROW)};

void psctl_nearer(const char *text, const char *name, char *near, size_t n)
{
    if (psi_near(text, name) < psi_near(text, near)) {
        (void)snprintf(near, n, "%s", name);
    }
}

const struct psctl_verb *psctl_find_verb(const struct psctl *c, const char *name)
{
    char near[NAME_MAX_SEEN] = "";
    for (size_t i = 0; c->verbs[i] != NULL; i++) {
        const struct psctl_verb *verb = c->verbs[i];
        if (strcmp(verb->name, name) == 0) {
            return verb;
        }
        psctl_nearer(name, verb->name, near, sizeof(near));
    }
    psctl_error(c, PS_INVALID_ARGUMENT, "unknown verb '%.100s'%s%s%s; see psctl --help", name,
                near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
    return NULL;
}

static enum psctl_exit check(const struct psctl *c)
{
    const struct psctl_verb *verb = c->verb;
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if ((c->given & ~(verb->flags | PSCTL_FLAGS_COMMON) & PSCTL_FLAG_BIT(i)) != 0) {
            return psctl_misused(c, "%s takes no --%s; see psctl %s --help", verb->name, psctl_flags[i].name, verb->name);
        }
    }
    if (c->containers[0] != NULL && c->containers[1] != NULL && strcmp(verb->name, "checkpoint") != 0) {
        return psctl_misused(c, "%s takes one --container; see psctl %s --help", verb->name, verb->name);
    }
    if (c->argc > verb->args_max) {
        return psctl_misused(c, "%s takes no '%.100s'; see psctl %s --help", verb->name, c->argv[verb->args_max], verb->name);
    }
    if (c->argc < verb->args_min) {
        return psctl_misused(c, "%s needs %s; see psctl %s --help", verb->name, verb->arguments, verb->name);
    }
    return PSCTL_OK;
}

enum psctl_exit psctl_act(struct psctl *c, const struct psctl_action *actions, size_t count)
{
    const char *verb = c->verb->name;
    char names[NAMES_BYTES] = "";
    uint64_t of_some = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t at = strlen(names);
        of_some |= actions[i].flags;
        (void)snprintf(names + at, sizeof(names) - at, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", actions[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        const struct psctl_action *a = &actions[i];
        if (strcmp(c->argv[0], a->name) != 0) {
            continue;
        }
        if (c->argc - 1 < a->args_min || c->argc - 1 > a->args_max) {
            return psctl_misused(c, "%s %s takes %s; see psctl %s --help", verb, a->name,
                                 a->args_max == 0 ? "no argument" : a->arguments, verb);
        }
        for (uint32_t k = 0; k < PSCTL_FLAG_COUNT; k++) {
            if ((c->given & of_some & ~a->flags & PSCTL_FLAG_BIT(k)) != 0) {
                return psctl_misused(c, "%s %s takes no --%s; see psctl %s --help", verb, a->name, psctl_flags[k].name, verb);
            }
        }
        return a->run(c);
    }
    return psctl_misused(c, "%s '%.100s': %s; see psctl %s --help", verb, c->argv[0], names, verb);
}

/* True if the command line has --json. Known before parsing, so that errors of parsing are printed as JSON. */
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
    uint8_t from[PSCTL_FLAG_COUNT];
    struct psi_options o;
    struct psi_err err = {.code = PS_OK};
    psi_options_init(&o, psctl_flags, PSCTL_FLAG_COUNT, c, from);
    c->json = asks_for_json(argc, argv); /* so that errors of parsing are printed as JSON; parsing sets it again */
    if (psi_options_parse_argv(&o, &argc, argv, true, &err) != PS_OK) {
        return psctl_misused(c, "%s; see psctl --help", err.text);
    }
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        c->given |= from[i] != PSI_FROM_DEFAULT ? PSCTL_FLAG_BIT(i) : 0;
    }
    c->json = c->json && (c->given & PSCTL_FLAG(JSON)) != 0;
    c->container = c->containers[0];
    c->argc = argc - 1;
    c->argv = argv + 1;
    if (c->version || (c->help && c->argc == 0)) {
        return PSCTL_OK;
    }
    if (c->argc == 0 && c->json) {
        return psctl_misused(c, "a verb is missing; see psctl --help");
    }
    if (c->argc == 0) {
        psctl_usage(c, stderr);
        return PSCTL_USAGE;
    }
    c->verb = psctl_find_verb(c, c->argv[0]);
    if (c->verb == NULL) {
        return PSCTL_USAGE;
    }
    c->argc--;
    c->argv++;
    return c->help ? PSCTL_OK : check(c);
}
