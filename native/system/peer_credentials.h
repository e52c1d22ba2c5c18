#pragma once

#include <sys/types.h>

#include "core/result.h"

namespace viaduct::system {

/// The process at the other end of a Unix socket when it connected.
struct PeerCredentials {
  pid_t pid;
  uid_t uid;
};

/// SO_PEERCRED (unix(7)) of a connected stream socket. EBADF or ENOTSOCK: `fd` is no socket.
/// EAFNOSUPPORT: it is no Unix socket.
Result<PeerCredentials> ReadPeerCredentials(int fd);

}  // namespace viaduct::system
