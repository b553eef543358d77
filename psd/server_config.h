/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the core's configuration from psd_server_options; for server_start.c, server_set.c and main.c. */
#ifndef PSD_SERVER_CONFIG_H
#define PSD_SERVER_CONFIG_H

#include "psd.h"
#include "task.h"

/** Check the ranges of the options, and that no two exclude each other. INVALID_ARGUMENT. */
PSI_MUST ps_status psd_server_config_check(const psd_server_options *o, struct psi_err *err);
/** Put the options' cluster into c, which is initialised, and check that it has the task. Without a cluster c stays empty. */
PSI_MUST ps_status psd_server_config_cluster(const psd_server_options *o, struct psi_cluster *c, struct psi_err *err);
/** How many descriptors a server with options o needs before its first connection, without those of its event loop. */
uint32_t psd_server_config_files(const psd_server_options *o);
/** A copy of o for the core: memory_budget_bytes 0 becomes 80 % of the machine's memory. */
psd_server_options psd_server_config_core(const psd_server_options *o);
/** Fill in the fields of config that follow from o and the machine. psd_task_config_init() was called before. */
void psd_server_config_limits(const psd_server_options *o, struct psd_task_config *config);

#endif
