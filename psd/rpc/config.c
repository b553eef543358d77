/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: CONFIG lists them. */
#include "rpc.h"

void psd_rpc_config(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CONFIG, PS_FLAG_REPLY, r->header.id);
    const char *name = NULL, *value = NULL, *default_value = NULL, *help = NULL;
    bool reloadable = false;
    for (uint32_t i = 0; t->config.config_row != NULL &&
                         t->config.config_row(t->config.config_ctx, i, &name, &value, &default_value, &help, &reloadable);
         i++) {
        ps_v1_ConfigAnswer a = ps_v1_ConfigAnswer_init_zero;
        a.reloadable = reloadable;
        PSI_IGNORE(PSI_BYTES_SET(a.name, name));                   /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.value, value));                 /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.default_value, default_value)); /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.help, help));                   /* likewise */
        psd_list_add(&l, &ps_v1_ConfigAnswer_msg, &a);
    }
    psd_list_end(&l);
}
