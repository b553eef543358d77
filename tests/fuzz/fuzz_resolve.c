/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments of cluster managers. Whatever the variables say: a decision whose cluster reads back as the same and has this task
 * in it, or a refusal that leaves no cluster; and the same again when it is asked again.
 *
 * Input: the first byte chooses the flags, the rest is one variable a line, NAME=VALUE; a line that begins with '@' is what the
 * next rank has left at the rendezvous.
 */
#include "common/mem.h"
#include "common/resolve/resolve.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TEXT_MAX = 8 << 10, VARIABLES_MAX = 40, RANKS_MAX = 8 };

struct input {
    char text[TEXT_MAX + 1];
    char *environment[VARIABLES_MAX + 1];
    const char *left[RANKS_MAX];
    uint32_t ranks;
};

static void split(struct input *in, const uint8_t *data, size_t bytes)
{
    size_t count = 0;
    char *rest = NULL;
    memcpy(in->text, data, bytes);
    for (char *line = strtok_r(in->text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '@' && in->ranks < RANKS_MAX) {
            in->left[in->ranks++] = line[1] != '\0' ? line + 1 : NULL;
        } else if (count < VARIABLES_MAX) {
            in->environment[count++] = line;
        }
    }
}

static ps_resolver_options flags_of(uint8_t choice)
{
    static const char *const managers[] = {"auto", "slurm", "mpi", "kubernetes", "torchrun", "env"};
    const char *manager = managers[choice % 6];
    const bool pods = choice % 6 == 3 || (choice % 6 == 0 && choice / 6 % 2 == 1), mpi = choice % 6 == 2;
    const uint32_t more = choice / 12;
    ps_resolver_options o = {.struct_bytes = sizeof(o), .cluster = manager, .host_name = "p-1"};
    o.ps_tasks = choice % 6 == 5 ? 0 : 1 + more % 3;
    o.base_port = choice % 6 == 5 || more % 4 == 3 ? 0 : 2000;
    o.ps_pods = pods ? "p.s" : NULL;
    o.worker_pods = pods ? "w.s" : NULL;
    o.worker_tasks = pods ? more % 3 : 0;
    o.rendezvous = mpi ? (more % 2 == 0 ? "met" : "a:1") : NULL;
    o.ps_per_node = choice % 6 == 1 ? more % 2 : 0;
    return o;
}

static void check_good(const struct psi_cluster *c, const ps_resolved *found)
{
    struct psi_cluster again;
    struct psi_buf b;
    struct psi_err err;
    psi_cluster_init(&again);
    psi_buf_init(&b, 1 << 20);
    ps_status st = psi_cluster_format(c, &b, &err);
    PSI_ASSERT(st == PS_OK && found->why[0] != '\0');
    if (b.len > 0) {
        st = psi_cluster_parse(&again, psi_buf_text(&b), &err);
        PSI_ASSERT(st == PS_OK && psi_cluster_equal(c, &again));
    }
    const bool listed = psi_cluster_num_tasks(c, found->job) > 0 && strcmp(found->manager, "env") != 0;
    PSI_ASSERT(!listed || psi_cluster_task_address(c, found->job, (uint32_t)found->task) != NULL);
    psi_buf_fini(&b);
    psi_cluster_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct input in;
    if (bytes == 0 || bytes > TEXT_MAX) {
        return 0;
    }
    memset(&in, 0, sizeof(in));
    split(&in, data + 1, bytes - 1);
    const ps_resolver_options o = flags_of(data[0]);
    const struct psi_met met = {in.ranks, in.left};
    for (int meets = 0; meets < 2; meets++) {
        struct psi_cluster c;
        struct psi_err err = {.code = PS_OK};
        struct psi_meeting meeting;
        ps_resolved found;
        psi_cluster_init(&c);
        ps_status st = psi_cluster_resolve(&o, in.environment, meets != 0 ? &met : NULL, &c, &found, &meeting, &err);
        PSI_ASSERT(st == PS_OK || st == PS_INVALID_ARGUMENT || (st == PS_UNAVAILABLE && meets != 0));
        if (st == PS_OK) {
            check_good(&c, &found);
        } else {
            PSI_ASSERT(psi_cluster_job_count(&c) == 0 && err.text[0] != '\0');
        }
        psi_cluster_fini(&c);
    }
    return 0;
}
