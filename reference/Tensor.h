// The reference's only array: row-major double.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gemma::reference {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data; ///< product(shape) elements

  Tensor() = default;
  /// All zero.
  explicit Tensor(std::vector<int64_t> shape) : shape(std::move(shape)), data(size_t(count())) {}
  Tensor(std::vector<int64_t> shape, std::vector<double> data)
      : shape(std::move(shape)), data(std::move(data)) {
    assert(int64_t(this->data.size()) == count());
  }

  int64_t rank() const { return int64_t(shape.size()); }
  int64_t dim(int64_t axis) const { return shape[size_t(axis)]; }
  /// Length of the last axis.
  int64_t width() const { return shape.back(); }
  /// Number of rows: the product of all axes but the last.
  int64_t rows() const {
    int64_t n = 1;
    for (size_t axis = 0; axis + 1 < shape.size(); ++axis)
      n *= shape[axis];
    return n;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t extent : shape)
      n *= extent;
    return n;
  }
  std::span<const double> row(int64_t i) const {
    return std::span(data).subspan(size_t(i * width()), size_t(width()));
  }
  std::span<double> row(int64_t i) {
    return std::span(data).subspan(size_t(i * width()), size_t(width()));
  }

  bool operator==(const Tensor &) const = default;
};

} // namespace gemma::reference
