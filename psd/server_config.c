/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the core's configuration from psd_server_options: checks, the cluster, the limits.
 * Failure modes: INVALID_ARGUMENT with a text for the person who chose the option. */
#include "server_config.h"

#include "psd/settings/settings.h"
#include "psd/shell/disk.h"
#include "psd/shell/machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PSD_DEVICE_TYPE_BYTES_MAX = 15, PSD_DEVICE_DIGITS_MAX = 4 };

/* Check a list such as "CPU:0,GPU:0": each TYPE:INDEX once, and CPU:0 among them, because soft placement needs it. */
static ps_status check_devices(const char *devices, struct psi_err *err)
{
    struct psd_task_config config;
    bool cpu = false;
    size_t at = 0;
    if (strlen(devices) >= sizeof(config.devices)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "devices is longer than %zu bytes", sizeof(config.devices) - 1);
    }
    for (;;) {
        const char *one = devices + at;
        size_t len = strcspn(one, ",");
        size_t type = strspn(one, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        size_t digits = one[type] == ':' ? strspn(one + type + 1, "0123456789") : 0;
        bool good = type > 0 && type <= PSD_DEVICE_TYPE_BYTES_MAX && one[0] >= 'A' && one[0] <= 'Z' && digits > 0 &&
                    digits <= PSD_DEVICE_DIGITS_MAX && type + 1 + digits == len && (digits == 1 || one[type + 1] != '0');
        for (size_t before = 0; good && before < at; before += strcspn(devices + before, ",") + 1) {
            good = strcspn(devices + before, ",") != len || strncmp(devices + before, one, len) != 0;
        }
        if (!good) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "devices '%.127s': '%.*s' must be TYPE:INDEX such as CPU:0 (upper case, each once)", devices,
                            (int)(len < 64 ? len : 64), one);
        }
        cpu = cpu || (len == 5 && strncmp(one, "CPU:0", 5) == 0);
        at += len;
        if (devices[at] == '\0') {
            break;
        }
        at++;
    }
    return cpu ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "devices '%.127s' lacks CPU:0, which every task has", devices);
}

ps_status psd_server_config_check(const psd_server_options *o, struct psi_err *err)
{
    for (enum psd_row i = 0; i < PSD_ROWS; i++) {
        ps_status st = psd_row_check(i, o, err);
        if (st != PS_OK) {
            return st;
        }
    }
    if (o->beat_ms >= o->lease_ms) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "beat (%lld ms) must be shorter than lease (%lld ms)", (long long)o->beat_ms,
                        (long long)o->lease_ms);
    }
    if (o->unix_mode > 0777) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "unix_mode is out of range");
    }
    if (o->cluster_spec != NULL && (o->ps_hosts != NULL || o->worker_hosts != NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster is given twice: as a spec string and as host lists");
    }
    if (o->listen_fd_count > 0 && o->listen != NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "both inherited sockets and listen addresses are given: drop one of them");
    }
    return o->devices == NULL ? PS_OK : check_devices(o->devices, err);
}

static ps_status check_task(const struct psi_cluster *c, const char *job, uint32_t task, struct psi_err *err)
{
    char list[PSI_TASK_LIST_MAX];
    char jobs[400];
    if (psi_cluster_task_address(c, job, task) != NULL) {
        return PS_OK;
    }
    if (psi_cluster_num_tasks(c, job) > 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "task_index %u is not in the cluster: job '%s' has task%s %s", task, job,
                        psi_cluster_num_tasks(c, job) > 1 ? "s" : "", psi_cluster_task_list(c, job, list, sizeof(list)));
    }
    if (psi_cluster_job_index(c, job) >= 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "task_index %u is not in the cluster: job '%s' has no tasks", task, job);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "job '%s' is not in the cluster: it has %s", job,
                    psi_cluster_job_list(c, jobs, sizeof(jobs)));
}

ps_status psd_server_config_cluster(const psd_server_options *o, struct psi_cluster *c, struct psi_err *err)
{
    ps_status st = psi_cluster_set_name(c, o->cluster_name, err);
    if (st == PS_OK && o->cluster_spec != NULL) {
        st = psi_cluster_load(c, o->cluster_spec, err);
        if (st == PS_OK && psi_cluster_total_tasks(c) == 0) {
            st = psi_fail(err, PS_INVALID_ARGUMENT,
                          psi_cluster_job_count(c) == 0 ? "cluster spec: it has no jobs" : "cluster spec: it has no tasks");
        }
    }
    if (st == PS_OK && o->ps_hosts != NULL) {
        st = psi_cluster_add_job(c, "ps", o->ps_hosts, err);
    }
    if (st == PS_OK && o->worker_hosts != NULL) {
        st = psi_cluster_add_job(c, "worker", o->worker_hosts, err);
    }
    if (st != PS_OK) {
        return st;
    }
    if (psi_cluster_job_count(c) > 0) {
        st = check_task(c, o->job, o->task_index, err);
        return st == PS_OK ? psi_cluster_directory_check(c, err) : st;
    }
    if (o->task_index != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "task_index %u needs a cluster that has it: none is given", o->task_index);
    }
    return PS_OK;
}

uint32_t psd_server_config_files(const psd_server_options *o)
{
    uint32_t addresses = 1;
    uint32_t disk = o->checkpoint_dir != NULL && o->checkpoint_dir[0] != '\0' ? PSD_DISK_DESCRIPTORS : 0;
    if (o->listen_fd_count > 0) {
        return (uint32_t)o->listen_fd_count + 1 + disk; /* 1: the spare descriptor of the listeners (listener.c) */
    }
    for (const char *p = o->listen != NULL ? o->listen : ""; *p != '\0'; p++) {
        addresses += *p == ',' ? 1 : 0;
    }
    return addresses * 2 + 1 + disk;
}

psd_server_options psd_server_config_core(const psd_server_options *o)
{
    psd_server_options core = *o;
    if (core.memory_budget_bytes == 0) {
        core.memory_budget_bytes = psd_machine_memory_bytes() / 5 * 4;
    }
    return core;
}

void psd_server_config_limits(const psd_server_options *o, struct psd_task_config *config)
{
    psd_server_options core = psd_server_config_core(o);
    psd_task_config_take(config, &core);
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    config->unix_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    config->pid = (uint32_t)getpid();
    if (gethostname(config->host, sizeof(config->host) - 1) != 0) {
        config->host[0] = '\0';
    }
    config->host[sizeof(config->host) - 1] = '\0';
    if (o->devices != NULL) {
        (void)snprintf(config->devices, sizeof(config->devices), "%s", o->devices);
    }
    config->calls_max = o->calls_max;
    config->config_row = o->config_row;
    config->config_ctx = o->ctx;
}
