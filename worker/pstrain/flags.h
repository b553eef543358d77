/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's command line. Parsing, --help and the command lines of --local's children come from one table of flags. */
#ifndef PSTRAIN_FLAGS_H
#define PSTRAIN_FLAGS_H

#include "common/cli/text.h"
#include "common/options.h"
#include "common/resolve/rows.h"

#include <ps.h>
#include <psd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLAGS_COUNT = 80 + PSI_RESOLVER_ROW_COUNT, FLAGS_LOCAL_MAX = 64 /* tasks of a job that --local starts, at most */ };

struct flags {
    /* the cluster */
    const char *cluster;
    ps_resolver_options resolver; /* where `cluster` names a manager */
    const char *ps_hosts;
    const char *worker_hosts;
    const char *cluster_name; /* "": not given */
    const char *job_name;
    int64_t task_index;
    const char *local; /* "" or "ps=2,workers=3" */
    int local_ps;      /* from `local` */
    int local_workers;
    int64_t serial; /* 0: no; workers whose rounds are computed one after the other */
    bool insecure_any_peer;
    const char *key_file;                    /* NULL: where a session finds one */
    const char *tls_cert, *tls_key, *tls_ca; /* NULL: none */
    const char *rights_file;                 /* NULL: the rows of the roles */
    bool serve;
    bool exit_when_done;
    const char *checkpoint_dir; /* "" or a directory */
    int64_t checkpoint_seconds;
    int64_t checkpoint_steps;
    int64_t max_to_keep;
    int64_t keep_every_hours;
    int64_t checkpoint_memory; /* bytes */
    int restore_checkpoint;    /* settings restore and recover of psd_server_options */
    psd_text recover;
    bool spread;
    /* the model and its data */
    const char *data;
    int task;          /* 0: classes, 1: numbers */
    const char *label; /* of csv; NULL: the last column */
    int header;        /* enum data_header */
    bool standardize;
    int base;         /* sparse text: data_options.base + 1 */
    int duplicates;   /* enum data_duplicates */
    int64_t features; /* 0: as many as the files have */
    const char *model;
    bool rows;         /* of weights of sparse data only those of a batch are read and pushed */
    int64_t partition; /* parts of the tables of which rows are read; 0 or 1: none */
    const char *optimizer;
    const char *lr_schedule;
    double learning_rate;
    double momentum;
    ps_optimizer rule; /* from optimizer, lr_schedule, learning_rate and momentum */
    int64_t batch_size;
    int64_t epochs;   /* epochs to train; not used if steps is above 0 */
    int64_t patience; /* epochs without a lower loss of validation; 0: no early stopping */
    int64_t steps;    /* global step to reach; 0: `epochs` decides */
    int64_t seed;
    /* the run */
    const char *container; /* "": the default one */
    const char *work;      /* "share" or "shards" */
    bool by_shards;        /* from `work` */
    bool sync;
    int64_t sync_workers; /* 0: all */
    int64_t replicas;     /* 0: all */
    const char *worker_loss;
    int64_t staleness;
    ps_sync_options with; /* from the five fields above; PS_SYNC_NONE: each worker at its own pace */
    bool in_rounds;       /* --sync or --serial */
    bool log_shards;
    const char *placement; /* "round_robin" or "balanced" */
    bool allow_soft_placement;
    bool log_device_placement;
    const char *device;
    int64_t threads;
    bool prefetch;
    bool fresh;
    bool eval;
    bool ema; /* with eval: the moving averages are tested */
    int64_t eval_every;
    int64_t max_recoveries;
    const char *restore;                             /* "" or a file */
    const char *warm_start;                          /* "" or a file */
    const char *warm_start_only, *warm_start_prefix; /* "" or texts between commas */
    bool start_over;
    const char *summaries;   /* "" or a directory */
    const char *trace;       /* "" or a file */
    int64_t trace_step;      /* number of this worker's step in this run, from 1 */
    const char *export_file; /* "" or a file */
    const char *report;      /* "" or a file */
    const char *plot;        /* "" or a file */
    bool status_at_end;
    int64_t timeout_s;
    bool help;
    bool version;
    uint8_t from[FLAGS_COUNT]; /* [row]: enum psi_option_from */
};

/**
 * Parse the command line. `--flag=value` is `--flag value`, and `_` in names stands for `-`; the last of several counts.
 *
 * argv     borrows; texts in out point into it.
 * Returns  0, or -1 with one line in err (CLI_ERR_BYTES) that names the flag and what is allowed.
 */
int flags_parse(int argc, char **argv, struct flags *out, char *err);
bool flags_given(const struct flags *f, const char *name);
/**
 * The flags that a child of --local gets from this command line, as "--name=value" texts. worker: for a worker, else a ps task.
 *
 * texts    [FLAGS_COUNT], gives each (free()).
 * Returns  number of texts; -1 without memory.
 */
int flags_for_child(const struct flags *f, bool worker, char **texts);
/** Writes --help to standard output; 0, or -1 if it could not be written. */
int flags_help(void);

#endif
