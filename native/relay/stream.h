#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "relay/context.h"
#include "relay/pipe_pool.h"

namespace viaduct::relay {

/// One end of a connection. `is_readable` and `is_writable` hold until a call would block.
struct Side {
  Fd fd;
  bool is_readable = false;
  bool is_writable = false;
  bool has_end = false;     ///< the peer has sent its end: a short read is not the last one
  bool has_urgent = false;  ///< urgent data split reads: a short read does not mean that no more bytes wait
};

/// Tools that all streams of a worker share.
struct StreamTools {
  explicit StreamTools(Budget& descriptors) : pipes(descriptors) {}

  PipePool pipes;
  bool can_splice = true;  ///< false: this kernel has no splice() of sockets (gVisor)
  std::array<uint8_t, 16'384> buffer{};
};

enum class Progress {
  kWaits,   ///< until an end is readable or writable
  kMore,    ///< there may be more to do; others have their turn first
  kEnded,   ///< the end of the source has reached the sink
  kBroken,  ///< an end failed
};

/// The bytes of one direction of a connection. Small messages are copied through a buffer of the worker;
/// when a read fills the buffer, the next ones go through a pipe without a copy. Between two calls it holds
/// at most one buffer or one pipe of bytes, which the sink has not taken.
class Stream {
 public:
  /// `held`: the descriptors of the service, which its pipes are part of.
  explicit Stream(uint32_t& held) : held_(held) {}
  Progress Move(Side& source, Side& sink, StreamTools& tools);
  /// Bytes that the sink has taken since the last call.
  size_t TakeDelivered();
  /// For a connection that ends: gives the pipe back.
  void Drop(StreamTools& tools);

 private:
  /// > 0: bytes; 0: end; -1: errno.
  ssize_t Fill(Side& source, Side& sink, StreamTools& tools);
  ssize_t Copy(Side& source, Side& sink, StreamTools& tools);
  bool Drain(Side& sink, StreamTools& tools);
  ssize_t DrainPipe(Side& sink, StreamTools& tools);
  bool IsEmpty() const { return rest_.empty() && piped_ == 0; }
  void Rest(StreamTools& tools);

  uint32_t& held_;
  std::vector<uint8_t> rest_;  ///< read, but not yet written
  Pipe pipe_;
  size_t piped_ = 0;  ///< bytes in the pipe
  size_t delivered_ = 0;
  bool is_bulk_ = false;  ///< reads go through a pipe
  bool has_ended_ = false;
  bool is_done_ = false;
};

}  // namespace viaduct::relay
