/* SPDX-License-Identifier: Apache-2.0 */
/* An open device: its plugin, its streams, and the order of submissions. One stream computes, one copies in, one copies out. Each
 * submission gets the next number of its stream. The user of memory keeps the last number per stream that has touched it (struct
 * psk_marks); later work on another stream, or the host, waits for these submissions. A ring of events stands for the newest
 * numbers of a stream: a wait for an older number becomes a wait for the newer one that has taken its place in the ring. The
 * first failure of submitted work ends the device for everybody who has it open: each call returns that error. After the last
 * close the device can be opened again. Any thread. */
#ifndef PSK_DEVICE_H
#define PSK_DEVICE_H

#include "worker/nn/kernels/kernels.h"

enum { PSK_COMPUTE, PSK_IN, PSK_OUT, PSK_STREAMS };

struct psk_place;

struct psk_marks {
    uint64_t at[PSK_STREAMS]; /* 0: none */
};

/** Open a device, or take another reference to an open one.
 *
 * device   "cpu", "gpu" (= gpu:0), "gpu:1"; other words name a plugin.
 * threads  number of CPU threads that compute, in the whole process, until another call changes it; 0: unchanged (1 at first).
 * Errors   INVALID_ARGUMENT  the text in `device` cannot name a device
 *          UNIMPLEMENTED     there is no usable plugin for the device: the text says where plugins were looked for
 *          NOT_FOUND         the machine has no such device: the text says how many it has, or why it has none
 *          and those of the plugin; also the error of a failed device that another user still has open */
PSI_MUST ps_status psk_place_open(const char *device, uint32_t threads, struct psk_place **out, struct psi_err *err);
struct psk_place *psk_place_ref(struct psk_place *place);
/** Drop a reference. The last close waits for all submissions and closes the device. NULL is allowed. */
void psk_place_close(struct psk_place *place);

const char *psk_place_name(const struct psk_place *place);   /* "gpu:0" */
const char *psk_place_plugin(const struct psk_place *place); /* "cuda" */
const char *psk_place_type(const struct psk_place *place);   /* "GPU" */
uint32_t psk_place_index(const struct psk_place *place);
void psk_place_properties(const struct psk_place *place, struct psk_properties *out);
bool psk_place_has_host_memory(const struct psk_place *place);

/* Memory: see kernels.h. */
PSI_MUST ps_status psk_place_buffer(struct psk_place *place, size_t bytes, psk_address *out, struct psi_err *err);
void psk_place_buffer_free(struct psk_place *place, psk_address address);
PSI_MUST ps_status psk_place_pinned(struct psk_place *place, size_t bytes, void **out, struct psi_err *err);
void psk_place_pinned_free(struct psk_place *place, void *memory);

/** A piece of work. The device starts it only after the submissions that marks[] name are done. psk_place_submit() sets these
 * marks to the number of this submission, without waiting for the work. With host memory marks are neither read nor set. */
struct psk_work {
    int stream; /* PSK_COMPUTE ... */
    ps_status (*submit)(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream, const void *arg,
                        struct psi_err *err);
    const void *arg;
    struct psk_marks *const *marks;
    size_t mark_count;
};
PSI_MUST ps_status psk_place_submit(struct psk_place *place, const struct psk_work *work, struct psi_err *err);

struct psk_call {
    struct psk_place *place;
    psk_done_fn done;
    void *ctx;
};

/** Wait until the submissions that the marks name are done. Blocks. */
PSI_MUST ps_status psk_place_wait(struct psk_place *place, const struct psk_marks *marks, struct psi_err *err);
/** Call done when the work now in the stream has ended: on a plugin's thread, or before this returns. Keep `call` until then. */
PSI_MUST ps_status psk_place_call(struct psk_place *place, int stream, struct psk_call *call, psk_done_fn done, void *ctx,
                                  struct psi_err *err);

#endif
