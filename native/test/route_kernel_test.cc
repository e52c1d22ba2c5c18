// Links, addresses, routes and events on the real kernel. Run under `unshare -n` as root: the tests refuse to
// run in a namespace that has more than a loopback device that is down.
#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "route/route_events.h"
#include "route/route_socket.h"

namespace viaduct::route {
namespace {

constexpr uint32_t kLoopback = 1;
constexpr uint8_t kProtocol = 173;

uint8_t HostPrefix(uint8_t family) { return family == AF_INET ? 32 : 128; }

/// 10.96.x.y or fd00::x:y by number.
void SetAddress(uint8_t (&address)[16], uint8_t family, uint32_t number) {
  memset(address, 0, sizeof address);
  address[0] = family == AF_INET ? 10 : 0xfd;
  if (family == AF_INET) address[1] = 96;
  const size_t last = family == AF_INET ? 3 : 15;
  address[last] = static_cast<uint8_t>(number);
  address[last - 1] = static_cast<uint8_t>(number >> 8);
}

RouteRecord LocalRoute(Op op, uint8_t family, uint32_t number) {
  RouteRecord route{};
  SetAddress(route.destination, family, number);
  route.interface_index = kLoopback;
  route.table = RT_TABLE_LOCAL;
  route.op = op;
  route.family = family;
  route.prefix_length = HostPrefix(family);
  route.protocol = kProtocol;
  route.type = RTN_LOCAL;
  route.scope = RT_SCOPE_HOST;
  return route;
}

AddressRecord HostAddress(Op op, uint8_t family, uint32_t number) {
  AddressRecord address{};
  SetAddress(address.address, family, number);
  address.interface_index = kLoopback;
  address.flags = family == AF_INET6 ? IFA_F_NODAD : 0;
  address.op = op;
  address.family = family;
  address.prefix_length = HostPrefix(family);
  return address;
}

class RouteKernel : public testing::TestWithParam<uint8_t> {
 protected:
  static void SetUpTestSuite() {
    auto socket = RouteSocket::Open();
    ASSERT_TRUE(socket.ok());
    auto links = socket.value().DumpLinks();
    ASSERT_TRUE(links.ok());
    const bool is_fresh = std::none_of(
        links.value().begin(), links.value().end(),
        [](const LinkRecord& link) { return link.index != kLoopback && (link.flags & IFF_UP) != 0; });
    if (!is_fresh) {
      fprintf(stderr, "route_kernel_test: not a fresh network namespace; run it under unshare -n\n");
      exit(1);
    }
    ASSERT_TRUE(socket.value().SetUp(kLoopback).ok());
  }

  void SetUp() override {
    auto opened = RouteSocket::Open();
    ASSERT_TRUE(opened.ok());
    socket.emplace(std::move(opened.value()));
  }

  std::vector<RouteRecord> OwnRoutes(uint8_t family) {
    auto routes = socket->DumpLocalRoutes(family);
    EXPECT_TRUE(routes.ok());
    std::vector<RouteRecord> own;
    std::copy_if(routes.value().begin(), routes.value().end(), std::back_inserter(own),
                 [](const RouteRecord& route) { return route.protocol == kProtocol; });
    return own;
  }

  BatchOutcome Apply(const std::vector<RouteRecord>& routes) { return socket->ApplyRoutes(routes).value(); }
  BatchOutcome Apply(const std::vector<AddressRecord>& addresses) {
    return socket->ApplyAddresses(addresses).value();
  }

