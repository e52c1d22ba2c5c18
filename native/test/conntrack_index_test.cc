#include <gtest/gtest.h>

#include <vector>

#include "conntrack/frontend_index.h"
#include "conntrack_flows.h"

namespace viaduct::conntrack {
namespace {

struct StaleCase {
  const char* name;
  Flow flow;
  bool is_stale;
};

class FrontendIndexTest : public testing::TestWithParam<uint8_t> {};

TEST_P(FrontendIndexTest, FindsStaleFlows) {
  const uint8_t family = GetParam();
  const std::vector<FrontendRecord> frontends = {
      MakeFrontend(family, 10, 53, 0), MakeFrontend(family, 10, 53, 2), MakeFrontend(family, 11, 30053, 1),
      MakeNodePort(30053, 0),          MakeFrontend(family, 12, 53, 9),
  };
  const std::vector<BackendRecord> backends = {MakeBackend(family, 20, 0), MakeBackend(family, 21, 1)};
  const std::vector<AddressRecord> node = {MakeAddress(family, 98), MakeAddress(family, 99)};
  const FrontendIndex index(frontends, backends, node);

  Flow tcp = MakeFlow(family, 10, 53, 30);
  tcp.original.protocol = IPPROTO_TCP;
  Flow other_port = MakeFlow(family, 10, 53, 20);
  other_port.reply_source.port = 5354;
  const StaleCase cases[] = {
      {"leads to a backend", MakeFlow(family, 10, 53, 20), false},
      {"leads to a backend of another set", MakeFlow(family, 10, 53, 21), true},
      {"leads to another port of a backend", other_port, true},
      {"of nobody's port", MakeFlow(family, 10, 54, 30), false},
      {"of nobody's address", MakeFlow(family, 13, 53, 30), false},
      {"of another protocol", tcp, false},
      {"at a node port, to a backend", MakeFlow(family, 99, 30053, 20), false},
      {"at a node port, elsewhere", MakeFlow(family, 99, 30053, 21), true},
      {"at a node port of another address of the node", MakeFlow(family, 98, 30053, 21), true},
      {"at a foreign address with the number of a node port", MakeFlow(family, 97, 30053, 21), false},
      {"at an address with the number of a node port", MakeFlow(family, 11, 30053, 21), false},
      {"at an address with the number of a node port, elsewhere", MakeFlow(family, 11, 30053, 20), true},
      {"of a frontend without backends", MakeFlow(family, 12, 53, 20), true},
  };
  for (const StaleCase& row : cases) EXPECT_EQ(index.IsStale(row.flow), row.is_stale) << row.name;
}

INSTANTIATE_TEST_SUITE_P(Families, FrontendIndexTest, testing::Values(AF_INET, AF_INET6),
                         [](const auto& info) { return info.param == AF_INET ? "Ipv4" : "Ipv6"; });

TEST(FrontendIndexTest, WithoutFrontendsNothingIsStale) {
  const FrontendIndex index({}, {}, {});
  EXPECT_FALSE(index.IsStale(MakeFlow(AF_INET, 10, 53, 20)));
}

}  // namespace
}  // namespace viaduct::conntrack
