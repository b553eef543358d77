/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA plugin's table and its one exported symbol: devices, memory, copies, streams and events are CUDA's own.
 *
 * stream_call: CUDA makes no callbacks after a failure, so each stream has a thread that waits for an event and then calls. The
 * first call starts it; records and events of calls are reused. Waiting threads sleep (cudaEventBlockingSync), because the CPU is
 * needed for the network. Failure modes: no driver, no such device, no memory; a label that is no class, which the kernel writes
 * into device->fault; CUDA's errors, which may come from anything submitted before, so the text names the operation submitted
 * last. After the first such failure every call returns it. If CUDA's context is lost, device_close resets it. */
#include "cuda.h"

#include "common/mem.h"
#include "worker/nn/kernels/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifndef PSK_CUDA_NAME
#define PSK_CUDA_NAME "cuda"
#endif

enum { CAPABILITY_MIN = 75 }; /* oldest architecture that kernels.cu is compiled for (Makefile) */

struct psk_event {
    cudaEvent_t event;
    const char *last; /* atomic: name of the operation that was submitted last before the event, for errors */
};

struct call {
    struct psi_list link;
    struct psk_event event;
    psk_done_fn done;
    void *ctx;
};

static void remember(struct psk_device *device, const struct psi_err *error, bool context_lost)
{
    (void)pthread_mutex_lock(&device->lock);
    device->context_lost = device->context_lost || context_lost;
    if (device->error.code == PS_OK) {
        device->error = *error;
    }
    (void)pthread_mutex_unlock(&device->lock);
}

static ps_status remembered(struct psk_device *device, struct psi_err *err)
{
    (void)pthread_mutex_lock(&device->lock);
    const ps_status st = device->error.code;
    if (st != PS_OK && err != NULL) {
        *err = device->error;
    }
    (void)pthread_mutex_unlock(&device->lock);
    return st;
}

ps_status psk_cuda_check(struct psk_device *device, cudaError_t error, const char *who, const char *what, struct psi_err *err)
{
    struct psi_err why = {0};
    if (error == cudaSuccess) {
        return PS_OK;
    }
    PSI_IGNORE(cudaGetLastError()); /* clears this thread's error, which a later cudaGetLastError() would return again */
    if (error == cudaErrorMemoryAllocation) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: %s: %s: %s (%d)", who, what, cudaGetErrorString(error), (int)error);
    }
    const ps_status st = psi_fail(&why, PS_INTERNAL, "cuda: %s: %s: %s (%d)", who, what, cudaGetErrorString(error), (int)error);
    remember(device, &why, true);
    if (err != NULL) {
        *err = why;
    }
    return st;
}

ps_status psk_cuda_check_blas(struct psk_device *device, cublasStatus_t error, const char *who, struct psi_err *err)
{
    struct psi_err why = {0};
    if (error == CUBLAS_STATUS_SUCCESS) {
        return PS_OK;
    }
    const bool memory = error == CUBLAS_STATUS_ALLOC_FAILED;
    const ps_status st = psi_fail(&why, memory ? PS_RESOURCE_EXHAUSTED : PS_INTERNAL, "cuda: %s: cuBLAS: %s (%d)", who,
                                  cublasGetStatusString(error), (int)error);
    if (!memory) {
        remember(device, &why, true);
    }
    if (err != NULL) {
        *err = why;
    }
    return st;
}

ps_status psk_cuda_enter(struct psk_device *device, struct psi_err *err)
{
    const ps_status st = remembered(device, err);
    const cudaError_t error = cudaSetDevice((int)device->index);
    return st == PS_OK ? psk_cuda_check(device, error, "device", "cudaSetDevice", err) : st;
}

/* If a kernel has found a label out of range, make that the device's error, unless the device has an earlier one. */
static void take_fault(struct psk_device *device)
{
    struct psi_err why = {0};
    const struct psk_cuda_fault *f = device->fault;
    if (__atomic_load_n(&f->set, __ATOMIC_ACQUIRE) != 0) {
        PSI_IGNORE(psi_fail(&why, PS_INVALID_ARGUMENT,
                            "%s: label %" PRId32 " of row %" PRId64 " is not a class, allowed is 0 to %" PRId64,
                            psk_rows[f->op].name, f->label, f->row, f->classes - 1));
        remember(device, &why, false);
    }
}

