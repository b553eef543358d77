/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeddings: parameters whose buffers have the rows of a batch, not the whole variable.
 *
 * Happy path, after ps_embedding_get() and ps_session_ready(): in each step ps_embedding_pull() sorts the ids of the batch and
 * gathers their rows, each row once, into the value buffer. ps_push() pushes the gradient rows of these ids (param.c).
 * ps_embedding_ahead() starts to gather the rows of the next batch into a second buffer; the next pull exchanges the buffers.
 * Failure modes: as for parameters. If rows could not be read ahead, the next pull gathers them, and reports only its own errors.
 */
#include "lock.h"
#include "monitored.h"
#include "training.h"

#include "worker/core/rows.h"

#include "common/mem.h"
#include "common/shape.h"

#include <string.h>

/* Make a parameter with buffers of one row. Its variable is got later. NULL: *err has the reason. */
static ps_param *embedding_new(ps_session *s, const ps_variable_spec *spec, struct psi_err *err)
{
    ps_shape row = spec->shape;
    row.dims[0] = 1;
    ps_param *p = psi_api_param_new(s, spec->name, &row, err);
    if (p == NULL) {
        return NULL;
    }
    p->rows = psi_calloc(1, sizeof(*p->rows));
    if (p->rows == NULL) {
        PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "embedding '%s': out of memory", spec->name)); /* NULL tells the caller */
        psi_api_param_free(p);
        return NULL;
    }
    p->rows->rows = spec->shape.dims[0];
    p->rows->row_bytes = p->bytes;
    p->train.by_rows = true;
    return p;
}

static ps_status embedding_make(ps_session *s, const ps_variable_spec *given, ps_param **out, struct psi_err *err)
{
    uint64_t rows = 0, columns = 0;
    ps_variable_spec spec;
    ps_optimizer optimizer;
    struct psi_err why = {0};
    ps_status st = psi_api_spec_take(given, PSI_SCOPE_GET, &spec, &optimizer, err);
    if (st == PS_OK && (spec.name == NULL || spec.name[0] == '\0' || spec.dtype != PS_F32)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, spec.dtype != PS_F32 ? "its dtype is %s, and must be float32" : "%s has no name",
                      spec.dtype != PS_F32 ? ps_dtype_name(spec.dtype) : "the spec");
    }
    st = st == PS_OK ? psi_shape_check(&spec.shape, err) : st;
    st = st == PS_OK ? psi_rows_of(spec.name, &spec.shape, PS_F32, &rows, &columns, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (rows == 0 || columns == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%s' has %s", spec.name, rows == 0 ? "no rows" : "rows without elements");
    }
    ps_param *p = embedding_new(s, &spec, &why);
    st = p == NULL ? why.code : psi_api_param_variable(s, &spec, p, &why);
    if (st != PS_OK) {
        *err = why;
        psi_api_param_free(p);
        return st;
    }
    *out = p;
    return PS_OK;
}

static ps_param *embedding_dummy(ps_session *s, const ps_variable_spec *spec)
{
    ps_shape row = spec != NULL ? spec->shape : (ps_shape){.rank = 1};
    row.dims[0] = 1;
    return psi_api_param_dummy(s, spec != NULL ? spec->name : NULL, &row);
}

static ps_param *embedding_get(ps_session *s, const ps_variable_spec *spec)
{
    struct psi_err err = {0};
    ps_param *p = NULL;
    PSI_IGNORE(psi_api_recover(s)); /* false: nothing was lost, or the recovery failed, which psi_api_enter() reports */
    const ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        if (s != NULL && s->opened == PSI_OPENED && psi_api_sticky(s, NULL) == PS_OK) { /* for example in a callback */
            PSI_IGNORE(psi_api_last_sticks(s, st, "ps_embedding_get"));                 /* calls on the dummy return the error */
        }
        return embedding_dummy(s, spec);
    }
    if (embedding_make(s, spec, &p, &err) != PS_OK) {
        PSI_IGNORE(psi_api_refused(s, &err, "ps_embedding_get")); /* calls on the dummy return the error */
        return embedding_dummy(s, spec);
    }
    psi_api_param_keep(s, p);
    return p;
}

ps_param *ps_embedding_get(ps_session *s, const ps_variable_spec *spec)
{
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_param *p = embedding_get(s, spec);
    psi_api_end(s);
    return p;
}

