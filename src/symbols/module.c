/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One ELF file: opening, segments, sections, build-id, offsets. It reads headers only; symbols,
 * unwind tables and code have files of their own and are read when somebody asks. What these need of the file is in
 * sym-elf.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/now.h"
#include "base/text.h"
#include "symbols/module-priv.h"

#define SETTLED_NS 100000000ll /* more than a tick of any kernel */

static bool read_segments(struct dp_module *m)
{
	size_t n = 0;

	if (elf_getphdrnum(m->elf, &n) || !n)
		return false;
	m->segs = calloc(n, sizeof(*m->segs));
	if (!m->segs)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;
		struct mod_seg *s = &m->segs[m->nsegs];

		if (!gelf_getphdr(m->elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		/* A file cut short: only what is there can be looked at. */
		if (ph.p_offset > m->file_size)
			return false;
		*s = (struct mod_seg){ph.p_vaddr,        ph.p_memsz,
				      ph.p_offset,       DP_MIN(ph.p_filesz, m->file_size - ph.p_offset),
				      ph.p_flags & PF_R, ph.p_flags & PF_W,
				      ph.p_flags & PF_X};
		m->nsegs++;
	}
	return m->nsegs > 0;
}

static bool read_sections(struct dp_module *m)
{
	size_t names, cap = 0;
	Elf_Scn *scn = NULL;

	if (elf_getshdrnum(m->elf, &m->nshdrs) || elf_getshdrstrndx(m->elf, &names))
		m->nshdrs = 0;
	if (m->nshdrs < 2) {
		m->nshdrs = 0;
		return true;
	}
	while ((scn = elf_nextscn(m->elf, scn))) {
		GElf_Shdr sh;
		const char *name;

		if (!gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_ALLOC) || !sh.sh_size)
			continue;
		if (sh.sh_type == SHT_NOBITS || sh.sh_offset > m->file_size || sh.sh_size > m->file_size - sh.sh_offset)
			continue;
		name = elf_strptr(m->elf, names, sh.sh_name);
		if (!dp_grow((void **)&m->secs, &cap, m->nsecs, sizeof(*m->secs)))
			return false;
		m->secs[m->nsecs++] = (struct mod_sec){name ? name : "",
						       sh.sh_addr,
						       sh.sh_size,
						       sh.sh_offset,
						       sh.sh_type,
						       sh.sh_flags & SHF_WRITE,
						       sh.sh_flags & SHF_EXECINSTR};
	}
	return true;
}

/* Sections where there are any, since segments may hold headers and tables beside the code. */
static bool find_code(struct dp_module *m)
{
	for (size_t i = 0; m->nshdrs && i < m->nsecs; i++)
		if (m->secs[i].x && !MOD_PUSH(&m->code, {m->secs[i].addr, m->secs[i].addr + m->secs[i].size}))
			return false;
	for (size_t i = 0; !m->nshdrs && i < m->nsegs; i++)
		if (m->segs[i].x && !MOD_PUSH(&m->code, {m->segs[i].addr, m->segs[i].addr + m->segs[i].filesz}))
			return false;
	return true;
}

/* Notes are found through the program headers, so that files without sections have a build-id too.
 */
static void read_build_id(struct dp_module *m)
{
	size_t n = 0;

	elf_getphdrnum(m->elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;
		GElf_Nhdr nh;
		size_t off = 0, name, desc;
		Elf_Data *d;

		if (!gelf_getphdr(m->elf, (int)i, &ph) || ph.p_type != PT_NOTE)
			continue;
		d = elf_getdata_rawchunk(m->elf, (int64_t)ph.p_offset, ph.p_filesz,
					 ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		while (d && off < d->d_size && (off = gelf_getnote(d, off, &nh, &name, &desc))) {
			const u8 *id = (const u8 *)d->d_buf + desc;

			if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 ||
			    memcmp((const char *)d->d_buf + name, "GNU", 4))
				continue;
			for (u32 k = 0; k < nh.n_descsz && 2 * k + 3 <= sizeof(m->build_id); k++)
				dp_format(m->build_id + 2 * k, 3, "%02x", id[k]);
			return;
		}
	}
}

/*
 * Shared, unlike libelf's own mapping: the kernel writes the breakpoints of uprobes into every private mapping that
 * could become executable, so that we would see them in the place of the file's bytes.
 */
static void map_file(struct dp_module *m)
{
	struct stat st;
	void *p;

	if (fstat(m->fd, &st) || st.st_size <= 0)
		return;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, m->fd, 0);
	if (p == MAP_FAILED)
		return;
	m->file = p;
	m->file_size = (size_t)st.st_size;
}

