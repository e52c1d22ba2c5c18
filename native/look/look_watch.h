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

/// Sets whose names begin with `prefix`. The kernel counts their entries one by one: sets are looked at for
/// one part in `share` of the time at most.
struct WatchedSets {
  std::string prefix;
  uint32_t share;
};

/// What a LookWatch looks at, and how often.
struct WatchOptions {
  std::span<const uint8_t> families;  ///< as KernelLook has them
  std::chrono::milliseconds period;   ///< between two looks
  std::optional<WatchedSets> sets{};  ///< of ipvs mode; without them only the tables nat and filter
  std::string lock_path = xtables::XtablesLock::DefaultPath();
};

/// What a look found.
struct Finding {
  bool is_other = false;     ///< something is not what it was the time before
  bool is_unlocked = false;  ///< another program let go of the lock of the tables
  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Looks at the kernel once per period, and wakes nobody while there is nothing to tell: what a KernelLook
/// sees, and the lock of the tables; of ipvs mode also the sets and how many entries each has.
class LookWatch {
 public:
  static Result<LookWatch> Open(const WatchOptions& options, SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until a look finds something: of what KernelLook sees, of the sets, of the virtual servers of
  /// `sample` with their real servers, or of the lock. Finds nothing when Wake() is called or `longest` is
  /// over. The look goes on from call to call, a sample only while it stays the same. One call at a time.
  Result<Finding> Next(std::span<const ipvs::VirtualServerRecord> sample, std::chrono::milliseconds longest);
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const;

 private:
  using Bytes = std::vector<uint8_t>;

  /// What ipvs mode has beside tables.
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
  std::chrono::nanoseconds due_{0};       ///< of the next look
  std::chrono::nanoseconds sets_due_{0};  ///< of the next look at sets
  std::optional<Bytes> seen_;             ///< of the last look
  std::optional<Bytes> seen_sets_;
  Bytes keys_;                         ///< of the sample that was read last
  std::optional<Bytes> seen_servers_;  ///< what `keys_` were
};

}  // namespace viaduct::look
