#include "nftables/nft_events.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <optional>

#include "core/message_reader.h"
#include "nftables/policy.h"

namespace viaduct::nftables {

namespace {

// A transaction that adds 100,000 elements sends 20 MB of messages. NB: a listener whose buffer overflows
// makes the writer's commit ten times slower.
constexpr int kBufferBytes = 32 << 20;
// Most datagrams per Next(), to bound one result during a flood.
constexpr int kMaxDatagrams = 4096;
// Most objects of one transaction. A larger transaction is reported as lost events.
constexpr size_t kMaxChanges = 4096;

// NFT_MSG_DESTROY* of Linux 6.3; older headers lack them.
constexpr uint16_t kDestroyTable = 26;
constexpr uint16_t kDestroyChain = 27;
constexpr uint16_t kDestroyRule = 28;
constexpr uint16_t kDestroySet = 29;
constexpr uint16_t kDestroyElements = 30;
constexpr uint16_t kDestroyObject = 31;

struct ChangeType {
  ChangeKind kind;
  uint16_t name_attribute;  ///< 0: no name. The attribute of the table's name is 1 in all messages.
};

std::optional<ChangeType> TypeOfMessage(const nlmsghdr& header) {
  switch (header.nlmsg_type & 0xff) {
    case NFT_MSG_NEWTABLE:
    case NFT_MSG_DELTABLE:
    case kDestroyTable:
      return ChangeType{ChangeKind::kTable, 0};
    case NFT_MSG_NEWCHAIN: {
      // The kernel repeats the flags of the request (nf_tables_chain_notify()). iptables -N sends only
      // NLM_F_EXCL.
      const bool is_new = (header.nlmsg_flags & (NLM_F_CREATE | NLM_F_EXCL)) != 0;
      return ChangeType{is_new ? ChangeKind::kChain : ChangeKind::kChainUpdate, NFTA_CHAIN_NAME};
    }
    case NFT_MSG_DELCHAIN:
    case kDestroyChain:
      return ChangeType{ChangeKind::kChain, NFTA_CHAIN_NAME};
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE:
    case kDestroyRule:
      return ChangeType{ChangeKind::kRules, NFTA_RULE_CHAIN};
    case NFT_MSG_NEWSET:
    case NFT_MSG_DELSET:
    case kDestroySet:
      return ChangeType{ChangeKind::kSet, NFTA_SET_NAME};
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
    case kDestroyElements:
      return ChangeType{ChangeKind::kElements, NFTA_SET_ELEM_LIST_SET};
    case NFT_MSG_NEWOBJ:
    case NFT_MSG_DELOBJ:
    case kDestroyObject:
      return ChangeType{ChangeKind::kCounter, NFTA_OBJ_NAME};
    default:
      return std::nullopt;
  }
}

std::string TextOf(std::span<const uint8_t> attributes, uint16_t type) {
  AttributeReader reader(attributes);
  while (const auto attribute = reader.Next()) {
    if (attribute->type != type) continue;
    const auto* text = reinterpret_cast<const char*>(attribute->value.data());
    return {text, strnlen(text, attribute->value.size())};
  }
  return {};
}

}  // namespace

Result<NftEvents> NftEvents::Open(uint32_t own_port, SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.groups = {NFNLGRP_NFTABLES};
  options.buffer_bytes = kBufferBytes;
  options.calls = &calls;
  auto socket = EventSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return NftEvents(std::move(socket.value()), own_port);
}

Result<std::vector<uint8_t>> NftEvents::Next(std::chrono::milliseconds longest) {
  const auto deadline = socket_.DeadlineIn(longest);
  do {
    const auto readable = socket_.Wait(deadline);
    if (!readable.ok()) return readable.error();
    if (!readable.value()) return std::vector<uint8_t>{};
    const auto has_changes = Drain();
    if (!has_changes.ok()) return has_changes.error();
    if (has_changes.value()) return TakeChanges();
  } while (!socket_.IsPast(deadline));
  return std::vector<uint8_t>{};
}

std::vector<uint8_t> NftEvents::TakeChanges() {
  StreamWriter stream;
  stream.U32(has_lost_ ? 1 : 0);
  stream.Join(transactions_);
  transactions_.Truncate(0);
  has_lost_ = false;
  return stream.Finish();
}

Result<bool> NftEvents::Drain() {
  for (int i = 0; i < kMaxDatagrams; ++i) {
    const NetlinkSocket::Received received = socket_.Receive();
    if (received.error == EAGAIN) break;
    if (EventSocket::IsLoss(received.error)) {
      LoseTrack();
      continue;
    }
    if (received.error != 0) return Error{received.error, "receive events", {}};
    MessageReader reader(received.data);
    while (const auto message = reader.Next()) Read(*message);
  }
  return has_lost_ || transactions_.size() > 0;
}

void NftEvents::Read(const Message& message) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));
  const uint16_t type = message.header.nlmsg_type;
  if (message.header.nlmsg_pid == own_port_ || type >> 8 != NFNL_SUBSYS_NFTABLES ||
      message.payload.size() < kHeaderSize)
    return;
  const auto attributes = message.payload.subspan(kHeaderSize);
  if ((type & 0xff) == NFT_MSG_NEWGEN) return ReadGeneration(attributes);
  const auto change = TypeOfMessage(message.header);
  const uint8_t family = message.payload[0];
  if (!change || (family != AF_INET && family != AF_INET6)) return;
  changes_.emplace(change->kind, family, TextOf(attributes, 1),
                   change->name_attribute == 0 ? "" : TextOf(attributes, change->name_attribute));
  if (changes_.size() > kMaxChanges) LoseTrack();
}

void NftEvents::ReadGeneration(std::span<const uint8_t> attributes) {
  if (changes_.empty()) return;
  AttributeTable<NFTA_GEN_PROC_NAME> generation;
  if (!generation.Parse(attributes, kGenerationPolicy)) return LoseTrack();
  transactions_.U32(ntohl(generation.Number<uint32_t>(NFTA_GEN_ID)));
  transactions_.U32(ntohl(generation.Number<uint32_t>(NFTA_GEN_PROC_PID)));
  transactions_.Text(generation.Text(NFTA_GEN_PROC_NAME));
  transactions_.U32(static_cast<uint32_t>(changes_.size()));
  for (const auto& [kind, family, table, name] : changes_) {
    transactions_.U32(static_cast<uint32_t>(kind));
    transactions_.U32(family);
    transactions_.Text(table);
    transactions_.Text(name);
  }
  changes_.clear();
}

void NftEvents::LoseTrack() {
  has_lost_ = true;
  changes_.clear();
}

}  // namespace viaduct::nftables
