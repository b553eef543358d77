/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster, and which task of it this process is. The cluster spec comes from --cluster, from --ps_hosts and --worker_hosts,
 * from a cluster manager's environment variables, or from TF_CONFIG. The spec must have this task, except for evaluators, and for
 * workers with --work shards. Trainers are numbered by job (chief first) and index. Failure modes, each with the flag: a missing
 * or unknown job name, an index that the job does not have, no ps task, a spec that ps_cluster.h refuses. */
#include "cluster.h"

#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The cluster spec as it was found, and which task this process is in it. */
struct source {
    ps_cluster_spec *spec;
    char type[CLUSTER_JOB_BYTES]; /* TF_CONFIG: task.type; "": none */
    int index;
    bool tf_config;     /* the cluster is from TF_CONFIG */
    const char *listen; /* the address where a ps task listens; becomes cluster.listen */
};

static int count_of(const ps_cluster_spec *spec, const char *job)
{
    int count = ps_cluster_spec_num_tasks(spec, job);
    return count > 0 ? count : 0;
}

static int add_hosts(ps_cluster_spec *spec, const char *job, const char *hosts, char *err)
{
    if (hosts[0] != '\0' && ps_cluster_spec_add_job(spec, job, hosts) != PS_OK) {
        return cli_error(err, "--%s_hosts: %s", job, ps_last_error());
    }
    return 0;
}

static int read_tf_config(const char *json, struct source *out, char *err)
{
    ps_status st = ps_cluster_spec_from_tf_config(json, &out->spec, out->type, sizeof(out->type), &out->index);
    return st == PS_OK ? 0 : cli_error(err, "%s", ps_last_error());
}

/* Fill *out from the environment variables of the cluster manager (such as Slurm) that --cluster names. */
static int read_manager(const struct flags *f, struct source *out, char *err)
{
    static ps_resolved found;
    char index[24];
    ps_resolver_options o = f->resolver;
    (void)snprintf(index, sizeof(index), "%lld", (long long)f->task_index);
    o.struct_bytes = sizeof(o);
    o.cluster = f->cluster;
    o.job_name = flags_given(f, "job_name") ? f->job_name : NULL;
    o.task_index = flags_given(f, "task_index") ? index : NULL;
    o.wait_ms = PSI_RENDEZVOUS_MS;
    if (ps_cluster_resolve(&o, environ, &out->spec, &found) != PS_OK) {
        return cli_error(err, "%s", ps_last_error());
    }
    (void)snprintf(out->type, sizeof(out->type), "%s", found.job);
    out->index = found.task;
    out->listen = found.listen;
    return 0;
}

static int read_source(const struct flags *f, const char *tf_config, struct source *out, char *err)
{
    bool hosts = flags_given(f, "ps_hosts") || flags_given(f, "worker_hosts");
    if (flags_given(f, "cluster") && hosts) {
        return cli_error(err, "the cluster is given twice: --cluster, and --ps_hosts or --worker_hosts; drop one of them");
    }
    if (psi_resolver_named(f->cluster)) {
        return read_manager(f, out, err);
    }
    if (!hosts && !flags_given(f, "cluster") && tf_config != NULL && tf_config[0] != '\0') {
        out->tf_config = true;
        return read_tf_config(tf_config, out, err);
    }
    if (ps_cluster_spec_new(f->cluster, &out->spec) != PS_OK) {
        return cli_error(err, "--cluster: %s", ps_last_error());
    }
    return add_hosts(out->spec, "ps", f->ps_hosts, err) == 0 ? add_hosts(out->spec, "worker", f->worker_hosts, err) : -1;
}

static char *text_of(ps_cluster_spec *spec)
{
    const char *text = ps_cluster_spec_text(spec);
    return text != NULL ? strdup(text) : NULL;
}

/* The text of a cluster spec that lacks this worker, with the worker added; its address is never used. NULL: no memory. */
static char *text_with(ps_cluster_spec *spec, const char *job, int index)
{
    enum { MORE = CLUSTER_JOB_BYTES + 48 };
    const char *text = ps_cluster_spec_text(spec);
    size_t n = text != NULL ? strlen(text) + MORE : 0, length = strlen(job);
    char *out = n > 0 ? malloc(n) : NULL;
    const char *at = text;
    while (out != NULL && at != NULL && (strncmp(at, job, length) != 0 || at[length] != '=')) {
        at = strchr(at, ';');
        at = at != NULL ? at + 1 : NULL;
    }
    if (out != NULL && at != NULL) {
        size_t end = (size_t)(at - text) + strcspn(at, ";");
        (void)snprintf(out, n, "%.*s%s%d@unlisted:1%s", (int)end, text, text[end - 1] == '=' ? "" : ",", index, text + end);
    } else if (out != NULL) {
        (void)snprintf(out, n, "%s;%s=%d@unlisted:1", text, job, index);
    }
    return out;
}

