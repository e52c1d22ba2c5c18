#pragma once

#include "core/fd.h"
#include "core/result.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

/// Options of both ends of a connection. A listening socket passes them on to the sockets that it accepts.
void SetStreamOptions(int fd);

/// Opens a listening TCP socket, or a bound UDP socket.
Result<Fd> OpenListener(int protocol, const SocketAddress& address);

/// A second UDP socket on the address and port of `fd`, for the datagrams of one client. Not open: errno.
/// Afterwards no other program can share the port, as long as `fd` is open.
Fd OpenForClient(int fd, const SocketAddress& client);
/// Lets the kernel refuse the datagrams that come to a bound UDP socket, and keeps its port. False: errno.
bool CloseToClients(int fd);
/// A socket that takes the place of one that is closed to clients. Not open: errno.
Fd OpenAgain(int fd);

}  // namespace viaduct::relay
