#include "system/peer_credentials.h"

#include <sys/socket.h>

#include <cerrno>

namespace viaduct::system {

namespace {

constexpr const char* kOperation = "read peer credentials";

}  // namespace

Result<PeerCredentials> ReadPeerCredentials(int fd) {
  int family = 0;
  socklen_t length = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0) return Error{errno, kOperation, ""};
  // Other families answer SO_PEERCRED too, with the user 4294967295.
  if (family != AF_UNIX) return Error{EAFNOSUPPORT, kOperation, ""};
  ucred peer = {};
  length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return Error{errno, kOperation, ""};
  return PeerCredentials{peer.pid, peer.uid};
}

}  // namespace viaduct::system
