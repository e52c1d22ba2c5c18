#include "system/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/fd.h"

namespace viaduct::system {

Status NotifyServiceManager(std::string_view socket, std::string_view state) {
  constexpr const char* kOperation = "notify the service manager";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const bool is_abstract = socket.starts_with('@');
  // A path ends with a NUL. An abstract name begins with a NUL, and its length ends it.
  const size_t room = sizeof(address.sun_path) - (is_abstract ? 0 : 1);
  if (!is_abstract && !socket.starts_with('/')) return Error{EAFNOSUPPORT, kOperation, ""};
  if (socket.size() > room) return Error{ENAMETOOLONG, kOperation, ""};
  memcpy(address.sun_path, socket.data(), socket.size());
  if (is_abstract) address.sun_path[0] = '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket.size() + (is_abstract ? 0 : 1));

  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, kOperation, ""};
  const ssize_t sent = sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&address), length);
  if (sent < 0) return Error{errno, kOperation, ""};
  return Ok();
}

}  // namespace viaduct::system
