/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes of 4 KiB into a task without sockets, for callgrind: `make bench-cost` counts the instructions inside psd_task_bytes(),
 * which is everything from the bytes to the reply in the queue, and divides them by the pushes.
 *
 *   cost [PUSHES]     RIGHTS=1 in the environment: a table says who may what
 */
#include "fake_client.h"

#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 1024 };

static void identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    (void)link;
    *out = (struct psi_identity){.kind = PSI_IDENTITY_KEY, .name = "w0", .role = "worker"};
}

static void with_identity(struct psd_task_config *config)
{
    config->identify = identify;
}

/* As of a cluster with one key for each host. False: no memory. */
static bool give_rights(struct shell_task *t)
{
    static const char rows[] = "role:ps @cluster member; role:worker *,@cluster train member; role:admin *,@cluster all";
    struct psi_rights *rights = NULL;
    if (psi_rights_parse(rows, sizeof(rows) - 1, "rows", &rights, NULL) != PS_OK) {
        return false;
    }
    psd_task_rights_set(t->core, rights);
    return true;
}

int main(int argc, char **argv)
{
    unsigned long pushes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    struct shell_net net;
    struct fc c;
    static float gradient[ELEMENTS];
    ps_status st = PS_OK;
    shell_net_init(&net);
    struct shell_task *t = shell_task_new(&net, "ps=127.0.0.1:2222", "ps", 0, 42, 1000, with_identity, &st);
    if (t == NULL || (getenv("RIGHTS") != NULL && !give_rights(t))) {
        return 2;
    }
    fc_init(&c, t, 1);
    if (fc_connect(&c) != PS_OK) {
        return 2;
    }
    ps_optimizer sgd = {.kind = PS_OPT_SGD, .learning_rate = 0.5};
    ps_v1_OpenAnswer v = fc_ready(&c, "w", PS_F32, ELEMENTS, &sgd, 0);
    for (unsigned long i = 0; i < pushes; i++) {
        if (fc_push(&c, PS_OP_PUSH, &v, gradient, 1, 0).status != PS_OK) {
            return 1;
        }
    }
    shell_net_fini(&net);
    (void)printf("%lu pushes of %zu bytes\n", pushes, sizeof(gradient));
    return 0;
}