static ps_status wait(struct psk_device *device, struct psk_event *event, struct psi_err *err)
{
    const char *last = __atomic_load_n(&event->last, __ATOMIC_RELAXED);
    ps_status st = psk_cuda_enter(device, err);
    if (st != PS_OK) { /* wait even after a failure: submitted work may still use the memory */
        PSI_IGNORE(cudaEventSynchronize(event->event));
        return st;
    }
    const cudaError_t error = cudaEventSynchronize(event->event);
    st = psk_cuda_check(device, error, last != NULL ? last : "a copy", "it, or work before it, failed", err);
    take_fault(device);
    return st == PS_OK ? remembered(device, err) : st;
}

static uint32_t device_count(struct psi_err *why)
{
    int count = 0;
    int driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        return (uint32_t)count;
    }
    PSI_IGNORE(cudaGetLastError());
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        PSI_IGNORE(psi_fail(why, PS_NOT_FOUND, "no driver: %s (%d)", cudaGetErrorString(error), (int)error));
    } else if (error == cudaErrorInsufficientDriver) {
        PSI_IGNORE(psi_fail(why, PS_NOT_FOUND, "the driver is for CUDA %d.%d, needed is %d.%d: %s (%d)", driver / 1000,
                            driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, cudaGetErrorString(error),
                            (int)error));
    } else {
        PSI_IGNORE(psi_fail(why, PS_NOT_FOUND, "the driver has no device: %s (%d)", cudaGetErrorString(error), (int)error));
    }
    return 0;
}

static void device_close(struct psk_device *device)
{
    PSI_IGNORE(cudaSetDevice((int)device->index));
    if (device->fault != NULL) {
        PSI_IGNORE(cudaFreeHost(device->fault));
    }
    psk_cuda_pinned_fini(&device->pinned);
    if (device->context_lost) {
        PSI_IGNORE(cudaDeviceReset()); /* resets the device for the whole process, whose values on it are lost already */
    }
    PSI_IGNORE(cudaGetLastError());
    (void)pthread_mutex_destroy(&device->lock);
    psi_free(device);
}

static ps_status device_prepare(struct psk_device *device, struct psi_err *err)
{
    int major = 0;
    int minor = 0;
    int processors = 0;
    void *fault = NULL;
    const int index = (int)device->index;
    ps_status st = psk_cuda_enter(device, err);
    cudaError_t error = st == PS_OK ? cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) : cudaSuccess;
    error = error == cudaSuccess ? cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) : error;
    error = error == cudaSuccess ? cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, index) : error;
    error =
        error == cudaSuccess ? cudaHostAlloc(&fault, sizeof(*device->fault), cudaHostAllocMapped | cudaHostAllocPortable) : error;
    st = st == PS_OK ? psk_cuda_check(device, error, "device", "opening it", err) : st;
    if (st != PS_OK) {
        return st;
    }
    device->fault = memset(fault, 0, sizeof(*device->fault));
    device->processors = (uint32_t)processors;
    if (10 * major + minor < CAPABILITY_MIN) {
        return psi_fail(err, PS_UNIMPLEMENTED, "cuda: the device has compute capability %d.%d, needed is %d.%d", major, minor,
                        CAPABILITY_MIN / 10, CAPABILITY_MIN % 10);
    }
    return PS_OK;
}

static ps_status device_open(uint32_t index, struct psk_device **out, struct psi_err *err)
{
    struct psk_device *device = psi_calloc(1, sizeof(*device));
    if (device == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: device: record");
    }
    device->index = index;
    (void)pthread_mutex_init(&device->lock, NULL);
    psk_cuda_pinned_init(&device->pinned);
    const ps_status st = device_prepare(device, err);
    if (st != PS_OK) {
        device_close(device);
        return st;
    }
    *out = device;
    return PS_OK;
}

static void properties(struct psk_device *device, struct psk_properties *out)
{
    struct cudaDeviceProp card;
    memset(out, 0, sizeof(*out));
    out->index = device->index;
    if (cudaGetDeviceProperties(&card, (int)device->index) == cudaSuccess) {
        (void)snprintf(out->name, sizeof(out->name), "%.90s", card.name);
        out->memory_bytes = card.totalGlobalMem;
    }
}

