/* SPDX-License-Identifier: Apache-2.0 */
/* AES-128-GCM by Intel's multi-buffer library. See cipher.h. Happy path: dlopen() the library, let its manager pick the functions
 * for this CPU, copy their addresses, free the manager. A call keeps its state on the stack. Failure mode: the library or one of
 * its functions is missing: psi_cipher_ipsec() returns NULL, and OpenSSL is used. */
#include "cipher.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

#ifdef PSI_HAVE_TLS

#ifdef PSI_IPSEC_MB

#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <pthread.h>

_Static_assert(PSI_CIPHER_NONCE_BYTES == IMB_GCM_IV_DATA_LEN, "a nonce of 96 bits");

static struct {
    aes_gcm_pre_t set;
    aes_gcm_init_t init;
    aes_gcm_enc_dec_update_t encrypt, decrypt;
    aes_gcm_enc_dec_finalize_t encrypted, decrypted;
} mb;
static bool there;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Here a struct psi_cipher is the library's expanded AES key. */
static struct gcm_key_data *key_of(struct psi_cipher *cipher)
{
    return (struct gcm_key_data *)(void *)cipher;
}

static struct psi_cipher *make(void)
{
    return psi_aligned_malloc(_Alignof(struct gcm_key_data), sizeof(struct gcm_key_data));
}

static bool set(struct psi_cipher *cipher, uint16_t suite, const uint8_t *key, bool seals)
{
    (void)suite; /* always AES: cipher.c uses these functions for no other suite */
    (void)seals;
    mb.set(key, key_of(cipher));
    return true;
}

static void end(struct psi_cipher *cipher)
{
    if (cipher != NULL) {
        explicit_bzero(cipher, sizeof(struct gcm_key_data));
        psi_free(cipher);
    }
}

static bool seal(struct psi_cipher *cipher, const struct psi_cipher_head *head, const uint8_t *content, size_t n, uint8_t last,
                 uint8_t *out)
{
    const struct gcm_key_data *key = key_of(cipher);
    struct gcm_context_data state;
    mb.init(key, &state, head->nonce, head->data, head->bytes);
    if (n > 0) {
        mb.encrypt(key, &state, out, content, n);
    }
    mb.encrypt(key, &state, out + n, &last, 1);
    mb.encrypted(key, &state, out + n + 1, PSI_CIPHER_TAG_BYTES);
    explicit_bzero(&state, sizeof(state)); /* the state holds a block of the key stream */
    return true;
}

static bool open(struct psi_cipher *cipher, const struct psi_cipher_head *head, uint8_t *body, size_t n, uint8_t *content,
                 uint8_t *out_last)
{
    const struct gcm_key_data *key = key_of(cipher);
    struct gcm_context_data state;
    uint8_t tag[PSI_CIPHER_TAG_BYTES];
    mb.init(key, &state, head->nonce, head->data, head->bytes);
    if (content == body) {
        mb.decrypt(key, &state, content, body, n);
        *out_last = content[n - 1];
    } else {
        if (n > 1) {
            mb.decrypt(key, &state, content, body, n - 1);
        }
        mb.decrypt(key, &state, out_last, body + n - 1, 1);
    }
    mb.decrypted(key, &state, tag, sizeof(tag));
    explicit_bzero(&state, sizeof(state));
    return psi_openssl.CRYPTO_memcmp(tag, body + n, sizeof(tag)) == 0;
}

static void *function(void *library, const char *name)
{
    return library != NULL ? dlsym(library, name) : NULL;
}

static void load(void)
{
    const char *wanted = getenv("PSD_IPSEC_MB");
    const bool off = wanted != NULL && strcmp(wanted, "0") == 0;
    void *library = off ? NULL : dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned (*version)(void) = NULL;
    IMB_MGR *(*manager_new)(uint64_t) = NULL;
    void (*manager_init)(IMB_MGR *, IMB_ARCH *) = NULL;
    void (*manager_free)(IMB_MGR *) = NULL;
    *(void **)&version = function(library, "imb_get_version");
    *(void **)&manager_new = function(library, "alloc_mb_mgr");
    *(void **)&manager_init = function(library, "init_mb_mgr_auto");
    *(void **)&manager_free = function(library, "free_mb_mgr");
    /* IMB_MGR, which is read below, has another layout in another version */
    if (version == NULL || version() != IMB_VERSION_NUM || manager_new == NULL || manager_init == NULL || manager_free == NULL) {
        return;
    }
    IMB_MGR *manager = manager_new(0);
    if (manager == NULL) {
        return;
    }
    manager_init(manager, NULL);
    mb.set = manager->gcm128_pre;
    mb.init = manager->gcm128_init;
    mb.encrypt = manager->gcm128_enc_update;
    mb.decrypt = manager->gcm128_dec_update;
    mb.encrypted = manager->gcm128_enc_finalize;
    mb.decrypted = manager->gcm128_dec_finalize;
    there = (manager->features & IMB_FEATURE_VAES) != 0 && mb.set != NULL && mb.init != NULL && mb.encrypt != NULL &&
            mb.decrypt != NULL && mb.encrypted != NULL && mb.decrypted != NULL;
    manager_free(manager);
}

const struct psi_cipher_row *psi_cipher_ipsec(void)
{
    static const struct psi_cipher_row by_ipsec = {"ipsec-mb", make, set, end, seal, open};
    (void)pthread_once(&once, load);
    return there ? &by_ipsec : NULL;
}

#else

const struct psi_cipher_row *psi_cipher_ipsec(void)
{
    return NULL;
}

#endif
#endif
