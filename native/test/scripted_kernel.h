#pragma once

#include <linux/netlink.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/netlink_socket.h"
#include "core/socket_calls.h"

namespace viaduct {

using Bytes = std::vector<uint8_t>;

/// The next result of recvmsg(): a datagram or an errno.
struct Datagram {
  Bytes bytes = {};
  int error = 0;
  uint32_t sender = 0;
  bool is_truncated = false;
};

/// A kernel with scripted replies. Only poll(), sleeping and Pass() advance the time: poll() by its time-out
/// if there is nothing to read.
class ScriptedKernel : public SocketCalls {
 public:
  /// Called for each sendmsg, synchronously as in the kernel; returns 0, or the errno of a refused send.
  std::function<int(int fd, const Bytes& sent)> on_send = [](int, const Bytes&) { return 0; };
  /// getsockopt() at level IPPROTO_IP; returns 0 or an errno.
  std::function<int(int name, void* value, socklen_t length)> on_option = [](int, void*, socklen_t) {
    return ENOPROTOOPT;
  };
  /// Called at the start of each poll(); returns 0, or the errno of its failure.
  std::function<int(int fd)> on_poll = [](int) { return 0; };
  bool can_force_buffers = true;
  int unforced_buffer = 212992;
  int socket_error = 0;
  int bind_error = 0;

  std::deque<Datagram>& queue(int fd) { return queues_[fd]; }
  const std::vector<Bytes>& sent() const { return sent_; }
  int last_socket() const { return last_socket_; }
  int sockets_opened() const { return sockets_opened_; }
  bool has_option(int level, int name) const { return options_.contains({level, name}); }
  std::chrono::nanoseconds elapsed() const { return now_; }
  void Pass(std::chrono::milliseconds time) { now_ += time; }
  /// errnos that the next receives return before the queue.
  std::deque<int> receive_errors;
  std::vector<std::string> interfaces_asked;

  int Socket(int domain, int type, int protocol) override;
  int Bind(int fd, const sockaddr* address, socklen_t length) override;
  int SetOption(int fd, int level, int name, std::span<const uint8_t> value) override;
  int GetOption(int fd, int level, int name, void* value, socklen_t* length) override;
  ssize_t Send(int fd, const msghdr* message, int flags) override;
  ssize_t Receive(int fd, msghdr* message, int flags) override;
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override;
  unsigned InterfaceIndex(const char* name) override {
    interfaces_asked.emplace_back(name);
    return 0;
  }
  std::chrono::nanoseconds Now() override { return now_; }
  void Sleep(std::chrono::nanoseconds time) override { now_ += time; }

 private:
  std::map<int, std::deque<Datagram>> queues_;
  std::map<int, int> buffers_;  ///< by option name
  std::set<std::pair<int, int>> options_;
  std::vector<Bytes> sent_;
  int last_socket_ = -1;
  int sockets_opened_ = 0;
  std::chrono::nanoseconds now_{1};
};

/// One message: header and payload.
Bytes MakeMessage(uint16_t type, uint16_t flags, uint32_t sequence, const Bytes& payload);
/// NLMSG_ERROR as with CAP_ACK and EXT_ACK; code 0 is an acknowledgement.
Bytes MakeError(uint32_t sequence, int code, std::string_view text = {});
Bytes MakeDone(uint32_t sequence, uint16_t flags = 0);
Bytes Concatenate(std::initializer_list<Bytes> parts);

/// Headers of all messages of one send.
std::vector<nlmsghdr> HeadersOf(const Bytes& sent);

}  // namespace viaduct
