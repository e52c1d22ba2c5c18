#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace viaduct {

/// Why a whole call failed. A refused record of a batch is a Failure (outcome.h).
struct Error {
  int code = 0;           ///< errno, positive
  std::string operation;  ///< the failed operation: "open netlink socket", "dump routes"
  std::string text;       ///< the kernel's message (extended ACK), or empty
};

/// A value or an Error. Factories return it, so that no constructor can partly fail.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor): `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): `return error;`

  bool ok() const { return std::holds_alternative<T>(state_); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  Error& error() { return std::get<Error>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Result of a call without a value.
using Status = Result<std::monostate>;
inline Status Ok() { return std::monostate{}; }

}  // namespace viaduct