static ps_status buffer_new(struct psk_device *device, size_t bytes, psk_address *out, struct psi_err *err)
{
    void *memory = NULL;
    ps_status st = psk_cuda_enter(device, err);
    st = st == PS_OK ? psk_cuda_check(device, cudaMalloc(&memory, bytes), "buffer", "cudaMalloc", err) : st;
    if (st == PS_RESOURCE_EXHAUSTED) {
        psi_err_prefix(err, "%zu bytes", bytes);
    } else if (st == PS_OK) {
        *out = (psk_address)(uintptr_t)memory;
    }
    return st;
}

static void buffer_free(struct psk_device *device, psk_address address)
{
    PSI_IGNORE(cudaSetDevice((int)device->index));
    PSI_IGNORE(cudaFree((void *)(uintptr_t)address)); /* no check: calls that wait report failures of the device */
}

static ps_status event_init(struct psk_device *device, struct psk_event *event, struct psi_err *err)
{
    const ps_status st = psk_cuda_enter(device, err);
    return st == PS_OK
               ? psk_cuda_check(device, cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming | cudaEventBlockingSync),
                                "event", "cudaEventCreateWithFlags", err)
               : st;
}

static void *calls_run(void *arg)
{
    struct psk_stream *stream = arg;
    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->ending) {
        if (psi_list_empty(&stream->calls)) {
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        struct call *call = PSI_CONTAINER_OF(psi_list_pop_front(&stream->calls), struct call, link);
        (void)pthread_mutex_unlock(&stream->lock);
        struct psi_err error = {0};
        const ps_status st = wait(stream->device, &call->event, &error);
        const struct call made = *call;
        (void)pthread_mutex_lock(&stream->lock);
        psi_list_push_back(&stream->idle, &call->link);
        (void)pthread_mutex_unlock(&stream->lock);
        made.done(made.ctx, st == PS_OK ? NULL : &error);
        (void)pthread_mutex_lock(&stream->lock);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static void call_free(struct call *call)
{
    PSI_IGNORE(cudaEventDestroy(call->event.event));
    psi_free(call);
}

static ps_status call_new(struct psk_stream *stream, struct call **out, struct psi_err *err)
{
    struct call *call = psi_calloc(1, sizeof(*call));
    if (call == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: stream_call: record");
    }
    const ps_status st = event_init(stream->device, &call->event, err);
    if (st != PS_OK) {
        psi_free(call);
        return st;
    }
    *out = call;
    return PS_OK;
}

static ps_status record(struct psk_stream *stream, struct psk_event *event, struct psi_err *err)
{
    const char *last = __atomic_load_n(&stream->last, __ATOMIC_RELAXED);
    __atomic_store_n(&event->last, last, __ATOMIC_RELAXED);
    return psk_cuda_check(stream->device, cudaEventRecord(event->event, stream->stream), last != NULL ? last : "a copy",
                          "cudaEventRecord", err);
}

/* The caller holds stream->lock. */
static ps_status call_add(struct psk_stream *stream, psk_done_fn done, void *ctx, struct psi_err *err)
{
    struct call *call = NULL;
    ps_status st = PS_OK;
    if (!stream->has_thread) {
        stream->has_thread = pthread_create(&stream->thread, NULL, calls_run, stream) == 0;
    }
    if (!stream->has_thread) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: stream_call: no thread");
    }
    if (!psi_list_empty(&stream->idle)) {
        call = PSI_CONTAINER_OF(psi_list_pop_front(&stream->idle), struct call, link);
    } else {
        st = call_new(stream, &call, err);
    }
    st = st == PS_OK ? record(stream, &call->event, err) : st;
    if (st == PS_OK) {
        call->done = done;
        call->ctx = ctx;
        psi_list_push_back(&stream->calls, &call->link);
        (void)pthread_cond_signal(&stream->changed);
    } else if (call != NULL) {
        psi_list_push_back(&stream->idle, &call->link);
    }
    return st;
}

static ps_status stream_call(struct psk_device *device, struct psk_stream *stream, psk_done_fn done, void *ctx,
                             struct psi_err *err)
{
    ps_status st = psk_cuda_enter(device, err);
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&stream->lock);
        st = call_add(stream, done, ctx, err);
        (void)pthread_mutex_unlock(&stream->lock);
    }
    return st;
}

