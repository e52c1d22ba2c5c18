#include "relay/arrival.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "relay/socket_options.h"

namespace viaduct::relay {

namespace {

/// The recommended default (RFC 1700), and that of Linux. It bounds the circles of clients that send more.
constexpr uint8_t kMostHops = 64;

template <typename T>
T Content(const cmsghdr* part) {
  T content{};
  memcpy(&content, CMSG_DATA(part), sizeof content);
  return content;
}

template <typename Address>
IpKey KeyOf(const Address& address, uint8_t family) {
  uint8_t bytes[16] = {};
  memcpy(bytes, &address, sizeof address);
  return MakeIpKey(bytes, family);
}

}  // namespace

bool ReportArrivals(int fd, int family) {
  const bool is_ipv4 = family == AF_INET;
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int yes = 1;
  SetOption(fd, level, is_ipv4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, yes);
  return setsockopt(fd, level, is_ipv4 ? IP_PKTINFO : IPV6_RECVPKTINFO, &yes, sizeof yes) == 0;
}

// ip_sockglue.c and ipv6_sockglue.c: both options return control messages. Those of an accepted socket hold
// the interface and the hop limit of the packet that completed its connection (tcp_v4_syn_recv_sock(),
// tcp_v6_syn_recv_sock()), also after a SYN cookie.
Arrival ArrivalOfStream(int fd, int family) {
  const bool is_ipv4 = family == AF_INET;
  alignas(cmsghdr) std::array<uint8_t, 256> control{};
  auto length = static_cast<socklen_t>(control.size());
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int option = is_ipv4 ? IP_PKTOPTIONS : IPV6_2292PKTOPTIONS;
  if (getsockopt(fd, level, option, control.data(), &length) != 0) return {};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = length;
  return ArrivalOf(message);
}

Arrival ArrivalOf(const msghdr& datagram) {
  Arrival arrival;
  auto* writable = const_cast<msghdr*>(&datagram);  // CMSG_NXTHDR() takes no const, and changes nothing
  for (cmsghdr* part = CMSG_FIRSTHDR(writable); part != nullptr; part = CMSG_NXTHDR(writable, part)) {
    const bool is_ipv4 = part->cmsg_level == IPPROTO_IP;
    if (!is_ipv4 && part->cmsg_level != IPPROTO_IPV6) continue;
    if (is_ipv4 && part->cmsg_type == IP_PKTINFO) {
      const auto info = Content<in_pktinfo>(part);
      arrival.interface_index = static_cast<unsigned>(info.ipi_ifindex);
      arrival.destination = KeyOf(info.ipi_addr, AF_INET);
    }
    if (!is_ipv4 && part->cmsg_type == IPV6_PKTINFO) {
      const auto info = Content<in6_pktinfo>(part);
      arrival.interface_index = info.ipi6_ifindex;
      arrival.destination = KeyOf(info.ipi6_addr, AF_INET6);
    }
    if (part->cmsg_type == (is_ipv4 ? IP_TTL : IPV6_HOPLIMIT))
      arrival.hop_limit = static_cast<uint8_t>(Content<int>(part));
  }
  return arrival;
}

bool IsSpent(HopLimit arrived) { return arrived.has_value() && *arrived <= 1; }

HopLimit NextHopLimit(HopLimit arrived) {
  if (!arrived.has_value()) return arrived;
  return std::min(static_cast<uint8_t>(*arrived - 1), kMostHops);
}

void SetHopLimit(int fd, int family, HopLimit limit) {
  constexpr int kDefault = -1;
  const int value = limit.has_value() ? *limit : kDefault;
  if (family == AF_INET)
    SetOption(fd, IPPROTO_IP, IP_TTL, value);
  else
    SetOption(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, value);
}

}  // namespace viaduct::relay
