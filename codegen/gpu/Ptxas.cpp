#include "codegen/gpu/Ptxas.h"

#include "runtime/support/Json.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace gemma::codegen {
namespace {

/// The number right before `unit` in the text, or nothing.
std::optional<int64_t> numberBefore(llvm::StringRef text, llvm::StringRef unit) {
  size_t at = text.find(unit);
  if (at == llvm::StringRef::npos)
    return std::nullopt;
  llvm::StringRef head = text.take_front(at).rtrim();
  llvm::StringRef digits = head.take_back(head.size() - head.find_last_not_of("0123456789") - 1);
  int64_t value = 0;
  if (digits.empty() || digits.getAsInteger(10, value))
    return std::nullopt;
  return value;
}

Expected<std::string> readFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return internalError("cannot read " + path.str() + ": " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// A temporary file that goes away with the object.
class TemporaryFile {
public:
  Status create(llvm::StringRef suffix) {
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("gemma", suffix, path))
      return internalError("cannot create a temporary file: " + error.message());
    remover.setFile(path);
    return {};
  }
  llvm::StringRef name() const { return path; }

private:
  llvm::SmallString<128> path;
  llvm::FileRemover remover;
};

} // namespace

Expected<std::string> findPtxas() {
  if (const char *given = std::getenv("GEMMA_PTXAS")) {
    if (llvm::sys::fs::can_execute(given))
      return std::string(given);
    return badInput("GEMMA_PTXAS: expected a program, got " + quoteForMessage(given));
  }
  auto inFolder = [](llvm::StringRef folder) -> std::optional<std::string> {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bin", "ptxas");
    if (llvm::sys::fs::can_execute(path))
      return path.str().str();
    return std::nullopt;
  };
  for (const char *name : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"})
    if (const char *folder = std::getenv(name))
      if (auto path = inFolder(folder))
        return *path;
  if (auto path = inFolder("/usr/local/cuda"))
    return *path;
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  return badInput(
      "no ptxas: expected it at $GEMMA_PTXAS, in $CUDA_HOME/bin, /usr/local/cuda/bin or "
      "PATH; the CUDA toolkit has it");
}

Expected<PtxasReport> parsePtxasReport(const std::string &text) {
  PtxasReport report;
  auto registers = numberBefore(text, "registers");
  auto stack = numberBefore(text, "bytes stack frame");
  auto stores = numberBefore(text, "bytes spill stores");
  auto loads = numberBefore(text, "bytes spill loads");
  if (!registers || !stack || !stores || !loads)
    return internalError("expected registers, stack frame and spills from ptxas -v, got: " + text);
  report.registers = *registers;
  report.stackBytes = *stack;
  report.spillStores = *stores;
  report.spillLoads = *loads;
  report.staticShared = numberBefore(text, "bytes smem").value_or(0);
  return report;
}

Expected<PtxasReport> assemble(const std::string &ptxas, const std::string &kernel,
                               const std::string &ptx, const std::string &chip) {
  TemporaryFile input, output, log;
  for (auto [file, suffix] : {std::pair(&input, "ptx"), {&output, "cubin"}, {&log, "txt"}})
    if (Status status = file->create(suffix); !status)
      return status;
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(input.name(), error);
    if (!error)
      stream << ptx;
    stream.close();
    if (stream.has_error())
      error = stream.error();
    stream.clear_error();
  }
  if (error)
    return internalError("cannot write " + input.name().str() + ": " + error.message());

  std::string architecture = "-arch=" + chip, message;
  llvm::StringRef arguments[] = {ptxas, "-v",          "-O3",       architecture,
                                 "-o",  output.name(), input.name()};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), log.name(), log.name()};
  int code = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects,
                                       /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  auto text = readFile(log.name());
  if (!text)
    return text.status();
  if (code != 0)
    return internalError("ptxas fails on kernel " + kernel + " for " + chip + ": " +
                         (message.empty() ? *text : message));
  auto report = parsePtxasReport(*text);
  if (!report)
    return report.status();
  if (report->spillStores || report->spillLoads || report->stackBytes)
    return internalError("kernel " + kernel + " for " + chip +
                         " has local memory: expected no spills and no stack, got " +
                         std::to_string(report->spillStores) + " bytes of spill stores, " +
                         std::to_string(report->spillLoads) + " of spill loads and " +
                         std::to_string(report->stackBytes) + " of stack with " +
                         std::to_string(report->registers) + " registers");
  auto cubin = readFile(output.name());
  if (!cubin)
    return cubin.status();
  report->cubin = std::move(*cubin);
  return report;
}

} // namespace gemma::codegen
