#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/shape.h"

namespace viaduct::xtables {

/// Matches and targets that we make.
enum class Extension : uint8_t {
  kTcp,
  kUdp,
  kSctp,
  kMark,
  kConntrack,
  kAddressType,
  kSet,
  kBpf,
  kStatistic,
  kRecent,
  kComment,
  kMarkTarget,
  kDnat,
  kMasquerade,
  kReject,
  kSetTarget,
};

/// Its name in the kernel.
const char* NameOf(Extension extension);

/// Which revision of each extension this kernel has. The question may load the extension's module; an answer
/// is remembered, "none" until AskAgain().
class Extensions {
 public:
  /// `fd`: a socket of the shape's family, which outlives this.
  Extensions(const Shape& shape, SocketCalls& calls, int fd) : shape_(&shape), calls_(&calls), fd_(fd) {}

  /// The newest revision that both know. EPROTONOSUPPORT: none; the text names the extension. ENOPROTOOPT:
  /// the kernel has no legacy x_tables.
  Result<uint8_t> Revision(Extension extension);
  /// Extensions that were missing are asked for again: each question may run modprobe, which takes
  /// milliseconds, so that a batch of many such rules asks once.
  void AskAgain() { missing_ = {}; }

 private:
  static constexpr size_t kCount = static_cast<size_t>(Extension::kSetTarget) + 1;

  const Shape* shape_;
  SocketCalls* calls_;
  int fd_;
  Result<uint8_t> Ask(Extension extension);

  std::array<std::optional<uint8_t>, kCount> known_ = {};
  std::array<std::optional<Error>, kCount> missing_ = {};
};

}  // namespace viaduct::xtables
