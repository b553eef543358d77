/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax regression on handwritten digits: each worker trains on its share of the rows, the ps tasks apply the updates. */
#include <ps.h>
#include <ps_nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { ROWS = 1797, TEST = 360, TRAIN = ROWS - TEST, PIXELS = 64, CLASSES = 10, BATCH = 32 };
static float image[ROWS][PIXELS]; /* rows for training in scattered order, then every fifth row of the file, for the test */
static int32_t label[ROWS];

static int read_digits(const char *path) /* each line has 64 pixels, 0 to 16, and the label */
{
    char line[512];
    int rows = 0;
    gzFile file = gzopen(path, "rb");
    for (; file != NULL && rows < ROWS && gzgets(file, line, sizeof(line)) != NULL; rows++) {
        int at = rows % 5 == 0 ? TRAIN + rows / 5 : (rows - rows / 5 - 1) * 997 % TRAIN;
        char *p = line;
        for (int i = 0; i < PIXELS; i++, p += *p == ',') {
            image[at][i] = strtof(p, &p) / 16;
        }
        label[at] = (int32_t)strtol(p, NULL, 10) % CLASSES;
    }
    return file != NULL && gzclose(file) == Z_OK ? rows : 0;
}

int main(int argc, char **argv)
{
    ps_session *s = ps_session_open_args(&argc, argv, "Softmax regression on the digits in --data FILE");
    char path[4096], *dir = getenv("PS_DATA_DIR");
    snprintf(path, sizeof(path), "%s/digits/digits.csv.gz", dir != NULL ? dir : "data");
    bool given = argc == 3 && strcmp(argv[1], "--data") == 0; /* ps_session_open_args() has taken its own flags out of argv */
    if (!ps_should_stop(s) && read_digits(given ? argv[2] : argc == 1 ? path : "") != ROWS) {
        ps_session_fail(s, PS_NOT_FOUND, "cannot read the digits; --data FILE, the only flag besides --help's, names them");
    }
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(PIXELS, CLASSES), ps_glorot(PS_FAN_IN_OUT), ps_adagrad(0.1));
    ps_param *b = ps_param_get(s, "b", PS_SHAPE(CLASSES), ps_zeros(), ps_adagrad(0.1));
    static ps_tensor x, truth, y, correct; /* batch, its labels, scores [row][class], a count */
    ps_session_ready(s);                   /* the chief initialises, the others wait */
    ps_set_steps(s, 2000);                 /* steps of all workers together, unless --steps says otherwise */
    for (int batch = ps_task_index(s); !ps_should_stop(s); batch += ps_task_count(s)) {
        batch = batch < TRAIN / BATCH ? batch : ps_task_index(s) % (TRAIN / BATCH); /* each worker has batches of its own */
        ps_tensor_wrap(&x, image[batch * BATCH], BATCH, PIXELS), ps_tensor_wrap_labels(&truth, label + batch * BATCH, BATCH);
        ps_pull(s); /* all parameters, into their value buffers */
        ps_dense(&x, w, b, &y);
        ps_softmax_xent(&y, &truth, &y, NULL);
        ps_dense_backward(&x, &y, w, b, NULL);
        ps_push(s, w), ps_push(s, b); /* return at once; the ps tasks apply Adagrad */
        ps_step_done(s);              /* global step + 1 when both are acknowledged */
    }
    ps_tensor_wrap(&x, image[TRAIN], TEST, PIXELS), ps_tensor_wrap_labels(&truth, label + TRAIN, TEST);
    if (ps_pull(s) == PS_OK && ps_dense(&x, w, b, &y) == PS_OK && ps_argmax_count(&y, &truth, &correct) == PS_OK) {
        printf("test accuracy %.3f\n", ps_tensor_scalar(&correct) / TEST);
    }
    ps_tensor_free(&x), ps_tensor_free(&truth), ps_tensor_free(&y), ps_tensor_free(&correct);
    return ps_session_close(s);
}
