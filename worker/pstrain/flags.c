/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain's command line. Happy path: the table of flags gives the defaults; each argument sets the value of its row; then flags
 * are checked against each other. Failure modes: an unknown flag (the nearest is named), a bad value, contradictions. */
#include "flags.h"

#include "model.h"

#include "common/optimizer.h"
#include "common/schedule.h"
#include "data/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_BYTES_MAX = 64 << 10, NUMBER_BYTES_MAX = 64 /* with --, = and NUL */, HYPER_COLUMN = 26, TASK_INDEX_MAX = 1023 };
/* Default of --learning_rate for sparse text with sgd or adagrad. Of 0.01 to 0.5, with softmax and one epoch, it is a good
 * middle: on data set a9a 0.05 is as good and 0.5 is 1 % worse; on agaricus 0.5 is 2 % better. */
#define SPARSE_RATE 0.1

/* the values of psd's settings `restore` and `recover`, in the order of PSD_SERVER_SETTINGS */
static const char *const restores[] = {"auto", "latest", "none", NULL};
static const char *const recovers[] = {"partial", "cut", NULL};
static const char *const tasks[] = {"classification", "regression", NULL};
static const char *const headers[] = {"auto", "yes", "no", NULL};       /* index: enum data_header */
static const char *const bases[] = {"auto", "0", "1", NULL};            /* index: data_options.base + 1 */
static const char *const duplicates[] = {"error", "last", "sum", NULL}; /* index: enum data_duplicates */

/* tag of a row of flags: which children of --local get the flag */
enum { TO_WORKERS = 1, TO_PS = 2, TO_ALL = TO_WORKERS | TO_PS };

/* one row: FLAG(name, field, type, default, placeholder of the value, help, further fields of struct psi_option) */
#define FLAG(name_, field_, type_, default_, metavar_, help_, ...)                                                               \
    {                                                                                                                            \
        .name = (name_), PSI_OPTION_FIELD(struct flags, field_), .type = PSI_OPTION_##type_, .flag_only = true,                  \
        .default_text = (default_), .metavar = (metavar_), .help = (help_), __VA_ARGS__                                          \
    }
