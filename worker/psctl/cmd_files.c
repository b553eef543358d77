/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl export and import: the variables of a container into a safetensors file, and back.
 *
 * Happy path: connect -> the library copies and says how far it is: a bar on standard error where that is a terminal -> one line
 * with what was copied; what has no value is not in the file, and named on standard error. The files of an index are imported
 * one after the other; a .npy file is psctl set. Failure modes: those of ps_export()
 * and ps_import(), whose text names the culprit; exit 1. An interrupt during an export leaves nothing behind; during an import
 * some variables may have their new values.
 */
#include "psctl.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, BAR_AFTER_MS = 300, BAR_EVERY_MS = 100, LEFT_OUT_BYTES = 300 };

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

struct psctl_copy psctl_copy_begin(const struct psctl *c)
{
    return (struct psctl_copy){.bar = !c->json && isatty(STDERR_FILENO) == 1, .started_ms = cli_clock_ms()};
}

void psctl_copied(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes)
{
    struct psctl_copy *copy = ctx;
    int64_t now_ms = cli_clock_ms();
    copy->bytes = done_bytes;
    if (copy->bar && now_ms - copy->started_ms >= BAR_AFTER_MS && now_ms - copy->drawn_ms >= BAR_EVERY_MS) {
        draw(name, done_bytes, total_bytes, now_ms - copy->started_ms);
        copy->drawn = true;
        copy->drawn_ms = now_ms;
    }
}

void psctl_copy_wipe(const struct psctl_copy *copy)
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

void psctl_copy_report(const struct psctl *c, const struct psctl_copy *copy, const char *path, const char *past, int variables,
                       int64_t left_out)
{
    char bytes[32];
    double seconds = (double)(cli_clock_ms() - copy->started_ms) / 1000;
    double rate = seconds > 0 ? (double)copy->bytes / seconds : 0;
    if (c->json) {
        cli_json_print(json_pack("{s:o, s:s, s:i, s:o*, s:I, s:o, s:o}", "file", cli_json_text(path), "container",
                                 container_of(c), "variables", variables, "left_out",
                                 left_out >= 0 ? json_integer((json_int_t)left_out) : NULL, "bytes", (json_int_t)copy->bytes,
                                 "seconds", cli_json_f64(seconds), "bytes_per_second", cli_json_f64(rate)));
        return;
    }
    (void)printf("%s %d variable%s, %s, in %.2f s, %.0f MB/s: %s\n", past, variables, variables == 1 ? "" : "s",
                 cli_bytes((double)copy->bytes, bytes, sizeof(bytes)), seconds, rate / 1e6, path);
}

static enum psctl_exit run_export(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    if (code != PSCTL_OK) {
        return code;
    }
    struct psctl_copy copy = psctl_copy_begin(c);
    ps_file_options o;
    int variables = 0;
    ps_file_options_init(&o);
    o.copied = psctl_copied;
    o.ctx = &copy;
    ps_status st = ps_export(c->session, c->argv[0], &o, &variables);
    psctl_copy_wipe(&copy);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    struct left_out left_out;
    find_left_out(c, &left_out);
    psctl_copy_report(c, &copy, c->argv[0], "exported", variables, (int64_t)left_out.count);
    return PSCTL_OK;
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

/* ---- import ---- */

enum { PATH_BYTES = 4096 };

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n > k && strcmp(path + n - k, ending) == 0;
}

/* w.npy: the variable w, as psctl set has it. */
static enum psctl_exit import_npy(struct psctl *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[PATH_BYTES];
    char *argv[1] = {name};
    struct psctl set = *c;
    (void)snprintf(name, sizeof(name), "%s", slash == NULL ? path : slash + 1);
    name[strlen(name) - strlen(".npy")] = '\0';
    set.npy = path;
    set.fill = false;
    set.argc = 1;
    set.argv = argv;
    enum psctl_exit code = psctl_verb_set.run(&set);
    c->infos = set.infos;
    return code;
}

