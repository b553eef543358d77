/* SPDX-License-Identifier: Apache-2.0 */
/* pstrain's command line. One table of flags serves the parser, --help, and the command lines of --local's child processes. */
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

enum { FLAGS_COUNT = 84 + PSI_RESOLVER_ROW_COUNT, FLAGS_LOCAL_MAX = 64 /* most ps tasks, and most workers, of --local */ };

/* The value of each flag: its default, if it was not given. For a text the default is "", or NULL where the field says so. */
struct flags {
    /* the cluster */
    const char *cluster;
    ps_resolver_options resolver;
    const char *ps_hosts;
    const char *worker_hosts;
    const char *cluster_name;
    const char *job_name;
    int64_t task_index;
    const char *local; /* "" or "ps=2,workers=3" */
    int local_ps;
    int local_workers;
    int64_t serial; /* how many workers' batches this one process computes, in turn, for each round; 0: only its own */
    bool insecure_any_peer;
    const char *key_file;                    /* NULL: --tls_cert was given instead; "": no key */
    const char *tls_cert, *tls_key, *tls_ca; /* NULL: none */
    const char *rights_file;                 /* NULL: each key has the rights of its role */
    bool serve;
    bool exit_when_done;
    const char *checkpoint_dir;
    int64_t checkpoint_seconds;
    int64_t checkpoint_steps;
    int64_t max_to_keep;
    int64_t keep_every_hours;
    int64_t checkpoint_memory; /* bytes */
    int restore_checkpoint;    /* this and `recover`: as in psd_server_options */
    psd_text recover;
    bool spread;
    /* the model and its data */
    const char *data;
    int task;          /* 0: labels are classes; 1: numbers (regression) */
    const char *label; /* name or number of csv's label column; NULL: the last */
    int header;        /* enum data_header */
    bool standardize;
    int base;         /* sparse text: the lowest index + 1; 0: the index is found in the files */
    int duplicates;   /* enum data_duplicates */
    int64_t features; /* 0: as many as occur in the files */
    const char *model;
    bool rows;             /* sparse data: a batch reads and pushes only the rows of the weights that it needs */
    int64_t partition;     /* with `rows`: into how many parts a table is cut; 0 or 1: it is not cut */
    int64_t rows_per_step; /* with `rows`, in rounds: most rows of a table that a batch reads; 0: as many as the data can need */
    const char *optimizer;
    const char *lr_schedule;
    double learning_rate;
    double momentum;
    double clip_norm;  /* most that the norm of a step's gradients may be; 0: no limit */
    double l2;         /* adds l2 x value to each gradient; 0: what --optimizer says */
    ps_optimizer rule; /* the optimizer that the fields from `optimizer` to `l2` give, without clip_norm */
    int64_t batch_size;
    int64_t epochs;   /* epochs to train, if steps is 0 */
    int64_t patience; /* end after this many epochs without a lower validation loss; 0: never */
    int64_t steps;    /* global step at which to end; 0: after `epochs` */
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
    ps_sync_options with; /* what follows from the five fields above; mode PS_SYNC_NONE: no worker waits for others */
    bool in_rounds;       /* --sync or --serial was given */
    bool log_shards;
    const char *placement; /* "round_robin" or "balanced" */
    bool allow_soft_placement;
    bool log_device_placement;
    const char *device;
    int64_t threads;
    bool prefetch;
    bool fresh;
    bool eval;
    bool ema; /* with eval: test the moving averages of the weights, not the weights */
    int64_t eval_every;
    int64_t max_recoveries;
    const char *restore;
    const char *warm_start;
    const char *warm_start_only, *warm_start_prefix; /* "" or texts between commas */
    bool start_over;
    const char *summaries;
    const char *trace;
    int64_t trace_step; /* which of this worker's steps of this run to trace, from 1 */
    const char *export_file;
    const char *report;
    const char *plot;
    bool status_at_end;
    int64_t timeout_s;
    bool help;
    bool version;
    uint8_t from[FLAGS_COUNT]; /* [row of the table of flags]: where the value came from (enum psi_option_from) */
};

/** Parse the command line. `--flag=value` is `--flag value`, and `_` in names stands for `-`. If a flag is given several times,
 * the last one counts.
 *
 * argv     borrows; texts in out point into it.
 * Returns  0, or -1 with one line in err (CLI_ERR_BYTES) that names the flag and what is allowed. */
int flags_parse(int argc, char **argv, struct flags *out, char *err);
/** True if the command line has the flag, even with its default as value. */
bool flags_given(const struct flags *f, const char *name);
/** Write those flags that a child of --local is given as texts "--name=value".
 *
 * worker   the child is a worker, not a ps task.
 * texts    [FLAGS_COUNT]; the caller frees each text with free().
 * Returns  number of texts; -1 without memory. */
int flags_for_child(const struct flags *f, bool worker, char **texts);
/** Write the text of --help to standard output. Returns 0; -1: it could not be written. */
int flags_help(void);

#endif
