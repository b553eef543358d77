/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of OpenSSL 3 that psd calls, as one table of pointers: libssl and libcrypto are opened when a key or certificate
 * is first configured, and a program without keys and certificates never loads them. For common/net/tls/ only. */
#ifndef PSI_TLS_OPENSSL_H
#define PSI_TLS_OPENSSL_H

#include "../../status.h"

#if !defined(PSI_WITHOUT_TLS) && __has_include(<openssl/ssl.h>)
#define PSI_HAVE_TLS 1

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

/* X(name) for each function; macros of OpenSSL's headers are not in the table. */
#define PSI_OPENSSL_OF_SSL(X)                                                                                                    \
    X(OPENSSL_init_ssl)                                                                                                          \
    X(TLS_method)                                                                                                                \
    X(SSL_CTX_new_ex)                                                                                                            \
    X(SSL_CTX_free)                                                                                                              \
    X(SSL_CTX_ctrl)                                                                                                              \
    X(SSL_CTX_set_options)                                                                                                       \
    X(SSL_CTX_clear_options)                                                                                                     \
    X(SSL_CTX_set_ciphersuites)                                                                                                  \
    X(SSL_CTX_set_num_tickets)                                                                                                   \
    X(SSL_CTX_set_session_id_context)                                                                                            \
    X(SSL_CTX_set_verify)                                                                                                        \
    X(SSL_CTX_set_cert_verify_callback)                                                                                          \
    X(SSL_CTX_set_psk_use_session_callback)                                                                                      \
    X(SSL_CTX_set_psk_find_session_callback)                                                                                     \
    X(SSL_CTX_set_alpn_protos)                                                                                                   \
    X(SSL_CTX_set_alpn_select_cb)                                                                                                \
    X(SSL_CTX_use_certificate_chain_file)                                                                                        \
    X(SSL_CTX_use_PrivateKey_file)                                                                                               \
    X(SSL_CTX_check_private_key)                                                                                                 \
    X(SSL_CTX_load_verify_file)                                                                                                  \
    X(SSL_CTX_get0_certificate)                                                                                                  \
    X(SSL_CTX_get_cert_store)                                                                                                    \
    X(SSL_new)                                                                                                                   \
    X(SSL_free)                                                                                                                  \
    X(SSL_set_ex_data)                                                                                                           \
    X(SSL_get_ex_data)                                                                                                           \
    X(SSL_set_bio)                                                                                                               \
    X(SSL_set_accept_state)                                                                                                      \
    X(SSL_set_connect_state)                                                                                                     \
    X(SSL_do_handshake)                                                                                                          \
    X(SSL_get_error)                                                                                                             \
    X(SSL_get_current_cipher)                                                                                                    \
    X(SSL_session_reused)                                                                                                        \
    X(SSL_get0_peer_certificate)                                                                                                 \
    X(SSL_get_peer_cert_chain)                                                                                                   \
    X(SSL_get_verify_result)                                                                                                     \
    X(SSL_get0_alpn_selected)                                                                                                    \
    X(SSL_get_ex_data_X509_STORE_CTX_idx)                                                                                        \
    X(SSL_CIPHER_find)                                                                                                           \
    X(SSL_CIPHER_get_handshake_digest)                                                                                           \
    X(SSL_CIPHER_get_protocol_id)                                                                                                \
    X(SSL_SESSION_new)                                                                                                           \
    X(SSL_SESSION_free)                                                                                                          \
    X(SSL_SESSION_set1_master_key)                                                                                               \
    X(SSL_SESSION_set1_id_context)                                                                                               \
    X(SSL_SESSION_set_cipher)                                                                                                    \
    X(SSL_SESSION_set_protocol_version)                                                                                          \
    X(SSL_alert_desc_string_long)
