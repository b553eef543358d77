/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LOADING: tasks with a duty read and verify their parts of a checkpoint.
 *
 * Happy path: TASK_LOAD to the tasks with a duty -> each answers with the containers that it has loaded ->
 * psd_loader_place(). Failure: a part is not as it was written: the checkpoint is bad, and the next older one is
 * chosen. If only a task that does not wait cannot read its part, the tasks that wait load alone first (psd_loader.spared). No
 * memory, or a busy disk: another try a second later.
 */
#include "saver.h"
#include "loader.h"

#include "common/mem.h"

/* The reason may pass by itself: no memory, or a disk that is busy. */
static bool passes(ps_status code)
{
    return code == PS_RESOURCE_EXHAUSTED || code == PS_UNAVAILABLE;
}

/* p has answered TASK_LOAD. When all tasks with a duty have, the load goes on, or fails. */
static void load_over(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_loader *s = t->loader;
    s->peers[p->index].duty = PSD_DUTY_DONE;
    if (!psd_loader_all_done(t)) {
        return;
    }
    if (s->why.code == PS_OK) {
        psd_loader_place(t);
    } else if (psd_loader_is_asked(s) && s->why.code != PS_UNAVAILABLE) {
        psd_loader_ask_failed(t, &s->why);
    } else if (!passes(s->why.code)) {
        psd_loader_end(t, PSD_LOADER_DUE); /* choose the next older checkpoint */
    } else {
        psd_loader_again_later(t);
        t->delayed = s->why.text;
    }
}

/* p cannot load its part: note the checkpoint as bad or spared, unless the reason may pass. */
static void load_failed(struct psd_task *t, const struct psd_peer *p, const struct psi_err *err)
{
    struct psd_loader *s = t->loader;
    struct psd_checkpoint *c = psd_saver_known(t, s->number);
    char name[PSI_TASK_NAME_MAX];
    psd_log(t, passes(err->code) ? PSI_LOG_WARN : PSI_LOG_ERROR, "checkpoint_unusable", PSI_KV("checkpoint", s->number),
            PSI_KV("peer", psi_task_name_format(name, sizeof(name), p->job, p->task)), PSI_KV("st", ps_status_name(err->code)),
            PSI_KV("msg", err->text));
    if (s->why.code == PS_OK || (passes(s->why.code) && !passes(err->code))) {
        s->why = *err;
    }
    if (!passes(err->code) && s->reason == PSD_LOAD_TOGETHER && !p->waits) {
        s->spared = s->number;
    } else if (!passes(err->code) && !psd_loader_is_asked(s)) { /* a restore that fails changes nothing */
        psd_saver_spoil(c, err);
    }
    load_over(t, p);
}

static void load_answered(struct psd_task *t, const struct psd_peer *p, const struct psd_request *r, const struct psi_err *err)
{
    struct psd_containers *of = &t->loader->peers[p->index].loaded;
    const uint8_t *at = r->body;
    size_t n = r->body_bytes;
    struct psi_err why;
    bool end = false;
    ps_status st = PS_OK;
    while (err == NULL && st == PS_OK && !end) {
        ps_v1_StartItem item;
        char container[PS_CONTAINER_BYTES_MAX + 1];
        st = psi_list_next(&at, &n, &ps_v1_StartItem_msg, &item, &end, &why);
        if (st == PS_OK && !end) {
            st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, &why);
            st = st == PS_OK ? psd_session_refuse(container, "checkpoints", &why) : st;
            st = st == PS_OK ? psd_containers_put(t, of, container, item.waits, &why) : st;
        }
    }
    if (err != NULL || st != PS_OK) {
        load_failed(t, p, err != NULL ? err : &why);
    } else if ((r->header.flags & PS_FLAG_MORE) == 0) {
        load_over(t, p);
    }
}

void psd_loader_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                         const struct psi_err *err)
{
    struct psd_loader *s = t->loader;
    if (r == NULL || a->number != s->start) {
        return; /* the connection is gone, which psd_loader_lost() handles; or the answer is to a load that is over */
    }
    if (a->op == PS_OP_TASK_LOAD && s->phase == PSD_LOADER_LOADING) {
        load_answered(t, p, r, err);
    } else if (a->op == PS_OP_TASK_PLACE) {
        psd_loader_place_answered(t, p, err);
    }
}

/* Content of a TASK_LOAD: p's own part, and the parts of other tasks that p reads. */
struct loading {
    const ps_v1_StartItem *what, *parts;
    size_t count;
};

void psd_loader_encode_load(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct loading *loading = o->what;
    (void)t, (void)p;
    psd_list_add(l, &ps_v1_StartItem_msg, loading->what);
    for (size_t i = 0; i < loading->count; i++) { /* fits one frame: PS_TASKS_MAX short items at most */
        psd_list_add(l, &ps_v1_StartItem_msg, &loading->parts[i]);
    }
}

void psd_loader_load(struct psd_task *t, const struct psd_checkpoint *c, bool spreads)
{
    struct psd_loader *s = t->loader;
    ps_v1_StartItem what = ps_v1_StartItem_init_zero, *parts = NULL;
    size_t count = 0;
    bool memory = true;
    s->moved = psd_loader_moved_most(t);
    s->from = spreads ? PSD_LOADER_FROM_ALL : psd_loader_has_others(t, c) ? PSD_LOADER_FROM_OTHERS : PSD_LOADER_FROM_OWN;
    s->begun_ms = t->now_ms;
    psd_loader_move(t, PSD_LOADER_LOADING);
    s->why.code = PS_OK; /* the text stays: it may say why the checkpoint before was spared */
    s->number = what.number = c->what.number;
    s->start = what.start = psd_random(t);
    what.asked = psd_loader_is_asked(s);
    psd_log(t, PSI_LOG_INFO, spreads ? "checkpoint_spreads" : "checkpoint_loads", PSI_KV("checkpoint", s->number),
            PSI_KV("step", c->what.step == 0 ? 0 : c->what.step - 1));
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (psd_loader_is_adopting(s) && p->own_job) {
            s->peers[i].duty = PSD_DUTY_OPEN;
        }
        p->share = 0;
        if (!psd_loader_takes_part(&s->peers[i])) {
            continue;
        }
        memory = memory && psd_loader_parts_for(t, c, p, &what, &parts, &count);
        if (what.state_bytes == 0 && count == 0 && !t->saver->peers[i].has_disk) {
            s->peers[i].duty = PSD_DUTY_NONE; /* a task without a disk has no part to load */
        } else if (memory) {
            const struct loading loading = {.what = &what, .parts = parts, .count = count};
            (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_LOAD, .number = s->start, .what = &loading});
        }
        psi_free(parts);
        parts = NULL;
    }
    if (!memory) {
        psd_loader_again_later(t);
    }
}
