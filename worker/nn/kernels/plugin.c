/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens kernel plugins, once per process. Happy path: an open plugin is found in a small table, without a lock; at the
 * first use, under a mutex, the directories that plugin.h lists are tried. OpenBLAS reads environment variables when it is
 * loaded, so two are set during dlopen(), unless the user has set them: one thread, because the plugin has threads of its own,
 * and the core type, if OpenBLAS does not choose the fastest. Failure modes: no file; a file that cannot be loaded, lacks
 * psk_open, or has another ABI. Failures are not remembered: the next call tries again. */
#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PLUGINS_MAX 4
#define NAME_BYTES_MAX 15

struct slot {
    char name[NAME_BYTES_MAX + 1];   /* written before `plugin` */
    char path[PATH_MAX];             /* written before `plugin` */
    const struct psk_plugin *plugin; /* atomic; NULL: free */
};

static struct slot slots[PLUGINS_MAX];
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct slot *slot_find(const char *name)
{
    for (size_t i = 0; i < PLUGINS_MAX; i++) {
        if (__atomic_load_n(&slots[i].plugin, __ATOMIC_ACQUIRE) != NULL && strcmp(slots[i].name, name) == 0) {
            return &slots[i];
        }
    }
    return NULL;
}

#if defined(__x86_64__)
static void cpu_model_get(unsigned *out_family, unsigned *out_model)
{
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    PSI_IGNORE(__get_cpuid(1, &eax, &ebx, &ecx, &edx)); /* on failure all are 0: family 0, which no rule below names */
    const unsigned base = (eax >> 8) & 0xfu;
    *out_family = base == 0xfu ? base + ((eax >> 20) & 0xffu) : base;
    *out_model = ((eax >> 4) & 0xfu) | ((eax >> 12) & 0xf0u);
}

/* For an Intel CPU with AVX-512: true if OpenBLAS 0.3.21 has kernels for its model (driver/others/dynamic.c, get_coretype). */
static bool blas_knows_intel_model(unsigned family, unsigned model)
{
    static const unsigned known[] = {0x55, 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0x8f, 0x97, 0x9a, 0xa7};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (family == 6 && model == known[i]) {
            return true;
        }
    }
    return false;
}
#endif

const char *psk_blas_coretype(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool skylakex = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma");
    unsigned family = 0;
    unsigned model = 0;
    cpu_model_get(&family, &model);
    if (!skylakex || (__builtin_cpu_is("intel") && blas_knows_intel_model(family, model))) {
        return NULL;
    }
    if (__builtin_cpu_is("amd") && family == 0x19) {
        /* Zen 4 runs 512-bit operations in two halves. GF/s of OpenBLAS 0.3.21, 128x784x512 product, one thread: Haswell 109, Zen
         * (OpenBLAS's own choice) 107, SkylakeX 102; product for dw 109, 100, 102. Zen 5 has full width: SkylakeX doubles. */
        return "Haswell";
    }
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") ? "Cooperlake" : "SkylakeX";
#else
    return NULL;
#endif
}

/* Set an environment variable, unless it is set or value is NULL. True: it was set here, and the caller must remove it. */
static bool env_add(const char *name, const char *value)
{
    return value != NULL && getenv(name) == NULL && setenv(name, value, 0) == 0;
}

static void *open_with_blas_settings(const char *path)
{
    const bool added_threads = env_add("OPENBLAS_NUM_THREADS", "1");
    const bool added_coretype = env_add("OPENBLAS_CORETYPE", psk_blas_coretype());
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (added_coretype) {
        PSI_IGNORE(unsetenv("OPENBLAS_CORETYPE"));
    }
    if (added_threads) {
        PSI_IGNORE(unsetenv("OPENBLAS_NUM_THREADS"));
    }
    return handle;
}

