#include "tools/driver/Cli.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

namespace gemma::driver {

int reportError(const CLI::App &app, const Error &error) {
  std::cout.flush(); // what was printed before the error stays before it
  std::fprintf(stderr, "%s: error: %s\n", app.get_name().c_str(), error.message.c_str());
  if (error.kind == ErrorKind::Usage)
    std::fprintf(stderr, "run %s --help for more information\n", app.get_name().c_str());
  return static_cast<int>(error.kind);
}

int runTool(CLI::App &app, int argc, const char *const *argv, const std::function<Status()> &body) {
  // The one place where exceptions of libraries end.
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success &help) {
      return app.exit(help);
    } catch (const CLI::ParseError &error) {
      return reportError(app, usage(error.what()));
    }
    if (Status status = body(); !status)
      return reportError(app, status.error());
    if (!std::cout.flush())
      return reportError(app, internalError("cannot write to standard output"));
    return 0;
  } catch (const std::bad_alloc &) {
    return reportError(app, internalError("out of memory"));
  } catch (const std::exception &error) {
    return reportError(app, internalError(error.what()));
  }
}

} // namespace gemma::driver
