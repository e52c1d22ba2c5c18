#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/shape.h"

namespace viaduct::xtables {

/// Matches and targets that Viaduct uses.
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

/// Name in the kernel.
const char* NameOf(Extension extension);

/// The revisions of the extensions in this kernel. A request may load the extension's module. Results are
/// cached; missing extensions until AskAgain().
class Extensions {
 public:
  /// `fd`: a socket of the shape's family. NB: it must outlive this.
  Extensions(const Shape& shape, SocketCalls& calls, int fd) : shape_(&shape), calls_(&calls), fd_(fd) {}

  /// The newest revision that kernel and Viaduct support. EPROTONOSUPPORT: none; the text names the
  /// extension. ENOPROTOOPT: the kernel has no legacy x_tables.
  Result<uint8_t> Revision(Extension extension);
  /// Requests missing extensions again. A request may run modprobe, which takes milliseconds: a batch with
  /// many such rules requests each extension once.
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
