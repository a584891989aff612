#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Say which packages of this distribution have what is missing, and how they are installed. The distribution is what
# os-release(5) says: of its own name, or of those that it is like.
#
# Usage: package-names.sh NAME...     names of pkg-config, or of programs; DPROBES_OS_RELEASE names another os-release
set -eu

# The name, then the packages of Debian, Fedora and Arch.
table='
babeltrace2    libbabeltrace2-dev  libbabeltrace2-devel    babeltrace2
cmocka         libcmocka-dev       libcmocka-devel         cmocka
gcc            gcc                 gcc                     gcc
json-c         libjson-c-dev       json-c-devel            json-c
libbpf         libbpf-dev          libbpf-devel            libbpf
libcurl        libcurl4-openssl-dev libcurl-devel          curl
libdw          libdw-dev           elfutils-devel          libelf
libelf         libelf-dev          elfutils-libelf-devel   libelf
libmicrohttpd  libmicrohttpd-dev   libmicrohttpd-devel     libmicrohttpd
libprotobuf-c  libprotobuf-c-dev   protobuf-c-devel        protobuf-c
lowdown        lowdown             lowdown                 lowdown
meson          meson               meson                   meson
ncursesw       libncurses-dev      ncurses-devel           ncurses
ninja          ninja-build         ninja-build             ninja
pkg-config     pkg-config          pkgconf-pkg-config      pkgconf
protoc-c       protobuf-c-compiler protobuf-c-compiler     protobuf-c
zlib           zlib1g-dev          zlib-devel              zlib
zydis          libzydis-dev        zydis-devel             zydis
'
release=${DPROBES_OS_RELEASE:-/etc/os-release}

# Its name, then those that it is like.
ids() {
	# shellcheck disable=SC1090 # it is written to be read so
	(ID='' ID_LIKE='' && [ ! -r "$release" ] || . "$release" && echo "$ID $ID_LIKE")
}

column='' install=''
for id in $(ids); do
	case "$id" in
	debian | ubuntu) column=2 install='apt-get install' ;;
	fedora | rhel | centos) column=3 install='dnf install' ;;
	arch | archlinux) column=4 install='pacman -S' ;;
	esac
	[ -z "$column" ] || break
done

if [ -z "$column" ]; then
	echo "missing: $*. Install what has them, with files for development."
	exit
fi
packages=$(for name in "$@"; do
	echo "$table" | awk -v name="$name" -v column="$column" '$1 == name { print $column; found = 1 }
		END { if (!found) print name }'
done | awk '!seen[$0]++' | tr '\n' ' ')
echo "missing: $*. Install them with: $install ${packages% }"
