/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The average of gradients, bit for bit as the owner of a variable computes it when it closes a round:
 *
 *   acc = g_0,  acc += g_w for w = 1, 2, ... ascending,  acc /= n,  all in float32
 *
 * Failure modes: no memory; errors of the session are sticky.
 */
#include "average.h"

#include <stdlib.h>
#include <string.h>

static int count_of(const struct model *m)
{
    return model_variable_count(&m->spec);
}

static ps_param *param_of(const struct model *m, int i)
{
    return i % 2 == 0 ? m->weights[i / 2] : m->biases[i / 2];
}

static size_t elements_of(const struct model *m, int i)
{
    return (size_t)ps_shape_elements(ps_param_shape(param_of(m, i)));
}

int average_init(struct average *a, const struct model *m)
{
    *a = (struct average){.count = 0};
    for (int i = 0; i < count_of(m); i++) {
        a->sum[i] = malloc(elements_of(m, i) * sizeof(float));
        if (a->sum[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

void average_fini(struct average *a)
{
    for (size_t i = 0; i < sizeof(a->sum) / sizeof(a->sum[0]); i++) {
        free(a->sum[i]);
    }
    memset(a, 0, sizeof(*a));
}

void average_add(struct average *a, const struct model *m)
{
    for (int i = 0; i < count_of(m); i++) {
        const float *g = ps_param_grad(param_of(m, i));
        const size_t elements = elements_of(m, i);
        float *acc = a->sum[i];
        for (size_t k = 0; k < elements; k++) {
            acc[k] = a->count == 0 ? g[k] : acc[k] + g[k];
        }
    }
    a->count++;
}

void average_push(struct average *a, const struct model *m, ps_session *s)
{
    float n = (float)a->count;
    for (int i = 0; i < count_of(m); i++) {
        float *g = ps_param_grad(param_of(m, i));
        const size_t elements = elements_of(m, i);
        for (size_t k = 0; k < elements; k++) {
            g[k] = a->sum[i][k] / n;
        }
        (void)ps_push(s, param_of(m, i));
    }
    a->count = 0;
}
