// The conversations of a NetlinkSocket: batches without acknowledgements, single requests, dumps.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/netlink_socket.h"
#include "core/poll_until.h"

namespace viaduct {

namespace {

// Attempts to dump a table that changes during each attempt.
constexpr int kMaxDumpAttempts = 8;

// sock_setsockopt() takes at most half of INT_MAX and doubles it.
constexpr size_t kLargestSendBuffer = 1 << 30;

bool IsOutOfRoom(int code) { return code == EMSGSIZE || code == ENOBUFS || code == ENOMEM; }

/// Appends a failure for every message of the span without a reply.
void FailUnanswered(const std::vector<bool>& answered, uint32_t first_index, Failure failure,
                    std::vector<Failure>& failures) {
  for (uint32_t i = 0; i < answered.size(); ++i) {
    if (answered[i]) continue;
    failure.index = first_index + i;
    failures.push_back(failure);
  }
}

}  // namespace

void NetlinkSocket::Transact(std::span<const uint8_t> messages, uint32_t first_sequence, uint32_t count,
                             uint32_t index_base, BatchOutcome& outcome) {
  if (count > 0) TransactSpan({messages, first_sequence, count, index_base}, outcome);
}

void NetlinkSocket::TransactSpan(const Span& span, BatchOutcome& outcome) {
  const int code = Send(span.messages);
  if (code == 0) {
    CollectErrors(span, outcome);
  } else if (IsOutOfRoom(code) && span.count > 1) {
    SplitSpan(span, outcome);
  } else {
    // Refused before the kernel read the first message: nothing was applied.
    FailUnanswered(std::vector<bool>(span.count), span.first_index, {0, code, false, {}}, outcome.failures);
  }
}

void NetlinkSocket::SplitSpan(const Span& span, BatchOutcome& outcome) {
  const uint32_t half = span.count / 2;
  MessageReader reader(span.messages);
  size_t boundary = 0;
  for (uint32_t i = 0; i < half; ++i) {
    const auto message = reader.Next();
    if (message) boundary += NLMSG_ALIGN(message->header.nlmsg_len);
  }
  TransactSpan({span.messages.first(boundary), span.first_sequence, half, span.first_index}, outcome);
  TransactSpan({span.messages.subspan(boundary), span.first_sequence + half, span.count - half,
                span.first_index + half},
               outcome);
}

void NetlinkSocket::CollectErrors(const Span& span, BatchOutcome& outcome) {
  std::vector<bool> answered(span.count);
  std::vector<Failure> failures;
  int lost = 0;  // errno that hid at least one reply
  for (;;) {
    const Received received = Receive();
    if (received.error == EAGAIN) break;
    if (received.error != 0) {
      lost = received.error;
      // After an overrun or a too long datagram the queue is still valid. Other errors would repeat.
      if (lost == ENOBUFS || lost == EMSGSIZE) continue;
      break;
    }
    MessageReader reader(received.data);
    while (const auto message = reader.Next()) {
      const uint32_t offset = message->header.nlmsg_seq - span.first_sequence;
      if (message->header.nlmsg_type != NLMSG_ERROR || offset >= span.count || answered[offset]) continue;
      auto report = DecodeError(*message);
      if (!report) {
        lost = EPROTO;
        continue;
      }
      answered[offset] = true;
      if (report->code == 0) continue;
      failures.push_back({span.first_index + offset,
                          report->code,
                          false,
                          std::move(report->text),
                          {report->request.begin(), report->request.end()}});
    }
    if (reader.malformed()) lost = EPROTO;
  }
  if (lost != 0) FailUnanswered(answered, span.first_index, {0, lost, true, {}}, failures);
  std::sort(failures.begin(), failures.end(),
            [](const Failure& a, const Failure& b) { return a.index < b.index; });
  outcome.applied += span.count - static_cast<uint32_t>(failures.size());
  std::move(failures.begin(), failures.end(), std::back_inserter(outcome.failures));
}

NetlinkSocket::Sent NetlinkSocket::SendWhole(std::span<const uint8_t> messages, const OnAnswer& on_answer) {
  if (messages.size() > send_limit_ && messages.size() < kLargestSendBuffer) {
    const int real = WantBuffer(static_cast<int>(messages.size()) + kSendOverhead, SO_SNDBUFFORCE, SO_SNDBUF);
    if (real > kSendOverhead) send_limit_ = static_cast<size_t>(real - kSendOverhead);
  }
  if (messages.size() > send_limit_) return {EMSGSIZE, 0};
  if (const int code = Send(messages); code != 0) return {code, 0};
  Sent sent;
  for (;;) {
    const Received received = Receive();
    if (received.error == EAGAIN) return sent;
    if (received.error != 0) {
      sent.lost = received.error;
      // As in CollectErrors(): the queue is still valid after these two errors.
      if (sent.lost == ENOBUFS || sent.lost == EMSGSIZE) continue;
      return sent;
    }
    MessageReader reader(received.data);
    while (const auto message = reader.Next()) on_answer(*message);
    if (reader.malformed()) sent.lost = EPROTO;
  }
}

Status NetlinkSocket::Request(std::span<const uint8_t> message, const OnMessage& on_message) {
  Exchange exchange;
  exchange.on_message = &on_message;
  exchange.deadline = Deadline();
  return Converse(message, NLM_F_ACK, exchange);
}

Status NetlinkSocket::Dump(std::span<const uint8_t> message, const OnMessage& on_message,
                           const std::function<void()>& on_restart) {
  const auto deadline = Deadline();
  for (int attempt = 0; attempt < kMaxDumpAttempts; ++attempt) {
    if (attempt > 0) on_restart();
    Exchange exchange;
    exchange.on_message = &on_message;
    exchange.deadline = deadline;
    Status status = Attempt(message, exchange);
    if (!status.ok()) return status;
    if (!exchange.interrupted) return status;
  }
  return Error{EINTR, {}, "the table changed during each attempt to read it"};
}

Status NetlinkSocket::DumpOnce(std::span<const uint8_t> message, const OnMessage& on_message,
                               bool& interrupted) {
  Exchange exchange;
  exchange.on_message = &on_message;
  exchange.deadline = Deadline();
  Status status = Attempt(message, exchange);
  interrupted = exchange.interrupted;
  return status;
}

Status NetlinkSocket::Attempt(std::span<const uint8_t> message, Exchange& exchange) {
  Status status = Converse(message, NLM_F_DUMP, exchange);
  if (!exchange.concluded) {
    // The kernel's dump still runs, and the kernel would refuse the next one with EBUSY. Ignoring the
    // result: the next Send() tries again.
    (void)Connect();
  }
  return status;
}

std::chrono::nanoseconds NetlinkSocket::Deadline() const { return options_.calls->Now() + options_.deadline; }

Status NetlinkSocket::Converse(std::span<const uint8_t> message, uint16_t flags, Exchange& exchange) {
  if (message.size() < NLMSG_HDRLEN) return Error{EINVAL, {}, {}};
  request_.assign(message.begin(), message.end());
  nlmsghdr header{};
  memcpy(&header, request_.data(), sizeof header);
  header.nlmsg_flags |= NLM_F_REQUEST | flags;
  header.nlmsg_seq = exchange.sequence = TakeSequence();
  memcpy(request_.data(), &header, sizeof header);
  const int code = Send(request_);
  if (code != 0) {
    exchange.concluded = true;  // the request was not sent
    return Error{code, {}, {}};
  }
  return AwaitConclusion(exchange);
}

Status NetlinkSocket::AwaitConclusion(Exchange& exchange) {
  for (;;) {
    const Received received = Receive();
    if (received.error == EAGAIN) {
      const int code = WaitReadable(exchange.deadline);
      if (code != 0) return Error{code, {}, {}};
      continue;
    }
    if (received.error != 0) return Error{received.error, {}, {}};
    Absorb(received.data, exchange);
    if (exchange.error.code != 0) return exchange.error;
    if (exchange.concluded) return Ok();
    if (options_.calls->Now() >= exchange.deadline) return Error{ETIMEDOUT, {}, {}};
  }
}

void NetlinkSocket::Absorb(std::span<const uint8_t> data, Exchange& exchange) {
  MessageReader reader(data);
  while (const auto message = reader.Next()) {
    const nlmsghdr& header = message->header;
    if (header.nlmsg_seq != exchange.sequence || exchange.concluded)
      continue;  // late replies to an earlier request
    if ((header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) exchange.interrupted = true;
    if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE) {
      const auto report = header.nlmsg_type == NLMSG_DONE ? DecodeDone(*message) : DecodeError(*message);
      exchange.concluded = report.has_value();
      exchange.error = report ? Error{report->code, {}, report->text} : Error{EPROTO, {}, {}};
    } else if (header.nlmsg_type >= NLMSG_MIN_TYPE) {
      (*exchange.on_message)(header.nlmsg_type, message->payload);
    }
  }
  if (reader.malformed()) exchange.error = {EPROTO, {}, {}};
}

int NetlinkSocket::WaitReadable(std::chrono::nanoseconds deadline) {
  if (options_.calls->Now() >= deadline) return ETIMEDOUT;
  pollfd readable{fd_.get(), POLLIN, 0};
  const auto ready = PollUntil(*options_.calls, {&readable, 1}, deadline);
  if (!ready.ok()) return ready.error().code;
  return ready.value() > 0 ? 0 : ETIMEDOUT;
}

}  // namespace viaduct
