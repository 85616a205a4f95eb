#include "tools/gemma-gpu-check/Cublas.h"

#include <cstdlib>
#include <dlfcn.h>

namespace gemma::check {

// cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t.
static constexpr int plain = 0, transposed = 1;
static constexpr int typeF32 = 0, typeBF16 = 14;
static constexpr int computeF32 = 68;
static constexpr int defaultAlgorithm = -1;

static Expected<void *> openLibrary() {
  if (const char *given = std::getenv("GEMMA_LIBCUBLAS"); given && *given) {
    if (void *library = ::dlopen(given, RTLD_NOW | RTLD_LOCAL))
      return library;
  } else {
    for (const char *name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"})
      if (void *library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))
        return library;
  }
  const char *why = ::dlerror();
  return badInput(std::string("no cuBLAS: ") + (why ? why : "unknown reason"));
}

Expected<std::unique_ptr<Cublas>> Cublas::open(std::shared_ptr<const cuda::Device> device,
                                               cuda::StreamHandle stream) {
  Expected<void *> library = openLibrary();
  if (!library)
    return library.status();
  std::unique_ptr<Cublas> made(new Cublas);
  made->device = std::move(device);
  std::string missing;
  auto find = [&]<typename Function>(const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(::dlsym(*library, name));
    if (!function)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  Code (*create)(Handle *) = nullptr;
  Code (*setStream)(Handle, cuda::StreamHandle) = nullptr;
  Code (*getVersion)(Handle, int *) = nullptr;
  find("cublasCreate_v2", create);
  find("cublasDestroy_v2", made->destroy);
  find("cublasSetStream_v2", setStream);
  find("cublasGetVersion_v2", getVersion);
  find("cublasGemmEx", made->gemm);
  if (!missing.empty())
    return badInput("no cuBLAS: the library has no " + missing);
  // It works in the context that is current.
  if (Status status = made->device->makeCurrent(); !status)
    return status;
  if (Status status = made->check("cublasCreate", create(&made->handle)); !status)
    return status;
  if (Status status = made->check("cublasSetStream", setStream(made->handle, stream)); !status)
    return status;
  if (Status status =
          made->check("cublasGetVersion", getVersion(made->handle, &made->versionNumber));
      !status)
    return status;
  return made;
}

Cublas::~Cublas() {
  if (handle && device->makeCurrent())
    (void)destroy(handle);
}

Status Cublas::check(const char *entry, Code code) const {
  if (code == 0)
    return {};
  return badInput(std::string(entry) + ": cuBLAS status " + std::to_string(code));
}

Status Cublas::multiply(const Product &product) const {
  if (Status status = device->makeCurrent(); !status)
    return status;
  const float one = 1, zero = 0;
  // Column by column, as cuBLAS has it, y is [n, tokens], w is [k, n] and x is [k, tokens].
  auto n = int(product.n), k = int(product.k), tokens = int(product.tokens);
  return check("cublasGemmEx", gemm(handle, transposed, plain, n, tokens, k, &one, product.w,
                                    typeBF16, k, product.x, typeBF16, k, &zero, product.y,
                                    product.output == ScalarType::F32 ? typeF32 : typeBF16, n,
                                    computeF32, defaultAlgorithm));
}

} // namespace gemma::check
