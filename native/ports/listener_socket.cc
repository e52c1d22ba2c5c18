#include "ports/listener_socket.h"

#include <linux/netlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "ports/diag.h"
#include "ports/socket_owners.h"

namespace viaduct::ports {

namespace {

constexpr const char* kOperation = "list listening sockets";

/// The sockets of one address family that take traffic of `family` to one of the ports.
Result<std::vector<DiagSocket>> Dump(NetlinkSocket& socket, const PortRecord& kind, uint8_t family,
                                     const std::set<uint16_t>& ports) {
  RequestBuffer<kMaxDiagBytes> request;
  MessageBuilder builder(request);
  std::vector<uint16_t> filter;
  if (ports.size() <= kMaxFilteredPorts) filter.assign(ports.begin(), ports.end());
  if (!EncodeDumpListeners(builder, kind.family, kind.protocol, filter))
    return Error{EMSGSIZE, kOperation, {}};
  std::vector<DiagSocket> found;
  bool is_malformed = false;
  Status status = socket.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        auto decoded = DecodeListener(payload, kind.protocol);
        is_malformed = is_malformed || !decoded;
        if (!decoded || !ports.contains(decoded->listener.port)) return;
        if (decoded->listener.family != family && !decoded->is_dual_stack) return;
        decoded->listener.family = family;
        found.push_back(*decoded);
      },
      [&] {
        found.clear();
        is_malformed = false;
      });
  if (!status.ok()) return Error{status.error().code, kOperation, status.error().text};
  if (is_malformed) return Error{EPROTO, kOperation, {}};
  return found;
}

void NameProcesses(std::vector<DiagSocket>& sockets) {
  std::vector<uint32_t> inodes;
  for (const DiagSocket& socket : sockets)
    if (socket.listener.is_held == 0) inodes.push_back(socket.inode);
  const auto owners = FindOwners(inodes);
  for (DiagSocket& socket : sockets) {
    const auto owner = owners.find(socket.inode);
    if (owner == owners.end()) continue;
    ListenerRecord& listener = socket.listener;
    listener.pid = owner->second.pid;
    listener.is_own = owner->second.is_own ? 1 : 0;
    memcpy(listener.name, owner->second.name.data(),
           std::min(owner->second.name.size(), sizeof listener.name - 1));
  }
}

}  // namespace

Result<ListenerSocket> ListenerSocket::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_SOCK_DIAG;
  options.calls = &calls;
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return ListenerSocket(std::move(socket.value()));
}

Result<std::vector<DiagSocket>> ListenerSocket::FindSockets(uint8_t family,
                                                            std::span<const PortRecord> ports) {
  std::vector<DiagSocket> sockets;
  for (const uint8_t protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
    std::set<uint16_t> wanted;
    for (const PortRecord& port : ports)
      if (port.protocol == protocol) wanted.insert(port.port);
    if (wanted.empty()) continue;
    for (const uint8_t kind : {AF_INET, AF_INET6}) {
      if (family == AF_INET6 && kind == AF_INET) continue;
      PortRecord asked{};
      asked.family = kind;
      asked.protocol = protocol;
      auto found = Dump(socket_, asked, family, wanted);
      // A kernel without IPv6 has no such sockets.
      if (!found.ok() && kind != family && found.error().code == ENOENT) continue;
      if (!found.ok()) return found.error();
      sockets.insert(sockets.end(), found.value().begin(), found.value().end());
    }
  }
  return sockets;
}

Result<std::vector<ListenerRecord>> ListenerSocket::Find(uint8_t family, std::span<const PortRecord> ports) {
  auto found = FindSockets(family, ports);
  if (!found.ok()) return found.error();
  std::vector<DiagSocket>& sockets = found.value();
  NameProcesses(sockets);
  std::vector<ListenerRecord> listeners;
  listeners.reserve(sockets.size());
  for (const DiagSocket& socket : sockets) listeners.push_back(socket.listener);
  return listeners;
}

}  // namespace viaduct::ports