static ps_status stream_new(struct psk_device *device, struct psk_stream **out, struct psi_err *err)
{
    struct psk_stream *stream = psi_calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: stream: record");
    }
    ps_status st = psk_cuda_enter(device, err);
    if (st == PS_OK) {
        st = psk_cuda_check(device, cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking), "stream",
                            "cudaStreamCreateWithFlags", err);
    }
    if (st != PS_OK) {
        psi_free(stream);
        return st;
    }
    stream->device = device;
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    psi_list_init(&stream->calls);
    psi_list_init(&stream->idle);
    *out = stream;
    return PS_OK;
}

static void stream_free(struct psk_device *device, struct psk_stream *stream)
{
    PSI_IGNORE(cudaSetDevice((int)device->index));
    (void)pthread_mutex_lock(&stream->lock);
    stream->ending = true;
    (void)pthread_cond_signal(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    if (stream->has_thread) {
        (void)pthread_join(stream->thread, NULL);
    }
    while (!psi_list_empty(&stream->idle)) {
        call_free(PSI_CONTAINER_OF(psi_list_pop_front(&stream->idle), struct call, link));
    }
    psk_cuda_run_fini(stream);
    PSI_IGNORE(cudaStreamDestroy(stream->stream));
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    psi_free(stream);
}

static ps_status event_new(struct psk_device *device, struct psk_event **out, struct psi_err *err)
{
    struct psk_event *event = psi_calloc(1, sizeof(*event));
    if (event == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: event: record");
    }
    const ps_status st = event_init(device, event, err);
    if (st != PS_OK) {
        psi_free(event);
        return st;
    }
    *out = event;
    return PS_OK;
}

static void event_free(struct psk_device *device, struct psk_event *event)
{
    PSI_IGNORE(cudaSetDevice((int)device->index));
    PSI_IGNORE(cudaEventDestroy(event->event));
    psi_free(event);
}

static ps_status copy(struct psk_device *device, struct psk_stream *stream, const char *name, void *to, const void *from,
                      size_t bytes, enum cudaMemcpyKind kind, struct psi_err *err)
{
    ps_status st = psk_cuda_enter(device, err);
    st = st == PS_OK
             ? psk_cuda_check(device, cudaMemcpyAsync(to, from, bytes, kind, stream->stream), name, "cudaMemcpyAsync", err)
             : st;
    if (st == PS_OK) {
        __atomic_store_n(&stream->last, name, __ATOMIC_RELAXED);
    }
    return st;
}

static ps_status copy_in(struct psk_device *device, struct psk_stream *stream, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err)
{
    return copy(device, stream, "a copy to the device", (void *)(uintptr_t)to, from, bytes, cudaMemcpyHostToDevice, err);
}

static ps_status copy_out(struct psk_device *device, struct psk_stream *stream, void *to, psk_address from, size_t bytes,
                          struct psi_err *err)
{
    return copy(device, stream, "a copy from the device", to, (const void *)(uintptr_t)from, bytes, cudaMemcpyDeviceToHost, err);
}

static ps_status event_record(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err)
{
    const ps_status st = psk_cuda_enter(device, err);
    return st == PS_OK ? record(stream, event, err) : st;
}

static ps_status stream_wait(struct psk_device *device, struct psk_stream *stream, struct psk_event *event, struct psi_err *err)
{
    const ps_status st = psk_cuda_enter(device, err);
    return st == PS_OK ? psk_cuda_check(device, cudaStreamWaitEvent(stream->stream, event->event, 0), "stream",
                                        "cudaStreamWaitEvent", err)
                       : st;
}

static const struct psk_plugin cuda_plugin = {
    .abi = PSK_ABI,
    .struct_bytes = sizeof(struct psk_plugin),
    .name = PSK_CUDA_NAME,
    .type = "GPU",
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .properties = properties,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .pinned_new = psk_cuda_pinned_new,
    .pinned_free = psk_cuda_pinned_free,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_wait = wait,
    .stream_call = stream_call,
    .run = psk_cuda_run,
};

const struct psk_plugin *psk_open(uint32_t abi)
{
    (void)abi; /* the host compares it */
    return &cuda_plugin;
}
