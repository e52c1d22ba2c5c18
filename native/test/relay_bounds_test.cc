// A relay with few descriptors: greedy services, floods of clients, and the process without descriptors. On
// loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "core/fd.h"
#include "ports/port_holder.h"
#include "relay/relay.h"

namespace viaduct::relay {
namespace {

constexpr uint8_t kLoopback[16] = {127, 0, 0, 1};

sockaddr_in At(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* Plain(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

/// A bound socket with its port. TCP: it listens, and the kernel accepts.
struct Server {
  explicit Server(int type) : fd(socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = At(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd.get(), Plain(address), length), 0);
    if (type == SOCK_STREAM) EXPECT_EQ(listen(fd.get(), 1000), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port = ntohs(address.sin_port);
  }
  Fd fd;
  uint16_t port = 0;
};

/// A port of loopback that was free a moment ago.
uint16_t FreePort(int type) { return Server(type).port; }

class RelayBoundsTest : public testing::Test {
 protected:
  Relay Open(uint32_t descriptors, unsigned workers = 2, uint32_t udp_ports = 0) {
    auto relay =
        Relay::Open({.workers = workers, .descriptor_limit = descriptors, .udp_port_limit = udp_ports});
    EXPECT_TRUE(relay.ok());
    EXPECT_TRUE(relay.value().Configure({.udp_idle = std::chrono::seconds(60)}).ok());
    return std::move(relay.value());
  }

  /// Opens a service with one endpoint and a listener for it. The listener's port, or 0.
  static uint16_t Serve(Relay& relay, uint32_t id, uint8_t protocol, uint16_t endpoint_port) {
    const uint16_t port = FreePort(protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM);
    EndpointRecord endpoint{};
    std::copy(std::begin(kLoopback), std::end(kLoopback), endpoint.address);
    endpoint.family = AF_INET;
    endpoint.port = endpoint_port;
    ListenerRecord listener{};
    std::copy(std::begin(kLoopback), std::end(kLoopback), listener.address);
    listener.family = AF_INET;
    listener.port = port;
    listener.protocol = protocol;
    listener.service = id;
    listener.near = listener.far = Verdict::kCluster;
    const ServiceRecord service{.id = id, .cluster_count = 1};
    const OpRecord ops[] = {{0, Op::kSetService, {}}, {0, Op::kSetListener, {}}};
    const BatchOutcome outcome = relay.Apply({ops, {&service, 1}, {&listener, 1}, {&endpoint, 1}, {}});
    return outcome.failures.empty() ? port : 0;
  }

  static Fd Connect(int type, uint16_t port) {
    Fd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), Plain(At(port)), sizeof(sockaddr_in)), 0) << errno;
    return fd;
  }

