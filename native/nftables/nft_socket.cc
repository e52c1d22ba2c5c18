#include "nftables/nft_socket.h"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <string_view>

#include "core/message_builder.h"
#include "core/message_reader.h"
#include "core/send_batch.h"
#include "nftables/decode.h"
#include "xtables/match_request.h"

namespace viaduct::nftables {

namespace {

constexpr const char* kDeleteTable = "delete nf_tables table";

// Three messages with their headers, and the longest name.
constexpr size_t kDeleteTableBytes =
    3 * NLMSG_SPACE(sizeof(nfgenmsg)) + NLA_HDRLEN + NLA_ALIGN(NFT_NAME_MAXLEN);

void AppendText(std::vector<uint8_t>& texts, std::string_view text) {
  texts.insert(texts.end(), text.begin(), text.end());
  texts.push_back('\0');
}

}  // namespace

Result<NftSocket> NftSocket::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.calls = &calls;
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return NftSocket(std::move(socket.value()), calls);
}

// linux/netfilter/nf_tables.h NFT_MSG_GETCHAIN with NLM_F_DUMP: nf_tables_dump_chains().
Result<std::vector<uint8_t>> NftSocket::ListChains(uint8_t family) {
  RequestBuffer<NLMSG_LENGTH(sizeof(nfgenmsg))> request;
  MessageBuilder builder(request);
  auto* header =
      builder.BeginMessage<nfgenmsg>(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_REQUEST, 0);
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
  builder.FinishMessage();
  std::vector<uint8_t> names;
  bool is_malformed = false;
  Status dumped = socket_.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        const auto name = DecodeChainName(payload);
        is_malformed = is_malformed || !name;
        if (!name) return;
        AppendText(names, name->table);
        AppendText(names, name->chain);
      },
      [&] {
        names.clear();
        is_malformed = false;
      });
  if (dumped.ok() && is_malformed) dumped = Error{EPROTO, {}, {}};
  if (!dumped.ok()) return Named(std::move(dumped), "dump nf_tables chains").error();
  return names;
}

// linux/netfilter/nfnetlink.h NFNL_MSG_BATCH_BEGIN: nfnetlink_rcv_batch(). linux/netfilter/nf_tables.h
// NFT_MSG_DELTABLE: nf_tables_deltable(). An error of the transaction itself refers to its first message.
Status NftSocket::DeleteTable(uint8_t family, std::string_view table) {
  if (table.size() >= NFT_NAME_MAXLEN) return Error{ENAMETOOLONG, kDeleteTable, {}};
  RequestBuffer<kDeleteTableBytes> request;
  MessageBuilder builder(request);
  constexpr uint32_t kMessages = 3;
  const uint32_t sequence = socket_.TakeSequence(kMessages);
  const auto mark = [&](uint16_t type, uint32_t mark_sequence) {
    auto* header = builder.BeginMessage<nfgenmsg>(type, NLM_F_REQUEST, mark_sequence);
    header->version = NFNETLINK_V0;
    header->res_id = htobe16(NFNL_SUBSYS_NFTABLES);
    builder.FinishMessage();
  };
  mark(NFNL_MSG_BATCH_BEGIN, sequence);
  auto* header = builder.BeginMessage<nfgenmsg>(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE, NLM_F_REQUEST,
                                                sequence + 1);
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
  builder.String(NFTA_TABLE_NAME, table);
  builder.FinishMessage();
  mark(NFNL_MSG_BATCH_END, sequence + 2);
  Error refused;
  const auto sent = socket_.SendWhole(builder.sealed(), [&](const Message& answer) {
    const bool is_ours = answer.header.nlmsg_seq - sequence < kMessages;
    if (!is_ours || answer.header.nlmsg_type != NLMSG_ERROR || refused.code != 0) return;
    if (auto report = DecodeError(answer)) refused = {report->code, kDeleteTable, std::move(report->text)};
  });
  if (refused.code != 0) return refused;
  const int code = sent.error != 0 ? sent.error : sent.lost;
  return code != 0 ? Status(Error{code, kDeleteTable, {}}) : Ok();
}

// Two requests, because neither works on every kernel and for every process. dev_load() of
// net/core/dev_ioctl.c loads a module with the name of an unknown interface, given CAP_SYS_MODULE.
// nft_compat requests the module of a match, here ipt_icmp or ip6t_icmp6. These are aliases of ip_tables and
// ip6_tables before Linux 6.4, and of xt_tcpudp since.
Status NftSocket::LoadXtables(uint8_t family) {
  const bool is_ipv4 = family == AF_INET;
  calls_->InterfaceIndex(is_ipv4 ? "ip_tables" : "ip6_tables");
  return Named(xtables::RequestMatch(socket_, family, is_ipv4 ? "icmp" : "icmp6"), "load x_tables");
}

}  // namespace viaduct::nftables
