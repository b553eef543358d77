/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: CONFIG lists them, CONFIG_SET changes one.
 *
 * Happy path of CONFIG_SET: the setting may change while the task runs. psd_task_config.config_set() checks and applies the
 * value. The log says who changed the setting. Failure changes nothing. The error has for an unknown name the most similar one,
 * for a setting that needs a restart the settings that need none, for a bad value the text of config_set(). */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"
#include "common/near.h"

#include <stdio.h>
#include <string.h>

struct setting {
    const char *name, *value, *default_value, *help;
    bool reloadable;
};

static bool setting(const struct psd_task *t, uint32_t i, struct setting *out)
{
    *out = (struct setting){.name = NULL};
    return t->config.config_row != NULL && t->config.config_row(t->config.config_ctx, i, &out->name, &out->value,
                                                                &out->default_value, &out->help, &out->reloadable);
}

void psd_rpc_config(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CONFIG, PS_FLAG_REPLY, r->header.id);
    struct setting row;
    for (uint32_t i = 0; setting(t, i, &row); i++) {
        ps_v1_ConfigAnswer a = ps_v1_ConfigAnswer_init_zero;
        a.reloadable = row.reloadable && t->config.config_set != NULL;
        PSI_IGNORE(PSI_BYTES_SET(a.name, row.name));                   /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.value, row.value));                 /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.default_value, row.default_value)); /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.help, row.help));                   /* cut is fine */
        psd_list_add(&l, &ps_v1_ConfigAnswer_msg, &a);
    }
    psd_list_end(&l);
}

/* The names of the settings that may change, as "a, b, c". */
static const char *changeable(const struct psd_task *t, struct psd_names *names)
{
    struct setting row;
    for (uint32_t i = 0; t->config.config_set != NULL && setting(t, i, &row); i++) {
        if (row.reloadable) {
            psd_names_add(names, "%s", row.name);
        }
    }
    return names->used == 0 ? "none" : psd_names_text(names);
}

static ps_status find_row(const struct psd_task *t, const char *name, struct setting *out, uint32_t *out_index,
                          struct psi_err *err)
{
    size_t best = SIZE_MAX;
    const char *nearest = NULL;
    struct setting row;
    for (uint32_t i = 0; setting(t, i, &row); i++) {
        size_t d = psi_near(name, row.name);
        if (d == 0) {
            *out = row;
            *out_index = i;
            return PS_OK;
        }
        if (d < best) {
            best = d;
            nearest = row.name;
        }
    }
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_NOT_FOUND, "%s has no setting %s%s%s%s", t->name,
                    psi_quote(quoted, sizeof(quoted), name, strlen(name)), nearest == NULL ? "" : "; did you mean ",
                    nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

static ps_status read_item(const struct psd_request *r, char *name, size_t name_cap, char *value, size_t value_cap,
                           struct psi_err *err)
{
    ps_v1_ConfigItem item;
    ps_status st = psd_item_only(r, &ps_v1_ConfigItem_msg, &item, "setting", NULL, err);
    if (st != PS_OK) {
        return st;
    }
    if (PSI_BYTES_TEXT(item.name, name, name_cap) != PS_OK || PSI_BYTES_TEXT(item.value, value, value_cap) != PS_OK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "CONFIG_SET: its name or value is not understood");
    }
    for (const char *at = value; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "CONFIG_SET: the value has control bytes");
        }
    }
    return PS_OK;
}

static ps_status set(struct psd_task *t, const struct psd_conn *c, const char *name, const char *value, struct psi_err *err)
{
    struct setting row;
    uint32_t index = 0;
    char text[PSI_ERR_TEXT_MAX] = "", buffer[PSI_ERR_TEXT_MAX / 2], old[512];
    struct psd_names names = PSD_NAMES_IN(buffer);
    ps_status st = find_row(t, name, &row, &index, err);
    if (st != PS_OK) {
        return st;
    }
    if (t->config.config_set == NULL || !row.reloadable) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s takes a restart of %s; what may change while it runs: %s", row.name,
                        t->name, changeable(t, &names));
    }
    PSI_IGNORE(snprintf(old, sizeof(old), "%s", row.value)); /* copied, because config_set() may reuse the buffer */
    st = t->config.config_set(t->config.shell, row.name, value, text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    if (st != PS_OK) {
        return psi_fail(err, st, "%s", text);
    }
    PSI_IGNORE(setting(t, index, &row)); /* row.value becomes the new value; cannot fail: the row exists */
    psd_log(t, PSI_LOG_INFO, "config_set", PSI_KV("peer", c->text), PSI_KV("name", row.name), PSI_KV("old", old),
            PSI_KV("new", row.value));
    return PS_OK;
}

void psd_rpc_config_set(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    char name[64], value[512];
    struct psi_err err;
    ps_status st = read_item(r, name, sizeof(name), value, sizeof(value), &err);
    if (st == PS_OK) {
        st = set(t, c, name, value, &err);
    }
    psd_reply(t, c, PS_OP_CONFIG_SET, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}
