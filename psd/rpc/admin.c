/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask: INFO, CONFIG, SHUTDOWN. */
#include "rpc.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { SHUTDOWN_RETRY_MS = 100 };

void psd_rpc_info(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_InfoAnswer a = ps_v1_InfoAnswer_init_zero;
    char missing[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; t->is_directory && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->own_job && !p->self && !p->listed && used + PSI_TASK_NAME_MAX + 4 < sizeof(missing)) {
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s/job:%s/task:%u", used == 0 ? "" : ", ", p->job,
                                     p->task);
        }
    }
    uint64_t variable_bytes = 0, cursor = 0, handle = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->store.handles, &cursor, &handle, &value)) {
        variable_bytes += ((const struct psd_variable *)value)->bytes;
    }
    PSI_IGNORE(PSI_BYTES_SET(a.job, t->config.job));         /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(a.address, t->config.address)); /* fits: checked address */
    PSI_IGNORE(PSI_BYTES_SET(a.version, PS_VERSION));        /* fits */
    PSI_IGNORE(PSI_BYTES_SET(a.waiting_for, missing));       /* cut is fine */
    a.task = t->config.task;
    a.uptime_ms = t->now_ms - t->started_ms;
    a.memory_bytes = t->store.arena.used_bytes;
    a.variable_bytes = variable_bytes;
    a.connections = t->conn_count;
    a.sessions = psi_map_count(&t->records);
    a.variables = t->store.variable_count;
    a.pushes_applied = t->count.pushes_applied;
    a.pushes_torn = t->count.pushes_torn;
    a.pushes_refused = t->count.pushes_refused;
    a.nonfinite = t->count.nonfinite;
    a.pulls = t->count.pulls;
    a.bytes_in = t->count.bytes_in;
    a.bytes_out = t->count.bytes_out;
    a.pushes_per_second = t->pushes_per_second;
    a.bytes_per_second = t->bytes_per_second;
    a.life = t->life;
    a.pid = t->config.pid;
    a.budget_bytes = t->config.memory_budget_bytes;
    a.directory = t->is_directory;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_INFO, PS_FLAG_REPLY, r->header.id);
    psd_list_add(&l, &ps_v1_InfoAnswer_msg, &a);
    psd_list_end(&l);
}

void psd_rpc_config(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CONFIG, PS_FLAG_REPLY, r->header.id);
    const char *name = NULL, *value = NULL, *default_value = NULL, *help = NULL;
    bool reloadable = false;
    for (uint32_t i = 0; t->config.config_row != NULL &&
                         t->config.config_row(t->config.config_ctx, i, &name, &value, &default_value, &help, &reloadable);
         i++) {
        ps_v1_ConfigAnswer a = ps_v1_ConfigAnswer_init_zero;
        a.reloadable = reloadable;
        PSI_IGNORE(PSI_BYTES_SET(a.name, name));                   /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.value, value));                 /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.default_value, default_value)); /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.help, help));                   /* likewise */
        psd_list_add(&l, &ps_v1_ConfigAnswer_msg, &a);
    }
    psd_list_end(&l);
}

void psd_rpc_shutdown(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    psd_log(t, PSI_LOG_INFO, "shutdown_asked", "peer=%s", c->text);
    struct psi_err err;
    bool asked = psd_effect(t, PSD_EFFECT_SHUTDOWN, "");
    if (!asked) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory to shut down", t->name)); /* sent below */
    }
    psd_reply(t, c, PS_OP_SHUTDOWN, 0, r->header.id, 0, asked ? NULL : &err, asked ? 0 : SHUTDOWN_RETRY_MS, NULL, NULL);
}
