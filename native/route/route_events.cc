#include "route/route_events.h"

#include <linux/rtnetlink.h>

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
  auto socket = EventSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return RouteEvents(std::move(socket.value()));
}

Result<std::vector<EventRecord>> RouteEvents::Next(std::chrono::milliseconds longest) {
  const auto deadline = socket_.DeadlineIn(longest);
  do {
    const auto readable = socket_.Wait(deadline);
    if (!readable.ok()) return readable.error();
    if (!readable.value()) return std::vector<EventRecord>{};
    auto events = Drain();
    if (!events.ok() || !events.value().empty()) return events;
  } while (!socket_.IsPast(deadline));
  return std::vector<EventRecord>{};
}

Result<std::vector<EventRecord>> RouteEvents::Drain() {
  std::vector<EventRecord> events;
  for (int i = 0; i < kMaxDatagrams; ++i) {
    const NetlinkSocket::Received received = socket_.Receive();
    if (received.error == EAGAIN) break;
    if (EventSocket::IsLoss(received.error)) {
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

}  // namespace viaduct::route