/* Write to *out_rows the ids of a batch, sorted, each once, and the position of each given id among them. Owned by the caller. */
static ps_status sort_ids(const ps_param *p, const int64_t *ids, size_t count, struct psi_rows **out_rows, struct psi_err *err)
{
    ps_shape whole = p->shape;
    whole.dims[0] = p->rows->rows;
    const struct psi_rows_given given = {
        .name = p->name, .shape = &whole, .dtype = PS_F32, .indices = ids, .count = count, .use = PSI_ROWS_READ};
    return ids == NULL && count > 0 ? psi_fail(err, PS_INVALID_ARGUMENT, "'%s': the ids are NULL", p->name)
                                    : psi_rows_new(&given, out_rows, err);
}

/* Replace *list by a copy of the ids of the rows in r. */
static ps_status keep_ids(const ps_param *p, const struct psi_rows *r, int64_t **list, size_t *out_count, struct psi_err *err)
{
    int64_t *made = psi_malloc((r->count + 1) * sizeof(*made));
    if (made == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for %llu ids", p->name, (unsigned long long)r->count);
    }
    memcpy(made, r->indices, r->count * sizeof(*made));
    psi_free(*list);
    *list = made;
    *out_count = r->count;
    return PS_OK;
}

/* Make room for `bytes` of new values in the block. A block that must grow gets 1.5 times the bytes, for later batches. */
static ps_status room(ps_param *p, struct psk_block *block, size_t bytes, void **out, struct psi_err *err)
{
    if (block->host_bytes < bytes) {
        block->room_bytes = bytes + bytes / 2;
    }
    const ps_status st = psk_block_write(block, psi_api_compute_place(p->session), bytes, out, err);
    psi_err_prefix(st != PS_OK ? err : NULL, "embedding '%s'", p->name);
    return st;
}

/* Make both buffers of p as large as the rows of e->ids, and zero the gradient. Without ids each buffer has one row of zeros,
 * which is not pushed. exchange: the second buffer, which has the values, becomes the value buffer. Otherwise the caller must
 * write the values to *out_value, the value buffer. */
static ps_status resize(ps_param *p, bool exchange, void **out_value, struct psi_err *err)
{
    void *grad = NULL;
    struct psi_embedding *e = p->rows;
    p->shape.dims[0] = e->count > 0 ? (int64_t)e->count : 1;
    p->bytes = (size_t)p->shape.dims[0] * e->row_bytes;
    if (exchange) {
        const struct psk_block value = p->value;
        p->value = p->next;
        p->next = value;
    }
    ps_status st = exchange ? PS_OK : room(p, &p->value, p->bytes, out_value, err);
    if (!exchange && st == PS_OK && e->count == 0) {
        memset(*out_value, 0, p->bytes);
    }
    st = st == PS_OK ? room(p, &p->grad, p->bytes, &grad, err) : st;
    if (st == PS_OK) {
        memset(grad, 0, p->bytes);
    }
    return st;
}

static bool has_come(ps_session *s, void *rows)
{
    const struct psi_embedding *e = rows;
    (void)s;
    return e->next != PSI_VALUE_COMING;
}

/* Wait until the read ahead into the second buffer has ended, and take its rows: a later pull finds the buffer empty. *out_mine:
 * true if these are the rows of r, so that the caller may use them. CANCELLED: the call was interrupted. */
