/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers to build and to run a plan: the lock, by which only one thread builds or runs it at a time; the first error of
 * building; questions about the plan's values. After an error of building, later calls that build rows do nothing. */
#include "plan.h"

bool psi_plan_enter(ps_plan *p)
{
    if (p == NULL || !psi_api_here(p->session)) {
        return false;
    }
    (void)pthread_mutex_lock(&p->lock);
    while (p->running) {
        (void)pthread_cond_wait(&p->changed, &p->lock);
    }
    if (p->error.code != PS_OK) {
        (void)pthread_mutex_unlock(&p->lock);
        return false;
    }
    return true;
}

ps_value psi_plan_leave(ps_plan *p, ps_value value, const struct psi_err *err)
{
    const bool failed = err->code != PS_OK;
    if (failed) {
        p->error = *err;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (failed) {
        PSI_IGNORE(psi_api_last_error_set(err)); /* the plan keeps the error */
    }
    return failed ? (ps_value){0} : value;
}

ps_status psi_plan_run_begin(ps_plan *p, bool waits, struct psi_err *err)
{
    if (waits && psi_api_here(p->session) && psi_io_on_loop(p->session->io)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "a call that blocks cannot be made in a callback of the library");
    }
    (void)pthread_mutex_lock(&p->lock);
    while (p->running && waits) {
        (void)pthread_cond_wait(&p->changed, &p->lock);
    }
    const bool busy = p->running;
    p->running = true; /* busy: it was true already */
    (void)pthread_mutex_unlock(&p->lock);
    return busy ? psi_fail(err, PS_FAILED_PRECONDITION, "the plan runs already; another run begins when it has ended") : PS_OK;
}

void psi_plan_run_end(ps_plan *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->running = false;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

void psi_plan_run_end_calling(ps_plan *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->calling++;
    (void)pthread_mutex_unlock(&p->lock);
    psi_plan_run_end(p);
}

void psi_plan_called(ps_plan *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->calling--;
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

ps_status ps_plan_status(const ps_plan *p)
{
    return p != NULL ? p->error.code : PS_INVALID_ARGUMENT;
}

const char *ps_plan_error(const ps_plan *p)
{
    return p != NULL ? p->error.text : "the plan is NULL";
}

ps_session *ps_plan_session(const ps_plan *p)
{
    return p != NULL ? p->session : NULL;
}

static const struct psi_plan_row *row_of(ps_value v)
{
    return v.plan != NULL && v.row < v.plan->row_count && v.output < v.plan->rows[v.row]->output_count ? v.plan->rows[v.row]
                                                                                                       : NULL;
}

const char *ps_value_name(ps_value v)
{
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? row->name : "";
}

const char *ps_value_device(ps_value v)
{
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? row->assigned : "";
}

const char *ps_value_requested_device(ps_value v)
{
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? row->requested : "";
}

ps_dtype ps_value_dtype(ps_value v)
{
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? row->types[v.output].dtype : PS_DTYPE_NONE;
}

ps_shape ps_value_shape(ps_value v)
{
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? row->types[v.output].shape : (ps_shape){0};
}

ps_status psi_plan_value_check(const ps_plan *p, ps_value v, const char *what, struct psi_err *err)
{
    if (v.plan == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is no value: the call that should have made it has failed", what);
    }
    if (v.plan != p) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s is a value of another plan", what);
    }
    const struct psi_plan_row *row = row_of(v);
    return row != NULL ? PS_OK
                       : psi_fail(err, PS_INVALID_ARGUMENT, "%s is output %u of row %u, which the plan does not have", what,
                                  (unsigned)v.output, (unsigned)v.row);
}

struct psi_plan_ref psi_plan_maker(const ps_plan *p, struct psi_plan_ref ref)
{
    while (p->rows[ref.row]->kind == PSI_PLAN_ASSIGN) {
        ref = p->rows[ref.row]->inputs[0];
    }
    return ref;
}

uint32_t psi_plan_number(const ps_plan *p, struct psi_plan_ref ref)
{
    const struct psi_plan_ref maker = psi_plan_maker(p, ref);
    return p->rows[maker.row]->first_value + maker.output;
}

void ps_row_options_init(ps_row_options *options)
{
    if (options != NULL) {
        *options = (ps_row_options){.struct_bytes = sizeof(*options)};
    }
}

void ps_run_options_init(ps_run_options *options)
{
    if (options != NULL) {
        *options = (ps_run_options){.struct_bytes = sizeof(*options)};
    }
}

ps_feed ps_feed_of(ps_value placeholder, ps_dtype dtype, ps_shape shape, const void *data, size_t bytes)
{
    return (ps_feed){.placeholder = placeholder, .dtype = dtype, .shape = shape, .data = data, .bytes = bytes};
}
