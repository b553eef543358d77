/* SPDX-License-Identifier: Apache-2.0 */
/* What a task reports to the directory of its own disk: the highest checkpoint number that it has heard of, the checkpoints of
 * which it has a part, and its bars. Failure: none; a task whose disk is not read yet reports nothing. */
#include "shards.h"

static void list_one(struct psd_list *l, const char *container, uint64_t number, enum ps_saved_state state)
{
    ps_v1_ListItem item = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, container)); /* fits: checked name */
    item.has_saved = true;
    item.saved = (ps_v1_SavedItem){.number = number, .state = (uint32_t)state};
    psd_list_add(l, &ps_v1_ListItem_msg, &item);
}

static void list_bars(struct psd_list *l, const struct psd_bars *b)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &b->all) {
        const struct psd_bar *bar = PSI_CONTAINER_OF(it, struct psd_bar, link);
        if (bar->name[0] == '\0' && bar->container[0] != '\0') {
            list_one(l, bar->container, bar->number, PS_SAVED_BAR);
        }
    }
}

void psd_shards_list_add(const struct psd_task *t, struct psd_list *l)
{
    struct psi_list *it = NULL;
    if (!psd_shards_is_able(t)) {
        return;
    }
    list_one(l, "", t->shards->highest, PS_SAVED_HEARD);
    PSI_LIST_FOREACH(it, &t->shards->list) {
        const struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        if (shard->stage == PSD_SHARD_STAYS) {
            list_one(l, "", shard->number, shard->manifest_bytes != 0 ? PS_SAVED_WHOLE : PS_SAVED_UNDECIDED);
        }
    }
    list_bars(l, &t->shards->bars);
    list_bars(l, &t->shards->others.bars);
    psd_others_list_add(t, l);
}
