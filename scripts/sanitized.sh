#!/usr/bin/env bash
# Runs a command with the backends of a build under AddressSanitizer and UBSan, and with their runtime
# in every process that it starts: sanitized.sh BUILD_FOLDER COMMAND... A report becomes a file in
# BUILD_FOLDER/reports and makes this fail, whatever the command makes of it.
set -uo pipefail
build=$(cd "$1" && pwd)
shift
runtime=$(g++ -print-file-name=libasan.so)
# Leaks are not looked for: what the server and Python keep until their end would hide ours. DALI's
# Python module brings an operator new of its own, and frees by that of the process.
export ASAN_OPTIONS="detect_leaks=0:alloc_dealloc_mismatch=0:log_path=$build/reports/address"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$build/reports/undefined"
export ENDCAP_BACKENDS=$build/backends
LD_PRELOAD=$(readlink -f "$runtime") "$@"
code=$?
if [ -n "$(ls -A "$build/reports")" ]; then
  head -n 60 "$build"/reports/*
  echo "endcap: the sanitizers' reports lie in $build/reports" >&2
  exit 1
fi
exit $code
