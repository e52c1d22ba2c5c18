#pragma once

#include <chrono>
#include <vector>

#include "core/event_socket.h"
#include "core/result.h"
#include "route/record.h"

namespace viaduct::route {

/// Subscription to changes of links and addresses in the network namespace in which it was opened.
class RouteEvents {
 public:
  static Result<RouteEvents> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Blocks until there are events, until Wake() or for `longest` (then empty; negative: no limit). Lost
  /// events (ENOBUFS) are an event of kind kOverrun. One call at a time.
  Result<std::vector<EventRecord>> Next(std::chrono::milliseconds longest = std::chrono::milliseconds(-1));
  /// Makes the running Next(), or the next one, return. From any thread; NB: the object must outlive the
  /// call.
  void Wake() const { socket_.Wake(); }

 private:
  explicit RouteEvents(EventSocket socket) : socket_(std::move(socket)) {}
  Result<std::vector<EventRecord>> Drain();

  EventSocket socket_;
};

}  // namespace viaduct::route
