/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU plugin's table. Work is done in the call, in host memory: streams and events have no state. Failure: no memory. */
#include "cpu.h"

#include "common/mem.h"

#include <string.h>

enum { ALIGN_BYTES = 256 };

static char nothing; /* every handle points to it */

static uint32_t device_count(struct psi_err *why)
{
    (void)why;
    return 1;
}

static ps_status device_open(uint32_t index, struct psk_device **out, struct psi_err *err)
{
    (void)index;
    (void)err;
    psk_cpu_blas_open();
    *out = (struct psk_device *)&nothing;
    return PS_OK;
}

static void device_close(struct psk_device *device)
{
    (void)device;
    psk_cpu_threads_end();
}

static void properties(struct psk_device *device, struct psk_properties *out)
{
    (void)device;
    memset(out, 0, sizeof(*out));
    out->host_memory = true;
    psk_cpu_blas_describe(out->name, sizeof(out->name), out->warning, sizeof(out->warning));
}

static void set_threads(struct psk_device *device, uint32_t threads)
{
    (void)device;
    psk_cpu_threads_set(threads);
}

static ps_status pinned_new(struct psk_device *device, size_t bytes, void **out, struct psi_err *err)
{
    (void)device;
    void *memory = bytes <= SIZE_MAX - ALIGN_BYTES
                       ? psi_aligned_malloc(ALIGN_BYTES, (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES)
                       : NULL;
    if (memory == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cpu: no memory for %zu bytes", bytes);
    }
    *out = memory;
    return PS_OK;
}

static void pinned_free(struct psk_device *device, void *memory)
{
    (void)device;
    psi_free(memory);
}

static ps_status buffer_new(struct psk_device *device, size_t bytes, psk_address *out, struct psi_err *err)
{
    void *memory = NULL;
    const ps_status st = pinned_new(device, bytes, &memory, err);
    if (st == PS_OK) {
        *out = (psk_address)(uintptr_t)memory;
    }
    return st;
}

static void buffer_free(struct psk_device *device, psk_address address)
{
    pinned_free(device, (void *)(uintptr_t)address);
}

static ps_status stream_new(struct psk_device *device, struct psk_stream **out, struct psi_err *err)
{
    (void)device;
    (void)err;
    *out = (struct psk_stream *)&nothing;
    return PS_OK;
}

static void stream_free(struct psk_device *device, struct psk_stream *stream)
{
    (void)device;
    (void)stream;
}

static ps_status event_new(struct psk_device *device, struct psk_event **out, struct psi_err *err)
{
    (void)device;
    (void)err;
    *out = (struct psk_event *)&nothing;
    return PS_OK;
}

static void event_free(struct psk_device *device, struct psk_event *event)
{
    (void)device;
    (void)event;
}

static ps_status copy_in(struct psk_device *device, struct psk_stream *stream, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err)
{
    (void)device;
    (void)stream;
    (void)err;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return PS_OK;
}

static ps_status copy_out(struct psk_device *device, struct psk_stream *stream, void *to, psk_address from, size_t bytes,
                          struct psi_err *err)
{
    (void)device;
    (void)stream;
    (void)err;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return PS_OK;
}

static ps_status stream_event(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err)
{
    (void)device;
    (void)stream;
    (void)event;
    (void)err;
    return PS_OK;
}

static ps_status event_wait(struct psk_device *device, struct psk_event *event, struct psi_err *err)
{
    (void)device;
    (void)event;
    (void)err;
    return PS_OK;
}

static ps_status stream_call(struct psk_device *device, struct psk_stream *stream, psk_done_fn done, void *ctx,
                             struct psi_err *err)
{
    (void)device;
    (void)stream;
    (void)err;
    done(ctx, NULL);
    return PS_OK;
}

static const struct psk_plugin cpu_plugin = {
    .abi = PSK_ABI,
    .struct_bytes = sizeof(struct psk_plugin),
    .name = "cpu",
    .type = "CPU",
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .properties = properties,
    .set_threads = set_threads,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .pinned_new = pinned_new,
    .pinned_free = pinned_free,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .event_record = stream_event,
    .stream_wait = stream_event,
    .event_wait = event_wait,
    .stream_call = stream_call,
    .run = psk_cpu_run,
};

const struct psk_plugin *psk_open(uint32_t abi)
{
    (void)abi; /* the host compares it */
    return &cpu_plugin;
}
