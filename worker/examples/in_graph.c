/* SPDX-License-Identifier: Apache-2.0 */
/* In-graph replication: one client. Each worker task has a copy of the model, and computes with its part of the batch. The
 * gradients are averaged and pushed once; with `asynchronous` each replica pushes its own gradients when they are ready. The
 * workers are servers that execute operations (`pstrain --serve`, or the example `local`). */
#include <ps.h>
#include <ps_plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 120, INPUTS = 4, CLASSES = 3, REPLICAS_MAX = 1024 };
static ps_value w, b; /* the model's weights and biases */

/* Called for each replica, in the device scope of its task: adds its operations to the plan, so that its task computes them. */
static ps_status replica(void *ctx, ps_plan *p, const ps_replica *r, ps_value *gradients)
{
    ps_value loss[2]; /* loss, gradient of the logits */
    (void)ctx;
    ps_plan_softmax_xent(p, ps_plan_dense(p, r->inputs[0], w, b), r->inputs[1], 2, loss);
    ps_plan_dense_backward(p, r->inputs[0], w, loss[1], 2, gradients);
    return ps_plan_status(p);
}

int main(int argc, char **argv)
{
    static float points[BATCH][INPUTS];
    static int32_t classes[BATCH];
    static ps_fetched out;
    static ps_value train[REPLICAS_MAX], loss;
    ps_replicate_options options;
    ps_session *s = ps_session_open_args(&argc, argv, "In-graph replication: [REPLICAS [STEPS [asynchronous]]], 2 and 200");
    ps_plan *p = ps_plan_new(s);
    uint32_t replicas = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2;
    long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 200;
    bool asynchronous = argc > 3 && strcmp(argv[3], "asynchronous") == 0;

    for (int row = 0; row < BATCH; row++) { /* three clouds of points */
        classes[row] = row % CLASSES;
        for (int i = 0; i < INPUTS; i++) {
            points[row][i] = (float)((row * 7 + i * 3) % 10) / 10 + (i == classes[row] ? 0.5F : 0);
        }
    }
    ps_device_push(s, "/job:ps");
    ps_variable *const variables[] = {ps_variable_make(s, "w", PS_SHAPE(INPUTS, CLASSES), NULL, ps_sgd(0.2)),
                                      ps_variable_make(s, "b", PS_SHAPE(CLASSES), NULL, ps_sgd(0.2))};
    ps_device_pop(s);
    w = ps_plan_variable(p, variables[0]), b = ps_plan_variable(p, variables[1]);
    const ps_value batches[] = {ps_plan_placeholder(p, "points", PS_F32, PS_SHAPE(-1, INPUTS)),
                                ps_plan_placeholder(p, "labels", PS_I32, PS_SHAPE(-1))};
    ps_replicate_options_init(&options), options.batches = batches, options.batch_count = 2;
    options.variables = variables, options.variable_count = 2, options.asynchronous = asynchronous, options.build = replica;
    const ps_feed feeds[] = {ps_feed_of(batches[0], PS_F32, PS_SHAPE(BATCH, INPUTS), points, sizeof(points)),
                             ps_feed_of(batches[1], PS_I32, PS_SHAPE(BATCH), classes, sizeof(classes))};
    ps_status st = ps_replicate(p, replicas, &options, train);
    ps_plan_softmax_xent(p, ps_plan_dense(p, batches[0], w, b), batches[1], 1, &loss);
    for (long i = 0; st == PS_OK && i < steps; i++) {
        st = ps_plan_run(p, feeds, 2, train, asynchronous ? replicas : 1, NULL, NULL);
    }
    st = st == PS_OK ? ps_plan_run(p, feeds, 2, &loss, 1, &out, NULL) : st;
    if (st == PS_OK) {
        printf("%u replicas, %ld steps, loss %.3f\n", replicas, steps, *(const double *)out.data);
    }
    ps_session_fail(s, st, ps_last_error()); /* PS_OK: does nothing */
    return ps_session_close(s);
}
