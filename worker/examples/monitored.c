/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of softmax.c in a monitored session, which continues when its tasks are restarted, with a hook of its own. */
#include <ps.h>
#include <ps_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { ROWS = 1797, TEST = 360, TRAIN = ROWS - TEST, PIXELS = 64, CLASSES = 10, BATCH = 32 };
static float image[ROWS][PIXELS]; /* training rows in scattered order; then every fifth row of the file, for the test */
static int32_t label[ROWS];

static bool read_digits(const char *dir) /* a line: 64 pixels, 0 to 16, and the label */
{
    char line[4096], *p = NULL;
    snprintf(line, sizeof(line), "%s/digits/digits.csv.gz", dir != NULL ? dir : "data");
    gzFile file = gzopen(line, "rb");
    for (int row = 0; row < ROWS && (p = gzgets(file, line, sizeof(line))) != NULL; row++) {
        int at = row % 5 == 0 ? TRAIN + row / 5 : (row - row / 5 - 1) * 997 % TRAIN;
        for (int i = 0; i < PIXELS; i++, p += *p == ',') {
            image[at][i] = strtof(p, &p) / 16;
        }
        label[at] = (int32_t)strtol(p, NULL, 10) % CLASSES;
    }
    return gzclose(file) == Z_OK && p != NULL;
}

static ps_status smooth(void *mean, ps_session *s, const ps_step_values *step) /* the hook: called after each step that counts */
{
    double loss = 0, *m = (double *)mean;
    *m = ps_step_values_find(step, "loss", &loss) && ps_global_step(s) > 100 ? 0.99 * *m + 0.01 * loss : loss;
    return PS_OK;
}

int main(int argc, char **argv)
{
    const char *about = "Softmax regression on the digits in PS_DATA_DIR, or ./data";
    ps_session *s = ps_monitored_open_args(&argc, argv, about, NULL); /* NULL: no options, such as a restore function */
    bool good = ps_should_stop(s) || read_digits(getenv("PS_DATA_DIR"));
    ps_session_fail(s, good ? PS_OK : PS_NOT_FOUND, "cannot read the digits: PS_DATA_DIR has no digits/digits.csv.gz");
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(PIXELS, CLASSES), ps_glorot(PS_FAN_IN_OUT), ps_adagrad(0.1));
    ps_param *b = ps_param_get(s, "b", PS_SHAPE(CLASSES), ps_zeros(), ps_adagrad(0.1));
    static ps_tensor x, truth, y, value; /* batch, its labels, scores [row][class], a loss or count */
    static double mean;
    ps_hook hook;
    ps_hook_init(&hook), hook.name = "smooth", hook.ctx = &mean, hook.after_run = smooth, ps_add_hook(s, &hook);
    ps_add_stop_at_step_hook(s, 2000, 0), ps_add_nan_hook(s, "loss", PS_NAN_STOP), ps_session_ready(s);
    for (int batch = ps_task_index(s); !ps_should_stop(s); batch = (batch + ps_task_count(s)) % (TRAIN / BATCH)) {
        ps_tensor_wrap(&x, image[batch * BATCH], BATCH, PIXELS), ps_tensor_wrap_labels(&truth, label + batch * BATCH, BATCH);
        ps_pull(s), ps_dense(&x, w, b, &y), ps_softmax_xent(&y, &truth, &y, &value);
        ps_step_value(s, "loss", ps_tensor_scalar(&value)), ps_dense_backward(&x, &y, w, b, NULL);
        ps_push(s, w), ps_push(s, b), ps_step_done(s);
    }
    ps_tensor_wrap(&x, image[TRAIN], TEST, PIXELS), ps_tensor_wrap_labels(&truth, label + TRAIN, TEST);
    if (ps_pull(s) == PS_OK && ps_dense(&x, w, b, &y) == PS_OK && ps_argmax_count(&y, &truth, &value) == PS_OK) {
        printf("loss %.3f, test accuracy %.3f\n", mean, ps_tensor_scalar(&value) / TEST);
    }
    return ps_tensor_free(&x), ps_tensor_free(&truth), ps_tensor_free(&y), ps_tensor_free(&value), ps_session_close(s);
}
