#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Build the Debian packages from the sources that tarball.sh packs, so that nothing appears in the tree.
#
# Usage: deb.sh OUTPUT_DIR     prints the names of the packages
set -eu

mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -x -f "$("$(dirname "$0")/tarball.sh" "$work")" -C "$work"
(cd "$work"/dprobes-*/ && dpkg-buildpackage -b -us -uc) >"$work/log" 2>&1 || {
	tail -40 "$work/log" >&2
	exit 1
}
rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
mv "$work"/*.deb "$work"/*.buildinfo "$work"/*.changes "$out"
ls "$out"/*.deb
