/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program as one piece of bytes: what objects (.ppdf) hold and what the kernel's device takes. Behind this head come
 * nfields struct dp_field, then len bytes of code. program/program-image.h writes and reads it; nobody else looks
 * inside.
 */
#ifndef DP_ABI_IMAGE_H
#define DP_ABI_IMAGE_H

#include "base/base.h"

#define DP_IMAGE_MAGIC 0x31474d49u /* "IMG1"; change it with anything here, in struct dp_field, or in the opcodes */

struct dp_program_image {
	u32 magic, size; /* size: of the whole image, bytes */
	u32 len, jmpmax, logmax;
	u32 ex_mask, heap, ex_logmax; /* struct dp_rpn_params, to max */
	u16 major, minor;
	u16 nlocals, nglobals;
	u64 pass, max;
	u16 nfields, fixed_size; /* struct dp_layout */
	u8 has_faultmask, has_ret_addr;
	u8 is_watch;
	u8 pad;
};

#endif
