#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/event_socket.h"
#include "core/result.h"
#include "nftables/stream.h"

namespace viaduct::nftables {

/// The kind of a changed object (src/kernel/nftables/changes.ts changeKinds).
/// kChainUpdate: a chain that existed has another name, of which the kernel reports only the new one, or
/// other settings. Older kernels report a new chain in the same way.
enum class ChangeKind : uint32_t { kTable, kChain, kRules, kSet, kElements, kCounter, kChainUpdate };

/// Subscription to changes of the IPv4 and IPv6 tables in the network namespace in which it was opened,
/// except those of one writer. The kernel sends one message for each object and element of a transaction, and
/// last the generation with the writer's name.
class NftEvents {
 public:
  /// Leaves out the changes of the socket with port id `own_port`.
  static Result<NftEvents> Open(uint32_t own_port, SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until another writer has changed something or events were lost, until Wake(), or for `longest`
  /// (empty then; negative: no limit). One call at a time. The stream: u32 1 if events were lost, so that any
  /// object may have changed; then for each transaction u32 generation, u32 thread id, text name of the
  /// writer, u32 number of changes, and for each change u32 kind, u32 family, text table, text name.
  Result<std::vector<uint8_t>> Next(std::chrono::milliseconds longest = std::chrono::milliseconds(-1));
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const { socket_.Wake(); }

 private:
  /// Kind, family, table, name.
  using Change = std::tuple<ChangeKind, uint8_t, std::string, std::string>;

  NftEvents(EventSocket socket, uint32_t own_port) : socket_(std::move(socket)), own_port_(own_port) {}
  /// Reads all queued events. True: there are complete transactions of other writers, or events were lost.
  Result<bool> Drain();
  /// The stream of Next(). Clears the complete transactions.
  std::vector<uint8_t> TakeChanges();
  void Read(const Message& message);
  void ReadGeneration(std::span<const uint8_t> attributes);
  void LoseTrack();

  EventSocket socket_;
  uint32_t own_port_;
  std::set<Change> changes_;  ///< of the transaction whose generation has not been received yet
  bool has_lost_ = false;
  StreamWriter transactions_;
};

}  // namespace viaduct::nftables
