/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/io_secure.c: a key that is replaced while a session lives is used for the next connection, as soon as it can be read.
 */
#include "test.h"

#include "worker/io_secure.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "w0 00000001 worker 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef use\n"
#define NEW "w0 00000002 worker fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210 use\n"

static void put(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

/* cp has made it readable to all, so that it is refused, and chmod follows: neither size nor time tells of that. */
TEST(test_a_key_that_can_be_read_later)
{
    const char *path = test_path(test_dir(), "key");
    struct psi_secure *secure = NULL;
    struct psi_err err = {0};
    ps_session_options o;
    ps_session_options_init(&o);
    o.key_file = path;
    put(path, OLD, 0600);
    assert_ok(psi_secure_new(&o, &secure, &err), &err);
    struct psi_tls *const before = psi_secure_tls(secure);
    assert_non_null(before);
    put(path, NEW NEW, 0644);
    assert_ptr_equal(psi_secure_tls(secure), before);
    put(path, NEW, 0644);
    assert_ptr_equal(psi_secure_tls(secure), before);
    assert_int_equal(chmod(path, 0600), 0);
    struct psi_tls *const after = psi_secure_tls(secure);
    assert_ptr_not_equal(after, before);
    assert_ptr_equal(psi_secure_tls(secure), after);
    psi_secure_free(secure);
}
