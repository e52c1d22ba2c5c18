#include "relay/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace viaduct::relay {

namespace {

/// A peer that vanished is found after idle + 9 probes (the kernel's default) * interval: 3 minutes.
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 15;
/// Bounds the unsent bytes in the kernel for a peer that does not read; otherwise up to net.ipv4.tcp_wmem,
/// 4 MB for each end.
constexpr int kUnsentBytes = 256 * 1024;

}  // namespace

void SetOption(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof value);
}

void SetStreamOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
}

}  // namespace viaduct::relay
