/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory (DESIGN §10): which task has which name, and with what definition. Only the directory task fills it. A name
 * is recorded before its owner is asked to make it, and stays when the owner drops out; only the owner's own refusal takes it
 * away.
 */
#ifndef PSD_DIRECTORY_H
#define PSD_DIRECTORY_H

#include "psd/store/variable.h"

struct psd_name {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct psd_definition definition;
    uint32_t owner; /* peer index, psd/state.h */
    bool sure;      /* the owner has said that it has it */
    uint64_t life;  /* of the process of the owner that said so last; 0: none */
    uint64_t asked; /* of the one that was asked for it last, when none has said so since */
};

struct psd_directory {
    struct psi_map names; /* container \0 name -> struct psd_name */
    uint64_t forgotten;   /* names so far */
};

void psd_directory_init(struct psd_directory *d, const uint64_t map_seed[2]);
void psd_directory_fini(struct psd_directory *d);
struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name);
ps_status psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                               const struct psd_definition *definition, uint32_t owner, struct psd_name **out,
                               struct psi_err *err) PSI_MUST;
/** Its owner, as the process with that life, has said that it has it. */
void psd_directory_confirm(struct psd_name *n, uint64_t life);
void psd_directory_forget(struct psd_directory *d, struct psd_name *n);
void psd_directory_forget_container(struct psd_directory *d, const char *container);

#endif
