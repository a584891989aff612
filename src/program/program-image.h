/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Programs into the form of abi/abi-image.h and back. The reader believes nothing; it does not replace the verifier. */
#ifndef DP_PROGRAM_IMAGE_H
#define DP_PROGRAM_IMAGE_H

#include "abi/abi-image.h"
#include "program/program.h"

#define DP_IMAGE_MAX (sizeof(struct dp_program_image) + DP_FIELDS_MAX * sizeof(struct dp_field) + 65535)

/* Bytes that dp_program_image_write() puts there. */
u32 dp_program_image_size(const struct dp_program *p);
void dp_program_image_write(const struct dp_program *p, void *to);

/*
 * Make a program of the image that begins at bytes, which may be followed by something else. Everything is copied;
 * dp_program_free() frees it. in_kernel is left false. E_PROG_IMAGE, E_PROG_LIMIT or E_PROG_MEMORY; *out is empty then.
 */
int dp_program_image_read(struct dp_program *out, const void *bytes, u64 size, struct dp_error *err);

#endif