/* Which job the chief has in this cluster, "master" or "chief"; no cluster has both. */
static const char *chief_job(const ps_cluster_spec *spec)
{
    return count_of(spec, "master") > 0 ? "master" : "chief";
}

static int bad_job(const struct flags *f, const struct source *s, const char *job, char *err)
{
    const char *from = flags_given(f, "job_name") || s->type[0] == '\0' ? "--job_name" : "TF_CONFIG: task.type";
    const char *list = count_of(s->spec, "master") > 0  ? "ps, worker, master, evaluator"
                       : count_of(s->spec, "chief") > 0 ? "ps, worker, chief, evaluator"
                                                        : "ps, worker, evaluator";
    return job[0] == '\0' ? cli_error(err, "%s is empty: it must be one of %s%s", from, list,
                                      flags_given(f, "job_name") ? "" : " (or let --local ps=2,workers=3 start all of them here)")
                          : cli_error(err, "%s '%.100s' is unknown: it must be one of %s", from, job, list);
}

static const char *indices_text(const ps_cluster_spec *spec, const char *job, char *buf, size_t n)
{
    enum { SHOWN = 16 };
    int indices[SHOWN];
    size_t used = 0;
    int count = ps_cluster_spec_task_indices(spec, job, indices, SHOWN);
    if (ps_cluster_spec_job_tasks(spec, job, NULL, 0) == count) {
        (void)snprintf(buf, n, "0 to %d", count - 1);
        return buf;
    }
    for (int i = 0; i < count && i < SHOWN && used < n; i++) {
        used += (size_t)snprintf(buf + used, n - used, "%s%d", i > 0 ? ", " : "", indices[i]);
    }
    if (count > SHOWN && used < n) {
        (void)snprintf(buf + used, n - used, ", ...");
    }
    return buf;
}

#define NO_PS "where are they?"

static int no_tasks(const struct flags *f, const struct source *s, const char *job, const char *why, char *err)
{
    char flag[32];
    (void)snprintf(flag, sizeof(flag), "%s_hosts", job);
    return s->tf_config                ? cli_error(err, "TF_CONFIG: its cluster has no %s tasks: %s", job, why)
           : flags_given(f, "cluster") ? cli_error(err, "--cluster has no %s tasks: %s", job, why)
                                       : cli_error(err, "--%s is %s, there are no %s tasks: %s", flag,
                                                   flags_given(f, flag) ? "empty" : "not given", job, why);
}

static int check_task(const struct flags *f, const struct source *s, const char *job, int64_t index, char *err)
{
    char indices[128];
    bool known = (f->serve && count_of(s->spec, job) > 0) || strcmp(job, "ps") == 0 || strcmp(job, "worker") == 0 ||
                 (strcmp(job, chief_job(s->spec)) == 0 && count_of(s->spec, job) > 0);
    if (!known) {
        return bad_job(f, s, job, err);
    }
    if (count_of(s->spec, "ps") == 0 && !f->serve) {
        return no_tasks(f, s, "ps", NO_PS, err);
    }
    if (f->by_shards && strcmp(job, "worker") == 0 && count_of(s->spec, "ps") > 0) {
        return 0; /* with --work shards a worker need not be in the spec: the shards that it takes do not depend on its index */
    }
    if (count_of(s->spec, job) == 0) {
        return no_tasks(f, s, job, "this process is to be one of them", err);
    }
    if (ps_cluster_spec_task_address(s->spec, job, (int)index) == NULL) {
        return cli_error(err, "--task_index %lld: job %s has %d task%s, %s", (long long)index, job, count_of(s->spec, job),
                         count_of(s->spec, job) == 1 ? "" : "s", indices_text(s->spec, job, indices, sizeof(indices)));
    }
    return 0;
}

static int position_of(const ps_cluster_spec *spec, const char *job, int index)
{
    int position = 0;
    for (int i = 0; i < index; i++) {
        position += ps_cluster_spec_task_address(spec, job, i) != NULL ? 1 : 0;
    }
    return position;
}

static int fill(ps_cluster_spec *spec, const char *job, int index, const char *listen, struct cluster *out, char *err)
{
    struct cluster c = {.task = (uint32_t)index};
    int chiefs = count_of(spec, chief_job(spec));
    bool worker = strcmp(job, "worker") == 0;
    const char *home = count_of(spec, "ps") > 0 ? "ps" : job;
    int first = 0;
    (void)ps_cluster_spec_task_indices(spec, home, &first, 1);
    (void)snprintf(c.job, sizeof(c.job), "%s", job);
    (void)snprintf(c.listen, sizeof(c.listen), "%s", listen);
    c.ps_count = count_of(spec, "ps");
    c.trainer_count = chiefs + count_of(spec, "worker");
    c.trainer = strcmp(job, "ps") == 0 ? -1 : position_of(spec, job, index) + (worker ? chiefs : 0);
    c.chief = worker ? chiefs == 0 && index == 0 : strcmp(job, chief_job(spec)) == 0;
    c.spec = ps_cluster_spec_task_address(spec, job, index) != NULL ? text_of(spec) : text_with(spec, job, index);
    c.target = strdup(ps_cluster_spec_task_address(spec, home, first));
    if (c.spec == NULL || c.target == NULL) {
        cluster_fini(&c);
        return cli_error(err, "no memory for the cluster");
    }
    *out = c;
    return 0;
}

