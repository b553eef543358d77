/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer whose ps tasks and workers are one program, with the flags of TensorFlow's example: --job_name chooses the role.
 * With --checkpoint_dir the ps tasks save at the start, every 10 minutes and at the end. When a ps is killed and restarted, the
 * workers continue with the values of the last checkpoint. */
#include <inttypes.h>
#include <ps.h>
#include <ps_nn.h>
#include <psd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 60, INPUTS = 4, CLASSES = 3 };

static int serve(const ps_role *role)
{
    psd_server *server = NULL;
    psd_server_options options;
    char error[512];
    psd_server_options_init(&options), options.cluster_spec = ps_role_cluster_spec(role);
    options.cluster_name = ps_role_cluster_name(role);
    options.job = ps_role_job(role), options.task_index = ps_role_task(role);
    options.checkpoint_dir = ps_role_checkpoint_dir(role);
    options.key_file = ps_role_key_file(role);
    snprintf(options.recover.text, sizeof(options.recover.text), "cut"); /* after a loss all tasks return to the checkpoint */
    if (psd_server_start(&options, &server, error, sizeof(error)) != PS_OK) {
        fprintf(stderr, "trainer: ps %" PRIu32 ": %s\n", options.task_index, error);
        return 1;
    }
    psd_server_join(server);
    psd_server_free(server);
    return 0;
}

static void next_batch(uint32_t task, ps_tensor *x, ps_tensor *truth) /* random points of three classes, its own in each worker */
{
    static float points[BATCH][INPUTS];
    static int32_t labels[BATCH];
    static uint32_t noise;
    for (int row = 0; row < BATCH; row++) {
        labels[row] = row % CLASSES;
        for (int i = 0; i < INPUTS; i++) {
            noise = (noise == 0 ? task : noise) * 1664525 + 1013904223;
            points[row][i] = (float)(noise >> 8) / 16777216.0F + (i == labels[row] ? 0.5F : 0);
        }
    }
    ps_tensor_wrap(x, points[0], BATCH, INPUTS), ps_tensor_wrap_labels(truth, labels, BATCH);
}

static int train(int argc, char **argv)
{
    static ps_tensor x, truth, y, loss;
    ps_session *s = ps_monitored_open_args(&argc, argv, "Distributed training; --job_name ps serves", NULL);
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(INPUTS, CLASSES), ps_zeros(), ps_adagrad(0.01));
    ps_param *b = ps_param_get(s, "b", PS_SHAPE(CLASSES), ps_zeros(), ps_adagrad(0.01));
    ps_add_stop_at_step_hook(s, 1000000, 0); /* --steps may stop before */
    ps_session_ready(s);                     /* the chief initialises variables that no checkpoint has; others wait */
    while (!ps_should_stop(s)) {
        next_batch((uint32_t)ps_task_index(s), &x, &truth);
        ps_pull(s), ps_dense(&x, w, b, &y), ps_softmax_xent(&y, &truth, &y, &loss), ps_dense_backward(&x, &y, w, b, NULL);
        ps_push(s, w), ps_push(s, b), ps_step_done(s); /* --sync: one update by the mean of all workers; else one by each */
    }
    next_batch((uint32_t)ps_task_index(s), &x, &truth);
    if (ps_pull(s) == PS_OK && ps_dense(&x, w, b, &y) == PS_OK && ps_softmax_xent(&y, &truth, NULL, &loss) == PS_OK) {
        printf("worker %d: global step %" PRId64 ", loss %.3f\n", ps_task_index(s), ps_global_step(s), ps_tensor_scalar(&loss));
    }
    ps_tensor_free(&x), ps_tensor_free(&truth), ps_tensor_free(&y), ps_tensor_free(&loss);
    return ps_session_close(s);
}

int main(int argc, char **argv)
{
    ps_role *role = ps_role_from_args(argc, argv); /* role and cluster, from the flags or TF_CONFIG */
    int result = strcmp(ps_role_job(role), "ps") == 0 ? serve(role) : train(argc, argv);
    ps_role_free(role);
    return result;
}
