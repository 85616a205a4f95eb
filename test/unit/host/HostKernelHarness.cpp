#include "HostKernelHarness.h"

#include "WideInstructions.h"

#include "dialect/kernel/Kernel.h"
#include "runtime/support/BFloat16.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gemma::codegen::test {
namespace {

int64_t bytesOf(const std::string &type) {
  return type == "f64"                                      ? 8
         : type == "i8"                                     ? 1
         : type == "bf16" || type == "f16" || type == "i16" ? 2
                                                            : 4;
}

/// Normal numbers only; what f16 has no bits for is cut off.
uint16_t f16Bits(double value) {
  uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (value == 0)
    return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10)));
}

double ofF16Bits(uint16_t bits) {
  if ((bits & 0x7fff) == 0)
    return 0;
  uint32_t wide = (bits & 0x8000u) << 16 | ((bits & 0x7fffu) + (112u << 10)) << 13;
  return std::bit_cast<float>(wide);
}

/// The bytes at `at` as an integer.
template <typename Integer> double readInteger(const char *at) {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

} // namespace

Buffer::Buffer(std::string type, int64_t elements, double fill)
    : type(std::move(type)), elements(elements), bytes(elements * bytesOf(this->type)) {
  for (int64_t i = 0; i < elements; ++i)
    set(i, fill);
}

Buffer Buffer::random(std::string type, int64_t elements, unsigned seed, double scale) {
  Buffer result(std::move(type), elements);
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-scale, scale);
  for (int64_t i = 0; i < elements; ++i)
    result.set(i, uniform(engine));
  return result;
}

Buffer Buffer::integers(const std::vector<int> &values) {
  Buffer result("i32", values.size());
  for (size_t i = 0; i < values.size(); ++i)
    result.set(i, values[i]);
  return result;
}

double Buffer::get(int64_t i) const {
  const char *at = bytes.data() + i * bytesOf(type);
  if (type == "f64") {
    double value;
    std::memcpy(&value, at, 8);
    return value;
  }
  if (type == "bf16") {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return bf16ToF32(bits);
  }
  if (type == "f16") {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return ofF16Bits(bits);
  }
  if (type == "i32")
    return readInteger<int32_t>(at);
  if (type == "i16")
    return readInteger<int16_t>(at);
  if (type == "i8")
    return readInteger<int8_t>(at);
  float value;
  std::memcpy(&value, at, 4);
  return value;
}

void Buffer::set(int64_t i, double value) {
  char *at = bytes.data() + i * bytesOf(type);
  if (type == "f64") {
    std::memcpy(at, &value, 8);
  } else if (type == "bf16") {
    uint16_t bits = f32ToBf16(static_cast<float>(value));
    std::memcpy(at, &bits, 2);
  } else if (type == "f16") {
    uint16_t bits = f16Bits(value);
    std::memcpy(at, &bits, 2);
  } else if (type[0] == 'i') { // the lower bytes
    int32_t integer = static_cast<int32_t>(value);
    std::memcpy(at, &integer, bytesOf(type));
  } else {
    float single = static_cast<float>(value);
    std::memcpy(at, &single, 4);
  }
}

HostModule::HostModule(const std::string &text, const HostIsa &isa) : isaName(isa.name) {
  mlir::MLIRContext context;
  context.loadDialect<kernel::KernelDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return;
  }
  bool runs = cpuRuns(isa);
  std::optional<HostIsa> other = runs ? std::nullopt : standIn(isa);
  CodegenOptions options;
  if (other)
    options.translated = replaceWideInstructions;
  auto objects = compileHostKernels(*module, {other.value_or(isa)}, options);
  if (!objects) {
    ADD_FAILURE() << objects.error().message;
    return;
  }
  const HostObject &object = objects->front();
  for (const HostKernel &kernel : object.kernels)
    scratchBytes[kernel.name] = kernel.scratchBytes;
  if (!runs && !other)
    return;
  int file = memfd_create("host-kernels", MFD_CLOEXEC);
  EXPECT_EQ(write(file, object.bytes.data(), object.bytes.size()),
            static_cast<ssize_t>(object.bytes.size()));
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(file);
  EXPECT_NE(library, nullptr) << dlerror();
}

HostModule::~HostModule() {
  if (library)
    dlclose(library);
}

void HostModule::run(const std::string &kernel, GemmaSizes sizes, std::vector<Buffer *> arguments,
                     int64_t grid, int64_t range) {
  ASSERT_NE(library, nullptr);
  auto function = reinterpret_cast<GemmaKernel>(dlsym(library, kernel.c_str()));
  ASSERT_NE(function, nullptr) << kernel;
  std::vector<void *> pointers;
  for (Buffer *argument : arguments)
    pointers.push_back(argument->data());
  GemmaArgs args{&sizes, pointers.data(), 0};
  int64_t bytes = (scratchBytes[kernel] + 127) / 64 * 64;
  void *scratch = std::aligned_alloc(64, bytes);
  for (int64_t begin = 0; begin < grid; begin += range) {
    // Every second range finds what the one before left.
    args.prepared = uint64_t(begin / range % 2);
    if (!args.prepared)
      std::memset(scratch, 0xff, bytes);
    function(&args, begin, std::min(begin + range, grid), scratch);
  }
  std::free(scratch);
}

double relativeError(const Buffer &got, const std::vector<double> &want) {
  EXPECT_EQ(got.size(), static_cast<int64_t>(want.size()));
  double difference = 0, largest = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    double d = std::abs(got.get(i) - want[i]);
    if (!(d <= INFINITY))
      return INFINITY; // NaN
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(want[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

double tolerance(const std::string &type) {
  return type == "f64" ? 2e-15 : type == "f32" ? 1e-6 : 4e-3;
}

} // namespace gemma::codegen::test
