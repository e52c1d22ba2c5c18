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

/// Result of a clean-up.
struct Cleaning {
  uint32_t seen = 0;         ///< flows that the kernel sent
  bool is_filtered = false;  ///< the kernel sent only flows of the frontends
  uint32_t deleted = 0;
};

/// Flows to frontends.
struct FlowList {
  std::vector<FlowRecord> flows;  ///< the first ones
  uint32_t total = 0;
};

/// The connection table of the network namespace in which it was opened. Not thread-safe: one call at a
/// time.
class ConntrackSocket {
 public:
  static Result<ConntrackSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Deletes every flow to one of the frontends that does not lead to one of its backends. Flows to node
  /// ports go to one of `node_port_addresses`. For few frontends the kernel filters one dump per frontend;
  /// for more, or without filters, one dump has all flows of the family. Memory is bounded: flows are deleted
  /// during the dump. Flows that end meanwhile are not counted. Returns the error of the dump, or the first
  /// error of a deletion. An error does not undo earlier deletions.
  Result<Cleaning> DeleteStale(uint8_t family, std::span<const FrontendRecord> frontends,
                               std::span<const BackendRecord> backends,
                               std::span<const AddressRecord> node_port_addresses);

  /// Lists at most `limit` flows to the frontends, and counts all of them. One dump has all flows of the
  /// family: 136 ms with 100,000 entries. Returns the error of the dump.
  Result<FlowList> ListFlows(uint8_t family, std::span<const FrontendRecord> frontends,
                             std::span<const AddressRecord> node_port_addresses, uint32_t limit);

  /// Counts the flows to the frontends, by destination and backend, in one dump as for ListFlows().
  Result<std::vector<FlowCountRecord>> CountFlows(uint8_t family, std::span<const FrontendRecord> frontends,
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

  /// Calls `visit` with each flow to a frontend; `restart` if the kernel begins its dump again.
  Status VisitFlows(uint8_t family, const FrontendIndex& index, const std::function<void(const Flow&)>& visit,
                    const std::function<void()>& restart);
  Status SweepFiltered(std::span<const FrontendRecord> frontends, Sweep& sweep);
  Status SweepAll(Sweep& sweep);
  /// Calls `visit` with each flow and deletes stale ones meanwhile.
  Status SweepDump(std::span<const uint8_t> request, const std::function<void(const Flow&)>& visit,
                   Sweep& sweep);
  void DeletePending(Sweep& sweep);

  NetlinkSocket dump_;
  NetlinkSocket deletion_;      ///< separate: replies to deletions would mix with a running dump
  bool kernel_filters_ = true;  ///< until an answer shows otherwise
  std::vector<uint8_t> buffer_;
};

}  // namespace viaduct::conntrack
