#!/usr/bin/env bash
# Sets up, builds and runs the whole test suite. The last line counts passed, failed and skipped
# tests; the exit status is 0 only if none failed.
#
#   scripts/test.sh [--preset dev|release|asan] [--long] [ctest arguments]
#
# --long adds the tests that take minutes (environment: GEMMA_LONG_TESTS=1). Other arguments go to
# ctest, for example: -R Tokenizer, -L lit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=dev
while (($#)); do
  case $1 in
    --preset)
      [[ $# -ge 2 ]] || { echo "error: --preset expects a name" >&2; exit 2; }
      preset=$2
      shift 2
      ;;
    --long)
      export GEMMA_LONG_TESTS=1
      shift
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *) break ;;
  esac
done

scripts/setup.sh
configure "$preset"
say "building (preset $preset, $(build_jobs) jobs)"
NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -j "$(build_jobs)" ||
  die "the build failed: no test was run"

say "testing"
results=$PWD/build/$preset/test-results.xml
rm -f "$results"
status=0
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(build_jobs)" \
      --output-junit "$results" "$@" || status=$?
[[ -s $results ]] || die "ctest wrote no results (its exit status: $status)"
exec python3 scripts/count_tests.py "$results" "$status"
