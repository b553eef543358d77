/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of rights: what is accepted gives rights by its rows alone, whatever their order; each row that is shown reads back as
 * the same; what is refused names its line. Input: a table.
 */
#include "common/auth/rights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { TEXT_MAX = 16 << 10, PEOPLE = 5, PLACES = 4 };

static const struct psi_identity people[PEOPLE] = {
    {.kind = PSI_IDENTITY_ANYBODY},
    {.kind = PSI_IDENTITY_KEY, .name = "w0", .role = "worker"},
    {.kind = PSI_IDENTITY_KEY, .name = "ps", .role = "ps"},
    {.kind = PSI_IDENTITY_CERT, .name = "psd://psd/worker/0"},
    {.kind = PSI_IDENTITY_UID, .name = "1000"},
};
static const char *const places[PLACES] = {NULL, "localhost", "a", "session/0123456789abcdef"};

/* The rows that name somebody, each read by itself, give together what the table gives. */
static unsigned by_rows(const struct psi_rights *rights, const struct psi_identity *who, const char *place)
{
    unsigned found = 0;
    size_t cursor = 0;
    const char *row = NULL;
    while (psi_rights_next(rights, who, &cursor, &row)) {
        struct psi_rights *one = NULL;
        struct psi_err err = {0};
        const char *text = NULL;
        size_t first = 0;
        PSI_ASSERT(psi_rights_parse(row, strlen(row), "again", &one, &err) == PS_OK);
        PSI_ASSERT(psi_rights_next(one, who, &first, &text) && strcmp(text, row) == 0);
        found |= psi_rights_of(one, who, place);
        psi_rights_free(one);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct psi_rights *rights = NULL;
    struct psi_err err = {0};
    if (bytes > TEXT_MAX) {
        return 0;
    }
    char *text = malloc(bytes + 1); /* its end is the end of what may be read */
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, bytes);
    text[bytes] = 'x';
    if (psi_rights_parse(text, bytes, "fuzz", &rights, &err) != PS_OK) {
        PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && strncmp(err.text, "fuzz:", 5) == 0 && rights == NULL);
    }
    for (size_t i = 0; rights != NULL && i < PEOPLE; i++) {
        for (size_t k = 0; k < PLACES; k++) {
            const unsigned has = psi_rights_of(rights, &people[i], places[k]);
            PSI_ASSERT((has & ~(unsigned)(places[k] == NULL ? PSI_RIGHTS_OF_CLUSTER : PSI_RIGHTS_OF_CONTAINER)) == 0);
            PSI_ASSERT(i != 0 || has == 0);
            PSI_ASSERT(by_rows(rights, &people[i], places[k]) == has);
        }
    }
    psi_rights_free(rights);
    free(text);
    return 0;
}
