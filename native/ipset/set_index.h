#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "core/socket_calls.h"

namespace viaduct::ipset {

/// The index by which the set match of x_tables refers to a set. `fd`: any socket of AF_INET or AF_INET6. NB:
/// valid as long as the set exists (a rule pins it), also after a swap. ENOENT, with the set's name: there is
/// no such set of this family.
Result<uint16_t> FindSetIndex(SocketCalls& calls, int fd, uint8_t family, const std::string& name);

}  // namespace viaduct::ipset
