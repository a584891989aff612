#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Fetch a stock Debian kernel and its headers and unpack them, installing nothing: for building
# the module and for booting it in an emulator. What is there already is not fetched again.
# The directory is $DP_KERNEL_CACHE/KERNEL, or a cache below the build directory.
#
# Usage: get.sh BUILD_DIR [KERNEL]      prints the directory
# KERNEL: cloud-amd64 (the default) or amd64: the flavours of this system's own release. Or a suite: bullseye,
# bookworm-backports, trixie, trixie-backports: the flavour cloud-amd64 of that, with the compiler and the tools that
# the suite builds modules with, which build-for.sh uses. Or qemu: an emulator that is newer than this system's.
# In it: vmlinuz, build (for make -C), modules, kver (the release), and, for a suite, tools.
set -eu

kernel=${2:-cloud-amd64}
cache=${DP_KERNEL_CACHE:-$1/kernel-cache}
dir=$cache/$kernel
flavour=cloud-amd64
keys=/usr/share/keyrings/debian-archive-keyring.gpg
apt=
options=
# What a suite needs to build modules, besides the headers: what every Debian system has is named by nobody.
tools="binutils make dash bash coreutils sed grep mawk findutils diffutils tar perl-base libc-bin base-files"

die() {
	echo "$*" >&2
	exit 1
}

# The meta-packages name the current version.
depends() {
	# shellcheck disable=SC2086 # lists of words
	apt-cache $options depends "$1" 2>/dev/null | awk -v want="$2" '/Depends:/ && $2 ~ want { print $2; exit }'
}

# From now on packages are those of other suites, with lists and a cache of their own.
use_suites() {
	apt=$work/apt
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	# shellcheck disable=SC2016 # apt's own names
	site=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
		grep '/debian/$' | head -n 1)
	[ -n "$site" ] && [ -e "$keys" ] || die "no Debian archive among this system's sources"
	for suite; do
		echo "deb [signed-by=$keys] $site $suite main"
	done >"$apt/sources.list"
	: >"$apt/status"
	options="-o Dir::State=$apt -o Dir::State::status=$apt/status -o Dir::Cache=$apt
		-o Dir::Etc::sourceparts=/dev/null
		-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::preferencesparts=/dev/null
		-o Dir::Etc::preferences=/dev/null -o APT::Install-Recommends=false -o APT::Sandbox::User=root"
	# shellcheck disable=SC2086 # lists of words
	apt-get -qq $options update >>"$work/log" 2>&1 || die "$*: $(tail -n 1 "$work/log")"
}

# Into debs.
download() {
	# shellcheck disable=SC2086 # lists of words
	(cd "$work/debs" && apt-get -qq $options download "$@") >>"$work/log" 2>&1 ||
		die "the packages could not be fetched: $(tail -n 1 "$work/log")"
}

# With all that it depends on.
download_all() {
	# shellcheck disable=SC2086 # lists of words
	apt-get -qq -y $options --download-only install "$@" >>"$work/log" 2>&1 ||
		die "the packages could not be fetched: $(tail -n 1 "$work/log")"
	mv "$apt"/archives/*.deb "$work/debs"
}

unpack() {
	for deb in "$work"/debs/*.deb; do
		dpkg -x "$deb" "$work/root"
	done
	rm -rf "$work/debs" "$work/apt"
}

# The names of the packages, in image and headers.
choose() {
	image=$(depends "linux-image-$flavour$1" '^linux-image-[0-9]')
	headers=$(depends "linux-headers-$flavour$1" '^linux-headers-[0-9]')
	[ -n "$image" ] && [ -n "$headers" ] || die "no package linux-image-$flavour in the package lists"
	release=${image#linux-image-}
	release=${release%-unsigned}
}

get_own() {
	flavour=$kernel
	choose ''
	download "$image" "$headers" "$(depends "$headers" '^linux-headers-.*-common$')" \
		"$(depends "$headers" '^linux-kbuild-')"
	unpack
	# The headers name their other half by an absolute path.
	sed -i "s#^include /usr/src/#include $dir/root/usr/src/#" "$work/root/usr/src/$headers/Makefile"
}

get_suite() {
	[ "$(id -u)" = 0 ] || die "$kernel: who builds with another suite's compiler must be root"
	# shellcheck disable=SC2046 # a list of words
	use_suites $(case $kernel in *-backports) echo "${kernel%-backports}" ;; esac) "$kernel"
	choose "/$kernel"
	images=$image
	for package in linux-binary linux-modules; do # later kernels are in several packages
		found=$(depends "$image" "^$package-")
		images="$images $found"
	done
	# shellcheck disable=SC2086 # lists of words
	download_all "linux-headers-$flavour/$kernel" "$headers" $tools
	# shellcheck disable=SC2086 # lists of words
	download $images
	case $kernel in
	bullseye*) ;;
	*)
		for sub in bin sbin lib lib64; do
			mkdir -p "$work/root/usr/$sub"
			ln -s "usr/$sub" "$work/root/$sub"
		done
		;;
	esac
	unpack
	ln -sf mawk "$work/root/usr/bin/awk" # what installing it would do
	[ -e "$work/root/dev/null" ] || mknod -m 666 "$work/root/dev/null" c 1 3
	touch "$work/tools"
}

if [ -s "$dir/kver" ]; then
	cd "$dir" && pwd
	exit 0
fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "no apt: not a Debian system"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
dir=$cache/$kernel
work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
chmod 755 "$work"
mkdir "$work/debs" "$work/root"
release=
case $kernel in
qemu)
	use_suites bookworm-backports
	download qemu-system-x86 qemu-system-common qemu-system-data seabios
	unpack
	release=qemu
	;;
*amd64) get_own ;;
*) get_suite ;;
esac
rm -rf "$dir"
mv "$work" "$dir"
trap - EXIT
cd "$dir"
if [ "$release" != qemu ]; then
	ln -sfn "root/usr/src/$headers" build
	for at in boot/vmlinuz-$release usr/lib/modules/$release/vmlinuz lib/modules/$release/vmlinuz; do
		[ ! -e "root/$at" ] || ln -sfn "root/$at" vmlinuz
	done
	[ -e "root/lib/modules/$release" ] && ln -sfn "root/lib/modules/$release" modules ||
		ln -sfn "root/usr/lib/modules/$release" modules
fi
echo "$release" >kver
pwd
