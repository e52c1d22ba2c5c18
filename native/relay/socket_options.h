#pragma once

#include "core/fd.h"
#include "core/result.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

/// Options of both ends of a connection. A listening socket passes them on to the sockets that it accepts.
void SetStreamOptions(int fd);

/// Opens a listening TCP socket, or a bound UDP socket.
Result<Fd> OpenListener(int protocol, const SocketAddress& address);

/// The interface by which the first packet of an accepted connection of `family` came; 0: unknown.
unsigned ArrivalInterface(int fd, int family);
/// The interface by which a received message came; 0: unknown.
unsigned InterfaceOf(const msghdr& message);

}  // namespace viaduct::relay
