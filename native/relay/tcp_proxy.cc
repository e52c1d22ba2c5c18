#include "relay/tcp_proxy.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "relay/arrival.h"

namespace viaduct::relay {

namespace {

/// Clients accepted in one turn of a listener: some 1 ms of work.
constexpr int kAcceptBatch = 16;
/// The clients in the backlog would end every wait of epoll at once while no descriptor is free.
constexpr std::chrono::milliseconds kPause{50};

bool IsShortage(int code) { return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM; }

/// The address that the client connected to.
SocketAddress FrontendOf(const TcpListener& listener, int client) {
  if (!listener.address.IsWildcard()) return listener.address;
  SocketAddress frontend;
  socklen_t length = SocketAddress::kRoom;
  // Ignoring the result: it does not fail for an accepted socket.
  (void)getsockname(client, frontend.data(), &length);
  return frontend;
}

}  // namespace

void TcpListener::OnEvents(uint32_t) { proxy.Accept(*this); }
void TcpListener::OnTimer() { proxy.Resume(*this); }

void TcpProxy::Detach(TcpListener& listener) {
  if (listener.fd.is_open()) context_.loop.Unwatch(listener.fd.get());
  listener.pause.Cancel();
}

void TcpProxy::Accept(TcpListener& listener) {
  for (int i = 0; i < kAcceptBatch; ++i) {
    SocketAddress peer;
    socklen_t length = SocketAddress::kRoom;
    Fd client(accept4(listener.fd.get(), peer.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (client.is_open())
      Begin(listener, std::move(client), peer);
    else if (IsShortage(errno))
      return Pause(listener);
    else if (errno == EAGAIN)
      return;
    else if (errno == EINVAL)
      return Reopen(listener);
    // Any other error is that of one client, which is gone (accept(2)).
  }
}

void TcpProxy::Begin(TcpListener& listener, Fd client, const SocketAddress& peer) {
  Counters& counters = context_.counters;
  counters.accepted.Add(1);
  const SocketAddress frontend = FrontendOf(listener, client.get());
  if (!ServesAt(*context_.settings, listener, frontend.Ip())) {
    counters.refused.Add(1);
    return CloseWithReset(std::move(client));
  }
  if (context_.shared.own_streams.Contains({peer, frontend})) {
    counters.refused.Add(1);
    context_.shared.loops.Note(context_.loop.now());
    return CloseWithReset(std::move(client));
  }
  const Arrival arrival = ArrivalOfStream(client.get(), peer.family());
  if (IsSpent(arrival.hop_limit)) {
    context_.NoteSpentHops(1);
    return CloseWithReset(std::move(client));
  }
  const IpKey address = peer.Ip();
  const Verdict verdict = Admit(*context_.settings, listener, address, arrival.interface_index);
  Service& service = *listener.service;
  if (service.EndpointsOf(verdict).empty()) {
    counters.refused.Add(1);
    return CloseWithReset(std::move(client));
  }
  if (!context_.shared.descriptors.Allows(service.descriptors)) {
    counters.shed.Add(1);
    context_.shared.descriptor_shortage.Note(context_.loop.now());
    return CloseWithReset(std::move(client));
  }
  connections_.push_back(std::make_unique<TcpConnection>(
      *this, std::move(client), TcpConnection::Origin{peer, frontend, NextHopLimit(arrival.hop_limit)},
      verdict, listener.service));
  connections_.back()->Start(std::prev(connections_.end()));
}

void TcpProxy::List(std::vector<FlowRecord>& flows) const {
  for (const auto& connection : connections_) flows.push_back(connection->ToRecord());
}

void TcpProxy::AbortAll() {
  while (!connections_.empty()) connections_.front()->Abort();
  Sweep();
}

void TcpProxy::Pause(TcpListener& listener) {
  context_.shared.descriptor_shortage.Note(context_.loop.now());
  context_.loop.Rewatch(listener.fd.get(), 0, listener);
  listener.pause.Set(context_.loop.now() + kPause);
}

void TcpProxy::Resume(TcpListener& listener) {
  if (!listener.fd.is_open()) return Reopen(listener);
  context_.loop.Rewatch(listener.fd.get(), EPOLLIN, listener);
}

/// Another program ended the listening state (SOCK_DESTROY, `ss -K`). The socket could listen again, but the
/// connections that it accepts would inherit its shutdown. So a new socket takes its place.
void TcpProxy::Reopen(TcpListener& listener) {
  Loop& loop = context_.loop;
  if (listener.fd.is_open()) {
    loop.Unwatch(listener.fd.get());
    listener.fd.Reset();
  }
  auto fd = context_.shared.listeners.Open(IPPROTO_TCP, listener.address);
  if (fd.ok() && loop.Watch(fd.value().get(), EPOLLIN, listener))
    listener.fd = std::move(fd.value());
  else
    listener.pause.Set(loop.now() + kPause);
}

void CloseWithReset(Fd fd) {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

}  // namespace viaduct::relay
