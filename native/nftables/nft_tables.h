#pragma once

#include <cstdint>
#include <span>
#include <string>
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
    kRefused,  ///< nothing was changed; `failures` says why
    kUnknown,  ///< the kernel's answer was lost: it may have been applied
  };
  struct Failure {
    uint32_t operation = kNoOperation;
    uint32_t element = kNoElement;  ///< of the operation's block, when the kernel names one
    int code = 0;                   ///< errno, positive
    std::string text;               ///< the kernel's own words (extended ACK) or empty
  };
  struct Handle {
    uint32_t operation = 0;
    uint64_t handle = 0;
  };

  State state = State::kApplied;
  /// Of the ruleset after the transaction. 0: it changed nothing, or begins with a deletion, where the kernel
  /// does not say.
  uint32_t generation = 0;
  std::vector<Failure> failures;
  std::vector<Handle> handles;  ///< of the rules of which the operation wanted an echo

  /// u32 state, generation, count of failures; of each u32 operation, element, errno, text; u32 count of
  /// handles; of each u32 operation, u64 handle.
  std::vector<uint8_t> ToStream() const;
};

/// What List() reads (src/kernel/nftables/real-nftables.ts listed).
enum class Listed : uint32_t { kTables, kChains, kRules, kSets, kNamedCounters };

/// Programs the nf_tables of the network namespace in which it was opened. Not thread-safe: one call at a
/// time. Changes and dumps have a socket each, so that the port id of the changes stays the same for its
/// life.
class NftTables {
 public:
  /// EPROTONOSUPPORT: a kernel without nfnetlink.
  static Result<NftTables> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Sends one transaction (BuildBatch) in one system call. Error: it was not sent (EINVAL malformed,
  /// EMSGSIZE too large for the send buffer).
  Result<TransactionOutcome> Apply(std::span<const uint8_t> operations, const BatchOptions& options);
  /// Grows by one with each transaction that changes something, of any program. EINVAL: a kernel without
  /// nf_tables.
  Result<uint32_t> Generation();
  /// The objects, one after the other, each as ReadObject() writes it. `request` is a stream: u32 kind and
  /// family, text table and (of rules only) chain, empty for those of all. EINTR: they changed during each
  /// attempt.
  Result<std::vector<uint8_t>> List(std::span<const uint8_t> request);
  /// The elements of a set, as ElementReader::Finish() writes them. `request` is a stream: u32 family, text
  /// table and set, layout (ReadLayout). ENOENT: no such set. EPROTO: they have another layout.
  Result<std::vector<uint8_t>> ListElements(std::span<const uint8_t> request);
  /// By which events name us as their writer.
  uint32_t PortId() const { return changes_.PortId(); }

 private:
  NftTables(NetlinkSocket changes, NetlinkSocket reads)
      : changes_(std::move(changes)), reads_(std::move(reads)) {}

  NetlinkSocket changes_;
  NetlinkSocket reads_;
};

}  // namespace viaduct::nftables
