/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of one running task of the daemon: those it was started with, as changed by `psctl config set` and SIGHUP. */
#ifndef PSD_LIVE_H
#define PSD_LIVE_H

#include "psd/settings/settings.h"

#include <pthread.h>

struct psd_live {
    const struct psd_settings *settings;
    uint64_t machine_share_bytes; /* meaning of memory_budget 0 for this task */
    pthread_mutex_t lock;         /* protects `now`; held while the server is told, so that both agree */
    psd_server_options now;       /* values of PSD_SERVER_SETTINGS; the budget is that of all tasks */
    char allow[PSD_ALLOW_BYTES_MAX + 1];
    char shown[PSD_ALLOW_BYTES_MAX + 1]; /* last text of psd_live_row(); for the task's thread */
};

/** Call it before the task starts. settings and live must outlive the task. */
void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes);
/** A psd_server_config_fn without ctx: the values in force. On the task's thread; a text is valid until the next call. */
bool psd_live_row(struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable);
/** A psd_server_options.config_set without ctx; on the task's or the main thread. old [PSD_ROW_TEXT_BYTES], may be NULL: the
 * value until now. Errors: FAILED_PRECONDITION (takes a restart), INVALID_ARGUMENT (what is allowed). */
PSI_MUST ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *old,
                                char *error, size_t error_bytes);
/**
 * Read the keys, certificates and rights of the task again, all or none: psd_server_reload().
 * allow  rows of rights from now on; NULL: those in force.
 */
PSI_MUST ps_status psd_live_reload(struct psd_live *live, psd_server *server, const char *allow, char *error, size_t error_bytes);
/** The drain time in force. Any thread. */
int64_t psd_live_drain_ms(struct psd_live *live);

#endif
