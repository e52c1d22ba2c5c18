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
#include "look/lock_events.h"
#include "xtables/xtables_lock.h"

namespace viaduct::look {

/// Sets whose names begin with `prefix`. The kernel counts their entries one by one: reading sets takes at
/// most 1/`share` of the time.
struct WatchedSets {
  std::string prefix;
  uint32_t share;
};

/// Scope and period of a LookWatch.
struct WatchOptions {
  std::span<const uint8_t> families;  ///< as in KernelLook
  std::chrono::milliseconds period;   ///< between two looks
  std::optional<WatchedSets> sets{};  ///< for ipvs mode; absent: only the tables nat and filter
  std::string lock_path = xtables::XtablesLock::DefaultPath();
};

/// Result of a look.
struct Finding {
  bool is_other = false;     ///< something has changed since the previous look
  bool is_unlocked = false;  ///< another program released the lock of the tables
  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Looks at the kernel once per period and returns only for a change: the state of KernelLook and the lock of
/// the tables; in ipvs mode also the sets and their numbers of entries.
class LookWatch {
 public:
  static Result<LookWatch> Open(const WatchOptions& options, SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until a look finds a change: in the state of KernelLook, the sets, the virtual servers of
  /// `sample` with their real servers, or the lock. Returns without a change after Wake() or `longest`. Each
  /// look is compared with the previous one, also across calls; the virtual servers only if `sample` is the
  /// same. One call at a time.
  Result<Finding> Next(std::span<const ipvs::VirtualServerRecord> sample, std::chrono::milliseconds longest);
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const;

 private:
  using Bytes = std::vector<uint8_t>;

  /// The state of ipvs mode besides tables.
  struct Ipvs {
    ipvs::IpvsSocket servers;
    ipset::IpsetSocket sets;
    WatchedSets watched;
  };
  static Result<Ipvs> OpenIpvs(WatchedSets watched, SocketCalls& calls);

  LookWatch(SocketCalls& calls, const WatchOptions& options, KernelLook look, std::optional<Ipvs> ipvs,
            Fd wake)
      : calls_(&calls),
        period_(options.period),
        look_(std::move(look)),
        lock_(options.lock_path),
        ipvs_(std::move(ipvs)),
        wake_(std::move(wake)) {}
  bool LookAgain(std::span<const ipvs::VirtualServerRecord> sample);
  bool LookAtIpvs(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample);
  static Bytes ReadServers(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample);
  static Bytes ReadSets(Ipvs& ipvs);

  SocketCalls* calls_;
  std::chrono::nanoseconds period_;
  KernelLook look_;
  LockEvents lock_;
  std::optional<Ipvs> ipvs_;
  Fd wake_;                               ///< eventfd
  std::chrono::nanoseconds due_{0};       ///< time of the next look
  std::chrono::nanoseconds sets_due_{0};  ///< time of the next look at sets
  std::optional<Bytes> seen_;             ///< state of the last look
  std::optional<Bytes> seen_sets_;
  Bytes keys_;                         ///< keys of the last sample
  std::optional<Bytes> seen_servers_;  ///< state of the servers in `keys_`
};

}  // namespace viaduct::look
