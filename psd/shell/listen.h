/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets of one task: opens them or takes inherited ones, and checks that their addresses are allowed. */
#ifndef PSD_LISTEN_H
#define PSD_LISTEN_H

#include "common/net/addr.h"

#include <sys/stat.h>

enum { PSD_LISTEN_MAX = 16 };

struct psd_listen_socket {
    int fd; /* -1: taken by psd_listen_take() */
    struct psi_sockaddr address;
    bool made_file; /* this task made the Unix socket's file, and removes it at the end if it still has this dev and ino */
    dev_t dev;
    ino_t ino;
};
struct psd_listen {
    struct psd_listen_socket sockets[PSD_LISTEN_MAX];
    size_t count;
    bool any_port; /* the system chose a port */
    /* psd_listen_open() failed with ALREADY_EXISTS, and the port becomes free by itself (psd_port_explain()) */
    bool passes;
};

/**
 * Open the sockets of `text` ("h:p,unix:PATH", may be NULL), and of `home` unless text has a TCP address.
 * home      the task's own address.
 * any_peer  allow addresses that other machines reach: whoever connects shows a key or a certificate, or is trusted.
 * Errors: as psi_listen_open(); PERMISSION_DENIED: other machines reach the address, and any_peer is false. After an
 * error nothing is open.
 */
PSI_MUST ps_status psd_listen_open(struct psd_listen *l, const char *text, const char *home, unsigned unix_mode, bool any_peer,
                                   struct psi_err *err);
/** Take inherited sockets. Errors: those of psd_listen_open(), and a descriptor that does not listen; all are closed then. */
PSI_MUST ps_status psd_listen_adopt(struct psd_listen *l, const int *fds, size_t count, bool any_peer, struct psi_err *err);
/** True if other machines can reach one of the sockets. */
bool psd_listen_is_open(const struct psd_listen *l);
/** Returns in buf the address that others are told: the first TCP address, or without TCP the first. n > PS_ADDRESS_BYTES_MAX. */
const char *psd_listen_address(const struct psd_listen *l, char *buf, size_t n);
/** Give socket i to the caller, who closes it. Returns its descriptor. */
int psd_listen_take(struct psd_listen *l, size_t i);
/** Remove our Unix socket files, and close the sockets that were not taken. */
void psd_listen_close(struct psd_listen *l);

#endif
