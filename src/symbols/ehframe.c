/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Function ranges and landing pads from the unwind tables (.eh_frame and the language-specific data
 * it refers to). They survive stripping. Unwind rules themselves are not interpreted, except for
 * one question: does a range begin with a frame already set up? Then it is a piece of another
 * function.
 */
#include "symbols/module-priv.h"

#define PE_OMIT 0xff

struct reader {
	const u8 *p, *end;
	u64 addr; /* of p */
	bool bad;
};

static bool have(struct reader *r, size_t n)
{
	if ((size_t)(r->end - r->p) < n)
		r->bad = true;
	return !r->bad;
}

static u64 take(struct reader *r, size_t n)
{
	u64 v = 0;

	if (!have(r, n))
		return 0;
	memcpy(&v, r->p, n);
	r->p += n;
	r->addr += n;
	return v;
}

static u64 take_leb(struct reader *r, bool is_signed)
{
	unsigned int shift = 0;
	u64 v = 0;
	u8 b;

	do {
		b = (u8)take(r, 1);
		if (shift < 64)
			v |= (u64)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && !r->bad);
	if (is_signed && shift < 64 && b & 0x40)
		v |= ~0ull << shift;
	return v;
}

static u64 take_uleb(struct reader *r)
{
	return take_leb(r, false);
}

static s64 take_sleb(struct reader *r)
{
	return (s64)take_leb(r, true);
}

/* A pointer in one of the DWARF exception-handling encodings; 0 stays 0 whatever it is relative to.
 */
static u64 take_pointer(struct reader *r, u8 enc)
{
	u64 at = r->addr, v;

	switch (enc & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x0c:
		v = take(r, 8);
		break;
	case 0x01:
		v = take_uleb(r);
		break;
	case 0x09:
		v = (u64)take_sleb(r);
		break;
	case 0x02:
		v = take(r, 2);
		break;
	case 0x0a:
		v = (u64)(s64)(s16)take(r, 2);
		break;
	case 0x03:
		v = take(r, 4);
		break;
	case 0x0b:
		v = (u64)(s64)(s32)take(r, 4);
		break;
	default:
		r->bad = true;
		return 0;
	}
	if (v && (enc & 0x70) == 0x10)
		v += at;
	else if (enc & 0x60)
		r->bad = true; /* text-, data- and function-relative forms do not occur on x86-64 */
	return v;
}

struct cie {
	u64 offset;
	u8 fde_enc, lsda_enc;
	bool augmented, signal;
};

static bool read_cie(const u8 *base, u64 base_addr, u64 size, u64 offset, struct cie *c)
{
	struct reader r = {base + offset, base + size, base_addr + offset, false};
	const char *aug;
	u64 len = take(&r, 4);

	*c = (struct cie){offset, 0, PE_OMIT};
	if (r.bad || len < 12 || len > (u64)(r.end - r.p))
		return false;
	r.end = r.p + len;
	if (take(&r, 4) || take(&r, 1) > 3) /* the id, and the version */
		return false;
	aug = (const char *)r.p;
	while (have(&r, 1) && take(&r, 1))
		;
	take_uleb(&r); /* code and data alignment, return address register */
	take_sleb(&r);
	take_uleb(&r);
	if (r.bad || *aug != 'z')
		return !r.bad && !*aug;
	c->augmented = true;
	take_uleb(&r);
	for (aug++; *aug && !r.bad; aug++) {
		switch (*aug) {
		case 'R':
			c->fde_enc = (u8)take(&r, 1);
			break;
		case 'L':
			c->lsda_enc = (u8)take(&r, 1);
			break;
		case 'P':
			take_pointer(&r, (u8)take(&r, 1) & 0x7f);
			break;
		case 'S':
			c->signal = true;
			break;
		default:
			return true; /* what follows is unknown, what came before is not */
		}
	}
	return !r.bad;
}

/* Landing pads of one function: places at which the unwinder lets control arrive. */
static bool read_lsda(struct dp_module *m, u64 lsda, u64 func)
{
	u64 avail = 0, start = func, len;
	const u8 *p = dp_mod_at(m, lsda, 4, &avail);
	struct reader r = {p, p ? p + avail : p, lsda, !p};
	const u8 *end;
	u8 enc;

	if (!p)
		return true;
	enc = (u8)take(&r, 1);
	if (enc != PE_OMIT)
		start = take_pointer(&r, enc & 0x7f);
	enc = (u8)take(&r, 1);
	if (enc != PE_OMIT)
		take_uleb(&r);
	enc = (u8)take(&r, 1);
	len = take_uleb(&r);
	if (r.bad || len > (u64)(r.end - r.p))
		return true;
	end = r.p + len;
	while (r.p < end && !r.bad) {
		u64 pad;

		take_pointer(&r, enc & 0x0f);
		take_pointer(&r, enc & 0x0f);
		pad = take_pointer(&r, enc & 0x0f);
		take_uleb(&r);
		if (!r.bad && pad && !MOD_PUSH(&m->pads, start + pad))
			return false;
	}
	return true;
}

