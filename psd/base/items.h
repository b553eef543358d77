/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names and definitions from the items of messages (items.c), and makes lists of names for people (names_text.c). */
#ifndef PSD_ITEMS_H
#define PSD_ITEMS_H

#include "base.h"

/* ---- items.c: names and definitions in messages ---- */
/** Read a container's name from a field of a message; an empty field is the default container. INVALID_ARGUMENT: a wrong name. */
ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1],
                              struct psi_err *err) PSI_MUST;
/** Read name and definition from an item of a CREATE. The caller frees out->queue, also after an error. */
ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err) PSI_MUST;
ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err) PSI_MUST;
/** If a session owns the container: read its key from the item. INVALID_ARGUMENT: a wrong name; PERMISSION_DENIED: no key. */
ps_status psd_key_parse(const pb_bytes_array_t *field, const char *container, uint8_t key[PSI_KEY_BYTES],
                        struct psi_err *err) PSI_MUST;
/** Set err: the key of a session's container is missing or wrong. Returns PERMISSION_DENIED. */
ps_status psd_key_denied(const char *container, struct psi_err *err) PSI_MUST;
/** Check that the container does not belong to a session: `what` (such as "rounds") is not possible in such a container.
 * INVALID_ARGUMENT. */
ps_status psd_session_refuse(const char *container, const char *what, struct psi_err *err) PSI_MUST;
void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out);
/** The items of r's body. */
static inline struct psi_items psd_items_of(const struct psd_request *r)
{
    return (struct psi_items){.at = r->body, .bytes_left = r->body_bytes};
}
/** Read the first item of r's body. what: what it should be, such as "variable", for the error if there is none. */
ps_status psd_item_first(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what,
                         struct psi_err *err) PSI_MUST;
/** Read the only item of r's body. *out_none: true if there is no item. INVALID_ARGUMENT: there are several, or there is none and
 * out_none is NULL. */
ps_status psd_item_only(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, bool *out_none,
                        struct psi_err *err) PSI_MUST;
/** Check that v is a queue (`queue` true) or is no queue (false). INVALID_ARGUMENT. */
ps_status psd_target_check(const struct psd_task *t, const struct psd_variable *v, bool queue, struct psi_err *err) PSI_MUST;
ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err) PSI_MUST;
/** Copy a text that a peer has chosen, with characters replaced that logs and terminals cannot show. */
void psd_text_printable(const pb_bytes_array_t *field, char *dst, size_t cap);

/* ---- names_text.c ---- */
enum { PSD_NAMES_BYTES = 256, PSD_NAMES_HALF = PSD_NAMES_BYTES / 2 /* PSD_NAMES_HALF: for two lists of names in one text */ };
struct psd_names {
    char *text;
    size_t size, used;
    uint32_t left_out;
};
#define PSD_NAMES_IN(buffer) ((struct psd_names){.text = (buffer), .size = sizeof(buffer)})
void psd_names_add(struct psd_names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** End the list, as "w, b and 3 more"; "" without names. Add no names afterwards. */
const char *psd_names_text(struct psd_names *names);
/** Add the tasks of the directory's job that wait for a checkpoint, or have not sent their list of names to this directory
 * process. True: there are such tasks. */
bool psd_lists_missing(const struct psd_task *t, struct psd_names *names);

#endif
