/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table of subcommands and options. */
#include <string.h>

#include "cmd/commands.h"

const struct cmd_spec dp_cmd_specs[VERB_COUNT] = {
    [VERB_TRACE] = {.name = "trace",
		    .frequent = true,
		    .purpose = "probe a running process, or one that is started; show the events",
		    .synopsis = "-p WHO [OPTIONS] EVENT...\n[OPTIONS] EVENT... -- COMMAND [ARGS]\n"
				"[OPTIONS] KERNEL-EVENT...\n-f FILE.dpc [-p PID] [OPTIONS]",
		    .about = "Probe a running process, a program that is started, or the kernel, and show the "
			     "events. Ctrl-C ends it; the probes are always removed.",
		    .notes = "Without an EVENT, a started program is traced at the functions of libc that open files, "
			     "start programs and connect. `dprobes help events` describes events.",
		    .examples = "dprobes trace -p 1234 'p libc:malloc bytes=%di'\n"
				"dprobes trace -p redis 'r lookupKey found=$retval if $retval != 0'\n"
				"dprobes trace -p 1234 'p libc:malloc count by $backtrace' --duration 10\n"
				"dprobes trace -o trace.txt -- python3 script.py"},
    [VERB_TRACE_PROGRAM] =
	{.name = "trace",
	 .synopsis =
	     "-f PROGRAM [OPTIONS]\n-f PROGRAM [OPTIONS] -- COMMAND [ARGS]\n-e TEXT [OPTIONS] [-- COMMAND [ARGS]]",
	 .about = "Run a probe program in all processes that map its module, in one, or in one that is "
		  "started. Ctrl-C ends it; the probes are always removed, and aggregates shown.",
	 .examples = "dprobes trace -f latency.dpc -p 1234 --interval 5\n"
		     "dprobes trace -f malloc.dpc -D MIN=4096 -- python3 script.py\n"
		     "dprobes trace -p 1234 -e \"$(cat latency.dpc)\""},
    [VERB_WATCH] = {.name = "watch",
		    .frequent = true,
		    .purpose = "show who writes to a variable, old and new value, callers",
		    .synopsis = "-p PID [OPTIONS] VARIABLE[:LEN][:w|rw|x] [ARGS] [IF]\n"
				"[OPTIONS] VARIABLE... -- COMMAND [ARGS]",
		    .about = "Show who writes to a variable: old and new value, the instruction, its line, its "
			     "callers. Ctrl-C ends it; the watchpoint is always removed.",
		    .notes = "VARIABLE is a global or static variable, [MODULE:]NAME, with .FIELD, ->FIELD and "
			     "[INDEX] after it where debug information gives the type; or an address. w: writes "
			     "(the default), rw: reads and writes, x: execution of a function. Pointers are "
			     "followed when the watch begins. FUNCTION($ARGUMENT->FIELD) is what an argument leads "
			     "to, watched until that call returns.",
		    .examples = "dprobes watch -p 1234 redis-server:server.dirty 'if new > 100'\n"
				"dprobes watch -p 1234 'list->head->refs:rw'\n"
				"dprobes watch -p 1234 'release($obj->refcount)'\n"
				"dprobes watch -p 1234 --pages redis-server:server\n"
				"dprobes watch -p 1234 0x55d0c0ffee00:4 'who=$comm if old == 0'"},
    [VERB_GRAPH] = {.name = "graph",
		    .frequent = true,
		    .purpose = "show calls of functions with their durations, as a tree",
		    .synopsis = "-p WHO [OPTIONS] [PATTERN...]\n[OPTIONS] [PATTERN...] -- COMMAND [ARGS]",
		    .about = "Show calls of functions with their durations, as an indented tree for each thread. "
			     "Ctrl-C ends it; the probes are always removed. A call is shown when it has ended.",
		    .notes = "PATTERN is a function or a pattern of functions, [MODULE:]NAME; arguments that an "
			     "event line can have may follow it. Without one: all functions of the executable.",
		    .examples = "dprobes graph -p 1234 --min 100us\n"
				"dprobes graph -p 1234 --only processCommand --depth 3 'redis-server:*'\n"
				"dprobes graph --results 'add_order qty=$arg2' 'price_*' -- ./shop\n"
				"dprobes graph -p 1234 --summary --duration 5\n"
				"dprobes graph -p 1234 --format flame -o flame.svg --duration 5"},
    [VERB_TOP] = {.name = "top",
		  .frequent = true,
		  .purpose = "live rates and times of the functions of a process, or of events",
		  .synopsis = "-p WHO [OPTIONS] [PATTERN... | EVENT...]\n"
			      "[OPTIONS] [PATTERN... | EVENT...] -- COMMAND [ARGS]\n"
			      "--sample HZ -p PID [OPTIONS]",
		  .about = "Show what a process does, live, on a full screen: a row for each function or event, with "
			   "rate, times and trend. `h` lists the keys, `q` ends it; the probes are always removed.",
		  .notes =
		      "PATTERN is a function or a pattern of functions, [MODULE:]NAME; without one: all functions "
		      "of the executable. EVENT is an event line of `dprobes trace`; tables and histograms of lines "
		      "are shown below the rows.",
		  .examples = "dprobes top -p 1234\n"
			      "dprobes top -p 1234 'main:*' 'libssl:SSL_*'\n"
			      "dprobes top -p 1234 'r libc:read' 'p libc:malloc hist($arg1)'\n"
			      "dprobes top -p 1234 --sample 99\n"
			      "dprobes top -p 1234 --json --interval 5 --count 12"},
    [VERB_RECORD] = {.name = "record",
		     .frequent = true,
		     .purpose = "record events into a file, to be shown later or elsewhere",
		     .synopsis = "-o FILE -p WHO [OPTIONS] EVENT...\n-o FILE [OPTIONS] EVENT... -- COMMAND [ARGS]\n"
				 "-o FILE [OPTIONS] KERNEL-EVENT...\n-o FILE -f FILE.dpc [OPTIONS]",
		     .about = "Record events into a file, with all that `dprobes report` needs to show them later, "
			      "on any machine. Ctrl-C ends it; the probes are always removed.",
		     .notes = "Events and probe programs are those of `dprobes trace`.",
		     .examples = "dprobes record -o run.dpt -p 1234 'p libc:malloc bytes=%di' 'r libc:malloc'\n"
				 "dprobes record -o box.dpt --last 64M -p 1234 'p handle*'\n"
				 "dprobes report --format perfetto -o run.perfetto run.dpt"},
    [VERB_RECORD_PROGRAM] =
	{.name = "record",
	 .synopsis = "-o FILE -f PROGRAM [OPTIONS]\n-o FILE -f PROGRAM [OPTIONS] -- COMMAND [ARGS]\n"
		     "-o FILE -e TEXT [OPTIONS] [-- COMMAND [ARGS]]",
	 .about = "Record what a probe program logs and counts, in all processes that map its module, in one, or in "
		  "one that is started. Ctrl-C ends it; the probes are always removed.",
	 .examples = "dprobes record -o run.dpt -f latency.dpc -p 1234 --duration 60\n"
		     "dprobes record -o run.dpt -f malloc.dpc -D MIN=4096 -- python3 script.py"},
    [VERB_REPORT] = {.name = "report",
		     .frequent = true,
		     .purpose = "show a recording, in any format",
		     .synopsis = "FILE [OPTIONS]",
		     .about = "Show what `dprobes record` has recorded, here or on another machine.",
		     .examples = "dprobes report run.dpt\n"
				 "dprobes report --info run.dpt\n"
				 "dprobes report --format html -o run.html run.dpt",
		     .operand = KIND_FILE,
		     .shows = true},
    [VERB_RUN] = {.name = "run",
		  .frequent = true,
		  .purpose = "run a recipe: a trace for a question that is asked often",
		  .synopsis = "[NAME --show]\nNAME -p WHO [OPTIONS] [PARAMETER=VALUE...]\n"
			      "NAME [OPTIONS] [PARAMETER=VALUE...] -- COMMAND [ARGS]",
		  .about = "Run the lines of a recipe as `dprobes trace` does; without NAME, list all recipes. Ctrl-C "
			   "ends it; the probes are always removed.",
		  .notes =
		      "Recipes are text files NAME.recipe: those of dprobes, those of the machine in "
		      "/etc/dprobes/recipes, and your own in ~/.config/dprobes/recipes. `--show` prints a recipe and "
		      "the equivalent trace.",
		  .examples = "dprobes run\n"
			      "dprobes run malloc-callers -p redis-server --duration 10\n"
			      "dprobes run syscall-slow min=1ms -- git status\n"
			      "dprobes run tls-sizes --show"},
    [VERB_FUNCS] = {.name = "funcs",
		    .frequent = true,
		    .purpose = "show what can be probed, how, and why not",
		    .synopsis =
			"-p PID [MODULE:][PATTERN]\nFILE [PATTERN]\nkernel:PATTERN|kmod(MODULE):PATTERN|'t PATTERN'",
		    .about = "Show what can be probed: the outcome that a probe on each function would get, and "
			     "why.",
		    .notes = "Outcomes: jump (the usual, nanoseconds), trap (a breakpoint, only with --allow-trap), "
			     "refused; in the kernel ftrace, too, and waits in a module that is not loaded. "
			     "Patterns are those of the shell and need quotes.",
		    .examples = "dprobes funcs -p 1234 'SSL_*'\n"
				"dprobes funcs -p 1234 'libc:mem*'\n"
				"dprobes funcs /usr/bin/redis-server '*Command'\n"
				"dprobes funcs /usr/bin/python3 'u *'     static probes\n"
				"dprobes funcs -p 1234 's open*'          system calls\n"
				"dprobes funcs 'kernel:vfs_*'\n"
				"dprobes funcs 't sched:*'                tracepoints of the kernel",
		    .operand = KIND_FILE,
		    .shows = true},
    [VERB_LINES] = {.name = "lines",
		    .purpose = "show which source lines of a function can be probed",
		    .synopsis = "FILE FUNCTION\n-p PID [MODULE:]FUNCTION",
		    .about = "Show which source lines of a function can be probed, and how.",
		    .notes = "The program needs debug information, in the file or in a separate one.",
		    .examples = "dprobes lines ./shop add_order\n"
				"dprobes lines -p 1234 processCommand\n"
				"dprobes trace -p 1234 'p exe:server.c:3920'",
		    .operand = KIND_FILE,
		    .shows = true},
    [VERB_COVERAGE] = {.name = "coverage",
		       .purpose = "count how many functions and instructions of a file can be probed",
		       .synopsis = "[--json] FILE...",
		       .about = "Count how many functions and instructions of files can be probed by a jump, only by a "
				"breakpoint (trap), or not at all (ref), and the most frequent reasons.",
		       .examples = "dprobes coverage /usr/bin/redis-server",
		       .operand = KIND_FILE,
		       .shows = true},
    [VERB_VERIFY] = {.name = "verify",
		     .purpose = "compare the code of a process with its files",
		     .synopsis = "-p PID",
		     .about = "Compare the code of a process with its files. Exit status 0: all bytes are the same.",
		     .shows = true},
    [VERB_LIST] =
	{.name = "list",
	 .frequent = true,
	 .purpose = "show the processes with probes, or all probes in one",
	 .synopsis = "[-p PID]",
	 .about = "Without -p: the probes in the kernel, and the processes that have probes, with the number of "
		  "them and the dprobes that set them. With -p: all probes in that process: those that it has set in "
		  "itself through libdprobes (kprobes k, jprobes j, return probes r; newest first), then "
		  "those of a dprobes trace (p, and r with a line for each exit of the function; by "
		  "address). HOW shows whether the probe is a jump or a breakpoint (trap), WHO shows who "
		  "set it: library, or dprobes and its process id.",
	 .shows = true},
    [VERB_CLEAN] = {.name = "clean",
		    .purpose = "remove the probes that a killed dprobes has left in processes",
		    .synopsis = "-p PID\n--all",
		    .about = "Remove the probes that a killed dprobes has left in a process, or in all processes. "
			     "Probes of a dprobes that still runs stay."},
    [VERB_HOOKS] = {.name = "hooks",
		    .purpose = "show the hooks of a process or of the kernel, arm and disarm exits",
		    .synopsis = "[-p PID] [--json]\n[-p PID] --arm HOOK[:EXIT]... --disarm HOOK[:EXIT]...",
		    .about = "Show the hooks (<dprobes/hooks.h>) of a process or of the kernel's modules, with "
			     "their exits in the order of calls; or arm and disarm exits whose records allow that. "
			     "A hook without exits can be opened: its places then call the function HOOK_hook_call, "
			     "where probes and probe programs find its arguments (%si, %dx, ...).",
		    .examples = "dprobes hooks -p 1234\n"
				"dprobes hooks -p 1234 --arm file_open:audit --arm file_close:audit\n"
				"dprobes hooks -p 1234 --arm file_open\n"
				"dprobes trace -p 1234 'p exe:file_open_hook_call path=+0(%si):string'"},
    [VERB_LOAD] = {.name = "load",
		   .purpose = "load a probe module into a process, or into one that is started",
		   .synopsis = "FILE.so [NAME=VALUE...] -- COMMAND [ARGUMENTS]\nFILE.so [NAME=VALUE...] -p PID",
		   .about = "Start COMMAND with the probe module FILE.so in it: a shared object whose constructor, "
			    "or module_init() function, registers kprobes, jprobes or return probes "
			    "(libdprobes(3)). Source written for the kernel compiles with the headers in "
			    "include/compat. NAME=VALUE sets the module's parameters. Programs that COMMAND starts "
			    "do not get the module. The exit status is COMMAND's.\n\nWith -p, load the module into "
			    "a running process: `dprobes unload` removes it again. The process must be linked "
			    "dynamically with glibc 2.34 or later, and one of its threads must sleep in a call "
			    "(poll, read, nanosleep, ...): it starts a thread that loads the module.",
		   .operand = KIND_FILE},
    [VERB_UNLOAD] = {.name = "unload",
		     .purpose = "unload a probe module from a process",
		     .synopsis = "FILE.so -p PID",
		     .about = "Unload a probe module from a running process: its module_exit() function and its "
			      "destructors run, in a thread that one of the process's sleeping threads starts for "
			      "it.",
		     .operand = KIND_FILE},
    [VERB_INSERT] = {.name = "insert",
		     .frequent = true,
		     .purpose = "insert the probes of a program (.rpn), and keep them in place",
		     .synopsis = "FILE.rpn [OPTIONS]",
		     .about = "Insert the probes of a probe program, and keep them in place.",
		     .old = "insert",
		     .old_letter = 'i',
		     .operand = KIND_FILE},
    [VERB_REMOVE] = {.name = "remove",
		     .purpose = "remove inserted probes",
		     .synopsis = "FILE.rpn | --name MODULE | --all [OPTIONS]",
		     .about = "Remove inserted probes.",
		     .old = "remove",
		     .old_letter = 'r',
		     .operand = KIND_FILE},
    [VERB_QUERY] = {.name = "query",
		    .purpose = "show what is inserted",
		    .synopsis = "[--name MODULE | --all] [OPTIONS]",
		    .about = "Show what is inserted.",
		    .old = "query",
		    .old_letter = 'q'},
    [VERB_VARS] = {.name = "vars",
		   .frequent = true,
		   .purpose = "show variables: of inserted programs, or of a program at a place",
		   .synopsis = "[--name MODULE | --all] [OPTIONS]",
		   .about = "Show or reset the variables of probe programs.",
		   .notes = "Variables of a program at a place: `dprobes vars -p PID PLACE`, `dprobes vars FILE "
			    "PLACE`.",
		   .old = "getvars",
		   .old_letter = 'g',
		   .operand = KIND_FILE},
    [VERB_VARS_PLACE] = {.name = "vars",
			 .synopsis = "FILE PLACE\n-p PID [MODULE:]PLACE\nkernel:FUNCTION|kmod(MODULE):FUNCTION",
			 .about = "Show which variables of a program can be read at a place, and why not others.",
			 .notes = "PLACE: FUNCTION, FUNCTION+N, FUNCTION%return, FILE.c:LINE. Without FILE and -p the "
				  "variables of inserted programs are shown: `dprobes --getvars --help`.",
			 .examples = "dprobes vars ./shop orders.c:120\n"
				     "dprobes vars -p 1234 processCommand\n"
				     "dprobes vars kernel:vfs_open",
			 .operand = KIND_FILE},
    [VERB_LOG] = {.name = "log",
		  .frequent = true,
		  .purpose = "show what inserted programs have logged",
		  .synopsis = "[OPTIONS]",
		  .about = "Show what inserted probe programs have logged."},
    [VERB_DRIVER] = {.name = "driver",
		     .purpose = "keep the programs of a directory inserted (dprobes.service)",
		     .synopsis = "[DIRECTORY]\n--hand-over",
		     .about = "Run the driver in the foreground, and insert each .dpc and .rpn file of DIRECTORY "
			      "(/etc/dprobes.d). A file that cannot be inserted is reported, and the others are "
			      "inserted all the same. SIGTERM removes all probes and ends it.",
		     .examples = "dprobes driver\nDPROBES_DIR=/tmp/mine dprobes driver ~/programs",
		     .operand = KIND_FILE},
    [VERB_SERVE] = {.name = "serve",
		    .purpose = "serve the tables of programs to Prometheus",
		    .synopsis = "--listen ADDRESS\n--listen ADDRESS -p WHO [OPTIONS] EVENT...\n"
				"--api unix:PATH [--allow-writes]",
		    .about = "Answer HTTP requests for /metrics with the tables and counts of inserted programs, and "
			     "of EVENTs that are traced as long as it runs. Ctrl-C ends it; its probes are always "
			     "removed. With --api, take requests of programs to probe processes (JSON-RPC).",
		    .notes = "ADDRESS is an address and a port, or unix:/PATH. EVENTs have tables, such as `count by "
			     "$comm` or `hist($duration)`.",
		    .examples = "dprobes serve --listen 127.0.0.1:9464\n"
				"dprobes serve --listen 127.0.0.1:9464 -p mysqld 'r do_query hist($duration)'\n"
				"curl http://127.0.0.1:9464/metrics"},
    [VERB_BUILD] = {.name = "build",
		    .purpose = "assemble a probe program into an object (.ppdf)",
		    .synopsis = "FILE.rpn [OPTIONS]",
		    .about = "Assemble into an object with offsets instead of symbols.",
		    .old = "build-ppdf",
		    .old_letter = 'b',
		    .operand = KIND_FILE},
    [VERB_APPLY] = {.name = "apply",
		    .purpose = "insert an object",
		    .synopsis = "FILE.ppdf [OPTIONS]",
		    .about = "Insert an object.",
		    .old = "apply-ppdf",
		    .old_letter = 'p',
		    .operand = KIND_FILE},
    [VERB_KERNEL] = {.name = "kernel",
		     .purpose = "load the kernel module, or unload it",
		     .synopsis = "load [--allow-crash] [--allow-debugger] [FILE.ko]\nunload",
		     .about = "Load the kernel module, or unload it.",
		     .notes = "Without FILE.ko, the module that DKMS installed for the running kernel is loaded.",
		     .examples = "dprobes kernel load build/kernel/local/kernel/dprobes.ko\n"
				 "dprobes kernel unload",
		     .operand = KIND_FILE,
		     .words = "load|unload"},
    [VERB_DOCTOR] = {.name = "doctor",
		     .frequent = true,
		     .purpose = "show what this machine, a process and the kernel can do for probes",
		     .synopsis = "[-p PID] [--json]",
		     .about = "Show what this machine can do for probes: each capability, what a trial of it "
			      "found, and what follows.",
		     .notes = "Exit status 0: nothing keeps probes from working. Bug reports can quote it.",
		     .examples = "dprobes doctor\n"
				 "dprobes doctor -p 1234 --json"},
    [VERB_EXPLAIN] = {.name = "explain",
		      .frequent = true,
		      .purpose = "explain an error code",
		      .synopsis = "[CODE|kernel:FUNCTION|kmod(MODULE):FUNCTION...]",
		      .about = "Explain what an error code means and what can be done, or what a probe in the kernel "
			       "would be and why. Without a code, list all.",
		      .examples = "dprobes explain E-SITE-MIDINSN\n"
				  "dprobes explain kernel:schedule",
		      .shows = true},
};