static int read_headers(struct dp_module *m, struct dp_error *err)
{
	GElf_Ehdr eh;

	m->elf = elf_begin(m->fd, ELF_C_READ_MMAP, NULL);
	if (!m->elf || elf_kind(m->elf) != ELF_K_ELF || !gelf_getehdr(m->elf, &eh))
		return dp_fail(err, E_ELF_BAD, "%s", m->path);
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != EM_X86_64 || eh.e_ident[EI_DATA] != ELFDATA2LSB)
		return dp_fail(err, E_ELF_MACHINE, "%s: class %d, machine %d", m->path,
			       eh.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32, eh.e_machine);
	if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return dp_fail(err, E_ELF_BAD, "%s is neither an executable nor a shared object", m->path);
	map_file(m);
	m->dyn = eh.e_type == ET_DYN;
	m->entry = eh.e_entry;
	if (!m->file || !read_segments(m) || !read_sections(m) || !find_code(m))
		return dp_fail(err, E_ELF_BAD, "%s: no segments, or cut off", m->path);
	read_build_id(m);
	return 0;
}

s64 dp_mod_age(const struct mod_file_id *id)
{
	return (s64)(dp_real_ns() - id->changed);
}

int dp_module_open_fd(struct dp_module **out, int fd, const char *name, struct dp_error *err)
{
	struct dp_module *m;
	struct stat st;
	const char *slash;
	int rc;

	*out = NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return dp_fail(err, E_FILE_OPEN, "%s is not a file", name);
	elf_version(EV_CURRENT);
	m = dp_alloc(sizeof(*m));
	if (!m)
		return dp_fail(err, E_FILE_MEMORY, "%s", name);
	m->refs = 1;
	m->id = dp_mod_file_id(&st);
	m->age = dp_mod_age(&m->id);
	m->debug.fd = -1;
	m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	m->path = strdup(name);
	if (m->fd < 0 || !m->path)
		rc = dp_fail(err, E_FILE_OPEN, "%s: %s", name, strerror(errno));
	else
		rc = read_headers(m, err);
	if (rc) {
		dp_module_close(m);
		return rc;
	}
	slash = strrchr(m->path, '/');
	m->base = slash ? slash + 1 : m->path;
	*out = m;
	return 0;
}

/* ---- one for all who map the file ---- */

static struct dp_module *shared;

struct dp_module *dp_mod_shared(const struct stat *st, const char *name)
{
	struct mod_file_id id = dp_mod_file_id(st);
	struct dp_module *m = shared;

	while (m && !(dp_mod_same_file(&m->id, &id) && !strcmp(m->path, name)))
		m = m->next;
	if (m)
		m->refs++;
	return m;
}

/*
 * Times of a file move by ticks of some milliseconds: one that was changed in this tick may be changed again, and have
 * the same times.
 */
static bool was_settled(const struct dp_module *m)
{
	return m->age > SETTLED_NS || m->age < -SETTLED_NS;
}

int dp_module_share_fd(struct dp_module **out, int fd, const char *name, struct dp_error *err)
{
	struct stat st;
	int rc;

	*out = NULL;
	if (fstat(fd, &st))
		return dp_fail(err, E_FILE_OPEN, "%s: %s", name, strerror(errno));
	*out = dp_mod_shared(&st, name);
	if (*out)
		return 0;
	rc = dp_module_open_fd(out, fd, name, err);
	if (rc || !was_settled(*out))
		return rc;
	(*out)->next = shared;
	shared = *out;
	return 0;
}

static void share_no_more(const struct dp_module *m)
{
	struct dp_module **at = &shared;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
}

/* A file is called what it is called in the process whose mapping leads to it. */
static const char *name_of(const char *path, char *name, size_t size)
{
	ssize_t n = strstr(path, "/map_files/") ? readlink(path, name, size - 1) : -1;

	if (n <= 0)
		return path;
	name[n] = '\0';
	dp_strip_deleted(name);
	return name;
}

int dp_module_open(struct dp_module **m, const char *path, struct dp_error *err)
{
	int fd = dp_open_regular(path);
	char name[PATH_MAX];
	int rc;

	*m = NULL;
	if (fd < 0 && errno == EINVAL)
		return dp_fail(err, E_FILE_OPEN, "%s is not a file", path);
	if (fd < 0)
		return dp_fail(err, E_FILE_OPEN, "%s: %s", path, strerror(errno));
	rc = dp_module_open_fd(m, fd, name_of(path, name, sizeof(name)), err);
	close(fd);
	return rc;
}