  /// Waits for the counters. A test that fails runs into the time limit of the suite.
  static void Until(const Relay& relay, const std::function<bool(const CountersRecord&)>& fits) {
    while (!fits(relay.ReadCounters())) poll(nullptr, 0, 1);
  }
};

TEST_F(RelayBoundsTest, AGreedyServiceLeavesDescriptorsForOthers) {
  Relay relay = Open(200);
  const Server backend(SOCK_STREAM);
  const uint16_t greedy = Serve(relay, 1, IPPROTO_TCP, backend.port);
  const uint16_t other = Serve(relay, 2, IPPROTO_TCP, backend.port);
  EXPECT_FALSE(relay.ReadConditions().has_few_descriptors);
  std::vector<Fd> clients;
  for (int i = 0; i < 150; ++i) clients.push_back(Connect(SOCK_STREAM, greedy));
  Until(relay, [](const CountersRecord& now) { return now.accepted_connections == 150; });
  const CountersRecord full = relay.ReadCounters();
  // Two descriptors for each connection, of 198 that the listeners left.
  EXPECT_GE(full.connections, 48U);
  EXPECT_LE(full.connections, 50U);
  EXPECT_EQ(full.shed_connections, 150 - full.connections);
  EXPECT_TRUE(relay.ReadConditions().has_few_descriptors);
  EXPECT_EQ(relay.ReadConditions().descriptor_limit, 200U);
  for (int i = 0; i < 20; ++i) clients.push_back(Connect(SOCK_STREAM, other));
  Until(relay, [](const CountersRecord& now) { return now.accepted_connections == 170; });
  EXPECT_EQ(relay.ReadCounters().connections, full.connections + 20);
  clients.clear();
  Until(relay, [](const CountersRecord& now) { return now.connections < 100; });
}

/// Sends until no more is taken for a moment.
void Fill(int fd) {
  static const std::vector<char> bytes(1 << 16);
  pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
  while (poll(&writable, 1, 20) > 0)
    if (send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN) return;
}

TEST_F(RelayBoundsTest, ThePipesOfAServiceAreInItsShare) {
  Relay relay = Open(200);
  const Server backend(SOCK_STREAM);
  const uint16_t greedy = Serve(relay, 1, IPPROTO_TCP, backend.port);
  const uint16_t other = Serve(relay, 2, IPPROTO_TCP, backend.port);
  std::vector<Fd> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(Connect(SOCK_STREAM, greedy));
  Until(relay, [](const CountersRecord& now) { return now.accepted_connections == 60; });
  const uint64_t greedy_connections = relay.ReadCounters().connections;
  // The endpoint reads nothing, so a pipe of each connection would keep its bytes.
  for (const Fd& client : clients) Fill(client.get());
  for (int i = 0; i < 20; ++i) clients.push_back(Connect(SOCK_STREAM, other));
  Until(relay, [](const CountersRecord& now) { return now.accepted_connections == 80; });
  EXPECT_EQ(relay.ReadCounters().connections, greedy_connections + 20);
}

TEST_F(RelayBoundsTest, AFloodOfUdpClientsReplacesItsOwnOldestFlows) {
  Relay relay = Open(100);
  const Server backend(SOCK_DGRAM);
  const uint16_t flooded = Serve(relay, 1, IPPROTO_UDP, backend.port);
  const uint16_t other = Serve(relay, 2, IPPROTO_UDP, backend.port);
  const Fd quiet = Connect(SOCK_DGRAM, other);
  ASSERT_EQ(send(quiet.get(), "x", 1, 0), 1);
  Until(relay, [](const CountersRecord& now) { return now.flows == 1; });
  // They stay open: a later client with the port of an earlier one would belong to its flow.
  std::vector<Fd> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(Connect(SOCK_DGRAM, flooded));
    ASSERT_EQ(send(clients.back().get(), "x", 1, 0), 1);
    const auto expected = static_cast<uint64_t>(i) + 2;
    Until(relay, [expected](const CountersRecord& now) { return now.started_flows == expected; });
  }
  const CountersRecord now = relay.ReadCounters();
  EXPECT_LE(now.flows, 51U);
  EXPECT_EQ(now.evicted_flows, 301 - now.flows);
  // The flow of the other service is still there.
  ASSERT_EQ(send(quiet.get(), "x", 1, 0), 1);
  Until(relay, [&](const CountersRecord& later) { return later.received_bytes == 302; });
  EXPECT_EQ(relay.ReadCounters().started_flows, now.started_flows);
}

