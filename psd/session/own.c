/* SPDX-License-Identifier: Apache-2.0 */
/* The container that a session owns: HELLO names it and brings its key. When no session owns it any more, the directory
 * resets it (psd/directory/own.c). Failure: without memory the session has no container, and what it creates there is refused.
 *
 * A task also notes which sessions have shown the key of a container, by an OPEN of something in it. Anybody can guess a handle,
 * so only these sessions may use handles in the container. */
#include "session.h"

#include "psd/store/shown.h"

#include <string.h>

void psd_own_claim(struct psd_task *t, struct psd_record *record, const struct psd_own *own)
{
    psd_own_leave(t, record);
    if (!t->is_directory || own->container[0] == '\0') {
        return;
    }
    struct psd_record *before = psi_map_find(&t->owners, own, sizeof(*own));
    if (before != NULL) { /* equal container and key: the program has reconnected, with another session id */
        psd_own_leave(t, before);
    }
    record->own = *own;
    if (psi_map_put(&t->owners, &record->own, sizeof(record->own), record, NULL, NULL) != PS_OK) {
        memset(&record->own, 0, sizeof(record->own)); /* no memory: the session counts as having no container */
    }
}

void psd_own_leave(struct psd_task *t, struct psd_record *record)
{
    if (record->own.container[0] != '\0') {
        PSI_IGNORE(psi_map_remove(&t->owners, &record->own, sizeof(record->own))); /* always present */
        memset(&record->own, 0, sizeof(record->own));
    }
}

ps_status psd_own_show(struct psd_task *t, struct psd_conn *c, const struct psd_container *in, struct psi_err *err)
{
    if (!in->of_session || psd_shown_by(in, c->record)) {
        return PS_OK;
    }
    return psd_room(t, PSD_ROOM_MEMORY, PSD_SHOWN_BYTES) && psd_shown_add(&t->store, in, c->record)
               ? PS_OK
               : psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s: no memory to note who uses container '%s'",
                             t->name, in->name);
}

ps_status psd_own_handle_denied(const struct psd_variable *v, struct psi_err *err)
{
    return psi_fail(err, PS_PERMISSION_DENIED,
                    "handle %u is of container '%s', which belongs to a session: only who has shown its key, by OPEN, may use it",
                    v->handle, v->container->name);
}
