/* SPDX-License-Identifier: Apache-2.0 */
/* A child's side of --local. Failure modes: a parent that is gone (SIGKILL comes anyway); a bad variable counts as none. */
#include "link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void link_read(struct link *out)
{
    const char *text = getenv(LINK_VARIABLE);
    struct link l = {.fd = -1};
    if (text != NULL && strcmp(text, "ps") == 0) {
        l.child = true;
    } else if (text != NULL && text[0] >= '0' && text[0] <= '9') {
        char *end = NULL;
        l.fd = (int)strtol(text, &end, 10);
        l.child = strlen(end) == 4 && end[0] == ',' && end[2] == ',' && fcntl(l.fd, F_SETFD, FD_CLOEXEC) == 0;
        l.bar = l.child && end[1] == '1';
        l.quiet = l.child && end[3] == '1';
    }
    *out = l;
}

void link_tell(const struct link *l, enum link_kind kind, const struct work *work)
{
    struct link_message m;
    memset(&m, 0, sizeof(m));
    m.kind = kind;
    if (work != NULL) {
        m.work = *work;
    }
    if (l->child && l->fd >= 0 && write(l->fd, &m, sizeof(m)) < 0) {
        return; /* the parent is gone */
    }
}
