/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix factorization: rating = product of a user's and an item's row of weights. A worker holds only its batch's rows. */
#include <math.h>
#include <ps.h>
#include <stdio.h>

enum { USERS = 20000, ITEMS = 1000, WIDTH = 8, BATCH = 1024 };
static ps_param *users, *items;                                            /* their local buffers hold only the rows of a batch */
static int64_t user[BATCH], item[BATCH], user_row[BATCH], item_row[BATCH]; /* a batch's pairs; their rows in the buffers */
static uint64_t drawn;

static double noise(uint64_t n) /* a number in [-1, 1) that only n determines */
{
    n = (n + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9, n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return (double)((n ^ n >> 31) >> 11) / 4503599627370496.0 - 1;
}

static double rating(int64_t u, int64_t i)
{
    return noise((uint64_t)u) * noise(1 << 20 | (uint64_t)i) + noise(1 << 21 | (uint64_t)u) * noise(1 << 22 | (uint64_t)i);
}

static void draw(bool test) /* a batch of pairs; a tenth of all pairs is for the test */
{
    for (int k = 0; k < BATCH; k += ((user[k] * 31 + item[k] * 17) % 10 == 0) == test) {
        user[k] = (int64_t)((noise(drawn++) + 1) / 2 * USERS), item[k] = (int64_t)((noise(drawn++) + 1) / 2 * ITEMS);
    }
}

static ps_param *get(ps_session *s, const char *name, int64_t rows)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name, spec.dtype = PS_F32, spec.shape = PS_SHAPE(rows, WIDTH), spec.partition_layout = PS_LAYOUT_MOD;
    spec.init = ps_normal(0, 0.3), spec.optimizer = ps_adagrad(0.2);
    ps_partition_fixed_size(&spec, 2); /* cut into two parts, which are placed on the ps tasks in turn */
    return ps_embedding_get(s, &spec);
}

static double batch(void) /* forward and backward pass; returns the mean squared error */
{
    double sum = 0;
    ps_embedding_pull(users, user, BATCH, user_row);
    ps_embedding_pull(items, item, BATCH, item_row);
    float *u = (float *)ps_param_value(users), *du = (float *)ps_param_grad(users);
    float *i = (float *)ps_param_value(items), *di = (float *)ps_param_grad(items);
    for (int k = 0; k < BATCH; k++) {
        const int64_t a = user_row[k] * WIDTH, b = item_row[k] * WIDTH;
        float error = (float)-rating(user[k], item[k]);
        for (int j = 0; j < WIDTH; j++) {
            error += u[a + j] * i[b + j];
        }
        for (int j = 0; j < WIDTH; j++) {
            du[a + j] += error * i[b + j], di[b + j] += error * u[a + j]; /* the buffers began with zeros */
        }
        sum += (double)(error * error) / BATCH;
    }
    return sum;
}

int main(int argc, char **argv)
{
    ps_session *s = ps_session_open_args(&argc, argv, "Matrix factorization of ratings that are made up");
    users = get(s, "users", USERS), items = get(s, "items", ITEMS);
    ps_session_ready(s), ps_set_steps(s, 1000); /* steps of all workers together, unless --steps says otherwise */
    drawn = (uint64_t)ps_task_index(s) << 40;   /* each worker draws pairs of its own */
    for (draw(false); !ps_should_stop(s); ps_step_done(s)) {
        ps_pull(s); /* begins the step; rows are pulled in batch() */
        batch();
        ps_push(s, users), ps_push(s, items); /* pushes only the rows of the batch */
        draw(false);
        ps_embedding_ahead(users, user, BATCH), ps_embedding_ahead(items, item, BATCH);
    }
    draw(true);
    if (ps_pull(s) == PS_OK) {
        printf("rmse of the test %.3f\n", sqrt(batch())); /* on pairs that no worker has trained; guessing 0 gives 0.47 */
    }
    return ps_session_close(s);
}
