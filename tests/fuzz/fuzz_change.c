/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as bytes, replayed into an empty task: whatever they say, a change is carried out or refused, and the task's invariants
 * hold.
 */
#include "change_code.h"

#include "common/cluster.h"
#include "psd/state.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint8_t seed[32] = {1};
    struct psi_cluster cluster;
    struct psd_task_config config;
    struct psd_task *t = NULL;
    void *aligned = NULL;
    psi_cluster_init(&cluster);
    psd_task_config_init(&config);
    if (psi_cluster_parse(&cluster, "ps=10.0.0.1:1;worker=10.0.0.3:3", NULL) != PS_OK ||
        posix_memalign(&aligned, 8, bytes + 1) != 0) {
        abort();
    }
    config.cluster = &cluster;
    config.memory_budget_bytes = 4 << 20;
    memcpy(config.job, "ps", 3);
    if (psd_task_new(&config, seed, 1000, &t, NULL) != PS_OK) {
        abort();
    }
    memcpy(aligned, data, bytes);
    const uint8_t *p = aligned;
    size_t left = bytes;
    while (left > 0 && psd_replay(t, &p, &left, NULL) == PS_OK) {
        psd_store_check_invariants(&t->store);
    }
    psd_task_free(t);
    psi_cluster_fini(&cluster);
    free(aligned);
    return 0;
}