void dp_module_close(struct dp_module *m)
{
	if (!m || --m->refs)
		return;
	share_no_more(m);
	dp_mod_free_code(m);
	dp_mod_free_syms(m);
	dp_mod_free_bounds(m);
	dp_free_whole(m->part, MOD_PART);
	dp_mod_close_dwarf(m);
	dp_mod_close_debug(m);
	free(m->ranges.v);
	free(m->funcs.v);
	free(m->pads.v);
	free(m->relocs.v);
	free(m->statics.v);
	free(m->segs);
	free(m->secs);
	free(m->code.v);
	if (m->elf)
		elf_end(m->elf);
	if (m->file)
		munmap((void *)m->file, m->file_size);
	if (m->fd >= 0)
		close(m->fd);
	free(m->path);
	dp_free(m);
}

const char *dp_module_path(const struct dp_module *m)
{
	return m->path;
}

const char *dp_module_base(const struct dp_module *m)
{
	return m->base;
}

const char *dp_module_build_id(const struct dp_module *m)
{
	return m->build_id;
}

/* Not to keep anybody from making two files alike: whoever can do that can change the code as well. */
static u64 sum_of(const u8 *p, u64 n)
{
	u64 sum = n, word;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
		sum ^= sum >> 29;
	}
	while (n--)
		sum = (sum ^ *p++) * 0x9e3779b97f4a7c15ull;
	return sum;
}

const char *dp_module_identity(struct dp_module *m)
{
	u64 sum = 0;

	if (m->build_id[0])
		return m->build_id;
	for (size_t i = 0; i < m->nsegs && !m->sum[0]; i++) {
		const struct mod_seg *s = &m->segs[i];

		if (s->x)
			sum = (sum << 7 | sum >> 57) ^ sum_of(m->file + s->offset, s->filesz);
	}
	if (!m->sum[0])
		dp_format(m->sum, sizeof(m->sum), "sum-%016llx", (unsigned long long)sum);
	return m->sum;
}

/* The n-th string of that tag in the file's dynamic section, or NULL. */
static const char *dynamic_string(const struct dp_module *m, s64 tag, u32 n)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(m->elf, scn))) {
		GElf_Shdr sh;
		GElf_Dyn dyn;
		Elf_Data *d;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_DYNAMIC || !(d = elf_getdata(scn, NULL)))
			continue;
		for (int i = 0; gelf_getdyn(d, i, &dyn) && dyn.d_tag != DT_NULL; i++)
			if (dyn.d_tag == tag && !n--)
				return elf_strptr(m->elf, sh.sh_link, dyn.d_un.d_val);
	}
	return NULL;
}

const char *dp_mod_soname(const struct dp_module *m)
{
	return dynamic_string(m, DT_SONAME, 0);
}

const char *dp_mod_needed(const struct dp_module *m, u32 n)
{
	return dynamic_string(m, DT_NEEDED, n);
}

bool dp_module_is_pie_or_dso(const struct dp_module *m)
{
	return m->dyn;
}

bool dp_module_has_symtab(const struct dp_module *m)
{
	return m->syms_loaded ? m->has_symtab : dp_mod_own_symtab(m);
}

bool dp_module_offset_to_addr(const struct dp_module *m, u64 offset, u64 *addr)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		const struct mod_seg *s = &m->segs[i];

		if (offset < s->offset || offset - s->offset >= s->filesz)
			continue;
		*addr = s->addr + (offset - s->offset);
		return true;
	}
	return false;
}

bool dp_module_number_to_addr(const struct dp_module *m, u64 number, u64 *addr)
{
	u64 offset;

	if (dp_module_offset_to_addr(m, number, addr))
		return true;
	*addr = number;
	return dp_module_addr_to_offset(m, number, &offset);
}

bool dp_module_addr_to_offset(const struct dp_module *m, u64 addr, u64 *offset)
{
	for (size_t i = 0; i < m->nsegs; i++) {
		const struct mod_seg *s = &m->segs[i];

		if (addr < s->addr || addr - s->addr >= s->filesz)
			continue;
		*offset = s->offset + (addr - s->addr);
		return true;
	}
	return false;
}

u64 dp_module_lowest(const struct dp_module *m)
{
	u64 lo = ~0ull;

	for (size_t i = 0; i < m->nsegs; i++)
		lo = DP_MIN(lo, m->segs[i].addr);
	return DP_ALIGN_DOWN(lo, 4096);
}
