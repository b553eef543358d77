/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster psd takes: a flag has precedence over TF_CONFIG, and TF_CONFIG over the file. A cluster from TF_CONFIG, a manager
 * or several lines is kept as a spec string. Failure: a bad cluster, or --cluster together with the host lists. */
#include "settings_internal.h"

#include "common/cluster.h"
#include "common/resolve/resolve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint8_t level_of(const struct psi_options *o, const char *name)
{
    return o->from[psi_options_find(o, name)];
}

static uint8_t highest(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

static ps_status read_tf_config(struct psi_options *o, struct psd_settings *s, const char *json, struct psi_err *err)
{
    struct psi_cluster c;
    struct psi_cluster_self self;
    struct psi_buf spec;
    psi_cluster_init(&c);
    psi_buf_init(&spec, PSD_HOSTS_BYTES_MAX + 1);
    ps_status st = psi_cluster_parse_tf_config(&c, json, &self, err);
    if (st == PS_OK && psi_cluster_job_count(&c) > 0) {
        st = psi_cluster_format(&c, &spec, err);
        if (st == PS_OK) {
            s->ps_hosts[0] = '\0';
            s->worker_hosts[0] = '\0';
            const char *text = psi_buf_text(&spec);
            st = text != NULL ? psi_options_set(o, PSI_FROM_ENVIRONMENT, "TF_CONFIG", "cluster", text, err)
                              : psi_fail(err, PS_INVALID_ARGUMENT, "TF_CONFIG: the cluster is too large");
        }
    }
    if (st == PS_OK && self.known) {
        char index[16];
        (void)snprintf(index, sizeof(index), "%u", self.task);
        st = psi_options_set(o, PSI_FROM_ENVIRONMENT, "TF_CONFIG", "job_name", self.job, err);
        if (st == PS_OK) {
            st = psi_options_set(o, PSI_FROM_ENVIRONMENT, "TF_CONFIG", "task_index", index, err);
        }
    }
    psi_cluster_fini(&c);
    psi_buf_fini(&spec);
    return st;
}

/* Set a text setting to what a cluster manager's environment variables say, and note the environment as its source. */
static void set_text(struct psi_options *o, const char *name, char *field, size_t n, const char *text)
{
    (void)snprintf(field, n, "%s", text);
    o->from[psi_options_find(o, name)] = PSI_FROM_ENVIRONMENT;
}

/* Call if --cluster names a cluster manager: put the cluster, the task and its address in place of the name. */
static ps_status resolve(struct psi_options *o, struct psd_settings *s, struct psi_err *err)
{
    struct psi_cluster c;
    struct psi_buf spec;
    char index[16];
    ps_resolver_options *r = &s->resolver;
    r->cluster = s->cluster;
    r->job_name = level_of(o, "job_name") != PSI_FROM_DEFAULT ? s->job_name : NULL;
    r->task_index = level_of(o, "task_index") != PSI_FROM_DEFAULT ? s->task_index : NULL;
    r->wait_ms = PSI_RENDEZVOUS_MS;
    psi_cluster_init(&c);
    psi_buf_init(&spec, PSD_HOSTS_BYTES_MAX + 1);
    ps_status st = psi_cluster_resolve_here(r, environ, &c, &s->resolved, err);
    st = st == PS_OK ? psi_cluster_format(&c, &spec, err) : st;
    const char *text = st == PS_OK ? psi_buf_text(&spec) : NULL;
    if (st == PS_OK && text == NULL) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "--cluster %s: the cluster is too large", s->resolved.manager);
    }
    if (st == PS_OK) {
        set_text(o, "cluster", s->cluster, sizeof(s->cluster), text);
        (void)snprintf(index, sizeof(index), "%d", (int)s->resolved.task);
    }
    if (st == PS_OK && s->resolved.job[0] != '\0') {
        set_text(o, "job_name", s->job_name, sizeof(s->job_name), s->resolved.job);
    }
    if (st == PS_OK && s->resolved.task >= 0) {
        set_text(o, "task_index", s->task_index, sizeof(s->task_index), index);
    }
    if (st == PS_OK && s->resolved.listen[0] != '\0' && level_of(o, "listen") == PSI_FROM_DEFAULT) {
        set_text(o, "listen", s->listen, sizeof(s->listen), s->resolved.listen);
    }
    psi_cluster_fini(&c);
    psi_buf_fini(&spec);
    return st;
}

