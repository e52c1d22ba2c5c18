#pragma once

#include <linux/inet_diag.h>

#include "core/policy.h"

// Attribute grammar of the sock_diag messages that Viaduct uses: linux/inet_diag.h. Only attributes that
// Viaduct reads; the kernel sends more.

namespace viaduct::ports {

inline constexpr AttributePolicy kListenerRows[] = {
    {INET_DIAG_SKMEMINFO, "SKMEMINFO", AttributeKind::kBinary, 8, 256},
    {INET_DIAG_SKV6ONLY, "SKV6ONLY", AttributeKind::kU8},
};
inline constexpr Policy kListenerPolicy{"INET_DIAG", kListenerRows};

}  // namespace viaduct::ports
