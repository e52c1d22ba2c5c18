#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "relay/socket_address.h"

namespace viaduct::relay {

/// Room for one batch of datagrams of any size, which all sockets of a worker share.
class Datagrams {
 public:
  Datagrams();

  /// Receives without blocking. Number of datagrams; -1: errno.
  int Receive(int fd);
  /// Prepares a received datagram for sending: to `target`, or to the socket's peer (nullptr); from the
  /// address of `source`, or that of the socket (nullptr).
  void Prepare(size_t index, SocketAddress* target, const SocketAddress* source = nullptr);
  /// Sends received datagrams without blocking. Number of sent ones; -1: errno.
  int Send(int fd, size_t first, size_t count);

  const SocketAddress& source(size_t index) const { return parts_[index].source; }
  const msghdr& header(size_t index) const { return messages_[index].msg_hdr; }
  size_t bytes(size_t index) const { return messages_[index].msg_len; }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr size_t kLongest = 65'536;  ///< longer than any datagram

  struct Part {
    SocketAddress source;
    iovec vector{};
    alignas(cmsghdr) std::array<uint8_t, 64> control{};  ///< an in6_pktinfo, and a hop limit that arrived
  };
  // 2 MiB, of which the kernel backs only what datagrams have touched.
  std::unique_ptr<uint8_t[]> room_;
  std::array<Part, kBatch> parts_{};
  std::array<mmsghdr, kBatch> messages_{};
};

}  // namespace viaduct::relay
