/* SPDX-License-Identifier: Apache-2.0 */
/* worker/pstrain/sha256.c against the examples of FIPS 180-2, appendix B, and against itself in pieces. */
#include "test.h"
#include "worker/pstrain/sha256.h"

static const char *of(const void *data, size_t bytes, size_t piece, char hex[SHA256_HEX_BYTES])
{
    struct sha256 s;
    sha256_init(&s);
    for (size_t at = 0; at < bytes; at += piece) {
        sha256_add(&s, (const uint8_t *)data + at, bytes - at < piece ? bytes - at : piece);
    }
    sha256_end(&s, hex);
    return hex;
}

TEST(test_examples)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"; /* its padding takes another block */
    static uint8_t million[1000000];
    char hex[SHA256_HEX_BYTES];
    memset(million, 'a', sizeof(million));
    assert_string_equal(of("abc", 3, 3, hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(of(two, 56, 56, hex), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_string_equal(of(million, sizeof(million), sizeof(million), hex),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_string_equal(of("", 0, 1, hex), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(test_pieces)
{
    uint8_t data[300];
    char whole[SHA256_HEX_BYTES], pieces[SHA256_HEX_BYTES];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7);
    }
    for (size_t n = 1; n <= sizeof(data); n++) {
        (void)of(data, n, n, whole);
        for (size_t piece = 1; piece < n; piece += 13) {
            assert_string_equal(of(data, n, piece, pieces), whole);
        }
    }
}
