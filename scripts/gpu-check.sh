#!/usr/bin/env bash
# Checks and times kernels on a CUDA device; lies in the bundle that scripts/make-gpu-bundle.sh makes,
# beside what it needs. Every step is a process of its own with a limit of its own, and every result
# is a line that is written at once: what a lost device or an end of time leaves behind can be read.
#
#   gpu-check.sh [--device cuda:N] [--out FOLDER] [--budget SECONDS] [--bound SHARE] [--steps N]
#
# A result may be off by SHARE of its size (default: 0.02); N steps are timed (default: 32). The 12B
# and the 31B are timed with 4064 positions before, as bench/predictions says.
# FOLDER (default: gpu-check-results) gets summary.jsonl, a line a step; STEP.jsonl and STEP.err of
# each. No step is begun once the budget (default: 600) is spent; what was left out is named. Exit
# status: 0 all steps ran well, 1 some did not or were left out, 2 wrong usage.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=cuda:0 out=gpu-check-results budget=600 bound=0.02 steps=32
while (($#)); do
  case $1 in
    --device | --out | --budget | --bound | --steps)
      [[ $# -ge 2 ]] || { echo "error: $1 expects a value" >&2; exit 2; }
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *) echo "error: unknown argument $1" >&2; exit 2 ;;
  esac
done
[[ $device =~ ^cuda:[0-9]+$ && $budget =~ ^[0-9]+$ && $steps =~ ^[1-9][0-9]*$ ]] ||
  { echo "error: expected --device cuda:N, --budget SECONDS and --steps N" >&2; exit 2; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
cd "$here" || exit 1
# The C++ library of the machine that built the tools, behind the system's own.
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/lib
: >"$out/summary.jsonl"
failures=0

# line NAME VERDICT SECONDS: into the summary, and for who watches.
line() {
  printf '{"step":"%s","verdict":"%s","seconds":%d}\n' "$@" | tee -a "$out/summary.jsonl"
  sync "$out" 2>/dev/null || true
}

# step NAME LIMIT COMMAND...: runs it unless the budget is spent.
step() {
  local name=$1 limit=$2 begin=$SECONDS left=$((budget - SECONDS)) rc=0
  shift 2
  if ((left <= 0)); then
    failures=$((failures + 1))
    line "$name" "left out: the budget is spent" 0
    return 0
  fi
  ((limit > left)) && limit=$left
  timeout "$limit" "$@" >"$out/$name.jsonl" 2>"$out/$name.err" || rc=$?
  case $rc in
    0) line "$name" ok $((SECONDS - begin)) ;;
    124) failures=$((failures + 1)) && line "$name" "took more than $limit s" $((SECONDS - begin)) ;;
    *) failures=$((failures + 1)) && line "$name" "failed with $rc" $((SECONDS - begin)) ;;
  esac
}

greedy_text() {
  bin/gemma-run kjv-mini.gemma --weights kjv-mini --device "$device" --prompt "In the beginning" \
    --greedy --max-tokens 24 --quiet >"$out/greedy.txt" || return
  # Where two tokens are nearly as likely, a device may choose the other one: how far they agree.
  if cmp -s "$out/greedy.txt" greedy.txt; then
    echo '{"text":"the same"}'
  else
    printf '{"text":"differs","first_byte":%d}\n' \
      "$(cmp "$out/greedy.txt" greedy.txt | sed 's/.*byte \([0-9]*\).*/\1/;s/[^0-9].*//')"
  fi
}

# What of NVIDIA's tools and libraries there is.
surroundings() {
  local library found
  for library in libcuda.so.1 libcublas.so.13 libcublas.so.12 libnvidia-ptxjitcompiler.so.1; do
    found=$(ldconfig -p 2>/dev/null | awk -v name="$library" '$1 == name {print $NF; exit}')
    printf '{"library":"%s","path":"%s"}\n' "$library" "$found"
  done
  for library in nvidia-smi compute-sanitizer ncu nsys; do
    printf '{"tool":"%s","path":"%s"}\n' "$library" "$(command -v "$library")"
  done
}

memory_checker() {
  compute-sanitizer --error-exitcode 9 bin/gemma-gpu-check check kjv-mini.gemma \
    kjv-mini.safetensors --weights kjv-mini --device "$device" --case "$(head -1 kjv-mini.cases)"
}

export -f greedy_text surroundings memory_checker
export out device

step surroundings 20 bash -c surroundings
if command -v nvidia-smi >/dev/null; then
  step nvidia-smi 30 nvidia-smi -q
fi
step facts 60 bin/gemma-gpu-check facts "${device#cuda:}"
step greedy 120 bash -c greedy_text
step ceilings 60 bin/gemma-gpu-check ceilings kjv-mini.gemma --ordinal "${device#cuda:}" \
  --steps $(((steps + 7) / 8))
# weights MODEL: the option that names its weights; none where they are made up.
weights() { [[ ! -d $1 ]] || printf -- '--weights\n%s\n' "$1"; }

for model in kjv-mini heads-12B heads-31B; do
  [[ -f $model.cases ]] || continue
  mapfile -t given < <(weights "$model")
  prefix=check- # of the others, with the model's name
  [[ $model == kjv-mini ]] || prefix=check-$model-
  while read -r case; do
    step "$prefix$case" 120 bin/gemma-gpu-check check "$model.gemma" "$model.safetensors" \
      "${given[@]}" --device "$device" --case "$case" --bound "$bound"
  done <"$model.cases"
done
for way in graphs:1 stream:0; do
  step "time-${way%:*}" 120 env GEMMA_CUDA_GRAPHS="${way#*:}" bin/gemma-gpu-check time \
    kjv-mini.gemma --weights kjv-mini --device "$device" --steps "$steps"
done
step projections 120 bin/gemma-gpu-check projections kjv-mini.gemma --ordinal "${device#cuda:}" \
  --steps "$steps"
for model in 12B 31B; do
  [[ -f $model.gemma ]] || continue
  step "projections-$model" 60 bin/gemma-gpu-check projections "$model.gemma" \
    --ordinal "${device#cuda:}" --steps "$steps"
done
for model in 12B 31B; do
  [[ -f $model.gemma ]] || continue
  # Weights are made on the host first: the most of the time.
  step "time-$model" 240 bin/gemma-gpu-check time "$model.gemma" --device "$device" \
    --steps "$steps" --cached 4064
done
if command -v compute-sanitizer >/dev/null; then
  step memory-checker 120 bash -c memory_checker
fi
line all "$( ((failures)) && echo "$failures steps not well" || echo ok)" "$SECONDS"
exit $((failures > 0))
