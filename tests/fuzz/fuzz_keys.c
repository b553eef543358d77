/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a peer says it is, and key files: what is accepted is sound, is written, and reads back as the same; what is refused says
 * why, and no text has a secret.
 *
 * Input: the first byte, modulo 4, says what the rest is: 0 a key file, 1 an identity in a ClientHello, 2 the URI of a
 * certificate, 3 an identity as text.
 */
#include "common/auth/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TEXT_MAX = 64 << 10 };

/* Sixteen digits of the secret, the shortest piece that counts as a part of one. */
static void has_no_secret(const char *text, const struct psi_key *key)
{
    char line[PSI_KEY_LINE_BYTES], piece[17] = {0};
    PSI_IGNORE(psi_key_format(key, line));
    memcpy(piece, strstr(line, key->role) + strlen(key->role) + 1, 16);
    PSI_ASSERT(strstr(text, piece) == NULL);
}

static void check_key(const struct psi_keys *keys, const struct psi_key *key)
{
    char line[PSI_KEY_LINE_BYTES], again[PSI_KEY_LINE_BYTES], wire[PSI_KEY_WIRE_BYTES_MAX + 1];
    struct psi_keys *one = NULL;
    struct psi_key_wire parts;
    struct psi_identity identity;
    struct psi_err err = {0};
    PSI_ASSERT(psi_keys_find(keys, key->name, key->key_id) == key);
    PSI_ASSERT(psi_role_is(key->role, strlen(key->role)));
    ps_status st = psi_keys_parse(line, psi_key_format(key, line), "again", &one, &err);
    PSI_ASSERT(st == PS_OK && psi_keys_count(one) == 1);
    PSI_IGNORE(psi_key_format(psi_keys_at(one, 0), again));
    PSI_ASSERT(strcmp(line, again) == 0);
    psi_keys_free(one);
    PSI_ASSERT(psi_key_wire_parse((const uint8_t *)wire, psi_key_wire(key, NULL, wire), &parts));
    PSI_ASSERT(strcmp(parts.name, key->name) == 0 && strcmp(parts.cluster, key->cluster) == 0);
    psi_key_identity(key, &identity);
    PSI_ASSERT(strcmp(identity.name, key->name) == 0);
}

static void key_file(const char *text, size_t n)
{
    struct psi_keys *keys = NULL, *first = NULL;
    struct psi_err err = {0};
    if (psi_keys_parse(text, n, "fuzz", &keys, &err) == PS_OK) {
        for (size_t i = 0; i < psi_keys_count(keys); i++) {
            const struct psi_key *key = psi_keys_at(keys, i);
            PSI_ASSERT(i == 0 || key->line > psi_keys_at(keys, i - 1)->line);
            check_key(keys, key);
        }
        const struct psi_key *key = psi_keys_first_use(keys, NULL, 1800000000);
        PSI_ASSERT(key == NULL || (key->use && !psi_key_is_expired(key, 1800000000)));
        psi_keys_free(keys);
        return;
    }
    PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && strncmp(err.text, "fuzz:", 5) == 0);
    /* the lines before the bad one, where they are good by themselves */
    const char *newline = memrchr(text, '\n', n);
    if (newline != NULL && psi_keys_parse(text, (size_t)(newline - text), "fuzz", &first, NULL) == PS_OK) {
        for (size_t i = 0; i < psi_keys_count(first); i++) {
            has_no_secret(err.text, psi_keys_at(first, i));
        }
        psi_keys_free(first);
    }
}

static void uri_text(const char *text, size_t n)
{
    struct psi_uri uri;
    struct psi_err err = {0};
    char again[PSI_IDENTITY_BYTES_MAX + 1];
    bool fits = false;
    if (psi_uri_parse(text, n, &uri, &err) != PS_OK) {
        PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && strncmp(err.text, "URI '", 5) == 0);
        return;
    }
    PSI_ASSERT(strlen(psi_uri_text(&uri, again, &fits)) == n && fits && memcmp(again, text, n) == 0);
}

static void identity_text(const char *text)
{
    struct psi_identity identity;
    struct psi_err err = {0};
    char again[PSI_IDENTITY_TEXT_BYTES];
    if (psi_identity_parse(text, &identity, &err) != PS_OK) {
        PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && strncmp(err.text, "identity '", 10) == 0);
        return;
    }
    PSI_ASSERT(strcmp(psi_identity_text(&identity, again, sizeof(again)), text) == 0);
    PSI_ASSERT(psi_identity_equal(&identity, &identity));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct psi_key_wire parts;
    if (bytes < 1 || bytes > TEXT_MAX) {
        return 0;
    }
    char *text = malloc(bytes);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        key_file(text, bytes - 1);
        break;
    case 1:
        PSI_IGNORE(psi_key_wire_parse((const uint8_t *)text, bytes - 1, &parts));
        break;
    case 2:
        uri_text(text, bytes - 1);
        break;
    default:
        identity_text(text);
        break;
    }
    free(text);
    return 0;
}
