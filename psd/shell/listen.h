/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets of one task: which addresses, whether they are allowed, opened or inherited. */
#ifndef PSD_LISTEN_H
#define PSD_LISTEN_H

#include "common/net/addr.h"

#include <sys/stat.h>

enum { PSD_LISTEN_MAX = 16 };

struct psd_listen_socket {
    int fd; /* -1: handed on (psd_listen_take) */
    struct psi_sockaddr address;
    bool made_file; /* Unix: the file is ours to remove ... */
    dev_t dev;      /* ... while it is still this one */
    ino_t ino;
};
struct psd_listen {
    struct psd_listen_socket sockets[PSD_LISTEN_MAX];
    size_t count;
    bool any_port; /* a port was chosen by the system */
    /* psd_listen_open() has failed with ALREADY_EXISTS, and no program listens there: the port becomes free by itself */
    bool passes;
};

/**
 * Open sockets: those of `text` ("h:p,unix:PATH", may be NULL), and `home` unless text has a TCP address.
 * home  the task's own address.
 * Errors: as psi_listen_open(); PERMISSION_DENIED for an address that other machines reach, unless any_peer; nothing is open
 * then.
 */
PSI_MUST ps_status psd_listen_open(struct psd_listen *l, const char *text, const char *home, unsigned unix_mode, bool any_peer,
                                   struct psi_err *err);
/** Take inherited sockets; errors as above, also for what is no listening socket; all are closed then. */
PSI_MUST ps_status psd_listen_adopt(struct psd_listen *l, const int *fds, size_t count, bool any_peer, struct psi_err *err);
/** The address to tell others: the first TCP one, or the first. n >= PS_ADDRESS_BYTES_MAX + 1. Returns buf. */
const char *psd_listen_address(const struct psd_listen *l, char *buf, size_t n);
/** Socket i goes to the caller. */
int psd_listen_take(struct psd_listen *l, size_t i);
/** Remove the Unix socket files that are ours, and close what was not taken. */
void psd_listen_close(struct psd_listen *l);

#endif
