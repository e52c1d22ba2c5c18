#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "conntrack/flow.h"
#include "conntrack/frontend_index.h"
#include "conntrack/record.h"
#include "core/netlink_socket.h"
#include "core/result.h"

namespace viaduct::conntrack {

/// What a cleaning did.
struct Cleaning {
  uint32_t seen = 0;         ///< flows that the kernel named
  bool is_filtered = false;  ///< they were only those of the frontends
  uint32_t deleted = 0;
};

/// The table of connections of the network namespace in which it was opened. Not thread-safe: one call at a
/// time.
class ConntrackSocket {
 public:
  static Result<ConntrackSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Deletes every flow that goes to one of the frontends and does not lead to one of its backends. Flows to
  /// node ports go to one of `node_port_addresses`. Few
  /// frontends are dumped one by one, filtered by the kernel; more of them, or a kernel that cannot filter,
  /// by one dump of the family. Memory is bounded: flows are deleted while the dump goes on. A flow that has
  /// gone in the meantime is not counted. An error, of the dump or the first of a deletion, does not undo
  /// what was deleted.
  Result<Cleaning> DeleteStale(uint8_t family, std::span<const FrontendRecord> frontends,
                               std::span<const BackendRecord> backends,
                               std::span<const AddressRecord> node_port_addresses);

 private:
  /// One DeleteStale().
  struct Sweep {
    uint8_t family;
    FrontendIndex index;
    Cleaning cleaning = {};
    std::vector<Flow> pending = {};  ///< found stale, not yet deleted
    Error deletion_error = {};       ///< the first
  };

  ConntrackSocket(NetlinkSocket dump, NetlinkSocket deletion)
      : dump_(std::move(dump)), deletion_(std::move(deletion)) {}

  Status SweepFiltered(std::span<const FrontendRecord> frontends, Sweep& sweep);
  Status SweepAll(Sweep& sweep);
  /// `visit` sees each flow beside the sweep.
  Status SweepDump(std::span<const uint8_t> request, const std::function<void(const Flow&)>& visit,
                   Sweep& sweep);
  void DeletePending(Sweep& sweep);

  NetlinkSocket dump_;
  NetlinkSocket deletion_;      ///< its own: a socket's answers to deletions would mix with a dump under way
  bool kernel_filters_ = true;  ///< until an answer shows otherwise
  std::vector<uint8_t> buffer_;
};

}  // namespace viaduct::conntrack
