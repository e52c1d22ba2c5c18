#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/rule_encoder.h"
#include "xtables/table_plan.h"
#include "xtables/table_socket.h"
#include "xtables/wanted_table.h"
#include "xtables/xtables_lock.h"

namespace viaduct::xtables {

/// What became of an Apply().
struct Outcome {
  bool is_written = false;  ///< false: the kernel's table was right already
  uint32_t entries = 0;     ///< of the whole table
  uint32_t bytes = 0;
  uint32_t repeats = 0;  ///< times that another program changed the table between our reading and writing
  std::chrono::milliseconds lock_wait{0};
  std::vector<KeptChain> kept;  ///< chains that should go, all that there are
};

/// User chains and how many rules each has; in the table's order.
struct Chains {
  std::vector<std::string> names;
  std::vector<uint32_t> rules;
};

/// How many packets each rule of a chain has met, in the chain's order. Empty: no such chain, or no rules.
using Packets = std::vector<uint64_t>;

/// A table of legacy x_tables in the network namespace in which it was opened, and what we want of it. Not
/// thread-safe but for Hurry(): one call at a time.
class XtablesTable {
 public:
  /// `family`: AF_INET or AF_INET6.
  static Result<XtablesTable> Open(uint8_t family, const std::string& table,
                                   std::string lock_path = XtablesLock::DefaultPath(),
                                   SocketCalls& calls = SocketCalls::Kernel());

  /// Has the kernel load what such rules need; changes nothing.
  void Load(const Batch& batch);
  /// Changes what is wanted, for the next Apply(). EINVAL as there.
  Status Stage(const Batch& batch);
  /// Changes what is wanted and makes the kernel's table so. What was wanted stays so after an error, and an
  /// empty batch brings it about. EINVAL from an operation that cannot be: nothing of the batch was taken.
  /// EAGAIN: another program held the lock, or kept changing the table.
  Result<Outcome> Apply(const Batch& batch, const std::vector<std::string>& prune,
                        std::chrono::milliseconds lock_timeout);
  /// After an Apply() that failed: the rules that cannot be encoded; where there are none, those that the
  /// kernel refuses. Empty: no single rule is at fault. Changes nothing.
  Result<std::vector<Refusal>> FindRefusals();
  /// Ends the wait for the lock, of an Apply() in flight and of those to come.
  void Hurry() { *is_hurried_ = true; }
  /// Whether the table can be as we left it: one system call.
  Result<bool> Check();
  /// Reads the table and says where it is not as wanted.
  Result<Drift> Compare();
  Result<Chains> ListChains();
  /// The packets of each of these user chains, from one reading of the table. Needs nothing of what is
  /// wanted: an object of its own can count beside one that writes. No name may stand there twice.
  Result<std::vector<Packets>> CountPackets(std::span<const std::string> chains);

 private:
  XtablesTable(TableSocket socket, SocketCalls& calls, std::string lock_path);
  /// The kernel's table, cut into chains.
  struct Snapshot {
    TableSocket::Table table;
    TableImage image;  ///< of `table`
  };
  /// EAGAIN: the table changed meanwhile.
  Result<Snapshot> ReadOnce();
  /// Reads until nobody changes the table meanwhile.
  Result<Snapshot> Read();
  Result<Outcome> Write(Outcome outcome);
  Status WriteOnce(Outcome& outcome);
  /// Puts `next` in the place of a table of `entries` entries; its `stays` get their counters back.
  Status Replace(TableSocket::Table next, uint32_t entries, std::span<const TablePlan::Stay> stays,
                 Outcome& outcome);
  Status RestoreCounters(std::span<const TablePlan::Stay> stays, std::span<const xt_counters> old,
                         uint32_t entries);
  void Settle(const TableInfo& info, Outcome& outcome);

  TableSocket socket_;
  RuleEncoder encoder_;
  WantedTable wanted_;
  std::vector<std::string> prune_;  ///< of this apply and of failed ones before it; chains that are kept
  std::optional<TableInfo> left_;   ///< as we left it, if we did
  XtablesLock lock_;
  std::unique_ptr<std::atomic<bool>> is_hurried_ = std::make_unique<std::atomic<bool>>(false);
};

}  // namespace viaduct::xtables
