/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and frees links: a link is one connection, with its reader and its queue of frames to send. */
#include "link.h"

#include "mem.h"

struct psi_link *psi_link_new(void *shell, uint64_t name, uint32_t body_limit)
{
    struct psi_link *link = psi_calloc(1, sizeof(*link));
    if (link == NULL) {
        return NULL;
    }
    psi_reader_init(&link->in, body_limit);
    psi_outq_init(&link->out);
    psi_list_init(&link->dirty);
    link->shell = shell;
    link->name = name;
    return link;
}

void psi_link_free(struct psi_link *link)
{
    if (link == NULL) {
        return;
    }
    psi_outq_fini(&link->out);
    psi_free(link);
}
