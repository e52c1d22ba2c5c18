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

/// What a change was about (src/kernel/nftables/changes.ts changeKinds).
enum class ChangeKind : uint32_t { kTable, kChain, kRules, kSet, kElements, kCounter };

/// Subscription to changes of the IPv4 and IPv6 tables in the network namespace in which it was opened, other
/// than one writer's. The kernel sends a message per object and element, and the generation with the writer's
/// name last.
class NftEvents {
 public:
  /// Leaves out what the socket with the port id `own_port` writes.
  static Result<NftEvents> Open(uint32_t own_port, SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until another writer has changed something, events were lost, Wake() is called or `longest` is
  /// over (nothing then; negative: no limit). One call at a time. The stream: u32 1 when events were lost, so
  /// that everything may have changed; then of each transaction u32 generation, u32 thread id, text name of
  /// the writer, u32 count, and as many times u32 kind, u32 family, text table, text name.
  Result<std::vector<uint8_t>> Next(std::chrono::milliseconds longest = std::chrono::milliseconds(-1));
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const { socket_.Wake(); }

 private:
  /// Kind, family, table, name.
  using Change = std::tuple<ChangeKind, uint8_t, std::string, std::string>;

  NftEvents(EventSocket socket, uint32_t own_port) : socket_(std::move(socket)), own_port_(own_port) {}
  /// Appends what is queued; true: there was something of others.
  Result<bool> Drain();
  void Read(const Message& message);
  void ReadGeneration(std::span<const uint8_t> attributes);
  void LoseTrack();

  EventSocket socket_;
  uint32_t own_port_;
  std::set<Change> changes_;  ///< of a transaction whose generation has not come yet
  bool has_lost_ = false;
  StreamWriter transactions_;
};

}  // namespace viaduct::nftables
