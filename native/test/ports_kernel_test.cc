// Held ports, the store of a service manager, and other programs' sockets on the real kernel. Run under
// `unshare -n` as root: the ports of a fresh network namespace are free.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>

#include "ports/listener_socket.h"
#include "ports/port_holder.h"
#include "route/route_socket.h"

namespace viaduct::ports {
namespace {

PortRecord Port(Op op, uint16_t port, uint8_t protocol = IPPROTO_TCP, uint8_t family = AF_INET,
                const char* address = nullptr) {
  PortRecord record{};
  record.op = op;
  record.port = port;
  record.protocol = protocol;
  record.family = family;
  if (address != nullptr) inet_pton(family, address, record.address);
  return record;
}

/// errno of another socket's attempt to bind the port on every IPv4 address; 0: it got the port.
int TryBind(uint16_t port, int type = SOCK_STREAM, std::initializer_list<int> options = {SO_REUSEADDR}) {
  const Fd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const int on = 1;
  for (const int option : options) setsockopt(fd.get(), SOL_SOCKET, option, &on, sizeof on);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htobe16(port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return errno;
  return type == SOCK_STREAM && listen(fd.get(), 1) != 0 ? errno : 0;
}

std::vector<int> CodesOf(const PortHolder::Outcome& outcome) {
  std::vector<int> codes;
  for (const Failure& failure : outcome.batch.failures) codes.push_back(failure.code);
  return codes;
}

PortHolder::Outcome Apply(PortHolder& holder, const std::vector<PortRecord>& records) {
  return holder.Apply(records).value();
}

/// A service manager that keeps descriptors by name, as systemd does.
class Manager {
 public:
  Manager() {
    name_ = "@viaduct-ports-" + std::to_string(getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, name_.data(), name_.size());
    address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    socket_ = Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  }

  const std::string& name() const { return name_; }
  size_t messages() const { return messages_; }

  /// Reads the notifications so far.
  void Read() {
    for (;;) {
      char text[256];
      iovec bytes{text, sizeof text};
      alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
      msghdr message{};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t length = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
      if (length < 0) return;
      ++messages_;
      int fd = -1;
      if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(header), sizeof fd);
      Take({text, static_cast<size_t>(length)}, Fd(fd));
    }
  }

  size_t Count() {
    Read();
    return stored_.size();
  }

  /// Copies of the stored descriptors, as a new process gets them. The caller owns them.
  std::vector<InheritedRecord> Pass() {
    Read();
    std::vector<InheritedRecord> passed;
    for (const auto& [number, fd] : stored_) passed.push_back({static_cast<uint32_t>(dup(fd.get())), number});
    return passed;
  }

 private:
  void Take(std::string_view state, Fd fd) {
    constexpr std::string_view kName = "FDNAME=viaduct-ports-";
    const size_t at = state.find(kName);
    ASSERT_NE(at, std::string_view::npos) << state;
    const auto number = static_cast<uint32_t>(std::stoul(std::string(state.substr(at + kName.size()))));
    if (state.starts_with("FDSTORE=1\n")) {
      EXPECT_TRUE(fd.is_open());
      stored_[number] = std::move(fd);
    } else {
      EXPECT_TRUE(state.starts_with("FDSTOREREMOVE=1\n")) << state;
      EXPECT_EQ(stored_.erase(number), 1U) << state;
    }
  }

  std::string name_;
  Fd socket_;
  std::map<uint32_t, Fd> stored_;
  size_t messages_ = 0;
};

class PortsKernel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto socket = route::RouteSocket::Open();
    ASSERT_TRUE(socket.ok());
    if (socket.value().DumpAddresses(AF_INET, 0).value().empty()) {
      ASSERT_TRUE(socket.value().SetUp(1).ok());
      return;
    }
    fprintf(stderr, "ports_kernel_test: not a fresh network namespace; run it under unshare -n\n");
    exit(1);
  }

  PortHolder holder{"", {}};
};

TEST_F(PortsKernel, HoldsPortsAgainstEveryOption) {
  EXPECT_EQ(CodesOf(Apply(holder, {Port(Op::kHold, 30080), Port(Op::kHold, 30081, IPPROTO_UDP)})),
            std::vector<int>{});
  for (const std::initializer_list<int>& options :
       {std::initializer_list<int>{}, {SO_REUSEADDR}, {SO_REUSEPORT}, {SO_REUSEADDR, SO_REUSEPORT}}) {
    EXPECT_EQ(TryBind(30080, SOCK_STREAM, options), EADDRINUSE);
    EXPECT_EQ(TryBind(30081, SOCK_DGRAM, options), EADDRINUSE);
  }
  Apply(holder, {Port(Op::kRelease, 30080), Port(Op::kRelease, 30081, IPPROTO_UDP)});
  EXPECT_EQ(TryBind(30080), 0);
  EXPECT_EQ(TryBind(30081, SOCK_DGRAM), 0);
}

TEST_F(PortsKernel, AcceptsAPortInTimeWait) {
  Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htobe16(30090);
  name.sin_addr.s_addr = htobe32(INADDR_LOOPBACK);
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  const int on = 1;
  setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(bind(server.get(), address, sizeof name), 0);
  ASSERT_EQ(listen(server.get(), 1), 0);
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), address, sizeof name), 0);
  Fd accepted(accept(server.get(), nullptr, nullptr));
  // The side that closes first keeps the connection.
  accepted.Reset();
  char byte = 0;
  EXPECT_EQ(read(client.get(), &byte, 1), 0);
  client.Reset();
  server.Reset();
  EXPECT_EQ(TryBind(30090, SOCK_STREAM, {}), EADDRINUSE) << "no connection in TIME_WAIT";
  EXPECT_EQ(CodesOf(Apply(holder, {Port(Op::kHold, 30090)})), std::vector<int>{});
}

