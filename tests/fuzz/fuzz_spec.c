/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that users give: ClusterSpecs in every form, TF_CONFIG, device strings, device scopes. What is accepted is sound, is
 * written, and reads back as the same; what is refused leaves the cluster as it was and says where.
 *
 * Input: the first byte, modulo 4, says what the rest is: 0 a cluster, 1 TF_CONFIG, 2 device strings, one a line, 3 scopes, one
 * a line: +DEVICE, -, !, =BYTES TYPE, *TASKS PS_DEVICE,WORKER_DEVICE.
 */
#include "device_equal.h"

#include "common/cluster.h"
#include "common/placement.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TEXT_MAX = 64 << 10, LINES_MAX = 200 };

static void check_cluster(const struct psi_cluster *c)
{
    PSI_ASSERT(c->job_count <= PS_JOBS_MAX && psi_cluster_total_tasks(c) <= PS_TASKS_MAX);
    for (uint32_t j = 0; j < c->job_count; j++) {
        PSI_ASSERT(j == 0 || strcmp(c->jobs[j - 1].name, c->jobs[j].name) < 0);
        for (uint32_t t = 0; t < c->jobs[j].task_count; t++) {
            const struct psi_cluster_task *task = &c->jobs[j].tasks[t];
            PSI_ASSERT(task->index < PS_TASKS_MAX && (t == 0 || c->jobs[j].tasks[t - 1].index < task->index));
            PSI_ASSERT(psi_cluster_task_address(c, c->jobs[j].name, task->index) == task->address);
        }
    }
    const char *job = NULL;
    uint32_t task = 0;
    PSI_ASSERT(psi_cluster_directory(c, &job, &task) == (psi_cluster_total_tasks(c) > 0));
    PSI_ASSERT(psi_cluster_total_tasks(c) == 0 || psi_cluster_task_address(c, job, task) != NULL);
}

/* Written in both forms, it reads back as the same. */
static void check_written(const struct psi_cluster *c)
{
    for (int json = 0; json < 2; json++) {
        struct psi_cluster again;
        struct psi_buf b;
        struct psi_err err;
        psi_cluster_init(&again);
        psi_buf_init(&b, 1 << 20);
        ps_status st = json != 0 ? psi_cluster_format_json(c, &b, &err) : psi_cluster_format(c, &b, &err);
        PSI_ASSERT(st == PS_OK);
        if (b.len > 0) {
            st = psi_cluster_parse(&again, psi_buf_text(&b), &err);
            PSI_ASSERT(st == PS_OK);
        }
        PSI_ASSERT(psi_cluster_equal(c, &again) && psi_cluster_hash(c) == psi_cluster_hash(&again));
        psi_buf_fini(&b);
        psi_cluster_fini(&again);
    }
}

static void cluster_text(const char *text, bool tf_config)
{
    struct psi_cluster c;
    struct psi_cluster_self self = {0};
    struct psi_err err = {0};
    const char *begins = tf_config ? "TF_CONFIG" : "cluster spec: line ";
    psi_cluster_init(&c);
    ps_status st = psi_cluster_add_task(&c, "zz", 1000, "unix:/kept", &err);
    PSI_ASSERT(st == PS_OK);
    st = tf_config ? psi_cluster_parse_tf_config(&c, text, &self, &err) : psi_cluster_parse(&c, text, &err);
    check_cluster(&c);
    if (st == PS_OK) {
        check_written(&c);
    } else {
        PSI_ASSERT(st == PS_INVALID_ARGUMENT && err.code == st && strncmp(err.text, begins, strlen(begins)) == 0);
        PSI_ASSERT(psi_cluster_total_tasks(&c) == 1 && psi_cluster_task_address(&c, "zz", 1000) != NULL);
    }
    psi_cluster_fini(&c);
}

