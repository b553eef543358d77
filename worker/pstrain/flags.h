/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's command line: one table of flags, from which parsing, --help and the workers' command lines come. */
#ifndef PSTRAIN_FLAGS_H
#define PSTRAIN_FLAGS_H

#include "common/cli/text.h"
#include "common/options.h"

#include <ps.h>
#include <psd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLAGS_COUNT = 64, FLAGS_LOCAL_MAX = 64 /* tasks of a job that --local starts */ };

struct flags {
    /* the cluster */
    const char *cluster;
    const char *ps_hosts;
    const char *worker_hosts;
    const char *cluster_name; /* "": not stated */
    const char *job_name;
    int64_t task_index;
    const char *local; /* "" or "ps=2,workers=3" */
    int local_ps;      /* from it */
    int local_workers;
    int64_t serial; /* 0: not; the workers whose rounds are computed one after the other */
    bool insecure_any_peer;
    bool serve;
    bool exit_when_done;
    const char *checkpoint_dir; /* "" or a directory */
    int64_t checkpoint_seconds;
    int64_t checkpoint_steps;
    int64_t max_to_keep;
    int64_t keep_every_hours;
    int64_t checkpoint_memory; /* bytes */
    int restore_checkpoint;    /* as the settings restore and recover of psd_server_options */
    psd_text recover;
    bool spread;
    /* what is trained */
    const char *data;
    int base;         /* of sparse text: data_options.base + 1 */
    int duplicates;   /* enum data_duplicates */
    int64_t features; /* 0: as many as the files have */
    const char *model;
    const char *optimizer;
    double learning_rate;
    double momentum;
    int64_t batch_size;
    int64_t epochs; /* of this run, when steps is 0 */
    int64_t steps;  /* global step to reach; 0: epochs count */
    int64_t seed;
    /* how it runs */
    const char *container; /* "": the default one */
    const char *work;      /* "share" or "shards" */
    bool by_shards;        /* from it */
    bool sync;
    int64_t sync_workers; /* 0: all */
    int64_t replicas;     /* 0: all */
    const char *worker_loss;
    int64_t staleness;
    ps_sync_options with; /* from these five; PS_SYNC_NONE: each at its own pace */
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
    int64_t eval_every;
    int64_t max_recoveries;
    const char *restore;                             /* "" or a file */
    const char *warm_start;                          /* likewise */
    const char *warm_start_only, *warm_start_prefix; /* "" or texts between commas */
    bool start_over;
    const char *summaries;   /* "" or a directory */
    const char *export_file; /* "" or a file */
    const char *report;      /* "" or a file */
    bool status_at_end;
    int64_t timeout_s;
    bool help;
    bool version;
    uint8_t from[FLAGS_COUNT]; /* of each row: enum psi_option_from */
};

/**
 * Read the command line. `--flag value` and `--flag=value`, `-` and `_` alike in names; the last of several counts.
 *
 * argv     borrows; texts in out point into it.
 * Returns  0, or -1 with one line in err (CLI_ERR_BYTES) that names the flag and what is allowed.
 */
int flags_parse(int argc, char **argv, struct flags *out, char *err);
/** True if the command line has the flag. */
bool flags_given(const struct flags *f, const char *name);
/**
 * The flags that a worker of --local, or a ps task, gets from this command line, as "--name=value" texts.
 *
 * texts    [FLAGS_COUNT], gives each (free()).
 * Returns  how many, -1 without memory.
 */
int flags_for_child(const struct flags *f, bool worker, char **texts);
/** The optimizer that the flags ask for; valid until 16 further constructor calls. */
const ps_optimizer *flags_optimizer(const struct flags *f);
/** Writes --help to standard output; 0, or -1 if it could not be written. */
int flags_help(void);

#endif
