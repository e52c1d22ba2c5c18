#pragma once

#include <linux/ip_vs.h>
#include <netinet/in.h>

#include <cstring>
#include <initializer_list>
#include <string_view>

#include "ipvs/record.h"

namespace viaduct::ipvs {

inline void SetAddress(uint8_t (&address)[16], std::initializer_list<uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), address);
}

inline void SetScheduler(VirtualServerRecord& server, std::string_view name) {
  name.copy(server.scheduler, sizeof server.scheduler);
}

/// tcp 10.96.0.10:80 rr
inline VirtualServerRecord WebServer() {
  VirtualServerRecord server{};
  SetAddress(server.address, {10, 96, 0, 10});
  SetScheduler(server, "rr");
  server.flags_mask = ~uint32_t{0};
  server.port = 80;
  server.family = AF_INET;
  server.protocol = IPPROTO_TCP;
  server.netmask_length = 32;
  return server;
}

/// sctp [fd00::a]:53 sh
inline VirtualServerRecord SixServer() {
  VirtualServerRecord server{};
  SetAddress(server.address, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa});
  SetScheduler(server, "sh");
  server.flags = IP_VS_SVC_F_SCHED_SH_PORT;
  server.flags_mask = IP_VS_SVC_F_SCHED_SH_PORT;
  server.port = 53;
  server.family = AF_INET6;
  server.protocol = IPPROTO_SCTP;
  server.netmask_length = 128;
  return server;
}

/// firewall mark 0x77, persistent by /24 for 10800 s
inline VirtualServerRecord MarkServer() {
  VirtualServerRecord server{};
  SetScheduler(server, "wrr");
  server.mark = 0x77;
  server.flags = IP_VS_SVC_F_PERSISTENT;
  server.flags_mask = ~uint32_t{0};
  server.timeout_seconds = 10800;
  server.family = AF_INET;
  server.netmask_length = 24;
  return server;
}

/// 10.244.1.5:8080 weight 1, masquerading
inline RealServerRecord WebBackend() {
  RealServerRecord real{};
  SetAddress(real.address, {10, 244, 1, 5});
  real.weight = 1;
  real.port = 8080;
  real.family = AF_INET;
  real.forwarding = IP_VS_CONN_F_MASQ;
  return real;
}

/// [fd00::5]:8080 by a GUE tunnel, with thresholds
inline RealServerRecord TunnelBackend() {
  RealServerRecord real{};
  SetAddress(real.address, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5});
  real.weight = 100;
  real.upper_threshold = 500;
  real.lower_threshold = 400;
  real.port = 8080;
  real.tunnel_port = 6080;
  real.tunnel_flags = IP_VS_TUNNEL_ENCAP_FLAG_CSUM;
  real.family = AF_INET6;
  real.forwarding = IP_VS_CONN_F_TUNNEL;
  real.tunnel_type = IP_VS_CONN_F_TUNNEL_TYPE_GUE;
  return real;
}

}  // namespace viaduct::ipvs
