/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Whole probe programs: from files, chosen by group and type, back to text, into objects and out of
 * them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/rpn/rpn-fields.h"
#include "lang/rpn/rpn-priv.h"
#include "program/program-image.h"

#define FILE_MAX_BYTES (4u << 20)
#define MAGIC "DPPF\r\n\032"
#define VERSION 12u

int dp_rpn_read(struct dp_rpn_unit *u, const char *path, const struct dp_rpn_define *defines, u32 ndefines,
		struct dp_error *err)
{
	bool is_stdin = !strcmp(path, "-");
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	char *all = malloc(FILE_MAX_BYTES + 1), *dir = strdup(path), *slash;
	size_t n = 0;
	int r = 0;

	if (!f)
		r = dp_fail(err, E_RPN_FILE, "%.150s: %s", path, strerror(errno));
	else if (!all || !dir)
		r = dp_fail(err, E_RPN_MEMORY, "%.150s", path);
	if (!r) {
		n = fread(all, 1, FILE_MAX_BYTES + 1, f);
		if (ferror(f) || n > FILE_MAX_BYTES)
			r = dp_fail(err, E_RPN_FILE, "%.150s: %s", path, ferror(f) ? strerror(errno) : "too large");
		else if (memchr(all, '\0', n))
			r = dp_fail(err, E_RPN_FILE, "%.150s: not a text", path);
	}
	if (!r) {
		all[n] = '\0';
		slash = strrchr(dir, '/');
		if (slash)
			*slash = '\0';
		r = dp_rpn_parse(u, all, is_stdin ? "standard input" : path, slash ? dir : ".", defines, ndefines, err);
	}
	if (f && !is_stdin)
		fclose(f);
	free(all);
	free(dir);
	return r;
}

int dp_rpn_verify(const struct dp_rpn_unit *u, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 0; i < u->nprobes && !r; i++)
		r = dp_program_verify(&u->probes[i].prog, u->probes[i].at_return, err);
	for (u32 i = 0; i < u->nbodies && !r; i++)
		r = dp_program_verify(&u->bodies[i].prog, false, err);
	return r;
}

/* ---- groups and types ---- */

/* Whether v is in "1,3-5"; *good becomes false when that is no list. */
static bool in_list(const char *list, u32 v, bool *good)
{
	bool found = false;

	while (*list) {
		char *end;
		unsigned long lo = strtoul(list, &end, 0), hi = lo;

		if (end == list)
			break;
		if (*end == '-') {
			list = end + 1;
			hi = strtoul(list, &end, 0);
			if (end == list)
				break;
		}
		found |= v >= lo && v <= hi;
		if (!*end)
			return found;
		if (*end != ',')
			break;
		list = end + 1;
	}
	*good = false;
	return found;
}

int dp_rpn_select(struct dp_rpn_unit *u, const char *groups, const char *types, struct dp_error *err)
{
	bool good_groups = true, good_types = true;
	u32 kept = 0;

	for (u32 i = 0; i < u->nprobes; i++) {
		struct dp_rpn_probe *p = &u->probes[i];
		bool keep = (!groups || in_list(groups, p->group, &good_groups)) &
			    (!types || in_list(types, p->type, &good_types));

		if (!keep) {
			dp_rpn_probe_free(p);
			continue;
		}
		if (kept != i)
			u->probes[kept] = *p;
		kept++;
	}
	u->nprobes = kept;
	if (!good_groups || !good_types) {
		dp_fail(err, E_RPN_VALUE, "--%s %.60s", good_groups ? "type" : "group", good_groups ? types : groups);
		dp_error_hint(err, "write a list of numbers and ranges, such as 1,3-5");
		return -dp_error_info(E_RPN_VALUE)->number;
	}
	return kept ? 0 : dp_fail(err, E_RPN_NONE, "%.100s", u->name);
}

/* ---- copies ---- */

/*
 * The description with another event. The first copy gets no more layouts than it has use for: the first probe of a
 * program has those of all the others, too.
 */
static char *described_as(const char *described, const char *event, bool is_first)
{
	static const char head[] = "field = event ";
	const char *at = described ? strstr(described, head) : NULL, *end = at ? at + strcspn(at, "\n") : NULL;
	char *text = NULL;

	if (!at || !event)
		text = described ? strdup(described) : NULL;
	else if (asprintf(&text, "%.*s%s%s%s", (int)(at - described), described, head, event, end) < 0)
		return NULL;
	if (text && is_first)
		dp_rf_drop_unused(text);
	return text;
}

