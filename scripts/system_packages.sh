#!/usr/bin/env bash
# Installs missing system packages, as root on a system with apt-get; otherwise prints the command to type.
#
#     system_packages.sh [build | test | bench | fuzz | arm64]
#
# build: compiler, headers, Python; test: browser, curl, GStreamer's RTSP server, Prometheus, HAProxy;
# bench: a library of NVIDIA's perf_analyzer; fuzz: Clang with libFuzzer; arm64: cross compiler, QEMU.
set -euo pipefail

python=${PYTHON:-python3}
playwright=${PLAYWRIGHT:-.venv/bin/playwright}
missing=()

need() { # need PACKAGE COMMAND...: PACKAGE is missing when COMMAND fails
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header() { echo "#include <$1>" | g++ -E -x c++ - ; }

may_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

apt() { apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"; }

install_missing() {
  [ ${#missing[@]} -eq 0 ] && return
  if may_install; then
    echo "endcap: installing ${missing[*]}"
    apt update
    DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "endcap: these system packages are missing: ${missing[*]}" >&2
    echo "endcap: type: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
}

need_python() {
  if ! "$python" --version >/dev/null 2>&1; then
    local name=${python##*/}
    missing+=("$name" "$name-dev" "$name-venv")
    return
  fi
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "endcap: $("$python" --version) is too old: give Python 3.10 or newer, for example" \
         "PYTHON=python3.12" >&2
    exit 1
  fi
  local version
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  need "python$version-venv" "$python" -c 'import ensurepip, venv'
  need "python$version-dev" "$python" -c \
    'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
  # Triton's Python backend loads the interpreter as a library. The packaged server has it for these.
  case $version in
    3.10 | 3.11 | 3.12)
      need "libpython$version" "$python" -c \
        "import ctypes, os, sysconfig as s; n = 'libpython$version.so.1.0'
p = os.path.join(s.get_config_var('LIBDIR') or '', n)
ctypes.CDLL(p if os.path.exists(p) else n)"
      ;;
  esac
}

for_the_build() {
  need_python
  need g++ g++ --version
  need libjpeg-dev has_header jpeglib.h
  need libpng-dev has_header png.h
  need libwebp-dev has_header webp/decode.h
  need libgif-dev has_header gif_lib.h
  need libhwy-dev has_header hwy/highway.h
  need nlohmann-json3-dev has_header nlohmann/json.hpp
  need libgtest-dev has_header gtest/gtest.h
  install_missing
}

has_browser() {
  local name
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && return
  done
  # Playwright's own, of the version that it wants.
  local folder
  folder=$("$playwright" install --dry-run chromium-headless-shell 2>/dev/null \
    | sed -n 's/^ *Install location: *//p' | grep headless_shell | head -n 1)
  [ -n "$folder" ] && [ -e "$folder/INSTALLATION_COMPLETE" ]
}

# The tests run GStreamer's RTSP server with the system's Python.
has_rtsp_server() {
  /usr/bin/python3 -c "import gi
gi.require_version('Gst', '1.0')
gi.require_version('GstRtspServer', '1.0')
from gi.repository import Gst, GstRtspServer"
}

has_gst() { # has_gst ELEMENT
  /usr/bin/python3 -c "import gi, sys
gi.require_version('Gst', '1.0')
from gi.repository import Gst
Gst.init(None)
sys.exit(Gst.ElementFactory.find('$1') is None)"
}

for_the_tests() {
  need curl curl --version
  need libcurl4-openssl-dev has_header curl/curl.h
  need python3-gi /usr/bin/python3 -c "import gi"
  need gir1.2-gst-rtsp-server-1.0 has_rtsp_server
  need gstreamer1.0-plugins-base has_gst videotestsrc
  need gstreamer1.0-plugins-good has_gst rtph264pay
  need gstreamer1.0-plugins-ugly has_gst x264enc
  need prometheus promtool --version
  need haproxy env PATH="$PATH:/usr/sbin" haproxy -v
  install_missing
  missing=()
  need_browser
}

need_browser() {
  [ "${ENDCAP_NO_BROWSER:-}" = 1 ] && return
  has_browser && return
  may_install && apt update
  # Debian has a package, Ubuntu has none: Playwright brings a browser there.
  if apt-cache show chromium-headless-shell >/dev/null 2>&1; then
    missing+=(chromium-headless-shell)
    install_missing
  elif may_install; then
    echo "endcap: installing Playwright's chromium-headless-shell"
    "$playwright" install --with-deps chromium-headless-shell >/dev/null
  else
    echo "endcap: the tests of the web page need a browser" >&2
    echo "endcap: type: $playwright install --with-deps chromium-headless-shell" >&2
    echo "endcap: or leave these tests out: ENDCAP_NO_BROWSER=1 make test" >&2
    exit 1
  fi
}

has_library() { "$python" -c "import ctypes; ctypes.CDLL('$1')" ; }

for_the_benchmarks() {
  need libb64-0d has_library libb64.so.0d
  install_missing
}

has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' \
    | clang++ -fsanitize=fuzzer,address -x c++ -o /dev/null - ;
}

for_the_fuzzers() {
  need clang clang++ --version
  need llvm llvm-symbolizer --version
  install_missing
  missing=()
  # The package of the libraries has the compiler's version in its name.
  need "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev" has_fuzzer
  install_missing
}

for_arm64() {
  need g++-aarch64-linux-gnu aarch64-linux-gnu-g++ --version
  need qemu-user-static qemu-aarch64-static --version
  install_missing
}

case ${1:-build} in
  build) for_the_build ;;
  test) for_the_tests ;;
  bench) for_the_benchmarks ;;
  fuzz) for_the_fuzzers ;;
  arm64) for_arm64 ;;
  *) echo "usage: system_packages.sh [build | test | bench | fuzz | arm64]" >&2; exit 2 ;;
esac
