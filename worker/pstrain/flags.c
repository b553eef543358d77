/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line.
 * Happy path: defaults from the table -> each argument to its row -> the checks that concern several flags.
 * Failure modes: unknown flag (the nearest one is named), missing or bad value (what is allowed is named), contradictions.
 */
#include "flags.h"

#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { TEXT, INTEGER, NUMBER, SWITCH };
enum { NAME_BYTES = 64 };
/* The best of 0.01 to 0.5 after one epoch of softmax over a9a and agaricus together: on the first 0.05 is as good and 0.5 loses 1
 * % accuracy, on the second 0.5 gains 2 %. */
#define SPARSE_RATE 0.1

struct row {
    const char *name;
    enum type type;
    const char *default_text;
    const char *metavar;
    int64_t min, max; /* INTEGER */
    size_t field;     /* offset in struct flags */
    bool to_workers;  /* --local hands it on */
    const char *help;
    const char *group; /* starts a section of --help */
};

#define FIELD(field_) offsetof(struct flags, field_)
static const struct row rows[] = {
    {"cluster", TEXT, "", "SPEC", 0, 0, FIELD(cluster), false,
     "All tasks: ps=HOST:PORT,...;worker=HOST:PORT,... or the same as JSON or a Python literal, or @FILE", "The cluster"},
    {"ps_hosts", TEXT, "", "HOST:PORT,...", 0, 0, FIELD(ps_hosts), false, "Comma-separated list of hostname:port pairs", NULL},
    {"worker_hosts", TEXT, "", "HOST:PORT,...", 0, 0, FIELD(worker_hosts), false, "Comma-separated list of hostname:port pairs",
     NULL},
    {"cluster_name", TEXT, "", "NAME", 0, 0, FIELD(cluster_name), false, "What the cluster is called (psd --cluster_name)", NULL},
    {"job_name", TEXT, "", "JOB", 0, 0, FIELD(job_name), false, "One of 'ps', 'worker'", NULL},
    {"task_index", INTEGER, "0", "N", 0, 65535, FIELD(task_index), false, "Index of task within the job", NULL},
    {"local", TEXT, "", "ps=P,workers=W", 0, 0, FIELD(local), false,
     "Instead of the six above: start P ps tasks and W workers on this machine, and stop them all at the end", NULL},
    {"serve", SWITCH, "false", NULL, 0, 0, FIELD(serve), false,
     "Serve as the task, whatever its job, instead of training: it holds the variables that are pinned to it and runs calls "
     "(ps_call; psd.echo gives back its input)",
     NULL},
    {"insecure_any_peer", SWITCH, "false", NULL, 0, 0, FIELD(insecure_any_peer), false,
     "A ps task may listen on an address that other machines reach. There is no TLS yet: everybody who reaches the port can read "
     "and "
     "change everything",
     NULL},
    {"data", TEXT, "digits", "DATA", 0, 0, FIELD(data), true,
     "digits (UCI, in the distribution), mnist:DIR with the four MNIST files, or libsvm:TRAIN[,TEST] with sparse text (without "
     "TEST a fifth of TRAIN, always the same one, is held out for the test); plain or .gz",
     "What is trained"},
    {"model", TEXT, "mlp:128", "MODEL", 0, 0, FIELD(model), true,
     "softmax (with two classes this is logistic regression, and it may be written logistic), or mlp:N,N,... with hidden layers "
     "of "
     "N units (relu)",
     NULL},
    {"optimizer", TEXT, "adagrad", "RULE", 0, 0, FIELD(optimizer), true,
     "sgd, momentum, nesterov, adagrad or adam; runs on the ps tasks", NULL},
    {"learning_rate", NUMBER, "0.05", "R", 0, 0, FIELD(learning_rate), true,
     "Above 0. With libsvm data and sgd or adagrad the default is 0.1; where the rows have few values that are not 0, try 0.5",
     NULL},
    {"momentum", NUMBER, "0.9", "M", 0, 0, FIELD(momentum), true, "Of momentum and nesterov", NULL},
    {"batch_size", INTEGER, "32", "N", 1, 1 << 20, FIELD(batch_size), true, "Examples in a step of one worker", NULL},
    {"epochs", INTEGER, "10", "N", 1, 1000000, FIELD(epochs), true, "Passes over the data in this run, all workers together",
     NULL},
    {"steps", INTEGER, "0", "N", 1, INT64_MAX, FIELD(steps), true, "Instead of --epochs: the global step to reach", NULL},
    {"seed", INTEGER, "0", "N", 0, INT64_MAX, FIELD(seed), true,
     "Of the first weights and of the order of the data; the same for all workers", NULL},
    {"fresh", SWITCH, "false", NULL, 0, 0, FIELD(fresh), false,
     "Start over on running ps tasks: the chief empties them first, other workers wait for that, --timeout at most. Give it to "
     "all workers",
     "How it runs"},
    {"container", TEXT, "localhost", "NAME", 0, 0, FIELD(container), true,
     "Of the model: programs with different ones never meet", NULL},
    {"placement", TEXT, "round_robin", "WAY", 0, 0, FIELD(placement), true,
     "Of the variables on the ps tasks: round_robin, in turn; or balanced, each where the fewest bytes are", NULL},
    {"log_device_placement", SWITCH, "false", NULL, 0, 0, FIELD(log_device_placement), true, "Say for each variable where it is",
     NULL},
    {"allow_soft_placement", SWITCH, "false", NULL, 0, 0, FIELD(allow_soft_placement), true,
     "A device that a task lacks becomes its CPU:0", NULL},
    {"eval", SWITCH, "false", NULL, 0, 0, FIELD(eval), false,
     "Do not train: test the model that is on the ps tasks (of --ps_hosts, else TF_CONFIG, else PSD_TARGET, else 127.0.0.1:2222)",
     NULL},
    {"export", TEXT, "", "FILE", 0, 0, FIELD(export_file), false,
     "The chief writes all variables into a safetensors file at the end", NULL},
    {"report", TEXT, "", "FILE.json", 0, 0, FIELD(report), false, "The chief writes the results there", NULL},
    {"status_at_end", SWITCH, "false", NULL, 0, 0, FIELD(status_at_end), false,
     "The chief shows `psctl status` of the cluster at the end", NULL},
    {"timeout", INTEGER, "60", "SECONDS", 1, 86400, FIELD(timeout_s), true, "How long an operation may take, reconnects included",
     NULL},
    {"version", SWITCH, "false", NULL, 0, 0, FIELD(version), false, "Print the version and exit", NULL},
    {"help", SWITCH, "false", NULL, 0, 0, FIELD(help), false, "Print this and exit", NULL},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= FLAGS_COUNT, "struct flags has room for all rows");

