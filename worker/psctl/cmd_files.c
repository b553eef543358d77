/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl export and import: the variables of a container into a safetensors file, and back.
 *
 * Happy path: connect -> the library copies and says how far it is: a bar on standard error where that is a terminal -> one line
 * with what was copied; what has no value is not in the file, and named on standard error. Failure modes: those of ps_export()
 * and ps_import(), whose text names the culprit; exit 1. An interrupt during an export leaves nothing behind; during an import
 * some variables may have their new values.
 */
#include "psctl.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, BAR_AFTER_MS = 300, BAR_EVERY_MS = 100, LEFT_OUT_BYTES = 300 };

struct copy {
    bool bar;   /* standard error is a terminal */
    bool drawn; /* the bar is on it */
    int64_t started_ms, drawn_ms;
    uint64_t bytes;
};

static void draw(const char *name, uint64_t done, uint64_t total, int64_t elapsed_ms)
{
    char bar[BAR_WIDTH + 1];
    char a[32];
    char b[32];
    char rate[32];
    double part = total > 0 ? (double)done / (double)total : 1;
    (void)fprintf(stderr, "\r[%s] %3d %%  %s of %s  %s/s  %.30s\033[K", cli_bar(part, BAR_WIDTH, '#', '.', bar),
                  (int)(part * 100), cli_bytes((double)done, a, sizeof(a)), cli_bytes((double)total, b, sizeof(b)),
                  cli_bytes((double)done * 1000 / (double)(elapsed_ms > 0 ? elapsed_ms : 1), rate, sizeof(rate)), name);
    (void)fflush(stderr);
}

static void on_copied(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes)
{
    struct copy *copy = ctx;
    int64_t now_ms = cli_clock_ms();
    copy->bytes = done_bytes;
    if (copy->bar && now_ms - copy->started_ms >= BAR_AFTER_MS && now_ms - copy->drawn_ms >= BAR_EVERY_MS) {
        draw(name, done_bytes, total_bytes, now_ms - copy->started_ms);
        copy->drawn = true;
        copy->drawn_ms = now_ms;
    }
}

static void wipe(const struct copy *copy)
{
    if (copy->drawn) {
        (void)fputs("\r\033[K", stderr);
    }
}

static const char *container_of(const struct psctl *c)
{
    return c->container != NULL ? c->container : PSCTL_CONTAINER_DEFAULT;
}

/* Variables without a value, which no export has. */
struct left_out {
    const char *container;
    size_t count, named;
    char names[LEFT_OUT_BYTES]; /* as many as fit */
};

static void each(void *ctx, const ps_variable_info *info)
{
    struct left_out *l = ctx;
    size_t used = strlen(l->names);
    if (info->initialised || strcmp(info->container, l->container) != 0) {
        return;
    }
    l->count++;
    if (l->named + 1 == l->count && used + strlen(info->name) + 3 < sizeof(l->names)) {
        (void)snprintf(l->names + used, sizeof(l->names) - used, "%s%s", l->named > 0 ? ", " : "", info->name);
        l->named++;
    }
}

/* A file that is taken for all of the model must not lack a part of it in silence. */
static void find_left_out(struct psctl *c, struct left_out *l)
{
    *l = (struct left_out){.container = container_of(c)};
    psctl_restart_clock(c);
    for (int i = 0; i < ps_cluster_tasks(c->session); i++) {
        if (ps_task_variables(c->session, i, psctl_left_ms(c), each, l) != PS_OK) {
            (void)fprintf(stderr, "psctl: whether all variables have a value is not known: %s\n", ps_last_error());
            return;
        }
    }
    if (l->count > 0) {
        (void)fprintf(stderr, "psctl: %zu variable%s of container '%s' %s no value and %s not in the file: %s%s\n", l->count,
                      l->count > 1 ? "s" : "", l->container, l->count > 1 ? "have" : "has", l->count > 1 ? "are" : "is", l->names,
                      l->named < l->count ? ", ..." : "");
    }
}

static void report(const struct psctl *c, const char *past, int variables, const struct left_out *left_out,
                   const struct copy *copy)
{
    char bytes[32];
    double seconds = (double)(cli_clock_ms() - copy->started_ms) / 1000;
    double rate = seconds > 0 ? (double)copy->bytes / seconds : 0;
    if (c->json) {
        cli_json_print(json_pack(
            "{s:o, s:s, s:i, s:o*, s:I, s:o, s:o}", "file", cli_json_text(c->argv[0]), "container", container_of(c), "variables",
            variables, "left_out", left_out != NULL ? json_integer((json_int_t)left_out->count) : NULL, "bytes",
            (json_int_t)copy->bytes, "seconds", cli_json_f64(seconds), "bytes_per_second", cli_json_f64(rate)));
        return;
    }
    (void)printf("%s %d variable%s, %s, in %.2f s, %.0f MB/s: %s\n", past, variables, variables == 1 ? "" : "s",
                 cli_bytes((double)copy->bytes, bytes, sizeof(bytes)), seconds, rate / 1e6, c->argv[0]);
}

typedef ps_status (*copy_fn)(ps_session *s, const char *path, const ps_file_options *options, int *out_variables);

static enum psctl_exit run(struct psctl *c, copy_fn fn, const char *past)
{
    struct copy copy = {.bar = !c->json && isatty(STDERR_FILENO) == 1, .started_ms = cli_clock_ms()};
    ps_file_options o;
    int variables = 0;
    ps_file_options_init(&o);
    o.copied = on_copied;
    o.ctx = &copy;
    ps_status st = fn(c->session, c->argv[0], &o, &variables);
    wipe(&copy);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    struct left_out left_out;
    if (fn == ps_export) {
        find_left_out(c, &left_out);
    }
    report(c, past, variables, fn == ps_export ? &left_out : NULL, &copy);
    return PSCTL_OK;
}

static enum psctl_exit run_export(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    return code == PSCTL_OK ? run(c, ps_export, "exported") : code;
}

const struct psctl_verb psctl_verb_export = {
    .name = "export",
    .arguments = "FILE",
    .summary = "all variables of a container into a safetensors file",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER),
    .words = "",
    .run = run_export,
    .help = "Live values of all tasks; FILE appears whole or not at all, and PyTorch and NumPy read it\n"
            "(safetensors.torch.load_file). Values only, no slots. Not one instant of the whole model while workers\n"
            "push. --timeout is for each variable.\n",
};

static enum psctl_exit run_import(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!psctl_confirmed(c, "Give the variables of container '%s' the values of %s?", container_of(c), c->argv[0])) {
        return PSCTL_FAILED;
    }
    return run(c, ps_import, "imported");
}

const struct psctl_verb psctl_verb_import = {
    .name = "import",
    .arguments = "FILE",
    .summary = "values of a safetensors file into the variables of a container",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES),
    .words = "",
    .run = run_import,
    .help = "Of psctl export, or of anybody. The file is checked whole and compared with what exists before the first\n"
            "variable changes; missing variables are created, round robin in the order of the file. Slots of those that\n"
            "exist stay. Asks first on a terminal. --timeout is for each variable.\n",
};