static const struct psi_option rows[] = {
    FLAG("cluster", cluster, TEXT, "", "SPEC",
         "All tasks: ps=HOST:PORT,...;worker=HOST:PORT,... or the same as JSON or a Python literal, or @FILE. "
         "slurm, mpi, kubernetes, torchrun, env (TF_CONFIG) or auto: variables of the environment say it, and the task",
         .group = "The cluster"),
    FLAG("ps_hosts", ps_hosts, TEXT, "", "HOST:PORT,...", "Comma-separated list of hostname:port pairs"),
    FLAG("worker_hosts", worker_hosts, TEXT, "", "HOST:PORT,...", "Comma-separated list of hostname:port pairs"),
    FLAG("cluster_name", cluster_name, TEXT, "", "NAME", "What the cluster is called (psd --cluster_name)"),
    FLAG("job_name", job_name, TEXT, "", "JOB", "One of 'ps', 'worker', 'chief', 'master', 'evaluator'"),
    FLAG("task_index", task_index, INT, "0", "N", "Index of task within the job", .max = TASK_INDEX_MAX),
#define RESOLVER_ROW(name_, kind_, metavar_, help_, ...) FLAG(#name_, resolver.name_, kind_, NULL, metavar_, help_, __VA_ARGS__),
    PSI_RESOLVER_ROWS(RESOLVER_ROW)
        FLAG("local", local, TEXT, "", "ps=P,workers=W",
             "Instead of all above: start P ps tasks and W workers on this machine, and stop them all at the end"),
    FLAG("serial", serial, INT, NULL, "W",
         "Instead of all of these: compute the rounds of W workers one after the other in this process, with a ps task of its "
         "own or "
         "those of --ps_hosts or --cluster",
         .min = 1, .max = 1024),
    FLAG("serve", serve, BOOL, NULL, NULL,
         "Serve as the task, whatever its job, instead of training: it holds the variables that are pinned to it and runs "
         "operations of plans, and calls (ps_call; psd.echo gives back its input). A worker that trains does so too, where its "
         "address is one that it can listen on"),
    FLAG("insecure_any_peer", insecure_any_peer, BOOL, NULL, NULL,
         "A ps task may listen on an address that other machines reach, without a key: everybody who reaches the port can read "
         "and change everything"),
    FLAG("key_file", key_file, TEXT, NULL, "FILE",
         "Keys (psctl key new, key export): a trainer shows the first one that says `use`, a task that serves lets all of them "
         "in. Without the flag PSD_KEY_FILE; then, but not with --local, ~/.config/psd/key or /etc/psd/psd.keys, if it is there. "
         "An empty one: no key",
         .tag = TO_ALL),
    FLAG("tls_cert", tls_cert, TEXT, NULL, "FILE", "Certificate instead of a key, PEM, with the two below", .tag = TO_ALL),
    FLAG("tls_key", tls_key, TEXT, NULL, "FILE", "Private key of --tls_cert", .tag = TO_ALL),
    FLAG("tls_ca", tls_ca, TEXT, NULL, "FILE", "Authority whose certificates peers must have", .tag = TO_ALL),
    FLAG("rights_file", rights_file, TEXT, NULL, "FILE",
         "A task that serves: who may do what, a row a line (psd.conf's allow). Without the flag the roles of keys say: ps, "
         "worker, admin, monitor",
         .tag = TO_ALL),
    FLAG("exit_when_done", exit_when_done, BOOL, NULL, NULL,
         "A ps task ends, with status 0, when every trainer has said that it is done"),
    FLAG("checkpoint_dir", checkpoint_dir, TEXT, "", "DIR",
         "Of ps tasks, those that --local starts too, as the next eight: each writes checkpoints beneath DIR/JOB-INDEX. Of a "
         "trainer: as the chief it has the ps tasks save, each in a directory of its own, when it starts and when it ends",
         .tag = TO_ALL),
    FLAG("checkpoint_seconds", checkpoint_seconds, INT, "600", "N",
         "From one checkpoint to the next, the first one when the model is ready; 0: none by time", .tag = TO_PS, .max = 1000000),
    FLAG("checkpoint_steps", checkpoint_steps, INT, "0", "N", "A checkpoint after so many global steps as well; 0: none",
         .tag = TO_PS, .max = 1000000000),
    FLAG("max_to_keep", max_to_keep, INT, "5", "N", "Checkpoints that are kept; older ones go. 0: all are kept", .tag = TO_PS,
         .max = 10000),
    FLAG("keep_checkpoint_every_hours", keep_every_hours, INT, "0", "N",
         "The last checkpoint of each span of so many hours is kept for good; 0: none", .tag = TO_PS, .max = 100000),
    FLAG("checkpoint_memory", checkpoint_memory, BYTES, "256MiB", "BYTES",
         "Copies that a checkpoint may take while it is written; pushes that need more of them wait for the disk", .tag = TO_PS,
         .min = 1 << 20, .max = INT64_C(1) << 50),
    FLAG("restore_checkpoint", restore_checkpoint, ENUM, "auto", "WHICH",
         "What ps tasks begin with where nothing lives (psd --restore; --restore here is of workers)", .tag = TO_PS,
         .choices = restores, .min = -1000000000),
    FLAG("recover", recover, WAYS, "partial", "WAY",
         "When a ps task comes back and others live: partial, it loads the newest checkpoint and the others keep what they have; "
         "cut, all go back to it; or each in some containers: partial,model=cut",
         .tag = TO_PS, .choices = recovers, .max = PSD_TEXT_BYTES_MAX),
    FLAG("spread", spread, BOOL, NULL, NULL,
         "Where nothing lives, and ps tasks have come or gone since the checkpoint that is loaded, it is dealt anew over all of "
         "them",
         .tag = TO_PS),
    FLAG("data", data, TEXT, "digits", "DATA",
         "digits (UCI, in the distribution), mnist:DIR with four IDX files by their usual names (mnist:DIR/PREFIX where DIR has "
         "several sets), libsvm:TRAIN[,TEST] with sparse text (libffm: where each value has a field, which is read over), "
         "csv:TRAIN[,TEST] with columns of numbers and categories, or "
         "npy:X,Y[,XT,YT] or npz:FILE with NumPy's arrays (without a test a fifth of the examples, always the same one, is held "
         "out for it); "
         "plain or .gz",
         .group = "What is trained", .tag = TO_WORKERS),
    FLAG("task", task, ENUM, "classification", "TASK",
         "What labels are: classes; or with regression, of csv, npy and libsvm, numbers that are predicted (mean squared error)",
         .tag = TO_WORKERS, .choices = tasks),
    FLAG("label", label, TEXT, NULL, "NAME|NUMBER",
         "The column of csv that has the labels, by its name or counted from 1; the last", .tag = TO_WORKERS),
    FLAG("csv_header", header, ENUM, "auto", "yes|no",
         "Whether the first line of csv names the columns; auto: it does where it has no number and the second line has one",
         .tag = TO_WORKERS, .choices = headers),
    FLAG("standardize", standardize, BOOL, NULL, NULL,
         "Subtract the mean of each column of numbers and divide by its standard deviation, of the training examples; both are "
         "kept "
         "with the model, for whoever tests it or goes on with it",
         .tag = TO_WORKERS),
    FLAG("libsvm_base", base, ENUM, "auto", "0|1",
         "The index of the first feature in sparse text; auto: 0 where index 0 occurs, else 1, and that is said",
         .tag = TO_WORKERS, .choices = bases),
    FLAG("libsvm_duplicates", duplicates, ENUM, "error", "WAY",
         "Where a line of sparse text names an index twice: error, last (its last value counts) or sum", .tag = TO_WORKERS,
         .choices = duplicates),
    FLAG("libsvm_features", features, INT, "0", "N",
         "Features of sparse text, where other files have higher indices than these; 0: as many as the files have, or the model "
         "that "
         "is there",
         .tag = TO_WORKERS, .max = INT32_MAX),
    FLAG(
        "model", model, TEXT, "mlp:128", "MODEL",
        "softmax (with two classes this is logistic regression, and it may be written logistic), with --task regression linear, "
        "or "
        "mlp:N,N,... with hidden layers of N units (relu). Of sparse text also fm:K, a factorization machine with K factors, for "
        "two classes; and wide_deep:dim=D,hidden=N-N, a linear model beside layers over the sum of D-dimensional embeddings. "
        "These "
        "two work by --rows",
        .tag = TO_WORKERS),
    FLAG("rows", rows, BOOL, NULL, NULL,
         "Of the weights of sparse text a step reads and pushes only the rows of the features that its batch has; the next "
         "batch's "
         "rows are read while a step ends. Give it to all workers",
         .tag = TO_WORKERS),
    FLAG("partition", partition, INT, "0", "N",
         "Divide these weights into N parts, feature modulo N, each on a ps task in turn; implies --rows. Give it to all workers",
         .tag = TO_WORKERS, .max = 256),
    FLAG(
        "rows_per_step", rows_per_step, INT, "0", "N",
        "With --sync, of such a table: the rows that a batch has at most, for which the ps tasks keep memory for each worker. 0: "
        "batch size times features of the longest example. Give it to all workers, where their files differ",
        .tag = TO_WORKERS, .max = INT32_MAX),
    FLAG("optimizer", optimizer, TEXT, "adagrad", "RULE",
         "One of those below, which may have hyperparameters: NAME:PARAMETER=VALUE,...; runs on the ps tasks", .tag = TO_WORKERS),
    FLAG(
        "learning_rate", learning_rate, REAL, "0.05", "R",
        "Above 0. With sparse text and sgd or adagrad the default is 0.1; where the rows have few values that are not 0, try 0.5",
        .tag = TO_WORKERS),
    FLAG("lr_schedule", lr_schedule, TEXT, "none", "SCHEDULE",
         "One of those below, by which the learning rate follows the global step: NAME or NAME:PARAMETER=VALUE,...; runs on the "
         "ps tasks",
         .tag = TO_WORKERS),
    FLAG("clip_norm", clip_norm, REAL, NULL, "N",
         "Limit the norm of all gradients of a step together, above 0: of a worker's step; with --sync of the averages over all "
         "workers",
         .tag = TO_WORKERS),
    FLAG("l2", l2, REAL, NULL, "L", "Add L times the variable to each gradient, as --optimizer NAME:l2=L does",
         .tag = TO_WORKERS),
    FLAG("momentum", momentum, REAL, "0.9", "M", "Of momentum and nesterov", .tag = TO_WORKERS),
    FLAG("batch_size", batch_size, INT, "32", "N", "Examples in a step of one worker", .tag = TO_WORKERS, .min = 1,
         .max = 1 << 20),
    FLAG("epochs", epochs, INT, "10", "N", "Passes over the data in this run, all workers together", .tag = TO_WORKERS, .min = 1,
         .max = 1000000),
    FLAG("steps", steps, INT, NULL, "N", "Instead of --epochs: the global step to reach", .tag = TO_WORKERS, .min = 1,
         .max = INT64_MAX),
    FLAG("patience", patience, INT, "0", "N",
         "Stop early: a fifth of the training examples is held out, the chief tests on it after each epoch, and the run ends "
         "when N "
         "epochs have brought no lower loss; the model then has the values of the best one. Give it to all workers; 0: no",
         .tag = TO_WORKERS, .max = 1000000),
    FLAG("seed", seed, INT, "0", "N", "Of the first weights and of the order of the data; the same for all workers",
         .tag = TO_WORKERS, .max = INT64_MAX),
    FLAG("fresh", fresh, BOOL, NULL, NULL,
         "Start over on running ps tasks, or with --local those that have a --checkpoint_dir: the chief empties them first, "
         "other workers wait for that, --timeout at most, and no checkpoint brings it back. Give it to all workers",
         .group = "How it runs"),
    FLAG("container", container, TEXT, "localhost", "NAME", "Of the model: programs with different ones never meet",
         .tag = TO_WORKERS),
    FLAG("work", work, TEXT, "share", "WAY",
         "How workers part the rows of an epoch: share, each the same part of them; or shards, small ranges from a work queue: a "
         "worker gets the next when it is done with one, a worker may come late, also one that --worker_hosts does not list, and "
         "what a dead one had goes to another. Give it to all workers",
         .tag = TO_WORKERS),
    FLAG("sync", sync, BOOL, NULL, NULL,
         "Train in rounds: a step of all workers is one update with the average of their gradients, and equal runs have equal "
         "results. "
         "Give it, and the next four, to all workers",
         .tag = TO_WORKERS),
    FLAG("sync_workers", sync_workers, INT, "0", "N", "How many workers the first round waits for; 0: all that are listed",
         .tag = TO_WORKERS, .max = 1024),
    FLAG("replicas_to_aggregate", replicas, INT, "0", "R",
         "With --sync: a round is over when so many workers have completed it; what comes later is dropped and counted; 0: all",
         .tag = TO_WORKERS, .max = 1024),
    FLAG("on_worker_loss", worker_loss, TEXT, "wait", "WAY",
         "When a worker dies: wait for another one of its index (until --timeout), shrink (go on without it), or fail",
         .tag = TO_WORKERS),
    FLAG("staleness", staleness, INT, NULL, "S",
         "Instead of --sync: each at its own pace, but no worker more than S steps ahead of the slowest", .tag = TO_WORKERS,
         .max = UINT32_MAX),
    FLAG("log_shards", log_shards, BOOL, NULL, NULL, "Say of each shard when it is begun and when it is done", .tag = TO_WORKERS),
    FLAG("placement", placement, TEXT, "round_robin", "WAY",
         "Of the variables on the ps tasks: round_robin, in turn; or balanced, each where the fewest bytes are",
         .tag = TO_WORKERS),
    FLAG("prefetch", prefetch, BOOL, NULL, NULL,
         "Read the values of the next step while one is computed: faster where the ps tasks are far or slow, and values are one "
         "step older",
         .tag = TO_WORKERS),
    FLAG("log_device_placement", log_device_placement, BOOL, NULL, NULL, "Say for each variable where it is", .tag = TO_WORKERS),
    FLAG("allow_soft_placement", allow_soft_placement, BOOL, NULL, NULL,
         "A device that a task lacks becomes its CPU:0; where --device is not there the CPU computes", .tag = TO_WORKERS),
    FLAG("device", device, TEXT, "cpu", "cpu|gpu:N", "Where a worker computes", .tag = TO_WORKERS),
    FLAG("threads", threads, INT, "1", "N", "Of a worker, that compute on the CPU", .tag = TO_WORKERS, .min = 1, .max = 1024),
    FLAG("max_recoveries", max_recoveries, INT, "10", "N",
         "A worker goes on when ps tasks were lost or restarted, so many times without a step between them; 0: it ends",
         .tag = TO_WORKERS, .max = UINT32_MAX),
    FLAG("restore", restore, TEXT, "", "FILE",
         "A file of --export: its values are given to a model that has none, at the start or after a loss", .tag = TO_WORKERS),
    FLAG(
        "warm_start", warm_start, TEXT, "", "FILE",
        "Like --restore, with a part of a file of psctl export or psctl checkpoint export, or of an index (FILE.index.json): the "
        "rest of the model is initialised, and the global step begins at 0. Give it to all workers: whoever is chief reads it",
        .tag = TO_WORKERS),
    FLAG("warm_start_only", warm_start_only, TEXT, "", "PATTERN,...",
         "Variables of that file with such names (* ? [a-z]; * also stands for a /); nothing else of it is looked at. "
         "Otherwise all: each must be of the model",
         .tag = TO_WORKERS),
    FLAG(
        "warm_start_prefix", warm_start_prefix, TEXT, "", "OLD=NEW,...",
        "Names in that file that begin with OLD begin with NEW here; OLD= takes it off, =NEW goes before every name; the longest "
        "OLD counts",
        .tag = TO_WORKERS),
    FLAG("start_over", start_over, BOOL, NULL, NULL,
         "Where part of the model is lost and there is no --restore: the chief gives up the rest, too, and initialises",
         .tag = TO_WORKERS),
    FLAG("summaries", summaries, TEXT, "", "DIR",
         "The chief writes loss, accuracy and speed there for TensorBoard, every 10 global steps", .tag = TO_WORKERS),
    FLAG("trace", trace, TEXT, "", "FILE",
         "Where the time of one step of this worker (with --local: of the chief) goes, for ui.perfetto.dev and chrome://tracing",
         .tag = TO_WORKERS),
    FLAG("trace_step", trace_step, INT, "10", "N", "... of its N-th step in this run", .tag = TO_WORKERS, .min = 1,
         .max = INT64_MAX),
    FLAG("eval_every", eval_every, INT, "100", "N", "A task of job evaluator tests again when the global step is N higher",
         .min = 1, .max = INT64_MAX),
    FLAG("eval", eval, BOOL, NULL, NULL,
         "Do not train: test the model that is on the ps tasks (of --ps_hosts, else TF_CONFIG, else PSD_TARGET, else "
         "127.0.0.1:2222)"),
    FLAG("ema", ema, BOOL, NULL, NULL,
         "With --eval: test the moving averages of the variables, which --optimizer NAME:ema=DECAY keeps, in place of their "
         "values"),
    FLAG("export", export_file, TEXT, "", "FILE", "The chief writes all variables into a safetensors file at the end"),
    FLAG("report", report, TEXT, "", "FILE.json", "The chief writes the results there"),
    FLAG("plot", plot, TEXT, "", "FILE.svg", "The chief draws loss and accuracy by global step there: learning curves",
         .tag = TO_WORKERS),
    FLAG("status_at_end", status_at_end, BOOL, NULL, NULL, "The chief shows `psctl status` of the cluster at the end"),
    FLAG("timeout", timeout_s, INT, "60", "SECONDS",
         "How long an operation may take, reconnects included; where it is given, also how long the start waits for ps tasks",
         .tag = TO_WORKERS, .min = 1, .max = 86400),
    FLAG("version", version, BOOL, NULL, NULL, "Print the version and exit"),
    FLAG("help", help, BOOL, NULL, NULL, "Print this and exit", .letter = 'h'),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= FLAGS_COUNT, "struct flags has room for all rows");

