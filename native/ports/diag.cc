#include "ports/diag.h"

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cstring>

#include "ports/policy.h"
#include "ports/port_holder.h"

namespace viaduct::ports {

namespace {

/// One block per port, in inet_diag_bc_op of linux/inet_diag.h: at least the port, at most the port, accept.
/// A jump to the end of the filter accepts; a jump four bytes further refuses. Parsed by
/// inet_diag_bc_audit().
std::vector<inet_diag_bc_op> MakeFilter(std::span<const uint16_t> ports) {
  constexpr size_t kOpsPerPort = 5;
  constexpr uint8_t kOp = sizeof(inet_diag_bc_op);
  std::vector<inet_diag_bc_op> filter;
  filter.reserve(ports.size() * kOpsPerPort);
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto to_end = static_cast<uint16_t>((ports.size() - i) * kOpsPerPort * kOp);
    const auto to_next = static_cast<uint16_t>(kOpsPerPort * kOp + (i + 1 == ports.size() ? kOp : 0));
    filter.push_back({INET_DIAG_BC_S_GE, 2 * kOp, to_next});
    filter.push_back({0, 0, ports[i]});
    filter.push_back({INET_DIAG_BC_S_LE, 2 * kOp, static_cast<uint16_t>(to_next - 2 * kOp)});
    filter.push_back({0, 0, ports[i]});
    filter.push_back({INET_DIAG_BC_JMP, kOp, static_cast<uint16_t>(to_end - 4 * kOp)});
  }
  return filter;
}

bool IsMapped(const uint8_t (&address)[16]) {
  constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return memcmp(address, kPrefix, sizeof kPrefix) == 0;
}

bool IsZero(const uint8_t (&address)[16]) {
  constexpr uint8_t kZero[16] = {};
  return memcmp(address, kZero, sizeof kZero) == 0;
}

/// SK_MEMINFO_RCVBUF of linux/sock_diag.h.
bool IsHeld(std::span<const uint8_t> memory, uint32_t uid) {
  constexpr size_t kOffset = SK_MEMINFO_RCVBUF * sizeof(uint32_t);
  if (memory.size() < kOffset + sizeof(uint32_t) || uid != geteuid()) return false;
  return ReadAs<uint32_t>(memory.subspan(kOffset)) == 2 * kHeldReceiveBytes;
}

}  // namespace

// linux/inet_diag.h inet_diag_req_v2; parsed by inet_diag_handler_cmd() and inet_diag_dump_icsk().
bool EncodeDumpListeners(MessageBuilder& builder, uint8_t family, uint8_t protocol,
                         std::span<const uint16_t> ports) {
  auto* request = builder.BeginMessage<inet_diag_req_v2>(SOCK_DIAG_BY_FAMILY, 0, 0);
  request->sdiag_family = family;
  request->sdiag_protocol = protocol;
  request->idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1);
  request->idiag_states = protocol == IPPROTO_UDP ? 1U << TCP_CLOSE : 1U << TCP_LISTEN;
  if (!ports.empty()) {
    const auto filter = MakeFilter(ports);
    builder.Bytes(INET_DIAG_REQ_BYTECODE,
                  {reinterpret_cast<const uint8_t*>(filter.data()), filter.size() * sizeof filter[0]});
  }
  return builder.FinishMessage();
}

// Written by inet_sk_diag_fill() and udp_dump_one().
std::optional<DiagSocket> DecodeListener(std::span<const uint8_t> payload, uint8_t protocol) {
  if (payload.size() < sizeof(inet_diag_msg)) return std::nullopt;
  const auto message = ReadAs<inet_diag_msg>(payload);
  AttributeTable<INET_DIAG_SKV6ONLY> attributes;
  if (!attributes.Parse(payload.subspan(sizeof message), kListenerPolicy)) return std::nullopt;
  DiagSocket socket{};
  ListenerRecord& listener = socket.listener;
  memcpy(listener.address, message.id.idiag_src, message.idiag_family == AF_INET ? 4 : 16);
  listener.uid = message.idiag_uid;
  listener.port = be16toh(message.id.idiag_sport);
  listener.family = message.idiag_family;
  listener.protocol = protocol;
  listener.is_held = IsHeld(attributes.Bytes(INET_DIAG_SKMEMINFO), message.idiag_uid) ? 1 : 0;
  socket.inode = message.idiag_inode;
  if (message.idiag_family == AF_INET6 && IsMapped(listener.address)) {
    uint8_t mapped[4];
    memcpy(mapped, listener.address + 12, sizeof mapped);
    memset(listener.address, 0, sizeof listener.address);
    memcpy(listener.address, mapped, sizeof mapped);
    listener.family = AF_INET;
  } else if (message.idiag_family == AF_INET6 && IsZero(listener.address)) {
    // NB: the kernel sends INET_DIAG_SKV6ONLY for every listening IPv6 socket.
    socket.is_dual_stack = attributes.Number<uint8_t>(INET_DIAG_SKV6ONLY, 1) == 0;
  }
  return socket;
}

}  // namespace viaduct::ports
