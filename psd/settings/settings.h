/* SPDX-License-Identifier: Apache-2.0 */
/* psd's settings: one table for flags, psd.conf, --help and `psctl config`; and what follows from the values: the cluster (flags
 * before TF_CONFIG before the file) and which of its tasks this process runs. */
#ifndef PSD_SETTINGS_H
#define PSD_SETTINGS_H

#include "common/buf.h"
#include "common/limits.h"
#include "common/resolve/rows.h"
#include "common/status.h"
#include "psd.h"

enum {
    PSD_HOSTS_BYTES_MAX = 64 << 10,
    PSD_LISTEN_BYTES_MAX = 8 << 10,
    PSD_PATH_BYTES_MAX = 767,
    PSD_ALLOW_BYTES_MAX = 8191,               /* rows of rights; a file of its own may have more */
    PSD_OWN_TASKS_MAX = 256,                  /* tasks in one process */
    PSD_ROW_TEXT_BYTES = sizeof(psd_text) + 1 /* of the text of a row of PSD_SERVER_SETTINGS */
};

#define PSD_ROW_OF(type, field, ...) PSD_ROW_##field,
enum psd_row { PSD_SERVER_SETTINGS(PSD_ROW_OF) PSD_ROWS };
/* All rows of psd's flags: texts, PSD_SERVER_SETTINGS, and flags that are no settings. */
enum { PSD_TEXTS = 17, PSD_FLAGS = 4 + PSI_RESOLVER_ROW_COUNT, PSD_SETTINGS = PSD_TEXTS + PSD_ROWS + PSD_FLAGS };

/* Values as the table stores them. Empty string: not given. */
struct psd_settings {
    psd_server_options server; /* only its PSD_SERVER_SETTINGS are used */
    char cluster[PSD_HOSTS_BYTES_MAX + 1];
    ps_resolver_options resolver; /* used if `cluster` named a manager */
    ps_resolved resolved;         /* what the manager's variables gave; manager "": `cluster` named none */
    char ps_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char worker_hosts[PSD_HOSTS_BYTES_MAX + 1];
    char listen[PSD_LISTEN_BYTES_MAX + 1];
    char config[1024];
    char cluster_name[PS_JOB_BYTES_MAX + 1];
    char job_name[PS_JOB_BYTES_MAX + 1];
    char task_index[1024];
    char unix_mode[5];
    char checkpoint_dir[PSD_PATH_BYTES_MAX + 1];
    char key_file[PSD_PATH_BYTES_MAX + 1];
    char tls_cert[PSD_PATH_BYTES_MAX + 1];
    char tls_key[PSD_PATH_BYTES_MAX + 1];
    char tls_ca[PSD_PATH_BYTES_MAX + 1];
    char tls_refused[PSD_PATH_BYTES_MAX + 1];
    char rights_file[PSD_PATH_BYTES_MAX + 1];
    char allow[PSD_ALLOW_BYTES_MAX + 1];
    bool allow_given; /* false: the default, which libpsd knows */
    bool tls_crc;
    bool help, version, print_config;
    /* derived */
    uint32_t tasks[PSD_OWN_TASKS_MAX];
    uint32_t task_count;
    unsigned mode;
    struct psi_buf print;
    uint8_t from[PSD_SETTINGS];  /* of each row: enum psi_option_from */
    char *value[PSD_SETTINGS];   /* of each row: value in force, as text */
    char *in_file[PSD_SETTINGS]; /* of each row: value by the file alone; NULL: no file */
};

/** Read defaults, flags, the file of --config, TF_CONFIG (tf_config: its text, or NULL), and the variables of the manager that
 * `cluster` names; check and derive. --help or
 * --version: nothing else is read; --print_config: its text is made. argv stays unchanged. *out_settings: free with
 * psd_settings_free(). Errors: INVALID_ARGUMENT that names flag, file and line, or variable; NOT_FOUND: the file. */
PSI_MUST ps_status psd_settings_read(int argc, char **argv, const char *tf_config, struct psd_settings **out_settings,
                                     struct psi_err *err);
void psd_settings_free(struct psd_settings *settings);
PSI_MUST ps_status psd_settings_help(struct psi_buf *out, struct psi_err *err);
/** Options of own task i; strings borrow from settings. listen: of this task; NULL: none given, or inherited sockets. */
void psd_settings_options(const struct psd_settings *settings, uint32_t i, const char *listen, psd_server_options *out);
/** A psd_server_config_fn with the values of settings, without flags that are no settings. Any thread. */
bool psd_settings_row(const struct psd_settings *settings, uint32_t i, const char **name, const char **value,
                      const char **default_value, const char **help, bool *reloadable);
/** True if row i of psd_settings_row() is `allow`, which psd_server_reload() takes. */
bool psd_settings_is_allow(uint32_t i);
/** The row of PSD_SERVER_SETTINGS that row i of psd_settings_row() is. PSD_ROWS: none. */
enum psd_row psd_settings_number(uint32_t i);

/* ---- rows of PSD_SERVER_SETTINGS in a server's options; any thread ---- */
/** The row that may change while a task runs and has this name of a setting or, of_field, of a field. PSD_ROWS: none. */
enum psd_row psd_row_find(const char *name, bool of_field);
/** The field's name, such as "lease_ms". */
const char *psd_row_field(enum psd_row row);
void psd_row_describe(enum psd_row row, const char **name, const char **default_value, const char **help, bool *reloadable);
/** Set o's field of the row to text, as the flag does. Errors: INVALID_ARGUMENT says what is allowed; o is unchanged. */
PSI_MUST ps_status psd_row_parse(enum psd_row row, const char *text, psd_server_options *o, struct psi_err *err);
/** The value as a user would write it. Returns text [PSD_ROW_TEXT_BYTES]. */
const char *psd_row_format(enum psd_row row, const psd_server_options *o, char *text);
/** Set o's field of the row to value, in the range for programs, which is wider than the flag's. Errors: INVALID_ARGUMENT that
 * says what is allowed; o is unchanged. Rows that are texts refuse every number. */
PSI_MUST ps_status psd_row_set(enum psd_row row, int64_t value, psd_server_options *o, struct psi_err *err);
/** Check that o's field of the row is in the range for programs. Errors: INVALID_ARGUMENT that says what is allowed. */
PSI_MUST ps_status psd_row_check(enum psd_row row, const psd_server_options *o, struct psi_err *err);
void psd_row_copy(enum psd_row row, const psd_server_options *from, psd_server_options *to);

#endif
