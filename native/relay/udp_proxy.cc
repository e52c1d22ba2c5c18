#include "relay/udp_proxy.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>
#include <vector>

namespace viaduct::relay {

namespace {

/// The endpoint's host answered "port unreachable".
bool IsRefusal(int code) { return code == ECONNREFUSED; }

/// The next end of a flow is not looked for earlier than this: many flows end at once.
constexpr std::chrono::milliseconds kExpiryStep{10};

/// Flows of one listener with a socket of their own. The kernel looks for the socket of a datagram in a list
/// of all sockets of an address and port: 1,024 take some 10 us. With more flows the listener stays open, and
/// discards the datagrams of new clients.
constexpr size_t kMostParted = 1024;

/// Time until a listener that found no descriptor tries again to open.
constexpr std::chrono::milliseconds kPause{50};

/// Time until a wildcard whose port another program has tries again to open. Each attempt looks at the
/// sockets of the port.
constexpr std::chrono::seconds kPauseOfTaken{2};

/// The address that the client sent to. The kernel reports it for a wildcard (ListenerSockets).
SocketAddress FrontendOf(const UdpListener& listener, const Arrival& arrival) {
  const bool is_single = !listener.address.IsWildcard() || !arrival.destination.has_value();
  return is_single ? listener.address : SocketAddress(*arrival.destination, listener.address.port());
}

bool HasEndpoints(Verdict verdict) { return verdict == Verdict::kCluster || verdict == Verdict::kLocal; }

}  // namespace

void UdpFlow::OnEvents(uint32_t) {
  if (upstream.is_open()) proxy.Reply(*this);
  if (downstream.is_open()) proxy.Receive(listener, downstream.get());
}

void UdpListener::OnEvents(uint32_t) { proxy.Receive(*this, fd.get()); }
void UdpListener::OnTimer() { proxy.Change(*this); }

void UdpProxy::EndAll() {
  while (!flows_.empty()) End(flows_.front());
}

void UdpProxy::Detach(UdpListener& listener) {
  context_.loop.Unwatch(listener.fd.get());
  listener.pause.Cancel();
  while (!listener.flows.empty()) End(*listener.flows.begin()->second);
}

void UdpProxy::Change(UdpListener& listener) {
  listener.pause.Cancel();
  if (HasEndpoints(listener.near) || HasEndpoints(listener.far)) {
    const int error = listener.is_closed ? Reopen(listener) : 0;
    listener.is_closed = error != 0;
    const std::chrono::milliseconds pause = error == EADDRINUSE ? kPauseOfTaken : kPause;
    if (listener.is_closed) listener.pause.Set(context_.loop.now() + pause);
    return;
  }
  if (listener.is_closed || listener.flows.size() > kMostParted) return;
  const bool are_parted = std::all_of(listener.flows.begin(), listener.flows.end(),
                                      [&](const auto& entry) { return Part(*entry.second); });
  listener.is_closed = are_parted && CloseToClients(listener.fd.get());
}

/// 0 or errno. EADDRINUSE: another program has a port that a wildcard left meanwhile. Others: no descriptor
/// is free.
int UdpProxy::Reopen(UdpListener& listener) {
  // Not connect() with AF_UNSPEC: a socket of IPv6 would keep the address of its peer (__udp_disconnect()).
  auto socket = context_.shared.listeners.Open(IPPROTO_UDP, listener.address);
  const bool is_watched = socket.ok() && context_.loop.Watch(socket.value().get(), EPOLLIN, listener);
  if (!is_watched) {
    const int error = socket.ok() ? EMFILE : socket.error().code;
    Shared& shared = context_.shared;
    (error == EADDRINUSE ? shared.taken_ports : shared.descriptor_shortage).Note(context_.loop.now());
    return error;
  }
  context_.loop.Unwatch(listener.fd.get());
  listener.fd = std::move(socket.value());
  return 0;
}

/// Gives the flow a socket of its own towards its client. False: no descriptor is free.
bool UdpProxy::Part(UdpFlow& flow) {
  if (flow.downstream.is_open()) return true;
  if (!context_.shared.descriptors.Allows(flow.service->descriptors)) return false;
  Fd downstream = context_.shared.listeners.OpenForClient(flow.ends.remote, flow.ends.local);
  if (!downstream.is_open() || !context_.loop.Watch(downstream.get(), EPOLLIN, flow)) return false;
  flow.downstream = std::move(downstream);
  flow.service->descriptors += 1;
  context_.shared.descriptors.Take(1);
  return true;
}

void UdpProxy::List(std::vector<FlowRecord>& flows) const {
  for (const UdpFlow& flow : flows_) {
    FlowRecord& record = flows.emplace_back();
    flow.ends.local.Write(record.client, record.client_port);
    flow.ends.remote.Write(record.frontend, record.frontend_port);
    flow.endpoint.Write(record.endpoint, record.endpoint_port);
    record.family = static_cast<uint8_t>(flow.endpoint.family());
    record.protocol = IPPROTO_UDP;
    record.is_connected = 1;
  }
}

void UdpProxy::EndStale(Service& service) {
  if (service.flows.empty()) return;
  const auto& keeping = service.flow_endpoints();
  const std::unordered_set<SocketAddress, KeyHash> endpoints(keeping.begin(), keeping.end());
  const std::vector<UdpFlow*> flows(service.flows.begin(), service.flows.end());
  for (UdpFlow* flow : flows)
    if (!endpoints.contains(flow->endpoint)) End(*flow);
}

Datagrams& UdpProxy::datagrams() {
  if (datagrams_ == nullptr) datagrams_ = std::make_unique<Datagrams>();
  return *datagrams_;
}

void UdpProxy::Receive(UdpListener& listener, int fd) {
  Datagrams& batch = datagrams();
  const int received = batch.Receive(fd);
  if (received <= 0) return;
  const auto count = static_cast<size_t>(received);
  // Consecutive datagrams of one client to one address go out in one call.
  for (size_t first = 0; first < count;) {
    const Arrival arrival = ArrivalOf(batch.header(first));
    const auto is_alike = [&](size_t i) {
      const Arrival other = ArrivalOf(batch.header(i));
      return batch.source(i) == batch.source(first) && other.hop_limit == arrival.hop_limit &&
             other.destination == arrival.destination;
    };
    size_t end = first + 1;
    while (end < count && is_alike(end)) ++end;
    Forward(listener, arrival, first, end - first);
    first = end;
  }
}

void UdpProxy::Forward(UdpListener& listener, const Arrival& arrival, size_t first, size_t count) {
  if (IsSpent(arrival.hop_limit)) return context_.NoteSpentHops(count);
  Datagrams& batch = datagrams();
  const SocketPair ends{batch.source(first), FrontendOf(listener, arrival)};
  UdpFlow* flow = FlowOf(listener, ends, arrival);
  for (size_t i = first; i < first + count; ++i) batch.Prepare(i, nullptr);
  const size_t end = first + count;
  bool was_refused = false;
  while (flow != nullptr && first < end) {
    const int sent = batch.Send(flow->upstream.get(), first, end - first);
    if (sent > 0) {
      for (const size_t stop = first + static_cast<size_t>(sent); first < stop; ++first)
        context_.counters.received_bytes.Add(static_cast<int64_t>(batch.bytes(first)));
    } else if (IsRefusal(errno) && !was_refused) {
      // An answer to an earlier datagram. These ones were not sent.
      was_refused = true;
      const Arrival of_flow{flow->interface_index, arrival.hop_limit};
      flow->service->ForgetClient(ends.local.Ip());
      End(*flow);
      flow = Start(listener, ends, of_flow);
    } else {
      ++first;  // lost, as in a full queue
    }
  }
}

UdpFlow* UdpProxy::FlowOf(UdpListener& listener, const SocketPair& ends, const Arrival& arrival) {
  const auto known = listener.flows.find(ends);
  if (known == listener.flows.end()) return Start(listener, ends, arrival);
  UdpFlow& flow = *known->second;
  Touch(flow);
  const HopLimit next = NextHopLimit(arrival.hop_limit);
  if (next != flow.hop_limit) SetHopLimit(flow.upstream.get(), flow.endpoint.family(), next);
  flow.hop_limit = next;
  return &flow;
}

/// Ends the oldest flow of a service that has its share. False: no room.
bool UdpProxy::MakeRoom(Service& service) {
  Shared& shared = context_.shared;
  const bool has_descriptor = shared.descriptors.Allows(service.descriptors);
  const bool has_port = shared.udp_ports.Allows(static_cast<uint32_t>(service.flows.size()));
  if (has_descriptor && has_port) return true;
  (has_descriptor ? shared.udp_port_shortage : shared.descriptor_shortage).Note(context_.loop.now());
  if (service.flows.empty()) return false;
  context_.counters.evicted.Add(1);
  End(*service.flows.front());
  return true;
}

/// A new flow. nullptr: the client is not served, or no descriptor is free.
UdpFlow* UdpProxy::Start(UdpListener& listener, const SocketPair& ends, const Arrival& arrival) {
  Service& service = *listener.service;
  if (!ServesAt(*context_.settings, listener, ends.remote.Ip())) return nullptr;
  if (context_.shared.own_datagrams.Contains(ends)) {
    context_.shared.loops.Note(context_.loop.now());
    return nullptr;
  }
  const IpKey client = ends.local.Ip();
  const Verdict verdict = Admit(*context_.settings, listener, client, arrival.interface_index);
  if (service.EndpointsOf(verdict).empty() || !MakeRoom(service)) return nullptr;
  const SocketAddress endpoint = service.Choose(verdict, client, context_.loop.now());
  Fd upstream(socket(endpoint.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!upstream.is_open()) {
    context_.shared.descriptor_shortage.Note(context_.loop.now());
    return nullptr;
  }
  if (connect(upstream.get(), endpoint.data(), endpoint.size()) != 0) {
    // EAGAIN: other programs have all local ports.
    if (errno == EAGAIN) context_.shared.udp_port_shortage.Note(context_.loop.now());
    service.ForgetClient(client);
    return nullptr;
  }
  UdpFlow& flow = flows_.emplace_back(*this, listener, ends, context_.shared.own_datagrams);
  flow.endpoint = endpoint;
  flow.interface_index = arrival.interface_index;
  flow.hop_limit = NextHopLimit(arrival.hop_limit);
  flow.service = listener.service;
  flow.upstream = std::move(upstream);
  SetHopLimit(flow.upstream.get(), endpoint.family(), flow.hop_limit);
  flow.own_socket.Enter(flow.upstream.get(), endpoint);
  flow.self = std::prev(flows_.end());
  flow.in_service = flow.service->flows.insert(flow.service->flows.end(), &flow);
  listener.flows.emplace(ends, &flow);
  flow.service->descriptors += 1;
  context_.shared.descriptors.Take(1);
  context_.shared.udp_ports.Take(1);
  context_.counters.flows.Add(1);
  if (!context_.loop.Watch(flow.upstream.get(), EPOLLIN, flow)) {
    End(flow);
    return nullptr;
  }
  context_.counters.started_flows.Add(1);
  Touch(flow);
  return &flow;
}

void UdpProxy::Reply(UdpFlow& flow) {
  Datagrams& batch = datagrams();
  const int received = batch.Receive(flow.upstream.get());
  if (received < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    flow.service->ForgetClient(flow.ends.local.Ip());
    return End(flow);
  }
  Touch(flow);
  const auto count = static_cast<size_t>(received);
  const bool is_parted = flow.downstream.is_open();
  const int downstream = is_parted ? flow.downstream.get() : flow.listener.fd.get();
  // A wildcard would send from the address of the route to the client.
  const bool is_shared = !is_parted && flow.listener.address.IsWildcard();
  for (size_t i = 0; i < count; ++i)
    batch.Prepare(i, &flow.ends.local, is_shared ? &flow.ends.remote : nullptr);
  for (size_t first = 0; first < count;) {
    const int sent = batch.Send(downstream, first, count - first);
    if (sent <= 0) {
      ++first;  // lost, as in a full queue
      continue;
    }
    for (const size_t stop = first + static_cast<size_t>(sent); first < stop; ++first)
      context_.counters.sent_bytes.Add(static_cast<int64_t>(batch.bytes(first)));
  }
}

void UdpProxy::Touch(UdpFlow& flow) {
  flow.last_use = context_.loop.now();
  flows_.splice(flows_.end(), flows_, flow.self);
  auto& of_service = flow.service->flows;
  of_service.splice(of_service.end(), of_service, flow.in_service);
  if (!expiry_.is_set()) Reschedule();
}

void UdpProxy::Reschedule() {
  if (flows_.empty()) return;
  const auto due = flows_.front().last_use + context_.settings->udp_idle;
  expiry_.Set(std::max(due, context_.loop.now() + kExpiryStep));
}

void UdpProxy::OnTimer() {
  const auto oldest = context_.loop.now() - context_.settings->udp_idle;
  while (!flows_.empty() && flows_.front().last_use <= oldest) End(flows_.front());
  Reschedule();
}

void UdpProxy::End(UdpFlow& flow) {
  const uint32_t descriptors = flow.downstream.is_open() ? 2 : 1;
  flow.own_socket.Leave();
  flow.upstream.Reset();
  flow.downstream.Reset();
  flow.listener.flows.erase(flow.ends);
  flow.service->flows.erase(flow.in_service);
  flow.service->descriptors -= descriptors;
  context_.shared.descriptors.Give(descriptors);
  context_.shared.udp_ports.Give(1);
  context_.counters.flows.Add(-1);
  ended_.splice(ended_.end(), flows_, flow.self);
}

}  // namespace viaduct::relay
