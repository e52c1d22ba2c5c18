// The choice of an endpoint, affinity, networks and shares.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "relay/affinity.h"
#include "relay/budget.h"
#include "relay/network_set.h"
#include "relay/service.h"

namespace viaduct::relay {
namespace {

using std::chrono::seconds;

struct Address {
  uint8_t bytes[16] = {};
  uint8_t family = AF_INET;
};

Address Parse(const std::string& text) {
  Address address;
  address.family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  EXPECT_EQ(inet_pton(address.family, text.c_str(), address.bytes), 1) << text;
  return address;
}

IpKey Key(const std::string& text) {
  const Address address = Parse(text);
  return MakeIpKey(address.bytes, address.family);
}

SocketAddress Endpoint(const std::string& text, uint16_t port = 80) {
  const Address address = Parse(text);
  return {address.bytes, address.family, port};
}

NetworkRecord Network(const std::string& text, uint8_t length) {
  const Address address = Parse(text);
  NetworkRecord record{};
  std::copy(std::begin(address.bytes), std::end(address.bytes), record.address);
  record.family = address.family;
  record.prefix_length = length;
  return record;
}

TEST(NetworkSet, HasTheAddressesOfItsNetworks) {
  const std::vector<NetworkRecord> networks{
      Network("10.1.0.0", 16), Network("10.1.2.0", 24),   Network("10.2.0.0", 15),   Network("192.0.2.7", 32),
      Network("fd00:1::", 32), Network("fd00:2::5", 128), Network("203.0.113.0", 25)};
  const NetworkSet set(networks);
  for (const char* inside : {"10.1.0.0", "10.1.255.255", "10.1.2.3", "10.2.0.0", "10.3.255.255", "192.0.2.7",
                             "fd00:1::", "fd00:1:ffff::1", "fd00:2::5", "203.0.113.127"})
    EXPECT_TRUE(set.Contains(Key(inside))) << inside;
  for (const char* outside : {"10.0.255.255", "10.4.0.0", "192.0.2.6", "192.0.2.8",
                              "fd00:0:ffff::", "fd00:2::4", "203.0.113.128", "::", "0.0.0.0"})
    EXPECT_FALSE(set.Contains(Key(outside))) << outside;
}

TEST(NetworkSet, KeepsTheFamiliesApart) {
  const std::vector<NetworkRecord> ipv6{Network("::", 0)};
  EXPECT_TRUE(NetworkSet(ipv6).Contains(Key("2001:db8::1")));
  EXPECT_FALSE(NetworkSet(ipv6).Contains(Key("192.0.2.1")));
  const std::vector<NetworkRecord> ipv4{Network("0.0.0.0", 0)};
  EXPECT_TRUE(NetworkSet(ipv4).Contains(Key("255.255.255.255")));
  EXPECT_FALSE(NetworkSet(ipv4).Contains(Key("::1")));
  EXPECT_FALSE(NetworkSet().Contains(Key("192.0.2.1")));
}

TEST(Budget, AGreedyHolderStopsAtHalf) {
  Budget budget(100);
  uint32_t greedy = 0;
  while (budget.Allows(greedy)) {
    ++greedy;
    budget.Take(1);
  }
  EXPECT_EQ(greedy, 50U);
  uint32_t other = 0;
  while (budget.Allows(other)) {
    ++other;
    budget.Take(1);
  }
  EXPECT_EQ(other, 25U);
  budget.Give(greedy);
  EXPECT_TRUE(budget.Allows(other));
}

class AffinityTest : public testing::Test {
 protected:
  std::string Find(const char* client, seconds at) {
    const SocketAddress* found = affinity_.Find(Key(client), start_ + at, kTimeout);
    if (found == nullptr) return "none";
    return *found == Endpoint("10.0.0.1") ? "1" : "2";
  }
  void Put(const char* client, const char* endpoint, seconds at) {
    affinity_.Put(Key(client), Endpoint(endpoint), start_ + at, kTimeout);
  }