int dp_rpn_copy_probe(struct dp_rpn_unit *u, u32 index, u64 offset, const char *event, struct dp_error *err)
{
	struct dp_rpn_probe *v, *p;
	const char *bad;
	bool is_first;

	if (u->nprobes == DP_RPN_PROBES_MAX)
		return dp_fail(err, E_RPN_VALUE, "more than %u probes", DP_RPN_PROBES_MAX);
	v = realloc(u->probes, (u->nprobes + 1ull) * sizeof(*v));
	if (!v)
		return dp_fail(err, E_RPN_MEMORY, "probe");
	u->probes = v;
	p = &v[u->nprobes];
	is_first = !v[index].copy;
	if (is_first)
		v[index].copy = u->nprobes;
	else
		index = v[index].copy;
	*p = v[index];
	p->copy = 0;
	p->offset = (s64)offset;
	p->rf = NULL;
	p->prog.code = dp_alloc(v[index].prog.len);
	p->relocs = malloc((p->nrelocs + 1) * sizeof(*p->relocs));
	p->described = described_as(v[index].described, event, is_first);
	if (!p->prog.code || !p->relocs || (v[index].described && !p->described)) {
		dp_rpn_probe_free(p);
		v[index].copy = is_first ? 0 : v[index].copy;
		return dp_fail(err, E_RPN_MEMORY, "probe");
	}
	memcpy(p->prog.code, v[index].prog.code, p->prog.len);
	if (p->nrelocs)
		memcpy(p->relocs, v[index].relocs, p->nrelocs * sizeof(*p->relocs));
	u->nprobes++;
	p->rf = p->described ? dp_rf_parse(p->described, &bad) : NULL;
	return !p->described || p->rf ? 0 : dp_fail(err, E_RPN_VALUE, "the event of a probe");
}

/* ---- back to text ---- */

static const struct dp_rpn_reloc *reloc_at(const struct dp_rpn_probe *p, u32 at)
{
	for (u32 i = 0; i < p->nrelocs; i++)
		if (p->relocs[i].at == at)
			return &p->relocs[i];
	return NULL;
}

static bool is_target(const struct dp_program *prog, u32 at)
{
	struct dp_op_view op;

	for (u32 i = 0; i < prog->len && !dp_op_decode(prog->code, prog->len, i, &op); i += op.len)
		for (u32 k = 0; op.info->operands[k]; k++)
			if (op.info->operands[k] == DP_KIND_JUMP && op.v[k] == at)
				return true;
	return false;
}

static void list_code(const struct dp_rpn_probe *p, FILE *out)
{
	struct dp_op_view op;
	char line[1200], *text;

	for (u32 at = 0; at < p->prog.len && !dp_op_decode(p->prog.code, p->prog.len, at, &op); at += op.len) {
		struct dp_program one = {.code = (u8 *)p->prog.code + at, .len = op.len};
		const struct dp_rpn_reloc *r;

		if (op.opcode == DP_OP_BEGIN)
			continue;
		if (is_target(&p->prog, at))
			fprintf(out, "L%u:\n", at);
		r = op.opcode == DP_OP_PUSH_D ? reloc_at(p, at + 1) : NULL;
		if (r) {
			fprintf(out, "\tpush d, %s%+lld\n", r->symbol, (long long)r->addend);
			continue;
		}
		dp_program_disasm(&one, line, sizeof(line));
		text = line + strspn(line, " 0123456789");
		for (u32 k = 0; op.info->operands[k]; k++)
			if (op.info->operands[k] == DP_KIND_JUMP) {
				char *label = strrchr(text, 'L'); /* relative to this one instruction */

				snprintf(label, sizeof(line) - (size_t)(label - line), "L%lld\n", (long long)op.v[k]);
			}
		fprintf(out, "\t%s", text);
	}
	if (is_target(&p->prog, p->prog.len)) /* from code that is never reached */
		fprintf(out, "L%u:\n", p->prog.len);
}

static bool begins_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void list_text(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if (*text < ' ' || *text > '~')
			fprintf(out, "\\x%02x", (u8)*text);
		else
			fputc(*text, out);
}

