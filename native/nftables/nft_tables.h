#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/netlink_socket.h"
#include "core/result.h"
#include "nftables/batch.h"
#include "nftables/elements.h"

namespace viaduct::nftables {

/// The result of a transaction. A transaction takes effect as a whole or not at all.
struct TransactionOutcome {
  enum class State : uint8_t {
    kApplied,
    kRefused,  ///< nothing was changed; `failures` has the reasons
    kUnknown,  ///< the kernel's answer was lost; the transaction may have been applied
  };
  struct Failure {
    uint32_t operation = kNoOperation;
    uint32_t element = kNoElement;  ///< index in the operation's block, if the kernel names an element
    int code = 0;                   ///< errno, positive
    std::string text;               ///< the kernel's message (extended ACK), or empty
  };
  struct Handle {
    uint32_t operation = 0;
    uint64_t handle = 0;
  };

  State state = State::kApplied;
  /// The ruleset's generation after the transaction. 0: unknown, because the transaction changed nothing or
  /// begins with a deletion of an object other than elements. (encode.ts puts an empty change before most.)
  uint32_t generation = 0;
  std::vector<Failure> failures;
  std::vector<Handle> handles;  ///< of the rules whose operation requested the handle

  /// A stream: u32 state, u32 generation, u32 number of failures, for each failure u32 operation, u32
  /// element, u32 errno, text; u32 number of handles, for each handle u32 operation, u64 handle.
  std::vector<uint8_t> ToStream() const;
};

/// The kind of objects that List() reads (src/kernel/nftables/real-nftables.ts listed).
enum class Listed : uint32_t { kTables, kChains, kRules, kSets, kNamedCounters };

/// Programs the nf_tables of the network namespace in which it was opened. Not thread-safe: one call at a
/// time. Changes and dumps use separate sockets: a failed dump reopens its socket, which changes the port id.
class NftTables {
 public:
  /// EPROTONOSUPPORT: a kernel without nfnetlink.
  static Result<NftTables> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Sends one transaction (BuildBatch) in one system call. Error: it was not sent. EINVAL: it is malformed.
  /// EMSGSIZE: it is too large for the send buffer.
  Result<TransactionOutcome> Apply(std::span<const uint8_t> operations, const BatchOptions& options);
  /// The ruleset's generation. Each transaction of any program that changes something increases it by one.
  /// EINVAL: the kernel has no nf_tables.
  Result<uint32_t> Generation();
  /// The objects, each in the form of ReadObject(). `request` is a stream: u32 kind, u32 family, text table,
  /// text name: of the chain of rules, or of one set. An empty text selects all. ENOENT: no set has this
  /// name. EINTR: the objects changed during each attempt.
  Result<std::vector<uint8_t>> List(std::span<const uint8_t> request);
  /// The elements of a set, in the form of ElementReader::Finish(). `request` is a stream: u32 family, text
  /// table, text set, layout (ReadLayout), u32 1 for one attempt: if others change the ruleset meanwhile,
  /// some elements may be missing. ENOENT: the set is absent. EPROTO: the elements have another layout.
  /// EINTR: the ruleset changed during each attempt.
  Result<std::vector<uint8_t>> ListElements(std::span<const uint8_t> request);
  /// Elements by key, in the form of ElementReader::Finish(), in the order of the keys and without those that
  /// are absent. `request` is a stream: u32 family, text table, text set, layout (ReadLayout), keys as bytes.
  /// Needs the same time for sets of any size. ENOENT: the set is absent. EPROTO: the elements have another
  /// layout. ENOBUFS: answers were lost.
  Result<std::vector<uint8_t>> FindElements(std::span<const uint8_t> request);
  /// The port id by which events name this object as their writer.
  uint32_t PortId() const { return changes_.PortId(); }

 private:
  NftTables(NetlinkSocket changes, NetlinkSocket reads)
      : changes_(std::move(changes)), reads_(std::move(reads)) {}
  Result<size_t> AskByKey(std::span<uint8_t> buffer, size_t size, ElementReader& elements);
  Status AskSet(uint8_t family, std::string_view table, std::string_view set);

  NetlinkSocket changes_;
  NetlinkSocket reads_;
};

}  // namespace viaduct::nftables
