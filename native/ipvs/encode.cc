#include "ipvs/encode.h"

#include <endian.h>
#include <netinet/in.h>

#include <cassert>

#include "ipvs/policy.h"

namespace viaduct::ipvs {

namespace {

struct Command {
  uint8_t number;     ///< IPVS_CMD_*
  bool has_settings;  ///< NEW and SET send the whole object, the others its key
  bool is_destination;
};

Command CommandOf(Op op) {
  switch (op) {
    case Op::kAddVirtualServer:
      return {IPVS_CMD_NEW_SERVICE, true, false};
    case Op::kSetVirtualServer:
      return {IPVS_CMD_SET_SERVICE, true, false};
    case Op::kRemoveVirtualServer:
      return {IPVS_CMD_DEL_SERVICE, false, false};
    case Op::kAddRealServer:
      return {IPVS_CMD_NEW_DEST, true, true};
    case Op::kSetRealServer:
      return {IPVS_CMD_SET_DEST, true, true};
    case Op::kRemoveRealServer:
      return {IPVS_CMD_DEL_DEST, false, true};
    case Op::kZeroVirtualServer:
      return {IPVS_CMD_ZERO, false, false};
  }
  assert(!"operation not checked by the caller");
  return {IPVS_CMD_UNSPEC, false, false};
}

void Begin(MessageBuilder& builder, const Envelope& envelope, uint8_t command) {
  auto* header = builder.BeginMessage<genlmsghdr>(envelope.family_id, NLM_F_REQUEST, envelope.sequence);
  header->cmd = command;
  header->version = IPVS_GENL_VERSION;
}

bool Finish(MessageBuilder& builder, [[maybe_unused]] const Policy& policy) {
  [[maybe_unused]] const size_t start = builder.size();
  if (!builder.FinishMessage()) return false;
  assert(Conforms(policy, builder.sealed().subspan(start + NLMSG_HDRLEN + GENL_HDRLEN)));
  return true;
}

/// IPv4: the mask in network order. IPv6: the prefix length in host order, in the same field.
uint32_t Netmask(const VirtualServerRecord& server) {
  if (server.family != AF_INET) return server.netmask_length;
  if (server.netmask_length == 0) return 0;
  return htobe32(~uint32_t{0} << (32 - std::min<uint32_t>(server.netmask_length, 32)));
}

// IPVS_SVC_ATTR_*; parsed by ip_vs_genl_parse_service().
void PutServiceKey(MessageBuilder& builder, const VirtualServerRecord& server) {
  builder.U16(IPVS_SVC_ATTR_AF, server.family);
  if (server.mark != 0) {
    builder.U32(IPVS_SVC_ATTR_FWMARK, server.mark);
    return;
  }
  builder.U16(IPVS_SVC_ATTR_PROTOCOL, server.protocol);
  builder.Bytes(IPVS_SVC_ATTR_ADDR, server.address);
  builder.U16(IPVS_SVC_ATTR_PORT, htobe16(server.port));
}

void PutServiceSettings(MessageBuilder& builder, const VirtualServerRecord& server) {
  builder.String(IPVS_SVC_ATTR_SCHED_NAME,
                 {server.scheduler, strnlen(server.scheduler, IP_VS_SCHEDNAME_MAXLEN - 1)});
  const ip_vs_flags flags{server.flags, server.flags_mask};
  builder.Bytes(IPVS_SVC_ATTR_FLAGS, {reinterpret_cast<const uint8_t*>(&flags), sizeof flags});
  builder.U32(IPVS_SVC_ATTR_TIMEOUT, server.timeout_seconds);
  builder.U32(IPVS_SVC_ATTR_NETMASK, Netmask(server));
}

// IPVS_DEST_ATTR_*; parsed by ip_vs_genl_parse_dest().
void PutDestinationKey(MessageBuilder& builder, const RealServerRecord& real) {
  builder.Bytes(IPVS_DEST_ATTR_ADDR, real.address);
  builder.U16(IPVS_DEST_ATTR_PORT, htobe16(real.port));
}

void PutDestinationSettings(MessageBuilder& builder, const RealServerRecord& real) {
  builder.U32(IPVS_DEST_ATTR_FWD_METHOD, real.forwarding & IP_VS_CONN_F_FWD_MASK);
  builder.U32(IPVS_DEST_ATTR_WEIGHT, static_cast<uint32_t>(real.weight));
  builder.U32(IPVS_DEST_ATTR_U_THRESH, real.upper_threshold);
  builder.U32(IPVS_DEST_ATTR_L_THRESH, real.lower_threshold);
  if (real.forwarding != IP_VS_CONN_F_TUNNEL) return;
  builder.U8(IPVS_DEST_ATTR_TUN_TYPE, real.tunnel_type);
  builder.U16(IPVS_DEST_ATTR_TUN_PORT, htobe16(real.tunnel_port));
  builder.U16(IPVS_DEST_ATTR_TUN_FLAGS, real.tunnel_flags);
}

void PutDestination(MessageBuilder& builder, const RealServerRecord& real, uint8_t service_family,
                    bool has_settings) {
  builder.Nest(IPVS_CMD_ATTR_DEST, [&] {
    PutDestinationKey(builder, real);
    if (has_settings) PutDestinationSettings(builder, real);
    // Absent: the family of the service. Kernels before 3.18 lack the attribute.
    if (real.family != service_family) builder.U16(IPVS_DEST_ATTR_ADDR_FAMILY, real.family);
  });
}

}  // namespace

// linux/ip_vs.h IPVS_CMD_{NEW,SET,DEL}_{SERVICE,DEST}, IPVS_CMD_ZERO; handled by ip_vs_genl_set_cmd(). Nests
// have no NLA_F_NESTED, as in ipvsadm.
bool EncodeOperation(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                     const OpRecord& op) {
  assert(op.virtual_server < batch.virtual_servers.size());
  const Command command = CommandOf(op.op);
  const VirtualServerRecord& server = batch.virtual_servers[op.virtual_server];
  Begin(builder, envelope, command.number);
  builder.Nest(IPVS_CMD_ATTR_SERVICE, [&] {
    PutServiceKey(builder, server);
    if (command.has_settings && !command.is_destination) PutServiceSettings(builder, server);
  });
  if (command.is_destination) {
    assert(op.real_server < batch.real_servers.size());
    PutDestination(builder, batch.real_servers[op.real_server], server.family, command.has_settings);
  }
  return Finish(builder, kCommandPolicy);
}

// linux/genetlink.h CTRL_CMD_GETFAMILY; handled by ctrl_getfamily(), which loads the module.
bool EncodeFindFamily(MessageBuilder& builder) {
  auto* header = builder.BeginMessage<genlmsghdr>(GENL_ID_CTRL, NLM_F_REQUEST, 0);
  header->cmd = CTRL_CMD_GETFAMILY;
  header->version = 1;
  builder.String(CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME);
  return Finish(builder, kControlPolicy);
}

// Handled by ip_vs_genl_dump_services().
bool EncodeDumpServices(MessageBuilder& builder, uint16_t family_id) {
  Begin(builder, {family_id, 0}, IPVS_CMD_GET_SERVICE);
  return Finish(builder, kCommandPolicy);
}

// Handled by ip_vs_genl_get_cmd().
bool EncodeGetService(MessageBuilder& builder, uint16_t family_id, const VirtualServerRecord& server) {
  Begin(builder, {family_id, 0}, IPVS_CMD_GET_SERVICE);
  builder.Nest(IPVS_CMD_ATTR_SERVICE, [&] { PutServiceKey(builder, server); });
  return Finish(builder, kCommandPolicy);
}

// Handled by ip_vs_genl_dump_dests().
bool EncodeDumpDestinations(MessageBuilder& builder, uint16_t family_id, const VirtualServerRecord& server) {
  Begin(builder, {family_id, 0}, IPVS_CMD_GET_DEST);
  builder.Nest(IPVS_CMD_ATTR_SERVICE, [&] { PutServiceKey(builder, server); });
  return Finish(builder, kCommandPolicy);
}

// Handled by ip_vs_genl_get_cmd().
bool EncodeGetTimeouts(MessageBuilder& builder, uint16_t family_id) {
  Begin(builder, {family_id, 0}, IPVS_CMD_GET_CONFIG);
  return Finish(builder, kCommandPolicy);
}

// Handled by ip_vs_genl_set_config().
bool EncodeSetTimeouts(MessageBuilder& builder, uint16_t family_id, const Timeouts& timeouts) {
  Begin(builder, {family_id, 0}, IPVS_CMD_SET_CONFIG);
  builder.U32(IPVS_CMD_ATTR_TIMEOUT_TCP, timeouts.tcp_seconds);
  builder.U32(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, timeouts.tcp_fin_seconds);
  builder.U32(IPVS_CMD_ATTR_TIMEOUT_UDP, timeouts.udp_seconds);
  return Finish(builder, kCommandPolicy);
}

}  // namespace viaduct::ipvs
