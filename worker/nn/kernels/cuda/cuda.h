/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the CUDA plugin share. table.c: devices, streams, events and copies; pinned.c: host memory that copies use;
 * run.c: the operations; kernels.cu: the code that runs on the device. */
#ifndef PSK_CUDA_H
#define PSK_CUDA_H

#include "common/list.h"
#include "worker/nn/kernels/kernels.h"
#include "worker/nn/kernels/cuda/launch.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

struct psk_cuda_pinned {
    pthread_mutex_t lock; /* protects the fields below */
    struct psi_list arenas;
};

struct psk_device {
    uint32_t index;
    uint32_t processors; /* number of streaming multiprocessors */
    struct psk_cuda_fault *fault;
    struct psk_cuda_pinned pinned;
    pthread_mutex_t lock; /* protects the fields below */
    struct psi_err error; /* the first failure, which every later call returns */
    bool context_lost;    /* CUDA itself has failed: the device must be reset; false: a wrong label, or no error */
};

struct psk_stream {
    struct psk_device *device;
    cudaStream_t stream;
    const char *last; /* atomic: name of the operation that was submitted last, for errors */
    /* made by the first operation that needs them: */
    cublasHandle_t blas;
    void *workspace; /* for cuBLAS: its own workspace would be shared between streams, and results would depend on their order */
    float *sums;     /* PSK_CUDA_SUMS_BYTES for partial sums */
    unsigned long long *bad_row;
    /* for stream_call: */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t changed;
    struct psi_list calls, idle;
    bool ending;
};

enum {
    PSK_CUDA_WORKSPACE_BYTES = 32 << 20, /* cuBLAS's recommendation for Hopper; for older devices it is 4 MiB */
    PSK_CUDA_SUMS_BYTES = 4 << 20,
};

/** Make a status of CUDA's error; who, what: for its text. After RESOURCE_EXHAUSTED the device works, after INTERNAL it fails. */
PSI_MUST ps_status psk_cuda_check(struct psk_device *device, cudaError_t error, const char *who, const char *what,
                                  struct psi_err *err);
PSI_MUST ps_status psk_cuda_check_blas(struct psk_device *device, cublasStatus_t error, const char *who, struct psi_err *err);
/** Make the device this thread's current one. Returns the device's first failure, if there was one. */
PSI_MUST ps_status psk_cuda_enter(struct psk_device *device, struct psi_err *err);

void psk_cuda_pinned_init(struct psk_cuda_pinned *pinned);
void psk_cuda_pinned_fini(struct psk_cuda_pinned *pinned);
PSI_MUST ps_status psk_cuda_pinned_new(struct psk_device *device, size_t bytes, void **out, struct psi_err *err);
void psk_cuda_pinned_free(struct psk_device *device, void *memory);

void psk_cuda_run_fini(struct psk_stream *stream);
extern const psk_run_fn psk_cuda_run[PSK_OPS];

#endif
