/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime, the cuBLAS and the device of emulated.h.
 *
 * Happy path of a kernel: for each block of the grid, a coroutine per thread; the scheduler draws a warp and lets its lanes run,
 * in an order drawn too, to where they wait for the warp or the block or end; those who wait go on when all are there. Failure
 * modes: those that the settings ask for; after one of them every call returns that error until cudaDeviceReset.
 */
#include "emulated.h"

#include "device.h"
#include "worker/nn/kernels/cuda/launch.h"

#include <cublas_v2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#define THREADS PSK_CUDA_THREADS
#define WARP PSK_CUDA_WARP
#define POISON 0xff /* NaN, -1 */
#define GUARD 0xa5
enum { STACK_BYTES = 32 << 10, ALIGN_BYTES = 256 };

static struct emulated_settings settings = {
    .seed = 1, .memory_bytes = (size_t)1 << 30, .processors = 2, .driver = CUDART_VERSION};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all of what follows */
static cudaError_t failed;                               /* until cudaDeviceReset */

struct emulated_settings *emulated(void)
{
    return &settings;
}

static void __attribute__((noreturn)) wrong(const char *text)
{
    fprintf(stderr, "emulated CUDA: %s\n", text);
    abort();
}

/* ---- memory of the device: pieces with their size in front and a guard behind ---- */

struct piece {
    struct piece *next;
    size_t bytes;
};
static struct piece *pieces;        /* of the device */
static struct piece *pinned_pieces; /* of cudaHostAlloc */

static void *memory_of(struct piece *piece)
{
    return (char *)piece + ALIGN_BYTES;
}

static void check_range(const void *at, size_t bytes)
{
    for (struct piece *p = pieces; p != NULL; p = p->next) {
        const char *first = memory_of(p);
        if ((const char *)at >= first && (const char *)at + bytes <= first + p->bytes) {
            return;
        }
    }
    wrong("not memory of the device");
}

static cudaError_t take(struct piece **list, void **memory, size_t bytes)
{
    struct piece *piece = aligned_alloc(ALIGN_BYTES, (bytes + 3 * ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);
    if (piece == NULL) {
        return cudaErrorMemoryAllocation;
    }
    *piece = (struct piece){*list, bytes};
    *list = piece;
    *memory = memset(memory_of(piece), POISON, bytes);
    memset((char *)*memory + bytes, GUARD, ALIGN_BYTES);
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION((char *)*memory + bytes, ALIGN_BYTES);
#endif
    return cudaSuccess;
}

/* Returns how many bytes it had. */
static size_t give(struct piece **at, void *memory)
{
    while (*at != NULL && memory_of(*at) != memory) {
        at = &(*at)->next;
    }
    struct piece *piece = *at;
    if (piece == NULL) {
        wrong("freed what is not memory of that kind");
    }
    const size_t bytes = piece->bytes;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION((char *)memory + bytes, ALIGN_BYTES);
#endif
    for (size_t i = 0; i < ALIGN_BYTES; i++) {
        if (((unsigned char *)memory)[bytes + i] != GUARD) {
            wrong("written behind the end of memory");
        }
    }
    *at = piece->next;
    free(piece);
    return bytes;
}

/* ---- coroutines ---- */

enum state { RUNS, WAITS_FOR_WARP, WAITS_FOR_BLOCK, ENDED };

struct thread {
    ucontext_t context;
    char *stack;
    void *fiber; /* of the thread sanitizer */
    enum state state;
    uint32_t bits;
};

dim3 threadIdx, blockIdx, blockDim, gridDim;
static struct thread threads[THREADS];
static ucontext_t scheduler;
static void *scheduler_fiber;
static unsigned self;
static void (*kernel_now)(struct psk_cuda_args);
static struct psk_cuda_args args_now;
static int any; /* of __syncthreads_or */

static void switch_to(ucontext_t *from, ucontext_t *to, void *fiber)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(fiber, 0);
#else
    (void)fiber;
#endif
    if (swapcontext(from, to) != 0) {
        wrong("swapcontext");
    }
}

static void wait_as(enum state state)
{
    struct thread *t = &threads[self];
    t->state = state;
    switch_to(&t->context, &scheduler, scheduler_fiber);
}

static void thread_main(void)
{
    kernel_now(args_now);
    wait_as(ENDED);
    wrong("a thread that ended runs");
}

void __syncthreads(void)
{
    wait_as(WAITS_FOR_BLOCK);
}

int __syncthreads_or(int value)
{
    any |= value;
    __syncthreads();
    const int all = any;
    __syncthreads();
    any = 0;
    __syncthreads();
    return all;
}

uint32_t emulated_shuffle(uint32_t mask, uint32_t bits, int distance)
{
    const unsigned from = self ^ (unsigned)distance;
    if (mask != 0xffffffffu || distance <= 0 || distance >= WARP) {
        wrong("a shuffle between lanes that are not of one warp");
    }
    threads[self].bits = bits;
    wait_as(WAITS_FOR_WARP);
    const uint32_t got = threads[from].bits;
    wait_as(WAITS_FOR_WARP); /* until all have read */
    return got;
}

