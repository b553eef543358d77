/* SPDX-License-Identifier: Apache-2.0 */
/* psctl export and import: the variables of a container into a safetensors file, and back; a .npy file by psctl set
 * (import_npy()). A terminal shows a bar of progress; at the end a line says what was copied. Variables without a value are not
 * in the exported file, and are named on standard error. An import of a part of the names, or under other names, prints which
 * were taken, left out and kept. Failure modes, exit 1: those of ps_export() and ps_import(). An interrupted export leaves no
 * file; after an interrupted import some variables may have their new values. */
#include "psctl.h"

#include "common/utf8.h"

#include <fnmatch.h>
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

void psctl_copy_share(struct psctl_copy *copy, double part, const char *what)
{
    char bar[BAR_WIDTH + 1];
    if (copy->bar) {
        (void)fprintf(stderr, "\r[%s] %3d %%  %s\033[K", cli_bar(part, BAR_WIDTH, '#', '.', bar), (int)(part * 100), what);
        (void)fflush(stderr);
        copy->drawn = true;
    }
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

struct left_out {
    const char *container;
    const char *const *only; /* name patterns of --only; empty: all variables */
    size_t count, named;     /* how many variables have no value; how many of their names are in `names` */
    char names[LEFT_OUT_BYTES];
};

static bool is_meant(const char *const *only, const char *name)
{
    bool meant = only[0] == NULL;
    for (size_t i = 0; only[i] != NULL; i++) {
        meant = meant || fnmatch(only[i], name, 0) == 0;
    }
    return meant;
}

static void each(void *ctx, const ps_variable_info *info)
{
    struct left_out *l = ctx;
    size_t used = strlen(l->names);
    ps_variable_info whole = *info;
    ps_variable_info_whole(&whole);
    if (info->initialised || info->part > 0 || strcmp(info->container, l->container) != 0 || !is_meant(l->only, whole.name)) {
        return; /* of a cut variable look at part 0 only: if only some parts lack a value, the export itself fails */
    }
    l->count++;
    if (l->named + 1 == l->count && used + strlen(whole.name) + 3 < sizeof(l->names)) {
        (void)snprintf(l->names + used, sizeof(l->names) - used, "%s%s", l->named > 0 ? ", " : "", whole.name);
        l->named++;
    }
}

/* Find the container's variables without a value, to name them: else the user would take the file for the whole model. */
static void find_left_out(struct psctl *c, struct left_out *l)
{
    *l = (struct left_out){.container = container_of(c), .only = c->only};
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
        cli_json_print(json_pack("{s:o, s:s, s:i, s:o*, s:I, s:o, s:o, s:O*, s:O*, s:O*, s:o*}", "file", cli_json_text(path),
                                 "container", container_of(c), "variables", variables, "left_out",
                                 left_out >= 0 ? json_integer((json_int_t)left_out) : NULL, "bytes", (json_int_t)copy->bytes,
                                 "seconds", cli_json_f64(seconds), "bytes_per_second", cli_json_f64(rate), "taken", copy->taken,
                                 "left_out_tensors", copy->left_out, "kept", copy->kept, "saved",
                                 copy->saved != 0 ? json_integer((json_int_t)copy->saved) : NULL));
        return;
    }
    (void)printf("%s %d variable%s, %s, in %.2f s, %.0f MB/s: %s\n", past, variables, variables == 1 ? "" : "s",
                 cli_bytes((double)copy->bytes, bytes, sizeof(bytes)), seconds, rate / 1e6, path);
    if (copy->saved != 0) {
        (void)printf("saved as checkpoint %" PRIu64 "\n", copy->saved);
    }
}

bool psctl_is_file(const struct psctl *c, const char *path)
{
    bool is = strcmp(path, "-") != 0;
    if (!is) {
        (void)psctl_misused(c, "an export is a file, and cannot go to standard output; a file of that name is ./-");
    }
    return is;
}

