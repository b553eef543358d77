/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IP addresses of the hosts in the cluster spec, whose handshakes have room beside those of strangers. Host names are looked up
 * on a thread of their own, because a look-up blocks for as long as the system's resolver takes. The task's thread, except what
 * is marked.
 */
#ifndef PSD_HOSTS_H
#define PSD_HOSTS_H

#include "common/cluster.h"
#include "common/net/addr.h"

struct psd_hosts;

/** Pause between two look-ups of all names. */
enum { PSD_HOSTS_LOOK_MS = 30 * 1000 };

/** psi_resolve(), or a test's. Called on the look-up thread. */
typedef ps_status (*psd_hosts_resolve_fn)(const struct psi_address *a, struct psi_sockaddr out[PSI_RESOLVE_MAX],
                                          size_t *out_count, struct psi_err *err);

/** Note the hosts of a cluster; nothing is looked up yet. *out: owned by the caller, psd_hosts_free(). RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_hosts_new(const struct psi_cluster *c, psd_hosts_resolve_fn resolve, struct psd_hosts **out,
                                 struct psi_err *err);
/** Does not wait for a look-up that runs. NULL is fine. */
void psd_hosts_free(struct psd_hosts *h);
/** Look all names up, unless there are none, a look-up runs, or the last one began less than PSD_HOSTS_LOOK_MS ago. Returns at
 * once. now_ms: a monotonic clock. */
void psd_hosts_look_up(struct psd_hosts *h, uint64_t now_ms);
/** True if a peer's address, "127.0.0.1:51234", is of a host of the cluster. If not, names are looked up for later questions. */
bool psd_hosts_have(struct psd_hosts *h, const char *peer, uint64_t now_ms);

#endif