static void list_name(FILE *out, const char *key, const char *name, bool quoted)
{
	fprintf(out, "%s = %s", key, quoted ? "\"" : "");
	list_text(out, name);
	if (quoted)
		fputc('"', out);
}

/* Names that may stand without quotes: nothing in them is escaped, or means something else. */
static bool is_plain(const char *name)
{
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("+-;'\"\\", *p))
			return false;
	return begins_word(name[0]);
}

static void list_probe(const struct dp_rpn_unit *u, const struct dp_rpn_probe *p, FILE *out)
{
	const struct dp_rpn_params *r = &p->prog.rpn;

	if (p->place == DP_RPN_SYMBOL) {
		list_name(out, "\noffset", p->symbol, !is_plain(p->symbol));
	} else if (p->place == DP_RPN_LINE) {
		fprintf(out, "\noffset = \"");
		list_text(out, p->symbol);
		fprintf(out, ":%lld\"", (long long)p->offset);
	} else if (p->place == DP_RPN_WATCH) {
		list_name(out, "\nwatchpoint", p->symbol, true);
	} else if (p->place == DP_RPN_TRACEPOINT) {
		list_name(out, "\ntracepoint", p->symbol, false);
	} else if (p->place == DP_RPN_CALL) {
		list_name(out, "\ncall", p->symbol, true);
		fprintf(out, " %lld", (long long)p->offset);
	} else if (p->place == DP_RPN_TIMER) {
		fprintf(out, "\nrun = %lld", (long long)p->offset);
	} else if (dp_rpn_is_body(p)) {
		fprintf(out, "\nrun = %s", p->place == DP_RPN_BEGIN ? "begin" : "end");
	} else {
		fprintf(out, "\n%s = 0x%llx", p->place == DP_RPN_OFFSET ? "offset" : "address",
			(unsigned long long)p->offset);
	}
	if (p->place == DP_RPN_SYMBOL && p->offset)
		fprintf(out, "%+lld", (long long)p->offset);
	fputc('\n', out);
	if (p->at_return)
		fprintf(out, "at = return\n");
	if (p->has_opcode)
		fprintf(out, "opcode = 0x%02x\n", p->opcode);
	if (r->major != u->major)
		fprintf(out, "major = %u\n", r->major);
	fprintf(out, "minor = %u\n", r->minor);
	if (p->group)
		fprintf(out, "group = %u\n", p->group);
	if (p->type)
		fprintf(out, "type = %u\n", p->type);
	if (r->pass)
		fprintf(out, "ignore = %llu\n", (unsigned long long)r->pass);
	if (r->max != DP_MAXHITS_NONE)
		fprintf(out, "maxhits = %lld\n", r->max ? (long long)r->max : -1);
	if (p->logonfault)
		fprintf(out, "logonfault = yes\n");
	if ((r->ex_mask & 0xffff) != DP_EX_DEFAULT)
		fprintf(out, "ex_mask = 0x%04x\n", r->ex_mask & 0xffff);
	if (r->heap != DP_HEAP_MAX)
		fprintf(out, "heap = %u\n", r->heap);
	if (p->described)
		fputs(p->described, out);
	list_code(p, out);
}

