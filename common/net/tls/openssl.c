/* SPDX-License-Identifier: Apache-2.0 */
/* Opening OpenSSL. Happy path: dlopen() of both libraries, dlsym() of every function of the table, a new library context. Failure
 * modes: no library, an older library that lacks a function, no memory. Later calls return the first failure's text again.
 * OpenSSL is told not to clean up in exit(), because loop threads may still use it then. */
#include "openssl.h"

#include "schedule.h"
#include "tls.h"

#ifdef PSI_HAVE_TLS

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct psi_openssl psi_openssl;

static struct psi_err load_err;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

struct function {
    const char *name;
    size_t offset; /* offset of the function's pointer in struct psi_openssl */
};
#define ROW_(name) {#name, offsetof(struct psi_openssl, name)},
static const struct function of_ssl[] = {PSI_OPENSSL_OF_SSL(ROW_)};
static const struct function of_crypto[] = {PSI_OPENSSL_OF_CRYPTO(ROW_)};
#undef ROW_

/* The library's symbols stay local, because another OpenSSL may live in the same process. */
static bool load_one(const char *file, const struct function *functions, size_t count)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        PSI_IGNORE(psi_fail(&load_err, PS_UNIMPLEMENTED,
                            "TLS needs OpenSSL 3, which is not installed here: %s. Install the package libssl3", dlerror()));
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL) {
            PSI_IGNORE(
                psi_fail(&load_err, PS_UNIMPLEMENTED, "TLS needs OpenSSL 3.0 or newer: %s has no %s", file, functions[i].name));
            return false;
        }
        memcpy((char *)&psi_openssl + functions[i].offset, &function, sizeof(function));
    }
    return true;
}

static bool wipes;

void psi_tls_wipe_freed(void)
{
    wipes = true;
}

static void *wipe_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return malloc(n);
}

static void wipe_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    if (p != NULL) {
        explicit_bzero(p, malloc_usable_size(p));
        free(p);
    }
}

static void *wipe_realloc(void *p, size_t n, const char *file, int line)
{
    void *to = n > 0 ? malloc(n) : NULL;
    if (to != NULL && p != NULL) {
        size_t have = malloc_usable_size(p);
        memcpy(to, p, have < n ? have : n);
    }
    if (to != NULL || n == 0) {
        wipe_free(p, file, line);
    }
    return to;
}

static void load(void)
{
    if (!load_one("libcrypto.so.3", of_crypto, sizeof(of_crypto) / sizeof(of_crypto[0])) ||
        !load_one("libssl.so.3", of_ssl, sizeof(of_ssl) / sizeof(of_ssl[0]))) {
        return;
    }
    if (wipes) { /* if the process has used the library before, this call is refused, and freed memory is not zeroed */
        (void)psi_openssl.CRYPTO_set_mem_functions(wipe_malloc, wipe_realloc, wipe_free);
    }
    if (psi_openssl.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) != 1 || psi_openssl.OPENSSL_init_ssl(0, NULL) != 1 ||
        (psi_openssl.own = psi_openssl.OSSL_LIB_CTX_new()) == NULL || !psi_tls_schedule_load() ||
        (psi_openssl.sha256 = psi_openssl.EVP_MD_fetch(psi_openssl.own, "SHA256", NULL)) == NULL ||
        (psi_openssl.aes = psi_openssl.EVP_CIPHER_fetch(psi_openssl.own, "AES-128-GCM", NULL)) == NULL ||
        (psi_openssl.chacha = psi_openssl.EVP_CIPHER_fetch(psi_openssl.own, "ChaCha20-Poly1305", NULL)) == NULL) {
        PSI_IGNORE(psi_fail(&load_err, PS_UNIMPLEMENTED,
                            "OpenSSL could not be started: is its configuration file damaged, or memory short?"));
    }
}

ps_status psi_openssl_load(struct psi_err *err)
{
    (void)pthread_once(&load_once, load);
    if (load_err.code != PS_OK && err != NULL) {
        *err = load_err;
    }
    return load_err.code;
}

#else

void psi_tls_wipe_freed(void)
{
}

ps_status psi_openssl_load(struct psi_err *err)
{
    return psi_fail(err, PS_UNIMPLEMENTED,
                    "this build has no TLS: install the package libssl-dev, and build again (make says \"tls yes\")");
}

#endif
