#include "relay/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "relay/arrival.h"

namespace viaduct::relay {

namespace {

/// A peer that vanished is found after idle + 9 probes (the kernel's default) * interval: 3 minutes.
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 15;
/// Bounds the unsent bytes in the kernel for a peer that does not read; otherwise up to net.ipv4.tcp_wmem,
/// 4 MB for each end.
constexpr int kUnsentBytes = 256 * 1024;

/// Ignores the result: a kernel without the option works with its default.
void SetInt(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

bool SetListenerOptions(int fd, int protocol, int family) {
  const int yes = 1;
  // Without it a socket of IPv6 takes IPv4 too.
  if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0) return false;
  // inet6_bind() asks for an address of an interface. A virtual address has only a local route.
  if (family == AF_INET6) SetInt(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
  ReportArrivals(fd, family);  // accepted sockets inherit it
  if (protocol != IPPROTO_TCP) return true;
  // Connections of a former process in TIME_WAIT do not hinder. NB: not for UDP, where a second socket of
  // another program could then bind the same port (OpenForClient()).
  SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  SetStreamOptions(fd);
  return true;
}

/// A second UDP socket on the address and port of `fd`. Not open: errno.
Fd OpenBeside(int fd) {
  SocketAddress address;
  socklen_t length = SocketAddress::kRoom;
  if (getsockname(fd, address.data(), &length) != 0) return Fd();
  Fd other(socket(address.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!other.is_open() || !SetListenerOptions(other.get(), IPPROTO_UDP, address.family())) return Fd();
  // Sockets share a port if all of them allow it at the time of bind().
  SetInt(other.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  const bool is_bound = bind(other.get(), address.data(), address.size()) == 0;
  SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 0);
  return is_bound ? std::move(other) : Fd();
}

}  // namespace

void SetStreamOptions(int fd) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  SetInt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

Result<Fd> OpenListener(int protocol, const SocketAddress& address) {
  const int type = protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM;
  Fd fd(socket(address.family(), type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, "open socket", {}};
  if (!SetListenerOptions(fd.get(), protocol, address.family())) return Error{errno, "set IPV6_V6ONLY", {}};
  if (bind(fd.get(), address.data(), address.size()) != 0) return Error{errno, "bind", {}};
  // The kernel lowers the backlog to net.core.somaxconn.
  constexpr int kBacklog = 65'535;
  if (protocol == IPPROTO_TCP && listen(fd.get(), kBacklog) != 0) return Error{errno, "listen", {}};
  return fd;
}

Fd OpenForClient(int fd, const SocketAddress& client) {
  Fd other = OpenBeside(fd);
  // The kernel prefers a connected socket for the datagrams of its peer (compute_score() in net/ipv4/udp.c).
  if (!other.is_open() || connect(other.get(), client.data(), client.size()) != 0) return Fd();
  return other;
}

Fd OpenAgain(int fd) {
  // Not connect() with AF_UNSPEC: a socket of IPv6 would keep the address of its peer (__udp_disconnect()).
  Fd other = OpenBeside(fd);
  if (other.is_open()) SetInt(other.get(), SOL_SOCKET, SO_REUSEADDR, 0);
  return other;
}

// A connected socket gets the datagrams of its peer alone. The socket itself never sends any to itself.
bool CloseToClients(int fd) {
  SocketAddress address;
  socklen_t length = SocketAddress::kRoom;
  return getsockname(fd, address.data(), &length) == 0 && connect(fd, address.data(), address.size()) == 0;
}

}  // namespace viaduct::relay