static const char usage_text[] =
    "usage: pstrain --local ps=2,workers=3 [FLAG ...]\n"
    "       pstrain --ps_hosts H:P,... --worker_hosts H:P,... --job_name ps|worker --task_index N [FLAG ...]\n"
    "       pstrain --serve --ps_hosts H:P,... --worker_hosts H:P,... --job_name worker --task_index N\n"
    "       pstrain --eval --ps_hosts H:P,... [FLAG ...]\n"
    "       pstrain --cluster SPEC|@FILE --job_name ps|worker --task_index N [FLAG ...]\n"
    "Trains a network on several workers at once against parameter servers (between-graph, asynchronous).\n";

static const char end_text[] =
    "\nWithout --cluster, --ps_hosts and --worker_hosts the cluster and the task come from TF_CONFIG. Worker 0 is the chief (or "
    "the\n"
    "task of job chief or master): it initialises the model, waits at the end for the others, tests the model. A model that is "
    "on\n"
    "the ps tasks already is trained on; the first line says so. A task of job evaluator tests once, as --eval does.\n"
    "`--job_name ps`, and any task with --serve, serves until SIGINT, SIGTERM, SIGHUP (unless nohup has it ignored) or `psctl\n"
    "shutdown`. With --local a worker that dies is reported and the others finish; the end of a ps task ends everything. A "
    "signal\n"
    "that comes more than a second after the first ends what still goes on at once.\n"
    "Exit status: 0 done, 1 failed, 2 usage, 3 a ps task that was told to end at once, 128 + N ended by signal N.\n";

