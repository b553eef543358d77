/* SPDX-License-Identifier: Apache-2.0 */
/* From psd_server_options to the core's configuration; for server.c. */
#ifndef PSD_SERVER_CONFIG_H
#define PSD_SERVER_CONFIG_H

#include "psd.h"
#include "task.h"

/** Check ranges, and options that exclude each other. */
PSI_MUST ps_status psd_server_config_check(const psd_server_options *o, struct psi_err *err);
/** Put the cluster of the options into c (initialised), and check that it has the task. No cluster given: c has no job. */
PSI_MUST ps_status psd_server_config_cluster(const psd_server_options *o, struct psi_cluster *c, struct psi_err *err);
/** Descriptors that a server needs beside its loop before the first connection. */
uint32_t psd_server_config_files(const psd_server_options *o);
/** The options as the core takes them: memory_budget_bytes 0 becomes the machine's memory. */
psd_server_options psd_server_config_core(const psd_server_options *o);
/** Put settings and hooks into config, which was initialised. */
void psd_server_config_limits(const psd_server_options *o, struct psd_task_config *config);

#endif