static ps_status take_ahead(ps_param *p, const struct psi_rows *r, bool *out_mine, struct psi_err *err)
{
    ps_session *s = p->session;
    struct psi_embedding *e = p->rows;
    (void)pthread_mutex_lock(&s->lock);
    psi_api_wait_until(s, has_come, e, PSI_WAIT_DRIVES | PSI_WAIT_CUT);
    const ps_status st = has_come(s, e) ? PS_OK : psi_api_interrupted(s, err);
    *out_mine = st == PS_OK && e->next == PSI_VALUE_THERE && r->count > 0 && r->count == e->next_count &&
                memcmp(r->indices, e->next_ids, r->count * sizeof(*e->next_ids)) == 0;
    e->next = st == PS_OK ? PSI_VALUE_STALE : e->next;
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

static void say_places(const struct psi_rows *r, int64_t *places)
{
    for (uint64_t i = 0; places != NULL && i < r->given; i++) {
        places[i] = r->places != NULL ? (int64_t)r->places[i] : (int64_t)i;
    }
}

/* Pull the rows of the ids into p's value buffer. The session is ready, and no push of p is in flight. */
static ps_status pull_rows(ps_param *p, const int64_t *ids, size_t count, int64_t *places)
{
    struct psi_rows *r = NULL;
    struct psi_err err = {0};
    void *value = NULL;
    struct psi_embedding *e = p->rows;
    ps_status st = sort_ids(p, ids, count, &r, &err);
    bool exchange = false;
    st = st == PS_OK ? take_ahead(p, r, &exchange, &err) : st;
    st = st == PS_OK ? keep_ids(p, r, &e->ids, &e->count, &err) : st;
    st = st == PS_OK ? resize(p, exchange, &value, &err) : st;
    if (st != PS_OK) {
        psi_rows_free(r);
        return psi_api_refused(p->session, &err, "ps_embedding_pull");
    }
    say_places(r, places);
    psi_rows_free(r);
    if (!exchange) {
        st = ps_gather(p->variable, e->ids, e->count, value, e->count * e->row_bytes);
    }
    return st == PS_OK ? PS_OK : psi_api_last_sticks(p->session, st, "ps_embedding_pull");
}

/* Refuse p, which is no embedding. The error, INVALID_ARGUMENT, sticks. */
static ps_status no_embedding(ps_session *s, const ps_param *p, const char *call)
{
    struct psi_err err = {0};
    (void)psi_fail(&err, PS_INVALID_ARGUMENT, "%s is no embedding", p != NULL ? p->name : "NULL");
    return psi_api_refused(s, &err, call);
}

/* Begin a call on p. The call must go on only if *out_does is true. INVALID_ARGUMENT: p is no embedding with a variable. */
static ps_status enter(ps_session *s, ps_param *p, const char *call, bool *out_does)
{
    const ps_status st = psi_api_enter_settled(s);
    *out_does = st == PS_OK && p != NULL && p->rows != NULL && p->variable != NULL;
    return st != PS_OK || *out_does ? st : no_embedding(s, p, call);
}

ps_status ps_embedding_pull(ps_param *p, const int64_t *ids, size_t id_count, int64_t *out_places)
{
    bool does = false;
    ps_session *s = ps_param_session(p);
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    (void)psi_monitor_tell(s, PSI_ON_PULL, 0);
    ps_status st = enter(s, p, "ps_embedding_pull", &does);
    st = st == PS_OK ? psi_api_param_wait(p) : st;
    st = st == PS_OK ? psi_api_sticky(s, NULL) : st;
    st = does && st == PS_OK ? pull_rows(p, ids, id_count, out_places) : st;
    if (st != PS_OK && out_places != NULL && id_count > 0) {
        memset(out_places, 0, id_count * sizeof(*out_places)); /* on failure each place is 0: valid, as the buffers have a row */
    }
    st = psi_api_last(s, st);
    psi_api_end(s);
    return st;
}

/* Set what the next pull finds in the second buffer, and wake waiting threads. COMING: rows are on their way. THERE: the rows
 * have come. STALE: there are no rows, so the pull gathers them. */
static void set_next(ps_param *p, enum psi_param_value next)
{
    (void)pthread_mutex_lock(&p->session->lock);
    p->rows->next = next;
    psi_api_wake(p->session);
    (void)pthread_mutex_unlock(&p->session->lock);
}

static void on_ahead(void *ctx, ps_request *req, const ps_result *result)
{
    (void)req;
    set_next(ctx, result->status == PS_OK ? PSI_VALUE_THERE : PSI_VALUE_STALE);
}

static ps_status read_ahead(ps_param *p, const int64_t *ids, size_t count)
{
    struct psi_rows *r = NULL;
    struct psi_err err = {0};
    void *memory = NULL;
    struct psi_embedding *e = p->rows;
    ps_status st = sort_ids(p, ids, count, &r, &err);
    bool older = false; /* not used: take_ahead() drops rows read ahead earlier, which are read again */
    st = st == PS_OK ? take_ahead(p, r, &older, &err) : st;
    st = st == PS_OK ? keep_ids(p, r, &e->next_ids, &e->next_count, &err) : st;
    psi_rows_free(r);
    st = st == PS_OK ? room(p, &p->next, e->next_count * e->row_bytes + 1, &memory, &err) : st;
    if (st != PS_OK) {
        return psi_api_refused(p->session, &err, "ps_embedding_ahead");
    }
    if (e->next_count == 0) {
        return PS_OK;
    }
    set_next(p, PSI_VALUE_COMING);
    st =
        ps_gather_start(p->variable, e->next_ids, e->next_count, memory, e->next_count * e->row_bytes, 0, &e->ahead, on_ahead, p);
    if (st != PS_OK) {
        set_next(p, PSI_VALUE_STALE);
        return psi_api_last_sticks(p->session, st, "ps_embedding_ahead");
    }
    return PS_OK;
}

ps_status ps_embedding_ahead(ps_param *p, const int64_t *ids, size_t id_count)
{
    bool does = false;
    ps_session *s = ps_param_session(p);
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_status st = enter(s, p, "ps_embedding_ahead", &does);
    /* in rounds nothing is read ahead: the end of the round changes the rows before the next pull */
    st = does && !psi_api_in_rounds(s) ? read_ahead(p, ids, id_count) : st;
    st = psi_api_last(s, st);
    psi_api_end(s);
    return st;
}
