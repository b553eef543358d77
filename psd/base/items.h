/* SPDX-License-Identifier: Apache-2.0 */
/* Names and definitions in messages, and names in texts for people. */
#ifndef PSD_ITEMS_H
#define PSD_ITEMS_H

#include "base.h"

/* ---- items.c: names and definitions in messages ---- */
/** Name of a container in a message; an empty one is the default container. */
ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1],
                              struct psi_err *err) PSI_MUST;
/** Read name and definition from a CREATE item; no container means the default one. The caller frees out->queue, which may be set
 * even if the item is refused. */
ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err) PSI_MUST;
ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err) PSI_MUST;
/** Read the key in an item that names this container, if the container belongs to a session. INVALID_ARGUMENT: no session has
 * such a name; PERMISSION_DENIED: the key is missing. */
ps_status psd_key_parse(const pb_bytes_array_t *field, const char *container, uint8_t key[PSI_KEY_BYTES],
                        struct psi_err *err) PSI_MUST;
/** Fail with PERMISSION_DENIED: the container belongs to a session, and the key is missing or wrong. */
ps_status psd_key_denied(const char *container, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT if the container belongs to a session, where `what` ("rounds") is not possible. */
ps_status psd_session_refuse(const char *container, const char *what, struct psi_err *err) PSI_MUST;
void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out);
/** Read the first item of r's body. what: "variable", for the error if there is none. */
ps_status psd_item_first(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what,
                         struct psi_err *err) PSI_MUST;
/** Read the only item of r's body. out_none: set if there is none; NULL: an item is required. INVALID_ARGUMENT also for several
 * items, because the others would be ignored silently. */
ps_status psd_item_only(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, bool *out_none,
                        struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT unless v is a queue, or is none, as the request needs it. */
ps_status psd_target_check(const struct psd_task *t, const struct psd_variable *v, bool queue, struct psi_err *err) PSI_MUST;
/** Fail: the variable of this handle was reset or deleted. */
ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err) PSI_MUST;
/** Copy a text that a peer chose, made printable for logs and terminals. */
void psd_text_printable(const pb_bytes_array_t *field, char *dst, size_t cap);

/* ---- names_text.c ---- */
/* Names in a text for people (names_text.c), in a buffer of the caller. */
enum { PSD_NAMES_BYTES = 256, PSD_NAMES_HALF = PSD_NAMES_BYTES / 2 /* two of these fit into one text */ };
struct psd_names {
    char *text;
    size_t size, used;
    uint32_t left_out;
};
/** An empty list of names. */
#define PSD_NAMES_IN(buffer) ((struct psd_names){.text = (buffer), .size = sizeof(buffer)})
void psd_names_add(struct psd_names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "w, b and 3 more"; "" without names. The last call for these names. */
const char *psd_names_text(struct psd_names *names);
/** True if some tasks of the directory's job have not listed since this directory began: an unknown name may be there. */
bool psd_lists_missing(const struct psd_task *t, struct psd_names *names);

#endif
