#!/usr/bin/env bash
# Makes the archive for a machine with a GPU and nothing else of this project: the tools of the
# runtime, the small model compiled for CUDA devices and for the emulated one, what the emulated
# device computed, and gpu-check.sh, which compares and times.
#
#   scripts/make-gpu-bundle.sh [--tools FOLDER] [--targets LIST] [--cases "NAME ..."] [OUT.tar.xz]
#
# Builds the tools of the preset release, or takes those in FOLDER. Targets are sm_80,sm_90,emu-sm_80
# or, without CUDA's ptxas, ptx-sm_80,emu-sm_80. --cases: record these alone (gemma-gpu-check cases
# lists them).
# There: tar xf gpu-bundle.tar.xz && gpu-bundle/gpu-check.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tools= targets= cases= out=gpu-bundle.tar.xz most=$((12 * 1000 * 1000))
while (($#)); do
  case $1 in
    --tools | --targets | --cases)
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
say "compiling examples/kjv-mini for $targets"
"$tools/gemma-compile" examples/kjv-mini -o "$bundle/kjv-mini.gemma" --target "$targets" \
  --max-context 256 --max-batch 8 --max-chunk 64 --quiet
cp examples/kjv-mini/{config.json,generation_config.json,model.safetensors} "$bundle/kjv-mini/"

"$tools/gemma-gpu-check" cases "$bundle/kjv-mini.gemma" >"$bundle/cases.txt"
if [[ -n $cases ]]; then
  for name in $cases; do
    grep -qx "$name" "$bundle/cases.txt" || die "no case $name; there are:" "$(cat "$bundle/cases.txt")"
  done
  tr ' ' '\n' <<<"$cases" >"$bundle/cases.txt"
fi
say "recording $(wc -l <"$bundle/cases.txt") cases on the emulated device"
export GEMMA_EMU=checks=off
"$tools/gemma-gpu-check" record "$bundle/kjv-mini.gemma" "$bundle/record.safetensors" --device emu \
  ${cases:+--case ${cases// /,}} >/dev/null
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
tar -C "$scratch" -c gpu-bundle | xz -6 -T1 >"$out.tmp"
bytes=$(stat -c %s "$out.tmp")
((bytes < most)) || die "$out would have $bytes bytes, expected less than $most"
mv "$out.tmp" "$out"
say "$out: $bytes bytes"
