#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Pack the sources as dprobes-VERSION.tar.xz. The same sources give the same bytes: names are sorted, and times are
# SOURCE_DATE_EPOCH or that of debian/changelog.
#
# Usage: tarball.sh OUTPUT_DIR     prints the name of the file
set -eu

mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
when=${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -1)" +%s)}
{
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -z --deduplicate # in the middle of a merge, too
	else # unpacked from a tarball: all there is, without what was built
		find . -mindepth 1 -path './build*' -prune -o ! -type d -printf '%P\0'
	fi
} | LC_ALL=C sort -z |
	tar --null --verbatim-files-from -T - -c --format=gnu --owner=0 --group=0 --numeric-owner \
		--mode=u+rw,go+r-w,a+X --mtime="@$when" --transform "s,^,dprobes-$version/,SH" |
	xz -T1 -3 >"$out/dprobes-$version.tar.xz"
echo "$out/dprobes-$version.tar.xz"