static const char usage_text[] =
    "usage: pstrain --local ps=2,workers=3 [FLAG ...]\n"
    "       pstrain --ps_hosts H:P,... --worker_hosts H:P,... --job_name ps|worker --task_index N [FLAG ...]\n"
    "       pstrain --serve --ps_hosts H:P,... --worker_hosts H:P,... --job_name worker --task_index N\n"
    "       pstrain --serial W [FLAG ...]\n"
    "       pstrain --eval --ps_hosts H:P,... [FLAG ...]\n"
    "       pstrain --cluster SPEC|@FILE --job_name ps|worker --task_index N [FLAG ...]\n"
    "       pstrain launch --hosts FILE [FLAG ...] -- PROGRAM [ARG ...]\n"
    "Trains a network on several workers at once against parameter servers (between-graph, asynchronous).\n";

static const char end_text[] =
    "\nWithout --cluster, --ps_hosts and --worker_hosts the cluster and the task come from TF_CONFIG. Worker 0 is the chief (or "
    "the\n"
    "task of job chief or master): it initialises the model, waits at the end for the others, tests the model. A model that is "
    "on\n"
    "the ps tasks already is trained on; the first line says so. When the chief is gone for a lease another worker is chief. A "
    "task\n"
    "of job evaluator tests what is there, again every --eval_every steps, until all trainers are done, and pushes nothing.\n"
    "`--job_name ps`, and any task with --serve, serves until SIGINT, SIGTERM, SIGHUP (unless nohup has it ignored) or `psctl\n"
    "shutdown`. With --local a worker that dies is reported and the others finish; the end of a ps task ends everything. A "
    "signal\n"
    "that comes more than a second after the first ends what still goes on at once.\n"
    "Exit status: 0 done, 1 failed, 2 usage, 3 a ps task that was told to end at once, 128 + N ended by signal N.\n";

