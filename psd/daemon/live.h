/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of one running task of the daemon: the values at its start, with changes by `psctl config set` and SIGHUP. */
#ifndef PSD_LIVE_H
#define PSD_LIVE_H

#include "psd/settings/settings.h"

#include <pthread.h>

struct psd_live {
    const struct psd_settings *settings;
    uint64_t machine_share_bytes; /* this task's memory budget while the setting memory_budget is 0 */
    pthread_mutex_t lock;   /* protects `now` and `allow`; also held while the server gets a new value, so that both agree */
    psd_server_options now; /* present values of PSD_SERVER_SETTINGS; the memory budget is that of all tasks together */
    char allow[PSD_ALLOW_BYTES_MAX + 1];
    char shown[PSD_ALLOW_BYTES_MAX + 1]; /* the text that psd_live_row() returned last; used on the task's thread only */
};

/** Start with the values of settings. Call before the task starts. settings and live must outlive the task. */
void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes);
/** A psd_server_config_fn: row i with its present value. Task's thread; texts are valid until the next call. */
bool psd_live_row(struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable);
/** Change setting `name`; a psd_server_options.config_set. On the task's or the main thread. old [PSD_ROW_TEXT_BYTES] gets the
 * old value; NULL: not wanted. FAILED_PRECONDITION: only a restart changes it; INVALID_ARGUMENT: error says what is allowed. */
PSI_MUST ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *old,
                                char *error, size_t error_bytes);
/** Call psd_server_reload() for the task. allow: new rows of rights; NULL: the present ones. */
PSI_MUST ps_status psd_live_reload(struct psd_live *live, psd_server *server, const char *allow, char *error, size_t error_bytes);
/** Read how many ms the drain (orderly end) of the task may take at present. Any thread may call it. */
int64_t psd_live_drain_ms(struct psd_live *live);

#endif