  std::optional<RouteSocket> socket;
};

TEST_P(RouteKernel, RoutesAreAddedDumpedAndRemoved) {
  std::vector<RouteRecord> add;
  std::vector<RouteRecord> remove;
  constexpr uint32_t kCount = 10000;
  for (uint32_t i = 1; i <= kCount; ++i) {
    add.push_back(LocalRoute(Op::kAdd, GetParam(), i));
    remove.push_back(LocalRoute(Op::kRemove, GetParam(), i));
  }
  EXPECT_EQ(Apply(add).applied, kCount);
  EXPECT_EQ(OwnRoutes(GetParam()).size(), kCount);

  const BatchOutcome again = Apply(add);
  EXPECT_EQ(again.applied, 0U);
  ASSERT_EQ(again.failures.size(), kCount) << "every refusal is accounted for";
  EXPECT_EQ(again.failures[kCount - 1].index, kCount - 1);
  for (const Failure& failure : again.failures) {
    ASSERT_EQ(failure.code, EEXIST);
    ASSERT_FALSE(failure.unknown);
  }

  EXPECT_EQ(Apply(remove).applied, kCount);
  EXPECT_TRUE(OwnRoutes(GetParam()).empty());
}

TEST_P(RouteKernel, RemovingKeepsForeignRoutes) {
  RouteRecord foreign = LocalRoute(Op::kAdd, GetParam(), 7);
  foreign.protocol = RTPROT_STATIC;
  EXPECT_EQ(Apply(std::vector{foreign}).applied, 1U);
  const BatchOutcome refused = Apply(std::vector{LocalRoute(Op::kRemove, GetParam(), 7)});
  ASSERT_EQ(refused.failures.size(), 1U);
  EXPECT_EQ(refused.failures[0].code, ESRCH);
  foreign.op = Op::kRemove;
  EXPECT_EQ(Apply(std::vector{foreign}).applied, 1U);
}

TEST_P(RouteKernel, PreferredSourceMustBeAnAddressOfTheNode) {
  RouteRecord route = LocalRoute(Op::kAdd, GetParam(), 8);
  SetAddress(route.preferred_source, GetParam(), 9);
  const BatchOutcome refused = Apply(std::vector{route});
  ASSERT_EQ(refused.failures.size(), 1U);
  EXPECT_EQ(refused.failures[0].code, EINVAL);

  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kAdd, GetParam(), 9)}).applied, 1U);
  EXPECT_EQ(Apply(std::vector{route}).applied, 1U);
  const auto routes = OwnRoutes(GetParam());
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(memcmp(routes[0].preferred_source, route.preferred_source, 16), 0);
  EXPECT_EQ(routes[0].interface_index, kLoopback);

  route.op = Op::kRemove;
  EXPECT_EQ(Apply(std::vector{route}).applied, 1U);
  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kRemove, GetParam(), 9)}).applied, 1U);
}

TEST_P(RouteKernel, ReplaceChangesThePreferredSource) {
  EXPECT_EQ(
      Apply(std::vector{HostAddress(Op::kAdd, GetParam(), 9), HostAddress(Op::kAdd, GetParam(), 10)}).applied,
      2U);
  RouteRecord route = LocalRoute(Op::kReplace, GetParam(), 8);
  SetAddress(route.preferred_source, GetParam(), 9);
  EXPECT_EQ(Apply(std::vector{route}).applied, 1U);
  SetAddress(route.preferred_source, GetParam(), 10);
  EXPECT_EQ(Apply(std::vector{route}).applied, 1U);
  const auto routes = OwnRoutes(GetParam());
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(memcmp(routes[0].preferred_source, route.preferred_source, 16), 0);
  route.op = Op::kRemove;
  EXPECT_EQ(Apply(std::vector{route}).applied, 1U);
  EXPECT_EQ(
      Apply(std::vector{HostAddress(Op::kRemove, GetParam(), 9), HostAddress(Op::kRemove, GetParam(), 10)})
          .applied,
      2U);
}

TEST_P(RouteKernel, AddressesAreAddedDumpedAndRemoved) {
  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kAdd, GetParam(), 3)}).applied, 1U);
  const BatchOutcome again = Apply(std::vector{HostAddress(Op::kAdd, GetParam(), 3)});
  ASSERT_EQ(again.failures.size(), 1U);
  EXPECT_EQ(again.failures[0].code, EEXIST);
  auto addresses = socket->DumpAddresses(GetParam(), kLoopback);
  ASSERT_TRUE(addresses.ok());
  const AddressRecord wanted = HostAddress(Op::kAdd, GetParam(), 3);
  EXPECT_EQ(std::count_if(
                addresses.value().begin(), addresses.value().end(),
                [&](const AddressRecord& there) { return memcmp(there.address, wanted.address, 16) == 0; }),
            1);
  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kRemove, GetParam(), 3)}).applied, 1U);
  const BatchOutcome gone = Apply(std::vector{HostAddress(Op::kRemove, GetParam(), 3)});
  ASSERT_EQ(gone.failures.size(), 1U);
  EXPECT_EQ(gone.failures[0].code, EADDRNOTAVAIL);
}

TEST_P(RouteKernel, LookupsOfAddressesWithAndWithoutARoute) {
  const uint8_t family = GetParam();
  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kAdd, family, 4)}).applied, 1U);
  RouteRecord local = LocalRoute(Op::kAdd, family, 5);
  SetAddress(local.preferred_source, family, 4);
  EXPECT_EQ(Apply(std::vector{local}).applied, 1U);

  RouteQueryRecord query{};
  query.family = family;
  query.protocol = IPPROTO_TCP;
  query.destination_port = 80;
  query.mark = 0x4000;
  SetAddress(query.destination, family, 5);
  RouteQueryRecord other = query;
  SetAddress(other.destination, family, 6);
  auto choices = socket->LookUp(std::vector{query, other});
  ASSERT_TRUE(choices.ok());
  ASSERT_EQ(choices.value().size(), 2U);
  const RouteChoiceRecord& choice = choices.value()[0];
  EXPECT_EQ(choice.error, 0U);
  EXPECT_EQ(choice.type, RTN_LOCAL);
  EXPECT_EQ(choice.interface_index, kLoopback);
  EXPECT_EQ(memcmp(choice.preferred_source, local.preferred_source, sizeof choice.preferred_source), 0);
  EXPECT_EQ(choices.value()[1].error, static_cast<uint32_t>(ENETUNREACH));

  query.input_interface = 4711;
  auto none = socket->LookUp(std::vector{query});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ENODEV);

  local.op = Op::kRemove;
  EXPECT_EQ(Apply(std::vector{local}).applied, 1U);
  EXPECT_EQ(Apply(std::vector{HostAddress(Op::kRemove, family, 4)}).applied, 1U);
}

