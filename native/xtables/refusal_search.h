#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "xtables/table_socket.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// Finds the rules for which the kernel refuses a table, though they could be encoded. It has the kernel
/// check tables that hold policies and some of the rules, and halves those that are refused; none of these
/// tables comes into force. Rules stand alone in them: what is wrong with a rule only because of its place (a
/// loop, a target that its hook may not have) is not found.
class RefusalSearch {
 public:
  /// `valid_hooks`: of the table. All that is given outlives this.
  RefusalSearch(TableSocket& socket, const WantedTable& wanted, uint32_t valid_hooks);

  /// Errors: as TableSocket::Replace(), where they are of no rule (ENOMEM, EPERM).
  Result<std::vector<Refusal>> Run();

 private:
  struct Rule {
    const std::string* chain;
    uint32_t number;
    std::span<const uint8_t> bytes;
  };
  void AddRules(const std::string& chain, const Segment& segment);
  Status Try(std::span<const Rule> rules);

  TableSocket* socket_;
  uint32_t valid_hooks_;
  std::vector<std::string> hook_names_;
  std::vector<Rule> rules_;
  std::vector<uint8_t> bytes_;  ///< of the table that is tried
};

}  // namespace viaduct::xtables
