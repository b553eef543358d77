/* SPDX-License-Identifier: Apache-2.0 */
/* psd's settings: one table for flags, psd.conf, --help and `psctl config`. The values say the cluster (a flag has precedence
 * over TF_CONFIG, and TF_CONFIG over the file), and which of its tasks this process runs. */
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
    PSD_ALLOW_BYTES_MAX = 8191,               /* longest text of the setting `allow`; a file of rights may be longer */
    PSD_OWN_TASKS_MAX = 256,                  /* tasks in one process */
    PSD_ROW_TEXT_BYTES = sizeof(psd_text) + 1 /* room for any setting as text */
};

#define PSD_ROW_OF(type, field, ...) PSD_ROW_##field,
enum psd_row { PSD_SERVER_SETTINGS(PSD_ROW_OF) PSD_ROWS };
/* Numbers of rows in the table of settings: PSD_TEXTS texts, PSD_ROWS of PSD_SERVER_SETTINGS, PSD_FLAGS flags such as --help. */
enum { PSD_TEXTS = 17, PSD_FLAGS = 4 + PSI_RESOLVER_ROW_COUNT, PSD_SETTINGS = PSD_TEXTS + PSD_ROWS + PSD_FLAGS };

/* The values of all settings. An empty string: the setting is not given. */
struct psd_settings {
    psd_server_options server; /* only its PSD_SERVER_SETTINGS are used */
    char cluster[PSD_HOSTS_BYTES_MAX + 1];
    ps_resolver_options resolver; /* used if `cluster` is the name of a cluster manager, or "auto" */
    ps_resolved resolved;         /* what the manager's environment variables say; manager "": `cluster` names no manager */
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
    bool allow_given; /* false: `allow` has its default, and psd_server_options.rights stays NULL */
    bool tls_crc;
    bool help, version, print_config;
    /* derived */
    uint32_t tasks[PSD_OWN_TASKS_MAX];
    uint32_t task_count;
    unsigned mode;
    struct psi_buf print;
    uint8_t from[PSD_SETTINGS];  /* enum psi_option_from: where each row's value comes from */
    char *value[PSD_SETTINGS];   /* each row's present value, as text */
    char *in_file[PSD_SETTINGS]; /* what the configuration file says for each row; NULL: there is no file */
};

/** Read flags, the file of --config, TF_CONFIG (tf_config: its text, or NULL), and the environment variables of the cluster
 * manager that --cluster names; check the values, and derive the other fields. With --help or --version only flags are read. argv
 * stays unchanged. *out_settings: free with psd_settings_free(). INVALID_ARGUMENT: err says where; NOT_FOUND: the file of
 * --config is missing. */
PSI_MUST ps_status psd_settings_read(int argc, char **argv, const char *tf_config, struct psd_settings **out_settings,
                                     struct psi_err *err);
void psd_settings_free(struct psd_settings *settings);
PSI_MUST ps_status psd_settings_help(struct psi_buf *out, struct psi_err *err);
/** Fill *out for task i of this process. Its strings point into settings. listen: addresses where the task listens; NULL: not
 * given, or the sockets are inherited. */
void psd_settings_options(const struct psd_settings *settings, uint32_t i, const char *listen, psd_server_options *out);
/** A psd_server_config_fn for settings: row i and its value. Flags such as --help are left out. Any thread. */
bool psd_settings_row(const struct psd_settings *settings, uint32_t i, const char **name, const char **value,
                      const char **default_value, const char **help, bool *reloadable);
/** True if row i of psd_settings_row() is `allow`, which psd_server_reload() changes. */
bool psd_settings_is_allow(uint32_t i);
/** The PSD_ROW_* of row i of psd_settings_row(); PSD_ROWS: that row is not in PSD_SERVER_SETTINGS. */
enum psd_row psd_settings_number(uint32_t i);

/* ---- single rows of PSD_SERVER_SETTINGS; any thread ---- */
/** Find the row of a setting that may change while the task runs. name: its field in psd_server_options (of_field true), or the
 * setting (false). Returns PSD_ROWS if there is no such row. */
enum psd_row psd_row_find(const char *name, bool of_field);
/** The field's name, such as "lease_ms". */
const char *psd_row_field(enum psd_row row);
void psd_row_describe(enum psd_row row, const char **name, const char **default_value, const char **help, bool *reloadable);
/** Set the row's field in o to text, written as for the flag. Errors: INVALID_ARGUMENT says what is allowed; o is unchanged. */
PSI_MUST ps_status psd_row_parse(enum psd_row row, const char *text, psd_server_options *o, struct psi_err *err);
/** Write the row's field in o as text, in the form of the flag. Returns text [PSD_ROW_TEXT_BYTES]. */
const char *psd_row_format(enum psd_row row, const psd_server_options *o, char *text);
/** Set the row's field in o to value. INVALID_ARGUMENT: value is out of range, or the field is a text; o is unchanged. */
PSI_MUST ps_status psd_row_set(enum psd_row row, int64_t value, psd_server_options *o, struct psi_err *err);
/** Check that the row's field in o is in its range, as a program may set it. Errors: INVALID_ARGUMENT says what is allowed. */
PSI_MUST ps_status psd_row_check(enum psd_row row, const psd_server_options *o, struct psi_err *err);
void psd_row_copy(enum psd_row row, const psd_server_options *from, psd_server_options *to);

#endif
