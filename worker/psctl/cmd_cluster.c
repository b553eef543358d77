/* SPDX-License-Identifier: Apache-2.0 */
/* psctl cluster --show: the cluster and the task that psd and pstrain would find here, with the same flags and variables, and the
 * variables that decide. No task is asked, and this psctl joins no rendezvous. Failure modes: exit 2: a variable or flag is
 * wrong, and is printed with its value; exit 1: ranks have not come to the rendezvous yet. */
#include "psctl.h"

#include <string.h>
#include <unistd.h>

static ps_status find(const struct psctl *c, ps_cluster_spec **spec, ps_resolved *found)
{
    ps_resolver_options o = c->resolver;
    o.struct_bytes = sizeof(o);
    o.cluster = c->cluster != NULL ? c->cluster : "auto";
    o.job_name = c->job_name;
    if (psi_resolver_named(o.cluster)) {
        return ps_cluster_resolve(&o, environ, spec, found);
    }
    *found = (ps_resolved){.manager = "none", .task = -1, .why = "--cluster"};
    (void)snprintf(found->job, sizeof(found->job), "%.63s", c->job_name != NULL ? c->job_name : "");
    return ps_cluster_spec_new(o.cluster, spec);
}

static void print_json(ps_cluster_spec *spec, const ps_resolved *r)
{
    json_t *task = r->task >= 0 ? json_integer(r->task) : NULL;
    cli_json_object(NULL);
    cli_json_put("manager", json_string(r->manager));
    cli_json_put("job", r->job[0] != '\0' ? json_string(r->job) : NULL);
    cli_json_put("index", task);
    cli_json_put("listen", r->listen[0] != '\0' ? json_string(r->listen) : NULL);
    cli_json_put("cluster", json_loads(ps_cluster_spec_as_dict(spec), 0, NULL));
    cli_json_put("from", cli_json_text(r->why));
    cli_json_end();
}

static void print_text(ps_cluster_spec *spec, const ps_resolved *r)
{
    char name[PS_JOB_BYTES + 32];
    const char *address = ps_cluster_spec_task_address(spec, r->job, r->task);
    const char *text = ps_cluster_spec_text(spec);
    (void)printf("manager  %s\n", r->manager);
    (void)printf("task     %s\n",
                 r->job[0] != '\0' && r->task >= 0 ? psctl_task_text(r->job, (uint32_t)r->task, name, sizeof(name)) : "-");
    (void)printf("address  %s\n", address != NULL ? address : "-");
    (void)printf("listen   %s\n", r->listen[0] != '\0' ? r->listen : address != NULL ? address : "-");
    (void)printf("cluster  %s\n", text != NULL && text[0] != '\0' ? text : "none: this process is alone");
    (void)printf("from     %s\n", r->why);
}

static enum psctl_exit run(struct psctl *c)
{
    ps_cluster_spec *spec = NULL;
    ps_resolved found;
    if (!c->show) {
        return psctl_misused(c, "cluster needs --show; see psctl cluster --help");
    }
    ps_status st = find(c, &spec, &found);
    if (st != PS_OK) {
        psctl_error(c, st, "%s", ps_last_error());
        return st == PS_INVALID_ARGUMENT ? PSCTL_USAGE : PSCTL_FAILED;
    }
    if (c->json) {
        print_json(spec, &found);
    } else {
        print_text(spec, &found);
    }
    ps_cluster_spec_free(spec);
    return PSCTL_OK;
}

#define FLAG_OF(name_, ...) | PSCTL_FLAG_BIT(PSCTL_RESOLVER_##name_)
const struct psctl_verb psctl_verb_cluster = {
    .name = "cluster",
    .arguments = "",
    .summary = "the cluster and task that psd and pstrain would find here",
    .flags = (PSCTL_FLAG(SHOW) | PSCTL_FLAG(CLUSTER) | PSCTL_FLAG(JOB_NAME)) PSI_RESOLVER_ROWS(FLAG_OF),
    .words = "",
    .run = run,
    .help = "Reads the variables of Slurm, mpirun, Kubernetes, torchrun or TF_CONFIG and says which task this process would be,\n"
            "where it would listen, all tasks, and the variables that decided. Run it as the program is run: srun psctl cluster\n"
            "--show --ps_tasks 2. No task is asked.\n",
};
