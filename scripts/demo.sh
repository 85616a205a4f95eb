#!/usr/bin/env bash
# From a clone to text: sets up, builds the two programs it needs, compiles the bundled checkpoint
# examples/kjv-mini and continues a prompt. What is up to date is not done again, so a second run
# starts in seconds.
#
#   scripts/demo.sh [PROMPT [gemma-run options]]
#
# The model is small and has read the King James Bible only. Example:
#   scripts/demo.sh "And Moses said" --max-tokens 100 --temperature 0.8 --seed 1
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
  -*)
    echo "error: expected a prompt before options, got '$1'" >&2
    exit 2
    ;;
esac
prompt=${1:-In the beginning God created the heaven and the earth.}
(($#)) && shift
options=("$@")
((${#options[@]})) || options=(--max-tokens 64)

preset=release
model=examples/kjv-mini
artifact=build/demo/kjv-mini.gemma
bin=build/$preset/bin

scripts/setup.sh
configure "$preset"
say "building gemma-compile and gemma-run (preset $preset, $(build_jobs) jobs; minutes the first time)"
NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -j "$(build_jobs)" \
  --target gemma-compile gemma-run || die "the build failed"

# The artifact depends on the compiler and on the checkpoint.
up_to_date() {
  [[ -f $artifact ]] || return 1
  local file
  for file in "$bin/gemma-compile" "$model"/*; do
    [[ $artifact -nt $file ]] || return 1
  done
}
if up_to_date; then
  say "$artifact is up to date"
else
  say "compiling $model"
  mkdir -p "$(dirname "$artifact")"
  "$bin/gemma-compile" "$model" -o "$artifact"
fi

say "prompt: $prompt"
exec "$bin/gemma-run" "$artifact" --prompt "$prompt" "${options[@]}"
