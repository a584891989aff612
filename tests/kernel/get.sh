#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Fetch a stock Debian kernel and its headers and unpack them, installing nothing: for building
# the module and for booting it in an emulator. What is there already is not fetched again.
# The directory is $DP_KERNEL_CACHE/FLAVOUR, or a cache below the build directory.
#
# Usage: get.sh BUILD_DIR [FLAVOUR]      prints the directory; FLAVOUR is cloud-amd64 (or amd64)
# In it: vmlinuz, build (for make -C), modules, kver (the release).
set -eu

flavour=${2:-cloud-amd64}
cache=${DP_KERNEL_CACHE:-$1/kernel-cache}
dir=$cache/$flavour

die() {
	echo "$*" >&2
	exit 1
}

# The meta-packages name the current version.
depends() {
	apt-cache depends "$1" 2>/dev/null | awk -v want="$2" '/Depends:/ && $2 ~ want { print $2; exit }'
}

if [ -s "$dir/kver" ]; then
	cd "$dir" && pwd
	exit 0
fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "no apt: not a Debian system"
image=$(depends "linux-image-$flavour" '^linux-image-[0-9]')
headers=$(depends "linux-headers-$flavour" '^linux-headers-[0-9]')
[ -n "$image" ] && [ -n "$headers" ] || die "no package linux-image-$flavour in the package lists"
common=$(depends "$headers" '^linux-headers-.*-common$')
kbuild=$(depends "$headers" '^linux-kbuild-')

mkdir -p "$cache"
work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
chmod 755 "$work"
mkdir "$work/debs" "$work/root"
# shellcheck disable=SC2086 # a list of words
(cd "$work/debs" && apt-get -qq download $image $headers $common $kbuild) >"$work/log" 2>&1 ||
	die "the packages could not be fetched: $(tail -n 1 "$work/log")"
for deb in "$work"/debs/*.deb; do
	dpkg -x "$deb" "$work/root"
done
rm -rf "$work/debs"
release=${image#linux-image-}
release=${release%-unsigned}
rm -rf "$dir"
mv "$work" "$dir"
trap - EXIT
cd "$dir"
here=$(pwd)
# The headers name their other half by an absolute path.
sed -i "s#^include /usr/src/#include $here/root/usr/src/#" "root/usr/src/$headers/Makefile"
ln -sfn "root/usr/src/$headers" build
ln -sfn "root/boot/vmlinuz-$release" vmlinuz
ln -sfn "root/lib/modules/$release" modules
echo "$release" >kver
echo "$here"
