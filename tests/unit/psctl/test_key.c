/* SPDX-License-Identifier: Apache-2.0 */
/* worker/psctl/key_say.c: the rows that psctl key new prints are rows of rights, and give each role what it is for. */
#include "test.h"
#include "../../../worker/psctl/key.h"

#include "common/auth/rights.h"

static void free_rights(void *rights)
{
    psi_rights_free(rights);
}

TEST(test_rows_of_roles)
{
    enum {
        TRAIN = PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF,
        TRAIN_TOO = PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE | PSI_RIGHT_MEMBER /* on the cluster */
    };
    static const struct {
        const char *role;
        unsigned on_container, on_cluster;
    } want[PSCTL_KEY_ROLES] = {
        {"ps", TRAIN, TRAIN_TOO},
        {"worker", TRAIN, TRAIN_TOO},
        {"monitor", PSI_RIGHT_READ, PSI_RIGHT_READ},
        {"admin", PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CLUSTER},
    };
    char text[1024] = "";
    struct psi_rights *rights = NULL;
    struct psi_err err = {0};
    for (size_t i = 0; i < PSCTL_KEY_ROLES; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "allow %s\n", psctl_key_roles[i].row);
        assert_string_equal(psctl_key_roles[i].role, want[i].role);
        assert_ok(psi_role_check(want[i].role, strlen(want[i].role), &err), &err);
    }
    assert_ok(psi_rights_parse(text, strlen(text), "rows", &rights, &err), &err);
    test_later(free_rights, rights);
    for (size_t i = 0; i < PSCTL_KEY_ROLES; i++) {
        struct psi_identity who = {.kind = PSI_IDENTITY_KEY, .name = "w0"};
        snprintf(who.role, sizeof(who.role), "%s", want[i].role);
        assert_int_equal(psi_rights_of(rights, &who, "localhost") & PSI_RIGHTS_OF_CONTAINER, want[i].on_container);
        assert_int_equal(psi_rights_of(rights, &who, NULL) & PSI_RIGHTS_OF_CLUSTER, want[i].on_cluster);
    }
}