/* Parse a part of --local, "ps=N" or "workers=N", into f, and move *p behind it. 0; -1: other text, bad N, given twice. */
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
    static const char *const others[] = {"cluster",    "ps_hosts",          "worker_hosts", "cluster_name",  "job_name",
                                         "task_index", "insecure_any_peer", "serve",        "exit_when_done"};
    const char *p = f->local;
    if (!flags_given(f, "local")) {
        return 0;
    }
    int good = local_part(f, &p) == 0 && *p == ',';
    p += good;
    if (!good || local_part(f, &p) != 0 || *p != '\0') {
        return cli_error(err, "--local %.100s: must be ps=P,workers=W, each from 1 to %d, such as ps=2,workers=3", f->local,
                         FLAGS_LOCAL_MAX);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (flags_given(f, others[i])) {
            return cli_error(err, "--local and --%s: --local makes a cluster of its own; drop one of them", others[i]);
        }
    }
    return 0;
}

static int check_eval(const struct flags *f, char *err)
{
    static const char *const others[] = {"local",          "serve",  "job_name",      "task_index", "epochs",    "steps",
                                         "fresh",          "serial", "status_at_end", "sync",       "staleness", "summaries",
                                         "checkpoint_dir", "trace",  "plot",          "patience"};
    for (size_t i = 0; f->eval && i < sizeof(others) / sizeof(others[0]); i++) {
        if (flags_given(f, others[i])) {
            return cli_error(err, "--eval and --%s: --eval trains nothing and is no task of the cluster; drop one of them",
                             others[i]);
        }
    }
    if (f->ema && !f->eval) {
        return cli_error(err, "--ema is of --eval; --optimizer NAME:ema=DECAY keeps moving averages");
    }
    return 0;
}