/* Whether the first row of the range says that more than the return address is on the stack. */
static bool starts_framed(struct reader r)
{
	while (r.p < r.end && !r.bad) {
		u8 op = (u8)take(&r, 1);

		switch (op) {
		case 0x00: /* nop */
			continue;
		case 0x0e: /* def_cfa_offset */
			return take_uleb(&r) > 8;
		case 0x0c: { /* def_cfa */
			u64 reg = take_uleb(&r), off = take_uleb(&r);

			return reg != 7 || off > 8;
		}
		case 0x0d: /* def_cfa_register */
			return take_uleb(&r) != 7;
		case 0x0f: /* def_cfa_expression */
			return false;
		case 0x0a: /* remember_state */
			continue;
		default:
			if ((op & 0xc0) != 0x80) /* anything but "register saved at offset" ends the first row */
				return false;
			take_uleb(&r);
		}
	}
	return false;
}

static bool read_fde(struct dp_module *m, struct reader r, const struct cie *c)
{
	u64 lo = take_pointer(&r, c->fde_enc), len = take_pointer(&r, c->fde_enc & 0x0f), lsda = 0;
	u32 flags;

	if (c->augmented) {
		u64 n = take_uleb(&r);
		struct reader a = r;

		if (r.bad || n > (u64)(r.end - r.p))
			return true;
		if (c->lsda_enc != PE_OMIT && n)
			lsda = take_pointer(&a, c->lsda_enc & 0x7f);
		if (a.bad)
			lsda = 0;
		r.p += n;
		r.addr += n;
	}
	/* What the linker dropped is left with a range at zero. */
	if (r.bad || !len || lo + len < lo || !dp_mod_in_code(m, lo))
		return true;
	flags = !c->signal && starts_framed(r) ? DP_FUNC_PART : 0;
	if (!MOD_PUSH(&m->ranges, {lo, lo + len, flags, NO_SYM}))
		return false;
	return !lsda || read_lsda(m, lsda, lo);
}

/* Without section headers, .eh_frame is found through its search table. */
static u64 find_by_header(struct dp_module *m)
{
	size_t n = 0;

	elf_getphdrnum(m->elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;
		struct reader r = {.bad = false};
		u64 avail;
		u8 enc;

		if (!gelf_getphdr(m->elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME)
			continue;
		r.p = dp_mod_at(m, ph.p_vaddr, 8, &avail);
		if (!r.p)
			return 0;
		r.end = r.p + avail;
		r.addr = ph.p_vaddr;
		take(&r, 1);
		enc = (u8)take(&r, 1);
		take(&r, 2);
		return take_pointer(&r, enc & 0x7f);
	}
	return 0;
}

static bool read_frames(struct dp_module *m, const u8 *base, u64 addr, u64 size, bool exact)
{
	struct cie c = {.offset = ~0ull};
	u64 off = 0;

	while (off + 8 <= size) {
		struct reader r = {base + off, base + size, addr + off, false};
		u64 len = take(&r, 4), id, cie;

		if (!len) { /* a terminator; crtend.o may put one in the middle of a section */
			if (!exact)
				break;
			off += 4;
			continue;
		}
		if (len >= 0xfffffff0 || len > (u64)(r.end - r.p))
			break;
		r.end = r.p + len;
		off += 4 + len;
		id = take(&r, 4);
		if (!id)
			continue;
		cie = (u64)(r.p - base) - 4 - id;
		if (cie >= size || (cie != c.offset && !read_cie(base, addr, size, cie, &c)))
			continue;
		if (!read_fde(m, r, &c))
			return false;
	}
	return true;
}

bool dp_mod_read_eh_frame(struct dp_module *m)
{
	const struct mod_sec *sec = dp_mod_section(m, ".eh_frame");
	u64 addr, avail;
	const u8 *p;

	if (sec)
		return read_frames(m, m->file + sec->offset, sec->addr, sec->size, true);
	addr = m->nshdrs ? 0 : find_by_header(m);
	p = addr ? dp_mod_at(m, addr, 4, &avail) : NULL;
	return !p || read_frames(m, p, addr, avail, false);
}
