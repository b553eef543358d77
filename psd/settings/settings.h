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
    PSD_OWN_TASKS_MAX = 256,                  /* tasks in one process */
    PSD_ROW_TEXT_BYTES = sizeof(psd_text) + 1 /* of a row of PSD_SERVER_SETTINGS */
};

/* Rows of PSD_SERVER_SETTINGS. */
#define PSD_ROW_OF(type, field, ...) PSD_ROW_##field,
enum psd_row { PSD_SERVER_SETTINGS(PSD_ROW_OF) PSD_ROWS };
/* All rows: texts, those, and flags that are no settings. */
enum { PSD_TEXTS = 9, PSD_FLAGS = 4, PSD_SETTINGS = PSD_TEXTS + PSD_ROWS + PSD_FLAGS };

/* Values as the table stores them. Empty strings: not given. */
struct psd_settings {
    psd_server_options server; /* its PSD_SERVER_SETTINGS */
    char cluster[PSD_HOSTS_BYTES_MAX + 1];
    char ps_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char worker_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char listen[PSD_LISTEN_BYTES_MAX + 1];
    char config[1024];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job_name[PS_JOB_BYTES_MAX + 1];
    char task_index[1024];
    char unix_mode[5];
    char checkpoint_dir[768];
    bool help, version, print_config;
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
/** A psd_server_config_fn, values as settings say, flags that are no settings left out. Any thread. */
bool psd_settings_row(const struct psd_settings *settings, uint32_t i, const char **name, const char **value,
                      const char **default_value, const char **help, bool *reloadable);
/** Which row of PSD_SERVER_SETTINGS number i of psd_settings_row() is; PSD_ROWS: none. */
enum psd_row psd_settings_number(uint32_t i);

/* ---- rows of PSD_SERVER_SETTINGS in options of a server; any thread ---- */
/** The row with this name of a setting, or name of a field; PSD_ROWS: none that may change while a task runs. */
enum psd_row psd_row_find(const char *name, bool of_field);
/** "lease_ms" */
const char *psd_row_field(enum psd_row row);
void psd_row_describe(enum psd_row row, const char **name, const char **default_value, const char **help, bool *reloadable);
/** Give o what text says, as the flag would. Errors: INVALID_ARGUMENT that says what is allowed; o is unchanged. */
PSI_MUST ps_status psd_row_parse(enum psd_row row, const char *text, psd_server_options *o, struct psi_err *err);
/** As a user would write it; returns text [PSD_ROW_TEXT_BYTES]. */
const char *psd_row_format(enum psd_row row, const psd_server_options *o, char *text);
/** May a program set it to that? Wider than the flag. Errors: INVALID_ARGUMENT that says what is allowed (a text: none is); o is
 * unchanged. */
PSI_MUST ps_status psd_row_set(enum psd_row row, int64_t value, psd_server_options *o, struct psi_err *err);
/** ... to what o has. Errors: INVALID_ARGUMENT that says what is allowed. */
PSI_MUST ps_status psd_row_check(enum psd_row row, const psd_server_options *o, struct psi_err *err);
void psd_row_copy(enum psd_row row, const psd_server_options *from, psd_server_options *to);

#endif
