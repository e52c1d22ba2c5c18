#pragma once

#include <linux/netlink.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/fd.h"
#include "core/message_reader.h"
#include "core/outcome.h"
#include "core/result.h"
#include "core/socket_calls.h"

namespace viaduct {

/// One netlink conversation with the kernel. Not thread-safe: the owner keeps one request in flight.
/// It relies on this contract of the kernel: requests run synchronously inside sendmsg. When it returns, all
/// errors are queued; an empty queue means that every request succeeded (docs/wire/netlink.md).
class NetlinkSocket {
 public:
  struct Options {
    int protocol = 0;                            ///< NETLINK_ROUTE, NETLINK_GENERIC, ...
    std::vector<uint32_t> groups = {};           ///< multicast groups to join; none on a request socket
    std::chrono::milliseconds deadline{10'000};  ///< for one Request() or Dump() as a whole
    int buffer_bytes = 4 << 20;       ///< desired send and receive buffer (SO_*BUFFORCE, else SO_*BUF)
    bool strict_check = false;        ///< NETLINK_GET_STRICT_CHK: dumps filtered by the kernel (route)
    size_t receive_bytes = 32 << 10;  ///< one recv; the kernel sizes its dump skbs by the largest seen
    SocketCalls* calls = &SocketCalls::Kernel();
  };
  static Result<NetlinkSocket> Open(const Options& options);

  int fd() const { return fd_.get(); }
  /// The first of `count` consecutive sequence numbers; never 0.
  uint32_t TakeSequence(uint32_t count = 1);
  /// Largest sendmsg that fits the real send buffer, and the largest number of requests whose errors, all
  /// failing, fit the real receive buffer.
  size_t max_send_bytes() const { return max_send_bytes_; }
  uint32_t max_requests_per_send() const { return max_requests_per_send_; }
  /// Bytes that the kernel may queue until they are received. Each reply counts some 1,000 bytes more than
  /// its size, or twice its size.
  size_t queue_bytes() const { return queue_bytes_; }

  /// Sends sealed messages with sequences first_sequence.. and reports those that the kernel refused.
  /// `index_base` is added to (sequence - first_sequence) to make Failure::index. ENOBUFS marks every
  /// unanswered message of the send as unknown. If the kernel lacks memory for a send (EMSGSIZE, ENOBUFS,
  /// ENOMEM), the send is split and repeated.
  void Transact(std::span<const uint8_t> messages, uint32_t first_sequence, uint32_t count,
                uint32_t index_base, BatchOutcome& outcome);

  /// The result of SendWhole().
  struct Sent {
    int error = 0;  ///< errno of a send that the kernel refused before it looked at the first message
    int lost = 0;   ///< errno that hid at least one answer (ENOBUFS, EMSGSIZE, EPROTO)
  };
  using OnAnswer = std::function<void(const Message& answer)>;
  /// Sends sealed messages in one system call, never in parts, and calls `on_answer` with each answer: errors
  /// and NLM_F_ECHO messages. For a transaction, which takes effect as a whole. Grows the send buffer if the
  /// messages need it. EMSGSIZE: the buffer cannot grow to this size; send_limit() is then its largest.
  Sent SendWhole(std::span<const uint8_t> messages, const OnAnswer& on_answer);
  /// Largest sendmsg that fits the current send buffer. max_send_bytes() has a fixed upper bound; this has
  /// none.
  size_t send_limit() const { return send_limit_; }
  /// The socket's port id, by which events name their writer. 0: unknown.
  uint32_t PortId() const;

  /// One request with at most one reply, without NLM_F_DUMP. The implementation adds NLM_F_ACK and the
  /// sequence. `on_message` gets type and payload (after nlmsghdr) of the reply.
  using OnMessage = std::function<void(uint16_t type, std::span<const uint8_t> payload)>;
  Status Request(std::span<const uint8_t> message, const OnMessage& on_message);
  /// One dump; the implementation adds NLM_F_DUMP and the sequence. Restarts a limited number of times on
  /// NLM_F_DUMP_INTR: `on_restart` must drop the results so far. EINTR: every attempt was interrupted. After
  /// an incomplete dump the socket is reopened, because the kernel refuses a second dump (EBUSY) while one
  /// runs. If that fails, the next call tries again.
  Status Dump(std::span<const uint8_t> message, const OnMessage& on_message,
              const std::function<void()>& on_restart);
  /// As Dump(), in one attempt. `interrupted`: NLM_F_DUMP_INTR was seen, so that the result may lack or
  /// repeat what others changed meanwhile, and what stands near it.
  Status DumpOnce(std::span<const uint8_t> message, const OnMessage& on_message, bool& interrupted);

  /// One datagram without waiting. `error`: EAGAIN: none; ENOBUFS: the kernel dropped some; EMSGSIZE:
  /// truncated; or another errno. Skips datagrams that are not from the kernel (nl_pid 0). `data` is valid
  /// until the next call.
  struct Received {
    std::span<const uint8_t> data = {};
    int error = 0;
  };
  Received Receive();

 private:
  /// netlink_sendmsg() refuses more than sk_sndbuf - 32.
  static constexpr int kSendOverhead = 32;

  /// State of a running Request() or Dump().
  struct Exchange {
    uint32_t sequence = 0;
    const OnMessage* on_message = nullptr;
    std::chrono::nanoseconds deadline{};  ///< on the clock of SocketCalls::Now()
    bool interrupted = false;             ///< NLM_F_DUMP_INTR on any message
    bool concluded = false;               ///< NLMSG_DONE or NLMSG_ERROR was received
    Error error = {};
  };
  /// The messages of one send of Transact().
  struct Span {
    std::span<const uint8_t> messages;
    uint32_t first_sequence;
    uint32_t count;
    uint32_t first_index;  ///< Failure::index of its first message
  };

  explicit NetlinkSocket(const Options& options) : options_(options) {}
  /// Replaces the socket with a new one; has none after an error.
  Status Connect();
  Status Prepare();
  Status Bind();
  Status SizeBuffers();
  int WantBuffer(int wanted, int force_option, int option) const;
  int Send(std::span<const uint8_t> bytes);
  void TransactSpan(const Span& span, BatchOutcome& outcome);
  void SplitSpan(const Span& span, BatchOutcome& outcome);
  void CollectErrors(const Span& span, BatchOutcome& outcome);
  std::chrono::nanoseconds Deadline() const;
  Status Attempt(std::span<const uint8_t> message, Exchange& exchange);
  Status Converse(std::span<const uint8_t> message, uint16_t flags, Exchange& exchange);
  Status AwaitConclusion(Exchange& exchange);
  static void Absorb(std::span<const uint8_t> data, Exchange& exchange);
  int WaitReadable(std::chrono::nanoseconds deadline);

  Options options_;
  Fd fd_;
  uint32_t next_sequence_ = 1;
  size_t send_limit_ = 0;
  size_t max_send_bytes_ = 0;
  uint32_t max_requests_per_send_ = 0;
  size_t queue_bytes_ = 0;
  std::vector<uint8_t> receive_buffer_;
  std::vector<uint8_t>
      request_;  ///< copy of the message of Request() and Dump(), with our flags and sequence
};

}  // namespace viaduct
