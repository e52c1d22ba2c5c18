#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "xtables/table_image.h"

namespace viaduct::xtables {

/// A rule that tests bits of the packet mark, or sets them.
struct MarkUse {
  std::string chain;
  uint32_t rule = 0;    ///< index in the chain
  bool is_set = false;  ///< false: a match
  uint32_t bits = 0;    ///< bits that the match expects to be 1, or that the target sets to 1; not 0
};

/// All rules of the table, in its order, that use the mark by the match "mark" or the target "MARK". Other
/// extensions, such as CONNMARK, are left out.
std::vector<MarkUse> FindMarkUses(const TableImage& image);

}  // namespace viaduct::xtables
