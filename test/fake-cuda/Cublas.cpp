// A library that stands in for cuBLAS in tests: it has the entry points that gemma-gpu-check looks
// up, computes nothing, and says at exit which products it was asked for. GEMMA_LIBCUBLAS names it.
// FAKE_CUBLAS=fail=NTH: that product is refused.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

struct Asked {
  std::map<std::string, int> products;
  int handles = 0, calls = 0;

  ~Asked() {
    for (const auto &[product, count] : products)
      std::fprintf(stderr, "fake cuBLAS: %s, %d times\n", product.c_str(), count);
    std::fprintf(stderr, "fake cuBLAS: alive: %d\n", handles);
  }
};
Asked asked;

enum : int { success = 0, invalidValue = 7, executionFailed = 13 };

} // namespace

struct CublasContext {
  const void *stream = nullptr;
};

extern "C" {

int cublasCreate_v2(CublasContext **handle) {
  *handle = new CublasContext;
  ++asked.handles;
  return success;
}

int cublasDestroy_v2(CublasContext *handle) {
  delete handle;
  --asked.handles;
  return success;
}

int cublasSetStream_v2(CublasContext *handle, const void *stream) {
  handle->stream = stream;
  return success;
}

int cublasGetVersion_v2(CublasContext *, int *version) {
  *version = 130000;
  return success;
}

int cublasGemmEx(CublasContext *handle, int transA, int transB, int m, int n, int k,
                 const void *alpha, const void *a, int typeA, int lda, const void *b, int typeB,
                 int ldb, const void *beta, void *c, int typeC, int ldc, int compute,
                 int algorithm) {
  const char *settings = std::getenv("FAKE_CUBLAS");
  if (settings && std::strncmp(settings, "fail=", 5) == 0 &&
      std::atoi(settings + 5) == ++asked.calls)
    return executionFailed;
  float one = 0, zero = 1;
  std::memcpy(&one, alpha, sizeof one);
  std::memcpy(&zero, beta, sizeof zero);
  // bf16 [k, m]T times bf16 [k, n] in f32, nothing added.
  if (!handle->stream || transA != 1 || transB != 0 || m < 1 || n < 1 || k < 1 || one != 1 ||
      zero != 0 || !a || !b || !c || typeA != 14 || typeB != 14 || lda < k || ldb < k || ldc < m ||
      (typeC != 0 && typeC != 14) || compute != 68 || algorithm != -1)
    return invalidValue;
  ++asked.products[std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                   (typeC == 0 ? " to f32" : " to bf16")];
  return success;
}
}
