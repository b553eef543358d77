/* SPDX-License-Identifier: Apache-2.0 */
/* Names and definitions in messages, and names in texts for people. */
#ifndef PSD_ITEMS_H
#define PSD_ITEMS_H

#include "base.h"

/* ---- items.c: names and definitions in messages ---- */
/** Name of a container in a message; an empty one is the default container. */
ps_status psd_container_parse(const pb_bytes_array_t *field, char container[PS_CONTAINER_BYTES_MAX + 1],
                              struct psi_err *err) PSI_MUST;
/** Name and definition out of a CREATE item; the container's default filled in. The caller frees out->queue, which may also be
 * there when it is refused. */
ps_status psd_create_parse(const ps_v1_CreateItem *item, struct psd_create *out, struct psi_err *err) PSI_MUST;
ps_status psd_name_parse(const ps_v1_NameItem *item, char container[PS_CONTAINER_BYTES_MAX + 1], char name[PS_NAME_BYTES_MAX + 1],
                         struct psi_err *err) PSI_MUST;
/** The key in an item that names this container. Of a container that belongs to no session: nothing is read. INVALID_ARGUMENT: no
 * session has such a name; PERMISSION_DENIED: no key is there. */
ps_status psd_key_parse(const pb_bytes_array_t *field, const char *container, uint8_t key[PSI_KEY_BYTES],
                        struct psi_err *err) PSI_MUST;
/** PERMISSION_DENIED: the container belongs to a session, and the key is missing or another one. */
ps_status psd_key_denied(const char *container, struct psi_err *err) PSI_MUST;
/** INVALID_ARGUMENT: the container belongs to a session, and `what` ("rounds") is not to be had there. */
ps_status psd_session_refuse(const char *container, const char *what, struct psi_err *err) PSI_MUST;
void psd_create_to_msg(const struct psd_create *create, ps_v1_CreateItem *out);
/** The first item of r's body. what: "variable", for the error where there is none. */
ps_status psd_item_first(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what,
                         struct psi_err *err) PSI_MUST;
/** The item of r's body, which has one; of an operation that is done to one thing. out_none: set when there is none, for those
 * that may have none; NULL: that is refused. INVALID_ARGUMENT also for several: the others would be passed over in silence. */
ps_status psd_item_only(const struct psd_request *r, const pb_msgdesc_t *d, void *out, const char *what, bool *out_none,
                        struct psi_err *err) PSI_MUST;
/** v is a queue, or is none, as a request needs it. INVALID_ARGUMENT. */
ps_status psd_target_check(const struct psd_task *t, const struct psd_variable *v, bool queue, struct psi_err *err) PSI_MUST;
/** A handle whose variable was reset or deleted. */
ps_status psd_fail_gone(const struct psd_task *t, uint32_t handle, struct psi_err *err) PSI_MUST;
/** A text that a peer chose, printable, so that it can go to logs and terminals as it is. */
void psd_text_printable(const pb_bytes_array_t *field, char *dst, size_t cap);

/* ---- names_text.c ---- */
/* Names in a text for people (names_text.c), in a buffer of the caller. */
enum { PSD_NAMES_BYTES = 256, PSD_NAMES_HALF = PSD_NAMES_BYTES / 2 /* two of these go into one text */ };
struct psd_names {
    char *text;
    size_t size, used;
    uint32_t left_out;
};
/** None yet. */
#define PSD_NAMES_IN(buffer) ((struct psd_names){.text = (buffer), .size = sizeof(buffer)})
void psd_names_add(struct psd_names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "w, b and 3 more", "" without any; the last call. */
const char *psd_names_text(struct psd_names *names);
/** Tasks of the directory's job whose list has not come in since this directory began: a name that is not known may be there. */
bool psd_lists_missing(const struct psd_task *t, struct psd_names *names);

#endif