unsigned long long atomicMin(unsigned long long *at, unsigned long long value)
{
    const unsigned long long before = *at;
    *at = value < before ? value : before;
    return before;
}

/* xorshift64*, for the order */
static unsigned draw(unsigned below)
{
    settings.seed ^= settings.seed >> 12;
    settings.seed ^= settings.seed << 25;
    settings.seed ^= settings.seed >> 27;
    return (unsigned)((settings.seed * 0x2545f4914f6cdd1du) >> 33) % below;
}

static unsigned count_of(unsigned first, unsigned end, enum state state)
{
    unsigned n = 0;
    for (unsigned i = first; i < end; i++) {
        n += threads[i].state == state;
    }
    return n;
}

static void release(unsigned first, unsigned end, enum state state)
{
    for (unsigned i = first; i < end; i++) {
        threads[i].state = threads[i].state == state ? RUNS : threads[i].state;
    }
}

/* After the lanes of a warp have run: those who wait go on when all are there. */
static void meet(unsigned warp)
{
    const unsigned waiting = count_of(warp, warp + WARP, WAITS_FOR_WARP);
    if (waiting == WARP) {
        release(warp, warp + WARP, WAITS_FOR_WARP);
    } else if (waiting > 0) {
        wrong("a shuffle that not all lanes of the warp reach");
    }
    if (waiting == 0 && count_of(0, THREADS, WAITS_FOR_BLOCK) + count_of(0, THREADS, ENDED) == THREADS) {
        release(0, THREADS, WAITS_FOR_BLOCK);
    }
}

static void thread_start(struct thread *t)
{
    t->stack = t->stack != NULL ? t->stack : malloc(STACK_BYTES);
    if (t->stack == NULL || getcontext(&t->context) != 0) {
        wrong("no memory for a thread");
    }
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK_BYTES;
    t->context.uc_link = NULL;
    makecontext(&t->context, thread_main, 0);
    t->state = RUNS;
#if defined(__SANITIZE_THREAD__)
    t->fiber = __tsan_create_fiber(0);
#endif
}

static void block_end(void)
{
#if defined(__SANITIZE_THREAD__)
    for (unsigned i = 0; i < THREADS; i++) {
        __tsan_destroy_fiber(threads[i].fiber);
    }
#endif
}

static void block_run(void)
{
    for (unsigned i = 0; i < THREADS; i++) {
        thread_start(&threads[i]);
    }
#if defined(__SANITIZE_THREAD__)
    scheduler_fiber = __tsan_get_current_fiber();
#endif
    unsigned warp = 0;
    while (count_of(0, THREADS, ENDED) < THREADS) {
        if (draw(8) == 0 || count_of(warp, warp + WARP, RUNS) == 0) { /* one gets far ahead of the others */
            warp = draw(THREADS / WARP) * WARP;
        }
        const unsigned first = draw(WARP);
        const unsigned turn = 2 * draw(WARP / 2) + 1; /* odd: every lane once */
        for (unsigned n = 0; n < WARP; n++) {
            self = warp + (first + n * turn) % WARP;
            if (threads[self].state == RUNS) {
                threadIdx.x = self;
                switch_to(&scheduler, &threads[self].context, threads[self].fiber);
            }
        }
        meet(warp);
    }
    block_end();
}

/* ---- the runtime ---- */

