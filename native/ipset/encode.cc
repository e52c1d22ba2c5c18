#include "ipset/encode.h"

#include <endian.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>

#include <cassert>
#include <cstring>
#include <limits>

#include "ipset/policy.h"
#include "ipset/set_type.h"

namespace viaduct::ipset {

namespace {

constexpr uint16_t Nested(uint16_t type) { return type | NLA_F_NESTED; }
/// NB: without the flag the kernel refuses the number with IPSET_ERR_PROTOCOL.
constexpr uint16_t NetOrder(uint16_t type) { return type | NLA_F_NET_BYTEORDER; }

std::string_view Name(const char (&text)[IPSET_MAXNAMELEN]) {
  return {text, strnlen(text, IPSET_MAXNAMELEN)};
}

const SetType& TypeOf(const SetRecord& set) {
  const SetType* type = FindSetType(Name(set.type));
  assert(type != nullptr);
  return *type;
}

void Begin(MessageBuilder& builder, ipset_cmd command, const Envelope& envelope, uint16_t flags = 0) {
  auto* header = builder.BeginMessage<nfgenmsg>(NFNL_SUBSYS_IPSET << 8 | command, NLM_F_REQUEST | flags,
                                                envelope.sequence);
  header->nfgen_family = AF_INET;  // the kernel only reads FAMILY
  header->version = NFNETLINK_V0;
  builder.U8(IPSET_ATTR_PROTOCOL, envelope.protocol);
}

bool Finish(MessageBuilder& builder, [[maybe_unused]] const Policy& policy) {
  [[maybe_unused]] const size_t start = builder.size();
  if (!builder.FinishMessage()) return false;
  assert(Conforms(policy, builder.sealed().subspan(start + NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg)))));
  return true;
}

void PutU16(MessageBuilder& builder, uint16_t type, uint16_t value) {
  builder.U16(NetOrder(type), htobe16(value));
}

void PutU32(MessageBuilder& builder, uint16_t type, uint32_t value) {
  builder.U32(NetOrder(type), htobe32(value));
}

void PutAddress(MessageBuilder& builder, uint16_t type, const uint8_t (&address)[16], uint8_t family) {
  builder.Nest(Nested(type), [&] {
    if (family == AF_INET)
      builder.Bytes(NetOrder(IPSET_ATTR_IPADDR_IPV4), std::span(address).first(sizeof(in_addr)));
    else
      builder.Bytes(NetOrder(IPSET_ATTR_IPADDR_IPV6), address);
  });
}

/// {ip_set,hash_*,bitmap_port}_create() of net/netfilter/ipset.
void PutSettings(MessageBuilder& builder, const SetRecord& set) {
  uint32_t flags = 0;
  if ((set.extensions & kComments) != 0) flags |= IPSET_FLAG_WITH_COMMENT;
  if ((set.extensions & kMarks) != 0) flags |= IPSET_FLAG_WITH_SKBINFO;
  if (IsBitmap(TypeOf(set))) {
    PutU16(builder, IPSET_ATTR_PORT, 0);
    PutU16(builder, IPSET_ATTR_PORT_TO, std::numeric_limits<uint16_t>::max());
  } else {
    PutU32(builder, IPSET_ATTR_HASHSIZE, set.hash_size);
    PutU32(builder, IPSET_ATTR_MAXELEM, set.max_elements);
  }
  if (flags != 0) PutU32(builder, IPSET_ATTR_CADT_FLAGS, flags);
}

/// {hash_*,bitmap_port}_uadt() of net/netfilter/ipset.
void PutEntry(MessageBuilder& builder, const SetType& type, const EntryRecord& entry,
              std::span<const uint8_t> texts) {
  if (type.has_address) PutAddress(builder, IPSET_ATTR_IP, entry.address, entry.family);
  if (type.has_port) PutU16(builder, IPSET_ATTR_PORT, entry.port);
  if (HasProtocol(type)) builder.U8(IPSET_ATTR_PROTO, entry.protocol);
  if (type.has_second_address) PutAddress(builder, IPSET_ATTR_IP2, entry.second_address, entry.family);
  if (type.has_network && type.has_second_address) builder.U8(IPSET_ATTR_CIDR2, entry.prefix_length);
  if (type.has_network && !type.has_second_address) builder.U8(IPSET_ATTR_CIDR, entry.prefix_length);
  if (entry.mark != 0 || entry.mark_mask != 0) {
    const uint64_t mark = htobe64(uint64_t{entry.mark} << 32 | entry.mark_mask);
    builder.Bytes(NetOrder(IPSET_ATTR_SKBMARK), {reinterpret_cast<const uint8_t*>(&mark), sizeof mark});
  }
  if (entry.comment_length == 0) return;
  const auto comment = texts.subspan(entry.comment_offset, entry.comment_length);
  builder.String(IPSET_ATTR_COMMENT, {reinterpret_cast<const char*>(comment.data()), comment.size()});
}

ipset_cmd SetCommand(Op op) {
  switch (op) {
    case Op::kDestroySet:
      return IPSET_CMD_DESTROY;
    case Op::kFlushSet:
      return IPSET_CMD_FLUSH;
    case Op::kSwapSets:
      return IPSET_CMD_SWAP;
    case Op::kRenameSet:
      return IPSET_CMD_RENAME;
    default:
      assert(!"operation not checked by the caller");
      return IPSET_CMD_NONE;
  }
}

