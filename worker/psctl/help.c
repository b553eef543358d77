/* SPDX-License-Identifier: Apache-2.0 */
/* psctl's usage texts and its bash completion, both made from the tables of verbs and flags. */
#include "psctl.h"

#include <string.h>

enum { HELP_BYTES_MAX = 16 << 10, COLUMN = 38 };

static void print_flags(FILE *to, uint64_t flags)
{
    struct psi_buf text;
    psi_buf_init(&text, HELP_BYTES_MAX);
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if ((flags & PSCTL_FLAG_BIT(i)) != 0 && psi_option_help(&psctl_flags[i], &text, NULL) != PS_OK) {
            (void)fprintf(stderr, "psctl: out of memory\n");
        }
    }
    (void)fwrite(text.data, 1, text.len, to);
    psi_buf_fini(&text);
}

/* Write a verb with its flags: "get NAME [--npy FILE] [--yes]". */
static void verb_line(const struct psctl_verb *verb, char *dst, size_t n)
{
    size_t len = (size_t)snprintf(dst, n, "%s%s%s", verb->name, verb->arguments[0] != '\0' ? " " : "", verb->arguments);
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT && len < n; i++) {
        const struct psi_option *row = &psctl_flags[i];
        if ((verb->flags & PSCTL_FLAG_BIT(i)) != 0) {
            len += (size_t)snprintf(dst + len, n - len, " [--%s%s%s]", row->name, row->metavar != NULL ? " " : "",
                                    row->metavar != NULL ? row->metavar : "");
        }
    }
}

void psctl_usage(const struct psctl *c, FILE *to)
{
    uint64_t flags = 0;
    (void)fprintf(to, "usage: psctl [-t TARGET] [--timeout S] [--json] VERB ...\n\n");
    for (size_t i = 0; c->verbs[i] != NULL; i++) {
        const struct psctl_verb *verb = c->verbs[i];
        char line[256];
        int n = snprintf(line, sizeof(line), "%s %s", verb->name, verb->arguments);
        (void)fprintf(to, "  %-*s%s%*s%s\n", COLUMN, line, n > COLUMN ? "\n" : " ", n > COLUMN ? COLUMN + 3 : 0, "",
                      verb->summary);
        flags |= verb->flags;
    }
    (void)fprintf(to, "\nFlags of all verbs:\n");
    print_flags(to, PSCTL_FLAGS_COMMON);
    (void)fprintf(to, "Flags of some, see psctl VERB --help:\n");
    print_flags(to, flags & ~PSCTL_FLAGS_COMMON);
    (void)fprintf(to, "\nExit status: 0 done, 1 something failed or a task is down, 2 usage.\n");
}

void psctl_verb_usage(const struct psctl_verb *verb)
{
    char line[256];
    verb_line(verb, line, sizeof(line));
    (void)printf("usage: psctl [-t TARGET] [--timeout S] [--json] %s\n%s.\n\n%s", line, verb->summary, verb->help);
    (void)putchar('\n');
    print_flags(stdout, verb->flags | PSCTL_FLAGS_COMMON);
}

static enum psctl_exit run_help(struct psctl *c)
{
    if (c->argc == 0) {
        psctl_usage(c, stdout);
        return PSCTL_OK;
    }
    const struct psctl_verb *verb = psctl_find_verb(c, c->argv[0]);
    if (verb == NULL) {
        return PSCTL_USAGE;
    }
    psctl_verb_usage(verb);
    return PSCTL_OK;
}

const struct psctl_verb psctl_verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .summary = "this, or what a verb does and takes",
    .args_max = 1,
    .words = "verb",
    .run = run_help,
    .help = "The same as psctl VERB --help.\n",
};

static void print_verbs(const struct psctl *c)
{
    for (size_t i = 0; c->verbs[i] != NULL; i++) {
        const struct psctl_verb *verb = c->verbs[i];
        (void)printf("%s%s", i > 0 ? " " : "", verb->name);
    }
}

static void print_words(uint64_t flags)
{
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if ((flags & PSCTL_FLAG_BIT(i)) != 0) {
            (void)printf(" --%s", psctl_flags[i].name);
        }
    }
}

static bool takes_value(const struct psi_option *row)
{
    return row->type != PSI_OPTION_BOOL && row->bare == NULL;
}

