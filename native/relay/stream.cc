#include "relay/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace viaduct::relay {

namespace {

/// Bytes that one direction moves before others have their turn: some 0.2 ms.
constexpr size_t kTurnBytes = 1 << 20;
/// Bytes of one splice(): more than a pipe holds.
constexpr size_t kSpliceBytes = 1 << 20;

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

/// splice() of sockets is absent: sandboxed kernels.
bool IsAbsent() { return errno == EINVAL || errno == ENOSYS; }

}  // namespace

Progress Stream::Move(Side& source, Side& sink, StreamTools& tools) {
  if (is_done_) return Progress::kEnded;
  size_t moved = 0;
  while (moved < kTurnBytes) {
    if (!IsEmpty()) {
      if (!sink.is_writable) break;
      if (!Drain(sink, tools)) return Progress::kBroken;
      if (!IsEmpty()) continue;
    }
    if (has_ended_) {
      is_done_ = true;
      Drop(tools);
      return shutdown(sink.fd.get(), SHUT_WR) == 0 ? Progress::kEnded : Progress::kBroken;
    }
    // Waits for room before it reads: so it holds nothing for a peer that does not read.
    if (!source.is_readable || !sink.is_writable) break;
    const ssize_t count = Fill(source, sink, tools);
    if (count > 0)
      moved += static_cast<size_t>(count);
    else if (count == 0)
      has_ended_ = true;
    else if (!WouldBlock())
      return Progress::kBroken;
    else if (errno == EAGAIN)
      source.is_readable = false;
  }
  if (moved >= kTurnBytes) return Progress::kMore;
  // The next bytes of a slow stream are small again.
  if (moved < tools.buffer.size()) is_bulk_ = false;
  if (piped_ == 0) Rest(tools);
  return Progress::kWaits;
}

ssize_t Stream::Fill(Side& source, Side& sink, StreamTools& tools) {
  if (!is_bulk_ || !tools.can_splice) return Copy(source, sink, tools);
  if (!pipe_.is_open()) pipe_ = tools.pipes.Take(held_);
  if (!pipe_.is_open()) return Copy(source, sink, tools);
  const ssize_t count = splice(source.fd.get(), nullptr, pipe_.write_end.get(), nullptr, kSpliceBytes,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (count > 0) piped_ = static_cast<size_t>(count);
  if (count >= 0 || !IsAbsent()) return count;
  tools.can_splice = false;
  return Copy(source, sink, tools);
}

/// Reads into the buffer and writes at once. Keeps what the sink does not take.
ssize_t Stream::Copy(Side& source, Side& sink, StreamTools& tools) {
  const ssize_t count = recv(source.fd.get(), tools.buffer.data(), tools.buffer.size(), 0);
  if (count <= 0) return count;
  const auto bytes = static_cast<size_t>(count);
  is_bulk_ = bytes == tools.buffer.size();
  // A short read has emptied the socket (epoll(7)): no further call is needed to find that out.
  if (!is_bulk_ && !source.has_end && !source.has_urgent) source.is_readable = false;
  // A failure is met again by Drain().
  const ssize_t sent = send(sink.fd.get(), tools.buffer.data(), bytes, MSG_NOSIGNAL);
  const auto taken = static_cast<size_t>(std::max<ssize_t>(sent, 0));
  delivered_ += taken;
  if (taken < bytes) rest_.assign(tools.buffer.begin() + taken, tools.buffer.begin() + count);
  return count;
}

bool Stream::Drain(Side& sink, StreamTools& tools) {
  const ssize_t count =
      rest_.empty() ? DrainPipe(sink, tools) : send(sink.fd.get(), rest_.data(), rest_.size(), MSG_NOSIGNAL);
  if (count < 0) {
    if (errno == EAGAIN) sink.is_writable = false;
    return WouldBlock();
  }
  delivered_ += static_cast<size_t>(count);
  if (rest_.empty())
    piped_ -= static_cast<size_t>(count);
  else
    rest_.erase(rest_.begin(), rest_.begin() + count);
  return true;
}

ssize_t Stream::DrainPipe(Side& sink, StreamTools& tools) {
  const ssize_t count = splice(pipe_.read_end.get(), nullptr, sink.fd.get(), nullptr, piped_,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (count >= 0 || !IsAbsent()) return count;
  tools.can_splice = false;
  rest_.resize(piped_);
  const ssize_t read_back = read(pipe_.read_end.get(), rest_.data(), rest_.size());
  if (read_back < 0) return read_back;
  rest_.resize(static_cast<size_t>(read_back));
  piped_ -= rest_.size();
  return send(sink.fd.get(), rest_.data(), rest_.size(), MSG_NOSIGNAL);
}

size_t Stream::TakeDelivered() { return std::exchange(delivered_, 0); }

void Stream::Rest(StreamTools& tools) {
  if (pipe_.is_open()) tools.pipes.Give(std::exchange(pipe_, {}), held_);
  if (rest_.empty()) rest_ = {};
}

void Stream::Drop(StreamTools& tools) {
  if (piped_ > 0)
    tools.pipes.Discard(std::exchange(pipe_, {}), held_);
  else
    Rest(tools);
}

}  // namespace viaduct::relay
