#!/usr/bin/env bash
# Makes sure that the compiler, the headers and the Python that the build needs are there. As root on
# a system with apt-get it installs what is missing; otherwise it prints the command to type.
set -euo pipefail

python=${PYTHON:-python3}
missing=()

need() { # need PACKAGE COMMAND...: PACKAGE is missing when COMMAND fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header() { echo "#include <$1>" | g++ -E -x c++ - ; }

if ! command -v "$python" >/dev/null; then
  missing+=(python3 python3-dev python3-venv)
else
  if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))'; then
    echo "endcap: $("$python" --version) cannot run the Triton server's wheel (it needs numpy<2):" \
         "give Python 3.10, 3.11 or 3.12, for example PYTHON=python3.11 make demo" >&2
    exit 1
  fi
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  need "python$version-venv" "$python" -c 'import ensurepip, venv'
  need "python$version-dev" "$python" -c \
    'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
  # Triton's Python backend loads the interpreter as a library.
  need "libpython$version" "$python" -c \
    "import ctypes.util, os, sysconfig as s; n = 'libpython$version.so.1.0'
import ctypes
p = os.path.join(s.get_config_var('LIBDIR') or '', n)
ctypes.CDLL(p if os.path.exists(p) else n)"
fi
need g++ g++ --version
need libjpeg-dev has_header jpeglib.h
need nlohmann-json3-dev has_header nlohmann/json.hpp
need libgtest-dev has_header gtest/gtest.h

[ ${#missing[@]} -eq 0 ] && exit 0
command="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "endcap: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $command -qq
else
  echo "endcap: these system packages are missing: ${missing[*]}" >&2
  echo "endcap: type: sudo $command" >&2
  exit 1
fi
