/* SPDX-License-Identifier: Apache-2.0 */
/* Chief numbers at a task: each new chief (the session that may initialise a container) has a higher number. The task keeps the
 * highest number of each container, and refuses lower ones. If PS_CHIEFS_MAX containers have a number, the task forgets the
 * number of one container that has no variables, names or living chief here; if there is no such container: RESOURCE_EXHAUSTED.
 * Later numbers are also higher than a forgotten one (psd_task.chief_number). */
#include "session.h"

ps_status psd_chief_check(const struct psd_task *t, const char *container, uint64_t number, struct psi_err *err)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, container);
    if (number != 0 && psd_session_refuse(container, "chief", err) != PS_OK) {
        return err->code;
    }
    if (number > PS_CHIEF_NUMBER_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "chief number %llu: no directory has given it", (unsigned long long)number);
    }
    if (chief != NULL && number < chief->number) {
        return psi_fail_as(err, PS_ABORTED, PS_REASON_NEWER_CHIEF,
                           "%s follows a newer chief of container '%s': %s has number %llu, this session %llu", t->name,
                           container, chief->text[0] == '\0' ? "one" : chief->text, (unsigned long long)chief->number,
                           (unsigned long long)number);
    }
    return PS_OK;
}

/* Find the chief with the lowest number among those without a lease, variables and names here; NULL: none. */
static const struct psd_chief *spare(const struct psd_task *t)
{
    const struct psd_chief *best = NULL;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->chiefs, &cursor, NULL, NULL, &value)) {
        const struct psd_chief *chief = value;
        bool older = best == NULL || chief->number < best->number;
        const struct psd_container *in = older ? psd_container_find(&t->store, chief->container) : NULL;
        bool used = (in != NULL && psi_map_count(&in->variables) > 0) ||
                    (older && psd_directory_names_in(&t->names, chief->container) != NULL);
        if (older && !used && psd_chief_holder(t, chief) == NULL) {
            best = chief;
        }
    }
    return best;
}

ps_status psd_chief_set(struct psd_task *t, const char *container, struct psd_record *record, uint64_t number, const char *text,
                        struct psi_err *err)
{
    struct psd_change c = {.kind = PSD_CHANGE_CHIEF,
                           .chief = {.container = container, .record = record, .number = number, .text = text}};
    if (psi_map_count(&t->chiefs) >= PS_CHIEFS_MAX && psd_chief_find(&t->chiefs, container) == NULL) {
        c.chief.forgotten = spare(t);
    }
    ps_status st = psd_change_reserve(t, &c, err);
    if (st == PS_OK) {
        psd_commit(t, &c);
    }
    return st;
}

ps_status psd_chief_follow(struct psd_task *t, const char *container, uint64_t number, const char *text, struct psi_err *err)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, container);
    bool known =
        chief != NULL && (number < chief->number || (number == chief->number && (chief->text[0] != '\0' || text[0] == '\0')));
    return number == 0 || known ? PS_OK : psd_chief_set(t, container, NULL, number, text, err);
}
