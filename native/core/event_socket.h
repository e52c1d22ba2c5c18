#pragma once

#include <cerrno>
#include <chrono>
#include <utility>

#include "core/fd.h"
#include "core/netlink_socket.h"
#include "core/result.h"

namespace viaduct {

/// A subscription to multicast groups, whose wait another thread can end.
class EventSocket {
 public:
  /// `options.groups` names the groups.
  static Result<EventSocket> Open(const NetlinkSocket::Options& options);

  /// The end of a wait of `longest` from now on. Negative: no limit.
  std::chrono::nanoseconds DeadlineIn(std::chrono::milliseconds longest) const;
  bool IsPast(std::chrono::nanoseconds deadline) const { return calls_->Now() >= deadline; }
  /// Blocks until there is something to receive (true), until Wake() or until the deadline (false). One call
  /// at a time.
  Result<bool> Wait(std::chrono::nanoseconds deadline);
  /// Makes the running Wait(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const;
  /// NetlinkSocket::Receive().
  NetlinkSocket::Received Receive() { return socket_.Receive(); }
  /// Whether this error of Receive() means that events are lost, and that the next ones can be received.
  static bool IsLoss(int code) { return code == ENOBUFS || code == EMSGSIZE || code == ENOMEM; }

 private:
  EventSocket(SocketCalls& calls, NetlinkSocket socket, Fd wake)
      : calls_(&calls), socket_(std::move(socket)), wake_(std::move(wake)) {}

  SocketCalls* calls_;
  NetlinkSocket socket_;
  Fd wake_;  ///< eventfd
};

}  // namespace viaduct