/* Work that is due to fail: all of CUDA does from then on. */
static bool fails(void)
{
    settings.launches++;
    if (settings.fail_at > 0 && --settings.fail_at == 0) {
        failed = cudaErrorIllegalAddress;
    }
    return failed != cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes, cudaStream_t stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    if (block.x != THREADS || block.y != 1 || block.z != 1 || grid.x == 0 || grid.x > INT32_MAX || grid.y == 0 ||
        grid.y > 65535 || grid.z != 1 || shared_bytes != 0) {
        wrong("a grid or a block that cannot be");
    }
    const cudaError_t before = failed;
    if (!fails()) {
        memcpy(&args_now, args[0], sizeof(args_now));
        memcpy(&kernel_now, &kernel, sizeof(kernel_now));
        blockDim = block;
        gridDim = grid;
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                block_run();
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return before; /* what fails is told later */
}

static cudaError_t state(void)
{
    pthread_mutex_lock(&lock);
    const cudaError_t error = failed;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = settings.driver >= CUDART_VERSION ? 1 : 0;
    return settings.driver >= CUDART_VERSION ? cudaSuccess : cudaErrorInsufficientDriver;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = settings.driver;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device != 0) {
        wrong("a device that is not there");
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    pthread_mutex_lock(&lock);
    failed = cudaSuccess;
    settings.resets++;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return state();
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrMultiProcessorCount      ? (int)settings.processors
             : attribute == cudaDevAttrComputeCapabilityMajor ? 7
                                                              : 5;
    return state();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    snprintf(properties->name, sizeof(properties->name), "emulated, %u processors", settings.processors);
    properties->totalGlobalMem = settings.memory_bytes;
    return state();
}

cudaError_t cudaGetLastError(void)
{
    return state();
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation     ? "out of memory"
           : error == cudaErrorIllegalAddress     ? "an illegal memory access was encountered"
           : error == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version"
                                                  : "no error";
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    cudaError_t error = failed;
    if (error == cudaSuccess) {
        error = bytes <= settings.memory_bytes - settings.used_bytes ? take(&pieces, memory, bytes) : cudaErrorMemoryAllocation;
        settings.used_bytes += error == cudaSuccess ? bytes : 0;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaFree(void *memory)
{
    pthread_mutex_lock(&lock);
    settings.used_bytes -= memory != NULL ? give(&pieces, memory) : 0;
    const cudaError_t error = failed;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    cudaError_t error = failed;
    error = error == cudaSuccess ? take(&pinned_pieces, memory, bytes) : error;
    settings.pinned_bytes += error == cudaSuccess ? bytes : 0;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaFreeHost(void *memory)
{
    pthread_mutex_lock(&lock);
    settings.pinned_bytes -= give(&pinned_pieces, memory);
    const cudaError_t error = failed;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    if (kind != cudaMemcpyDeviceToHost) {
        check_range(to, bytes);
    }
    if (kind != cudaMemcpyHostToDevice) {
        check_range(from, bytes);
    }
    if (failed == cudaSuccess) {
        memcpy(to, from, bytes);
    }
    const cudaError_t error = failed;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    check_range(memory, bytes);
    memset(memory, value, bytes);
    const cudaError_t error = failed;
    pthread_mutex_unlock(&lock);
    return error;
}

static char handle; /* what streams, events and handles point at */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (cudaStream_t)(void *)&handle;
    return state();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return state();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return state();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)(void *)&handle;
    return state();
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return state();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return state();
}

/* ---- cuBLAS ---- */

cublasStatus_t cublasCreate(cublasHandle_t *out)
{
    *out = (cublasHandle_t)(void *)&handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t blas)
{
    (void)blas;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t blas, cudaStream_t stream)
{
    (void)blas;
    (void)stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t blas, void *workspace, size_t bytes)
{
    (void)blas;
    pthread_mutex_lock(&lock);
    check_range(workspace, bytes);
    pthread_mutex_unlock(&lock);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}

/* Column-major: c (m, n) = op(a) (m, k) op(b) (k, n). */
cublasStatus_t cublasGemmEx(cublasHandle_t blas, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType_t a_type, int a_leading, const void *b,
                            cudaDataType_t b_type, int b_leading, const void *beta, void *c, cudaDataType_t c_type, int c_leading,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)blas;
    (void)algorithm;
    if (a_type != CUDA_R_32F || b_type != CUDA_R_32F || c_type != CUDA_R_32F || *(const float *)alpha != 1.0f ||
        *(const float *)beta != 0.0f || (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) || m < 1 ||
        n < 1 || k < 1 || a_leading < (a_op == CUBLAS_OP_N ? m : k) || b_leading < (b_op == CUBLAS_OP_N ? k : n) ||
        c_leading < m) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    const size_t a_step_m = a_op == CUBLAS_OP_N ? 1 : (size_t)a_leading;
    const size_t a_step_k = a_op == CUBLAS_OP_N ? (size_t)a_leading : 1;
    const size_t b_step_k = b_op == CUBLAS_OP_N ? 1 : (size_t)b_leading;
    const size_t b_step_n = b_op == CUBLAS_OP_N ? (size_t)b_leading : 1;
    check_range(a, ((size_t)(m - 1) * a_step_m + (size_t)(k - 1) * a_step_k + 1) * sizeof(float));
    check_range(b, ((size_t)(k - 1) * b_step_k + (size_t)(n - 1) * b_step_n + 1) * sizeof(float));
    check_range(c, ((size_t)(n - 1) * (size_t)c_leading + (size_t)m) * sizeof(float));
    const bool nothing = fails();
    for (int j = 0; j < n && !nothing; j++) {
        for (int i = 0; i < m; i++) {
            double sum = 0.0;
            for (int l = 0; l < k; l++) {
                sum += (double)((const float *)a)[(size_t)i * a_step_m + (size_t)l * a_step_k] *
                       (double)((const float *)b)[(size_t)l * b_step_k + (size_t)j * b_step_n];
            }
            ((float *)c)[(size_t)j * (size_t)c_leading + (size_t)i] = (float)sum;
        }
    }
    pthread_mutex_unlock(&lock);
    return CUBLAS_STATUS_SUCCESS;
}