#define PSI_OPENSSL_OF_CRYPTO(X)                                                                                                 \
    X(OPENSSL_init_crypto)                                                                                                       \
    X(CRYPTO_set_mem_functions)                                                                                                  \
    X(OSSL_LIB_CTX_new)                                                                                                          \
    X(OSSL_PROVIDER_add_builtin)                                                                                                 \
    X(OSSL_PROVIDER_load)                                                                                                        \
    X(ERR_clear_error)                                                                                                           \
    X(ERR_peek_error)                                                                                                            \
    X(ERR_reason_error_string)                                                                                                   \
    X(CRYPTO_memcmp)                                                                                                             \
    X(BIO_get_new_index)                                                                                                         \
    X(BIO_meth_new)                                                                                                              \
    X(BIO_meth_set_read)                                                                                                         \
    X(BIO_meth_set_write)                                                                                                        \
    X(BIO_meth_set_ctrl)                                                                                                         \
    X(BIO_free)                                                                                                                  \
    X(BIO_new)                                                                                                                   \
    X(BIO_set_data)                                                                                                              \
    X(BIO_get_data)                                                                                                              \
    X(BIO_set_init)                                                                                                              \
    X(BIO_set_flags)                                                                                                             \
    X(BIO_clear_flags)                                                                                                           \
    X(EVP_MD_get_size)                                                                                                           \
    X(EVP_CIPHER_fetch)                                                                                                          \
    X(EVP_CIPHER_CTX_new)                                                                                                        \
    X(EVP_CIPHER_CTX_free)                                                                                                       \
    X(EVP_CIPHER_CTX_ctrl)                                                                                                       \
    X(EVP_CipherInit_ex2)                                                                                                        \
    X(EVP_CipherUpdate)                                                                                                          \
    X(EVP_CipherFinal_ex)                                                                                                        \
    X(EVP_MD_fetch)                                                                                                              \
    X(EVP_MD_is_a)                                                                                                               \
    X(EVP_MD_CTX_new)                                                                                                            \
    X(EVP_MD_CTX_free)                                                                                                           \
    X(EVP_DigestInit_ex2)                                                                                                        \
    X(EVP_DigestUpdate)                                                                                                          \
    X(EVP_DigestFinal_ex)                                                                                                        \
    X(X509_verify_cert)                                                                                                          \
    X(X509_verify_cert_error_string)                                                                                             \
    X(X509_STORE_CTX_new_ex)                                                                                                     \
    X(X509_STORE_CTX_free)                                                                                                       \
    X(X509_STORE_CTX_init)                                                                                                       \
    X(X509_STORE_CTX_set_default)                                                                                                \
    X(X509_STORE_CTX_get_error)                                                                                                  \
    X(X509_STORE_CTX_set_error)                                                                                                  \
    X(X509_STORE_CTX_get0_cert)                                                                                                  \
    X(X509_STORE_CTX_get0_param)                                                                                                 \
    X(X509_STORE_CTX_get_ex_data)                                                                                                \
    X(X509_VERIFY_PARAM_set_time)                                                                                                \
    X(X509_get_ext_d2i)                                                                                                          \
    X(X509_up_ref)                                                                                                               \
    X(X509_chain_up_ref)                                                                                                         \
    X(X509_free)                                                                                                                 \
    X(X509_get0_notBefore)                                                                                                       \
    X(X509_get0_notAfter)                                                                                                        \
    X(X509_get0_serialNumber)                                                                                                    \
    X(ASN1_STRING_get0_data)                                                                                                     \
    X(ASN1_STRING_length)                                                                                                        \
    X(ASN1_TIME_to_tm)                                                                                                           \
    X(GENERAL_NAMES_free)                                                                                                        \
    X(OPENSSL_sk_pop_free)                                                                                                       \
    X(OPENSSL_sk_num)                                                                                                            \
    X(OPENSSL_sk_value)

struct psi_openssl {
#define PSI_OPENSSL_FIELD_(name) typeof(&name) name;
    PSI_OPENSSL_OF_SSL(PSI_OPENSSL_FIELD_)
    PSI_OPENSSL_OF_CRYPTO(PSI_OPENSSL_FIELD_)
#undef PSI_OPENSSL_FIELD_
    OSSL_LIB_CTX *own; /* psd's own library context, so that OpenSSL settings of the linking program have no effect on it */
    const EVP_MD *sha256;
    const EVP_CIPHER *aes, *chacha; /* ciphers of the two suites, AES-128-GCM and ChaCha20-Poly1305 */
};
/** Filled by psi_openssl_load(). While a struct psi_tls exists, the table is filled. */
extern struct psi_openssl psi_openssl;
#endif

/** Open the libraries and find every function, at the first call; later calls repeat its result. The libraries stay loaded.
 *
 * Thread  any.
 * Errors  PS_UNIMPLEMENTED: this build or this machine has no OpenSSL 3; says which package brings it */
PSI_MUST ps_status psi_openssl_load(struct psi_err *err);

#endif
