#pragma once

namespace viaduct::relay {

/// Sets an integer option, and ignores the result: a kernel without the option works with its default.
void SetOption(int fd, int level, int option, int value);

/// Options of both ends of a connection. A listening socket passes them on to the sockets that it accepts.
void SetStreamOptions(int fd);

}  // namespace viaduct::relay
