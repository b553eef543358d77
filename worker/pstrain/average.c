/* SPDX-License-Identifier: Apache-2.0 */
/* The average of the workers' gradients in a round, bit for bit as the ps task that has the variable computes it:
 *
 *   acc = g_0,  acc += g_w for w = 1, 2, ... ascending,  acc /= n,  all in float32
 *
 * n is the number of workers. For a row of a table (--rows) only workers whose batch has the row add a gradient.
 *
 * Failure modes: no memory; an error of a call on the session, after which further calls do nothing. */
#include "average.h"

#include <stdlib.h>
#include <string.h>

static int count_of(const struct model *m)
{
    return model_variable_count(&m->spec);
}

static ps_param *param_of(const struct model *m, int i)
{
    return i == 2 * m->spec.layers ? m->rows.beside.param : i % 2 == 0 ? m->weights[i / 2] : m->biases[i / 2];
}

/* Variable i as a table, if batches read single rows of it. NULL: batches read the whole variable. */
static const struct rows_table *table_of(const struct model *m, int i)
{
    return !m->spec.by_rows ? NULL : i == 0 ? &m->rows.first : i == 2 * m->spec.layers ? &m->rows.beside : NULL;
}

static size_t elements_of(const struct model *m, int i)
{
    const struct rows_table *table = table_of(m, i);
    return (size_t)(table != NULL ? m->spec.units[0] * table->columns : ps_shape_elements(ps_param_shape(param_of(m, i))));
}

int average_init(struct average *a, const struct model *m)
{
    *a = (struct average){.round = 1};
    for (int i = 0; i < count_of(m); i++) {
        a->sum[i] = malloc(elements_of(m, i) * sizeof(float));
        if (a->sum[i] == NULL) {
            return -1;
        }
    }
    if (m->spec.by_rows) {
        a->last = calloc((size_t)m->spec.units[0], sizeof(*a->last));
        a->ids = calloc((size_t)m->spec.units[0], sizeof(*a->ids));
    }
    return !m->spec.by_rows || (a->last != NULL && a->ids != NULL) ? 0 : -1;
}

void average_fini(struct average *a)
{
    for (size_t i = 0; i < sizeof(a->sum) / sizeof(a->sum[0]); i++) {
        free(a->sum[i]);
    }
    free(a->last);
    free(a->ids);
    memset(a, 0, sizeof(*a));
}

static void add(float *acc, const float *g, size_t elements, bool first)
{
    for (size_t k = 0; k < elements; k++) {
        acc[k] = first ? g[k] : acc[k] + g[k];
    }
}

static void add_rows(struct average *a, const struct model *m)
{
    const struct rows *r = &m->rows;
    const int64_t values = r->batch.rows > 0 ? r->batch.ends[r->batch.rows - 1] : 0;
    a->batch++;
    for (int64_t v = 0; v < values; v++) {
        const int64_t id = r->ids[v], place = r->places[v];
        if (a->last[id] == a->batch) { /* the batch has this feature twice, and its one gradient row is added already */
            continue;
        }
        for (int i = 0; i < count_of(m); i++) {
            const struct rows_table *t = table_of(m, i);
            const float *g = t != NULL ? ps_param_grad(t->param) : NULL;
            if (t != NULL) {
                add(a->sum[i] + id * t->columns, g + place * t->columns, (size_t)t->columns, a->last[id] < a->round);
            }
        }
        a->last[id] = a->batch;
    }
}

void average_add(struct average *a, const struct model *m)
{
    for (int i = 0; i < count_of(m); i++) {
        if (table_of(m, i) == NULL) {
            add(a->sum[i], ps_param_grad(param_of(m, i)), elements_of(m, i), a->count == 0);
        }
    }
    if (m->spec.by_rows) {
        add_rows(a, m);
    }
    a->count++;
}

static void divide(float *g, const float *sum, size_t elements, float n)
{
    for (size_t k = 0; k < elements; k++) {
        g[k] = sum[k] / n;
    }
}

/* Set the gradients of the rows a->ids, which the batches of the round had, to the averages. ps_embedding_pull() first makes the
 * gradient buffer hold exactly these rows. If that fails, no gradient is set, and the session has the error. */
static void take_rows(const struct average *a, const struct rows_table *t, const float *sum)
{
    if (ps_embedding_pull(t->param, a->ids, (size_t)a->id_count, NULL) != PS_OK) {
        return;
    }
    float *g = ps_param_grad(t->param);
    for (int64_t k = 0; k < a->id_count; k++) {
        divide(g + k * t->columns, sum + a->ids[k] * t->columns, (size_t)t->columns, (float)a->count);
    }
}

void average_push(struct average *a, const struct model *m, ps_session *s, double max_norm)
{
    a->id_count = 0;
    for (int64_t id = 0; m->spec.by_rows && id < m->spec.units[0]; id++) {
        if (a->last[id] >= a->round) {
            a->ids[a->id_count++] = id;
        }
    }
    for (int i = 0; i < count_of(m); i++) {
        if (table_of(m, i) != NULL) {
            take_rows(a, table_of(m, i), a->sum[i]);
        } else {
            divide(ps_param_grad(param_of(m, i)), a->sum[i], elements_of(m, i), (float)a->count);
        }
    }
    if (max_norm > 0) {
        model_clip(m, max_norm);
    }
    for (int i = 0; i < count_of(m); i++) {
        (void)ps_push(s, param_of(m, i));
    }
    a->count = 0;
    a->round = a->batch + 1;
}
