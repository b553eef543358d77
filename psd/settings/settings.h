/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd's settings: one table from which flags, psd.conf, --help and `psctl config` come, and what follows from them: the cluster
 * (flags, then TF_CONFIG, then the file) and which tasks of it this process runs.
 */
#ifndef PSD_SETTINGS_H
#define PSD_SETTINGS_H

#include "common/buf.h"
#include "common/limits.h"
#include "common/status.h"
#include "psd.h"

enum {
    PSD_HOSTS_BYTES_MAX = 64 << 10, /* a host list or spec string */
    PSD_LISTEN_BYTES_MAX = 8 << 10,
    PSD_OWN_TASKS_MAX = 256, /* tasks in one process */
    PSD_SETTINGS = 22        /* rows */
};

/* Values as the table stores them. Empty strings: not given. */
struct psd_settings {
    char cluster[PSD_HOSTS_BYTES_MAX + 1];
    char ps_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char worker_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char listen[PSD_LISTEN_BYTES_MAX + 1];
    char config[1024];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job_name[PS_JOB_BYTES_MAX + 1];
    char task_index[1024];
    char unix_mode[5];
    int64_t memory_budget, lease_ms, beat_ms, hello_deadline_ms, drain_ms, sessions_max, session_keep_ms;
    int log_level;
    bool insecure_any_peer, refuse_nonfinite, help, version, print_config;
    /* derived */
    uint32_t tasks[PSD_OWN_TASKS_MAX];
    uint32_t task_count;
    unsigned mode;
    struct psi_buf print;        /* print_config: the text */
    uint8_t from[PSD_SETTINGS];  /* of each row: enum psi_option_from */
    char *value[PSD_SETTINGS];   /* of each row: in force, as text */
    char *in_file[PSD_SETTINGS]; /* of each row: what the file alone makes of it; NULL: there is no file */
};

/**
 * Defaults, flags, the file that --config names, TF_CONFIG (tf_config: its text or NULL), checked and derived. With --help or
 * --version among the flags nothing else is read; with --print_config the text is made. argv stays as it is. *out_settings: free
 * with psd_settings_free. Errors: INVALID_ARGUMENT that names flag, file and line, or variable; NOT_FOUND for the file.
 */
PSI_MUST ps_status psd_settings_read(int argc, char **argv, const char *tf_config, struct psd_settings **out_settings,
                                     struct psi_err *err);
/** NULL is fine. */
void psd_settings_free(struct psd_settings *settings);
/** The --help text. */
PSI_MUST ps_status psd_settings_help(struct psi_buf *out, struct psi_err *err);
/** Options of own task i; strings borrow from settings. listen: of this task, NULL where inherited sockets are used or none
 * given. */
void psd_settings_options(const struct psd_settings *settings, uint32_t i, const char *listen, psd_server_options *out);
/** A psd_server_config_fn, values as settings say (NULL: no values), flags that are no settings left out. Any thread. */
bool psd_settings_row(const struct psd_settings *settings, uint32_t i, const char **name, const char **value,
                      const char **default_value, const char **help, bool *reloadable);
/** The value of a row that is no text, as a number (milliseconds, bytes, 0 and 1, a choice's index) and as text again into text
 * [n], n > 32. Changes nothing. Any thread. Errors: INVALID_ARGUMENT that says what is allowed. */
PSI_MUST ps_status psd_settings_parse(const char *name, const char *value, int64_t *out_value, char *text, size_t n,
                                      struct psi_err *err);

#endif
