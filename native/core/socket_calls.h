#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace viaduct {

/// The system calls of every conversation with the kernel. Tests replace them with a scripted kernel. A
/// virtual call is negligible beside a system call (at least 0.09 us). All members return the result of the
/// system call, with errno in `errno`.
class SocketCalls {
 public:
  SocketCalls() = default;
  virtual ~SocketCalls() = default;
  SocketCalls(const SocketCalls&) = delete;  // sockets keep its address
  SocketCalls(SocketCalls&&) = delete;
  SocketCalls& operator=(const SocketCalls&) = delete;
  SocketCalls& operator=(SocketCalls&&) = delete;

  /// The real calls. The object has no state and lives as long as the process.
  static SocketCalls& Kernel();

  virtual int Socket(int domain, int type, int protocol) = 0;
  virtual int Bind(int fd, const sockaddr* address, socklen_t length) = 0;
  virtual int SetOption(int fd, int level, int name, std::span<const uint8_t> value) = 0;
  /// `length` goes in and out as with getsockopt().
  virtual int GetOption(int fd, int level, int name, void* value, socklen_t* length) = 0;
  virtual ssize_t Send(int fd, const msghdr* message, int flags) = 0;
  virtual ssize_t Receive(int fd, msghdr* message, int flags) = 0;
  virtual int Poll(pollfd* fds, nfds_t count, int timeout_ms) = 0;
  /// if_nametoindex(); 0: no such interface in our network namespace.
  virtual unsigned InterfaceIndex(const char* name) = 0;
  /// CLOCK_MONOTONIC.
  virtual std::chrono::nanoseconds Now() = 0;
  /// nanosleep(); a signal ends it early.
  virtual void Sleep(std::chrono::nanoseconds time) = 0;
};

}  // namespace viaduct
