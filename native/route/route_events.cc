#include "route/route_events.h"

#include <linux/rtnetlink.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/message_reader.h"
#include "route/decode.h"

namespace viaduct::route {

namespace {

// Room for some 20,000 messages: 10,000 addresses set at once must not overflow while the event loop is busy.
constexpr int kBufferBytes = 16 << 20;
// Most datagrams per Next(), to bound one result during a flood.
constexpr int kMaxDatagrams = 1024;

}  // namespace

Result<RouteEvents> RouteEvents::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_ROUTE;
  options.groups = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR};
  options.buffer_bytes = kBufferBytes;
  options.calls = &calls;
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return Error{errno, "open eventfd", {}};
  return RouteEvents(calls, std::move(socket.value()), std::move(wake));
}

Result<std::vector<EventRecord>> RouteEvents::Next(std::chrono::milliseconds longest) {
  for (;;) {
    pollfd fds[] = {{socket_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const int ready = calls_->Poll(fds, std::size(fds), static_cast<int>(longest.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Error{errno, "wait for events", {}};
    if (ready == 0) return std::vector<EventRecord>{};
    if (fds[1].revents != 0) {
      uint64_t count = 0;
      // Ignoring the result: the descriptor does not block. It is empty if another Next() has read it.
      (void)!read(wake_.get(), &count, sizeof count);
      return std::vector<EventRecord>{};
    }
    auto events = Drain();
    if (!events.ok() || !events.value().empty()) return events;
  }
}

Result<std::vector<EventRecord>> RouteEvents::Drain() {
  std::vector<EventRecord> events;
  for (int i = 0; i < kMaxDatagrams; ++i) {
    const NetlinkSocket::Received received = socket_.Receive();
    if (received.error == EAGAIN) break;
    if (received.error == ENOBUFS || received.error == EMSGSIZE) {
      EventRecord overrun{};
      overrun.kind = EventKind::kOverrun;
      events.push_back(overrun);
      continue;
    }
    if (received.error != 0) return Error{received.error, "receive events", {}};
    MessageReader reader(received.data);
    while (const auto message = reader.Next()) {
      if (const auto event = DecodeEvent(message->header.nlmsg_type, message->payload))
        events.push_back(*event);
    }
  }
  return events;
}

void RouteEvents::Wake() const {
  const uint64_t one = 1;
  // Ignoring the result: it fails only if the counter is full, and then the waiter is already awake.
  (void)!write(wake_.get(), &one, sizeof one);
}

}  // namespace viaduct::route
