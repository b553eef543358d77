/* SPDX-License-Identifier: Apache-2.0 */
/* From psd_server_options to what the core wants; for server.c. */
#ifndef PSD_SERVER_CONFIG_H
#define PSD_SERVER_CONFIG_H

#include "psd.h"
#include "task.h"

/** Ranges, and options that exclude each other. */
PSI_MUST ps_status psd_server_config_check(const psd_server_options *o, struct psi_err *err);
/** The cluster of the options into c (initialised), checked to have the task; no job in it when none is given. */
PSI_MUST ps_status psd_server_config_cluster(const psd_server_options *o, struct psi_cluster *c, struct psi_err *err);
/** Descriptors that a server takes beside its loop until it has one connection. */
uint32_t psd_server_config_files(const psd_server_options *o);
/** The options as the core takes them: memory_budget_bytes 0 is what the machine has. */
psd_server_options psd_server_config_core(const psd_server_options *o);
/** Settings and hooks; config was initialised. */
void psd_server_config_limits(const psd_server_options *o, struct psd_task_config *config);

#endif
