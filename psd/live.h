/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of one task of the daemon while it runs: what it was started with, and what `psctl config set` has made of it. */
#ifndef PSD_LIVE_H
#define PSD_LIVE_H

#include "settings.h"

#include <stdatomic.h>

enum { PSD_LIVE_ROWS = 6, PSD_LIVE_TEXT_BYTES = 48 };

struct psd_live {
    const struct psd_settings *settings;
    uint64_t machine_share_bytes;                  /* what memory_budget 0 means for this task */
    _Atomic int64_t drain_ms;                      /* any thread; everything else: the task's */
    char text[PSD_LIVE_ROWS][PSD_LIVE_TEXT_BYTES]; /* "": as started */
};

/** Before the task starts. settings and live must outlive it. */
void psd_live_init(struct psd_live *live, const struct psd_settings *settings, uint64_t machine_share_bytes);
/** psd_server_config_fn without ctx: the values in force. On the task's thread; a text is valid until the next psd_live_set(). */
bool psd_live_row(const struct psd_live *live, uint32_t i, const char **name, const char **value, const char **default_value,
                  const char **help, bool *reloadable);
/** psd_server_options.config_set without ctx. On the task's thread. Errors: FAILED_PRECONDITION (takes a restart),
 * INVALID_ARGUMENT (what is allowed). */
PSI_MUST ps_status psd_live_set(struct psd_live *live, psd_server *server, const char *name, const char *value, char *error,
                                size_t error_bytes);

#endif
