// What the main() of every tool shares: command line, exit codes, last-resort errors. No MLIR.
#pragma once

#include "runtime/support/Status.h"

#include <CLI/CLI.hpp>

#include <functional>

namespace gemma::driver {

/// Parses the command line into `app`, then calls `body`.
///
/// Returns the exit code: 0, or that of the error (1 bad input, 2 usage, 3 internal). Errors go to
/// stderr as `NAME: error: MESSAGE`, NAME being the app's; a wrong command line is code 2, `--help`
/// and `--version` print to stdout and are 0. Memory that runs out and exceptions of libraries are
/// code 3, as is standard output that cannot be written.
int runTool(CLI::App &app, int argc, const char *const *argv, const std::function<Status()> &body);

/// Prints an error the way runTool does; returns its exit code.
int reportError(const CLI::App &app, const Error &error);

} // namespace gemma::driver