TEST_F(PortsKernel, LeavesDescriptorsToTheProcess) {
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  const Fd next(dup(0));
  const rlimit few{static_cast<rlim_t>(next.get()) + PortHolder::kReservedDescriptors + 3, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<PortRecord> records;
  for (uint16_t i = 0; i < 5; ++i) records.push_back(Port(Op::kHold, 30100 + i));
  const auto codes = CodesOf(Apply(holder, records));
  setrlimit(RLIMIT_NOFILE, &former);
  EXPECT_EQ(codes, (std::vector<int>{EMFILE, EMFILE, EMFILE}));
  EXPECT_EQ(holder.List().value().size(), 2U);
}

TEST_F(PortsKernel, ReportsOtherAddressesAndAbsentPorts) {
  EXPECT_EQ(CodesOf(Apply(holder, {Port(Op::kHold, 30080, IPPROTO_TCP, AF_INET, "192.0.2.1"),
                                   Port(Op::kHold, 30080, IPPROTO_UDP, AF_INET6, "2001:db8::1"),
                                   Port(Op::kRelease, 30080)})),
            (std::vector<int>{EADDRNOTAVAIL, EADDRNOTAVAIL, ENOENT}));
}

TEST_F(PortsKernel, AnotherHolderAdoptsStoredPorts) {
  Manager manager;
  const std::vector<PortRecord> ports = {Port(Op::kHold, 30080), Port(Op::kHold, 30080, IPPROTO_UDP),
                                         Port(Op::kHold, 30080, IPPROTO_TCP, AF_INET6),
                                         Port(Op::kHold, 30081, IPPROTO_UDP, AF_INET6, "::1"),
                                         Port(Op::kHold, 30082, IPPROTO_TCP, AF_INET, "127.0.0.1")};
  {
    PortHolder first(manager.name(), {});
    EXPECT_EQ(Apply(first, ports).store_error, 0);
  }
  auto inherited = manager.Pass();
  EXPECT_EQ(inherited.size(), 1U) << "one bag";
  EXPECT_EQ(TryBind(30080), EADDRINUSE) << "between two processes";
  PortHolder second(manager.name(), inherited);
  EXPECT_EQ(second.List().value().size(), ports.size());
  EXPECT_EQ(Apply(second, ports).batch.applied, ports.size());
  manager.Read();
  EXPECT_EQ(manager.messages(), 1U) << "nothing is stored again";
  Apply(second, {Port(Op::kRelease, 30080)});
  manager.Read();
  EXPECT_EQ(TryBind(30080), 0) << "the store has it no more";
  EXPECT_EQ(TryBind(30082), EADDRINUSE);
  EXPECT_EQ(manager.Count(), 1U);
}

TEST_F(PortsKernel, StoresABatchInFewBagsAndReplacesOne) {
  Manager manager;
  PortHolder first(manager.name(), {});
  std::vector<PortRecord> records;
  for (uint16_t i = 0; i < 600; ++i) records.push_back(Port(Op::kHold, 20000 + i));
  Apply(first, records);
  manager.Read();
  EXPECT_EQ(manager.messages(), 3U);
  Apply(first, {Port(Op::kRelease, 20300)});
  EXPECT_EQ(CodesOf(Apply(first, {Port(Op::kHold, 20300)})), std::vector<int>{EADDRINUSE})
      << "until the manager removes the former bag";
  manager.Read();
  EXPECT_EQ(CodesOf(Apply(first, {Port(Op::kHold, 20300)})), std::vector<int>{});
  manager.Read();
  EXPECT_EQ(manager.messages(), 7U) << "two messages for each change";
  PortHolder second(manager.name(), manager.Pass());
  EXPECT_EQ(second.List().value().size(), records.size());
}

TEST_F(PortsKernel, SendsChangesAgainAfterAFailure) {
  std::optional<PortHolder> first;
  {
    Manager gone;
    first.emplace(gone.name(), std::vector<InheritedRecord>{});
  }
  EXPECT_EQ(Apply(*first, {Port(Op::kHold, 30080)}).store_error, ECONNREFUSED);
  Manager manager;
  EXPECT_EQ(Apply(*first, {}).store_error, 0);
  EXPECT_EQ(manager.Count(), 1U);
}

TEST_F(PortsKernel, DropsWhatIsNoBag) {
  Manager manager;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd other(ends[1]);
  const std::vector<InheritedRecord> inherited = {{static_cast<uint32_t>(ends[0]), 7}, {987654, 8}};
  PortHolder second(manager.name(), inherited);
  EXPECT_TRUE(second.List().value().empty());
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1) << "closed";
}

TEST_F(PortsKernel, FindsSocketsOfThisProcess) {
  const Fd server(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htobe16(30080);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0) << strerror(errno);
  Apply(holder, {Port(Op::kHold, 30080)});
  const std::vector<PortRecord> asked = {Port(Op::kNone, 30080), Port(Op::kNone, 30080, IPPROTO_UDP)};
  const auto found = ListenerSocket::Open().value().Find(AF_INET, asked);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found.value().size(), 2U);
  const ListenerRecord& held = found.value()[0];
  EXPECT_EQ(held.protocol, IPPROTO_TCP);
  EXPECT_EQ(held.is_held, 1);
  const ListenerRecord& own = found.value()[1];
  EXPECT_EQ(own.protocol, IPPROTO_UDP);
  EXPECT_EQ(own.is_held, 0);
  EXPECT_EQ(own.is_own, 1);
  EXPECT_EQ(own.pid, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(std::string(own.name), std::string("ports_kernel_test").substr(0, 15));
}

}  // namespace
}  // namespace viaduct::ports
