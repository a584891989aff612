/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The notes of static probes (.note.stapsdt), read and checked. See statics.h. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"
#include "symbols/statics.h"

#define NOTE_TYPE 3
#define STATICS_MAX 65536
#define NAME_MOST 128
#define ARGS_MOST 2048

/* A text of the note, with its end; NULL: it has none, is too long, or says what no text of a program does. */
static const char *text_at(const char **p, const char *end, size_t most)
{
	const char *s = *p, *zero = s < end ? memchr(s, '\0', (size_t)(end - s)) : NULL;

	if (!zero || (size_t)(zero - s) > most)
		return NULL;
	for (const char *c = s; c < zero; c++)
		if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
			return NULL;
	*p = zero + 1;
	return s;
}

static bool is_data(const struct dp_module *m, u64 addr)
{
	for (size_t i = 0; i < m->nsegs; i++)
		if (m->segs[i].w && addr >= m->segs[i].addr && addr - m->segs[i].addr < m->segs[i].memsz &&
		    m->segs[i].memsz - (addr - m->segs[i].addr) >= 2)
			return true;
	return false;
}

/* What is moved after it was linked moves the base as well. */
static u64 moved(const struct dp_module *m, u64 base)
{
	const struct mod_sec *now = dp_mod_section(m, ".stapsdt.base");

	return now ? now->addr - base : 0;
}

static bool add_note(struct dp_module *m, const char *desc, size_t size)
{
	const char *p = desc + 24, *end = desc + size;
	struct dp_static s = {.provider = NULL};
	u64 words[3];

	if (size < 24)
		return true;
	memcpy(words, desc, sizeof(words));
	s.provider = text_at(&p, end, NAME_MOST);
	s.name = s.provider ? text_at(&p, end, NAME_MOST) : NULL;
	s.args = s.name ? text_at(&p, end, ARGS_MOST) : NULL;
	if (!s.args || !*s.provider || !*s.name)
		return true;
	s.addr = words[0] + moved(m, words[1]);
	s.semaphore = words[2] ? words[2] + moved(m, words[1]) : 0;
	if (!dp_mod_in_code(m, s.addr) || (s.semaphore && !is_data(m, s.semaphore)))
		return true;
	return m->statics.n < STATICS_MAX ? MOD_PUSH(&m->statics, s) : false;
}

static bool read_notes(struct dp_module *m, Elf_Data *data)
{
	size_t at = 0, name_at, desc_at, next;
	GElf_Nhdr nh;

	while ((next = gelf_getnote(data, at, &nh, &name_at, &desc_at)) > at) {
		const char *bytes = data->d_buf;

		if (nh.n_type == NOTE_TYPE && nh.n_namesz == 8 && !memcmp(bytes + name_at, "stapsdt", 8) &&
		    !add_note(m, bytes + desc_at, nh.n_descsz))
			return false;
		at = next;
	}
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct dp_static *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

u32 dp_module_statics(struct dp_module *m, const struct dp_static **v)
{
	Elf_Scn *scn = NULL;
	size_t names;
	GElf_Shdr sh;

	if (!m->statics_read && !elf_getshdrstrndx(m->elf, &names))
		while ((scn = elf_nextscn(m->elf, scn))) {
			const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(m->elf, names, sh.sh_name) : NULL;
			Elf_Data *data = name && sh.sh_type == SHT_NOTE && !strcmp(name, ".note.stapsdt")
					     ? elf_getdata(scn, NULL)
					     : NULL;

			if (data && data->d_buf && !read_notes(m, data))
				break;
		}
	if (!m->statics_read && m->statics.n)
		qsort(m->statics.v, m->statics.n, sizeof(*m->statics.v), by_address);
	m->statics_read = true;
	*v = m->statics.v;
	return (u32)m->statics.n;
}

bool dp_static_matches(const struct dp_static *s, const char *pattern)
{
	char whole[2 * NAME_MOST + 4];

	if (!fnmatch(pattern, s->name, 0))
		return true;
	snprintf(whole, sizeof(whole), "%s:%s", s->provider, s->name);
	if (!fnmatch(pattern, whole, 0))
		return true;
	snprintf(whole, sizeof(whole), "%s__%s", s->provider, s->name);
	return !fnmatch(pattern, whole, 0);
}

/* Known mistakes of programs that many people have: what is found in vain there is no mistake of ours. */
const char *dp_static_caveat(struct dp_module *m, const struct dp_static *s)
{
	static const struct {
		const char *modules, *provider, *name, *text;
	} known[] = {
	    {"python3.11*", "python", "function__entry",
	     "Python 3.11 passes it only while a function of sys.setprofile() or sys.settrace() is set, and when an "
	     "exception is thrown into a generator; function__return is passed by every function"},
	};
	const char *base = dp_module_base(m);

	base += strncmp(base, "lib", 3) ? 0 : 3;
	for (size_t i = 0; i < DP_ARRAY_SIZE(known); i++)
		if (!strcmp(s->provider, known[i].provider) && !strcmp(s->name, known[i].name) &&
		    !fnmatch(known[i].modules, base, 0))
			return known[i].text;
	return NULL;
}

u64 dp_module_semaphore(struct dp_module *m, u64 addr)
{
	const struct dp_static *v;
	u32 n = dp_module_statics(m, &v);
	size_t i = n ? DP_COUNT_BELOW(v, n, addr, addr) : 0;

	while (i < n && v[i].addr == addr && !v[i].semaphore)
		i++;
	return i < n && v[i].addr == addr ? v[i].semaphore : 0;
}
