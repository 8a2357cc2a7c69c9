#!/usr/bin/env bash
# Detections in JPEG files by curl alone: the file goes as it is, behind its length, by the binary
# extension of Triton's HTTP protocol; the response is requested in JSON.
#
#     endcap serve model_repository                      # in another shell
#     examples/curl/detect.sh photo.jpg another.jpg
#
# prints a JSON object a line: {"image", "detections": [{"box": [x1, y1, x2, y2], "score", "class_id"}]},
# boxes in pixels of the file's picture. URL (http://127.0.0.1:8000) and MODEL (detect) are taken from
# the environment. Ends with 1 where a file failed; the others have results all the same.
set -euo pipefail

url=${URL:-http://127.0.0.1:8000}
model=${MODEL:-detect}

# byte N: one byte of the number, the lowest, in printf's notation.
byte() { printf '\\x%02x' $(($1 & 255)); }

# length_prefix N: what an element of type BYTES has in front, four bytes, the lowest first.
length_prefix() {
  printf "$(byte "$1")$(byte $(($1 >> 8)))$(byte $(($1 >> 16)))$(byte $(($1 >> 24)))"
}

# request SIZE: the JSON in front of the binary data, which says that one element of SIZE bytes follows.
request() {
  printf '{"inputs": [{"name": "encoded", "datatype": "BYTES", "shape": [1, 1], '
  printf '"parameters": {"binary_data_size": %d}}], "outputs": [' $(($1 + 4))
  printf '{"name": "num_detections"}, {"name": "detection_boxes"}, '
  printf '{"name": "detection_scores"}, {"name": "detection_classes"}]}'
}

# values RESPONSE OUTPUT: the elements of one output, separated by commas.
values() {
  [[ $1 =~ \"name\":\"$2\"[^\]]*\"shape\":\[[^\]]*\][^\]]*\"data\":\[([^\]]*)\] ]] ||
    { echo "detect.sh: the response has no $2" >&2; return 1; }
  printf %s "${BASH_REMATCH[1]}"
}

# detections RESPONSE: those of its rows that count, as a JSON list.
detections() {
  local count boxes scores classes row separator=
  count=$(values "$1" num_detections) || return
  boxes=$(values "$1" detection_boxes) || return
  scores=$(values "$1" detection_scores) || return
  classes=$(values "$1" detection_classes) || return
  IFS=, read -ra boxes <<<"$boxes"
  IFS=, read -ra scores <<<"$scores"
  IFS=, read -ra classes <<<"$classes"
  printf '['
  for ((row = 0; row < count; row++)); do
    printf '%s{"box": [%s, %s, %s, %s], ' "$separator" "${boxes[@]:row * 4:4}"
    printf '"score": %s, "class_id": %s}' "${scores[row]}" "${classes[row]}"
    separator=', '
  done
  printf ']'
}

# json_string TEXT: the text as a JSON string.
json_string() {
  local text=$1 character index
  printf '"'
  for ((index = 0; index < ${#text}; index++)); do
    character=${text:index:1}
    case $character in
      [[:cntrl:]]) printf '\\u%04x' "'$character" ;;
      [\"\\]) printf '\\%s' "$character" ;;
      *) printf %s "$character" ;;
    esac
  done
  printf '"'
}

# detect FILE: sends a request and prints the file's line.
detect() {
  local size header response rows
  [[ -f $1 && -r $1 ]] || { echo "detect.sh: $1 cannot be read" >&2; return 1; }
  size=$(wc -c <"$1")
  header=$(request "$size")
  response=$(
    { printf %s "$header"; length_prefix "$size"; cat "$1"; } |
      curl --silent --show-error --fail-with-body --max-time 30 --data-binary @- \
        --header "Inference-Header-Content-Length: ${#header}" \
        --header "Content-Type: application/octet-stream" \
        "$url/v2/models/$model/infer"
  ) || { echo "detect.sh: $1: ${response:-no server responds at $url}" >&2; return 1; }
  rows=$(detections "$response") || return
  printf '{"image": %s, "detections": %s}\n' "$(json_string "$1")" "$rows"
}

[[ $# -gt 0 ]] || { echo "usage: detect.sh FILE.jpg..." >&2; exit 2; }
failed=0
for file in "$@"; do detect "$file" || failed=1; done
exit $failed
