/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of psd/settings/ only. */
#ifndef PSD_SETTINGS_INTERNAL_H
#define PSD_SETTINGS_INTERNAL_H

#include "settings.h"

#include "common/options.h"

/** The cluster may be given several times: keep in s only the source with the highest precedence. tf_config NULL: not set. */
PSI_MUST ps_status psd_settings_cluster(struct psi_options *o, struct psd_settings *s, const char *tf_config,
                                        struct psi_err *err);

#endif