void dp_rpn_list(const struct dp_rpn_unit *u, FILE *out)
{
	static const char *const types[] = {"user", "kernel", "kmod"};
	/* There may be nothing but bodies of `begin` and the like. */
	const struct dp_program *first = u->nprobes ? &u->probes[0].prog : &u->bodies[0].prog;

	list_name(out, "name", u->name, true);
	fprintf(out, "\nmodtype = %s\nmajor = %u\n", types[u->modtype], u->major);
	if (u->build_id[0])
		fprintf(out, "build_id = %s\n", u->build_id);
	if (u->id)
		fprintf(out, "id = %u\n", u->id);
	fprintf(out, "jmpmax = %u\nlogmax = %u\n", first->jmpmax, first->logmax);
	if (first->rpn.ex_logmax)
		fprintf(out, "ex_logmax = %u\n", first->rpn.ex_logmax);
	if (u->nlocals)
		fprintf(out, "vars = %u\n", u->nlocals);
	if (u->nglobals)
		fprintf(out, "gvars = %u\n", u->nglobals);
	for (u32 i = 0; i < u->ninits; i++)
		fprintf(out, "init = %u %lld\n", u->inits[i].index, (long long)u->inits[i].value);
	for (u32 i = 0; i < u->nknowns; i++) {
		const struct dp_rpn_known *k = &u->knowns[i];

		fprintf(out, "known = %u %s%s", k->index, dp_rpn_known_name(k->what),
			k->how == DP_KNOWN_KEY     ? " key"
			: k->how == DP_KNOWN_SAME  ? " == \""
			: k->how == DP_KNOWN_MATCH ? " ~ \""
						   : "");
		list_text(out, k->text);
		fprintf(out, k->how >= DP_KNOWN_SAME ? "\"\n" : "\n");
	}
	for (u32 i = 0; i < u->naggregates; i++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[i];
		char text[160];

		list_name(out, "aggregate", a->name, true);
		dp_rpn_aggregate_text(a, text, sizeof(text));
		fprintf(out, " %s\n", text);
	}
	if (first->rpn.ex_mask & DP_RPN_AUTOTRACE)
		fprintf(out, "autostacktrace = yes\n");
	for (u32 i = 0; i < u->nprobes; i++)
		list_probe(u, &u->probes[i], out);
	for (u32 i = 0; i < u->nbodies; i++)
		list_probe(u, &u->bodies[i], out);
}

/* ---- objects: magic, version, then fixed structs and the bytes behind them; native byte order
 * ---- */

struct object_head {
	char magic[8];
	u32 version, size;
	char name[DP_RPN_NAME_MAX];
	char build_id[DP_RPN_BUILD_ID_MAX];
	u32 modtype, major, id, nlocals, nglobals, nprobes;
	u32 ninits, naggregates, nbodies, nknowns;
};

/* Its program's image follows. */
struct object_probe {
	char symbol[DP_RPN_NAME_MAX];
	s64 offset;
	u32 place, image, nrelocs, line, described;
	u16 group, type;
	u8 at_return, has_opcode, opcode, logonfault;
};

static int write_program(const struct dp_program *p, FILE *f)
{
	u32 size = dp_program_image_size(p);
	void *image = malloc(size);

	if (image) {
		dp_program_image_write(p, image);
		fwrite(image, 1, size, f);
	}
	free(image);
	return image ? 0 : -ENOMEM;
}

int dp_rpn_save(const struct dp_rpn_unit *u, void **bytes, size_t *size, struct dp_error *err)
{
	struct object_head head = {.magic = MAGIC,
				   .version = VERSION,
				   .modtype = u->modtype,
				   .major = u->major,
				   .id = u->id,
				   .nlocals = u->nlocals,
				   .nglobals = u->nglobals,
				   .nprobes = u->nprobes,
				   .ninits = u->ninits,
				   .naggregates = u->naggregates,
				   .nbodies = u->nbodies,
				   .nknowns = u->nknowns};
	char *buf = NULL;
	FILE *f = open_memstream(&buf, size);
	int r = 0;

	if (!f)
		return dp_fail(err, E_RPN_MEMORY, "object");
	memcpy(head.name, u->name, sizeof(head.name));
	memcpy(head.build_id, u->build_id, sizeof(head.build_id));
	fwrite(&head, sizeof(head), 1, f);
	if (u->ninits)
		fwrite(u->inits, sizeof(*u->inits), u->ninits, f);
	if (u->nknowns)
		fwrite(u->knowns, sizeof(*u->knowns), u->nknowns, f);
	if (u->naggregates)
		fwrite(u->aggregates, sizeof(*u->aggregates), u->naggregates, f);
	for (u32 i = 0; i < u->nprobes + u->nbodies; i++) {
		const struct dp_rpn_probe *p = i < u->nprobes ? &u->probes[i] : &u->bodies[i - u->nprobes];
		struct object_probe o = {.offset = p->offset,
					 .place = p->place,
					 .image = dp_program_image_size(&p->prog),
					 .nrelocs = p->nrelocs,
					 .line = p->line,
					 .described = p->described ? (u32)strlen(p->described) : 0,
					 .group = p->group,
					 .type = p->type,
					 .at_return = p->at_return,
					 .has_opcode = p->has_opcode,
					 .opcode = p->opcode,
					 .logonfault = p->logonfault};

		memcpy(o.symbol, p->symbol, sizeof(o.symbol));
		fwrite(&o, sizeof(o), 1, f);
		r = r ? r : write_program(&p->prog, f);
		if (p->nrelocs)
			fwrite(p->relocs, sizeof(*p->relocs), p->nrelocs, f);
		if (o.described)
			fwrite(p->described, 1, o.described, f);
	}
	if (fclose(f) || r) {
		free(buf);
		return dp_fail(err, E_RPN_MEMORY, "object");
	}
	((struct object_head *)buf)->size = (u32)*size;
	*bytes = buf;
	return 0;
}