/* One file; *variables and copy->bytes grow. */
static ps_status import_one(struct psctl *c, struct psctl_copy *copy, const char *path, int *variables)
{
    ps_file_options o;
    int own = 0;
    uint64_t before = copy->bytes;
    ps_file_options_init(&o);
    o.copied = psctl_copied;
    o.ctx = copy;
    o.slots = c->slots;
    ps_status st = ps_import(c->session, path, &o, &own);
    psctl_copy_wipe(copy);
    copy->bytes = before + (st == PS_OK ? copy->bytes : 0);
    *variables += own;
    return st;
}

static void path_beside(const char *index, const char *name, char *path, size_t n)
{
    const char *slash = strrchr(index, '/');
    (void)snprintf(path, n, "%.*s%s", slash == NULL ? 0 : (int)(slash - index + 1), index, name);
}

/* Files of an index, each once: all are looked at before the first is given. */
static enum psctl_exit import_index(struct psctl *c, struct psctl_copy *copy, const char *index, int *variables)
{
    json_error_t error;
    const char *key = NULL;
    json_t *value = NULL;
    json_t *root = json_load_file(index, JSON_REJECT_DUPLICATES, &error);
    json_t *map = json_object_get(root, "weight_map");
    json_t *names = json_object();
    ps_status st = json_is_object(map) && names != NULL ? PS_OK : PS_INVALID_ARGUMENT;
    if (st != PS_OK) {
        psctl_error(c, st, "%s: %s", index,
                    root == NULL ? error.text : "it has no weight_map: it is no index of safetensors files");
    }
    json_object_foreach(map, key, value)
    {
        const char *name = json_string_value(value);
        if (st == PS_OK && (name == NULL || strchr(name, '/') != NULL || json_object_set_new(names, name, json_true()) != 0)) {
            st = PS_INVALID_ARGUMENT;
            psctl_error(c, st, "%s: the file of tensor '%.200s' is no name of a file beside it", index, key);
        }
    }
    for (int look = 0; look < 2; look++) {
        json_object_foreach(names, key, value)
        {
            char path[PATH_BYTES];
            path_beside(index, key, path, sizeof(path));
            if (st == PS_OK) {
                st = look == 0 ? ps_file_check(path, NULL) : import_one(c, copy, path, variables);
                if (st != PS_OK) {
                    (void)psctl_last_failed(c, st);
                }
            }
        }
    }
    json_decref(names);
    json_decref(root);
    return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
}

enum psctl_exit psctl_import(struct psctl *c, const char *path)
{
    int variables = 0;
    if (!psctl_confirmed(c, "Give the variables of container '%s' the values of %s?", container_of(c), path)) {
        return PSCTL_FAILED;
    }
    if (ends_with(path, ".npy")) {
        return import_npy(c, path);
    }
    struct psctl_copy copy = psctl_copy_begin(c);
    if (ends_with(path, ".index.json")) {
        enum psctl_exit code = import_index(c, &copy, path, &variables);
        if (code != PSCTL_OK) {
            return code;
        }
    } else {
        ps_status st = import_one(c, &copy, path, &variables);
        if (st != PS_OK) {
            return psctl_last_failed(c, st);
        }
    }
    psctl_copy_report(c, &copy, path, "imported", variables, -1);
    return PSCTL_OK;
}

static enum psctl_exit run_import(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    return code == PSCTL_OK ? psctl_import(c, c->argv[0]) : code;
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
    .help = "Of psctl export, of psctl checkpoint export, or of anybody. The file is checked whole and compared with what\n"
            "exists before the first variable changes; missing variables are created, round robin in the order of the\n"
            "file. Slots of those that exist stay, and those of the file are passed over (psctl checkpoint import gives them). "
            "FILE may also be an index,\n"
            "model.safetensors.index.json, whose files lie beside it, or NAME.npy: values of the variable NAME, which is\n"
            "there. Asks first on a terminal. --timeout is for each variable.\n",
};
