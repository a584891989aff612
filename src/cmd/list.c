/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes list`: the probes that a process has set in itself through libdprobes, seen from
 * outside. Reads memory; the process does not notice, and may change its probes meanwhile.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "cmd/cmd.h"
#include "cmd/symbolize.h"
#include "host/self/registry.h"
#include "host/self/self-priv.h"
#include "symbols/symbols.h"

#define MOST 1000000 /* a list that is changed while it is read may lead anywhere */

static const struct cmd_option options[] = {{"pid", 'p', "PID", "the process"}, {NULL}};

static const struct cmd_spec spec = {
    .name = "list",
    .synopsis = "-p PID",
    .about =
	"Show the kprobes, jprobes and return probes that a process has set in itself through\n"
	"libdprobes: address, type (k, j, r), place, state.",
    .options = options,
};

static bool read_at(pid_t pid, u64 addr, void *buf, size_t n)
{
	struct iovec to = {buf, n}, from = {(void *)addr, n};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)n;
}

/* A name that may end close to memory that is not there. */
static void read_name(pid_t pid, u64 addr, char *buf, size_t size)
{
	size_t n = 0;

	while (addr && n + 1 < size && read_at(pid, addr + n, buf + n, 1) && buf[n])
		n++;
	buf[n] = '\0';
}

/* The address of the pointer to the newest probe; 0: the process does not use the library. */
static int find_head(struct dp_process *proc, u64 *head)
{
	struct self_registry reg;
	struct dp_symbol sym;

	*head = 0;
	for (size_t i = 0; i < proc->nimages; i++) {
		struct dp_image *im = &proc->images[i];

		if (dp_module_symbol(im->mod, "dp_self_registry", &sym, NULL))
			continue;
		if (!read_at(proc->pid, sym.addr + im->bias, &reg, sizeof(reg)))
			return ui_fail(E_TARGET_PERM, NULL, "%d: %s", (int)proc->pid,
				       strerror(errno));
		if (reg.magic != SELF_REGISTRY_MAGIC || reg.version != SELF_REGISTRY_VERSION)
			return ui_fail(E_CMD_LIST, NULL, "%s", dp_module_path(im->mod));
		*head = reg.probes;
	}
	return CMD_OK;
}

static void show(struct dp_process *proc, struct symbolizer *names, const struct self_probe *s)
{
	char place[400] = "", where[300];
	struct dp_image *im;
	struct kprobe kp;
	bool gone;

	if (!read_at(proc->pid, (u64)s->kp, &kp, sizeof(kp)))
		return; /* unregistered a moment ago */
	gone = kp.flags & KPROBE_FLAG_GONE;
	im = dp_process_image_at(proc, (u64)kp.addr);
	if (!s->pending && !gone && im && symbolize(names, (u64)kp.addr, where, sizeof(where))) {
		snprintf(place, sizeof(place), "%s:%s",
			 im->is_exe ? "exe" : dp_module_base(im->mod), where);
	} else if (kp.symbol_name) {
		read_name(proc->pid, (u64)kp.symbol_name, place, sizeof(place) - 20);
		snprintf(place + strlen(place), 20, "+0x%x", kp.offset);
	}
	printf("%016llx  %c  %s%s%s%s%s%s\n", s->pending ? 0ull : (unsigned long long)kp.addr,
	       s->type, place, gone ? "  [GONE]" : "",
	       kp.flags & KPROBE_FLAG_DISABLED ? "  [DISABLED]" : "",
	       kp.flags & KPROBE_FLAG_OPTIMIZED ? "  [OPTIMIZED]" : "",
	       s->pending ? "  [PENDING]" : "",
	       kp.flags & KPROBE_FLAG_RET_EXITS     ? "  [EXITS]"
	       : kp.flags & KPROBE_FLAG_RET_CLASSIC ? "  [CLASSIC]"
						    : "");
}

static int list(pid_t pid)
{
	struct symbolizer *names;
	struct dp_process proc;
	struct self_probe s;
	struct dp_error err;
	u64 at = 0;
	int r;

	if (dp_process_read(&proc, pid, &err)) {
		ui_error(&err, NULL);
		return ui_status(err.code);
	}
	names = symbolizer_new(&proc);
	r = find_head(&proc, &at);
	if (at && !read_at(pid, at, &at, sizeof(at)))
		at = 0;
	for (u32 n = 0; at && n < MOST && read_at(pid, at, &s, sizeof(s)); n++, at = (u64)s.next)
		show(&proc, names, &s);
	symbolizer_free(names);
	dp_process_free(&proc);
	return r;
}

int cmd_list(int argc, char **argv)
{
	struct cmd_args args;
	pid_t pid = 0;
	int id;

	cmd_args_init(&args, &spec, argc, argv);
	while ((id = cmd_args_next(&args)) != CMD_OPT_END) {
		if (id == CMD_OPT_HELP)
			return CMD_OK;
		if (id == CMD_OPT_ERROR)
			return CMD_USAGE;
		if (id == CMD_OPT_OPERAND || id == CMD_OPT_REST)
			return ui_fail(E_CMD_EXTRA, NULL, "%s",
				       id == CMD_OPT_REST ? "--" : args.value);
		if (!cmd_parse_pid(args.value, &pid))
			return CMD_USAGE;
	}
	if (!pid)
		return ui_fail(E_CMD_MISSING, "`dprobes list --help` shows how it is used",
			       "-p PID");
	return list(pid);
}
