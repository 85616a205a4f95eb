#!/usr/bin/env bash
# Installs what the build needs and the machine lacks. Debian 12 only: everything comes from its own
# repositories (LLVM 22 from bookworm-security). On another distribution it checks what is there and
# says what to install. GEMMA_SKIP_SETUP=1 skips all of it. With everything in place it takes no time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Every package, in one place: name, then purpose.
packages='
libmlir-22-dev       MLIR headers, libMLIR, CMake files
mlir-22-tools        mlir-tblgen, mlir-opt
llvm-22-dev          LLVM headers, libLLVM, CMake files
llvm-22-tools        lit, FileCheck, not
clang-22             the compiler
lld-22               the linker, also of the host kernels
clang-format-22      style check
clang-tidy-22        static checks
libclang-rt-22-dev   AddressSanitizer, UndefinedBehaviorSanitizer
cmake                configuration, 3.25 or later
ninja-build          build
ccache               compiler cache
git                  source control, whitespace and style checks of the change
python3              lit, checks
ca-certificates      package downloads
xz-utils             compressed test data
libzstd-dev          needed by the CMake files of LLVM
nlohmann-json3-dev   JSON
libcli11-dev         command lines
libxxhash-dev        hashes of artifacts
libboost-context-dev threads of the GPU emulator
libgtest-dev         unit tests
libbenchmark-dev     benchmarks
'
names=$(awk 'NF {print $1}' <<<"$packages")

if [[ ${GEMMA_SKIP_SETUP:-} == 1 ]]; then
  exit 0
fi

# The SASS of the GPU kernels is checked where there is something to read it with. NVIDIA's Python wheel has it;
# without a network, or pip, the tests say that nothing was looked at.
install_nvdisasm() {
  local folder=build/nvdisasm
  { command -v ptxas || [[ -x /usr/local/cuda/bin/ptxas || -x ${GEMMA_PTXAS:-} ]]; } >/dev/null || return 0
  python3 -c 'import sys; sys.path.insert(0, "test/codegen/gpu"); import sass; sys.exit(not sass.find_nvdisasm())' &&
    return 0
  if timeout 120 python3 -m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 10 \
       --target "$folder" 'nvidia-cuda-nvdisasm>=13,<14' >/dev/null 2>&1; then
    say "nvdisasm installed in $folder"
  else
    say "note: no nvdisasm (python3 -m pip install --target $folder nvidia-cuda-nvdisasm failed): SASS is not checked"
  fi
}

distribution=unknown
if [[ -r /etc/os-release ]]; then
  distribution=$(. /etc/os-release && echo "${ID:-unknown} ${VERSION_ID:-}")
fi

# On another distribution the packages have other names, so what they bring is looked for instead.
check_other_distribution() {
  local missing=() tool header llvm
  for tool in clang++-22 ld.lld-22 cmake ninja ccache git python3 xz; do
    command -v "$tool" >/dev/null || missing+=("program $tool")
  done
  llvm=/usr/lib/llvm-22
  for tool in mlir-tblgen FileCheck not lit clang-format clang-tidy; do
    [[ -x $llvm/bin/$tool ]] || missing+=("$llvm/bin/$tool")
  done
  [[ -f $llvm/lib/cmake/mlir/MLIRConfig.cmake ]] || missing+=("$llvm/lib/cmake/mlir (MLIR 22.1)")
  for header in zstd.h nlohmann/json.hpp CLI/CLI.hpp xxhash.h boost/context/fiber.hpp gtest/gtest.h \
                benchmark/benchmark.h; do
    [[ -e /usr/include/$header || -e /usr/local/include/$header ]] || missing+=("header $header")
  done
  if ((${#missing[@]})); then
    {
      echo "error: this machine runs '$distribution'; packages are installed by this script on Debian 12 only"
      printf '  missing: %s\n' "${missing[@]}"
      echo "  install LLVM, MLIR, clang and lld 22.1 under $llvm and what these Debian packages hold:"
      awk 'NF {printf "    %-21s", $1; $1 = ""; print}' <<<"$packages"
      echo "  or set GEMMA_SKIP_SETUP=1 when everything is there under other names or paths"
    } >&2
    exit 1
  fi
}

if [[ $distribution != "debian 12" ]]; then
  check_other_distribution
  install_nvdisasm
  exit 0
fi

# shellcheck disable=SC2086  # one word a package is wanted
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' $names 2>/dev/null |
            awk '$1 == "ii" {print $2}' || true)
missing=$(comm -23 <(sort <<<"$names") <(sort -u <<<"$installed") | tr '\n' ' ')
if [[ -z ${missing// /} ]]; then
  install_nvdisasm
  exit 0
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null ||
    die "packages are missing and this is neither root nor is there sudo" \
        "as root, run: apt-get install --no-install-recommends $missing"
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
     -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)

say "installing with apt: $missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${apt[@]}" update >"$log" 2>&1 || {
  cat "$log" >&2
  die "apt-get update failed: is the network there?"
}
# shellcheck disable=SC2086
"${apt[@]}" install -y --no-install-recommends $missing >"$log" 2>&1 || {
  tail -n 20 "$log" >&2
  die "apt-get install failed (LLVM 22 comes from bookworm-security: is it among the apt sources?)"
}
say "packages installed"
install_nvdisasm
