/* SPDX-License-Identifier: Apache-2.0 */
/* A model whose weights are on two ps tasks. /job:worker/task:7, a server that executes operations, computes layers and
 * gradients. This program only asks for this placement, feeds a batch and runs the training step. */
#include <ps.h>
#include <ps_nn.h>
#include <ps_plan.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 128, INPUTS = 4, HIDDEN = 16, CLASSES = 3 };

int main(int argc, char **argv)
{
    static float points[BATCH][INPUTS];
    static int32_t classes[BATCH];
    static ps_fetched out[2];
    ps_value loss[2], second[3], first[2]; /* loss, gradient of the logits; gradients of layer 2's weights, biases and input;
                                            * gradients of layer 1's weights and biases */
    ps_session *s = ps_session_open_args(&argc, argv, "Two layers on one worker: [RUNS [WORKER]], 10000 and /job:worker/task:7");
    ps_plan *p = ps_plan_new(s);
    const ps_optimizer *adagrad = ps_adagrad(0.05);
    long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 10000;

    for (int row = 0; row < BATCH; row++) { /* three clouds of points */
        classes[row] = row % CLASSES;
        for (int i = 0; i < INPUTS; i++) {
            points[row][i] = (float)((row * 7 + i * 3) % 10) / 10 + (i == classes[row] ? 0.5F : 0);
        }
    }
    ps_device_push(s, "/job:ps/task:0");
    ps_variable *w1 = ps_variable_make(s, "weights_1", PS_SHAPE(INPUTS, HIDDEN), ps_glorot(PS_FAN_IN_OUT), adagrad);
    ps_variable *b1 = ps_variable_make(s, "biases_1", PS_SHAPE(HIDDEN), ps_constant(0.1), adagrad);
    ps_device_pop(s), ps_device_push(s, "/job:ps/task:1");
    ps_variable *w2 = ps_variable_make(s, "weights_2", PS_SHAPE(HIDDEN, CLASSES), ps_glorot(PS_FAN_IN_OUT), adagrad);
    ps_variable *b2 = ps_variable_make(s, "biases_2", PS_SHAPE(CLASSES), ps_constant(0.1), adagrad);
    ps_device_pop(s), ps_device_push(s, argc > 2 ? argv[2] : "/job:worker/task:7");
    ps_value input = ps_plan_placeholder(p, "input", PS_F32, PS_SHAPE(-1, INPUTS));
    ps_value labels = ps_plan_placeholder(p, "labels", PS_I32, PS_SHAPE(-1));
    ps_value weights_1 = ps_plan_variable(p, w1), weights_2 = ps_plan_variable(p, w2);
    ps_value layer_1 = ps_plan_dense_act(p, input, weights_1, ps_plan_variable(p, b1), PS_RELU);
    ps_value logits = ps_plan_dense_act(p, layer_1, weights_2, ps_plan_variable(p, b2), PS_RELU);
    ps_plan_softmax_xent(p, logits, labels, 2, loss);
    ps_plan_dense_act_backward(p, layer_1, PS_RELU, weights_2, ps_plan_relu_backward(p, logits, loss[1]), 3, second);
    ps_plan_dense_backward(p, input, weights_1, second[2], 2, first);
    const ps_value pushes[] = {ps_plan_push(p, w1, first[0], 1), ps_plan_push(p, b1, first[1], 1),
                               ps_plan_push(p, w2, second[0], 1), ps_plan_push(p, b2, second[1], 1)};
    const ps_value fetches[] = {loss[0], ps_plan_group(p, pushes, 4)};
    ps_device_pop(s);

    const ps_feed feeds[] = {ps_feed_of(input, PS_F32, PS_SHAPE(BATCH, INPUTS), points, sizeof(points)),
                             ps_feed_of(labels, PS_I32, PS_SHAPE(BATCH), classes, sizeof(classes))};
    ps_status st = ps_session_status(s);
    for (long i = 0; st == PS_OK && i < runs; i++) {
        st = ps_plan_run(p, feeds, 2, fetches, 2, out, NULL);
    }
    if (st == PS_OK && out[0].data != NULL) {
        printf("%s: %ld runs, loss %.3f\n", ps_value_device(logits), runs, *(const double *)out[0].data);
    }
    ps_session_fail(s, st, ps_last_error()); /* PS_OK: does nothing */
    return ps_session_close(s);
}