static const struct psk_plugin *plugin_open(const char *path, const char *name, struct psi_err *why)
{
    void *handle = open_with_blas_settings(path);
    if (handle == NULL) {
        const char *text = dlerror();
        psi_fail(why, PS_UNIMPLEMENTED, "%s", text != NULL ? text : "cannot be opened");
        return NULL;
    }
    const psk_open_fn open_plugin = (psk_open_fn)dlsym(handle, PSK_OPEN_SYMBOL);
    const struct psk_plugin *plugin = open_plugin != NULL ? open_plugin(PSK_ABI) : NULL;
    if (plugin == NULL) {
        psi_fail(why, PS_UNIMPLEMENTED, "%s: %s %s, so it is not a kernel plugin for this library", path,
                 open_plugin == NULL ? "has no" : "gives nothing in", PSK_OPEN_SYMBOL);
    } else if (plugin->abi != PSK_ABI) {
        psi_fail(why, PS_UNIMPLEMENTED, "was built for kernel ABI %u, this library has %u: build both from one version: %s",
                 plugin->abi, PSK_ABI, path); /* the path comes last, because a long text is cut */
    } else if (plugin->struct_bytes != sizeof(*plugin)) {
        psi_fail(why, PS_UNIMPLEMENTED, "its table has %u bytes, that of this library %zu: build both from one version: %s",
                 plugin->struct_bytes, sizeof(*plugin), path);
    } else if (strcmp(plugin->name, name) != 0) {
        psi_fail(why, PS_UNIMPLEMENTED, "%s: is the plugin %s", path, plugin->name);
    } else {
        return plugin;
    }
    dlclose(handle);
    return NULL;
}

static bool name_ok(const char *name)
{
    const size_t bytes = name != NULL ? strlen(name) : 0;
    return bytes >= 1 && bytes <= NAME_BYTES_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") == bytes;
}

static void text_add(char *text, size_t bytes, const char *separator, const char *item)
{
    const char *parts[] = {text[0] != '\0' ? separator : "", item};
    size_t used = strlen(text);
    for (size_t i = 0; i < 2; i++) {
        const size_t room = bytes - 1 - used;
        const size_t n = strlen(parts[i]) < room ? strlen(parts[i]) : room;
        memcpy(text + used, parts[i], n);
        used += n;
    }
    text[used] = '\0';
}

ps_status psk_plugin_load(const char *name, const char *const *places, size_t place_count, const struct psk_plugin **out_plugin,
                          char *path, size_t path_bytes, struct psi_err *err)
{
    char wrong[PSI_ERR_TEXT_MAX] = "";
    char looked[PSI_ERR_TEXT_MAX] = "";
    if (!name_ok(name)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a kernel plugin is named by 1 to %d letters a-z and digits, such as cpu",
                        NAME_BYTES_MAX);
    }
    for (size_t i = 0; i < place_count; i++) {
        char candidate[PATH_MAX];
        struct psi_err why;
        const int n = snprintf(candidate, sizeof(candidate), "%s/libpsworker_%s.so", places[i], name);
        text_add(looked, sizeof(looked), ", ", places[i]);
        if (n < 0 || (size_t)n >= sizeof(candidate) || access(candidate, F_OK) != 0) {
            continue;
        }
        const struct psk_plugin *plugin = plugin_open(candidate, name, &why);
        if (plugin != NULL) {
            if (path != NULL) {
                snprintf(path, path_bytes, "%s", candidate);
            }
            *out_plugin = plugin;
            return PS_OK;
        }
        text_add(wrong, sizeof(wrong), "; ", why.text);
    }
    return psi_fail(err, PS_UNIMPLEMENTED, "no kernels for %s: %.250s%sset PS_PLUGIN_DIR; looked for libpsworker_%s.so in %s",
                    name, wrong, wrong[0] != '\0' ? "; " : "", name, looked);
}

struct places {
    char dirs[PSK_PLACES_MAX][PATH_MAX];
    const char *list[PSK_PLACES_MAX];
    size_t count;
};

static void place_add(struct places *p, const char *dir)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->list[i], dir) == 0) {
            return;
        }
    }
    if (p->count == PSK_PLACES_MAX || strlen(dir) >= PATH_MAX) {
        return;
    }
    memcpy(p->dirs[p->count], dir, strlen(dir) + 1);
    p->list[p->count] = p->dirs[p->count];
    p->count++;
}

