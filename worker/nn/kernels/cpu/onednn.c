/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by oneDNN, if the machine has its library (Debian: libdnnl2). Happy path: the library is looked for at the
 * first product or description; dnnl_sgemm() has one signature in versions 1 to 3. The calling thread's limit of OpenMP threads
 * is 1 during a product, so that no thread is started, and then the program's again. PS_ONEDNN=0 in the environment turns oneDNN
 * off. Failure modes: no library, a library without OpenMP, no memory: the caller uses CBLAS. */
#include "cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct version { /* dnnl_version_t */
    int major, minor, patch;
};

static int (*sgemm)(char a_turned, char b_turned, int64_t rows, int64_t columns, int64_t inner, float alpha, const float *a,
                    int64_t a_columns, const float *b, int64_t b_columns, float beta, float *c, int64_t c_columns);
static int (*threads_get)(void);
static void (*threads_set)(int threads);
static const struct version *version;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void look(void)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    const char *wanted = getenv("PS_ONEDNN");
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        library = wanted == NULL || strcmp(wanted, "0") != 0 ? dlopen(names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    if (library == NULL) {
        return;
    }
    const struct version *(*const version_get)(void) = (const struct version *(*)(void))dlsym(library, "dnnl_version");
    threads_get = (int (*)(void))dlsym(library, "omp_get_max_threads");
    threads_set = (void (*)(int))dlsym(library, "omp_set_num_threads");
    *(void **)&sgemm = dlsym(library, "dnnl_sgemm");
    if (version_get == NULL || threads_get == NULL || threads_set == NULL) {
        sgemm = NULL;
    } else {
        version = version_get();
    }
}

bool psk_cpu_onednn_has(int out_version[3])
{
    (void)pthread_once(&looked, look);
    if (sgemm != NULL) {
        memcpy(out_version, version, sizeof(*version));
    }
    return sgemm != NULL;
}

bool psk_cpu_onednn_multiply(const struct psk_cpu_product *p)
{
    (void)pthread_once(&looked, look);
    if (sgemm == NULL) {
        return false;
    }
    const int threads = threads_get();
    if (threads != 1) {
        threads_set(1);
    }
    const int st = sgemm(p->a_turned ? 'T' : 'N', p->b_turned ? 'T' : 'N', p->rows, p->columns, p->inner, 1.0f, p->a, p->a_stride,
                         p->b, p->b_stride, p->beta, p->c, p->c_stride);
    if (threads != 1) {
        threads_set(threads);
    }
    return st == 0;
}
