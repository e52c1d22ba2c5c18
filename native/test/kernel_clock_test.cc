#include "system/kernel_clock.h"

#include <gtest/gtest.h>
#include <sys/timex.h>

namespace viaduct::system {
namespace {

uint32_t Ask() {
  timex clock = {};
  EXPECT_GE(adjtimex(&clock), 0);
  return static_cast<uint32_t>(clock.status);
}

TEST(ReadClockStatus, IsTheKernelsAnswer) {
  const uint32_t before = Ask();
  const auto status = ReadClockStatus();
  const uint32_t after = Ask();
  ASSERT_TRUE(status.ok());
  // A program may change it meanwhile.
  EXPECT_TRUE(status.value() == before || status.value() == after) << status.value();
}

}  // namespace
}  // namespace viaduct::system
