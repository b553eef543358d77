/* SPDX-License-Identifier: Apache-2.0 */
/* Synchronous training as TensorFlow's SyncReplicasOptimizer does it: an accumulator for each variable, a queue of tokens, and
 * a thread of the chief that takes the means, applies them, and hands out tokens for the next step. ps_session_sync() trains in
 * rounds without all of this; docs/TF_MAP.md lists which failures of this scheme ps_session_sync() avoids. */
#include <inttypes.h>
#include <ps.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 2, ELEMENTS = 3 };
static const float target[VARIABLES][ELEMENTS] = {{1, -2, 4}, {8, 0, -16}};

struct sync {
    ps_session *s;
    ps_variable *var[VARIABLES], *global_step;
    ps_accumulator *grad[VARIABLES];
    ps_queue *tokens;
    uint32_t workers;
    int64_t rounds;
    ps_status st; /* how the chief's thread ended */
    char why[256];
};

/* The chief's thread (TensorFlow's queue runner). Each step takes one gradient from each worker, and applies their means. */
static void *run_chief(void *arg)
{
    struct sync *c = (struct sync *)arg;
    int64_t now = 0, one = 1, *tokens = (int64_t *)calloc(c->workers, sizeof(*tokens));
    c->st = tokens != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
    for (int64_t round = 0; round < c->rounds && c->st == PS_OK; round++) {
        float mean[VARIABLES][ELEMENTS];
        for (int i = 0; i < VARIABLES && c->st == PS_OK; i++) {
            c->st = ps_accumulator_take_grad(c->grad[i], c->workers, mean[i], sizeof(mean[i]), 0, NULL);
        }
        for (int i = 0; i < VARIABLES && c->st == PS_OK; i++) {
            c->st = ps_variable_push(c->var[i], mean[i], sizeof(mean[i]), 1);
        }
        c->st = c->st == PS_OK ? ps_variable_assign_add(c->global_step, &one, sizeof(one), &now, sizeof(now)) : c->st;
        for (uint32_t i = 0; i < c->workers; i++) {
            tokens[i] = now;
        }
        const ps_from from[] = {{tokens, c->workers * sizeof(*tokens)}};
        c->st = c->st == PS_OK ? ps_enqueue_many(c->tokens, from, 1, c->workers, 0, NULL) : c->st;
    }
    snprintf(c->why, sizeof(c->why), "the chief's thread: %s", c->st == PS_OK ? "" : ps_last_error());
    ps_status closed = ps_queue_close(c->tokens, c->st != PS_OK, 0); /* the closed queue ends the workers' wait for tokens */
    c->st = c->st == PS_OK ? closed : c->st;
    free(tokens);
    return NULL;
}

/* A worker's loop: gives a gradient to each accumulator, then waits for a token, which holds the step of its next gradients. */
static ps_status train(struct sync *c, int64_t local_step)
{
    ps_status st = PS_OK;
    while (st == PS_OK) {
        for (int i = 0; i < VARIABLES && st == PS_OK; i++) {
            float value[ELEMENTS];
            st = ps_variable_read(c->var[i], value, sizeof(value));
            for (int k = 0; k < ELEMENTS; k++) {
                value[k] -= target[i][k]; /* the gradient of (value - target)^2 / 2 */
            }
            st = st == PS_OK ? ps_accumulator_apply_grad(c->grad[i], value, sizeof(value), local_step, 0, NULL) : st;
        }
        const ps_into into[] = {{&local_step, sizeof(local_step)}};
        st = st == PS_OK ? ps_dequeue(c->tokens, into, 1, 0) : st;
    }
    return st == PS_OUT_OF_RANGE ? PS_OK : st; /* the chief has closed the queue of tokens: the training is over */
}

static ps_status begin(struct sync *c)
{
    static const char *const names[VARIABLES] = {"w", "b"};
    ps_queue_spec tokens;
    ps_status st = PS_OK;
    for (int i = 0; i < VARIABLES && st == PS_OK; i++) {
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        spec.name = names[i];
        spec.dtype = PS_F32;
        spec.shape = PS_SHAPE(ELEMENTS);
        spec.optimizer = ps_sgd(0.5);
        st = ps_variable_get(c->s, &spec, &c->var[i]);
    }
    st = st == PS_OK ? ps_session_ready(c->s) : st;
    st = st == PS_OK ? ps_global_step_get(c->s, &c->global_step) : st;
    for (int i = 0; i < VARIABLES && st == PS_OK; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s/grad_accum", names[i]);
        st = ps_accumulator_get(c->s, name, PS_F32, PS_SHAPE(ELEMENTS), PS_REDUCTION_MEAN, ps_variable_device(c->var[i]),
                                &c->grad[i]);
    }
    ps_queue_spec_init(&tokens, "sync_token_q", PS_I64, PS_SCALAR);
    return st == PS_OK ? ps_queue_get(c->s, &tokens, &c->tokens) : st;
}

int main(int argc, char **argv)
{
    struct sync c;
    memset(&c, 0, sizeof(c));
    c.s = ps_session_open_args(&argc, argv, "Training in step, by accumulators and tokens; --rounds N");
    pthread_t chief;
    int64_t step = 0;
    bool given = argc == 3 && strcmp(argv[1], "--rounds") == 0;
    c.rounds = given ? strtoll(argv[2], NULL, 10) : 20;
    c.workers = (uint32_t)ps_task_count(c.s);
    ps_status st = ps_should_stop(c.s) ? ps_session_status(c.s) : begin(&c);
    bool runs = st == PS_OK && !ps_should_stop(c.s);
    st = runs ? ps_variable_read(c.global_step, &step, sizeof(step)) : st;
    bool leads = runs && st == PS_OK && ps_is_chief(c.s);
    for (int i = 0; i < VARIABLES && leads && st == PS_OK; i++) {
        st = ps_accumulator_set_global_step(c.grad[i], step, NULL); /* from now on it drops gradients of earlier steps */
    }
    leads = leads && st == PS_OK && pthread_create(&chief, NULL, run_chief, &c) == 0;
    st = runs && st == PS_OK ? train(&c, step) : st;
    if (leads) {
        pthread_join(chief, NULL);
        st = c.st != PS_OK ? ps_session_fail(c.s, c.st, c.why) : st;
    }
    float w[ELEMENTS];
    st = runs && st == PS_OK ? ps_variable_read(c.global_step, &step, sizeof(step)) : st;
    st = runs && st == PS_OK ? ps_variable_read(c.var[0], w, sizeof(w)) : st;
    if (runs && st == PS_OK) {
        printf("step %" PRId64 ": w = %.6f %.6f %.6f\n", step, (double)w[0], (double)w[1], (double)w[2]);
    } else if (st != PS_OK) {
        ps_session_fail(c.s, st, ps_last_error());
    }
    return ps_session_close(c.s);
}
