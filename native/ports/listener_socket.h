#pragma once

#include <span>
#include <vector>

#include "core/netlink_socket.h"
#include "ports/diag.h"
#include "ports/record.h"

namespace viaduct::ports {

/// Finds the programs of this machine's network namespace that listen on ports, by NETLINK_SOCK_DIAG. Every
/// process may ask.
class ListenerSocket {
 public:
  static Result<ListenerSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// The sockets that take traffic of one family to these ports, with their processes. Only protocol and port
  /// of the records count; IPPROTO_TCP and _UDP. ENOENT: the kernel has no sock_diag for a protocol.
  Result<std::vector<ListenerRecord>> Find(uint8_t family, std::span<const PortRecord> ports);
  /// As Find(), without the processes.
  Result<std::vector<DiagSocket>> FindSockets(uint8_t family, std::span<const PortRecord> ports);

 private:
  explicit ListenerSocket(NetlinkSocket socket) : socket_(std::move(socket)) {}

  NetlinkSocket socket_;
};

}  // namespace viaduct::ports