  static constexpr seconds kTimeout{10};
  Clock::time_point start_ = Clock::now();
  Budget budget_{8};
  Affinity affinity_{budget_};
};

TEST_F(AffinityTest, ARecordEndsSomeTimeAfterItsLastUse) {
  Put("192.0.2.1", "10.0.0.1", seconds(0));
  EXPECT_EQ(Find("192.0.2.1", seconds(9)), "1");
  EXPECT_EQ(Find("192.0.2.1", seconds(18)), "1");
  EXPECT_EQ(Find("192.0.2.1", seconds(28)), "none");
  EXPECT_EQ(budget_.used(), 0U);
  EXPECT_EQ(Find("192.0.2.2", seconds(28)), "none");
}

TEST_F(AffinityTest, ANewRecordReplacesTheClientsOldOne) {
  Put("192.0.2.1", "10.0.0.1", seconds(0));
  Put("192.0.2.1", "10.0.0.2", seconds(1));
  EXPECT_EQ(Find("192.0.2.1", seconds(2)), "2");
  affinity_.Remove(Key("192.0.2.1"));
  EXPECT_EQ(Find("192.0.2.1", seconds(2)), "none");
  EXPECT_EQ(budget_.used(), 0U);
}

TEST_F(AffinityTest, TheOldestRecordMakesRoom) {
  for (const char* client : {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"})
    Put(client, "10.0.0.1", seconds(0));
  EXPECT_EQ(Find("192.0.2.1", seconds(1)), "1");  // so that .2 is the oldest
  Put("192.0.2.5", "10.0.0.2", seconds(2));
  EXPECT_EQ(affinity_.size(), 4U);
  EXPECT_EQ(Find("192.0.2.1", seconds(3)), "1");
  EXPECT_EQ(Find("192.0.2.2", seconds(3)), "none");
  EXPECT_EQ(Find("192.0.2.5", seconds(3)), "2");
}

TEST_F(AffinityTest, ExpiredRecordsAreFreedByNewOnes) {
  for (const char* client : {"192.0.2.1", "192.0.2.2", "192.0.2.3"}) Put(client, "10.0.0.1", seconds(0));
  Put("192.0.2.4", "10.0.0.1", seconds(11));
  EXPECT_EQ(affinity_.size(), 1U);
  EXPECT_EQ(budget_.used(), 1U);
}

TEST(Service, TakesEndpointsInTurnAlsoAfterAChange) {
  Budget budget(8);
  Service service(budget);
  const auto now = Clock::now();
  const auto next = [&](Verdict verdict) { return service.Choose(verdict, Key("192.0.2.1"), now); };
  const std::vector<SocketAddress> three{Endpoint("10.0.0.1"), Endpoint("10.0.0.2"), Endpoint("10.0.0.3")};
  service.Set({.cluster_endpoints = three, .local_endpoints = {Endpoint("10.0.0.3")}});
  EXPECT_EQ(next(Verdict::kCluster), three[0]);
  EXPECT_EQ(next(Verdict::kLocal), three[2]);
  EXPECT_EQ(next(Verdict::kCluster), three[1]);
  EXPECT_EQ(next(Verdict::kCluster), three[2]);
  EXPECT_EQ(next(Verdict::kCluster), three[0]);
  service.Set({.cluster_endpoints = {three[0], three[1]}});
  EXPECT_EQ(next(Verdict::kCluster), three[1]);
  EXPECT_EQ(next(Verdict::kCluster), three[0]);
  EXPECT_TRUE(service.EndpointsOf(Verdict::kLocal).empty());
  EXPECT_TRUE(service.EndpointsOf(Verdict::kRefuse).empty());
  EXPECT_TRUE(service.EndpointsOf(Verdict::kDrop).empty());
}

TEST(Service, AnAffineClientLeavesAnEndpointThatIsGoneOrNotInTheList) {
  Budget budget(8);
  Service service(budget);
  const auto now = Clock::now();
  const SocketAddress one = Endpoint("10.0.0.1");
  const SocketAddress two = Endpoint("10.0.0.2");
  const ServiceSettings both{
      .affinity = seconds(10), .cluster_endpoints = {one, two}, .local_endpoints = {two}};
  service.Set(both);
  const IpKey client = Key("192.0.2.1");
  EXPECT_EQ(service.Choose(Verdict::kCluster, client, now), one);
  EXPECT_EQ(service.Choose(Verdict::kCluster, client, now), one);
  EXPECT_EQ(service.Choose(Verdict::kLocal, client, now), two);
  EXPECT_EQ(service.Choose(Verdict::kCluster, client, now), two);
  EXPECT_EQ(service.ChooseNext(Verdict::kCluster, client, now), two);
  service.Set({.affinity = seconds(10), .cluster_endpoints = {one}});
  EXPECT_EQ(service.Choose(Verdict::kCluster, client, now), one);
  service.Set({.cluster_endpoints = {one}});
  EXPECT_EQ(budget.used(), 0U);
}

TEST(SocketAddress, ComparesFamilyAddressAndPort) {
  EXPECT_EQ(Endpoint("10.0.0.1"), Endpoint("10.0.0.1"));
  EXPECT_NE(Endpoint("10.0.0.1"), Endpoint("10.0.0.1", 81));
  EXPECT_NE(Endpoint("10.0.0.1"), Endpoint("10.0.0.2"));
  EXPECT_NE(Endpoint("::ffff:10.0.0.1"), Endpoint("10.0.0.1"));
  EXPECT_EQ(Endpoint("fd00::1"), Endpoint("fd00::1"));
}

}  // namespace
}  // namespace viaduct::relay
