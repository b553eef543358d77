/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses of the hosts in the cluster spec. Slots for handshakes are kept free for these addresses, so that strangers
 * cannot use up all slots. Names are looked up on a separate thread, because a look-up blocks. Functions: task's thread. */
#ifndef PSD_HOSTS_H
#define PSD_HOSTS_H

#include "common/cluster.h"
#include "common/net/addr.h"

struct psd_hosts;

/** Shortest time between two look-ups of all names. */
enum { PSD_HOSTS_LOOK_MS = 30 * 1000 };

/** psi_resolve(), or a test's function in its place. Called on the look-up thread. */
typedef ps_status (*psd_hosts_resolve_fn)(const struct psi_address *a, struct psi_sockaddr out[PSI_RESOLVE_MAX],
                                          size_t *out_count, struct psi_err *err);

/** Make an object for the hosts of a cluster; nothing is looked up yet. *out: free with psd_hosts_free(). RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psd_hosts_new(const struct psi_cluster *c, psd_hosts_resolve_fn resolve, struct psd_hosts **out,
                                 struct psi_err *err);
/** Free h, which may be NULL. Does not wait for a look-up that runs; its thread then frees h when the look-up ends. */
void psd_hosts_free(struct psd_hosts *h);
/** Look all names up, unless there are none, a look-up runs, or the last one is recent (PSD_HOSTS_LOOK_MS). Returns at once. */
void psd_hosts_look_up(struct psd_hosts *h, uint64_t now_ms);
/** True if a peer's address, "127.0.0.1:51234", is of a host of the cluster. If not, names are looked up for later calls. */
bool psd_hosts_have(struct psd_hosts *h, const char *peer, uint64_t now_ms);

#endif
