/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing plans (ps_plan.h).
 *
 * Happy path: ps_plan_new() makes a plan, build.c and rows.c add rows, ps_plan_run() (execute.c) runs it any number of times, and
 * ps_plan_free() frees it. A plan that the program does not free is freed with its session, by plans_free(). Failure modes:
 * without memory or a session ps_plan_new() returns NULL, and ps_last_error() says why. */
#include "keep.h"

#include "common/mem.h"

void psi_plan_gifts_free(ps_plan *p)
{
    for (size_t i = 0; i < p->gift_count; i++) {
        psi_free(p->gifts[i]);
    }
    psi_free(p->gifts);
    p->gifts = NULL;
    p->gift_count = 0;
}

static void plan_destroy(ps_plan *p)
{
    psi_plan_gifts_free(p);
    psi_plan_keeps_free(p);
    for (uint32_t i = 0; i < p->row_count; i++) {
        psi_plan_row_free(p->rows[i]);
    }
    psi_free(p->rows);
    psi_free(p->next_name);
    psi_map_fini(&p->names);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    psi_free(p);
}

void ps_plan_free(ps_plan *p)
{
    struct psi_err err = {0};
    if (p == NULL || !psi_api_here(p->session)) {
        return; /* a child process after fork() frees nothing, as in ps_session_close() */
    }
    if (psi_plan_run_begin(p, true, &err) != PS_OK) {
        return; /* in a callback, which cannot wait for a run: the plan stays until its session is freed */
    }
    (void)pthread_mutex_lock(&p->lock);
    while (p->calling > 0) {
        (void)pthread_cond_wait(&p->changed, &p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_mutex_lock(&p->session->lock);
    psi_list_remove(&p->link);
    (void)pthread_mutex_unlock(&p->session->lock);
    psi_plan_keeps_forget(p, true);
    plan_destroy(p);
}

/* Free the plans that the program has not freed. Called when session s is freed, and no thread uses its plans. */
static void plans_free(ps_session *s)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&s->plans)) != NULL) {
        plan_destroy(PSI_CONTAINER_OF(it, ps_plan, link));
    }
}

/* Call before the session's client is replaced, without requests in flight: clears all pointers from plans to its records. */
static void plans_forget(ps_session *s)
{
    struct psi_list *it = NULL, *k = NULL;
    (void)pthread_mutex_lock(&s->lock);
    s->target = PSI_TARGET_UNKNOWN; /* ask again: another program may answer at the target's address now */
    PSI_LIST_FOREACH(it, &s->plans) {
        PSI_LIST_FOREACH(k, &PSI_CONTAINER_OF(it, ps_plan, link)->keeps) {
            PSI_CONTAINER_OF(k, struct psi_plan_keep, link)->variable.var = NULL;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
}

ps_plan *ps_plan_new(ps_session *s)
{
    /* a fixed hash seed is safe, because the names come from the program itself */
    static const uint64_t SEED[2] = {0x706c616e, 0x726f7773};
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    ps_plan *p = st == PS_OK ? psi_calloc(1, sizeof(*p)) : NULL;
    if (st == PS_OK && p == NULL) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (st != PS_OK) {
        psi_err_prefix(&err, "ps_plan_new");
        PSI_IGNORE(psi_api_last_error_set(&err)); /* NULL tells the caller */
        return NULL;
    }
    p->session = s;
    psi_list_init(&p->link);
    psi_list_init(&p->keeps);
    psi_map_init(&p->names, SEED);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->changed, NULL);
    (void)pthread_mutex_lock(&s->lock);
    p->number = s->plan_count++;
    s->plans_free = plans_free;
    s->plans_forget = plans_forget;
    psi_list_push_back(&s->plans, &p->link);
    (void)pthread_mutex_unlock(&s->lock);
    return p;
}