#define V(verb) (1u << VERB_##verb)
#define PROGRAMS (V(TRACE_PROGRAM) | V(RECORD_PROGRAM))
#define RECORDS (V(RECORD) | V(RECORD_PROGRAM))
#define EVENTS (V(TRACE) | V(RECORD) | V(RUN))
#define TRACES (EVENTS | PROGRAMS | V(WATCH) | V(GRAPH)) /* while the command runs */
#define SELECTS (EVENTS | PROGRAMS | V(GRAPH) | V(TOP) | V(SERVE))
#define LOADS (V(INSERT) | V(APPLY))
#define SOURCE (V(INSERT) | V(BUILD))
#define MODULES (V(REMOVE) | V(QUERY) | V(VARS))

static const struct cmd_option options[] = {
    {V(SERVE), OPT_LISTEN, 0, "listen", "ADDRESS", KIND_TEXT, "where: 127.0.0.1:9464, [::1]:9464, unix:/PATH"},
    {V(SERVE), OPT_API, 0, "api", "ADDRESS", KIND_TEXT, "requests of programs, at unix:/PATH"},
    {V(SERVE), OPT_ALLOW_WRITES, 0, "allow-writes", NULL, 0, "with --api: also programs that write to memory"},
    {V(SERVE), OPT_PUBLIC, 0, "public", NULL, 0, "ADDRESS may be one that other hosts reach"},
    {V(RUN), OPT_SHOW, 's', "show", NULL, 0, "print the recipe and the equivalent trace"},
    {SELECTS, OPT_PID, 'p', "pid", "WHO", KIND_PID, "processes: ids, names, patterns, with commas"},
    {V(WATCH), OPT_PID, 'p', "pid", "PID", KIND_PID, "the process to watch, by its id or name"},
    {V(FUNCS), OPT_PID, 'p', "pid", "PID", KIND_PID, "all modules of this process, with its addresses"},
    {V(LINES) | V(VARS_PLACE), OPT_PID, 'p', "pid", "PID", KIND_PID,
     "a module of this process; without one, its executable"},
    {V(VERIFY) | V(LIST) | V(CLEAN) | V(LOAD) | V(UNLOAD), OPT_PID, 'p', "pid", "PID", KIND_PID,
     "the process: id or name"},
    {V(HOOKS), OPT_PID, 'p', "pid", "PID", KIND_PID, "the process; without it: the kernel"},
    {V(DOCTOR), OPT_PID, 'p', "pid", "PID", KIND_PID, "also what this process allows"},
    {LOADS, OPT_PID, 'p', "pid", "PID", KIND_PID, "only in this process"},
    {V(GRAPH), OPT_ALL, 'a', "all", "FILE", KIND_FILE, "all processes that map FILE, now and later", true},
    {EVENTS | PROGRAMS | V(SERVE), OPT_ALL, 'a', "all", "FILE", KIND_FILE,
     "all processes that map FILE, now and later"},
    {SELECTS, OPT_TREE, 0, "tree", NULL, 0, "also what these processes start, other programs too", true},
    {SELECTS, OPT_USER, 0, "user", "NAME", KIND_TEXT, "only processes of this user", true},
    {SELECTS, OPT_COMM, 0, "comm", "PATTERN", KIND_TEXT, "only those whose own name (comm) matches", true},
    {SELECTS, OPT_CGROUP, 0, "cgroup", "PATH", KIND_TEXT, "only those in this control group, or below it", true},
    {SELECTS, OPT_CONTAINER, 0, "container", "ID", KIND_TEXT, "only those of this container (docker, podman, lxc, ...)",
     true},
    {SELECTS, OPT_UNIT, 0, "unit", "NAME", KIND_TEXT, "only those of this systemd unit", true},
    {V(CLEAN), OPT_ALL, 'a', "all", NULL, 0, "all processes that you may inspect"},
    {MODULES, OPT_NAME, 'n', "name", "MODULE", KIND_TEXT, "the module, as its program names it"},
    {MODULES, OPT_ALL, 'a', "all", NULL, 0, "all modules"},
    {V(FUNCS), OPT_NOT_JUMP, 0, "not-jump", NULL, 0, "only those where no jump fits"},

    {V(GRAPH) | V(REPORT), OPT_MIN, 0, "min", "TIME", KIND_TEXT,
     "only calls of at least TIME (10us) and their callers"},
    {V(GRAPH) | V(REPORT), OPT_DEPTH, 0, "depth", "N", KIND_TEXT, "at most N nested calls", true},
    {V(GRAPH) | V(REPORT), OPT_ONLY, 0, "only", "FUNCTION", KIND_TEXT,
     "only calls of this function and the calls in them", true},
    {V(GRAPH), OPT_RESULTS, 0, "results", NULL, 0, "with the results of functions", true},
    {V(GRAPH) | V(REPORT), OPT_SUMMARY, 0, "summary", NULL, 0, "a table by function and caller, not the tree"},

    {V(TRACE) | V(RECORD) | V(SERVE), OPT_EVENT, 'e', "event", "EVENT", KIND_TEXT, "an event, like the arguments, or C",
     true},
    {PROGRAMS, OPT_EVENT, 'e', "event", "TEXT", KIND_TEXT, "handlers in C, instead of a file", true},
    {V(SERVE), OPT_FILE, 'f', "file", "FILE", KIND_FILE, "events from FILE (-: standard input)", true},
    {V(TRACE) | V(RECORD), OPT_FILE, 'f', "file", "FILE", KIND_FILE,
     "events from FILE (-: standard input), or a program"},
    {PROGRAMS, OPT_FILE, 'f', "file", "FILE", KIND_FILE, "the program: .dpc, .rpn or .ppdf"},
    {SOURCE | V(REMOVE) | V(TRACE) | V(RECORD) | PROGRAMS | V(SERVE), OPT_DEFINE, 'D', "define", "KEY=VALUE", KIND_TEXT,
     "define a macro of the preprocessor", true},
    {SOURCE, OPT_SYM, 's', "sym", "FILE", KIND_FILE, "take symbols from FILE instead of the module", true},
    {LOADS, OPT_GROUP, 'u', "group", "LIST", KIND_TEXT, "only probes of these groups, such as 1,3-5", true},
    {LOADS, OPT_TYPE, 't', "type", "LIST", KIND_TEXT, "only probes of these types", true},
    {LOADS, OPT_MERGE, 'm', "merge", NULL, 0, "add to the probes that the module has"},
    {LOADS, OPT_REPLACE, 'c', "replace", NULL, 0, "replace the probes that the module has"},
    {LOADS, OPT_NO_OPCODES, 0, "dont-verify-opcodes", NULL, 0, "do not compare opcode = with the code", true},
    {LOADS, OPT_STOP_CPUS, 0, "stop-cpus", NULL, 0, "accepted; nothing needs to be stopped", true},
    {LOADS, OPT_LOG, 'l', "log", "WORDS", KIND_TEXT, "PROCNAME PID UID SSESP CSEIP TSC CPU, or ALL", true},
    {LOADS, OPT_LOG_TARGET, 0, "log-target", "TARGET", KIND_TEXT,
     "also to KLOG (the system log), JOURNALD, CONSOLE, COM1, COM2", true},
    {LOADS, OPT_UNFORMATTED, 'f', "unformatted-output", NULL, 0, "log the data as bare hex", true},

    {(TRACES & ~RECORDS) | V(REPORT), OPT_OUTPUT, 'o', "output", "FILE", KIND_FILE, "write what is shown to FILE"},
    {RECORDS, OPT_OUTPUT, 'o', "output", "FILE", KIND_FILE, "the recording that is written"},
    {V(TRACE) | V(RUN), OPT_JSON, 0, "json", NULL, 0, "events as JSON, one object a line"},
    {V(REPORT), OPT_JSON, 0, "json", NULL, 0, "events as JSON, one object a line; or what --info tells"},
    {V(TRACE_PROGRAM), OPT_JSON, 0, "json", NULL, 0, "records and aggregates as JSON, one object a line"},
    {V(TOP), OPT_SAMPLE, 0, "sample", "HZ", KIND_TEXT, "sample call stacks at this rate, without any probe"},
    {V(TOP), OPT_PLAIN, 0, "plain", NULL, 0, "aligned lines every interval, as without a terminal"},
    {V(TOP), OPT_JSON, 0, "json", NULL, 0, "a JSON object every interval, one a line"},
    {V(TOP), OPT_INTERVAL, 0, "interval", "SEC", KIND_TEXT, "time between turns (default 1)", true},
    {V(TOP), OPT_COUNT, 0, "count", "N", KIND_TEXT, "end after N turns", true},
    {V(GRAPH), OPT_JSON, 0, "json", NULL, 0, "entries and returns as JSON, one object a line", true},
    {V(WATCH), OPT_JSON, 0, "json", NULL, 0, "as JSON, one object a line, without callers", true},
    {LOADS, OPT_JSON, 0, "json", NULL, 0, "log as JSON, and tell so what was inserted"},
    {V(VARS), OPT_JSON, 0, "json", NULL, 0, "only aggregates, as JSON, one object a line"},
    {V(REMOVE), OPT_JSON, 0, "json", NULL, 0, "one JSON object for each module"},
    {V(CLEAN), OPT_JSON, 0, "json", NULL, 0, "as one JSON object"},
    {V(BUILD), OPT_JSON, 0, "json", NULL, 0, "tell what was built as one JSON object"},
    {V(QUERY), OPT_JSON, 0, "json", NULL, 0, "one JSON object for each module"},
    {V(LINES), OPT_JSON, 'j', "json", NULL, 0, "one JSON object for each line"},
    {V(HOOKS), OPT_JSON, 0, "json", NULL, 0, "one JSON object for each hook"},
    {V(FUNCS), OPT_JSON, 'j', "json", NULL, 0, "one JSON object for each of them"},
    {V(LIST), OPT_JSON, 'j', "json", NULL, 0, "one JSON object for each probe, or process"},
    {V(EXPLAIN), OPT_JSON, 'j', "json", NULL, 0, "one JSON object for each code"},
    {V(VERIFY), OPT_JSON, 'j', "json", NULL, 0, "as one JSON object"},
    {V(VARS_PLACE), OPT_JSON, 0, "json", NULL, 0, "as one JSON object"},
    {V(COVERAGE), OPT_JSON, 'j', "json", NULL, 0, "one JSON object for each file"},
    {V(DOCTOR), OPT_JSON, 'j', "json", NULL, 0, "as one JSON object"},
    {V(TRACE) | V(RUN), OPT_FORMAT, 0, "format", "FORMAT", KIND_FORMAT, "events in this format", true},
    {V(REPORT), OPT_FORMAT, 0, "format", "FORMAT", KIND_FORMAT, "events in this format"},
    {V(TRACE_PROGRAM), OPT_FORMAT, 0, "format", "FORMAT", KIND_PROGRAM_FORMAT, "records and aggregates in this format"},
    {V(GRAPH), OPT_FORMAT, 0, "format", "FORMAT", KIND_FORMAT, "calls in this format instead", true},
    {V(WATCH), OPT_FORMAT, 0, "format", "FORMAT", KIND_FORMAT, "in this format; only text has callers", true},
    {LOADS, OPT_FORMAT, 0, "format", "FORMAT", KIND_RECORD_FORMAT, "log in this format"},
    {V(VARS), OPT_FORMAT, 0, "format", "FORMAT", KIND_RECORD_FORMAT, "if not text: only aggregates, in this format"},
    {V(TRACE) | V(RUN) | V(TRACE_PROGRAM) | V(GRAPH) | V(REPORT), OPT_ENDPOINT, 0, "endpoint", "URL", KIND_TEXT,
     "with --format otlp: the collector, http://127.0.0.1:4318", true},
    {EVENTS | V(WATCH) | V(REPORT), OPT_ALL_ROWS, 0, "all-rows", NULL, 0,
     "in the summary, also probes that were never hit, and any number of them", true},
    {TRACES | V(TOP) | V(REPORT) | V(VARS), OPT_RAW_UNITS, 0, "raw-units", NULL, 0,
     "whole numbers of nanoseconds and bytes, without units", true},
    {TRACES | V(TOP), OPT_DURATION, 0, "duration", "SEC", KIND_TEXT, "end after SEC seconds"},
    {EVENTS | V(WATCH) | V(REPORT), OPT_MAX_EVENTS, 0, "max-events", "N", KIND_TEXT, "end after N events", true},
    {V(GRAPH), OPT_MAX_EVENTS, 0, "max-events", "N", KIND_TEXT, "end after N entries and returns", true},
    {PROGRAMS, OPT_MAX_EVENTS, 0, "max-events", "N", KIND_TEXT, "end after N records", true},
    {EVENTS | PROGRAMS | V(GRAPH) | V(WATCH), OPT_MAX_RATE, 0, "max-rate", "N", KIND_TEXT,
     "end, and fail, when there are more than N hits in a second", true},
    {EVENTS | PROGRAMS | V(GRAPH) | V(WATCH), OPT_UNTIL, 0, "until", "EVENT", KIND_TEXT,
     "end at the first hit of this event", true},
    {EVENTS | PROGRAMS | V(GRAPH), OPT_KEEP_IF, 0, "keep-if", "EVENT", KIND_TEXT,
     "only calls for which this return has held: 'r F if $duration > 10ms'", true},
    {EVENTS | PROGRAMS | V(GRAPH), OPT_KEEP_OUTSIDE, 0, "keep-outside", NULL, 0,
     "with --keep-if: also what is in no call of it", true},
    {EVENTS | PROGRAMS | V(GRAPH), OPT_KEEP_UNFINISHED, 0, "keep-unfinished", NULL, 0,
     "with --keep-if: also calls without a return", true},
    {RECORDS, OPT_ROTATE, 0, "rotate", "LIMIT", KIND_TEXT, "start a new file after 100M, or after 10min"},
    {RECORDS, OPT_KEEP, 0, "keep", "N", KIND_TEXT, "with --rotate: keep the last N files, remove older ones", true},
    {RECORDS, OPT_LAST, 0, "last", "LIMIT", KIND_TEXT, "keep only the last 64M or 30s, in memory"},
    {RECORDS, OPT_DUMP_ON, 0, "dump-on", "EVENT", KIND_TEXT, "with --last: write what is kept at each hit", true},
    {V(TRACE) | V(RUN) | V(TRACE_PROGRAM), OPT_INTERVAL, 0, "interval", "SEC", KIND_TEXT,
     "show the aggregates every SEC seconds", true},
    {RECORDS, OPT_INTERVAL, 0, "interval", "SEC", KIND_TEXT, "record the aggregates every SEC seconds", true},
    {EVENTS, OPT_CHILDREN, 0, "children", NULL, 0, "watchpoints, and the kernel: also in what it forks", true},
    {V(WATCH), OPT_CHILDREN, 0, "children", NULL, 0, "also in processes that it forks", true},
    {PROGRAMS | LOADS, OPT_CHILDREN, 0, "children", NULL, 0, "watchpoints: also in processes that are forked", true},
    {EVENTS, OPT_PAGES, 0, "pages", NULL, 0, "watchpoints: any number of bytes, by page protection", true},
    {V(WATCH), OPT_PAGES, 0, "pages", NULL, 0, "any number of bytes, by page protection (writes only)"},
    {V(WATCH), OPT_CALLERS, 0, "callers", "N", KIND_TEXT, "show at most N callers (default 12)", true},
    {EVENTS | V(GRAPH) | PROGRAMS, OPT_INTERPRET, 0, "interpret", NULL, 0,
     "interpret programs instead of compiling them", true},
    {EVENTS | V(GRAPH) | PROGRAMS | LOADS, OPT_STRICT_READS, 0, "strict-reads", NULL, 0,
     "read memory by system calls only, but for what cannot go away", true},
    {LOADS, OPT_JIT, 0, "jit", "on|off|auto", KIND_WORD,
     "compile programs to machine code; auto, the default: where it pays", true},
    {LOADS, OPT_UPROBES, 0, "uprobes", NULL, 0, "by the kernel module: all processes that map the file, now and later",
     true},
    {EVENTS | V(GRAPH) | V(TOP), OPT_ALLOW_TRAP, 0, "allow-trap", NULL, 0, "use breakpoints where no jump fits", true},
    {PROGRAMS | V(SERVE) | LOADS, OPT_ALLOW_TRAP, 0, "allow-trap", NULL, 0, "use breakpoints where no jump fits", true},
    {EVENTS | PROGRAMS, OPT_READ_ONLY, 0, "read-only", NULL, 0, "refuse programs that write to memory or registers",
     true},
    {EVENTS | PROGRAMS, OPT_SKIP_REFUSED, 0, "skip-refused", NULL, 0,
     "trace what can be probed, and list the events that cannot", true},
    {EVENTS | PROGRAMS, OPT_WAIT_MODULES, 0, "wait-for-modules", NULL, 0,
     "wait for any module that is not loaded, not only for libraries that are found", true},
    {EVENTS | PROGRAMS | V(WATCH) | V(GRAPH) | V(TOP), OPT_BUFFER, 0, "buffer", "SIZE", KIND_TEXT,
     "bytes of one processor's log ring, such as 4M (default 1M)", true},

    {EVENTS | V(GRAPH) | V(TOP) | PROGRAMS, OPT_BUDGET, 0, "budget", "PERCENT", KIND_TEXT,
     "take hot probes out while hits cost more of the processor time", true},
    {LOADS, OPT_BUDGET, 0, "budget", "PERCENT", KIND_TEXT,
     "hits cost at most so much of the processor time (5% without -p; off)", true},

    {V(BUILD), OPT_OUTFILE, 'o', "outfile", "FILE", KIND_FILE, "write the object to FILE (default: .ppdf for .rpn)"},
    {V(BUILD), OPT_LIST, 0, "list", NULL, 0, "print the program as it was read, write nothing"},
    {V(QUERY), OPT_EXTENDED, 'x', "extended", NULL, 0, "with the programs"},
    {V(VARS), OPT_INDEX, 'i', "index", "I1-I2", KIND_TEXT, "only variables I1 to I2", true},
    {V(VARS), OPT_LOCAL, 0, "local", NULL, 0, "only local variables", true},
    {V(VARS), OPT_GLOBAL, 0, "global", NULL, 0, "only global variables", true},
    {V(VARS), OPT_RESET, 0, "reset", NULL, 0, "set them to zero instead"},
    {V(VARS), OPT_INTERVAL, 0, "interval", "SEC", KIND_TEXT, "repeat every SEC seconds, until Ctrl-C", true},
    {V(LOG), OPT_FOLLOW, 'f', "follow", NULL, 0, "keep showing what is logged, until Ctrl-C"},
    {V(LOG), OPT_RAW, 0, "raw", NULL, 0, "also the bytes of each record, in hexadecimal"},
    {V(LOG), OPT_CLEAR, 'c', "clear", NULL, 0, "empty the log"},
    {V(DRIVER), OPT_HAND_OVER, 0, "hand-over", NULL, 0,
     "the driver that runs leaves its place, with all probes, to this version"},
    {V(HOOKS), OPT_ARM, 0, "arm", "HOOK[:EXIT]", KIND_TEXT, "arm an exit, or open a hook for probes on HOOK_hook_call"},
    {V(HOOKS), OPT_DISARM, 0, "disarm", "HOOK[:EXIT]", KIND_TEXT, "disarm an exit, or close a hook"},
    {V(KERNEL), OPT_ALLOW_CRASH, 0, "allow-crash", NULL, 0,
     "programs may make the kernel panic, for a crash dump (`exit 2`)"},
    {V(KERNEL), OPT_ALLOW_DEBUGGER, 0, "allow-debugger", NULL, 0,
     "programs may enter the kernel's debugger (`exit 1`)"},

    {EVENTS | V(WATCH) | V(GRAPH), OPT_QUIET, 'q', "quiet", NULL, 0, "only events, errors and losses"},
    {PROGRAMS, OPT_QUIET, 'q', "quiet", NULL, 0, "no notes"},
    {V(REPORT), OPT_QUIET, 'q', "quiet", NULL, 0, "no summary"},
    {V(REPORT), OPT_INFO, 0, "info", NULL, 0, "only when, where and what was recorded, counts"},
    {V(VERIFY), OPT_QUIET, 'q', "quiet", NULL, 0, "only the exit status"},
    {~V(NONE), OPT_HELP, 'h', "help", NULL, 0, "show this help", true},
};

