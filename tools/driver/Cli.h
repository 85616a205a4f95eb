// What the main() of every tool shares: command line, exit codes, last-resort errors. No MLIR.
#pragma once

#include "runtime/support/Status.h"

#include <CLI/CLI.hpp>

#include <functional>

namespace gemma::driver {

/// Declares a tool's options in `app` and returns what to do once they are parsed. The options must
/// live as long as the returned function: let it own them.
using DeclareTool = std::function<Status()> (*)(CLI::App &app);

/// All of a tool's main(): declares, parses, runs.
///
/// Returns the exit code: 0, or that of the error (1 bad input, 2 usage, 3 internal). Errors go to
/// stderr as `NAME: error: MESSAGE`; a wrong command line is code 2, `--help` and `--version` print
/// to stdout and are 0. Memory that runs out and exceptions of libraries are code 3, as is standard
/// output that cannot be written.
int runTool(const char *name, const char *description, DeclareTool declare, int argc,
            const char *const *argv);

/// Prints an error the way runTool does; returns its exit code.
int reportError(const char *name, const Error &error);

} // namespace gemma::driver