static int fail(char *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(char *err, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(err, FLAGS_ERR_BYTES, format, ap);
    va_end(ap);
    return -1;
}

static void *field_of(struct flags *f, const struct row *row)
{
    return (char *)f + row->field;
}

/* ---- names ---- */

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Edit distance (Levenshtein) of two short words. */
static int distance(const char *a, const char *b)
{
    int row[NAME_BYTES + 1];
    int n = (int)strlen(b);
    for (int j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < shift ? change : shift;
        }
    }
    return row[n];
}

static int unknown(char *err, const char *arg, const char *name)
{
    const struct row *nearest = NULL;
    int best = 4; /* edits; further away it is another word */
    for (size_t i = 0; i < ROWS; i++) {
        int d = distance(name, rows[i].name);
        if (d < best) {
            best = d;
            nearest = &rows[i];
        }
    }
    return nearest == NULL ? fail(err, "unknown flag %.100s; pstrain --help lists them", arg)
                           : fail(err, "unknown flag %.100s; did you mean --%s? pstrain --help lists them", arg, nearest->name);
}

/* ---- values ---- */

static int set_integer(const struct row *row, const char *text, int64_t *out, char *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool whole = end != text && *end == '\0' && text[0] != ' ' && errno == 0;
    if (!whole || value < row->min || value > row->max) {
        return row->max == INT64_MAX
                   ? fail(err, "--%s %.100s: must be a whole number from %lld on", row->name, text, (long long)row->min)
                   : fail(err, "--%s %.100s: must be a whole number from %lld to %lld", row->name, text, (long long)row->min,
                          (long long)row->max);
    }
    *out = value;
    return 0;
}

static int set_number(const struct row *row, const char *text, double *out, char *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return fail(err, "--%s %.100s: must be a number such as %s", row->name, text, row->default_text);
    }
    *out = value;
    return 0;
}

static int set_value(struct flags *f, const struct row *row, const char *text, char *err)
{
    void *field = field_of(f, row);
    switch (row->type) {
    case TEXT:
        *(const char **)field = text;
        return 0;
    case INTEGER:
        return set_integer(row, text, field, err);
    case NUMBER:
        return set_number(row, text, field, err);
    case SWITCH:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            return fail(err, "--%s=%.100s: must be true or false; --%s alone means true", row->name, text, row->name);
        }
        *(bool *)field = text[0] == 't';
        return 0;
    }
    return 0;
}

/* ---- checks that concern several flags ---- */

/* "ps=2" of "ps=2,workers=3"; advances to the end of it. */
static int local_part(struct flags *f, const char **p)
{
    const char *equals = strchr(*p, '=');
    if (equals == NULL) {
        return -1;
    }
    size_t n = (size_t)(equals - *p);
    int *out = n == 2 && strncmp(*p, "ps", n) == 0        ? &f->local_ps
               : n == 7 && strncmp(*p, "workers", n) == 0 ? &f->local_workers
                                                          : NULL;
    char *end = NULL;
    long value = strtol(equals + 1, &end, 10);
    if (out == NULL || *out != 0 || equals[1] < '0' || equals[1] > '9' || value < 1 || value > FLAGS_LOCAL_MAX) {
        return -1;
    }
    *out = (int)value;
    *p = end;
    return 0;
}

