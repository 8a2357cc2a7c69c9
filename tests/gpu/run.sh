#!/usr/bin/env bash
# Everything that needs a GPU, in the order of its worth: the tests with a GPU required, the
# benchmark, a real server, and compute-sanitizer where it is installed.
#
#   tests/gpu/run.sh [KIT]
#
# KIT is what `make gpu-kit` made (build/gpu-kit). Besides it, Python with NumPy, Pillow, torch and
# torchvision is needed; no network and no compiler. PYTHON names the interpreter, OUT the folder for
# gpu.json and the logs (build/gpu-check), LIMIT the seconds for all of it (560: machines that are
# lent end a command after 600). What was left out is listed last, and in gpu.json.
# ENDCAP_REQUIRE_CUDA=0 lets it end with 0 on a machine without a GPU, and where a part that should
# have run could not; otherwise it ends with 0 when everything ran and passed.
set -uo pipefail

start=$SECONDS
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kit=$(cd "${1:-$root/build/gpu-kit}" && pwd) || exit 2
out=${OUT:-$root/build/gpu-check}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()   # steps
missing=()  # what should have run and could not, with the reason
left_out=() # what may be left out, with the reason
export ENDCAP_REQUIRE_CUDA=${ENDCAP_REQUIRE_CUDA:-1}
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
rm -f "$out/gpu.json"

say() { echo "[$((SECONDS - start)) s] $*"; }
note() { "$python" "$root/tests/gpu/note.py" "$out/gpu.json" "$@"; }
lack() { # lack SENTENCE: of a part that should have run
  say "left out: $1"
  missing+=("$1") && note left_out "$1"
}
spare() { # spare SENTENCE: of a part that may be left out
  say "left out: $1"
  left_out+=("$1") && note left_out "$1"
}

# step NAME SECONDS COMMAND...: its output goes to a log, whose end is shown; all of it, for the
# table of the benchmark. No step goes beyond the time for all.
step() {
  local name=$1 limit=$2 left=$((${LIMIT:-560} - (SECONDS - start) - 10)) code=0 skip
  shift 2
  ((left >= 15)) || { lack "$name: no time was left for it"; return 1; }
  say "$name"
  timeout -k 10 "$((limit < left ? limit : left))" "$@" >"$out/$name.log" 2>&1 || code=$?
  ((code == 124 || code == 137)) && echo "$name was ended after its time" >>"$out/$name.log"
  # A test that skips itself has a reason to tell.
  while IFS= read -r skip; do spare "$name: $skip"; done < <(grep '^SKIPPED' "$out/$name.log")
  if ((code != 0)) && grep -q 'Device not supported' "$out/$name.log"; then
    spare "$name: compute-sanitizer does not know this device"
  elif ((code != 0)); then
    tail -n 60 "$out/$name.log"
    failed+=("$name") && note failed "$name"
  else
    tail -n "$([ "$name" = benchmark ] && echo 200 || echo 1)" "$out/$name.log"
    note passed "$name"
  fi
}

finish() {
  local sentence
  for sentence in "${left_out[@]}" "${missing[@]}"; do say "left out: $sentence"; done
  ((${#failed[@]} == 0)) || { say "failed: ${failed[*]}"; exit 1; }
  ((${#missing[@]} == 0)) || {
    say "what ran passed; what should have run too is listed above"
    exit "$ENDCAP_REQUIRE_CUDA"
  }
  say "everything passed"
  exit 0
}

# In front of what is installed: the kit's versions fit each other.
mkdir "$work/site"
PYTHONPATH="" "$python" "$root/tests/gpu/unpack_kit.py" wheels "$kit" "$work/site" || exit 2
export PYTHONPATH="$work/site:$root:$root/tests/gpu"
cd "$work" || exit 2
state=$("$python" -c 'import endcap; s = endcap.cuda_state(); print(s); raise SystemExit(0 if s.available else 3)')
code=$?
echo "$state"
((code == 0 || code == 3)) || { lack "everything: endcap could not be imported"; finish; }
((code == 0)) || { lack "everything: this machine has no GPU that can be used"; finish; }

# Plug-ins that are installed may not fit the kit's pytest.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
pytest=("$python" -m pytest -p pytest_timeout -p _hypothesis_pytestplugin -p no:cacheprovider)
pytest+=(-W default -o timeout=120 -q --durations=5 -c "$root/pyproject.toml" --rootdir "$root")

step tests 150 "${pytest[@]}" "$root/tests/gpu"
# Not those that are for the emulation alone.
step python-tests 90 "${pytest[@]}" \
  "$root"/tests/python/test_cuda_{array,nms,postprocess,preprocess,python_backend,rois,without}.py

server=()
if reason=$("$python" "$root/tests/gpu/unpack_kit.py" server "$kit" "$work/server" 2>&1); then
  server=(--server "$work/server")
else
  lack "server: $(tail -n 1 <<<"$reason")"
fi
[ -f "$kit/commit" ] && ENDCAP_COMMIT=$(cat "$kit/commit") && export ENDCAP_COMMIT
step benchmark 200 "$python" -m gpu_benchmark "$out/gpu.json" "${server[@]}"

if [ ${#server[@]} -eq 0 ]; then
  lack "server-tests: there is no server"
elif reason=$("$python" -c 'import tritonclient.grpc, tritonclient.http' 2>&1); then
  step server-tests 90 env PATH="$work/server/bin:$PATH" \
    LD_LIBRARY_PATH="$work/server/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "${pytest[@]}" "$root/tests/triton/test_gpu_instances.py" "$root/tests/triton/test_gpu_pools.py"
else
  lack "server-tests: tritonclient cannot be imported: $(tail -n 1 <<<"$reason")"
fi

if command -v compute-sanitizer >/dev/null; then
  # Few tests: each access is checked, which takes long.
  few="ultralytics or torchvision or any_length or bad"
  few+=" or (rotated_boxes and 33) or (test_nms and (31 or 65)) or (test_masks and float16)"
  sanitize=(compute-sanitizer --error-exitcode 9 --launch-timeout 60)
  step memcheck 120 "${sanitize[@]}" --tool memcheck "${pytest[@]}" -k "$few" \
    "$root/tests/gpu/test_preprocess_cuda.py" "$root/tests/gpu/test_postprocess_cuda.py" \
    "$root/tests/gpu/test_masks_cuda.py" "$root/tests/gpu/test_nms_cuda.py"
  step racecheck 60 "${sanitize[@]}" --tool racecheck "${pytest[@]}" \
    -k "(any_length and 1025) or (test_nms and 65) or (test_masks and float16 and source)" \
    "$root/tests/gpu/test_postprocess_cuda.py" "$root/tests/gpu/test_masks_cuda.py" \
    "$root/tests/gpu/test_nms_cuda.py"
else
  spare "memcheck and racecheck: compute-sanitizer is not installed"
fi
finish