static enum psctl_exit run_export(struct psctl *c)
{
    if (!psctl_is_file(c, c->argv[0])) {
        return PSCTL_USAGE;
    }
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
    o.only = c->only[0] != NULL ? c->only : NULL;
    o.prefixes = c->prefix[0] != NULL ? c->prefix : NULL;
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
    .each = true,
    .arguments = "FILE",
    .summary = "all variables of a container into a safetensors file",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(ONLY) | PSCTL_FLAG(PREFIX),
    .words = "",
    .run = run_export,
    .help = "Live values of all tasks; FILE appears whole or not at all, and PyTorch and NumPy read it\n"
            "(safetensors.torch.load_file). Values only, no slots. Not one instant of the whole model while workers\n"
            "push. --prefix gives variables other names in the file, as psctl import gives them here: two that meet in one name\n"
            "are found before anything is written. --timeout is for each variable.\n",
};

enum { PATH_BYTES = 4096 };

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n > k && strcmp(path + n - k, ending) == 0;
}

/* psctl import FILE.npy sets variable FILE; NAME=FILE.npy, if no file has that whole name, sets variable NAME. */
static enum psctl_exit import_npy(struct psctl *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *equals = access(path, F_OK) != 0 ? strchr(path, '=') : NULL;
    char name[PATH_BYTES];
    char *argv[1] = {name};
    struct psctl set = *c;
    set.verb = &psctl_verb_set;
    if (equals != NULL && equals - path > PS_NAME_BYTES_MAX) {
        return psctl_misused(c, "the name of a variable has %d bytes at most, and the one before '=' has %td", PS_NAME_BYTES_MAX,
                             equals - path);
    }
    (void)snprintf(name, sizeof(name), "%s", slash == NULL || equals != NULL ? path : slash + 1);
    name[equals != NULL ? (size_t)(equals - path) : strlen(name) - strlen(".npy")] = '\0';
    set.npy = equals != NULL ? equals + 1 : path;
    set.fill = false;
    set.imports = true;
    set.argc = 1;
    set.argv = argv;
    enum psctl_exit code = psctl_verb_set.run(&set);
    c->infos = set.infos;
    return code;
}

static void on_taken(void *ctx, const char *tensor, const char *variable)
{
    struct psctl_copy *copy = ctx;
    int full = tensor == NULL ? json_array_append_new(copy->kept, json_string(variable))
               : variable == NULL
                   ? json_array_append_new(copy->left_out, json_string(tensor))
                   : json_array_append_new(copy->taken, json_pack("{s:s, s:s}", "tensor", tensor, "variable", variable));
    copy->full = copy->full || full != 0;
}

static void print_names(const char *what, const json_t *names)
{
    size_t i = 0;
    json_t *name = NULL;
    json_array_foreach((json_t *)(uintptr_t)names, i, name)
    {
        char shown[LEFT_OUT_BYTES];
        (void)psi_utf8_shorten(json_string_value(name), shown, sizeof(shown));
        psi_utf8_printable(shown);
        (void)printf("%s %s\n", what, shown);
    }
}

/* After an import of a part or under other names: print the names of the file that were taken (and as which variables) or left
 * out, and the container's variables that were kept. */
static void print_taken(const struct psctl_copy *copy)
{
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(copy->taken, i, row)
    {
        const char *tensor = json_string_value(json_object_get(row, "tensor"));
        const char *variable = json_string_value(json_object_get(row, "variable"));
        bool same = strcmp(tensor, variable) == 0;
        (void)printf("taken:    %s%s%s\n", tensor, same ? "" : " as ", same ? "" : variable);
    }
    print_names("left out:", copy->left_out);
    print_names("kept:    ", copy->kept);
    if (copy->full) {
        (void)fprintf(stderr, "psctl: out of memory: not all names are listed\n");
    }
}

