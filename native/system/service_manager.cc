#include "system/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/fd.h"

namespace viaduct::system {

namespace {

constexpr const char* kOperation = "notify the service manager";

struct SocketAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
};

Result<SocketAddress> ParseAddress(std::string_view socket) {
  SocketAddress parsed;
  auto& path = parsed.address.sun_path;
  parsed.address.sun_family = AF_UNIX;
  const bool is_abstract = socket.starts_with('@');
  // A path ends with a NUL. An abstract name begins with a NUL, and its length ends it.
  const size_t room = sizeof(path) - (is_abstract ? 0 : 1);
  if (!is_abstract && !socket.starts_with('/')) return Error{EAFNOSUPPORT, kOperation, ""};
  if (socket.size() > room) return Error{ENAMETOOLONG, kOperation, ""};
  memcpy(path, socket.data(), socket.size());
  if (is_abstract) path[0] = '\0';
  parsed.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket.size() + (is_abstract ? 0 : 1));
  return parsed;
}

Status Send(std::string_view socket, std::string_view state, int passed, int flags) {
  auto parsed = ParseAddress(socket);
  if (!parsed.ok()) return parsed.error();
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, kOperation, ""};
  const timeval limit{1, 0};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  iovec bytes{const_cast<char*>(state.data()), state.size()};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = &parsed.value().address;
  message.msg_namelen = parsed.value().length;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (passed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
  }
  if (sendmsg(fd.get(), &message, MSG_NOSIGNAL | flags) < 0) return Error{errno, kOperation, ""};
  return Ok();
}

}  // namespace

Status NotifyServiceManager(std::string_view socket, std::string_view state) {
  return Send(socket, state, -1, MSG_DONTWAIT);
}

Status SendToServiceManager(std::string_view socket, std::string_view state, int fd) {
  return Send(socket, state, fd, 0);
}

}  // namespace viaduct::system