static int check_local(struct flags *f, char *err)
{
    static const char *const others[] = {"cluster",  "ps_hosts",   "worker_hosts",      "cluster_name",
                                         "job_name", "task_index", "insecure_any_peer", "serve"};
    const char *p = f->local;
    if (!flags_given(f, "local")) {
        return 0;
    }
    int good = local_part(f, &p) == 0 && *p == ',';
    p += good;
    if (!good || local_part(f, &p) != 0 || *p != '\0') {
        return fail(err, "--local %.100s: must be ps=P,workers=W, each from 1 to %d, such as ps=2,workers=3", f->local,
                    FLAGS_LOCAL_MAX);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (flags_given(f, others[i])) {
            return fail(err, "--local and --%s: --local makes a cluster of its own; drop one of them", others[i]);
        }
    }
    return 0;
}

static int check_eval(const struct flags *f, char *err)
{
    static const char *const others[] = {"local", "serve", "job_name", "task_index", "epochs", "steps", "fresh", "status_at_end"};
    for (size_t i = 0; f->eval && i < sizeof(others) / sizeof(others[0]); i++) {
        if (flags_given(f, others[i])) {
            return fail(err, "--eval and --%s: --eval trains nothing and is no task of the cluster; drop one of them", others[i]);
        }
    }
    return 0;
}

static int check(struct flags *f, char *err)
{
    struct model_spec spec;
    if (check_local(f, err) != 0 || check_eval(f, err) != 0) {
        return -1;
    }
    if (flags_given(f, "epochs") && flags_given(f, "steps")) {
        return fail(err, "--epochs and --steps: epochs are of this run, steps is the global step to reach; drop one of them");
    }
    if (f->learning_rate <= 0) {
        return fail(err, "--learning_rate %g: must be above 0", f->learning_rate);
    }
    if (f->momentum < 0 || f->momentum >= 1) {
        return fail(err, "--momentum %g: must be from 0 on and below 1", f->momentum);
    }
    if (strcmp(f->placement, "round_robin") != 0 && strcmp(f->placement, "balanced") != 0) {
        return fail(err, "--placement '%.100s': must be round_robin or balanced", f->placement);
    }
    if (flags_optimizer(f)->kind == PS_OPT_NONE) {
        return fail(err, "--optimizer '%.100s': must be one of sgd, momentum, nesterov, adagrad, adam", f->optimizer);
    }
    if (strcmp(f->data, "digits") != 0 && (strncmp(f->data, "mnist:", 6) != 0 || f->data[6] == '\0') &&
        (strncmp(f->data, "libsvm:", 7) != 0 || f->data[7] == '\0')) {
        return fail(err, "--data '%.100s': must be digits, mnist:DIR, or libsvm:TRAIN[,TEST]", f->data);
    }
    if (model_spec_parse(f->model, 1, 1, &spec) != 0) {
        return fail(
            err,
            "--model '%.100s': must be softmax (or logistic), or mlp: and 1 to %d layer sizes from 1 to %d, such as mlp:512,512",
            f->model, MODEL_LAYERS_MAX - 1, MODEL_UNITS_MAX);
    }
    if ((flags_given(f, "report") && f->report[0] == '\0') || (flags_given(f, "export") && f->export_file[0] == '\0')) {
        return fail(err, "--%s is empty: name a file", flags_given(f, "report") && f->report[0] == '\0' ? "report" : "export");
    }
    return 0;
}

/* ---- the command line ---- */

static int parse_one(struct flags *f, int argc, char **argv, int *at, char *err)
{
    const char *arg = argv[*at];
    char name[NAME_BYTES];
    if (strcmp(arg, "-h") == 0) {
        arg = "--help";
    }
    if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0') {
        return fail(err, "'%.100s' is not understood: pstrain takes flags only; pstrain --help lists them", arg);
    }
    size_t n = strcspn(arg + 2, "=");
    const char *value = arg[2 + n] == '=' ? arg + 2 + n + 1 : NULL;
    if (n >= sizeof(name)) {
        return fail(err, "unknown flag %.100s; pstrain --help lists them", arg);
    }
    memcpy(name, arg + 2, n);
    name[n] = '\0';
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : *p;
    }
    const struct row *row = find_row(name);
    if (row == NULL) {
        return unknown(err, arg, name);
    }
    if (value == NULL && row->type == SWITCH) {
        value = "true";
    } else if (value == NULL) {
        if (*at + 1 >= argc) {
            return fail(err, "--%s needs a value (%s)", row->name, row->metavar);
        }
        value = argv[++*at];
    }
    f->text[row - rows] = value;
    return set_value(f, row, value, err);
}