static void print_bash(const struct psctl *c)
{
    /* the script asks the cluster of the command line for names; if no answer comes within a second, it offers none */
    static const char head[] =
        "# SPDX-License-Identifier: Apache-2.0\n# bash completion for psctl; made by `psctl completion bash`\n"
        "# shellcheck shell=bash disable=SC2207\n"
        "_psctl_ask() {\n"
        "    local target=() i\n"
        "    for ((i = 1; i < ${#_psctl_words[@]}; i++)); do\n"
        "        case ${_psctl_words[i]} in\n"
        "            -t | --target) target=(-t \"${_psctl_words[i + 1]-}\") ;;\n"
        "            --target=*) target=(-t \"${_psctl_words[i]#*=}\") ;;\n"
        "        esac\n"
        "    done\n"
        "    psctl \"${target[@]}\" --timeout 1 \"$1\" 2>/dev/null | awk -v column=\"$2\" 'NR > 1 && NF "
        ">= 3 && $1 != \"total\" { print $column }' | sort -u\n"
        "}\n"
        "_psctl_candidates() {\n"
        "    case $1 in\n"
        "        variable) _psctl_ask vars 1 ;;\n"
        "        queue_name) _psctl_ask queues 1 ;;\n"
        "        container) _psctl_ask vars 2 ;;\n"
        "        task) _psctl_ask status 1 ;;\n"
        "        setting) _psctl_ask config 1 | grep -vx SETTING ;;\n"
        "        *) printf '%s\\n' \"$1\" ;;\n"
        "    esac\n"
        "}\n"
        "_psctl() {\n"
        "    local cur prev verb=\"\" flags words=\"\" word line i _psctl_words=()\n"
        "    # a colon ends a word for bash; addresses and task names have them\n"
        "    line=${COMP_LINE:0:COMP_POINT}\n"
        "    read -r -a _psctl_words <<<\"$line\"\n"
        "    [[ $line == *[[:blank:]] ]] && _psctl_words+=(\"\")\n"
        "    cur=${_psctl_words[${#_psctl_words[@]} - 1]}\n"
        "    prev=${_psctl_words[${#_psctl_words[@]} - 2]}\n"
        "    for ((i = 1; i < ${#_psctl_words[@]} - 1; i++)); do\n"
        "        case ${_psctl_words[i]} in\n";
    static const char middle[] = "            -*) ;;\n"
                                 "            *)\n"
                                 "                verb=${_psctl_words[i]}\n"
                                 "                break\n"
                                 "                ;;\n"
                                 "        esac\n"
                                 "    done\n"
                                 "    case $verb in\n";
    static const char tail[] = "    esac\n"
                               "    if [[ $verb == config && ${#_psctl_words[@]} -gt $((i + 2)) ]]; then\n"
                               "        case $prev in\n"
                               "            get | set) words=\"setting\" ;;\n"
                               "            log_level) words=\"debug info warn error off\" ;;\n"
                               "            *) words=\"\" ;;\n"
                               "        esac\n"
                               "    fi\n"
                               "    if [[ $cur == -* ]]; then\n"
                               "        words=$flags\n"
                               "    fi\n"
                               "    case $prev in\n";
    static const char end[] =
        "    esac\n"
        "    COMPREPLY=($(compgen -W \"$(for word in $words; do _psctl_candidates \"$word\"; done)\" -- \"$cur\"))\n"
        "    local before=${cur%\"${cur##*:}\"}\n"
        "    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
        "        COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
        "    fi\n"
        "}\n"
        "complete -o default -F _psctl psctl\n";
    (void)fputs(head, stdout);
    (void)printf("            -t");
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if (takes_value(&psctl_flags[i])) {
            (void)printf(" | --%s", psctl_flags[i].name);
        }
    }
    (void)printf(") ((i++)) ;;\n%s", middle);
    (void)printf("        \"\")\n            words=\"");
    print_verbs(c);
    (void)printf("\"\n            flags=\"");
    print_words(PSCTL_FLAGS_COMMON);
    (void)printf("\"\n            ;;\n");
    for (size_t i = 0; c->verbs[i] != NULL; i++) {
        const struct psctl_verb *verb = c->verbs[i];
        (void)printf("        %s)\n            words=\"", verb->name);
        if (strcmp(verb->words, "verb") == 0) {
            print_verbs(c);
        } else {
            (void)fputs(verb->words, stdout);
        }
        (void)printf("\"\n            flags=\"");
        print_words(verb->flags | PSCTL_FLAGS_COMMON);
        (void)printf("\"\n            ;;\n");
    }
    (void)fputs(tail, stdout);
    for (uint32_t i = 0; i < PSCTL_FLAG_COUNT; i++) {
        if (takes_value(&psctl_flags[i])) {
            (void)printf("        %s--%s) words=\"%s\" ;;\n", i == PSCTL_TARGET ? "-t | " : "", psctl_flags[i].name,
                         i == PSCTL_CONTAINER ? "container"
                         : i == PSCTL_TASK    ? "task"
                                              : "");
        }
    }
    (void)fputs(end, stdout);
}

static enum psctl_exit run_completion(struct psctl *c)
{
    if (strcmp(c->argv[0], "bash") != 0) {
        return psctl_misused(c, "completion is for bash; there is none for '%.100s'", c->argv[0]);
    }
    print_bash(c);
    return PSCTL_OK;
}

const struct psctl_verb psctl_verb_completion = {
    .name = "completion",
    .arguments = "bash",
    .summary = "print the script that completes command lines",
    .args_min = 1,
    .args_max = 1,
    .words = "bash",
    .run = run_completion,
    .help = "For bash: eval \"$(psctl completion bash)\", or the same script as a file in bash-completion's folder.\n",
};
