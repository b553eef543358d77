/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP in the daemon: read the configuration file again, and change what may change while it runs. Main thread only. */
#ifndef PSD_RELOAD_H
#define PSD_RELOAD_H

#include "common/log.h"
#include "live.h"

struct psd_reload {
    struct psd_settings *settings; /* settings in force; psd_reload() replaces the values that the file changes */
    int argc;                      /* main()'s arguments, which must stay valid */
    char **argv;
    struct psi_log log;
    psd_server *const *servers;    /* [count]; owned by the caller */
    struct psd_live *const *lives; /* [count]; owned by the caller */
    uint32_t count;
};

/** Read the configuration file again, put its changes in force at every task, and log them. */
void psd_reload(struct psd_reload *r);

#endif
