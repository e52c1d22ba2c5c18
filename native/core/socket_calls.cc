#include "core/socket_calls.h"

#include <net/if.h>

#include <ctime>

namespace viaduct {

namespace {

class KernelCalls final : public SocketCalls {
 public:
  int Socket(int domain, int type, int protocol) override { return socket(domain, type, protocol); }
  int Bind(int fd, const sockaddr* address, socklen_t length) override { return bind(fd, address, length); }
  int SetOption(int fd, int level, int name, std::span<const uint8_t> value) override {
    return setsockopt(fd, level, name, value.data(), static_cast<socklen_t>(value.size()));
  }
  int GetOption(int fd, int level, int name, void* value, socklen_t* length) override {
    return getsockopt(fd, level, name, value, length);
  }
  ssize_t Send(int fd, const msghdr* message, int flags) override { return sendmsg(fd, message, flags); }
  ssize_t Receive(int fd, msghdr* message, int flags) override { return recvmsg(fd, message, flags); }
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override { return poll(fds, count, timeout_ms); }
  unsigned InterfaceIndex(const char* name) override { return if_nametoindex(name); }
  std::chrono::nanoseconds Now() override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
  void Sleep(std::chrono::nanoseconds time) override {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const timespec request{seconds.count(), (time - seconds).count()};
    // Ignoring the result: the callers look at the time.
    (void)nanosleep(&request, nullptr);
  }
};

}  // namespace

SocketCalls& SocketCalls::Kernel() {
  static KernelCalls calls;
  return calls;
}

}  // namespace viaduct