/* Add the directory of a file, and the directory lib beside it (../lib). */
static void place_add_beside(struct places *p, const char *file)
{
    char dir[PATH_MAX];
    if (realpath(file, dir) == NULL) {
        return;
    }
    char *slash = strrchr(dir, '/');
    if (slash == NULL || slash == dir) {
        return;
    }
    *slash = '\0';
    place_add(p, dir);
    slash = strrchr(dir, '/');
    const size_t parent_bytes = (size_t)(slash - dir);
    if (parent_bytes + sizeof("/lib") <= sizeof(dir)) {
        memcpy(slash, "/lib", sizeof("/lib"));
        place_add(p, dir);
    }
}

static void places_init(struct places *p)
{
    Dl_info here;
    const char *wanted = secure_getenv("PS_PLUGIN_DIR");
    p->count = 0;
    if (wanted != NULL && wanted[0] != '\0') {
        place_add(p, wanted);
    }
    if (dladdr(&open_mutex, &here) != 0 && here.dli_fname != NULL) {
        place_add_beside(p, here.dli_fname);
    }
    place_add_beside(p, "/proc/self/exe");
#ifdef PSI_PLUGINDIR
    place_add(p, PSI_PLUGINDIR);
#endif
}

/* Set path to the plugin's file in PS_PLUGIN_DIR. False: the variable is not set, or its directory has no such file. */
static bool wanted_file(const char *name, char path[PATH_MAX])
{
    const char *dir = secure_getenv("PS_PLUGIN_DIR");
    if (dir == NULL || dir[0] == '\0' || !name_ok(name)) {
        return false;
    }
    const int n = snprintf(path, PATH_MAX, "%s/libpsworker_%s.so", dir, name);
    return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

/* The caller holds open_mutex. */
static ps_status slot_open(const char *name, const struct psk_plugin **out_plugin, struct psi_err *err)
{
    struct slot *slot = NULL;
    struct places places;
    char path[PATH_MAX];
    for (size_t i = 0; i < PLUGINS_MAX && slot == NULL; i++) {
        slot = slots[i].plugin == NULL ? &slots[i] : NULL;
    }
    if (slot == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "plugin %s: %d kernel plugins are open already", name, PLUGINS_MAX);
    }
    const struct psk_plugin *plugin = NULL;
    if (wanted_file(name, path)) {
        struct psi_err why = {0};
        plugin = plugin_open(path, name, &why);
        if (plugin == NULL) {
            return psi_fail(err, PS_UNIMPLEMENTED, "no kernels for %s: what PS_PLUGIN_DIR has cannot be used: %s", name,
                            why.text);
        }
    } else {
        places_init(&places);
        const ps_status st = psk_plugin_load(name, places.list, places.count, &plugin, path, sizeof(path), err);
        if (st != PS_OK) {
            return st;
        }
    }
    snprintf(slot->name, sizeof(slot->name), "%s", name);
    snprintf(slot->path, sizeof(slot->path), "%s", path);
    __atomic_store_n(&slot->plugin, plugin, __ATOMIC_RELEASE);
    *out_plugin = plugin;
    return PS_OK;
}

ps_status psk_plugin_get(const char *name, const struct psk_plugin **out_plugin, struct psi_err *err)
{
    const struct slot *slot = name != NULL ? slot_find(name) : NULL;
    if (slot != NULL) {
        *out_plugin = slot->plugin;
        return PS_OK;
    }
    pthread_mutex_lock(&open_mutex);
    ps_status st = PS_OK;
    slot = name != NULL ? slot_find(name) : NULL;
    if (slot != NULL) {
        *out_plugin = slot->plugin;
    } else {
        st = slot_open(name, out_plugin, err);
    }
    pthread_mutex_unlock(&open_mutex);
    return st;
}

const char *psk_plugin_path(const char *name)
{
    const struct slot *slot = slot_find(name);
    return slot != NULL ? slot->path : NULL;
}
