/* SPDX-License-Identifier: Apache-2.0 */
/* The hook for checkpoints of a training with a checkpoint_dir, and psi_api_save(), by which all hooks ask for checkpoints. Happy
 * path: when the chief's session becomes ready, the hook logs where each ps task saves, and asks the directory for a checkpoint.
 * When the session is closed without an error, the hook asks again, unless the last checkpoint has this step. Failure modes: a ps
 * task has no directory, a disk fails, or the directory does not answer: training continues. A log line says so, unless the
 * request before ended with the same status. */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

void psi_api_save(ps_session *s, struct psi_saver *h, int64_t step, int64_t wait_ms)
{
    struct psi_err err = {0};
    uint64_t number = 0;
    const uint64_t began_ms = psi_io_now_ms();
    const struct psi_request req = {.kind = PSI_REQ_CHECKPOINT, .dst = &number};
    const ps_status st = psi_api_admin(s, &req, PSI_API_DIRECTORY, wait_ms, &err);
    if (st == PS_OK) {
        h->saved = step;
        psi_api_log(s, PS_LOG_INFO, "saver_saved", PSI_KV("checkpoint", number), PSI_KV("global_step", step),
                    PSI_KV("ms", psi_io_now_ms() - began_ms));
    } else if (st != h->said) {
        psi_api_log(s, PS_LOG_WARN, "saver_not_saved", PSI_KV("global_step", step), PSI_KV("st", ps_status_name(st)),
                    PSI_KV("msg", err.text));
    }
    h->said = st;
}

enum { DIR_BYTES = 768 }; /* bytes of a path, as for psd's setting checkpoint_dir */

struct asking {
    struct psi_saver saver;
    bool created;          /* ps_session_ready() has succeeded */
    char asked[DIR_BYTES]; /* directory that the program asked for, for the log */
};

struct place {
    char dir[DIR_BYTES];
    bool known; /* the task has reported its checkpoint_dir, which may be "" */
};

static void on_setting(void *ctx, const ps_config_info *info)
{
    struct place *p = ctx;
    if (strcmp(info->name, "checkpoint_dir") == 0) {
        (void)snprintf(p->dir, sizeof(p->dir), "%s", info->value);
        p->known = true;
    }
}

/* Log the directory in which each ps task saves: its own setting, which may differ from the path that the program has named. */
static void say_places(const struct asking *h, ps_session *s)
{
    struct psi_err err = {0};
    const uint32_t tasks = psi_api_know_cluster(s, 0, &err) == PS_OK ? s->task_count : 0;
    for (uint32_t i = 0; i < tasks; i++) {
        struct place p = {.known = false};
        const char *task = s->tasks[i].name;
        if (!s->tasks[i].keeps || ps_task_config(s, (int)i, 0, on_setting, &p) != PS_OK || !p.known) {
            /* not logged: the save that follows reports a fault of the task; tasks of older releases have no such setting */
            continue;
        }
        if (p.dir[0] != '\0') {
            psi_api_log(s, PS_LOG_INFO, "checkpoint_dir", PSI_KV("task", task), PSI_KV("dir", p.dir), PSI_KV("asked", h->asked));
        } else {
            psi_api_log(s, PS_LOG_WARN, "checkpoint_dir_none", PSI_KV("task", task), PSI_KV("asked", h->asked),
                        PSI_KV("msg", "the task has no checkpoint_dir: nothing is saved until each ps task is started with one "
                                      "(psd --checkpoint_dir, psd_server_options.checkpoint_dir)"));
        }
    }
}

/* ps_hook.after_create_session. Asks for a checkpoint the first time only: after a recovery the ps tasks have kept their state,
 * or have loaded a checkpoint. */
static ps_status on_created(void *ctx, ps_session *s)
{
    struct asking *h = ctx;
    if (!h->created && ps_is_chief(s)) {
        say_places(h, s);
        psi_api_save(s, &h->saver, psi_api_values(s).global_step, 0);
    }
    h->created = true;
    return PS_OK;
}

static ps_status on_end(void *ctx, ps_session *s)
{
    struct asking *h = ctx;
    const int64_t step = psi_api_values(s).global_step;
    if (step != h->saver.saved && ps_is_chief(s)) {
        psi_api_save(s, &h->saver, step, 0);
    }
    return PS_OK;
}

void psi_api_asks_for_checkpoints(ps_session *s, const char *dir)
{
    struct psi_hook hook = {.name = "checkpoint_dir", .release = psi_free};
    if (dir == NULL || dir[0] == '\0') {
        return;
    }
    struct asking *h = psi_calloc(1, sizeof(*h));
    if (h == NULL) {
        struct psi_err err = {0};
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a hook");
        PSI_IGNORE(psi_api_refused(s, &err, "checkpoint_dir")); /* the error sticks to the session */
        return;
    }
    h->saver.saved = -1;
    (void)snprintf(h->asked, sizeof(h->asked), "%s", dir); /* a cut text is harmless */
    hook.hook = (ps_hook){.struct_bytes = sizeof(hook.hook), .ctx = h, .after_create_session = on_created, .end = on_end};
    PSI_IGNORE(psi_api_hook_add(s, &hook, "checkpoint_dir")); /* the error sticks to the session */
}
