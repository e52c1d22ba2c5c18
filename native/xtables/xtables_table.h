#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/barrier.h"
#include "xtables/listing.h"
#include "xtables/mark_uses.h"
#include "xtables/rule_encoder.h"
#include "xtables/table_plan.h"
#include "xtables/table_socket.h"
#include "xtables/wanted_table.h"
#include "xtables/xtables_lock.h"

namespace viaduct::xtables {

/// Result of an Apply().
struct Outcome {
  bool is_written = false;  ///< false: the kernel's table was already as desired
  uint32_t entries = 0;     ///< of the whole table
  uint32_t bytes = 0;
  uint32_t repeats = 0;  ///< times that another program changed the table between read and write
  std::chrono::milliseconds lock_wait{0};
  std::vector<KeptChain> kept;  ///< all chains that should be removed but are in use
  Drift repaired;               ///< differences that other programs made since the last success
};

/// User chains and their numbers of rules, in the table's order.
struct Chains {
  std::vector<std::string> names;
  std::vector<uint32_t> rules;
};

/// Packet counts of a chain's rules, in order. Empty: the chain is absent or has no rules.
using Packets = std::vector<uint64_t>;

/// A table of legacy x_tables in the network namespace in which it was opened, and its desired content. Not
/// thread-safe, except Hurry(): one call at a time.
class XtablesTable {
 public:
  /// `family`: AF_INET or AF_INET6.
  static Result<XtablesTable> Open(uint8_t family, const std::string& table,
                                   std::string lock_path = XtablesLock::DefaultPath(),
                                   SocketCalls& calls = SocketCalls::Kernel());

  /// Makes the kernel load the modules that the rules need. Changes nothing.
  void Load(const Batch& batch);
  /// Changes the desired content for the next Apply(). EINVAL: as in Apply().
  Status Stage(const Batch& batch);
  /// Changes the desired content and programs the kernel. The batch stays desired after an error: an empty
  /// batch programs it later. EINVAL: an operation is not valid, and the batch has no effect. EAGAIN: another
  /// program held the lock or kept changing the table.
  Result<Outcome> Apply(const Batch& batch, const std::vector<std::string>& prune,
                        std::chrono::milliseconds lock_timeout);
  /// After a failed Apply(): the rules that cannot be encoded; if all can be, those that the kernel refuses.
  /// Empty: no single rule is the cause. Changes nothing.
  Result<std::vector<Refusal>> FindRefusals();
  /// Ends the wait for the lock in the current and in later Apply() calls.
  void Hurry() { *is_hurried_ = true; }
  /// False: the table has certainly changed since the last Apply(). One system call.
  Result<bool> Check();
  /// Reads the table and compares it with the desired content.
  Result<Drift> Compare();
  Result<Chains> ListChains();
  /// All chains with their rules.
  Result<Listing> List();
  /// ListReached() of the kernel's table. Reads nothing but the table's size if Compare() has read a table of
  /// this size within the last second.
  Result<Listing> ListReached();
  /// FindBarrier() of the kernel's table. Does not use the desired content.
  Result<std::optional<Barrier>> FindBarrier(std::string_view hook);
  /// FindMarkUses() of the kernel's table. Does not use the desired content.
  Result<std::vector<MarkUse>> FindMarkUses();
  /// Packet counts of these user chains, from one read of the table. Does not use the desired content: a
  /// second object can count while the first one writes. NB: names must be unique.
  Result<std::vector<Packets>> CountPackets(std::span<const std::string> chains);

 private:
  XtablesTable(TableSocket socket, SocketCalls& calls, XtablesLock lock);
  /// The kernel's table, split into chains.
  struct Snapshot {
    TableSocket::Table table;
    TableImage image;  ///< of `table`
  };
  /// EAGAIN: the table changed during the read.
  Result<Snapshot> ReadOnce();
  /// Reads until the table does not change during the read.
  Result<Snapshot> Read();
  Result<Outcome> Write(Outcome outcome);
  Status WriteOnce(Outcome& outcome);
  /// Replaces a table of `entries` entries with `next` and restores the counters of `stays`.
  Status Replace(TableSocket::Table next, uint32_t entries, std::span<const TablePlan::Stay> stays,
                 Outcome& outcome);
  Status RestoreCounters(std::span<const TablePlan::Stay> stays, std::span<const xt_counters> old,
                         uint32_t entries);
  void Settle(const TableInfo& info, Outcome& outcome);

  SocketCalls* calls_;
  TableSocket socket_;
  RuleEncoder encoder_;
  WantedTable wanted_;
  std::vector<std::string> prune_;  ///< patterns of this and of failed earlier applies, and kept chains
  std::optional<TableInfo> left_;   ///< the table after the last successful apply
  /// What Compare() has read.
  struct Reached {
    TableInfo info;
    std::chrono::nanoseconds at;
    Listing listing;
  };
  std::optional<Reached> reached_;
  XtablesLock lock_;
  std::unique_ptr<std::atomic<bool>> is_hurried_ = std::make_unique<std::atomic<bool>>(false);
};

}  // namespace viaduct::xtables