TEST_P(RouteKernel, AddressesOfAnUnknownInterface) {
  auto addresses = socket->DumpAddresses(GetParam(), 4711);
  ASSERT_FALSE(addresses.ok());
  EXPECT_EQ(addresses.error().code, ENODEV);
}

TEST_P(RouteKernel, RulesOfANewNamespace) {
  const uint8_t family = GetParam();
  auto rules = socket->DumpRules(family);
  ASSERT_TRUE(rules.ok());
  // fib_default_rules_init(), fib6_rules_net_init()
  std::vector<uint32_t> tables;
  for (const RuleRecord& rule : rules.value()) {
    EXPECT_EQ(rule.family, family);
    EXPECT_EQ(rule.action, RuleAction::kTable);
    EXPECT_EQ(rule.mark_mask, 0U);
    tables.push_back(rule.table);
  }
  std::vector<uint32_t> expected{RT_TABLE_LOCAL, RT_TABLE_MAIN};
  if (family == AF_INET) expected.push_back(RT_TABLE_DEFAULT);
  EXPECT_EQ(tables, expected);
}

INSTANTIATE_TEST_SUITE_P(Families, RouteKernel, testing::Values(AF_INET, AF_INET6),
                         [](const auto& info) { return info.param == AF_INET ? "Ipv4" : "Ipv6"; });

using LinkKernel = RouteKernel;

TEST_F(LinkKernel, LoopbackIsListedAndUp) {
  auto links = socket->DumpLinks();
  ASSERT_TRUE(links.ok());
  const auto loopback = std::find_if(links.value().begin(), links.value().end(),
                                     [](const LinkRecord& link) { return link.index == kLoopback; });
  ASSERT_NE(loopback, links.value().end());
  EXPECT_STREQ(loopback->name, "lo");
  EXPECT_NE(loopback->flags & IFF_UP, 0U);
}

TEST_F(LinkKernel, AnUnknownInterfaceIsNoDevice) {
  EXPECT_EQ(socket->SetUp(4711).error().code, ENODEV);
  EXPECT_EQ(socket->RemoveLink(4711).error().code, ENODEV);
  EXPECT_EQ(socket->SetUp(4711).error().operation, "set interface up");
}

TEST_F(LinkKernel, DummyIsCreatedOrTheKernelLacksIt) {
  auto index = socket->AddDummy("viaduct-test0");
  if (!index.ok()) {
    EXPECT_EQ(index.error().code, EOPNOTSUPP);
    return;
  }
  auto again = socket->AddDummy("viaduct-test0");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, EEXIST);
  EXPECT_TRUE(socket->SetUp(index.value()).ok());
  EXPECT_TRUE(socket->RemoveLink(index.value()).ok());
}

TEST_F(LinkKernel, ATooLongNameIsRefused) {
  EXPECT_FALSE(socket->AddDummy("sixteen-letters0").ok());
  EXPECT_EQ(socket->AddDummy(std::string(300, 'x')).error().code, ENAMETOOLONG);
}

TEST_F(LinkKernel, ChangesOfAddressesAreReported) {
  auto events = RouteEvents::Open();
  ASSERT_TRUE(events.ok());
  EXPECT_EQ(
      Apply(std::vector{HostAddress(Op::kAdd, AF_INET, 20), HostAddress(Op::kRemove, AF_INET, 20)}).applied,
      2U);
  std::vector<EventRecord> seen;
  while (seen.size() < 2) {
    auto next = events.value().Next();
    ASSERT_TRUE(next.ok());
    std::copy_if(next.value().begin(), next.value().end(), std::back_inserter(seen),
                 [](const EventRecord& event) { return event.kind == EventKind::kAddress; });
  }
  EXPECT_EQ(seen[0].op, Op::kAdd);
  EXPECT_EQ(seen[1].op, Op::kRemove);
  EXPECT_EQ(seen[0].interface_index, kLoopback);
  EXPECT_EQ(seen[0].address[3], 20);
}

}  // namespace
}  // namespace viaduct::route