const struct cmd_option *dp_cmd_option_after(enum cmd_verb verb, const struct cmd_option *o)
{
	for (o = o ? o + 1 : options; o < options + DP_ARRAY_SIZE(options); o++)
		if (o->verbs & 1u << verb)
			return o;
	return NULL;
}

const struct cmd_option *dp_cmd_option_named(enum cmd_verb verb, const char *name, size_t len)
{
	const struct cmd_option *o = NULL;

	while ((o = dp_cmd_option_after(verb, o)))
		if (strlen(o->name) == len && !strncmp(o->name, name, len))
			break;
	return o;
}

const struct cmd_option *dp_cmd_option_lettered(enum cmd_verb verb, char letter)
{
	const struct cmd_option *o = NULL;

	while ((o = dp_cmd_option_after(verb, o)))
		if (o->letter == letter)
			break;
	return o;
}

enum cmd_verb dp_cmd_verb_named(const char *name)
{
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (!strcmp(name, dp_cmd_specs[v].name))
			return v;
	return VERB_NONE;
}

void dp_cmd_each_format(enum cmd_kind kind, cmd_take_named *take, void *arg)
{
#define DP_FORMAT(id, name, events, programs, help) take(arg, name, help);
#define DP_WHOLE_FORMAT(id, name, sink, help) \
	if (kind != KIND_RECORD_FORMAT)       \
		take(arg, name, help);
#define DP_EVENT_FORMAT(id, name, events, help) \
	if (kind == KIND_FORMAT)                \
		take(arg, name, help);
#include "log/formats.def"
#undef DP_EVENT_FORMAT
#undef DP_WHOLE_FORMAT
#undef DP_FORMAT
}
