// cuBLAS, as far as a comparison needs it: opened at run time where there is one. Types, numbers
// and entry points as the documentation of cuBLAS gives them (docs.nvidia.com/cuda/cublas).
#pragma once

#include "runtime/device/cuda/Device.h"
#include "runtime/support/ScalarType.h"

#include <memory>
#include <string>

namespace gemma::check {

/// y [tokens, n] = x [tokens, k] · w [n, k]ᵀ, all row-major, in memory of the device.
struct Product {
  int64_t n = 0, k = 0, tokens = 0;
  cuda::DevicePointer w = 0, x = 0, y = 0; ///< w and x of bf16
  ScalarType output = ScalarType::BF16;    ///< of y: BF16 or F32
};

class Cublas {
public:
  /// Opens libcublas.so of CUDA 13, 12 or 11, or the file that GEMMA_LIBCUBLAS names, and makes a
  /// handle for this device and stream. The error says what is missing.
  static Expected<std::unique_ptr<Cublas>> open(std::shared_ptr<const cuda::Device> device,
                                                cuda::StreamHandle stream);
  ~Cublas();

  /// Major · 10000 + minor · 100 + patch, or as the library counts.
  int version() const { return versionNumber; }
  /// Puts a product with sums of f32 into the stream.
  Status multiply(const Product &product) const;

private:
  using Handle = struct CublasContext *;
  using Code = int; ///< cublasStatus_t; 0 is success

  Cublas() = default;
  Status check(const char *entry, Code code) const;

  std::shared_ptr<const cuda::Device> device;
  Handle handle = nullptr;
  int versionNumber = 0;
  Code (*destroy)(Handle) = nullptr;
  /// Its addresses of the device are pointers in cuBLAS's own header.
  Code (*gemm)(Handle, int transA, int transB, int m, int n, int k, const void *alpha,
               cuda::DevicePointer a, int typeA, int lda, cuda::DevicePointer b, int typeB, int ldb,
               const void *beta, cuda::DevicePointer c, int typeC, int ldc, int compute,
               int algorithm) = nullptr;
};

} // namespace gemma::check
