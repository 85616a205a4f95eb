#include "tools/driver/Cli.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::driver {
namespace {

int report(const char *name, ErrorKind kind, const char *message) {
  std::cout.flush(); // what was printed before the error stays before it
  std::fprintf(stderr, "%s: error: %s\n", name, message);
  if (kind == ErrorKind::Usage)
    std::fprintf(stderr, "run %s --help for more information\n", name);
  return static_cast<int>(kind);
}

/// The command line's words, the last one first, as CLI11 takes them. `--name=` is an option with
/// an empty value; CLI11 alone would take the next word for the value.
std::vector<std::string> arguments(int argc, const char *const *argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      words.emplace_back(word.substr(0, word.size() - 1));
      words.emplace_back();
    } else {
      words.emplace_back(word);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

int declareParseRun(const char *name, const char *description, DeclareTool declare, int argc,
                    const char *const *argv) {
  CLI::App app(description, name);
  std::function<Status()> body = declare(app);
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::Success &help) {
    return app.exit(help);
  } catch (const CLI::ParseError &error) {
    return report(name, ErrorKind::Usage, error.what());
  }
  if (Status status = body(); !status)
    return reportError(name, status.error());
  if (!std::cout.flush())
    return report(name, ErrorKind::Internal, "cannot write to standard output");
  return 0;
}

} // namespace

int reportError(const char *name, const Error &error) {
  return report(name, error.kind, error.message.c_str());
}

int runTool(const char *name, const char *description, DeclareTool declare, int argc,
            const char *const *argv) {
  std::signal(SIGXFSZ, SIG_IGN); // beyond `ulimit -f` writing fails, as on a full disk
  // The one place where exceptions of libraries end.
  try {
    return declareParseRun(name, description, declare, argc, argv);
  } catch (const std::bad_alloc &) {
    return report(name, ErrorKind::Internal, "out of memory");
  } catch (const std::exception &error) {
    return report(name, ErrorKind::Internal, error.what());
  } catch (...) {
    return report(name, ErrorKind::Internal, "unknown exception");
  }
}

} // namespace gemma::driver
