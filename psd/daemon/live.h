/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of one task of the daemon while it runs: what it was started with, and what `psctl config set` and SIGHUP have made of
 * it. */
#ifndef PSD_LIVE_H
#define PSD_LIVE_H

#include "psd/settings/settings.h"

#include <pthread.h>

struct psd_live {
    const struct psd_settings *settings;
    uint64_t machine_share_bytes;   /* what memory_budget 0 means for this task */
    pthread_mutex_t lock;           /* of now; held while the server is told, so that both say the same */
    psd_server_options now;         /* its PSD_SERVER_SETTINGS, the budget that of all tasks */
    char shown[PSD_ROW_TEXT_BYTES]; /* the task's: what psd_live_row() gave last */
};

/** Before the task starts. settings and live must outlive it. */
void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes);
/** psd_server_config_fn without ctx: the values in force. On the task's thread; a text is valid until the next call. */
bool psd_live_row(struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable);
/** psd_server_options.config_set without ctx; also from the main thread. old [PSD_ROW_TEXT_BYTES] (may be NULL): what was in
 * force until now. Errors: FAILED_PRECONDITION (takes a restart), INVALID_ARGUMENT (what is allowed). */
PSI_MUST ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *old,
                                char *error, size_t error_bytes);
/** The drain time in force. Any thread. */
int64_t psd_live_drain_ms(struct psd_live *live);

#endif