/* Refuse --cluster or --ps_hosts given as "", as by a script whose variable is not set. Without a cluster this task would serve
 * alone, at an address where nobody of the cluster looks for it. */
static ps_status check_not_empty(const struct psi_options *o, const struct psd_settings *s, struct psi_err *err)
{
    const char *name = level_of(o, "cluster") == PSI_FROM_FLAG    ? "cluster"
                       : level_of(o, "ps_hosts") == PSI_FROM_FLAG ? "ps_hosts"
                                                                  : NULL;
    if (name == NULL || s->cluster[0] != '\0' || s->ps_hosts[0] != '\0' || s->worker_hosts[0] != '\0') {
        return PS_OK;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "--%s is empty: there are no ps tasks; leave it out for a task that is alone",
                    name);
}

/* Keep the cluster from the source with the highest precedence, and clear the settings from other sources. */
static ps_status choose_cluster(struct psi_options *o, struct psd_settings *s, const char *tf_config, struct psi_err *err)
{
    const bool named = psi_resolver_named(s->cluster);
    uint8_t spec = level_of(o, "cluster");
    uint8_t hosts = highest(level_of(o, "ps_hosts"), level_of(o, "worker_hosts"));
    if (tf_config != NULL && tf_config[0] != '\0' && highest(spec, hosts) < PSI_FROM_ENVIRONMENT && !named) {
        return read_tf_config(o, s, tf_config, err);
    }
    if (spec > hosts) {
        s->ps_hosts[0] = '\0';
        s->worker_hosts[0] = '\0';
    } else if (hosts > spec) {
        s->cluster[0] = '\0';
        if (level_of(o, "ps_hosts") < hosts) {
            s->ps_hosts[0] = '\0';
        }
        if (level_of(o, "worker_hosts") < hosts) {
            s->worker_hosts[0] = '\0';
        }
    }
    if (s->cluster[0] != '\0' && (s->ps_hosts[0] != '\0' || s->worker_hosts[0] != '\0')) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster is given twice: --cluster, and --ps_hosts or --worker_hosts");
    }
    return named && s->cluster[0] != '\0' ? resolve(o, s, err) : check_not_empty(o, s, err);
}

/* Turn a cluster that is given on several lines into a spec string on one line, because a setting is shown on one line. */
static ps_status one_line(struct psd_settings *s, struct psi_err *err)
{
    struct psi_cluster c;
    struct psi_buf spec;
    if (strpbrk(s->cluster, "\n\r\t") == NULL || s->cluster[0] == '@') {
        return PS_OK;
    }
    psi_cluster_init(&c);
    psi_buf_init(&spec, PSD_HOSTS_BYTES_MAX + 1);
    ps_status st = psi_cluster_parse(&c, s->cluster, err);
    st = st == PS_OK ? psi_cluster_format(&c, &spec, err) : st;
    const char *text = st == PS_OK ? psi_buf_text(&spec) : NULL;
    if (text != NULL) {
        memcpy(s->cluster, text, spec.len + 1);
    } else if (st == PS_OK) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "the cluster is too large");
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "--cluster");
    }
    psi_cluster_fini(&c);
    psi_buf_fini(&spec);
    return st;
}

ps_status psd_settings_cluster(struct psi_options *o, struct psd_settings *s, const char *tf_config, struct psi_err *err)
{
    ps_status st = choose_cluster(o, s, tf_config, err);
    return st == PS_OK ? one_line(s, err) : st;
}
