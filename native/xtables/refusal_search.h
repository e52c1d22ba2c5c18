#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "xtables/table_socket.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// Finds encoded rules for which the kernel refuses a table. The kernel checks tables with the policies and
/// some of the rules; a refused set of rules is halved and checked again. None of these tables comes into
/// force. No hook leads to the rules, so a rule that is wrong only in its place (a loop, a target that its
/// hook does not permit) is not found.
class RefusalSearch {
 public:
  /// `valid_hooks`: hooks of the table. NB: the arguments must outlive this.
  RefusalSearch(TableSocket& socket, const WantedTable& wanted, uint32_t valid_hooks);

  /// Errors: those of TableSocket::Replace() that no rule causes (ENOMEM, EPERM).
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
  std::vector<uint8_t> bytes_;  ///< of the table to check
};

}  // namespace viaduct::xtables
