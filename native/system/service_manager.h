#pragma once

#include <string_view>

#include "core/result.h"

namespace viaduct::system {

/// Tells the service manager `state`, lines such as `READY=1` (sd_notify(3)). `socket` is what it put into
/// NOTIFY_SOCKET: a path, or behind an `@` the name of an abstract socket. Does not wait: EAGAIN when the
/// manager has fallen behind.
Status NotifyServiceManager(std::string_view socket, std::string_view state);

}  // namespace viaduct::system