bool dp_rpn_is_object(const void *bytes, size_t size)
{
	return size >= 8 && !memcmp(bytes, MAGIC, 8);
}

struct reader {
	const u8 *p;
	size_t left;
};

static bool take(struct reader *r, void *to, size_t n)
{
	if (r->left < n)
		return false;
	if (n)
		memcpy(to, r->p, n);
	r->p += n;
	r->left -= n;
	return true;
}

static bool is_text(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

static bool load_description(struct reader *r, struct dp_rpn_probe *p, u32 n)
{
	const char *bad;

	if (!n)
		return true;
	if (n > r->left)
		return false;
	p->described = calloc(1, n + 1);
	if (!p->described || !take(r, p->described, n) || strlen(p->described) != n)
		return false;
	p->rf = dp_rf_parse(p->described, &bad);
	return p->rf != NULL;
}

static bool load_probe(struct reader *r, struct dp_rpn_probe *p, const struct object_head *head)
{
	struct dp_error ignored;
	struct object_probe o;

	if (!take(r, &o, sizeof(o)) || !is_text(o.symbol, sizeof(o.symbol)) || o.place > DP_RPN_TIMER ||
	    o.image > r->left || dp_program_image_read(&p->prog, r->p, o.image, &ignored))
		return false;
	r->p += o.image;
	r->left -= o.image;
	/* What the unit says of all its programs. */
	if (dp_program_image_size(&p->prog) != o.image || !(p->prog.rpn.ex_mask & DP_RPN) ||
	    p->prog.is_watch != (o.place == DP_RPN_WATCH) || p->prog.nlocals != head->nlocals ||
	    p->prog.nglobals != head->nglobals || !p->prog.len || o.nrelocs > p->prog.len ||
	    r->left < o.nrelocs * sizeof(*p->relocs))
		return false;
	memcpy(p->symbol, o.symbol, sizeof(p->symbol));
	p->place = (enum dp_rpn_place)o.place;
	p->offset = o.offset;
	p->at_return = o.at_return;
	p->has_opcode = o.has_opcode;
	p->opcode = o.opcode;
	p->logonfault = o.logonfault;
	p->group = o.group;
	p->type = o.type;
	p->line = o.line;
	p->relocs = calloc(o.nrelocs + 1, sizeof(*p->relocs));
	if (!p->relocs || !take(r, p->relocs, o.nrelocs * sizeof(*p->relocs)))
		return false;
	p->nrelocs = o.nrelocs;
	for (u32 i = 0; i < p->nrelocs; i++) {
		struct dp_op_view op;

		/* Only the constant of a push may be changed by an address. */
		if (!is_text(p->relocs[i].symbol, DP_RPN_NAME_MAX) || !p->relocs[i].at ||
		    p->relocs[i].at > p->prog.len - DP_MIN(p->prog.len, 8u) ||
		    dp_op_decode(p->prog.code, p->prog.len, p->relocs[i].at - 1, &op) || op.opcode != DP_OP_PUSH_D)
			return false;
	}
	return load_description(r, p, o.described);
}

static bool load_knowns(struct reader *r, struct dp_rpn_unit *u, u32 n)
{
	u->knowns = calloc((n <= DP_KNOWN_MAX ? n : 0) + 1, sizeof(*u->knowns));
	if (!u->knowns || n > DP_KNOWN_MAX || !take(r, u->knowns, n * sizeof(*u->knowns)))
		return false;
	u->nknowns = n;
	for (u32 i = 0; i < n; i++) {
		const struct dp_rpn_known *k = &u->knowns[i];

		if (k->how > DP_KNOWN_MATCH || k->what >= DP_KNOWN_WHATS || !is_text(k->text, sizeof(k->text)) ||
		    k->index > u->nlocals || dp_rpn_known_words(k->how) > u->nlocals - k->index)
			return false;
	}
	return true;
}

static bool load_aggregates(struct reader *r, struct dp_rpn_unit *u, u32 n)
{
	u->aggregates = calloc((n <= DP_LOCALS_MAX ? n : 0) + 1, sizeof(*u->aggregates));
	if (!u->aggregates || n > DP_LOCALS_MAX || !take(r, u->aggregates, n * sizeof(*u->aggregates)))
		return false;
	u->naggregates = n;
	for (u32 i = 0; i < n; i++)
		if (!dp_rpn_aggregate_is_sound(&u->aggregates[i], u->nlocals))
			return false;
	return true;
}

static bool is_moment(const struct dp_rpn_probe *p)
{
	return dp_rpn_is_body(p) && !p->at_return &&
	       (p->place != DP_RPN_TIMER || (p->offset >= DP_RPN_TIMER_MIN && p->offset <= DP_RPN_TIMER_MAX));
}

int dp_rpn_load(struct dp_rpn_unit *u, const void *bytes, size_t size, struct dp_error *err)
{
	struct reader r = {bytes, size};
	struct object_head head;
	bool good;
	int ret;

	memset(u, 0, sizeof(*u));
	if (!take(&r, &head, sizeof(head)) || memcmp(head.magic, MAGIC, sizeof(head.magic)))
		return dp_fail(err, E_RPN_OBJECT, "it does not begin as one");
	if (head.version != VERSION)
		return dp_fail(err, E_RPN_OBJECT, "version %u, this command knows %u", head.version, VERSION);
	if (head.size != size || !is_text(head.name, sizeof(head.name)) || !head.name[0] ||
	    !is_text(head.build_id, sizeof(head.build_id)) || head.modtype > DP_RPN_KMOD ||
	    (!head.nprobes && (!head.nbodies || head.modtype != DP_RPN_USER)) || head.nprobes > DP_RPN_PROBES_MAX ||
	    head.nbodies > DP_RPN_BODIES_MAX || head.nlocals > DP_LOCALS_MAX || head.nglobals > DP_GLOBALS_MAX)
		return dp_fail(err, E_RPN_OBJECT, "its head is damaged");
	memcpy(u->name, head.name, sizeof(u->name));
	memcpy(u->build_id, head.build_id, sizeof(u->build_id));
	u->modtype = (enum dp_rpn_modtype)head.modtype;
	u->major = (u16)head.major;
	u->id = head.id;
	u->nlocals = head.nlocals;
	u->nglobals = head.nglobals;
	u->probes = calloc(head.nprobes + 1ull, sizeof(*u->probes));
	u->bodies = calloc(head.nbodies + 1, sizeof(*u->bodies));
	u->inits = calloc((head.ninits <= DP_LOCALS_MAX ? head.ninits : 0) + 1, sizeof(*u->inits));
	good = u->probes && u->bodies && u->inits && head.ninits <= DP_LOCALS_MAX &&
	       take(&r, u->inits, head.ninits * sizeof(*u->inits));
	u->ninits = good ? head.ninits : 0;
	for (u32 i = 0; i < u->ninits; i++)
		good = good && u->inits[i].index < u->nlocals;
	good = good && load_knowns(&r, u, head.nknowns);
	good = good && load_aggregates(&r, u, head.naggregates);
	for (u32 i = 0; i < head.nprobes && good; i++) {
		u->nprobes++;
		good = load_probe(&r, &u->probes[i], &head) && !dp_rpn_is_body(&u->probes[i]);
		u->probes[i].prog.in_kernel = u->modtype != DP_RPN_USER;
	}
	for (u32 i = 0; i < head.nbodies && good; i++) {
		u->nbodies++;
		good = load_probe(&r, &u->bodies[i], &head) && is_moment(&u->bodies[i]);
		u->bodies[i].prog.in_kernel = u->modtype != DP_RPN_USER;
	}
	ret = good && !r.left ? dp_rpn_verify(u, err) : dp_fail(err, E_RPN_OBJECT, "a probe of it is damaged");
	if (ret)
		dp_rpn_free(u);
	return ret;
}
