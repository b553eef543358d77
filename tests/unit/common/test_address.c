/* SPDX-License-Identifier: Apache-2.0 */
/* common/address.c: every form, every fault, lengths at their limits; what is printed reads back. */
#include "test.h"

#include "common/cluster.h"

TEST(test_good)
{
    struct psi_err err;
    static const struct {
        const char *in, *out;
        enum psi_address_kind kind;
        uint16_t port;
    } rows[] = {
        {"127.0.0.1:2223", "127.0.0.1:2223", PSI_ADDRESS_TCP, 2223},
        {"psd://ps0.example.com:1", "ps0.example.com:1", PSI_ADDRESS_TCP, 1},
        {"grpc://ps0.example.com:1", "ps0.example.com:1", PSI_ADDRESS_TCP, 1}, /* as TensorFlow's programs have it */
        {"grpc://[::1]:7", "[::1]:7", PSI_ADDRESS_TCP, 7},
        {"localhost", "localhost:2222", PSI_ADDRESS_TCP, 2222},
        {"psd://my_host-2", "my_host-2:2222", PSI_ADDRESS_TCP, 2222},
        {"h:65535", "h:65535", PSI_ADDRESS_TCP, 65535},
        {"h:00080", "h:80", PSI_ADDRESS_TCP, 80},
        {"[::1]:2222", "[::1]:2222", PSI_ADDRESS_TCP, 2222},
        {"[::]", "[::]:2222", PSI_ADDRESS_TCP, 2222},
        {"psd://[fe80::1%eth0]:7", "[fe80::1%eth0]:7", PSI_ADDRESS_TCP, 7},
        {"[::ffff:10.0.0.1]:9", "[::ffff:10.0.0.1]:9", PSI_ADDRESS_TCP, 9},
        {"unix:/run/psd.sock", "unix:/run/psd.sock", PSI_ADDRESS_UNIX, 0},
        {"psd://unix:rel/a b=c:1", "unix:rel/a b=c:1", PSI_ADDRESS_UNIX, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_address a;
        struct psi_address b;
        char text[PS_ADDRESS_BYTES_MAX + 1];
        assert_ok(psi_address_parse(rows[i].in, false, &a, &err), &err);
        assert_int_equal(a.kind, rows[i].kind);
        assert_int_equal(a.port, rows[i].port);
        assert_string_equal(psi_address_format(&a, text, sizeof(text)), rows[i].out);
        assert_ok(psi_address_parse(text, false, &b, &err), &err);
        assert_true(psi_address_equal(&a, &b));
    }
}

TEST(test_bad)
{
    struct psi_err err;
    static const struct {
        const char *in, *fault;
    } rows[] = {
        {"", "address '': the host is empty"},
        {"psd://", "the host is empty"},
        {":2222", "the host is empty"},
        {"h:", "the port is not a number from 1 to 65535"},
        {"h:x", "the port"},
        {"h:-1", "the port"},
        {"h:+1", "the port"},
        {"h: 1", "the port"},
        {"h:65536", "the port"},
        {"h:100000", "the port"},
        {"h:22222222222222222222", "the port"},
        {"h:0", "port 0"},
        {"[::1]:0", "port 0"},
        {"::1", "brackets"},
        {"a:1:2", "more than one ':'"},
        {"[::1", "']' is missing"},
        {"[::1]2222", "the port"},
        {"[localhost]:1", "not an IPv6 address"},
        {"[]:1", "not an IPv6 address"},
        {"[1.2.3.4]:1", "not an IPv6 address"},
        {"[1:2:3:4:5:6:7:8:9]:1", "not an IPv6 address"},
        {"[fe80::1%]:1", "the zone"},
        {"[fe80::1%a/b]:1", "the zone"},
        {"ho st:1", "letters, digits"},
        {"host/:1", "letters, digits"},
        {"http://h:1", "the scheme must be psd:// or grpc://, or none"},
        {"grpc://grpc://h:1", "the scheme must be"},
        {"psd://", "the host is empty"},
        {"-h:1", "begins with"},
        {".h:1", "begins with"},
        {"h\n:1", "'h\\x0a:1'"},
        {"unix:", "the path is empty"},
        {"unix:/a\tb", "control byte"},
        {"unix:/a;b", "','"},
    };
    struct psi_address a = {.port = 77};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_fails(psi_address_parse(rows[i].in, false, &a, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_non_null(strstr(err.text, "allowed are HOST:PORT"));
        assert_int_equal(a.port, 77);
    }
    assert_fails(psi_address_parse_n("a\0b:1", 5, false, &a, &err), PS_INVALID_ARGUMENT, &err, "'a\\x00b:1'");
    assert_fails(psi_address_parse_n("unix:/a\0b", 9, false, &a, &err), PS_INVALID_ARGUMENT, &err, "control byte");
    assert_ok(psi_address_parse("h:0", true, &a, &err), &err);
    assert_int_equal(a.port, 0);
}

TEST(test_lengths)
{
    struct psi_err err;
    struct psi_address a;
    char text[400];
    char printed[PS_ADDRESS_BYTES_MAX + 1];
    for (size_t n = PS_HOST_BYTES_MAX - 1; n <= PS_HOST_BYTES_MAX + 1; n++) {
        memset(text, 'h', n);
        memcpy(text + n, ":65535", 7);
        if (n <= PS_HOST_BYTES_MAX) {
            assert_ok(psi_address_parse(text, false, &a, &err), &err);
            assert_string_equal(psi_address_format(&a, printed, sizeof(printed)), text);
        } else {
            assert_fails(psi_address_parse(text, false, &a, &err), PS_INVALID_ARGUMENT, &err, "more than 255 bytes");
        }
    }
    memcpy(text, "unix:", 5);
    for (size_t n = PSI_UNIX_PATH_MAX - 1; n <= PSI_UNIX_PATH_MAX + 1; n++) {
        memset(text + 5, 'p', n);
        text[5 + n] = '\0';
        if (n <= PSI_UNIX_PATH_MAX) {
            assert_ok(psi_address_parse(text, false, &a, &err), &err);
            assert_int_equal(strlen(a.path), n);
        } else {
            assert_fails(psi_address_parse(text, false, &a, &err), PS_INVALID_ARGUMENT, &err, "more than 107 bytes");
        }
    }
}

TEST(test_equal)
{
    struct psi_err err;
    static const struct {
        const char *a, *b;
        bool equal;
    } rows[] = {
        {"h", "h:2222", true},       {"Host:1", "hOST:1", true},    {"h:1", "h:2", false},
        {"a:1", "b:1", false},       {"unix:/a", "unix:/A", false}, {"unix:/a", "psd://unix:/a", true},
        {"unix:h", "h:2222", false}, {"[::1]:1", "[::1]:1", true},  {"[::1]:1", "[::2]:1", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_address a;
        struct psi_address b;
        assert_ok(psi_address_parse(rows[i].a, false, &a, &err), &err);
        assert_ok(psi_address_parse(rows[i].b, false, &b, &err), &err);
        assert_int_equal(psi_address_equal(&a, &b), rows[i].equal);
        assert_int_equal(psi_address_equal(&b, &a), rows[i].equal);
    }
}