static int refused(char *err, const char *one, const char *other, const char *why)
{
    return cli_error(err, "--%s and --%s: %s; drop one of them", one, other, why);
}

static int check_sync(struct flags *f, char *err)
{
    static const char *const losses[] = {[PS_LOSS_WAIT] = "wait", [PS_LOSS_SHRINK] = "shrink", [PS_LOSS_FAIL] = "fail"};
    bool staleness = flags_given(f, "staleness");
    int loss = 0;
    while (loss <= PS_LOSS_FAIL && strcmp(f->worker_loss, losses[loss]) != 0) {
        loss++;
    }
    ps_sync_options_init(&f->with);
    f->with.mode = f->sync ? PS_SYNC_ROUNDS : staleness ? PS_SYNC_STALENESS : PS_SYNC_NONE;
    f->with.workers = (uint32_t)f->sync_workers;
    f->with.replicas_to_aggregate = (uint32_t)f->replicas;
    f->with.on_worker_loss = (ps_worker_loss)loss;
    f->with.staleness = (uint32_t)f->staleness;
    f->in_rounds = f->in_rounds || f->sync;
    int64_t workers = f->sync_workers > 0 ? f->sync_workers : f->local_workers;
    const char *mode = f->sync ? "sync" : "staleness";
    if (loss > PS_LOSS_FAIL) {
        return cli_error(err, "--on_worker_loss '%.100s': must be wait, shrink or fail", f->worker_loss);
    }
    if (f->sync && staleness) {
        return refused(err, "sync", "staleness", "in rounds nobody is ahead of the others");
    }
    if (!f->sync && flags_given(f, "replicas_to_aggregate")) {
        return cli_error(err, "--replicas_to_aggregate is of rounds: give --sync too");
    }
    if (!f->sync && !staleness && (flags_given(f, "sync_workers") || flags_given(f, "on_worker_loss"))) {
        return cli_error(err, "--%s: give --sync or --staleness too",
                         flags_given(f, "sync_workers") ? "sync_workers" : "on_worker_loss");
    }
    if ((f->sync || staleness) && f->by_shards) {
        return refused(err, mode, "work shards", "a worker without a shard would be waited for, and waits for the others");
    }
    if (f->sync && f->prefetch) {
        return refused(err, "sync", "prefetch", "the values of a round are there when the one before is over");
    }
    if (f->local_workers > 0 && f->sync_workers > f->local_workers) {
        return cli_error(err, "--sync_workers %lld of %d workers: the first round would never begin", (long long)f->sync_workers,
                         f->local_workers);
    }
    if (workers > 0 && f->replicas > workers) {
        return cli_error(err, "--replicas_to_aggregate %lld of %lld workers: no round would ever be over", (long long)f->replicas,
                         (long long)workers);
    }
    return 0;
}

