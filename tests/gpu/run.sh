#!/usr/bin/env bash
# Everything that needs a GPU: the tests with a GPU required, compute-sanitizer where it is
# installed, a real server, and the benchmark, whose table comes last.
#
#   tests/gpu/run.sh [KIT]
#
# KIT is what `make gpu-kit` made (build/gpu-kit). Besides it, Python with NumPy, Pillow, torch and
# torchvision is needed; no network and no compiler. PYTHON names the interpreter, OUT the folder for
# gpu.json and the logs (build/gpu-check). Ends with 0 when everything passed.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kit=$(cd "${1:-$root/build/gpu-kit}" && pwd) || exit 2
out=${OUT:-$root/build/gpu-check}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
start=$SECONDS

say() { echo "[$((SECONDS - start)) s] $*"; }

step() { # step NAME SECONDS COMMAND...: its output goes to a log; the end of it is shown on failure
  local name=$1 limit=$2
  shift 2
  say "$name"
  if ! timeout "$limit" "$@" >"$out/$name.log" 2>&1; then
    failed+=("$name")
    tail -n 60 "$out/$name.log"
  else
    tail -n 1 "$out/$name.log"
  fi
}

unpack_wheels() { # those for this Python; what is installed already is left as it is
  local tag wheel name
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  for wheel in "$kit"/wheels/*.whl; do
    name=$(basename "$wheel")
    case $name in
      endcap-*"-$tag-"*) ;;
      endcap-*) continue ;;
      *) "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('${name%%-*}') is None)" && continue ;;
    esac
    "$python" -m zipfile -e "$wheel" "$work/site"
  done
  [ -d "$work/site/endcap" ] || { echo "run.sh: $kit/wheels has no endcap for $tag" >&2; exit 2; }
}

export PYTHONPATH=""
unpack_wheels
export PYTHONPATH="$work/site:$root:$root/tests/gpu" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export ENDCAP_REQUIRE_CUDA=1
cd "$work" || exit 2
"$python" -c 'import endcap; print(endcap.cuda_state())'

pytest=("$python" -m pytest -p no:cacheprovider -W default -o timeout=120 -q --durations=5)
pytest+=(-c "$root/pyproject.toml" --rootdir "$root")
step tests 150 "${pytest[@]}" "$root/tests/gpu"
if "$python" -c 'import hypothesis' 2>/dev/null; then
  step python-tests 100 "${pytest[@]}" "$root"/tests/python/test_cuda_*.py
else
  say "hypothesis is not installed: tests/python/test_cuda_*.py are left out"
fi

if command -v compute-sanitizer >/dev/null; then
  # Few tests: each access is checked, which takes long.
  few="ultralytics or torchvision or any_length or bad"
  few+=" or (rotated_boxes and 33) or (test_nms and (31 or 65))"
  step memcheck 120 compute-sanitizer --tool memcheck --error-exitcode 9 --launch-timeout 60 \
    "${pytest[@]}" -k "$few" \
    "$root/tests/gpu/test_preprocess_cuda.py" "$root/tests/gpu/test_postprocess_cuda.py" \
    "$root/tests/gpu/test_nms_cuda.py"
else
  say "compute-sanitizer is not installed"
fi

server=()
if [ -f "$kit/tritonserver.tar.xz" ]; then
  mkdir "$work/server" && tar -xJf "$kit/tritonserver.tar.xz" -C "$work/server" &&
    server=(--server "$work/server")
else
  say "the kit has no server"
fi
if [ ${#server[@]} -gt 0 ] && "$python" -c 'import tritonclient.grpc, tritonclient.http' 2>/dev/null; then
  step server-tests 100 env PATH="$work/server/bin:$PATH" \
    LD_LIBRARY_PATH="$work/server/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "${pytest[@]}" "$root/tests/triton/test_gpu_instances.py" "$root/tests/triton/test_gpu_pools.py"
else
  say "no server, or no tritonclient: tests/triton/test_gpu_instances.py is left out"
fi
[ -f "$kit/commit" ] && ENDCAP_COMMIT=$(cat "$kit/commit") && export ENDCAP_COMMIT
say benchmark
timeout 200 "$python" -m gpu_benchmark "$out/gpu.json" "${server[@]}" || failed+=(benchmark)

if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
say "everything passed"
