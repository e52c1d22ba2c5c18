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

/// Looks at the kernel once a second, and wakes nobody while it is as it was: what a KernelLook sees; of ipvs
/// mode also the sets and how many entries each has. The kernel counts those one by one: sets are looked at
/// for 1/500 of the time at most.
class LookWatch {
 public:
  /// `families` as KernelLook has them; `set_prefix`: what the names of the sets begin with; without it the
  /// tables nat and filter are all that is looked at.
  static Result<LookWatch> Open(std::span<const uint8_t> families,
                                const std::optional<std::string>& set_prefix,
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

  /// What ipvs mode has beside tables.
  struct Ipvs {
    ipvs::IpvsSocket servers;
    ipset::IpsetSocket sets;
    std::string set_prefix;
  };
  static Result<Ipvs> OpenIpvs(std::string set_prefix, SocketCalls& calls);

  LookWatch(SocketCalls& calls, KernelLook look, std::optional<Ipvs> ipvs, Fd wake)
      : calls_(&calls), look_(std::move(look)), ipvs_(std::move(ipvs)), wake_(std::move(wake)) {}
  bool LookAgain(std::span<const ipvs::VirtualServerRecord> sample);
  bool LookAtIpvs(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample);
  static Bytes ReadServers(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample);
  static Bytes ReadSets(Ipvs& ipvs);

  SocketCalls* calls_;
  KernelLook look_;
  std::optional<Ipvs> ipvs_;
  Fd wake_;                               ///< eventfd
  std::chrono::nanoseconds due_{0};       ///< of the next look
  std::chrono::nanoseconds sets_due_{0};  ///< of the next look at sets
  std::optional<Bytes> seen_;             ///< of the last look
  std::optional<Bytes> seen_sets_;
  Bytes keys_;                         ///< of the sample that was read last
  std::optional<Bytes> seen_servers_;  ///< what `keys_` were
};

}  // namespace viaduct::look
