#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Build the harnesses of libfuzzer.c with clang, and what they begin with. Run one for ten minutes:
#	tests/fuzz/build-libfuzzer.sh build/libfuzzer
#	build/libfuzzer/fuzz-text -max_total_time=600 build/libfuzzer/text
# Usage: build-libfuzzer.sh OUT_DIR
set -eu
src=$(cd "$(dirname "$0")/../.." && pwd)
out=$1
flags="-std=gnu17 -O1 -g -D_GNU_SOURCE -DDP_VERSION=\"0\" -fno-strict-aliasing -w -I$src/src -I$src/include"
flags="$flags -fsanitize=address,undefined -fno-sanitize=function"
libs=$(pkg-config --libs libprotobuf-c)
mkdir -p "$out/obj" "$out/text" "$out/object" "$out/code" "$out/log" "$out/recording"
# What the build makes for the formats.
sinks=$src/src/log/sinks
as_text() {
	to=$1
	shift
	sed -f "$sinks/c-text.sed" "$@" >"$out/obj/$to.inc"
}
protoc-c "--c_out=$out/obj" "--proto_path=$sinks" perfetto.proto pprof.proto
as_text flame-script "$sinks/flame.js"
as_text report-style "$sinks/report.css"
as_text report-body "$sinks/report.html"
as_text report-script "$sinks"/report-*.js
flags="$flags -I$out/obj $(pkg-config --cflags libprotobuf-c)"
objects=
for f in perfetto pprof; do
	clang $flags -fsanitize=fuzzer-no-link -c "$out/obj/$f.pb-c.c" -o "$out/obj/$f.o"
	objects="$objects $out/obj/$f.o"
done
for f in base/error base/nearest base/part base/services-user base/text lang/event/lexer lang/event/event-parse \
	lang/event/location lang/event/fetch lang/event/condition lang/event/event-gen lang/event/gen-condition \
	lang/event/event-compile program/code program/program-image program/program program/verify program/disasm \
	program/flow program/lower program/lower-record lang/rpn/rpn-aggregate lang/rpn/asm lang/rpn/rpn-error \
	lang/rpn/rpn-fields lang/rpn/macro lang/rpn/rpn-keys lang/rpn/rpn-parse lang/rpn/rpn-place lang/rpn/pre \
	lang/rpn/token lang/rpn/rpn-unit \
	$(cd "$src/src" && ls log/*.c log/sinks/*.c | grep -v /part-) \
	hit/vm hit/hit-rpn hit/hit-tables hit/hit-text base/emit arch/x86_64/rpn-calls \
	arch/x86_64/rpn-compile arch/x86_64/rpn-ops arch/x86_64/rpn-values \
	arch/x86_64/rpn-ways; do
	f=${f%.c}
	o=$out/obj/$(echo $f | tr / -).o
	clang $flags -fsanitize=fuzzer-no-link -c "$src/src/$f.c" -o "$o"
	objects="$objects $o"
done
clang $flags -c "$src/tests/unit/machine.c" -o "$out/obj/machine.o"
for kind in text object code log; do
	clang $flags -fsanitize=fuzzer "-DFUZZ_$(echo $kind | tr a-z A-Z)" "$src/tests/fuzz/libfuzzer.c" $objects \
		"$out/obj/machine.o" $libs -o "$out/fuzz-$kind"
done
clang $flags -c "$src/tests/fuzz/samples.c" -o "$out/obj/samples.o"
clang $flags -fsanitize=fuzzer -DFUZZ_RECORDING "$src/tests/fuzz/fuzz-recording.c" $objects "$out/obj/samples.o" \
	"$out/obj/machine.o" $libs -o "$out/fuzz-recording"
clang $flags -fsanitize=fuzzer-no-link -DFUZZ_SEEDS "$src/tests/fuzz/fuzz-recording.c" $objects "$out/obj/samples.o" \
	"$out/obj/machine.o" $libs -o "$out/recordings"
"$out/recordings" "$out/recording"
clang $flags -fsanitize=fuzzer-no-link -DFUZZ_SEEDS "$src/tests/fuzz/libfuzzer.c" $objects "$out/obj/machine.o" $libs \
	-o "$out/seeds"
cp "$src"/tests/golden/*.rpn "$src"/tests/golden/errors/*.rpn "$src"/examples/rpn/*.rpn "$out/text/"
"$out/seeds" "$src"/tests/golden/*.rpn "$src"/examples/rpn/*.rpn "$out"
head -c 400 /dev/zero > "$out/log/zeros"
