#!/usr/bin/env bash
# Makes the archive for a machine with a GPU and nothing else of this project: the tools of the
# runtime; models compiled for CUDA devices and for the emulated one, with what the emulated device
# computed: kjv-mini, and narrow ones with the heads of the 12B and the 31B; the 12B itself, to be
# timed with made-up weights; and gpu-check.sh, which compares and times.
#
#   scripts/make-gpu-bundle.sh [--tools FOLDER] [--targets LIST] [--checked "NAME ..."]
#                              [--cases "NAME ..."] [--timed "NAME ..."]
#                              [--batch N] [--chunk N] [OUT.tar.xz]
#
# Builds the tools of the preset release, or takes those in FOLDER. Targets are sm_80,sm_90,emu-sm_80
# or, without CUDA's ptxas, ptx-sm_80,emu-sm_80. --checked: of kjv-mini (always there), heads-12B and
# heads-31B; --cases: record these alone (gemma-gpu-check cases lists them); --timed: of 12B and 31B.
# By default all but the 31B, with which the archive would be too large. --batch and --chunk: of
# kjv-mini (32 and 320). Recording everything takes some minutes.
# There: tar xf gpu-bundle.tar.xz && gpu-bundle/gpu-check.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools= targets= cases= out=gpu-bundle.tar.xz most=$((12 * 1000 * 1000))
checked="heads-12B heads-31B" timed=12B batch=32 chunk=320
while (($#)); do
  case $1 in
    --tools | --targets | --cases | --checked | --timed | --batch | --chunk)
      [[ $# -ge 2 ]] || { echo "error: $1 expects a value" >&2; exit 2; }
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    -*) echo "error: unknown argument $1" >&2; exit 2 ;;
    *) out=$1 && shift ;;
  esac
done

if [[ -z $tools ]]; then
  configure release
  cmake --build --preset release -j "$(build_jobs)" \
    --target gemma-run gemma-gpu-check gemma-compile >/dev/null || die "the build failed"
  tools=$PWD/build/release/bin
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bundle=$scratch/gpu-bundle
mkdir -p "$bundle"/{bin,lib,kjv-mini}

if [[ -z $targets ]]; then
  targets=ptx-sm_80,emu-sm_80
  # Some of the places where the compiler looks.
  for place in "${GEMMA_PTXAS:-}" "${CUDA_HOME:-}/bin/ptxas" /usr/local/cuda/bin/ptxas \
    "$(command -v ptxas || true)"; do
    if [[ -x $place ]]; then
      targets=sm_80,sm_90,emu-sm_80
    fi
  done
fi
# compile INPUT NAME OPTION...: an artifact of the bundle.
compile() {
  local input=$1 name=$2
  shift 2
  say "compiling $name for $targets"
  "$tools/gemma-compile" "$input" -o "$bundle/$name.gemma" --target "$targets" --quiet "$@"
}

# record NAME: what the emulated device computes in the wanted cases that it has. kjv-mini, which comes
# first, has them all.
record() {
  local name=$1 one known wanted=
  known=$("$tools/gemma-gpu-check" cases "$bundle/$name.gemma")
  for one in ${cases:-$known}; do
    if grep -qx "$one" <<<"$known"; then
      wanted+=${wanted:+,}$one
    elif [[ $name == kjv-mini ]]; then
      die "no case $one; there are:" "$known"
    fi
  done
  [[ -n $wanted ]] || die "$name has none of the cases $cases; it has:" "$known"
  tr , '\n' <<<"$wanted" >"$bundle/$name.cases"
  say "recording $(wc -l <"$bundle/$name.cases") cases of $name on the emulated device"
  "$tools/gemma-gpu-check" record "$bundle/$name.gemma" "$bundle/$name.safetensors" --device emu \
    --case "$wanted" >/dev/null
}

export GEMMA_EMU=checks=off
compile examples/kjv-mini kjv-mini --max-context 512 --max-batch "$batch" --max-chunk "$chunk"
cp examples/kjv-mini/{config.json,generation_config.json,model.safetensors} "$bundle/kjv-mini/"
record kjv-mini
for name in $checked; do
  [[ $name == kjv-mini ]] && continue
  [[ $name == heads-* && -f bench/heads/${name#heads-}/config.json ]] ||
    die "--checked: no model $name"
  compile "bench/heads/${name#heads-}/config.json" "$name" --synthetic-weights 1 --dtype bf16 \
    --max-context 256 --max-batch 8 --max-chunk 64
  record "$name"
done
for name in $timed; do
  [[ -f test/data/configs/gemma-4-$name/config.json ]] || die "--timed: no model $name"
  # Not for the emulated device, which would take days.
  targets=$(tr , '\n' <<<"$targets" | grep -v '^emu-' | paste -sd ,) \
    compile "test/data/configs/gemma-4-$name/config.json" "$name" \
    --synthetic-weights 1 --dtype bf16 --max-context 8192 --max-batch 32 --max-chunk 512
done
"$tools/gemma-run" "$bundle/kjv-mini.gemma" --device emu --prompt "In the beginning" --greedy \
  --max-tokens 24 --quiet >"$bundle/greedy.txt"

for tool in gemma-run gemma-gpu-check; do
  strip -o "$bundle/bin/$tool" "$tools/$tool"
done
# All but the C library and the loader: those are the machine's own.
ldd "$bundle"/bin/* | awk '/=> \// && $1 !~ /^(libc|libm|libdl|libpthread|librt|ld-linux)/ {print $3}' |
  sort -u | xargs -r -I{} cp -L {} "$bundle/lib/"
cp scripts/gpu-check.sh "$bundle/"
cp LICENSE* "$bundle/" 2>/dev/null || true

say "packing"
tar -C "$scratch" -c gpu-bundle | xz -9e -T1 >"$out.tmp"
bytes=$(stat -c %s "$out.tmp")
((bytes < most)) || die "$out would have $bytes bytes, expected less than $most"
mv "$out.tmp" "$out"
say "$out: $bytes bytes"
