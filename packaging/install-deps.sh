#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Install the Debian packages that are missing, and only those: quietly, without questions, and
# without starting any service that a package brings along.
#
# Usage: install-deps.sh build|static|demo|check|check-debug|bench|deb|check-packages
set -eu

build="gcc make meson ninja-build pkg-config libc6-dev libelf-dev libdw-dev libbpf-dev
       libbabeltrace2-dev libncurses-dev libprotobuf-c-dev protobuf-c-compiler libmicrohttpd-dev libjson-c-dev
       zlib1g-dev libcurl4-openssl-dev lowdown"
static="liblzma-dev libbz2-dev g++" # besides, for the static dprobes
demo="redis-server redis-tools python3"
tests="libcmocka-dev libzydis-dev nginx-light golang-go musl-tools gdb g++ git sqlite3
       openssl binutils procps qemu-system-x86 busybox-static cpio kmod dkms tcl clang-format cppcheck codespell
       babeltrace2 protobuf-compiler xz-utils systemtap-sdt-dev zsh fish strace postgresql python3-jsonschema
       mypy pahole libc6-dbg"
optional="rustc chromium nodejs prometheus mandoc diction"
rivals="bpftrace uftrace ltrace liblttng-ust-dev" # besides, for the benchmark
kernel="flex bison bc libssl-dev" # besides, to build a kernel
packages="build-essential debhelper dh-dkms dh-python dpkg-dev python3 xz-utils"
services="redis-server nginx postgresql prometheus"

case "${1:-build}" in
build) wanted=$build optional= ;;
static) wanted="$build $static" optional= ;;
demo) wanted="$build $demo" optional= ;;
check) wanted="$build $static $demo $tests" ;;
check-debug) wanted="$build $static $demo $tests $kernel" ;;
bench) wanted="$build $static $demo $tests" optional="$rivals" ;;
deb) wanted="$build $packages" optional= ;;
check-packages) wanted="$build $packages python3 lintian mmdebstrap" optional= ;;
*)
	echo "usage: install-deps.sh build|static|demo|check|check-debug|bench|deb|check-packages" >&2
	exit 2
	;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)

have() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The first of them that this Debian has.
first_of() {
	for package in "$@"; do
		if have "$package" || [ -n "$(apt-cache search --names-only "^$package\$" 2>/dev/null)" ]; then
			echo "$package"
			return
		fi
	done
}

missing_of() {
	for package in "$@"; do
		have "$package" || printf '%s ' "$package"
	done
}

if ! command -v dpkg-query >/dev/null 2>&1; then # another distribution: configure tells what the build lacks
	[ "${1:-build}" = build ] || echo "not a Debian system: install the equivalents of these yourself: $wanted" >&2
	exit 0
fi
case "${1:-build}" in
check | check-debug) # code to decode; a fresh system has no lists of packages yet
	code=$(first_of libllvm14 libllvm19)
	if [ -z "$code" ] && [ "$(id -u)" = 0 ]; then
		apt-get update -qq >/dev/null 2>&1 || :
		code=$(first_of libllvm14 libllvm19)
	fi
	wanted="$wanted $code"
	;;
esac
# shellcheck disable=SC2086 # lists of words
missing=$(missing_of $wanted)
# shellcheck disable=SC2086
extra=$(missing_of $optional)
# The viewer of one of the formats is no Debian package: a test has it opened, where npm is there and can get it.
case "${1:-build}" in
check | check-debug)
	if [ "$(id -u)" = 0 ] && command -v npm >/dev/null && [ ! -e "$(npm root -g)/speedscope" ]; then
		npm install -g --silent --ignore-scripts speedscope@1.25.0 >/dev/null 2>&1 ||
			echo "not available, left out: speedscope"
	fi
	;;
esac
[ -n "$missing$extra" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	[ -z "$missing" ] && exit 0
	echo "missing packages; run as root: apt-get install --no-install-recommends $missing" >&2
	exit 1
fi

work=$(mktemp -d)
policy=/usr/sbin/policy-rc.d

restore() {
	rm -f "$policy"
	[ ! -e "$work/policy-rc.d" ] || mv "$work/policy-rc.d" "$policy"
	rm -rf "$work"
}
trap restore EXIT
trap 'exit 1' INT TERM HUP
[ ! -e "$policy" ] || mv "$policy" "$work/policy-rc.d"
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
install_packages() {
	apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 \
		-o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 "$@" >"$work/log" 2>&1
}

# shellcheck disable=SC2086
new_services=$(missing_of $services)
if [ -n "$missing" ]; then
	echo "installing: $missing"
	# shellcheck disable=SC2086
	if ! install_packages $missing; then
		apt-get update -qq >"$work/update" 2>&1 || cat "$work/update" >&2
		# shellcheck disable=SC2086
		if ! install_packages $missing; then
			cat "$work/log" >&2
			echo "the packages could not be installed" >&2
			exit 1
		fi
	fi
fi
if [ -n "$extra" ]; then
	echo "installing: $extra"
	# shellcheck disable=SC2086
	install_packages $extra || echo "not available, left out: $extra"
fi
# What came only for the tests shall not start at the next boot either.
for service in $new_services; do
	! command -v systemctl >/dev/null 2>&1 || systemctl disable -q "$service" >/dev/null 2>&1 || :
done
# A build directory that was set up earlier must look for the new libraries again.
[ ! -d "$root/build" ] || touch "$root/meson.build"
