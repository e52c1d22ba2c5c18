#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "xtables/table_image.h"

namespace viaduct::xtables {

/// Where a built-in chain drops or rejects every packet that no earlier rule has accepted.
struct Barrier {
  uint32_t rule = 0;       ///< index in the chain; of a policy: the number of rules
  bool is_policy = false;  ///< false: a rule without matches
};

/// The first barrier of the chain (`hook`: "FORWARD"). Nothing: packets can pass, or the table has no such
/// chain.
std::optional<Barrier> FindBarrier(const TableImage& image, std::string_view hook);

}  // namespace viaduct::xtables
