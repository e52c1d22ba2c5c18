#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/fd.h"
#include "core/outcome.h"
#include "core/result.h"

namespace viaduct {

/// One netlink conversation with the kernel. Not thread-safe: the owner keeps one request in flight.
/// Contract of the kernel that it builds on: requests run synchronously inside sendmsg, so that after it returns all
/// errors are queued and an empty queue means that every request succeeded (docs/wire/netlink.md).
class NetlinkSocket {
 public:
  struct Options {
    int protocol = 0;                            ///< NETLINK_ROUTE, NETLINK_GENERIC, ...
    std::vector<uint32_t> groups;                ///< multicast groups to join; none on a request socket
    std::chrono::milliseconds deadline{10'000};  ///< for one Request() or Dump() as a whole
    int buffer_bytes = 4 << 20;                  ///< wanted send and receive buffer (SO_*BUFFORCE, else SO_*BUF)
  };
  static Result<NetlinkSocket> Open(const Options& options);

  int fd() const;
  uint32_t port_id() const;
  /// Next sequence numbers, `count` in a row; never 0.
  uint32_t TakeSequence(uint32_t count = 1);
  /// Largest sendmsg that fits the real send buffer, and the largest number of requests whose errors, all failing,
  /// fit the real receive buffer.
  size_t max_send_bytes() const;
  uint32_t max_requests_per_send() const;

  /// Sends sealed messages with sequences first_sequence.. and reports those that the kernel refused. `index_base` is
  /// added to (sequence - first_sequence) to make Failure::index. ENOBUFS or a time-out marks the undetermined rest as unknown.
  void Transact(std::span<const uint8_t> messages, uint32_t first_sequence, uint32_t count, uint32_t index_base,
                BatchOutcome& outcome);

  /// One request that is answered by at most one message (no NLM_F_DUMP; the implementation adds NLM_F_ACK).
  /// `on_message` sees the reply: type, payload after nlmsghdr.
  using OnMessage = std::function<void(uint16_t type, std::span<const uint8_t> payload)>;
  Status Request(std::span<const uint8_t> message, const OnMessage& on_message);
  /// One dump. Restarts (bounded) when the kernel says NLM_F_DUMP_INTR; `on_restart` tells the caller to drop what it has.
  Status Dump(std::span<const uint8_t> message, const OnMessage& on_message, const std::function<void()>& on_restart);
};

}  // namespace viaduct
