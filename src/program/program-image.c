/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See program-image.h. */
#include "program/program-image.h"
#include "program/opcode.h"

u32 dp_program_image_size(const struct dp_program *p)
{
	return (u32)(sizeof(struct dp_program_image) + p->layout.nfields * sizeof(struct dp_field) + p->len);
}

void dp_program_image_write(const struct dp_program *p, void *to)
{
	struct dp_program_image head = {.magic = DP_IMAGE_MAGIC,
					.size = dp_program_image_size(p),
					.len = p->len,
					.jmpmax = p->jmpmax,
					.logmax = p->logmax,
					.ex_mask = p->rpn.ex_mask,
					.heap = p->rpn.heap,
					.ex_logmax = p->rpn.ex_logmax,
					.major = p->rpn.major,
					.minor = p->rpn.minor,
					.nlocals = p->nlocals,
					.nglobals = p->nglobals,
					.pass = p->rpn.pass,
					.max = p->rpn.max,
					.nfields = p->layout.nfields,
					.fixed_size = p->layout.fixed_size,
					.has_faultmask = p->layout.has_faultmask,
					.has_ret_addr = p->layout.has_ret_addr,
					.is_watch = p->is_watch};
	size_t fields = p->layout.nfields * sizeof(struct dp_field);
	u8 *at = to;

	memcpy(at, &head, sizeof(head));
	if (fields)
		memcpy(at + sizeof(head), p->layout.fields, fields);
	if (p->len)
		memcpy(at + sizeof(head) + fields, p->code, p->len);
}

static int check(const struct dp_program_image *head, u64 size, struct dp_error *err)
{
	if (head->len > DP_CODE_MAX || head->nfields > DP_FIELDS_MAX)
		return dp_fail(err, E_PROG_LIMIT, "%u bytes of code, %u fields", head->len, head->nfields);
	if (head->size > size || head->size != sizeof(*head) + head->nfields * sizeof(struct dp_field) + head->len)
		return dp_fail(err, E_PROG_IMAGE, "%u bytes, of %llu", head->size, (unsigned long long)size);
	if (head->has_faultmask > 1 || head->has_ret_addr > 1 || head->is_watch > 1 || head->pad)
		return dp_fail(err, E_PROG_IMAGE, "its flags");
	return 0;
}

/* dp_alloc() of nothing would be NULL. */
static void *copy_of(const u8 *from, size_t n)
{
	void *p = dp_alloc(n + 1);

	if (p && n)
		memcpy(p, from, n);
	return p;
}

int dp_program_image_read(struct dp_program *out, const void *bytes, u64 size, struct dp_error *err)
{
	const u8 *from = bytes;
	struct dp_program_image head;
	size_t fields;
	int r;

	memset(out, 0, sizeof(*out));
	if (size < sizeof(head))
		return dp_fail(err, E_PROG_IMAGE, "%llu bytes", (unsigned long long)size);
	memcpy(&head, from, sizeof(head));
	if (head.magic != DP_IMAGE_MAGIC)
		return dp_fail(err, E_PROG_IMAGE, "it does not begin as one");
	r = check(&head, size, err);
	if (r)
		return r;
	fields = head.nfields * sizeof(struct dp_field);
	*out = (struct dp_program){.len = head.len,
				   .jmpmax = head.jmpmax,
				   .logmax = head.logmax,
				   .nlocals = head.nlocals,
				   .nglobals = head.nglobals,
				   .is_watch = head.is_watch,
				   .rpn = {.ex_mask = head.ex_mask,
					   .heap = head.heap,
					   .ex_logmax = head.ex_logmax,
					   .major = head.major,
					   .minor = head.minor,
					   .pass = head.pass,
					   .max = head.max},
				   .layout = {.nfields = head.nfields,
					      .fixed_size = head.fixed_size,
					      .has_faultmask = head.has_faultmask,
					      .has_ret_addr = head.has_ret_addr}};
	out->layout.fields = copy_of(from + sizeof(head), fields);
	out->code = copy_of(from + sizeof(head) + fields, head.len);
	if (out->layout.fields && out->code)
		return 0;
	dp_program_free(out);
	return dp_fail(err, E_PROG_MEMORY, "%u bytes of code", head.len);
}