static enum psctl_exit import_file(struct psctl *c, const char *path)
{
    bool part = c->only[0] != NULL || c->prefix[0] != NULL;
    struct psctl_copy copy = psctl_copy_begin(c);
    ps_file_options o;
    int variables = 0;
    ps_file_options_init(&o);
    o.copied = psctl_copied;
    o.ctx = &copy;
    o.slots = c->slots;
    o.existing = part && !c->create;
    o.only = c->only[0] != NULL ? c->only : NULL;
    o.prefixes = c->prefix[0] != NULL ? c->prefix : NULL;
    if (part) {
        o.taken = on_taken;
        copy.taken = json_array();
        copy.left_out = json_array();
        copy.kept = json_array();
    }
    ps_status st = ps_import(c->session, path, &o, &variables);
    psctl_copy_wipe(&copy);
    enum psctl_exit code = st == PS_OK ? psctl_save_imported(c, &copy.saved) : psctl_last_failed(c, st);
    if (code == PSCTL_OK) {
        psctl_copy_report(c, &copy, path, "imported", variables, part ? (int64_t)json_array_size(copy.left_out) : -1);
    }
    if (code == PSCTL_OK && part && !c->json) {
        print_taken(&copy);
    }
    json_decref(copy.taken);
    json_decref(copy.left_out);
    json_decref(copy.kept);
    return code;
}

enum psctl_exit psctl_import(struct psctl *c, const char *path)
{
    bool npy = ends_with(path, ".npy");
    bool part = c->only[0] != NULL || c->prefix[0] != NULL;
    if (npy && part) {
        return psctl_misused(c,
                             "%s is one variable, whose name is the file's, or in front of it (NAME=FILE.npy): no --only and no "
                             "--prefix; see psctl import --help",
                             path);
    }
    if (c->create && !part) {
        return psctl_misused(c, "--create is for --only and --prefix: without them all is created; see psctl import --help");
    }
    if (!psctl_confirmed(c, "Give the variables of container '%s' the values of %s?", container_of(c), path)) {
        return PSCTL_FAILED;
    }
    /* learn now which process each task is: psctl_save_imported() looks again later, to notice a restart */
    enum psctl_exit code = c->infos == NULL ? psctl_ask(c, psctl_left_ms(c) / 2) : PSCTL_OK;
    if (code != PSCTL_OK) {
        return code;
    }
    return npy ? import_npy(c, path) : import_file(c, path);
}

static enum psctl_exit run_import(struct psctl *c)
{
    enum psctl_exit code = psctl_connect(c);
    return code == PSCTL_OK ? psctl_import(c, c->argv[0]) : code;
}

const struct psctl_verb psctl_verb_import = {
    .name = "import",
    .look = "vars, and psctl checkpoint list",
    .each = true,
    .arguments = "FILE",
    .summary = "values of a safetensors file into the variables of a container",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES) | PSCTL_FLAG(ONLY) | PSCTL_FLAG(PREFIX) | PSCTL_FLAG(CREATE),
    .words = "",
    .run = run_import,
    .help = "Of psctl export, of psctl checkpoint export, or of anybody. The file is checked whole and compared with what\n"
            "exists before the first variable changes; missing variables are created, round robin in the order of the\n"
            "file. Slots of those that exist stay, and those of the file are passed over (psctl checkpoint import gives them).\n"
            "A warm start: --only takes a part of the file and looks at nothing else of it, --prefix gives its variables other\n"
            "names; then all of them must be there, unless --create, and what was taken, left out, and kept of the container is "
            "listed. Patterns are compared\n"
            "with the names in the file. A pattern or an OLD that fits nothing, two that meet in one name, another shape: found\n"
            "before anything changes. FILE may also be an index, model.safetensors.index.json, whose files lie beside it, or\n"
            "w.npy: values of the variable w, which is there; NAME=FILE.npy: of NAME, such as layer1/w=w.npy. Asks first on a\n"
            "terminal. --timeout is for each variable. Where there is a checkpoint_dir a checkpoint is made behind the values,\n"
            "of one variable too, and its number is said: a ps that is lost then comes back with them.\n",
};
