/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of psd/settings/ only. */
#ifndef PSD_SETTINGS_INTERNAL_H
#define PSD_SETTINGS_INTERNAL_H

#include "settings.h"

#include "common/options.h"

/** Keep one source of the cluster in s, the highest. tf_config NULL: none. */
PSI_MUST ps_status psd_settings_cluster(struct psi_options *o, struct psd_settings *s, const char *tf_config,
                                        struct psi_err *err);

#endif