int flags_parse(int argc, char **argv, struct flags *out, char *err)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, "steps") != 0 && set_value(out, &rows[i], rows[i].default_text, err) != 0) {
            return -1;
        }
    }
    for (int i = 1; i < argc; i++) {
        if (parse_one(out, argc, argv, &i, err) != 0) {
            return -1;
        }
    }
    if (out->help || out->version) {
        return 0;
    }
    bool plain = strcmp(out->optimizer, "sgd") == 0 || strcmp(out->optimizer, "adagrad") == 0;
    if (plain && !flags_given(out, "learning_rate") && strncmp(out->data, "libsvm:", 7) == 0) {
        out->learning_rate = SPARSE_RATE;
    }
    return check(out, err);
}

bool flags_given(const struct flags *f, const char *name)
{
    const struct row *row = find_row(name);
    return row != NULL && f->text[row - rows] != NULL;
}

int flags_for_workers(const struct flags *f, char **texts)
{
    int count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i].to_workers || f->text[i] == NULL) {
            continue;
        }
        size_t bytes = strlen(rows[i].name) + strlen(f->text[i]) + 4;
        texts[count] = malloc(bytes);
        if (texts[count] == NULL) {
            return -1;
        }
        (void)snprintf(texts[count++], bytes, "--%s=%s", rows[i].name, f->text[i]);
    }
    return count;
}

const ps_optimizer *flags_optimizer(const struct flags *f)
{
    const char *o = f->optimizer;
    return strcmp(o, "sgd") == 0        ? ps_sgd(f->learning_rate)
           : strcmp(o, "momentum") == 0 ? ps_momentum(f->learning_rate, f->momentum)
           : strcmp(o, "nesterov") == 0 ? ps_nesterov(f->learning_rate, f->momentum)
           : strcmp(o, "adagrad") == 0  ? ps_adagrad(f->learning_rate)
           : strcmp(o, "adam") == 0     ? ps_adam(f->learning_rate)
                                        : ps_no_optimizer();
}

/* The help text in lines of at most 100 columns, the later ones indented. */
static void print_wrapped(const char *text, int indent)
{
    enum { WIDTH = 100 };
    while ((int)strlen(text) > WIDTH - indent) {
        int cut = WIDTH - indent;
        while (cut > 0 && text[cut] != ' ') {
            cut--;
        }
        (void)printf("%.*s\n%*s", cut, text, indent, "");
        text += cut + 1;
    }
    (void)printf("%s", text);
}

int flags_help(void)
{
    (void)printf("%s", usage_text);
    for (size_t i = 0; i < ROWS; i++) {
        char left[80];
        if (rows[i].group != NULL) {
            (void)printf("\n%s\n", rows[i].group);
        }
        (void)snprintf(left, sizeof(left), "--%s%s%s", rows[i].name, rows[i].metavar != NULL ? " " : "",
                       rows[i].metavar != NULL ? rows[i].metavar : "");
        (void)printf("  %-30s ", left);
        print_wrapped(rows[i].help, 33);
        if (rows[i].type != SWITCH && strcmp(rows[i].name, "steps") != 0) {
            (void)printf(" (default: %s)", rows[i].default_text[0] == '\0' ? "\"\"" : rows[i].default_text);
        }
        (void)printf("\n");
    }
    (void)printf("%s", end_text);
    return fflush(stdout) == 0 ? 0 : -1;
}
