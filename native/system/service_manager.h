#pragma once

#include <string_view>

#include "core/result.h"

namespace viaduct::system {

/// Sends `state`, lines such as `READY=1`, to the service manager (sd_notify(3)). `socket` is the value of
/// NOTIFY_SOCKET: a path, or `@` and the name of an abstract socket. Does not wait: EAGAIN if the socket is
/// full.
Status NotifyServiceManager(std::string_view socket, std::string_view state);

/// The same with a descriptor, of which the service manager gets a copy. Waits up to a second while the
/// socket is full. `fd` -1: none.
Status SendToServiceManager(std::string_view socket, std::string_view state, int fd);

}  // namespace viaduct::system
