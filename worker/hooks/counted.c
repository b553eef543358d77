/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that tasks count about a session's training: learning rate, age of gradients, lead of workers. Happy path: a function
 * finds the session's first trained parameter, asks tasks for a list, such as that of ps_rounds(), and takes what the list says
 * of the parameter (rate) or of its container (age, lead). Failure modes: a task does not answer: the function returns false. A
 * task was restarted, and counts from 0 again: counts of the last call are not subtracted. */
#include "counted.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 1000 };

struct trained {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    char device[PSI_TASK_NAME_MAX + 16];
};

static bool find_trained(ps_session *s, struct trained *t)
{
    bool found = false;
    (void)pthread_mutex_lock(&s->lock);
    struct psi_list *const params = &s->train.params;
    for (struct psi_list *it = params->next; !found && it != params; it = it->next) {
        const ps_param *p = psi_api_param(PSI_CONTAINER_OF(it, struct psi_training_param, link));
        found = p->train.trained && p->variable != NULL;
        if (found) {
            (void)snprintf(t->container, sizeof(t->container), "%s", p->variable->container);
            (void)snprintf(t->name, sizeof(t->name), "%s", p->variable->name);
            (void)snprintf(t->device, sizeof(t->device), "%s", p->variable->device);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return found;
}

static bool of_task(const char *device, const char *task)
{
    const size_t n = task == NULL ? 0 : strlen(task);
    return n > 0 && strncmp(device, task, n) == 0 && device[n] == '/';
}

struct look_rate {
    struct trained trained;
    double rate;
    bool found;
};

static void on_variable(void *ctx, const ps_variable_info *info)
{
    struct look_rate *look = ctx;
    if (strcmp(info->container, look->trained.container) == 0 && strcmp(info->name, look->trained.name) == 0) {
        look->rate = info->rate_in_force;
        look->found = true;
    }
}

bool psi_counted_rate(ps_session *s, double *out_rate)
{
    struct look_rate look = {.rate = 0};
    const int tasks = find_trained(s, &look.trained) ? ps_cluster_tasks(s) : 0;
    for (int i = 0; i < tasks; i++) {
        if (of_task(look.trained.device, ps_cluster_task_name(s, i))) {
            PSI_IGNORE(ps_task_variables(s, i, TIMEOUT_MS, on_variable, &look)); /* on failure look.found stays false */
        }
    }
    *out_rate = look.rate;
    return look.found;
}

bool psi_counted_mean(struct psi_counted *c, const uint64_t counts[PS_HISTOGRAM], double *out_mean)
{
    bool again = false; /* true: a task was restarted, and counts from 0 again: the earlier counts are not subtracted */
    double sum = 0;
    double total = 0;
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        again = again || counts[i] < c->counts[i];
    }
    for (int i = 0; i < PS_HISTOGRAM; i++) {
        const double more = (double)(counts[i] - (again ? 0 : c->counts[i]));
        sum += more * i;
        total += more;
        c->counts[i] = counts[i];
    }
    *out_mean = total > 0 ? sum / total : 0;
    return total > 0;
}

struct look_counts {
    struct trained trained;
    uint64_t counts[PS_HISTOGRAM];
};

static void add_counts(struct look_counts *look, const char *container, const uint64_t counts[PS_HISTOGRAM])
{
    for (int i = 0; strcmp(container, look->trained.container) == 0 && i < PS_HISTOGRAM; i++) {
        look->counts[i] += counts[i];
    }
}

static void on_age(void *ctx, const ps_age_info *info)
{
    add_counts(ctx, info->container, info->ages);
}

static void on_round(void *ctx, const ps_round_info *info)
{
    add_counts(ctx, info->container, info->leads);
}

static ps_sync_mode mode_of(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const ps_sync_mode mode = s->sync.mode;
    (void)pthread_mutex_unlock(&s->lock);
    return mode;
}

bool psi_counted_age(ps_session *s, struct psi_counted *c, double *out_mean)
{
    struct look_counts look = {.counts = {0}};
    if (mode_of(s) == PS_SYNC_ROUNDS || !find_trained(s, &look.trained)) {
        return false;
    }
    const int tasks = ps_cluster_tasks(s);
    bool all = tasks > 0;
    for (int i = 0; all && i < tasks; i++) {
        all = ps_task_ages(s, i, TIMEOUT_MS, on_age, &look) == PS_OK;
    }
    return all && psi_counted_mean(c, look.counts, out_mean);
}

bool psi_counted_lead(ps_session *s, struct psi_counted *c, double *out_mean)
{
    struct look_counts look = {.counts = {0}};
    if (mode_of(s) != PS_SYNC_STALENESS || !find_trained(s, &look.trained)) {
        return false;
    }
    return ps_rounds(s, TIMEOUT_MS, on_round, NULL, &look) == PS_OK && psi_counted_mean(c, look.counts, out_mean);
}
