# SPDX-License-Identifier: MIT OR GPL-2.0-only
# The event tracer, in the guest; read by guest.sh, which brings say, load, work and soon.
top=/sys/kernel/debug/dprobes

refused() { # file line what
	before=$(cat $top/"$1")
	! echo "$2" 2>/dev/null >>$top/"$1" && [ "$(cat $top/"$1")" = "$before" ] && tail -n 3 $top/error_log |
		grep -q "$3"
	say $? "refused with $3: $2"
}

# The lines of the first event tracer's description, as printed there but for today's name of the function.
first_tracer() {
	cd $top
	echo p do_sys_openat2 a1 a2 a3 a4 >kprobe_probes
	say $? "kprobe_probes: a probe"
	echo r do_sys_openat2 rv rp >>kprobe_probes
	say $? "kprobe_probes: a return probe is added"
	[ "$(cat kprobe_probes)" = "p do_sys_openat2 a1 a2 a3 a4
r do_sys_openat2 rv rp" ]
	say $? "kprobe_probes shows both"
	cat /proc/version >/dev/null
	grep ' cat-[0-9]* *\[00[01]\] *[0-9]*\.[0-9]\{6\}: do_sys_openat2: ' trace |
		grep -q ': @do_sys_openat2+0 0xffffff9c 0x[0-9a-f]* 0x[0-9a-f]* 0x[0-9a-f]*$'
	say $? "trace shows the hit as the first tracer did"
	grep -q ' __x64_sys_openat: <-do_sys_openat2+0 0x3 0xffffffff[0-9a-f]\{8\}$' trace
	say $? "and the return, with the function that is returned to"
	echo >kprobe_probes
	[ ! -s kprobe_probes ]
	say $? "an empty line clears"
	echo >trace
	cat /proc/version >/dev/null
	! grep -q do_sys trace
	say $? "and nothing is recorded any more"
}

todays_tracer() {
	cd $top
	echo 'p:open do_sys_openat2 dfd=%di:s32 name=+0(%si):ustring flags=+0(%dx):x32 comm=$comm' >>kprobe_events
	echo 'r:opened do_sys_openat2 fd=$retval:s32' >>kprobe_events
	echo 'p:mine/w vfs_write n=$arg3:u64 nul=+0(\0):u32 from=$stack0:symbol pair=+0($stack):x64[2] if n == 777' \
		>>kprobe_events
	echo 'p vfs_read' >>kprobe_events
	[ "$(grep -c . kprobe_events)" = 4 ] && [ "$(tail -n 1 kprobe_events)" = "p:kprobes/p_vfs_read_0 vfs_read" ]
	say $? "kprobe_events shows what was defined, with names"
	[ "$(cat events/enable)" = 0 ] && cat /proc/version >/dev/null && ! grep -q open: trace
	say $? "events are off at first"
	echo 1 >events/kprobes/open/enable
	echo 1 >events/kprobes/opened/enable
	[ "$(cat events/enable)$(cat events/kprobes/enable)$(cat events/mine/enable)" = XX0 ]
	say $? "switches of one, a group, all"
	cat /proc/version >/dev/null
	grep -q 'open: (do_sys_openat2+0x0/0x[0-9a-f]*) dfd=-100 name="/proc/version" flags=0x8000 comm="cat"$' trace
	say $? "a probe with a number, a text, memory, the task's name"
	grep -q 'opened: (__x64_sys_openat+0x[0-9a-f]*/0x[0-9a-f]* <- do_sys_openat2) fd=3$' trace
	say $? "a return probe with its value"
	echo 'name ~ "*uptime"' >events/kprobes/open/filter
	echo >trace
	cat /proc/version /proc/uptime >/dev/null
	[ "$(grep -c ' open:' trace)" = 1 ] && grep -q 'name="/proc/uptime"' trace
	say $? "a filter by pattern"
	echo 0 >events/kprobes/open/filter
	[ "$(cat events/kprobes/open/filter)" = none ]
	say $? "and none"
	echo 1 >events/mine/enable
	dd if=/dev/zero of=/tmp/w bs=777 count=50 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=778 count=50 2>/dev/null
	echo 0 >events/enable
	banner='k=@linux_proc_banner:string u=@linux_proc_banner:ustring'
	echo "p:text vfs_write $banner v=+u0(\$stack):u64 w=+0(\$stack):u64" >>kprobe_events
	echo 1 >events/kprobes/text/enable
	echo x >/tmp/w
	echo 0 >events/kprobes/text/enable
	grep -q ' text: .* k="%s version %s.*" u=(fault) v=(fault) w=[0-9]*$' trace
	say $? "ustring and +u read user memory only"
	echo '-:text' >>kprobe_events
	[ "$(grep -c ' w: ' trace)" = 50 ] &&
		grep ' w: (vfs_write+0x0/0x[0-9a-f]*) n=777 nul=(fault) ' trace |
		grep -q ' from=ksys_write+0x[0-9a-fx/]* pair={0x[0-9a-f]*,0x[0-9a-f]*}$'
	say $? "a condition; memory that is not there; a symbol; an array"
	awk '$1 == "w" { good = $2 == 50 && $4 >= 50 && $5 == 0 && $6 == 0 } END { exit !good }' profile
	say $? "profile counts each: recorded, filtered, missed, lost"
	grep -q 'field:u32 flags;	offset:[0-9]*;	size:4;	signed:0;' events/kprobes/open/format
	say $? "format tells the layout"
	echo '-:mine/w' >>kprobe_events && [ ! -e events/mine ]
	say $? "one event is deleted, and its group with it"
	echo 1 >events/kprobes/open/enable
	! echo 2>/dev/null >kprobe_events && [ "$(grep -c . kprobe_events)" = 3 ]
	say $? "what is in use is not cleared"
	echo 0 >events/enable
	echo >kprobe_events && [ ! -s kprobe_events ] && [ "$(ls events)" = enable ]
	say $? "what is not is"
}

# An event of a module comes back with it.
modules_again() {
	cd $top
	echo >trace
	echo 'p:v dpvictim:victim_work n=$arg1' >>kprobe_events
	echo 'r:vr kmod(dpvictim):victim_work' >>kprobe_events
	echo 1 >events/enable
	for _ in 1 2 3; do
		insmod /t/dpvictim.ko
		cat trace >/tmp/while
		rmmod dpvictim
	done
	grep -q ' v: (victim_work+0x0/0x[0-9a-f]* \[dpvictim\]) n=' /tmp/while
	say $? "an event in a module that was loaded for the third time"
	[ "$(grep -c ' v: ' trace)" = "$(grep -c ' vr: ' trace)" ] && [ "$(grep -c ' v: ' trace)" -ge 6 ]
	say $? "each time it was recorded, and its return"
	echo 0 >events/enable
	echo '-:v' >>kprobe_events && echo '-:vr' >>kprobe_events
	say $? "they are deleted while the module is not there"
}

mistakes() {
	cd $top
	refused kprobe_events 'p vfs_read x=%zz' E-EVENT-REG
	refused kprobe_events 'p no_such_function_at_all' E-KERNEL-SYMBOL
	refused kprobe_events 'p name_show' E-KERNEL-AMBIGUOUS
	refused kprobe_events 'p vfs_read+1' E-SITE
	refused kprobe_events "p $trap_path" E-SITE-TRAPPATH
	refused kprobe_events 'p vfs_read $retval' E-EVENT-RETVAL
	refused kprobe_probes 'p vfs_read rv' E-EVENT-RETVAL
	printf 'p vfs_read x=%%zz' >>kprobe_events 2>/dev/null
	[ "$(tail -n 1 error_log)" = "                        ^" ]
	say $? "the log of errors points at the place"
}

# Blanks and `if` in texts, conditions without a blank: shown as written, saved and restored, and filtered as written.
texts() {
	cd $top
	echo 'p:b vfs_write x=\"a if b" y=$arg3:s32 if(y == 779)' >>kprobe_events
	[ "$(cat kprobe_events)" = 'p:kprobes/b vfs_write x=\"a if b" y=$arg3:s32 if (y == 779)' ]
	say $? "a text with blanks is one argument, if( begins a condition"
	cat kprobe_events >/tmp/saved && echo >kprobe_events && cat /tmp/saved >kprobe_events &&
		[ "$(cat kprobe_events)" = "$(cat /tmp/saved)" ]
	say $? "a definition that was saved is restored"
	echo 'y < 790 && y != 778' >events/kprobes/b/filter && echo 1 >events/kprobes/b/enable
	dd if=/dev/zero of=/tmp/w bs=779 count=1 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=780 count=1 2>/dev/null
	echo 0 >events/kprobes/b/enable
	[ "$(grep -c ' b: ' trace)" = 1 ] && grep -q ' b: (vfs_write+0x0/0x[0-9a-f]*) x="a if b" y=779$' trace
	say $? "a filter leaves the texts of the definition alone"
	! echo 'y == zz' 2>/dev/null >events/kprobes/b/filter && tail -n 3 error_log | grep -q ' E-[A-Z-]*: ' &&
		[ "$(tail -n 2 error_log)" = "  Command: y == zz
                ^" ]
	say $? "error_log: a filter's mistake has its code and its place"
	long=$(printf 'p:long vfs_read'; for i in $(seq 1 60); do printf ' a%d=$arg1' "$i"; done)
	! echo "$long x=%zz" 2>/dev/null >>kprobe_events &&
		[ "$(tail -n 2 error_log | head -n 1)" = "  Command: $long x=%zz" ] &&
		[ "$(tail -n 1 error_log | wc -c)" = $((${#long} + 16)) ]
	say $? "error_log: a long line is there as a whole"
	echo >kprobe_events
	echo 'p do_sys_openat2 a1' >kprobe_probes && echo 'p do_sys_openat2 a2' >>kprobe_probes &&
		[ "$(grep -c . kprobe_probes)" = 2 ]
	say $? "kprobe_probes: two probes at one place need no names"
	echo >kprobe_probes
	echo 'p dpvictim:victim_work' >>kprobe_events && echo 'p nosuch:victim_work' >>kprobe_events &&
		[ -d events/kprobes/p_dpvictim_victim_work_0 ] && [ -d events/kprobes/p_nosuch_victim_work_0 ]
	say $? "events at functions of one name in two modules"
	echo >kprobe_events
	echo 'p:f vfs_write n=$arg3:u32 t=\"a" v=+0($stack):x64[2]' >>kprobe_events
	echo 'r:fr vfs_write n=$retval:s64' >>kprobe_events
	values='REC->__probe_ip, REC->n, __get_str(t), REC->v[0], REC->v[1]'
	grep -q 'field:unsigned long __probe_ip;	offset:[0-9]*;	size:8;	signed:0;' events/kprobes/f/format &&
		[ "$(grep '^print fmt' events/kprobes/f/format)" = \
			'print fmt: "(%lx) n=%u t=\"%s\" v={0x%Lx,0x%Lx}", '"$values" ] &&
		[ "$(grep '^print fmt' events/kprobes/fr/format)" = \
			'print fmt: "(%lx <- %lx) n=%Ld", REC->__probe_func, REC->__probe_ret_ip, REC->n' ]
	say $? "format: print fmt with its arguments, elements of arrays, the place"
	echo >kprobe_events
}

# Memory of the kernel is watched: panic_timeout, an int, written by root.
watched_memory() {
	cd $top
	echo >trace
	was=$(cat /proc/sys/kernel/panic)
	echo 'w:timeout panic_timeout:4 at=$addr old=$old:s32 new=$new:s32 by=%ip:symbol c=$comm if $new != 13' \
		>>kprobe_events
	say $? "a watchpoint"
	echo 'w:mine/seen kernel:panic_on_oops+0:4:rw $new' >>kprobe_events
	[ "$(tail -n 2 kprobe_events)" = \
	'w:kprobes/timeout panic_timeout:4 at=$addr old=$old:s32 new=$new:s32 by=%ip:symbol c=$comm if $new != 13
w:mine/seen kernel:panic_on_oops+0:4:rw arg1=$new' ]
	say $? "watchpoints are shown as they were defined"
	[ ! -s debug_registers ]
	say $? "which takes no register"
	echo 6 >/proc/sys/kernel/panic
	! grep -q timeout trace
	say $? "watchpoints are off at first"
	echo 1 >events/kprobes/timeout/enable && echo 1 >events/mine/enable
	say $? "watchpoints are switched on"
	grep -q '^3  w  *0x[0-9a-f]*  4  panic_timeout+0x0/0x[0-9a-f]*  on_watch' debug_registers &&
		[ "$(grep -c . debug_registers)" = 2 ]
	say $? "debug_registers shows who has which"
	for n in 7 13 8; do echo $n >/proc/sys/kernel/panic; done
	at=$(sed -n 's/.* timeout: .* at=0x\([0-9a-f]*\) .*/\1/p' trace | head -n 1)
	grep -q "$at . panic_timeout\$" /proc/kallsyms
	say $? "\$addr is what is watched"
	grep ' \.script-.* timeout: (panic_timeout+0x0/0x[0-9a-f]*) ' trace |
		sed -n 's/.* at=0x[0-9a-f]* \(old=.* new=.*\) by=.*int.*+0x[0-9a-f/x]* c=".script"$/\1/p' >/tmp/w
	[ "$(cat /tmp/w)" = "old=6 new=7
old=13 new=8" ]
	say $? "old and new values, the writer, a condition"
	cat /proc/sys/kernel/panic_on_oops >/tmp/oops
	grep -q " seen: (panic_on_oops+0x0/0x[0-9a-f]*) arg1=0x$(cat /tmp/oops)\$" trace
	say $? "reads are seen where they are asked for"
	awk '$1 == "timeout" { good = $2 == 2 && $4 == 1 && !$5 && !$6 } END { exit !good }' profile &&
		grep -q '^  timeout  *3  *0$' kprobe_profile
	say $? "profile counts what was written"
	echo 'new == 9 && c == ".script"' >events/kprobes/timeout/filter
	echo >trace
	for n in 8 9 10; do echo $n >/proc/sys/kernel/panic; done
	[ "$(grep -c ' timeout: ' trace)" = 1 ] && grep -q ' timeout: .* new=9 ' trace
	say $? "a filter over what was watched"
	echo 0 >tracing_on && echo 9 >/proc/sys/kernel/panic && echo 1 >tracing_on
	[ "$(grep -c ' timeout: ' trace)" = 1 ] && [ "$(awk '$1 == "timeout" { print $3 }' profile)" = 1 ]
	say $? "tracing_on 0 passes watchpoints over"
	! echo '-:timeout' 2>/dev/null >>kprobe_events
	say $? "a watchpoint in use is not deleted"
	echo 0 >events/enable && [ ! -s debug_registers ]
	say $? "switched off, its register is free"
	echo '-:timeout' >>kprobe_events && echo '-:mine/seen' >>kprobe_events && [ ! -s kprobe_events ]
	say $? "watchpoints are deleted"
	for n in 1 2 3 4 5; do echo "w:w$n panic_on_oops:4" >>kprobe_events; done
	! echo 1 2>/dev/null >events/enable && [ "$(cat events/enable)" = X ] &&
		[ "$(cat events/kprobes/w5/enable)" = 0 ]
	say $? "there are four registers"
	tail -n 3 error_log | grep -q 'E-WATCH-BUSY: .*panic_on_oops; this module watches panic_on_oops for ' &&
		[ "$(tail -n 1 error_log)" = '  Command: w:kprobes/w5 panic_on_oops:4' ]
	say $? "the log of errors tells who has them"
	echo 0 >events/kprobes/w2/enable && echo 1 >events/kprobes/w5/enable
	say $? "a free one goes to the next"
	echo 0 >events/enable && echo >kprobe_events
	say $? "all watchpoints are cleared"
	echo 'w panic_timeout:4 $old $new' >kprobe_probes && echo 11 >/proc/sys/kernel/panic
	grep -q ' panic_timeout: @panic_timeout+0 arg1=0x9 arg2=0xb$' trace
	say $? "kprobe_probes: a watchpoint is in force at once"
	echo >kprobe_probes && [ ! -s debug_registers ]
	say $? "and cleared"
	echo "w:byaddress 0x$at:4:w new=\$new:s32" >>kprobe_events && echo 1 >events/enable &&
		echo 12 >/proc/sys/kernel/panic
	grep -q ' byaddress: (panic_timeout+0x0/0x[0-9a-f]*) new=12$' trace
	say $? "a watchpoint at an address"
	echo 0 >events/enable && echo >kprobe_events
	echo "$was" >/proc/sys/kernel/panic
	refused kprobe_events 'w panic_timeout' E-WATCH-SIZE
	refused kprobe_events 'w panic_timeout:3' E-WATCH-ARGUMENT
	refused kprobe_events 'w panic_timeout+1:4' E-WATCH-ARGUMENT
	refused kprobe_events 'w panic_timeout:16' E-WATCH-ARGUMENT
	refused kprobe_events 'w panic_timeout:0' E-EVENT-WATCHLEN
	refused kprobe_events 'w panic_timeout:1:io' E-WATCH-TYPE
	refused kprobe_events 'w 0x1000:4' E-WATCH-ARGUMENT
	refused kprobe_events 'w no_such_variable:4' E-SYM-NONE
	refused kprobe_events 'w panic_timeout%return:4' E-EVENT-SUFFIX
	refused kprobe_events 'w panic_timeout:4 a=$arg1' E-EVENT-WATCHARG
	refused kprobe_events 'p vfs_read old=$old' E-EVENT-WATCHVAR
}

# Memory of a module is watched as long as it is there.
watched_module() {
	cd $top
	echo >trace
	insmod /t/dpvictim.ko
	echo 'w:v dpvictim:victim_calls:4 old=$old:s32 new=$new:s32' >>kprobe_events && echo 1 >events/kprobes/v/enable
	say $? "a module's variable is watched"
	echo 1 >/sys/module/dpvictim/parameters/work
	grep -q ' v: (victim_calls+0x0/0x[0-9a-f]* \[dpvictim\]) old=[0-9]* new=[0-9]*$' trace
	say $? "and its writes are seen"
	rmmod dpvictim
	[ ! -s debug_registers ]
	say $? "its register is free when the module has gone"
	echo 0 >events/enable && ! echo 1 2>/dev/null >events/enable
	say $? "without the module it is not switched on"
	echo >kprobe_events
	say $? "and deleted"
}

# What is carried out as a list (plain.c) against the interpreter, which has it where a condition asks for the user:
# words of registers and their parts, computed ones, memory that is there and memory that is not, a return address.
listed() {
	cd $top
	echo >trace
	arguments='x=%si p=$pid t=$tid c=$cpu y=%dx:s32 z=%di:u8 part=%ax:x16 bits=%si:b5@7/32
		m=+0($stack):x64 n=+12($stack):u32 bad=+0(%dx):u64 long=+8(%sp):x64[3] worse=+1(%dx):u16'
	for place in "p:LIST vfs_write" "r:LISTr vfs_write"; do
		for how in "a " "b if \$uid == 0"; do
			echo "${place%%LIST*}${how%% *}${place#*LIST} $(echo $arguments) ${how#* }" >>kprobe_events
		done
	done
	echo 'p:c vfs_write x=%si:u8 if $tid > 1 && %dx == 777 && %dx:s8 < 10' >>kprobe_events
	echo 'p:d vfs_write x=%si:u8 if $tid > 1 && %dx == 777 && %dx:s8 < 10 && $uid == 0' >>kprobe_events
	[ "$(grep -c . kprobe_events)" = 6 ] && echo 1 >events/enable
	say $? "events that are carried out both ways"
	dd if=/dev/zero of=/tmp/w bs=777 count=40 2>/dev/null
	dd if=/dev/zero of=/tmp/w bs=778 count=5 2>/dev/null
	echo 0 >events/enable
	for name in a b ar br c d; do
		grep " dd-.* $name: " trace | sed "s/.*: $name: //" >/tmp/of-$name
	done
	[ "$(grep -c 'bad=(fault) long={0x[0-9a-f]*,0x[0-9a-f]*,0x[0-9a-f]*} worse=(fault)$' /tmp/of-a)" -ge 45 ] &&
		cmp /tmp/of-a /tmp/of-b
	say $? "a list logs what the interpreter does"
	[ "$(wc -l </tmp/of-ar)" -ge 45 ] && cmp /tmp/of-ar /tmp/of-br
	say $? "so does one of returns, with where they lead"
	[ "$(wc -l </tmp/of-c)" = 40 ] && cmp /tmp/of-c /tmp/of-d
	say $? "and decides as the interpreter does"
	awk '$1 == "a" { a = $7 } $1 == "b" { b = $7 } $1 == "c" { c = $4 } $1 == "d" { d = $4 }
		END { exit !(a >= 90 && a == b && c >= 5 && c == d) }' profile
	say $? "faults and hits that are filtered are counted alike"
	echo >kprobe_events
}

# Whose hit it is: as arguments, and as the filters of the kernel's own events have it.
whose() {
	cd $top
	echo >trace
	mkdir -p /tmp/groups && mount -t cgroup2 none /tmp/groups && mkdir /tmp/groups/one
	say $? "a control group"
	echo 'p:who vfs_write pid=$pid tid=$tid uid=$uid cpu=$cpu group=$cgroup if $arg3 == 33' >>kprobe_events
	echo 'COMM == "dd" && CPU < 4096 && common_pid > 1' >events/kprobes/who/filter &&
		echo 1 >events/kprobes/who/enable
	say $? "a filter knows the task and the processor"
	sh -c 'echo $$ >/tmp/groups/one/cgroup.procs; exec dd if=/dev/zero of=/tmp/w bs=33 count=1' 2>/dev/null &
	wait $!
	n=$!
	head -c 33 /dev/zero >/tmp/w
	grep -q " dd-$n .* who: .* pid=$n tid=$n uid=0 cpu=[01] group=$(stat -c %i /tmp/groups/one)\$" trace &&
		[ "$(grep -c ' who: ' trace)" = 1 ]
	say $? "arguments tell the process, the thread, the user, the processor, the control group"
	echo "common_pid == $n" >events/kprobes/who/filter
	dd if=/dev/zero of=/tmp/w bs=33 count=1 2>/dev/null
	[ "$(grep -c ' who: ' trace)" = 1 ]
	say $? "a filter takes one thread alone"
	refused kprobe_events 'p vfs_write x=$cgrup' E-EVENT-VAR
	echo 0 >events/enable && echo >kprobe_events
	rmdir /tmp/groups/one && umount /tmp/groups
}

# The log's own files: several readers, one processor's, its size; and who is recorded at all.
logs() {
	cd $top
	echo >trace
	echo 'p:g __x64_sys_getuid' >>kprobe_events
	echo 1 >events/kprobes/g/enable
	timeout 3 cat trace_pipe >/tmp/pipe1 &
	one=$!
	timeout 3 cat trace_pipe >/tmp/pipe2 &
	two=$!
	timeout 3 cat per_cpu/cpu1/trace_pipe >/tmp/pipe3 &
	three=$!
	for i in 1 2 3 4 5 6 7 8; do taskset $((1 + i % 2)) id -u; done >/dev/null
	wait $one
	wait $two
	wait $three
	cat /tmp/pipe1 /tmp/pipe2 /tmp/pipe3 >/tmp/pipes
	[ "$(grep -o ' id-[0-9]*' /tmp/pipes | sort -u | wc -l)" = 8 ] &&
		[ -z "$(grep ' g: ' /tmp/pipes | sort | uniq -d)" ] && ! grep -v '\[001\]' /tmp/pipe3 | grep -q ' g: '
	say $? "several readers of trace_pipe: each record goes to one of them"
	taskset 1 id -u >/dev/null
	taskset 2 id -u >/dev/null
	n=$(grep -c ' id-.* g: ' per_cpu/cpu0/trace)
	[ "$n" -gt 0 ] && [ "$(grep -c ' id-.* g: ' per_cpu/cpu1/trace)" = "$n" ] &&
		[ "$(grep -c ' id-.* g: ' trace)" = $((2 * n)) ]
	say $? "each processor's log has a file"
	echo >per_cpu/cpu0/trace
	! grep -q ' id-' per_cpu/cpu0/trace && grep -q ' id-' per_cpu/cpu1/trace
	say $? "which clears that alone"
	! echo 64 2>/dev/null >buffer_size_kb
	say $? "the size does not change while an event is on"
	echo 0 >events/enable
	[ "$(cat buffer_size_kb)" = 1024 ] && echo 60 >buffer_size_kb && [ "$(cat buffer_size_kb)" = 64 ] &&
		[ "$(cat buffer_total_size_kb)" = 128 ] && ! grep -q ' id-' trace
	say $? "else it does, and the log is empty"
	echo 1 >events/enable
	sh -c 'echo $$ >set_event_pid; exec id -u' >/dev/null &
	wait $!
	n=$!
	id -u >/dev/null
	[ "$(grep -o ' id-[0-9]*' trace | sort -u)" = " id-$n" ] && [ "$(cat set_event_pid)" = "$n" ]
	say $? "set_event_pid: only those threads are recorded"
	echo "7 $n 999999" >>set_event_pid && [ "$(echo $(cat set_event_pid))" = "7 $n $n 999999" ] &&
		! echo x 2>/dev/null >>set_event_pid && [ "$(grep -c . set_event_pid)" = 4 ]
	say $? "more are added; what is no number changes nothing"
	echo >set_event_pid && id -u >/dev/null && [ "$(grep -o ' id-[0-9]*' trace | sort -u | wc -l)" = 2 ]
	say $? "an empty list means all"
	awk '$1 == "g" { good = $3 >= 1 } END { exit !good }' profile
	say $? "the others were passed over"
	echo 0 >events/enable
	echo 1024 >buffer_size_kb
	echo >kprobe_events
}

reading() {
	cd $top
	echo >trace
	echo 'p:g __x64_sys_getuid' >>kprobe_events
	echo 1 >events/kprobes/g/enable
	id -u >/dev/null
	id -u >/dev/null
	timeout 2 cat trace_pipe >/tmp/pipe
	[ "$(grep -c ' id-.* g: ' /tmp/pipe)" = 2 ] && ! grep -q ' id-' trace
	say $? "trace_pipe takes what it shows"
	echo 0 >tracing_on
	id -u >/dev/null
	! grep -q ' id-' trace
	say $? "tracing_on 0 records nothing"
	echo 1 >tracing_on
	echo 0 >events/enable
	echo >kprobe_events
	echo >trace
	echo 'p:many vfs_read a=$comm b=$comm c=$comm d=$comm e=$comm f=$comm' >>kprobe_events
	echo 1 >events/enable
	dd if=/dev/zero of=/dev/null bs=1 count=20000 2>/dev/null
	echo 0 >events/enable
	awk 'NR == 3 { split($3, n, "/"); good = n[2] >= 20000 && n[1] < n[2] && n[1] > 1000 } END { exit !good }' trace
	say $? "a full log gives up its oldest records"
	! sed 1,6d trace |
		grep -v ' many: (vfs_read+0x0/0x[0-9a-f]*) a="[^"]*" b="[^"]*" c="[^"]*" d="[^"]*" e="[^"]*" f="[^"]*"$'
	say $? "and shows whole ones"
	echo >kprobe_events
}

# Definitions, switches, readers and the log's clearing against each other, while everything is used.
restless() {
	cd $top
	work &
	worker=$!
	(while :; do cat $top/trace; done >/dev/null 2>&1) &
	reader=$!
	bad=0
	for round in $(seq 25); do
		echo 'p:a vfs_read n=$arg3 c=$comm' >>kprobe_events || bad=1
		echo "r:b $cache_alloc p=\$retval" >>kprobe_events || bad=1
		echo 'p:c kfree p=$arg1 if p != 0' >>kprobe_events || bad=1
		echo 'p do_sys_openat2 a1 a2' >>kprobe_probes || bad=1
		echo 1 >events/enable || bad=1
		sleep 0.1
		echo 'n > 100' >events/kprobes/a/filter || bad=1
		echo >trace
		echo 0 >events/enable || bad=1
		echo >kprobe_events || bad=1
		echo >kprobe_probes || bad=1
	done
	say $bad "events come and go under load, 25 times"
	echo 'p:a vfs_read n=$arg3 c=$comm' >>kprobe_events
	echo 'r:b vfs_read n=$retval' >>kprobe_events
	echo 1 >events/enable
	sleep 0.5
	kill $reader
	cd /t
	soon 'rmmod dprobes 2>/dev/null'
	say $? "the module goes with its events switched on"
	kill $worker
	ls -lR /sys/kernel >/dev/null 2>&1
	say $? "the guest works on"
}

events() {
	load
	first_tracer
	todays_tracer
	modules_again
	mistakes
	texts
	watched_memory
	watched_module
	listed
	whose
	logs
	reading
	restless
}

# Instructions of a call of jiffies_to_clock_t, with whatever stands there.
called() {
	echo 1 >/sys/module/dptest/parameters/loop
	dmesg | sed -n 's/.*tap: # loop: //p'
	dmesg -c >>/tmp/log
}

# The same event through the kernel's files and through ours.
bench_events() {
	insmod dptest.ko lookup="$lookup" group=none
	base=$(called)
	for arguments in '' 'a=$arg1 b=$arg2' 'a=+0($stack):u64 b=+8($stack):u64'; do
		for dir in /sys/kernel/tracing $top; do
			echo "p:e jiffies_to_clock_t $arguments" >>$dir/kprobe_events
			echo 1 >$dir/events/kprobes/e/enable
			took=$(($(called) - base))
			echo 0 >$dir/events/kprobes/e/enable
			echo '-:e' >>$dir/kprobe_events
			[ $dir = $top ] || theirs=$took
		done
		echo "tap: # figure: kernel, event recorded (${arguments:-no arguments}):" \
			"kprobe_events $theirs, dprobes $took"
		[ "$took" -gt 100 ] && [ "$took" -lt "$theirs" ]
		say $? "an event (${arguments:-no arguments}) takes less than the kernel's ($took, $theirs)"
	done
	rmmod dptest
}

# Tests of the kernel's own tracer, one after the other; the second argument is the directory that they use.
verdicts() {
	cd /t/ftrace
	TRACING_DIR=$2 sh ./ftracetest -l /tmp/logs-"$1" $(cat cases) 2>&1 |
		sed -n "s/^\[[0-9]*\] \(.*\)	\[\([A-Z]*\)\]\$/verdict: $1: \2: \1/p"
	cd /t
}

ftracetest() {
	load
	verdicts kernel /sys/kernel/tracing
	verdicts ours $top
	rmmod dprobes
	say $? "it unloads"
}