static int check_serial(struct flags *f, char *err)
{
    static const char *const others[] = {"local",          "worker_hosts",      "job_name",   "task_index",     "serve",
                                         "work",           "insecure_any_peer", "prefetch",   "sync",           "staleness",
                                         "max_recoveries", "restore",           "start_over", "checkpoint_dir", "warm_start"};
    f->in_rounds = flags_given(f, "serial");
    for (size_t i = 0; f->in_rounds && i < sizeof(others) / sizeof(others[0]); i++) {
        if (flags_given(f, others[i])) {
            return cli_error(err, "--serial and --%s: --serial is one process without workers; drop one of them", others[i]);
        }
    }
    return 0;
}

static int check_data(const struct flags *f, char *err)
{
    char why[CLI_ERR_BYTES];
    bool dense = false, numbers = false;
    const bool csv = strncmp(f->data, "csv:", 4) == 0, regression = f->task != 0, linear = strcmp(f->model, "linear") == 0;
    if (data_spec_check(f->data, &dense, &numbers, why) != 0) {
        return cli_error(err, "--data %.400s", why);
    }
    if (!csv && (flags_given(f, "label") || flags_given(f, "csv_header"))) {
        return cli_error(err, "--%s is of csv: give --data csv:TRAIN[,TEST] too",
                         flags_given(f, "label") ? "label" : "csv_header");
    }
    if (regression && !numbers) {
        return cli_error(err, "--task regression: the labels of %.100s are classes; csv, npy and libsvm may have numbers",
                         f->data);
    }
    if (f->standardize && !dense) {
        return cli_error(err, "--standardize: in %.100s most values are 0, and would not be 0 any more", f->data);
    }
    if (regression ? !linear && strncmp(f->model, "mlp:", 4) != 0 : linear) {
        return cli_error(err, "--model %s is of --task %s", f->model, regression ? "classification" : "regression");
    }
    return 0;
}

static bool is_sparse_text(const struct flags *f)
{
    return strncmp(f->data, "libsvm:", 7) == 0 || strncmp(f->data, "libffm:", 7) == 0;
}

static int check_sparse(const struct flags *f, char *err)
{
    static const char *const of_it[] = {"libsvm_base", "libsvm_duplicates", "libsvm_features"};
    for (size_t i = 0; !is_sparse_text(f) && i < sizeof(of_it) / sizeof(of_it[0]); i++) {
        if (flags_given(f, of_it[i])) {
            return cli_error(err, "--%s is of sparse text: give --data libsvm:TRAIN[,TEST] too", of_it[i]);
        }
    }
    return 0;
}

/* Refuse flags with which batches cannot read single rows of tables. of_model: --model (fm, wide_deep) makes batches do so. */
static int check_rows(const struct flags *f, bool of_model, char *err)
{
    const char *why = f->rows ? "--rows" : f->partition > 1 ? "--partition" : "--model";
    if (!f->rows && f->partition < 2 && !of_model) {
        return 0;
    }
    if (!is_sparse_text(f)) {
        return cli_error(err, "%s%s%.60s is of sparse text: give --data libsvm:TRAIN[,TEST] too", why, of_model ? " " : "",
                         of_model ? f->model : "");
    }
    return input_wants_dense(f) ? cli_error(err, "%s and --device %.60s: products of sparse rows are the CPU's", why, f->device)
                                : 0;
}

