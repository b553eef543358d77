/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the memory of a cluster of two ps goes to: VARIABLES of 64 bytes are got and initialised, then CONTAINERS of one variable
 * each are made and emptied by a reset. After each step the resident memory of either process beyond what it had idle stands
 * beside what the task itself counts (ps_task_info.memory_bytes), as one JSON line. Fails where a limit of the two is broken:
 * BYTES_MAX for a variable, owner and directory together, and RATIO_MAX times what is counted.
 *
 *   memory [VARIABLES] [CONTAINERS]   from the repository's root after `make bench-programs`
 */
#include "daemon.h"

#include <inttypes.h>
#include <ps.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 2000, ELEMENTS = 16, TASKS = 2, BYTES_MAX = 768 };
#define RATIO_MAX 1.15

static void check(ps_status st, const char *what)
{
    if (st != PS_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ps_status_name(st), ps_last_error());
        exit(2);
    }
}

struct seen {
    uint64_t resident, counted; /* of both tasks */
};

static struct seen look(const struct test_cluster *c, ps_session *s)
{
    ps_task_info info[TASKS];
    struct seen sum = {0};
    check(ps_cluster_info(s, info, sizeof(info[0]), TASKS, 10000), "info");
    for (int i = 0; i < TASKS; i++) {
        sum.resident += test_resident_bytes(c->pid[i]);
        sum.counted += info[i].memory_bytes;
    }
    return sum;
}

static bool print(const char *what, long count, const struct seen *idle, const struct seen *now)
{
    const double each = (double)(now->resident - idle->resident) / (double)count;
    const double ratio = (double)(now->resident - idle->resident) / (double)(now->counted - idle->counted);
    const bool good = each <= BYTES_MAX && ratio <= RATIO_MAX;
    (void)printf(
        "{\"what\": \"%s\", \"count\": %ld, \"resident_bytes_each\": %.1f, \"counted_bytes_each\": %.1f, \"ratio\": %.3f}\n",
        what, count, each, (double)(now->counted - idle->counted) / (double)count, ratio);
    return good;
}

static void get_variables(ps_session *s, long count)
{
    static char names[AT_ONCE][32];
    static ps_variable_spec specs[AT_ONCE];
    static ps_variable *got[AT_ONCE];
    for (long first = 0; first < count; first += AT_ONCE) {
        long n = count - first < AT_ONCE ? count - first : AT_ONCE;
        for (long i = 0; i < n; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "layer/%ld/weights", first + i);
            ps_variable_spec_init(&specs[i]);
            specs[i].name = names[i];
            specs[i].dtype = PS_F32;
            specs[i].shape = PS_SHAPE(ELEMENTS);
            specs[i].optimizer = ps_sgd(0.1);
        }
        check(ps_variables_get(s, specs, (size_t)n, got), "get");
    }
}

static void make_containers(ps_session *s, long count)
{
    for (long i = 0; i < count; i++) {
        char name[32];
        const char *of = name;
        ps_variable_spec spec;
        ps_variable *v = NULL;
        (void)snprintf(name, sizeof(name), "model-%ld", i);
        check(ps_container_push(s, name), "container");
        ps_variable_spec_init(&spec);
        spec.name = "w";
        spec.dtype = PS_F32;
        spec.shape = PS_SHAPE(ELEMENTS);
        check(ps_variable_get(s, &spec, &v), "get");
        check(ps_container_pop(s), "container");
        check(ps_reset_containers(s, &of, 1), "reset");
    }
}

static ps_session *open_at(const char *target)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = target;
    o.log_level = PS_LOG_ERROR;
    o.operation_timeout_ms = 120000;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        exit(2);
    }
    return s;
}

int main(int argc, char **argv)
{
    const long variables = argc > 1 ? strtol(argv[1], NULL, 10) : 500000;
    const long containers = argc > 2 ? strtol(argv[2], NULL, 10) : 10000;
    struct test_cluster c;
    bool good = true;
    if (variables < 0 || containers < 0) {
        (void)fprintf(stderr, "usage: memory [VARIABLES] [CONTAINERS]\n");
        return 2;
    }
    test_cluster_init(&c, TASKS, "");
    test_cluster_start_all(&c);
    ps_session *watch = open_at(c.address[1]), *s = open_at(c.address[0]);
    if (ps_cluster_tasks(watch) != TASKS || ps_cluster_tasks(s) != TASKS) {
        (void)fprintf(stderr, "the cluster: %s\n", ps_last_error());
        return 2;
    }
    const struct seen idle = look(&c, watch);
    if (variables > 0) {
        get_variables(s, variables);
        struct seen now = look(&c, watch);
        (void)print("uninitialised", variables, &idle, &now);
        check(ps_session_ready(s), "ready");
        now = look(&c, watch);
        good = print("variables", variables, &idle, &now) && good;
    }
    const struct seen before = look(&c, watch);
    if (containers > 0) {
        make_containers(s, containers);
        const struct seen now = look(&c, watch);
        (void)print("empty containers", containers, &before, &now);
    }
    (void)ps_session_close(s);
    (void)ps_session_close(watch);
    for (int i = 0; i < TASKS; i++) {
        (void)test_cluster_stop(&c, i);
    }
    test_cluster_fini(&c);
    return good ? 0 : 1;
}
