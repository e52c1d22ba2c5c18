#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fd.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "ipset/ipset_socket.h"
#include "ipvs/ipvs_socket.h"
#include "look/kernel_look.h"

namespace viaduct::look {

/// Looks at the kernel once a second, and wakes nobody while it is as it was: what a KernelLook sees, the
/// sets and how many entries each has. The kernel counts those one by one: sets are looked at for 1/500 of
/// the time at most.
class LookWatch {
 public:
  /// `families` as KernelLook has them; `set_prefix`: what the names of the sets begin with.
  static Result<LookWatch> Open(std::span<const uint8_t> families, std::string set_prefix,
                                SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until a look, or a virtual server of `sample` with its real servers, is not what it was the time
  /// before (true), or Wake() is called or `longest` is over (false). The look goes on from call to call, a
  /// sample only while it stays the same. One call at a time.
  Result<bool> Next(std::span<const ipvs::VirtualServerRecord> sample, std::chrono::milliseconds longest);
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const;

 private:
  using Bytes = std::vector<uint8_t>;

  LookWatch(SocketCalls& calls, KernelLook look, ipvs::IpvsSocket servers, ipset::IpsetSocket sets,
            std::string set_prefix, Fd wake)
      : calls_(&calls),
        look_(std::move(look)),
        servers_(std::move(servers)),
        sets_(std::move(sets)),
        set_prefix_(std::move(set_prefix)),
        wake_(std::move(wake)) {}
  bool LookAgain(std::span<const ipvs::VirtualServerRecord> sample);
  Bytes ReadServers(std::span<const ipvs::VirtualServerRecord> sample);
  Bytes ReadSets();

  SocketCalls* calls_;
  KernelLook look_;
  ipvs::IpvsSocket servers_;
  ipset::IpsetSocket sets_;
  std::string set_prefix_;
  Fd wake_;                               ///< eventfd
  std::chrono::nanoseconds due_{0};       ///< of the next look
  std::chrono::nanoseconds sets_due_{0};  ///< of the next look at sets
  std::optional<Bytes> seen_;             ///< of the last look
  std::optional<Bytes> seen_sets_;
  Bytes keys_;                         ///< of the sample that was read last
  std::optional<Bytes> seen_servers_;  ///< what `keys_` were
};

}  // namespace viaduct::look
