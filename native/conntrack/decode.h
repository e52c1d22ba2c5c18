#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "conntrack/flow.h"

namespace viaduct::conntrack {

/// IPCTNL_MSG_CT_NEW, the reply of a dump, after nlmsghdr. Nothing: malformed, breaks the policy, or has no
/// complete tuple.
std::optional<Flow> DecodeFlow(std::span<const uint8_t> payload);

}  // namespace viaduct::conntrack
