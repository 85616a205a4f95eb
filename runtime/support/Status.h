// Errors as values: what every fallible function of the runtime returns.
//
// The runtime never aborts on data from outside. A message says what failed, where (file, tensor,
// key), what was expected and what was found; lower case, no full stop.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace gemma {

/// The exit code of a tool that ends with this error.
enum class ErrorKind {
  BadInput = 1, ///< the user's files or request are wrong, or a check fails
  Usage = 2,    ///< the command line is wrong
  Internal = 3, ///< our own fault
};

struct Error {
  ErrorKind kind = ErrorKind::BadInput;
  std::string message;
};

/// Success, or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}

  bool ok() const { return !failure; }
  explicit operator bool() const { return ok(); }
  const Error &error() const {
    assert(failure);
    return *failure;
  }

private:
  std::optional<Error> failure;
};

/// A T, or an Error.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state(std::in_place_index<1>, std::move(error)) {}
  Expected(const Status &status) : state(std::in_place_index<1>, status.error()) {}

  bool ok() const { return state.index() == 0; }
  explicit operator bool() const { return ok(); }
  T &operator*() & { return std::get<0>(state); }
  const T &operator*() const & { return std::get<0>(state); }
  T &&operator*() && { return std::get<0>(std::move(state)); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  const Error &error() const { return std::get<1>(state); }
  Status status() const { return ok() ? Status() : Status(error()); }

private:
  std::variant<T, Error> state;
};

inline Error badInput(std::string message) { return {ErrorKind::BadInput, std::move(message)}; }
inline Error usage(std::string message) { return {ErrorKind::Usage, std::move(message)}; }
inline Error internalError(std::string message) {
  return {ErrorKind::Internal, std::move(message)};
}

} // namespace gemma
