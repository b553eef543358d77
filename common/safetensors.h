/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a safetensors file: text in, table out, and back. Pure: the caller reads and writes the file.
 *
 *   bytes 0..7    N, u64 little-endian: bytes of the header
 *   8..8+N        JSON: {"__metadata__":{"k":"v"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]},...}, maybe
 *                 with blanks behind it
 *   8+N..         the values, row-major, little-endian; offsets count from here, without holes or overlap to the end of the file
 *
 * Any thread. */
#ifndef PSI_SAFETENSORS_H
#define PSI_SAFETENSORS_H

#include "buf.h"

/* Longest header that the format's own library reads (safetensors 0.4, MAX_HEADER_SIZE). Tensors have no other limit. */
#define PSI_SAFETENSORS_HEADER_MAX ((uint64_t)100000000)
/* Most commas, colons and brackets in one entry (psi_json_bound()), so that parsing it takes at most 75 MB; the format needs
 * fewer than 20. Entries are parsed one by one, so a header of millions of entries needs no more memory, apart from the table. */
#define PSI_SAFETENSORS_MARKS_MAX ((size_t)1 << 19)
enum { PSI_SAFETENSORS_PREFIX = 8 };

/** An element type of the format. Types that no variable can have are included, except 8-bit floats. */
struct psi_tensor_type {
    const char *name;
    uint32_t bytes;
    ps_dtype dtype; /* PS_DTYPE_NONE: no variable can have this type */
};
const struct psi_tensor_type *psi_tensor_type_find(const char *name);
/** The format's type for a dtype; NULL: dtype is PS_STRING or unknown. */
const struct psi_tensor_type *psi_tensor_type_of(ps_dtype dtype);

struct psi_tensor {
    char *name; /* NUL-terminated; psi_safetensors_fini() frees the name of a decoded table */
    const struct psi_tensor_type *type;
    ps_shape shape;      /* in files of other programs a dimension may be 0 */
    uint64_t begin, end; /* first byte, and the byte after the last one, counted from the end of the header */
};
struct psi_tensor_metadata {
    char *key, *value; /* UTF-8, NUL-terminated */
};
/** A decoded header. Zero it before first use. */
struct psi_safetensors {
    struct psi_tensor *tensors;
    size_t tensor_count;
    struct psi_tensor_metadata *metadata;
    size_t metadata_count;
    uint64_t data_start; /* offset of the values in the file */
    uint64_t data_bytes;
};

/** What a caller of psi_safetensors_decode() wants to read. Each function may be NULL. */
struct psi_tensor_reader {
    /* Says whether a tensor is wanted; NULL: all are. Only the name of an unwanted tensor is read. */
    ps_status (*takes)(void *ctx, const char *name, bool *out_takes, struct psi_err *err);
    /* Checks the name of a wanted tensor before its entry is parsed. */
    ps_status (*check_name)(void *ctx, const char *name, struct psi_err *err);
    /* Called for a tensor with a mistake; err (INVALID_ARGUMENT) says which. If it returns PS_OK, the tensor is left out and
     * decoding goes on, so that further mistakes are found; the caller then refuses the file. NULL: decoding fails with err. */
    ps_status (*refused)(void *ctx, const char *name, struct psi_err *err);
    void *ctx;
    /* Seed of the hash table of names: random, so that nobody can make names collide. Zeros: the file's writer is trusted. */
    uint64_t map_seed[2];
};

/** Length of the header, read from the first 8 bytes of a file of file_bytes.
 *
 * Errors  PS_INVALID_ARGUMENT: longer than the limit or the file, or too short for any header. */
PSI_MUST ps_status psi_safetensors_length(const uint8_t prefix[PSI_SAFETENSORS_PREFIX], uint64_t file_bytes,
                                          uint64_t *out_header_bytes, struct psi_err *err);
/** Read a header of header_bytes, which psi_safetensors_length() has allowed, and check all wanted tensors, against each other
 * and the file. If all are wanted, their values cover the file without holes; otherwise the values of the wanted ones do not
 * overlap. Memory: the table, and one entry (PSI_SAFETENSORS_MARKS_MAX).
 *
 * reader      NULL: all tensors are wanted, with any names, and the first fault ends decoding.
 * out         zeroed before; gets the wanted tensors. Free it with psi_safetensors_fini(). Zeroed again on failure.
 * Errors      PS_INVALID_ARGUMENT naming the tensor; PS_RESOURCE_EXHAUSTED; those of reader. */
PSI_MUST ps_status psi_safetensors_decode(const char *header, size_t header_bytes, uint64_t file_bytes,
                                          const struct psi_tensor_reader *reader, struct psi_safetensors *out,
                                          struct psi_err *err);
void psi_safetensors_fini(struct psi_safetensors *s);
const char *psi_safetensors_metadata(const struct psi_safetensors *s, const char *key);

/** Lay out tensors, and append prefix and header to out. The header has them in the given order. The values go into the file by
 * falling element size, and among equal sizes in the given order, so that all are aligned without holes.
 *
 * tensors   name, type, shape set; begin and end are written. Names are unique.
 * metadata  UTF-8; unique keys.
 * out       len is a multiple of 8, before and afterwards.
 * Errors    PS_INVALID_ARGUMENT (a name or value is not UTF-8, a name twice, over the limits of the header),
 *           PS_RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_safetensors_encode(struct psi_tensor *tensors, size_t count, const struct psi_tensor_metadata *metadata,
                                          size_t metadata_count, struct psi_buf *out, struct psi_err *err);

#endif
