/* SPDX-License-Identifier: Apache-2.0 */
/* worker/api/tuple.c: memory for what a task says that it gives. */
#include "test.h"

#include "worker/api/queue.h"

/* Sizes that no elements have, of which a sum with a head is small, or a power of two that is large enough is none. */
TEST(test_sizes_that_overflow)
{
    static const uint64_t bytes[] = {UINT64_MAX - 7, UINT64_MAX - 15, UINT64_MAX - 23, (UINT64_C(1) << 63) + 8,
                                     UINT64_C(1) << 50};
    const ps_queue q = {
        .spec = {.kind = PSI_QUEUE_FIFO, .component_count = 1, .capacity = -1, .components = {{.dtype = PS_F32}}}};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        for (int many = 0; many < 2; many++) {
            struct psi_err err = {0};
            const struct ps_dequeue_result got = {.bytes = bytes[i], .count = 1};
            uint8_t *room = NULL;
            ps_tuple *t = ps_tuple_new(&q);
            assert_non_null(t);
            psi_tuple_to_take(t, 1, many != 0, false);
            assert_int_equal(t->take.room(&t->take, &got, &room, &err), PS_INTERNAL);
            assert_null(room);
            assert_int_equal(ps_tuple_count(t), 0);
            ps_tuple_free(t);
        }
    }
}
