#!/usr/bin/env bash
# Runs pytest with the backends of a build under AddressSanitizer and UBSan, and with their runtime
# in each Triton server that it starts, with its stubs: sanitized.sh BUILD_FOLDER PYTEST_COMMAND... A report becomes a file in
# BUILD_FOLDER/reports, and makes this fail, whatever the command makes of it; one of a fault of Triton's
# that is known is moved to BUILD_FOLDER/reports/triton instead.
set -euo pipefail
build=$(cd "$1" && pwd)
shift
root=$(cd "$(dirname "$0")/.." && pwd)
runtime=$(readlink -f "$(g++ -print-file-name=libasan.so)")

# A server that is the installed one in everything but the runtime that it loads first. Other processes go
# without: some limit their memory, of which the runtime reserves terabytes.
server=$build/server/site/pytriton/tritonserver
rm -rf "$build/server" "$build/reports"
mkdir -p "$server/bin" "$build/reports/triton"
installed=$("$root/.venv/bin/python" -c \
  'from endcap.server.locate import locate_server; print(locate_server().executable)')
for folder in backends python_backend_stubs caches; do
  ln -s "$(dirname "$(dirname "$installed")")/$folder" "$server/$folder"
done
ln -s "$(readlink -f "$(dirname "$installed")/../../../nvidia_pytriton.libs")" "$build/server/site/"
cat >"$build/server/suppressions" <<'END'
# Triton 24.10 takes a header of gRPC for a text that ends in a zero.
interceptor_via_fun:GrpcServerCarrier::Get
END
cat >"$server/bin/tritonserver" <<END
#!/usr/bin/env bash
# Leaks are not looked for: what the server and Python keep until their end would hide ours. DALI's
# Python module brings an operator new of its own, and frees by that of the process. Freed memory is
# kept for less than by default, as the tests have some 200 processes at a time. A signal of a division
# by zero, or of a shortened file, ends the server as it does without the runtime; in endcap's code UBSan
# sees the former before.
export ASAN_OPTIONS="detect_leaks=0:alloc_dealloc_mismatch=0:quarantine_size_mb=16:handle_sigfpe=0:handle_sigbus=0:log_path=$build/reports/address:suppressions=$build/server/suppressions"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$build/reports/undefined"
export LD_PRELOAD="$runtime"
exec "$installed" "\$@"
END
chmod +x "$server/bin/tritonserver"

# Tests of times, memory and limits of a process, which the runtime changes.
skipped=(
  test_bls.py::test_memory_does_not_grow
  test_deploy.py::test_the_gpu_image_runs_this_command
)
code=0
ENDCAP_BACKENDS=$build/backends ENDCAP_TRITONSERVER=$server/bin/tritonserver \
  "$@" "${skipped[@]/#/--deselect=tests/triton/}" || code=$?

# Known of Triton 24.10: its Python stub frees responses after it has closed the memory that they lie in.
find "$build/reports" -maxdepth 1 -type f -print0 | while IFS= read -r -d "" report; do
  if grep -q "SharedMemoryManager::WrapObjectInUniquePtr" "$report"; then
    mv "$report" "$build/reports/triton/"
  fi
done
echo "endcap: $(find "$build/reports/triton" -type f | wc -l) reports of known faults of Triton" >&2
if [ -n "$(find "$build/reports" -maxdepth 1 -type f)" ]; then
  head -n 60 "$build"/reports/{address,undefined}* 2>/dev/null || true
  echo "endcap: the sanitizers' reports lie in $build/reports" >&2
  exit 1
fi
exit $code