static void devices(char *text)
{
    struct psi_device all = {0}; /* merged from the left */
    struct psi_device right = {0};
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        struct psi_device d, again, merged;
        struct psi_err err = {0};
        char once[PSI_DEVICE_BYTES], twice[PSI_DEVICE_BYTES];
        if (psi_device_parse(line, &d, &err) != PS_OK) {
            PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && strncmp(err.text, "device '", 8) == 0);
            continue;
        }
        psi_device_format(&d, once, sizeof(once));
        ps_status st = psi_device_parse(once, &again, &err);
        PSI_ASSERT(st == PS_OK && psi_device_equal(&d, &again));
        PSI_ASSERT(strcmp(once, psi_device_format(&again, twice, sizeof(twice))) == 0);
        PSI_ASSERT(psi_device_is_empty(&d) == (once[0] == '\0'));
        psi_device_merge(&d, &d, &merged);
        PSI_ASSERT(psi_device_equal(&d, &merged));
        /* (all . right) . d is all . (right . d) */
        struct psi_device left, tail;
        psi_device_merge(&all, &right, &left);
        psi_device_merge(&left, &d, &left);
        psi_device_merge(&right, &d, &tail);
        psi_device_merge(&all, &tail, &tail);
        PSI_ASSERT(psi_device_equal(&left, &tail));
        psi_device_format(&left, once, sizeof(once));
        psi_device_merge(&all, &right, &all);
        right = d;
    }
}

static void one_scope(struct psi_placer *p, char *line)
{
    uint32_t depth = p->depth;
    ps_status st = PS_OK;
    struct psi_request_place place;
    char *rest = line + 1;
    switch (line[0]) {
    case '+':
        st = psi_placer_push(p, rest, NULL);
        PSI_ASSERT(p->depth == depth + (st == PS_OK ? 1 : 0));
        break;
    case '!':
        st = psi_placer_push(p, NULL, NULL);
        PSI_ASSERT(st == PS_OK);
        break;
    case '-':
        st = psi_placer_pop(p, NULL);
        PSI_ASSERT((st == PS_OK) == (depth > 0));
        break;
    case '*': {
        struct psi_setter setter = {.ps_tasks = (uint32_t)strtoul(rest, &rest, 10), .merge_devices = *rest != ' '};
        setter.strategy = setter.ps_tasks % 2 == 0 ? PSI_STRATEGY_ROUND_ROBIN : PSI_STRATEGY_GREEDY_BYTES;
        rest += *rest != '\0' ? 1 : 0;
        setter.ps_device = strsep(&rest, ",");
        setter.worker_device = rest;
        st = psi_placer_push_setter(p, &setter, NULL);
        PSI_ASSERT(p->depth == depth + (st == PS_OK ? 1 : 0) && (st != PS_OK || setter.ps_tasks <= PS_TASKS_MAX));
        break;
    }
    default: {
        uint64_t bytes = strtoull(line, &rest, 10);
        char text[PSI_DEVICE_BYTES];
        psi_placer_place(p, *rest == ' ' ? rest + 1 : NULL, bytes, &place);
        psi_device_format(&place.device, text, sizeof(text));
        PSI_ASSERT(!place.by_strategy || (place.device.has_task && place.device.task < PS_TASKS_MAX && !place.pinned));
        PSI_ASSERT(!place.pinned || place.device.has_job || place.device.has_task);
        break;
    }
    }
}

static void scopes(char *text)
{
    struct psi_placer p;
    char *rest = text;
    psi_placer_init(&p);
    for (int lines = 0; rest != NULL && lines < LINES_MAX; lines++) {
        one_scope(&p, strsep(&rest, "\n"));
    }
    psi_placer_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1 || bytes > TEXT_MAX) {
        return 0;
    }
    char *text = malloc(bytes);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        cluster_text(text, false);
        break;
    case 1:
        cluster_text(text, true);
        break;
    case 2:
        devices(text);
        break;
    default:
        scopes(text);
        break;
    }
    free(text);
    return 0;
}
