/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. A link is embedded in its object; head and links have one type. An unlinked link points at
 * itself: removing it again does no harm, and psi_list_linked() sees whether it is in a list. One thread at a time. */
#ifndef PSI_LIST_H
#define PSI_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct psi_list {
    struct psi_list *next, *prev;
};

#define PSI_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void psi_list_init(struct psi_list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool psi_list_empty(const struct psi_list *head)
{
    return head->next == head;
}

static inline bool psi_list_linked(const struct psi_list *link)
{
    return link->next != link;
}

static inline void psi_list_insert_between(struct psi_list *link, struct psi_list *prev, struct psi_list *next)
{
    link->prev = prev;
    link->next = next;
    prev->next = link;
    next->prev = link;
}

static inline void psi_list_push_back(struct psi_list *head, struct psi_list *link)
{
    psi_list_insert_between(link, head->prev, head);
}

static inline void psi_list_push_front(struct psi_list *head, struct psi_list *link)
{
    psi_list_insert_between(link, head, head->next);
}

/** Put link before pos, a link of the list. If pos is the list's head, link becomes the last one. */
static inline void psi_list_insert_before(struct psi_list *pos, struct psi_list *link)
{
    psi_list_insert_between(link, pos->prev, pos);
}

static inline void psi_list_remove(struct psi_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    psi_list_init(link);
}

/** psi_list_first() and psi_list_last() return the link at that end of the list; NULL: the list is empty. */
static inline struct psi_list *psi_list_first(const struct psi_list *head)
{
    return psi_list_empty(head) ? NULL : head->next;
}

static inline struct psi_list *psi_list_last(const struct psi_list *head)
{
    return psi_list_empty(head) ? NULL : head->prev;
}

/** Take out the first link. NULL: the list is empty. */
static inline struct psi_list *psi_list_pop_front(struct psi_list *head)
{
    struct psi_list *link = psi_list_first(head);
    if (link != NULL) {
        psi_list_remove(link);
    }
    return link;
}

static inline void psi_list_move_all(struct psi_list *to, struct psi_list *from)
{
    if (!psi_list_empty(from)) {
        struct psi_list *first = from->next;
        struct psi_list *last = from->prev;
        first->prev = to->prev;
        to->prev->next = first;
        last->next = to;
        to->prev = last;
        psi_list_init(from);
    }
}

/** Loop over the links of a list. it: struct psi_list *. The body must not remove links. */
#define PSI_LIST_FOREACH(it, head) for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
/** PSI_LIST_FOREACH() whose body may remove and free `it`, but no other link. tmp: struct psi_list *, for the macro only. */
#define PSI_LIST_FOREACH_SAFE(it, tmp, head)                                                                                     \
    for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); (it) = (tmp), (tmp) = (it)->next)

#endif
