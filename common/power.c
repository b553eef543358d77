/* SPDX-License-Identifier: Apache-2.0 */
/* libm is loaded by dlopen() at the first call, because it takes 300 KiB of memory. */
#include "power.h"

#include "status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static double (*power)(double, double);
static float (*power_f)(float, float);
static double (*logarithm)(double), (*cosine)(double);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_functions(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    PSI_ASSERT(library != NULL);
    *(void **)&power = dlsym(library, "pow");
    *(void **)&power_f = dlsym(library, "powf");
    *(void **)&logarithm = dlsym(library, "log");
    *(void **)&cosine = dlsym(library, "cos");
    PSI_ASSERT(power != NULL && power_f != NULL && logarithm != NULL && cosine != NULL);
}

double psi_pow(double x, double y)
{
    (void)pthread_once(&once, load_functions);
    return power(x, y);
}

float psi_powf(float x, float y)
{
    (void)pthread_once(&once, load_functions);
    return power_f(x, y);
}

double psi_log(double x)
{
    (void)pthread_once(&once, load_functions);
    return logarithm(x);
}

double psi_cos(double x)
{
    (void)pthread_once(&once, load_functions);
    return cosine(x);
}