ipset_cmd EntryCommand(Op op) { return op == Op::kAddEntry ? IPSET_CMD_ADD : IPSET_CMD_DEL; }

}  // namespace

// Handled by ip_set_protocol().
bool EncodeProtocol(MessageBuilder& builder) {
  Begin(builder, IPSET_CMD_PROTOCOL, {IPSET_PROTOCOL, 0});
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_type(), which loads the type's module.
bool EncodeFindType(MessageBuilder& builder, uint8_t protocol, const SetRecord& set) {
  Begin(builder, IPSET_CMD_TYPE, {protocol, 0});
  builder.String(IPSET_ATTR_TYPENAME, Name(set.type));
  builder.U8(IPSET_ATTR_FAMILY, set.family);
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_create(): without NLM_F_EXCL it accepts an equal set.
bool EncodeCreate(MessageBuilder& builder, uint8_t protocol, const SetRecord& set, uint8_t revision) {
  Begin(builder, IPSET_CMD_CREATE, {protocol, 0});
  builder.String(IPSET_ATTR_SETNAME, Name(set.name));
  builder.String(IPSET_ATTR_TYPENAME, Name(set.type));
  builder.U8(IPSET_ATTR_REVISION, revision);
  builder.U8(IPSET_ATTR_FAMILY, set.family);
  builder.Nest(Nested(IPSET_ATTR_DATA), [&] { PutSettings(builder, set); });
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_header().
bool EncodeHeader(MessageBuilder& builder, uint8_t protocol, std::string_view name) {
  Begin(builder, IPSET_CMD_HEADER, {protocol, 0});
  builder.String(IPSET_ATTR_SETNAME, name);
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_dump(), like the next one.
bool EncodeListSets(MessageBuilder& builder, uint8_t protocol) {
  Begin(builder, IPSET_CMD_LIST, {protocol, 0});
  PutU32(builder, IPSET_ATTR_FLAGS, IPSET_FLAG_LIST_HEADER);
  return Finish(builder, kSetCommandPolicy);
}

bool EncodeListEntries(MessageBuilder& builder, uint8_t protocol, std::string_view name) {
  Begin(builder, IPSET_CMD_LIST, {protocol, 0});
  builder.String(IPSET_ATTR_SETNAME, name);
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_destroy(), ip_set_flush(), ip_set_swap(), ip_set_rename(); ip_set_ad() with DATA.
bool EncodeOperation(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                     const OpRecord& op) {
  assert(op.set < batch.sets.size());
  const SetRecord& set = batch.sets[op.set];
  if (IsEntryOp(op.op)) {
    assert(op.object < batch.entries.size());
    Begin(builder, EntryCommand(op.op), envelope);
    builder.String(IPSET_ATTR_SETNAME, Name(set.name));
    builder.Nest(Nested(IPSET_ATTR_DATA),
                 [&] { PutEntry(builder, TypeOf(set), batch.entries[op.object], batch.texts); });
    return Finish(builder, kEntryCommandPolicy);
  }
  const bool has_other = op.op == Op::kSwapSets || op.op == Op::kRenameSet;
  // NLM_F_EXCL: without it newer kernels report no error for an absent set.
  const uint16_t flags = op.op == Op::kDestroySet ? NLM_F_EXCL : 0;
  Begin(builder, SetCommand(op.op), envelope, flags);
  builder.String(IPSET_ATTR_SETNAME, Name(set.name));
  assert(!has_other || op.object < batch.sets.size());
  if (has_other) builder.String(IPSET_ATTR_SETNAME2, Name(batch.sets[op.object].name));
  return Finish(builder, kSetCommandPolicy);
}

// Handled by ip_set_ad() with ADT.
uint32_t EncodeEntries(MessageBuilder& builder, const Envelope& envelope, const Batch& batch,
                       uint32_t first) {
  const OpRecord& model = batch.ops[first];
  const SetRecord& set = batch.sets[model.set];
  const SetType& type = TypeOf(set);
  uint32_t end = first;
  Begin(builder, EntryCommand(model.op), envelope);
  builder.String(IPSET_ATTR_SETNAME, Name(set.name));
  PutU32(builder, IPSET_ATTR_LINENO, 0);  // required; the kernel sets it to the line of the refused entry
  builder.Nest(Nested(IPSET_ATTR_ADT), [&] {
    for (; end < batch.ops.size(); ++end) {
      const OpRecord& op = batch.ops[end];
      if (op.op != model.op || op.set != model.set) return;
      if (builder.open_size() > kMaxPackedBytes - kMaxEntryBytes || builder.room() < kMaxEntryBytes) return;
      builder.Nest(Nested(IPSET_ATTR_DATA), [&] {
        PutU32(builder, IPSET_ATTR_LINENO, end + 1);
        PutEntry(builder, type, batch.entries[op.object], batch.texts);
      });
    }
  });
  return end > first && Finish(builder, kEntryCommandPolicy) ? end - first : 0;
}

}  // namespace viaduct::ipset
