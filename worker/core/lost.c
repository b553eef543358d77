/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about lost variables: a task that restarts without its 100,000 variables causes one line, with their number and one
 * name. Lost variables are counted by task, and logged at the end of the event, at most once a second. */
#include "client.h"

#include <stdio.h>

enum { LOST_MS = 1000 };

void psi_lost_note(struct psi_client *c, const struct psi_var *var, const char *why)
{
    struct psi_peer *peer = c->peers[var->owner];
    if (peer->lost_count++ == 0) {
        snprintf(peer->lost_var, sizeof(peer->lost_var), "%s", var->name);
        snprintf(peer->lost_why, sizeof(peer->lost_why), "%s", why);
    }
    c->lost_untold = true;
}

void psi_lost_tell(struct psi_client *c)
{
    bool untold = false;
    for (uint32_t i = 0; c->lost_untold && i < c->peer_count; i++) {
        struct psi_peer *peer = c->peers[i];
        if (peer->lost_count > 0 && peer->lost_again_ms <= c->now_ms) {
            psi_client_log(c, PSI_LOG_WARN, "variable_lost", PSI_KV("var", peer->lost_var), PSI_KV("variables", peer->lost_count),
                           PSI_KV("task", peer->name), PSI_KV("why", peer->lost_why));
            peer->lost_count = 0;
            peer->lost_again_ms = c->now_ms + LOST_MS;
        }
        untold = untold || peer->lost_count > 0;
    }
    c->lost_untold = untold;
}
