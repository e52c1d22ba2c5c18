#pragma once

#include <cstdint>

// Packed records of held ports and of listening sockets. Conventions: ipvs/record.h.

namespace viaduct::ports {

/// A batch's request. A list has kNone.
enum class Op : uint8_t {
  kNone = 0,
  kHold = 1,
  kRelease = 2,
};

/// A port of one address, or of every address of the family.
struct PortRecord {
  uint8_t address[16];  ///< zero: every address
  uint16_t port;
  uint8_t family;
  uint8_t protocol;  ///< IPPROTO_TCP, _UDP or _SCTP
  Op op;
  uint8_t reserved[3];
};

/// A socket of some program that takes new connections, or datagrams from any sender.
struct ListenerRecord {
  uint8_t address[16];  ///< zero: every address
  uint32_t uid;
  uint32_t pid;  ///< 0: /proc shows no process with this socket
  uint16_t port;
  uint8_t family;  ///< the family of the request, for a dual-stack socket too
  uint8_t protocol;
  uint8_t is_held;  ///< 1: an agent holds the port, this one or another
  uint8_t is_own;   ///< 1: the process is this one
  uint8_t reserved[2];
  char name[16];  ///< the name of the process (comm), NUL padded; empty without pid
};

/// A descriptor of the service manager's store that this process inherited.
struct InheritedRecord {
  uint32_t fd;
  uint32_t number;  ///< the number in its name
};

}  // namespace viaduct::ports
