#!/usr/bin/env bash
# Writes docs/generated/*.md, the pages of ops and passes, from the .td files.
#
#   scripts/generate-docs.sh           writes them
#   scripts/generate-docs.sh --check   writes nothing; exit status 1 and a diff when one is stale
#
# The pages are committed; the test "docs-fresh" runs --check.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Every page, in one place: page, .td file, mlir-tblgen's generator and arguments.
pages='
GemmaDialect    dialect/gemma/GemmaOps.td       -gen-dialect-doc -dialect=gemma
KernelDialect   dialect/kernel/KernelOps.td     -gen-dialect-doc -dialect=kernel
ProgramDialect  dialect/program/ProgramOps.td   -gen-dialect-doc -dialect=program
Passes          passes/Passes.td                -gen-pass-doc
HostPasses      codegen/cpu/Passes.td           -gen-pass-doc
GpuPasses       codegen/gpu/Passes.td           -gen-pass-doc
'

check=
case ${1:-} in
  --check) check=1 ;;
  '') ;;
  *)
    echo "error: expected --check or nothing, got '$1'" >&2
    exit 2
    ;;
esac

prefix=${LLVM_PREFIX:-/usr/lib/llvm-22}
tblgen=$prefix/bin/mlir-tblgen
[[ -x $tblgen ]] || die "$tblgen is not there: run scripts/setup.sh, or set LLVM_PREFIX"

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
while read -r page td arguments; do
  [[ -n $page ]] || continue
  if [[ ! -f $td ]]; then
    echo "note: $td is not there, no page $page" >&2
    continue
  fi
  # shellcheck disable=SC2086  # one word an argument is wanted
  "$tblgen" $arguments -I . -I "$prefix/include" "$td" >"$fresh/$page.md" ||
    die "mlir-tblgen failed on $td"
  # Editors and git complain about blanks at line ends and at the end of the file.
  sed -i -e 's/[[:space:]]*$//' -e '${/^$/d}' "$fresh/$page.md"
done <<<"$pages"

# A dialect or a pass that no page shows would go unseen.
for td in $(grep -rlE --include='*.td' '^def \w+ *: *(Dialect|Pass|InterfacePass)\b *<' \
            dialect passes codegen); do
  grep -q " $(dirname "$td")/" <<<"$pages" ||
    die "$td has no page: add its folder to the table in scripts/generate-docs.sh"
done

if [[ $check ]]; then
  diff -ruN docs/generated "$fresh" ||
    die "docs/generated is stale: run scripts/generate-docs.sh and commit the result"
else
  mkdir -p docs/generated
  rm -f docs/generated/*.md
  find "$fresh" -name '*.md' -exec cp {} docs/generated/ \;
  ls docs/generated
fi
