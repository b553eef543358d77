/* SPDX-License-Identifier: Apache-2.0 */
/* common/list.h: order, removal in any state, iteration that removes. */
#include "test.h"

#include "common/list.h"

struct item {
    int number;
    struct psi_list link;
};

static struct item items[5];

static void expect(struct psi_list *head, const int *numbers, size_t count)
{
    struct psi_list *it = NULL;
    size_t i = 0;
    PSI_LIST_FOREACH(it, head) {
        assert_true(i < count);
        assert_int_equal(PSI_CONTAINER_OF(it, struct item, link)->number, numbers[i]);
        assert_ptr_equal(it->next->prev, it);
        assert_ptr_equal(it->prev->next, it);
        i++;
    }
    assert_int_equal(i, count);
}

BEFORE_EACH
{
    for (int i = 0; i < 5; i++) {
        items[i].number = i;
        psi_list_init(&items[i].link);
    }
}

TEST(test_order)
{
    struct psi_list head;
    psi_list_init(&head);
    assert_true(psi_list_empty(&head));
    assert_null(psi_list_first(&head));
    assert_null(psi_list_last(&head));
    assert_null(psi_list_pop_front(&head));
    psi_list_push_back(&head, &items[1].link);
    psi_list_push_back(&head, &items[2].link);
    psi_list_push_front(&head, &items[0].link);
    psi_list_insert_before(&items[2].link, &items[3].link);
    psi_list_insert_before(&head, &items[4].link);
    expect(&head, (const int[]){0, 1, 3, 2, 4}, 5);
    assert_ptr_equal(psi_list_first(&head), &items[0].link);
    assert_ptr_equal(psi_list_last(&head), &items[4].link);
    assert_ptr_equal(psi_list_pop_front(&head), &items[0].link);
    expect(&head, (const int[]){1, 3, 2, 4}, 4);
}

TEST(test_remove)
{
    struct psi_list head;
    psi_list_init(&head);
    for (int i = 0; i < 5; i++) {
        assert_false(psi_list_linked(&items[i].link));
        psi_list_push_back(&head, &items[i].link);
        assert_true(psi_list_linked(&items[i].link));
    }
    psi_list_remove(&items[2].link);
    psi_list_remove(&items[0].link);
    psi_list_remove(&items[4].link);
    expect(&head, (const int[]){1, 3}, 2);
    assert_false(psi_list_linked(&items[2].link));
    psi_list_remove(&items[2].link); /* again: nothing happens */
    expect(&head, (const int[]){1, 3}, 2);
    psi_list_remove(&items[1].link);
    psi_list_remove(&items[3].link);
    assert_true(psi_list_empty(&head));
    assert_false(psi_list_linked(&head));
}

TEST(test_foreach_safe)
{
    struct psi_list head;
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    int visited = 0;
    psi_list_init(&head);
    for (int i = 0; i < 5; i++) {
        psi_list_push_back(&head, &items[i].link);
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &head) {
        visited++;
        if (PSI_CONTAINER_OF(it, struct item, link)->number % 2 == 0) {
            psi_list_remove(it);
        }
    }
    assert_int_equal(visited, 5);
    expect(&head, (const int[]){1, 3}, 2);
}

TEST(test_move_all)
{
    struct psi_list a;
    struct psi_list b;
    psi_list_init(&a);
    psi_list_init(&b);
    psi_list_move_all(&a, &b);
    assert_true(psi_list_empty(&a));
    psi_list_push_back(&a, &items[0].link);
    psi_list_push_back(&b, &items[1].link);
    psi_list_push_back(&b, &items[2].link);
    psi_list_move_all(&a, &b);
    expect(&a, (const int[]){0, 1, 2}, 3);
    assert_true(psi_list_empty(&b));
    psi_list_move_all(&b, &a);
    expect(&b, (const int[]){0, 1, 2}, 3);
    assert_true(psi_list_empty(&a));
}
