#include "runtime/support/File.h"

#include "runtime/support/UnfinishedFile.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gemma {

static constexpr size_t kBufferBytes = size_t(1) << 20;

static Error systemError(const std::string &where, const char *what, int code) {
  return badInput(where + ": " + what + ": " + std::strerror(code));
}

namespace {

/// Closes a descriptor at the end of a scope.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return number; }
  /// Closes now; false with errno if the system reports a late write error.
  bool close() { return ::close(std::exchange(number, -1)) == 0; }

private:
  int number;
};

} // namespace

Expected<std::string> readWholeFile(const std::filesystem::path &path, uint64_t limit) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0)
    return systemError(path, "cannot open", errno);
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return systemError(path, "cannot stat", errno);
  if (!S_ISREG(info.st_mode))
    return badInput(path.string() + ": expected a regular file");
  if (uint64_t(info.st_size) > limit)
    return badInput(path.string() + ": expected at most " + std::to_string(limit) + " bytes, got " +
                    std::to_string(info.st_size));
  std::string content(size_t(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError(path, "cannot read", errno);
    if (got == 0)
      return badInput(path.string() + ": became shorter while it was read");
    done += size_t(got);
  }
  return content;
}

FileWriter::FileWriter(int descriptor, std::string where)
    : descriptor(descriptor), where(std::move(where)), buffer(new std::byte[kBufferBytes]) {}

FileWriter::~FileWriter() = default;

Status FileWriter::writeThrough(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      return systemError(where, "cannot write", errno);
    bytes = bytes.subspan(size_t(wrote));
  }
  return {};
}

Status FileWriter::flush() {
  size_t count = std::exchange(buffered, 0);
  return writeThrough({buffer.get(), count});
}

Status FileWriter::write(std::span<const std::byte> bytes) {
  total += bytes.size();
  if (bytes.size() > kBufferBytes - buffered) {
    if (Status status = flush(); !status)
      return status;
    if (bytes.size() >= kBufferBytes)
      return writeThrough(bytes);
  }
  if (!bytes.empty())
    std::memcpy(buffer.get() + buffered, bytes.data(), bytes.size());
  buffered += bytes.size();
  return {};
}

/// Runs `fill` on an open descriptor and flushes the buffer.
static Status fillFile(int descriptor, const std::string &where,
                       const std::function<Status(FileWriter &)> &fill) {
  FileWriter writer(descriptor, where);
  if (Status status = fill(writer); !status)
    return status;
  return writer.flush();
}

static std::filesystem::path folderOf(const std::filesystem::path &path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

namespace {
enum class Place { File, Device };
}

/// What `path` is or becomes.
static Expected<Place> placeOf(const std::filesystem::path &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode))
    return Place::File;
  if (S_ISDIR(info.st_mode))
    return badInput(path.string() + ": expected a file name, got a folder");
  return Place::Device;
}

Status checkWritable(const std::filesystem::path &path) {
  Expected<Place> place = placeOf(path);
  if (!place)
    return place.status();
  if (*place == Place::Device)
    return ::access(path.c_str(), W_OK) == 0 ? Status() : systemError(path, "cannot open", errno);
  StagedFile staged(path);
  Expected<int> number = staged.create();
  Descriptor file(number ? *number : -1);
  return number.status();
}

Status checkRoom(const std::filesystem::path &path, uint64_t bytes) {
  Expected<Place> place = placeOf(path);
  if (!place)
    return place.status();
  std::error_code code;
  std::filesystem::space_info space = std::filesystem::space(folderOf(path), code);
  if (*place == Place::Device || code || bytes <= space.available)
    return {};
  return badInput(path.string() + ": the disk has " + std::to_string(space.available >> 20) +
                  " MiB free, expected at least " + std::to_string(bytes >> 20) + " MiB");
}

StagedFile::StagedFile(std::filesystem::path path) : path(std::move(path)) {}

StagedFile::StagedFile(StagedFile &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
      unfinished(std::move(other.unfinished)) {}

StagedFile::~StagedFile() {
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Expected<int> StagedFile::create() {
  static std::atomic<unsigned> counter{0};
  // Hidden, unique for process and call; O_EXCL catches what a killed process left.
  int number = -1;
  for (int attempt = 0; number < 0 && attempt < 100; ++attempt) {
    std::filesystem::path name =
        folderOf(path) / ("." + path.filename().string() + ".tmp-" + std::to_string(::getpid()) +
                          "-" + std::to_string(counter++));
    unfinished = std::make_unique<UnfinishedFile>(name); // before it is there: nothing is missed
    number = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (number >= 0)
      temporary = std::move(name);
    else if (errno != EEXIST)
      break;
  }
  if (number < 0)
    return systemError(path, "cannot create a file in its folder", errno);
  return number;
}

Expected<StagedFile> StagedFile::write(const std::filesystem::path &path,
                                       const std::function<Status(FileWriter &)> &fill) {
  Expected<Place> place = placeOf(path);
  if (!place)
    return place.status();
  StagedFile staged(path);
  if (*place == Place::Device) {
    Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (device.get() < 0)
      return systemError(path, "cannot open", errno);
    if (Status status = fillFile(device.get(), path, fill); !status)
      return status;
    return staged;
  }
  Expected<int> number = staged.create();
  if (!number)
    return number.status();
  Descriptor file(*number);
  if (Status status = fillFile(file.get(), path, fill); !status)
    return status;
  if (::fsync(file.get()) != 0)
    return systemError(path, "cannot flush to the disk", errno);
  if (!file.close())
    return systemError(path, "cannot close", errno);
  return staged;
}

Status StagedFile::commit() {
  if (temporary.empty()) // a device
    return {};
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return systemError(path, "cannot rename to this name", errno);
  temporary.clear();
  unfinished.reset();
  // The rename itself reaches the disk with the folder; not every file system can sync one, and the
  // file is complete either way.
  Descriptor parent(::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0)
    (void)::fsync(parent.get());
  return {};
}

Status writeFileAtomically(const std::filesystem::path &path,
                           const std::function<Status(FileWriter &)> &fill) {
  Expected<StagedFile> staged = StagedFile::write(path, fill);
  return staged ? staged->commit() : staged.status();
}

Status writeFileAtomically(const std::filesystem::path &path, std::span<const std::byte> content) {
  return writeFileAtomically(path, [&](FileWriter &writer) { return writer.write(content); });
}

} // namespace gemma
