#include "relay/tcp_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "relay/socket_options.h"
#include "relay/tcp_proxy.h"

namespace viaduct::relay {

namespace {

using std::chrono::milliseconds;

/// Time for one attempt to connect, as in kube-proxy's userspace mode. Each one that runs out leads to the
/// next endpoint.
constexpr std::array kConnectTimes{milliseconds(250), milliseconds(500), milliseconds(1000),
                                   milliseconds(2000)};
/// Bounds the sockets that one client can cause.
constexpr uint32_t kMostRefusals = 16;
/// The endpoint accepted, and has reset the connection since. NB: another attempt would let each relay of a
/// circle try all of its endpoints.
bool IsReset(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNRESET;
}

constexpr uint32_t kEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;

}  // namespace

TcpConnection::TcpConnection(TcpProxy& proxy, Fd client, const Origin& origin, Verdict verdict,
                             std::shared_ptr<Service> service)
    : proxy_(proxy),
      service_(std::move(service)),
      origin_(origin),
      address_(origin.client.Ip()),
      verdict_(verdict),
      client_(*this),
      upstream_(*this),
      own_socket_(proxy.context().shared.own_streams),
      timer_(proxy.context().loop, upstream_),
      forward_(service_->descriptors),
      backward_(service_->descriptors) {
  client_.side.fd = std::move(client);
  service_->descriptors += kDescriptors;
  proxy_.context().shared.descriptors.Take(kDescriptors);
  proxy_.context().counters.connections.Add(1);
}

TcpConnection::~TcpConnection() {
  service_->descriptors -= kDescriptors;
  proxy_.context().shared.descriptors.Give(kDescriptors);
  proxy_.context().counters.connections.Add(-1);
}

void TcpConnection::Start(Owner self) {
  self_ = self;
  Context& context = proxy_.context();
  if (!context.loop.Watch(client_.side.fd.get(), kEvents, client_)) return Abort();
  Connect(service_->Choose(verdict_, address_, context.loop.now()));
}

void TcpConnection::Connect(const SocketAddress& endpoint) {
  endpoint_ = endpoint;
  timer_.Cancel();
  own_socket_.Leave();
  upstream_.side = {};
  Fd& fd = upstream_.side.fd;
  fd = Fd(socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    proxy_.context().shared.descriptor_shortage.Note(proxy_.context().loop.now());
    return Abort();
  }
  SetStreamOptions(fd.get());
  SetHopLimit(fd.get(), endpoint.family(), origin_.hop_limit);
  const int result = connect(fd.get(), endpoint.data(), endpoint.size());
  if (result != 0 && errno != EINPROGRESS) {
    // All local ports have connections to this endpoint. Others may have room.
    if (errno == EADDRNOTAVAIL) proxy_.context().shared.tcp_port_shortage.Note(proxy_.context().loop.now());
    return Refused();
  }
  // Another thread may accept a connection to the relay itself before this line. A later round of the loop
  // ends it: within one thread this line is first.
  own_socket_.Enter(fd.get(), endpoint);
  Loop& loop = proxy_.context().loop;
  if (!loop.Watch(fd.get(), kEvents, upstream_)) return Abort();
  // The event follows even for a connection that is ready: edge-triggered epoll reports the state at first.
  timer_.Set(loop.now() + kConnectTimes.at(timeouts_));
}

void TcpConnection::ConnectNext() {
  // A service without endpoints now: its settings have changed meanwhile.
  if (service_->EndpointsOf(verdict_).empty()) return Abort();
  Connect(service_->ChooseNext(verdict_, address_, proxy_.context().loop.now()));
}

/// The endpoint refused, or cannot be reached.
void TcpConnection::Refused() {
  ++refusals_;
  const bool is_last = refusals_ >= kMostRefusals || refusals_ >= service_->EndpointsOf(verdict_).size();
  if (!is_last) return ConnectNext();
  service_->ForgetClient(address_);
  proxy_.context().counters.failed.Add(1);
  Abort();
}

void TcpConnection::OnTimer() {
  if (is_closed_ || is_connected_) return;
  if (++timeouts_ < kConnectTimes.size()) return ConnectNext();
  service_->ForgetClient(address_);
  proxy_.context().counters.failed.Add(1);
  Abort();
}

void TcpConnection::OnEvents(End& end, uint32_t events) {
  if (is_closed_) return;
  Side& side = end.side;
  const bool has_failed = (events & EPOLLERR) != 0;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) side.is_readable = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP)) != 0) side.has_end = true;
  if ((events & EPOLLPRI) != 0) side.has_urgent = true;
  if ((events & EPOLLOUT) != 0) side.is_writable = true;
  if (!is_connected_) {
    if (&end == &client_) {
      // The client gave up.
      if (has_failed) Abort();
      return;
    }
    if (has_failed || (events & EPOLLHUP) != 0) return IsReset(side.fd.get()) ? Abort() : Refused();
    if (!side.is_writable) return;
    is_connected_ = true;
    timer_.Cancel();
  }
  Advance();
  // A reset: what came before it has been passed on, and what waits behind a slow reader is lost.
  if (has_failed && !is_closed_) Abort();
}

void TcpConnection::Advance() {
  const Progress progress = MoveBoth();
  Context& context = proxy_.context();
  context.counters.received_bytes.Add(static_cast<int64_t>(forward_.TakeDelivered()));
  context.counters.sent_bytes.Add(static_cast<int64_t>(backward_.TakeDelivered()));
  if (progress == Progress::kBroken) return Abort();
  if (progress == Progress::kEnded) return Close();
  if (progress == Progress::kMore) context.loop.Postpone(client_);
}

Progress TcpConnection::MoveBoth() {
  StreamTools& tools = proxy_.tools();
  const Progress forward = forward_.Move(client_.side, upstream_.side, tools);
  if (forward == Progress::kBroken) return forward;
  const Progress backward = backward_.Move(upstream_.side, client_.side, tools);
  if (backward == Progress::kBroken) return backward;
  if (forward == Progress::kEnded && backward == Progress::kEnded) return Progress::kEnded;
  const bool has_more = forward == Progress::kMore || backward == Progress::kMore;
  return has_more ? Progress::kMore : Progress::kWaits;
}

void TcpConnection::Abort() {
  CloseWithReset(std::exchange(client_.side.fd, {}));
  if (is_connected_) CloseWithReset(std::exchange(upstream_.side.fd, {}));
  Close();
}

FlowRecord TcpConnection::ToRecord() const {
  FlowRecord record{};
  origin_.client.Write(record.client, record.client_port);
  origin_.frontend.Write(record.frontend, record.frontend_port);
  endpoint_.Write(record.endpoint, record.endpoint_port);
  record.family = static_cast<uint8_t>(origin_.frontend.family());
  record.protocol = IPPROTO_TCP;
  record.is_connected = is_connected_ ? 1 : 0;
  return record;
}

void TcpConnection::Close() {
  is_closed_ = true;
  timer_.Cancel();
  own_socket_.Leave();
  proxy_.context().loop.Forget(client_);
  forward_.Drop(proxy_.tools());
  backward_.Drop(proxy_.tools());
  client_.side.fd.Reset();
  upstream_.side.fd.Reset();
  proxy_.Bury(self_);
}

}  // namespace viaduct::relay
