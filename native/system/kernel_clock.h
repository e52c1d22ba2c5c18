#pragma once

#include <cstdint>

#include "core/result.h"

namespace viaduct::system {

/// The status bits of the kernel's clock (STA_* of linux/timex.h). Needs no privilege.
Result<uint32_t> ReadClockStatus();

}  // namespace viaduct::system
