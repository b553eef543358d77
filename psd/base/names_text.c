/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a text for people from many names, "w, b and 3 more": as many names as fit, and the number of the others. */

#include "items.h"

#include "common/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MORE_BYTES = 24 /* room for " and 4294967295 more" */ };

void psd_names_add(struct psd_names *names, const char *format, ...)
{
    char one[PSI_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    PSI_IGNORE(vsnprintf(one, sizeof(one), format, ap)); /* names are shorter */
    va_end(ap);
    size_t room = names->size - MORE_BYTES;
    if (names->used == 0 && strlen(one) > room) {
        char cut[sizeof(one)];
        PSI_IGNORE(snprintf(one, sizeof(one), "%s", psi_utf8_shorten(one, cut, room + 1))); /* fits */
    }
    if (names->left_out > 0 || names->used + (names->used > 0 ? 2 : 0) + strlen(one) > room) {
        names->left_out++;
        return;
    }
    names->used +=
        (size_t)snprintf(names->text + names->used, names->size - names->used, "%s%s", names->used == 0 ? "" : ", ", one);
}

const char *psd_names_text(struct psd_names *names)
{
    if (names->left_out > 0) {
        PSI_IGNORE(snprintf(names->text + names->used, names->size - names->used, " and %u more",
                            names->left_out)); /* fits: psd_names_add() leaves MORE_BYTES for it */
        names->left_out = 0;
    }
    return names->used == 0 ? "" : names->text;
}

bool psd_lists_missing(const struct psd_task *t, struct psd_names *names)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        /* while p waits for its checkpoint, p does not know its variables */
        if (p->own_job && (p->waits || !p->heard)) {
            psd_names_add(names, "/job:%s/task:%u", p->job, p->task);
        }
    }
    return names->used > 0;
}
