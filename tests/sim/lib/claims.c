/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are the same worker: the second chief, the last program. The directory lets one of them in at a time. Every
 * session of a program is a process of its own, with a pid of its own.
 *
 * Promised: no two processes that are the same worker are connected at the directory. A session is refused for good only where
 * another program that is the same worker lived when that session began, or later: never for the program's own session before,
 * whose end the directory may not have seen yet, nor for one that has died: however late the network delivers what such a one had
 * sent, and however late the directory's clock ticks.
 */
#include "sim.h"

#include "psd/base/base.h"
#include "worker/core/client.h"

#include <string.h>

bool sim_claim_refused(const struct sim_call *call)
{
    const struct psi_err *err = call->req.err;
    return err != NULL && err->code == PS_FAILED_PRECONDITION && err->reason == PS_REASON_CONFLICT &&
           strstr(err->text, "is not let in as this task") != NULL;
}

bool sim_claim_lost(const struct sim_program *p)
{
    const struct psi_peer *directory = p->core->known ? p->core->peers[p->core->directory] : p->core->peers[0];
    return directory->state == PSI_PEER_REFUSED && directory->refused_reason == PS_REASON_CONFLICT;
}

void sim_claim_check(struct sim *s, const struct sim_call *call)
{
    const struct sim_program *p = call->program;
    for (uint32_t i = 0; i < s->program_count; i++) {
        const struct sim_program *other = &s->program[i];
        bool lived = other != p && (other->core != NULL || (other->life > 0 && other->ended_ms >= p->begun_ms));
        if (lived && other->task == p->task && strcmp(other->job, p->job) == 0) {
            return;
        }
    }
    sim_fail(s, "client%u is refused as /job:%s/task:%u, and nobody else was that since it began: %s", p->index, p->job, p->task,
             call->req.err->text);
}

void sim_claims_look(struct sim *s, const struct sim_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    if (!t->core->is_directory) {
        return;
    }
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        uint64_t inner = 0;
        while (r->conn != NULL && strcmp(r->job, "worker") == 0 && psi_map_next(&t->core->records, &inner, NULL, NULL, &value)) {
            const struct psd_record *other = value;
            if (other != r && other->conn != NULL && other->task == r->task && strcmp(other->job, r->job) == 0) {
                sim_fail(s, "TWO WORKERS: sessions %u and %u are connected as /job:%s/task:%u", r->pid, other->pid, r->job,
                         r->task);
            }
        }
    }
}
