#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Where this Python looks for modules below a prefix: where.py PREFIX. Debian has folders of its own."""
import sys
import sysconfig

prefix = sys.argv[1].rstrip("/")
schemes = sysconfig.get_scheme_names()
if prefix == "/usr" and "deb_system" in schemes:
    scheme, base = "deb_system", "/usr"
elif prefix == "/usr/local" and "posix_local" in schemes:
    scheme, base = "posix_local", "/usr"  # the scheme adds "local"
else:
    scheme, base = "posix_prefix", prefix
print(sysconfig.get_path("purelib", scheme, {"base": base, "platbase": base}))
