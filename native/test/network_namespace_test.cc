// Needs root.
#include "system/network_namespace.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include <filesystem>
#include <string>

namespace viaduct::system {
namespace {

std::string Own() { return std::filesystem::read_symlink("/proc/thread-self/ns/net").string(); }

TEST(NetworkNamespace, IsEnteredAndLeft) {
  const std::string outer = Own();
  auto created = NetworkNamespace::Create();
  ASSERT_TRUE(created.ok()) << created.error().code;
  EXPECT_EQ(Own(), outer);
  ASSERT_TRUE(created.value().Enter().ok());
  const std::string inner = Own();
  EXPECT_NE(inner, outer);
  EXPECT_EQ(if_nametoindex("lo"), 1U);
  ASSERT_TRUE(created.value().Leave().ok());
  EXPECT_EQ(Own(), outer);
  ASSERT_TRUE(created.value().Enter().ok());
  EXPECT_EQ(Own(), inner);
  ASSERT_TRUE(created.value().Leave().ok());
}

}  // namespace
}  // namespace viaduct::system