TEST_F(RelayBoundsTest, AFloodOfUdpClientsLeavesLocalPortsForOthers) {
  Relay relay = Open(10'000, 2, 40);
  const Server backend(SOCK_DGRAM);
  const uint16_t flooded = Serve(relay, 1, IPPROTO_UDP, backend.port);
  const uint16_t other = Serve(relay, 2, IPPROTO_UDP, backend.port);
  std::vector<Fd> clients;
  for (uint64_t i = 0; i < 100; ++i) {
    clients.push_back(Connect(SOCK_DGRAM, flooded));
    ASSERT_EQ(send(clients.back().get(), "x", 1, 0), 1);
    Until(relay, [i](const CountersRecord& now) { return now.started_flows == i + 1; });
  }
  EXPECT_EQ(relay.ReadCounters().flows, 20U);
  EXPECT_TRUE(relay.ReadConditions().has_few_udp_ports);
  EXPECT_FALSE(relay.ReadConditions().has_few_descriptors);
  for (uint64_t i = 100; i < 110; ++i) {
    clients.push_back(Connect(SOCK_DGRAM, other));
    ASSERT_EQ(send(clients.back().get(), "x", 1, 0), 1);
    Until(relay, [i](const CountersRecord& now) { return now.started_flows == i + 1; });
  }
  EXPECT_EQ(relay.ReadCounters().flows, 30U);
}

TEST_F(RelayBoundsTest, HeldPortsTakePartOfTheDescriptors) {
  Relay relay = Open(40);
  ports::PortHolder holder("", {});
  std::vector<ports::PortRecord> held;
  // All at once: a port that was closed again may be given out twice.
  std::vector<Server> servers;
  for (int i = 0; i < 20; ++i) servers.emplace_back(SOCK_STREAM);
  for (const Server& server : servers) {
    ports::PortRecord port{};
    std::copy(std::begin(kLoopback), std::end(kLoopback), port.address);
    port.port = server.port;
    port.family = AF_INET;
    port.protocol = IPPROTO_TCP;
    port.op = ports::Op::kHold;
    held.push_back(port);
  }
  servers.clear();
  auto outcome = holder.Apply(held);
  ASSERT_TRUE(outcome.ok() && outcome.value().batch.failures.empty());
  for (uint32_t id = 1; id <= 15; ++id) EXPECT_NE(Serve(relay, id, IPPROTO_TCP, 9), 0);
  EXPECT_EQ(Serve(relay, 16, IPPROTO_TCP, 9), 0);
  for (ports::PortRecord& port : held) port.op = ports::Op::kRelease;
  outcome = holder.Apply(held);
  ASSERT_TRUE(outcome.ok() && outcome.value().batch.failures.empty());
  EXPECT_NE(Serve(relay, 17, IPPROTO_TCP, 9), 0);
}

TEST_F(RelayBoundsTest, ListenersTakeAtMostThreeQuartersOfTheDescriptors) {
  Relay relay = Open(20);
  for (uint32_t id = 1; id <= 15; ++id) EXPECT_NE(Serve(relay, id, IPPROTO_TCP, 9), 0);
  EXPECT_EQ(Serve(relay, 16, IPPROTO_TCP, 9), 0);
  EXPECT_EQ(relay.ReadCounters().listeners, 15U);
}

/// The soft limit of descriptors, as long as it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t limit) {
    getrlimit(RLIMIT_NOFILE, &former_);
    const rlimit lowered{limit, former_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &former_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors(FewDescriptors&&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  FewDescriptors& operator=(FewDescriptors&&) = delete;

 private:
  rlimit former_{};
};

TEST_F(RelayBoundsTest, AProcessWithoutDescriptorsPausesAndServesLater) {
  Relay relay = Open(1000);
  const Server backend(SOCK_STREAM);
  const uint16_t port = Serve(relay, 1, IPPROTO_TCP, backend.port);
  const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    const FewDescriptors few(static_cast<rlim_t>(client.get()) + 1);
    ASSERT_EQ(connect(client.get(), Plain(At(port)), sizeof(sockaddr_in)), 0);
    while (!relay.ReadConditions().has_few_descriptors) poll(nullptr, 0, 1);
    EXPECT_EQ(relay.ReadCounters().accepted_connections, 0U);
  }
  Until(relay, [](const CountersRecord& now) { return now.connections == 1; });
}

TEST_F(RelayBoundsTest, AnEndpointThatRefusesCostsOneAttemptForEachEndpoint) {
  Relay relay = Open(1000);
  const uint16_t port = Serve(relay, 1, IPPROTO_TCP, FreePort(SOCK_STREAM));
  for (int i = 0; i < 100; ++i) {
    const Fd client = Connect(SOCK_STREAM, port);
    char byte = 0;
    EXPECT_EQ(recv(client.get(), &byte, 1, 0), -1);
    EXPECT_EQ(errno, ECONNRESET);
  }
  EXPECT_EQ(relay.ReadCounters().failed_connections, 100U);
  Until(relay, [](const CountersRecord& now) { return now.connections == 0; });
}

TEST_F(RelayBoundsTest, TheEndOfTheRelayResetsItsConnections) {
  const Server backend(SOCK_STREAM);
  const Server datagrams(SOCK_DGRAM);
  Fd client;
  Fd sender;
  {
    Relay relay = Open(1000);
    client = Connect(SOCK_STREAM, Serve(relay, 1, IPPROTO_TCP, backend.port));
    sender = Connect(SOCK_DGRAM, Serve(relay, 2, IPPROTO_UDP, datagrams.port));
    ASSERT_EQ(send(sender.get(), "x", 1, 0), 1);
    Until(relay, [](const CountersRecord& now) { return now.connections == 1 && now.flows == 1; });
  }
  char byte = 0;
  EXPECT_EQ(recv(client.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(RelayBoundsTest, ManyClientsOfManyServicesAreAllServed) {
  Relay relay = Open(4000, 4);
  const Server backend(SOCK_STREAM);
  std::vector<uint16_t> ports;
  for (uint32_t id = 1; id <= 8; ++id) ports.push_back(Serve(relay, id, IPPROTO_TCP, backend.port));
  for (int i = 0; i < 400; ++i) {
    const Fd client = Connect(SOCK_STREAM, ports[static_cast<size_t>(i) % ports.size()]);
    ASSERT_EQ(send(client.get(), "x", 1, MSG_NOSIGNAL), 1);
    const Fd served(accept4(backend.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char byte = 0;
    ASSERT_EQ(recv(served.get(), &byte, 1, 0), 1);
    // Services change below their connections.
    Serve(relay, 100 + static_cast<uint32_t>(i % 8), IPPROTO_TCP, backend.port);
  }
  Until(relay, [](const CountersRecord& now) { return now.connections == 0; });
  EXPECT_EQ(relay.ReadCounters().accepted_connections, 400U);
}

}  // namespace
}  // namespace viaduct::relay
