/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes of 4 KiB into a task without sockets, for callgrind: `make bench-cost` counts the instructions inside psd_task_bytes(),
 * which is everything from the bytes to the reply in the queue, and divides them by the pushes.
 *
 *   cost [PUSHES]
 */
#include "fake_client.h"

#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 1024 };

int main(int argc, char **argv)
{
    unsigned long pushes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    struct shell_net net;
    struct fc c;
    static float gradient[ELEMENTS];
    ps_status st = PS_OK;
    shell_net_init(&net);
    struct shell_task *t = shell_task_new(&net, "ps=127.0.0.1:2222", "ps", 0, 42, 1000, NULL, &st);
    if (t == NULL) {
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
