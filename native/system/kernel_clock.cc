#include "system/kernel_clock.h"

#include <sys/timex.h>

#include <cerrno>

namespace viaduct::system {

Result<uint32_t> ReadClockStatus() {
  // Without modes adjtimex(2) changes nothing.
  timex clock = {};
  if (adjtimex(&clock) < 0) return Error{errno, "read the status of the clock", ""};
  return static_cast<uint32_t>(clock.status);
}

}  // namespace viaduct::system
