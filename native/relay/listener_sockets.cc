#include "relay/listener_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "ports/listener_socket.h"
#include "relay/arrival.h"
#include "relay/socket_options.h"

namespace viaduct::relay {

namespace {

uint32_t PortKey(int protocol, const SocketAddress& address) {
  return static_cast<uint32_t>(protocol) << 24 | static_cast<uint32_t>(address.family()) << 16 |
         address.port();
}

/// Sockets share a port if all of them allow it at the time of bind(), and of listen(), which asks again.
/// SO_REUSEADDR does not let TCP sockets share while one of them listens; SO_REUSEPORT lets sockets of one
/// user.
int SharingOption(int protocol) { return protocol == IPPROTO_TCP ? SO_REUSEPORT : SO_REUSEADDR; }

/// As long as it lives, sockets let others bind beside them.
class Sharing {
 public:
  Sharing(int protocol, std::vector<int> fds) : option_(SharingOption(protocol)), fds_(std::move(fds)) {
    for (const int fd : fds_) SetOption(fd, SOL_SOCKET, option_, 1);
  }
  ~Sharing() {
    for (const int fd : fds_) SetOption(fd, SOL_SOCKET, option_, 0);
  }
  Sharing(const Sharing&) = delete;
  Sharing(Sharing&&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  Sharing& operator=(Sharing&&) = delete;

 private:
  int option_;
  std::vector<int> fds_;
};

/// A socket with the options of a listener. Not bound.
Result<Fd> OpenUnbound(int protocol, const SocketAddress& address) {
  const int type = protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM;
  const int family = address.family();
  Fd fd(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, "open socket", {}};
  const int yes = 1;
  // Without it a socket of IPv6 takes IPv4 too.
  if (family == AF_INET6 && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0)
    return Error{errno, "set IPV6_V6ONLY", {}};
  // inet6_bind() asks for an address of an interface. A virtual address has only a local route.
  if (family == AF_INET6) SetOption(fd.get(), IPPROTO_IPV6, IPV6_FREEBIND, 1);
  const bool reports = ReportArrivals(fd.get(), family);  // accepted sockets inherit it
  // Without the destination of a datagram nothing tells whether it is served.
  if (protocol == IPPROTO_UDP && address.IsWildcard() && !reports)
    return Error{EOPNOTSUPP, "ask for the destination of datagrams", {}};
  if (protocol != IPPROTO_TCP) return fd;
  // Connections of a former process in TIME_WAIT do not hinder. NB: not for UDP, where a second socket of
  // another program could then bind the same port.
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetStreamOptions(fd.get());
  return fd;
}

/// Ends what sharing leaves behind. After a socket with SO_REUSEPORT the kernel lets later ones of the same
/// user with the option bind to the port, and no longer asks the sockets that have it (tb->fastreuseport of
/// inet_csk_get_port()). A socket without the option clears that. One in repair mode conflicts with none.
/// Without CAP_NET_ADMIN it stays.
void EndSharing(const SocketAddress& address) {
  const Fd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return;
  SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SetOption(fd.get(), IPPROTO_IPV6, IPV6_FREEBIND, 1);
  SetOption(fd.get(), IPPROTO_TCP, TCP_REPAIR, 1);
  (void)bind(fd.get(), address.data(), address.size());
}

/// Binds the socket beside others, and listens.
Status Bind(int protocol, const SocketAddress& address, int fd, std::vector<int> beside) {
  // Without others it shares with none: another program that has the port is found.
  const bool is_shared = !beside.empty();
  if (is_shared) beside.push_back(fd);
  const Sharing shared(protocol, std::move(beside));
  if (bind(fd, address.data(), address.size()) != 0) return Error{errno, "bind", {}};
  // The kernel lowers the backlog to net.core.somaxconn.
  constexpr int kBacklog = 65'535;
  if (protocol == IPPROTO_TCP && listen(fd, kBacklog) != 0) return Error{errno, "listen", {}};
  if (protocol == IPPROTO_TCP && is_shared) EndSharing(address);
  return Ok();
}

/// The kernel has no sock_diag: no such netlink protocol, or no such family.
bool LacksDiag(int code) { return code == EPROTONOSUPPORT || code == ENOENT || code == EOPNOTSUPP; }

/// The number by which sock_diag names the socket.
uint32_t InodeOf(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 ? static_cast<uint32_t>(status.st_ino) : 0;
}

}  // namespace

ListenerSocket& ListenerSocket::operator=(ListenerSocket&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  all_ = other.all_;
  protocol_ = other.protocol_;
  address_ = other.address_;
  fd_ = std::move(other.fd_);
  return *this;
}

void ListenerSocket::Reset() {
  if (fd_.is_open()) all_->Close(*this);
}

std::vector<int> ListenerSockets::Beside(int protocol, const SocketAddress& address) const {
  std::vector<int> found;
  const auto of_port = ports_.find(PortKey(protocol, address));
  if (of_port == ports_.end()) return found;
  const SocketsOfPort& sockets = of_port->second;
  const auto add = [&](auto first, auto last) {
    for (; first != last; ++first) found.push_back(first->second);
  };
  if (address.IsWildcard()) {
    add(sockets.begin(), sockets.end());
  } else {
    for (const SocketAddress& other : {address, address.Wildcard()}) {
      const auto [first, last] = sockets.equal_range(other);
      add(first, last);
    }
  }
  return found;
}

Result<ListenerSocket> ListenerSockets::Open(int protocol, const SocketAddress& address) {
  auto fd = OpenUnbound(protocol, address);
  if (!fd.ok()) return fd.error();
  const int raw = fd.value().get();
  const std::lock_guard lock(mutex_);
  const std::vector<int> beside = Beside(protocol, address);
  Status opened = Bind(protocol, address, raw, beside);
  // After the sharing: later sockets of other programs are refused by the kernel.
  if (opened.ok() && !beside.empty()) opened = RefuseStrangers(protocol, address, raw);
  if (!opened.ok()) return opened.error();
  ports_[PortKey(protocol, address)].emplace(address, raw);
  return ListenerSocket(*this, protocol, address, std::move(fd.value()));
}

Status ListenerSockets::RefuseStrangers(int protocol, const SocketAddress& address, int fd) const {
  const auto meets = MeetsStranger(protocol, address, fd);
  if (meets.ok()) return meets.value() ? Status(Error{EADDRINUSE, "bind", {}}) : Ok();
  if (!LacksDiag(meets.error().code)) return meets.error();
  // Beside single addresses the first wildcard does not open: each address can have a socket that the kernel
  // checks. Other sockets follow one that the kernel has checked.
  const SocketsOfPort& sockets = ports_.at(PortKey(protocol, address));
  const bool is_checked = !address.IsWildcard() || sockets.contains(address);
  return is_checked ? Ok() : Status(Error{EOPNOTSUPP, "look for sockets of other programs", {}});
}

Result<bool> ListenerSockets::MeetsStranger(int protocol, const SocketAddress& address, int fd) const {
  auto diag = ports::ListenerSocket::Open(diag_calls_);
  if (!diag.ok()) return diag.error();
  ports::PortRecord port{};
  port.port = address.port();
  port.protocol = static_cast<uint8_t>(protocol);
  const auto family = static_cast<uint8_t>(address.family());
  const auto found = diag.value().FindSockets(family, {&port, 1});
  if (!found.ok()) return found.error();
  std::unordered_set<uint32_t> own{InodeOf(fd)};
  const auto of_port = ports_.find(PortKey(protocol, address));
  if (of_port != ports_.end())
    for (const auto& [_, other] : of_port->second) own.insert(InodeOf(other));
  return std::any_of(found.value().begin(), found.value().end(), [&](const ports::DiagSocket& socket) {
    const SocketAddress other(socket.listener.address, family, address.port());
    const bool meets = address.IsWildcard() || other.IsWildcard() || other == address;
    return meets && !own.contains(socket.inode);
  });
}

Fd ListenerSockets::OpenForClient(const SocketAddress& address, const SocketAddress& client) {
  auto fd = OpenUnbound(IPPROTO_UDP, address);
  if (!fd.ok()) return Fd();
  const int raw = fd.value().get();
  {
    const std::lock_guard lock(mutex_);
    const Sharing shared(IPPROTO_UDP, Beside(IPPROTO_UDP, address));
    // It keeps the option: the listener may open again beside it.
    SetOption(raw, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(raw, address.data(), address.size()) != 0) return Fd();
    // The kernel prefers a connected socket for the datagrams of its peer (compute_score() in
    // net/ipv4/udp.c). Under the lock: until then it looks like a socket of another program.
    if (connect(raw, client.data(), client.size()) != 0) return Fd();
  }
  return std::move(fd.value());
}

void ListenerSockets::Close(ListenerSocket& socket) {
  const std::lock_guard lock(mutex_);
  // Under the lock: one that is open and unknown looks like a socket of another program.
  const int fd = socket.get();
  socket.fd_.Reset();
  const auto of_port = ports_.find(PortKey(socket.protocol_, socket.address_));
  if (of_port == ports_.end()) return;
  auto [first, last] = of_port->second.equal_range(socket.address_);
  while (first != last && first->second != fd) ++first;
  if (first != last) of_port->second.erase(first);
  if (of_port->second.empty()) ports_.erase(of_port);
}

// A connected socket gets the datagrams of its peer alone. The socket itself never sends any to itself. A
// wildcard connects to, and from, a loopback address.
bool CloseToClients(int fd) {
  SocketAddress address;
  socklen_t length = SocketAddress::kRoom;
  return getsockname(fd, address.data(), &length) == 0 && connect(fd, address.data(), address.size()) == 0;
}

}  // namespace viaduct::relay
