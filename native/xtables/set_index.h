#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "core/socket_calls.h"

namespace viaduct::xtables {

/// The number by which a set match names an ipset. NB: valid for as long as the set exists (a rule pins it),
/// also across a swap. ENOENT, with the set's name: there is none of this family.
Result<uint16_t> FindSetIndex(SocketCalls& calls, int fd, uint8_t family, const std::string& name);

}  // namespace viaduct::xtables