static int check_names(const struct flags *f, char *err)
{
    const struct {
        const char *name, *value, *what;
    } names[] = {{"report", f->report, "a file"},
                 {"export", f->export_file, "a file"},
                 {"plot", f->plot, "a file"},
                 {"restore", f->restore, "a file"},
                 {"warm_start", f->warm_start, "a file"},
                 {"warm_start_only", f->warm_start_only, "a pattern"},
                 {"warm_start_prefix", f->warm_start_prefix, "a prefix, OLD=NEW"},
                 {"summaries", f->summaries, "a directory"},
                 {"trace", f->trace, "a file"},
                 {"checkpoint_dir", f->checkpoint_dir, "a directory"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (flags_given(f, names[i].name) && names[i].value[0] == '\0') {
            return cli_error(err, "--%s is empty: name %s", names[i].name, names[i].what);
        }
    }
    if (flags_given(f, "trace_step") && f->trace[0] == '\0') {
        return cli_error(err, "--trace_step: it says of which step --trace FILE is; give --trace, too");
    }
    if (f->warm_start[0] != '\0' && f->restore[0] != '\0') {
        return cli_error(err, "--warm_start and --restore: both say what a new model begins with; drop one of them");
    }
    if (f->warm_start[0] == '\0' && (f->warm_start_only[0] != '\0' || f->warm_start_prefix[0] != '\0')) {
        return cli_error(err, "--warm_start_%s: give --warm_start too", f->warm_start_only[0] != '\0' ? "only" : "prefix");
    }
    return 0;
}

static int check_checkpoints(const struct flags *f, char *err)
{
    static const char *const of_it[] = {"checkpoint_seconds", "checkpoint_steps",   "max_to_keep", "keep_checkpoint_every_hours",
                                        "checkpoint_memory",  "restore_checkpoint", "recover",     "spread"};
    for (size_t i = 0; f->checkpoint_dir[0] == '\0' && i < sizeof(of_it) / sizeof(of_it[0]); i++) {
        if (flags_given(f, of_it[i])) {
            return cli_error(err, "--%s: give --checkpoint_dir too", of_it[i]);
        }
    }
    return 0;
}

static int find_rule(struct flags *f, char *err)
{
    struct psi_err wrong = {.code = PS_OK};
    const bool by_rule = is_sparse_text(f) && !flags_given(f, "learning_rate");
    f->rule = (ps_optimizer){.learning_rate = by_rule ? NAN : f->learning_rate, .momentum = f->momentum};
    if (flags_given(f, "clip_norm") && !(f->clip_norm > 0)) {
        return cli_error(err, "--clip_norm %g: must be above 0", f->clip_norm);
    }
    if (flags_given(f, "l2") && !(f->l2 >= 0)) {
        return cli_error(err, "--l2 %g: must be >= 0", f->l2);
    }
    ps_status st = psi_optimizer_parse(f->optimizer, &f->rule, &wrong);
    if (st == PS_OK && flags_given(f, "l2")) {
        if (f->rule.l2 > 0) {
            return cli_error(err, "--l2 and --optimizer %.100s: both say l2; drop one of them", f->optimizer);
        }
        f->rule.l2 = f->l2;
    }
    if (st == PS_OK && by_rule && isnan(f->rule.learning_rate)) {
        const bool plain = f->rule.kind == PS_OPT_SGD || f->rule.kind == PS_OPT_ADAGRAD;
        f->rule.learning_rate = plain ? SPARSE_RATE : f->learning_rate;
    }
    if (st == PS_OK && strcmp(f->lr_schedule, "none") != 0) {
        ps_optimizer with = f->rule;
        ps_status of = psi_schedule_parse(f->lr_schedule, &with, &wrong);
        of = of == PS_OK ? psi_schedule_check(&with, PS_F32, &wrong) : of;
        if (of != PS_OK) {
            return cli_error(err, "--lr_schedule %.200s: %s", f->lr_schedule, wrong.text);
        }
        f->rule = with;
    }
    st = st == PS_OK ? psi_optimizer_check(&f->rule, PS_F32, &wrong) : st;
    if (st != PS_OK || f->rule.kind == PS_OPT_NONE) {
        return cli_error(err, "--optimizer %.100s: %s", f->optimizer, st != PS_OK ? wrong.text : "it must be one that trains");
    }
    f->learning_rate = f->rule.learning_rate;
    return 0;
}

static int check(struct flags *f, char *err)
{
    struct model_spec spec;
    if (check_local(f, err) != 0 || check_eval(f, err) != 0 || check_serial(f, err) != 0 || check_checkpoints(f, err) != 0) {
        return -1;
    }
    if (flags_given(f, "epochs") && flags_given(f, "steps")) {
        return cli_error(err,
                         "--epochs and --steps: epochs are of this run, steps is the global step to reach; drop one of them");
    }
    if (f->learning_rate <= 0) {
        return cli_error(err, "--learning_rate %g: must be above 0", f->learning_rate);
    }
    if (f->momentum < 0 || f->momentum >= 1) {
        return cli_error(err, "--momentum %g: must be from 0 on and below 1", f->momentum);
    }
    if (strcmp(f->placement, "round_robin") != 0 && strcmp(f->placement, "balanced") != 0) {
        return cli_error(err, "--placement '%.100s': must be round_robin or balanced", f->placement);
    }
    f->by_shards = strcmp(f->work, "shards") == 0;
    if (f->by_shards && f->patience > 0) {
        return refused(err, "patience", "work shards", "shards have no epochs of a worker's own");
    }
    if (!f->by_shards && strcmp(f->work, "share") != 0) {
        return cli_error(err, "--work '%.100s': must be share or shards", f->work);
    }
    if (check_sync(f, err) != 0 || find_rule(f, err) != 0) {
        return -1;
    }
    if (model_spec_parse(f->model, 1, 1, &spec) != 0) {
        return cli_error(
            err,
            "--model '%.100s': must be softmax (or logistic), linear, mlp: and 1 to %d layer sizes from 1 to %d, such as "
            "mlp:512,512, fm:K or wide_deep:dim=D,hidden=N-N",
            f->model, MODEL_LAYERS_MAX - 1, MODEL_UNITS_MAX);
    }
    if (check_rows(f, spec.by_rows, err) != 0) {
        return -1;
    }
    return check_data(f, err) != 0 || check_sparse(f, err) != 0 ? -1 : check_names(f, err);
}

static size_t row_of(const char *name)
{
    size_t i = 0;
    while (i < ROWS && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* If no flag names a key or certificate, set f->key_file to the file that sessions find by themselves, so that a task in this
 * process uses it too. With --local only PSD_KEY_FILE counts: a key in ~/.config or /etc is another cluster's. */
static void find_key(struct flags *f)
{
    static char found[4096];
    const char *named = getenv("PSD_KEY_FILE");
    if (f->key_file != NULL || f->tls_cert != NULL) {
        return;
    }
    if (f->local[0] != '\0' && (named == NULL || named[0] == '\0')) {
        f->from[row_of("key_file")] = PSI_FROM_FLAG;
    } else {
        ps_role *role = ps_role_from_args(0, NULL);
        (void)snprintf(found, sizeof(found), "%s", ps_role_key_file(role));
        ps_role_free(role);
    }
    f->key_file = found;
}

int flags_parse(int argc, char **argv, struct flags *out, char *err)
{
    struct psi_options o;
    struct psi_err wrong = {.code = PS_OK};
    memset(out, 0, sizeof(*out));
    psi_options_init(&o, rows, ROWS, out, out->from);
    if (psi_options_parse_argv(&o, &argc, argv, true, &wrong) != PS_OK) {
        return cli_error(err, "%s; pstrain --help lists the flags", wrong.text);
    }
    if (argc > 1) {
        return cli_error(err, "'%.100s' is not understood: pstrain takes flags only; pstrain --help lists them", argv[1]);
    }
    if (out->help || out->version) {
        return 0;
    }
    find_key(out);
    return check(out, err);
}

bool flags_given(const struct flags *f, const char *name)
{
    const size_t i = row_of(name);
    return i < ROWS && f->from[i] != PSI_FROM_DEFAULT;
}

int flags_for_child(const struct flags *f, bool worker, char **texts)
{
    int count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if ((rows[i].tag & (worker ? TO_WORKERS : TO_PS)) == 0 || f->from[i] == PSI_FROM_DEFAULT) {
            continue;
        }
        const char *text = "";
        if (rows[i].type == PSI_OPTION_TEXT) {
            memcpy(&text, (const char *)f + rows[i].offset, sizeof(text));
        }
        size_t room = strlen(rows[i].name) + strlen(text) + NUMBER_BYTES_MAX;
        texts[count] = malloc(room);
        if (texts[count] == NULL) {
            return -1;
        }
        int name = snprintf(texts[count], room, "--%s=", rows[i].name);
        (void)psi_option_format(&rows[i], f, texts[count] + name, room - (size_t)name);
        count++;
    }
    return count;
}

static ps_status help_hyper(struct psi_buf *text, const struct psi_hyper *h)
{
    char value[32] = "";
    if (!isnan(h->standard)) {
        (void)snprintf(value, sizeof(value), "=%g", h->standard);
    }
    return psi_buf_printf(text, NULL, "      %s%-*s %s; %s\n", h->name, HYPER_COLUMN - (int)strlen(h->name), value, h->text,
                          psi_range_text(h->range));
}

/* Write the help on --optimizer: each name with its hyperparameters, then the hyperparameters that all optimizers have. */
static ps_status help_optimizers(struct psi_buf *text)
{
    ps_status st = psi_buf_append_text(text, "\nOptimizers, with their hyperparameters:\n", NULL);
    for (uint32_t kind = PS_OPT_SGD; kind < psi_optimizer_row_count; kind++) {
        const char *name = psi_optimizer_name(kind);
        if (psi_optimizer_row(kind) == NULL) {
            continue;
        }
        st = st == PS_OK ? psi_buf_printf(text, NULL, "  %s\n", name) : st;
        for (const struct psi_hyper *h = psi_optimizer_hypers(kind); st == PS_OK && h->name != NULL; h++) {
            st = h->quiet ? PS_OK : help_hyper(text, h);
        }
        for (const struct psi_hyper *h = psi_optimizer_hypers(kind); st == PS_OK && h->name != NULL; h++) {
            st = h->range == PSI_SWITCH ? psi_buf_printf(text, NULL, "  %s (%s:%s=1)\n", h->name, name, h->name) : st;
        }
    }
    st = st == PS_OK ? psi_buf_append_text(text, "  each of these\n", NULL) : st;
    for (const struct psi_hyper *h = psi_optimizer_hypers(PS_OPT_SGD); st == PS_OK && h->name != NULL; h++) {
        st = h->quiet ? help_hyper(text, h) : PS_OK;
    }
    return st;
}

/* Write the help on --lr_schedule: each name with its parameters, then the parameters that all schedules have. */
static ps_status help_schedules(struct psi_buf *text)
{
    const struct psi_schedule_row *row = NULL;
    ps_status st = psi_buf_append_text(text, "\nSchedules of the learning rate, with their parameters:\n", NULL);
    for (uint32_t kind = PS_SCHEDULE_CONSTANT; st == PS_OK && (row = psi_schedule_row(kind)) != NULL; kind++) {
        st = psi_buf_printf(text, NULL, "  %s\n", row->name);
        for (const struct psi_hyper *h = row->parameters; st == PS_OK && h->name != NULL; h++) {
            st = h->quiet ? PS_OK : help_hyper(text, h);
        }
    }
    st = st == PS_OK ? psi_buf_append_text(text, "  each of these\n", NULL) : st;
    for (const struct psi_hyper *h = psi_schedule_row(PS_SCHEDULE_CONSTANT)->parameters; st == PS_OK && h->name != NULL; h++) {
        st = help_hyper(text, h);
    }
    return st;
}

int flags_help(void)
{
    uint8_t from[FLAGS_COUNT];
    struct flags defaults;
    struct psi_options o;
    struct psi_buf text;
    psi_buf_init(&text, HELP_BYTES_MAX);
    psi_options_init(&o, rows, ROWS, &defaults, from);
    bool ok = psi_buf_append_text(&text, usage_text, NULL) == PS_OK && psi_options_help(&o, &text, NULL) == PS_OK &&
              help_optimizers(&text) == PS_OK && help_schedules(&text) == PS_OK &&
              psi_buf_append_text(&text, end_text, NULL) == PS_OK && fwrite(text.data, 1, text.len, stdout) == text.len;
    psi_buf_fini(&text);
    return ok && fflush(stdout) == 0 ? 0 : -1;
}
