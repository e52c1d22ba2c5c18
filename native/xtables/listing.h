#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "xtables/table_image.h"
#include "xtables/wanted_table.h"

namespace viaduct::xtables {

/// A whole table as the kernel gives it, or a part. Chains refer to `bytes`; the entries of a chain end with
/// RETURN or a policy.
struct Listing {
  struct Chain {
    std::string name;
    bool is_built_in = false;
    bool drops = false;  ///< the policy of a built-in chain is DROP
    uint32_t rules = 0;  ///< offset of the first rule, the target of jumps
    uint32_t last = 0;   ///< offset of the closing entry
  };
  std::vector<Chain> chains;  ///< built-in chains first
  std::vector<uint8_t> bytes;
};

/// All chains, in the table's order.
Listing ListAll(const TableImage& image);

/// The built-in chains, and the chains to which they lead. Desired chains have no rules and lead to none, so
/// that the part is small in a table of many Services. Jumps lead to the places in the part. EPROTO: a rule
/// jumps to no chain.
Result<Listing> ListReached(const TableImage& image, const WantedTable& wanted);

}  // namespace viaduct::xtables
