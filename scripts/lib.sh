# Shared by the scripts of this folder: the repository root, progress lines, error exit.
# Source it; do not run it.

GEMMA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$GEMMA_ROOT" || exit 3

# say TEXT: one progress line with the seconds since the script began.
say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

# die TEXT...: what went wrong and what to do, on stderr; exit status 1.
die() {
  printf 'error: %s\n' "$@" >&2
  exit 1
}

# The build may use every core this process may use.
build_jobs() { nproc; }

# configure PRESET [cmake arguments]: quiet, and only when something CMake reads has changed
# (the build step re-runs CMake by itself when a list file changed).
configure() {
  local preset=$1 log
  shift
  if [[ -f build/$preset/build.ninja && -f build/$preset/.configured &&
        $(cat "build/$preset/.configured") == "$*" &&
        build/$preset/.configured -nt CMakePresets.json ]]; then
    return
  fi
  say "configuring (preset $preset)"
  mkdir -p "build/$preset"
  log=build/$preset/configure.log
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    die "CMake could not configure the build (log: $log)"
  }
  printf '%s' "$*" >"build/$preset/.configured"
}