static int fill_evaluator(const struct flags *f, const struct source *s, int64_t index, struct cluster *out, char *err)
{
    ps_cluster_spec *spec = s->spec;
    bool listed = count_of(spec, "evaluator") > 0;
    if (count_of(spec, "ps") == 0) {
        return no_tasks(f, s, "ps", NO_PS, err);
    }
    if (listed && ps_cluster_spec_task_address(spec, "evaluator", (int)index) == NULL) {
        return cli_error(err, "--task_index %lld: the cluster lists no such evaluator", (long long)index);
    }
    *out = (struct cluster){.evaluator = true, .job = "evaluator", .task = (uint32_t)index, .trainer = -1, .spec = text_of(spec)};
    return out->spec != NULL ? 0 : cli_error(err, "no memory for the cluster");
}

int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err)
{
    struct source s = {.index = -1, .listen = ""};
    int result = read_source(f, tf_config, &s, err);
    if (result == 0) {
        const char *job = flags_given(f, "job_name") ? f->job_name : s.type;
        int64_t index = flags_given(f, "task_index") || s.index < 0 ? f->task_index : s.index;
        if (job[0] == '\0' && psi_resolver_named(f->cluster) && ps_cluster_spec_job_count(s.spec) == 0) {
            *out = (struct cluster){.alone = true, .trainer = -1};
        } else if (strcmp(job, "evaluator") == 0 && !f->serve) {
            result = fill_evaluator(f, &s, index, out, err); /* an evaluator does not train, even if the spec lists it */
        } else {
            result = check_task(f, &s, job, index, err);
            result = result == 0 ? fill(s.spec, job, (int)index, s.listen, out, err) : result;
        }
    }
    ps_cluster_spec_free(s.spec);
    return result;
}

int cluster_find_tested(const struct flags *f, const char *tf_config, const char *psd_target, struct cluster *out, char *err)
{
    struct source s = {.index = -1};
    struct cluster c = {.spec = NULL};
    int result = 0;
    s.tf_config = !flags_given(f, "cluster") && !flags_given(f, "ps_hosts") && tf_config != NULL && tf_config[0] != '\0';
    if (flags_given(f, "cluster") || s.tf_config) {
        result = s.tf_config ? read_tf_config(tf_config, &s, err) : read_source(f, NULL, &s, err);
        result = result == 0 && count_of(s.spec, "ps") == 0 ? no_tasks(f, &s, "ps", NO_PS, err) : result;
        c.spec = result == 0 ? text_of(s.spec) : NULL;
    } else if (flags_given(f, "ps_hosts") && f->ps_hosts[0] == '\0') {
        result = no_tasks(f, &s, "ps", NO_PS, err);
    } else if (flags_given(f, "ps_hosts")) {
        c.target = strndup(f->ps_hosts, strcspn(f->ps_hosts, ","));
    } else if (psd_target != NULL && strchr(psd_target, ',') != NULL) {
        result =
            cli_error(err,
                      "PSD_TARGET: '%.200s' is several; pstrain takes one, any task of the cluster (psctl alone takes the first "
                      "of several that answers)",
                      psd_target);
    } else {
        c.target = strdup(psd_target != NULL && psd_target[0] != '\0' ? psd_target : "127.0.0.1:2222");
    }
    ps_cluster_spec_free(s.spec);
    if (result == 0 && c.spec == NULL && c.target == NULL) {
        result = cli_error(err, "no memory for the cluster");
    }
    if (result != 0) {
        cluster_fini(&c);
        return result;
    }
    *out = c;
    return 0;
}

int cluster_copy(const struct cluster *c, struct cluster *out)
{
    *out = *c;
    out->spec = c->spec != NULL ? strdup(c->spec) : NULL;
    out->target = c->target != NULL ? strdup(c->target) : NULL;
    if ((c->spec != NULL && out->spec == NULL) || (c->target != NULL && out->target == NULL)) {
        cluster_fini(out);
        return -1;
    }
    return 0;
}

void cluster_fini(struct cluster *c)
{
    free(c->spec);
    free(c->target);
    memset(c, 0, sizeof(*c));
}
