#include "codegen/cpu/SharedObject.h"

#include "llvm/Object/ELF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <deque>
#include <set>

namespace gemma::codegen {
namespace {

/// A temporary file that goes when its owner does.
struct TemporaryFile {
  llvm::SmallString<128> path;
  llvm::FileRemover remover;

  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::DontRemoveFileOnSignal(path);
  }
  Status create(llvm::StringRef suffix) {
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("gemma-host", suffix, path))
      return internalError("cannot create a temporary file for linking: " + error.message());
    remover.setFile(path);
    llvm::sys::RemoveFileOnSignal(path);
    return {};
  }
  Status write(const std::string &bytes) {
    std::error_code error;
    llvm::raw_fd_ostream stream(path, error);
    stream << bytes;
    stream.close();
    if (error || stream.has_error()) {
      stream.clear_error();
      return internalError("cannot write " + path.str().str());
    }
    return {};
  }
};

std::string readFile(llvm::StringRef path) {
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

Error elfError(llvm::Error error) {
  return internalError("cannot read the linked host object: " + llvm::toString(std::move(error)));
}

} // namespace

Expected<std::string> linkSharedObject(const std::vector<std::string> &objects) {
  TemporaryFile output, messages;
  for (auto [file, suffix] : {std::pair(&output, "so"), {&messages, "txt"}})
    if (Status status = file->create(suffix); !status)
      return status;
  std::deque<TemporaryFile> inputs;
  for (const std::string &object : objects) {
    TemporaryFile &input = inputs.emplace_back();
    if (Status status = input.create("o"); !status)
      return status;
    if (Status status = input.write(object); !status)
      return status;
  }
  // No build id: the same kernels give the same bytes.
  llvm::SmallVector<llvm::StringRef> arguments = {
      GEMMA_LLD,         "-shared",          "--no-undefined",
      "--build-id=none", "--hash-style=gnu", "-z",
      "noexecstack",     "--strip-all",      "-o",
      output.path};
  for (const TemporaryFile &input : inputs)
    arguments.push_back(input.path);
  std::string error;
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), messages.path.str(),
                                                messages.path.str()};
  int code = llvm::sys::ExecuteAndWait(GEMMA_LLD, arguments, std::nullopt, redirects, 0, 0, &error);
  if (code != 0)
    return internalError("linking host kernels with " GEMMA_LLD " failed: " +
                         (error.empty() ? readFile(messages.path) : error));
  std::string bytes = readFile(output.path);
  if (bytes.empty())
    return internalError("cannot read " + output.path.str().str());
  return bytes;
}

Status checkSharedObject(const std::string &bytes, const std::vector<std::string> &symbols) {
  auto file = llvm::object::ELF64LEFile::create(bytes);
  if (!file)
    return elfError(file.takeError());
  auto dynamic = file->dynamicEntries();
  if (!dynamic)
    return elfError(dynamic.takeError());
  for (const auto &entry : *dynamic)
    switch (entry.getTag()) {
    case llvm::ELF::DT_NEEDED:
    case llvm::ELF::DT_INIT:
    case llvm::ELF::DT_FINI:
    case llvm::ELF::DT_INIT_ARRAY:
    case llvm::ELF::DT_FINI_ARRAY:
    case llvm::ELF::DT_PREINIT_ARRAY:
      return internalError(
          "the host object needs a library or has code to run at load: dynamic tag " +
          file->getDynamicTagAsString(entry.getTag()));
    default:
      break;
    }

  auto sections = file->sections();
  if (!sections)
    return elfError(sections.takeError());
  std::set<std::string> exported;
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM)
      continue;
    auto table = file->symbols(&section);
    if (!table)
      return elfError(table.takeError());
    auto names = file->getStringTableForSymtab(section);
    if (!names)
      return elfError(names.takeError());
    for (const auto &symbol : *table) {
      auto name = symbol.getName(*names);
      if (!name)
        return elfError(name.takeError());
      if (name->empty())
        continue;
      if (symbol.st_shndx == llvm::ELF::SHN_UNDEF)
        return internalError("the host object has the undefined symbol " + name->str());
      exported.insert(name->str());
    }
  }
  for (const std::string &symbol : symbols)
    if (!exported.count(symbol))
      return internalError("the host object does not export kernel " + symbol);
  return {};
}

} // namespace gemma::codegen
