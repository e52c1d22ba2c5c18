#include "nftables/nft_tables.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <string_view>

#include "core/message_builder.h"
#include "core/send_batch.h"
#include "nftables/object_codec.h"
#include "nftables/policy.h"

namespace viaduct::nftables {

namespace {

/// For each part of a dump of elements the kernel walks the set from its start: the time grows with the
/// square of the size, and is some 12 s for a million elements.
constexpr std::chrono::milliseconds kDeadline{120'000};

constexpr uint16_t TypeOf(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }

// Names of a table and of a chain or set, the longest there are.
using NameRequest = RequestBuffer<NLMSG_SPACE(sizeof(nfgenmsg)) + 2UL * (NLA_HDRLEN + NFT_NAME_MAXLEN)>;

struct ListedKind {
  const char* operation;
  const Policy* policy;
  uint16_t get;
  uint16_t table_attribute;  ///< 0: it has none
  uint16_t chain_attribute;
};

constexpr ListedKind kListed[] = {
    {"dump nf_tables tables", &kTablePolicy, NFT_MSG_GETTABLE, 0, 0},
    {"dump nf_tables chains", &kChainPolicy, NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, 0},
    {"dump nf_tables rules", &kRulePolicy, NFT_MSG_GETRULE, NFTA_RULE_TABLE, NFTA_RULE_CHAIN},
    {"dump nf_tables sets", &kSetPolicy, NFT_MSG_GETSET, NFTA_SET_TABLE, 0},
    {"dump nf_tables counters", &kNamedCounterPolicy, NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, 0},
};

std::span<const uint8_t> AttributesOf(std::span<const uint8_t> payload) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));
  return payload.size() < kHeaderSize ? std::span<const uint8_t>{} : payload.subspan(kHeaderSize);
}

constexpr AttributePolicy kObjectTypeRows[] = {{NFTA_OBJ_TYPE, "TYPE", AttributeKind::kBe32}};
constexpr Policy kObjectTypePolicy{"NFTA_OBJ", kObjectTypeRows};

/// Objects of other types have other attributes.
bool IsNamedCounter(std::span<const uint8_t> attributes) {
  AttributeTable<NFTA_OBJ_TYPE> object;
  return object.Parse(attributes, kObjectTypePolicy) &&
         ntohl(object.Number<uint32_t>(NFTA_OBJ_TYPE)) == NFT_OBJECT_COUNTER;
}

/// Kernels leave attributes of a request aside that narrow a dump (chains), so that we compare as well.
bool IsOf(std::span<const uint8_t> attributes, uint16_t type, std::string_view wanted) {
  if (type == 0 || wanted.empty()) return true;
  AttributeReader reader(attributes);
  while (const auto attribute = reader.Next()) {
    if (attribute->type != type) continue;
    const auto* text = reinterpret_cast<const char*>(attribute->value.data());
    return std::string_view(text, strnlen(text, attribute->value.size())) == wanted;
  }
  return false;
}

void BeginRequest(MessageBuilder& builder, uint16_t message, uint8_t family) {
  auto* header = builder.BeginMessage<nfgenmsg>(TypeOf(message), NLM_F_REQUEST, 0);
  header->nfgen_family = family;
  header->version = NFNETLINK_V0;
}

/// Which element of a message an extended ACK points at: `offset` counts from the message's nlmsghdr.
uint32_t ElementAt(std::span<const uint8_t> message, uint32_t offset) {
  constexpr size_t kStart = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg));
  if (message.size() < kStart) return kNoElement;
  AttributeReader attributes(message.subspan(kStart));
  while (const auto attribute = attributes.Next()) {
    if (attribute->type != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
    AttributeReader elements(attribute->value);
    for (uint32_t index = 0; const auto element = elements.Next(); ++index) {
      const auto start = static_cast<size_t>(element->value.data() - message.data()) - NLA_HDRLEN;
      if (offset >= start && offset < start + NLA_HDRLEN + element->value.size()) return index;
    }
  }
  return kNoElement;
}

/// Makes an outcome of what the kernel answers to a batch.
class AnswerReader {
 public:
  AnswerReader(const Batch& batch, uint32_t first_sequence, TransactionOutcome& outcome)
      : batch_(batch), first_sequence_(first_sequence), outcome_(outcome), answered_(batch.messages.size()) {}

  void Read(const Message& answer) {
    const size_t index = answer.header.nlmsg_seq - first_sequence_;
    if (index >= batch_.messages.size()) return;
    const auto attributes = AttributesOf(answer.payload);
    if (answer.header.nlmsg_type == NLMSG_ERROR) {
      ReadError(answer, index);
    } else if (answer.header.nlmsg_type == TypeOf(NFT_MSG_NEWGEN)) {
      AttributeTable<NFTA_GEN_ID> generation;
      if (generation.Parse(attributes, kGenerationPolicy))
        outcome_.generation = ntohl(generation.Number<uint32_t>(NFTA_GEN_ID));
    } else if (answer.header.nlmsg_type == TypeOf(NFT_MSG_NEWRULE)) {
      AttributeTable<NFTA_RULE_HANDLE> rule;
      if (batch_.messages[index].wants_handle && rule.Parse(attributes, kRulePolicy))
        outcome_.handles.push_back(
            {batch_.messages[index].operation, be64toh(rule.Number<uint64_t>(NFTA_RULE_HANDLE))});
    }
  }

  bool is_malformed() const { return is_malformed_; }

 private:
  void ReadError(const Message& answer, size_t index) {
    auto report = DecodeError(answer);
    is_malformed_ = is_malformed_ || !report;
    if (!report || report->code == 0 || answered_[index]) return;
    answered_[index] = true;
    const Batch::Message& message = batch_.messages[index];
    TransactionOutcome::Failure failure{message.operation, kNoElement, report->code, std::move(report->text)};
    if (message.first_element != kNoElement && report->offset != 0) {
      const uint32_t element = ElementAt(BytesOf(index), report->offset);
      if (element != kNoElement) failure.element = message.first_element + element;
    }
    outcome_.failures.push_back(std::move(failure));
  }

  std::span<const uint8_t> BytesOf(size_t index) const {
    const auto bytes = std::span(batch_.bytes);
    const size_t start = batch_.messages[index].offset;
    const bool is_last = index + 1 == batch_.messages.size();
    return bytes.subspan(start, (is_last ? bytes.size() : batch_.messages[index + 1].offset) - start);
  }

  const Batch& batch_;
  uint32_t first_sequence_;
  TransactionOutcome& outcome_;
  std::vector<bool> answered_;
  bool is_malformed_ = false;
};

Result<NetlinkSocket> OpenSocket(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.calls = &calls;
  options.deadline = kDeadline;
  return NetlinkSocket::Open(options);
}

}  // namespace

std::vector<uint8_t> TransactionOutcome::ToStream() const {
  StreamWriter stream;
  stream.U32(static_cast<uint32_t>(state));
  stream.U32(generation);
  stream.U32(static_cast<uint32_t>(failures.size()));
  for (const Failure& failure : failures) {
    stream.U32(failure.operation);
    stream.U32(failure.element);
    stream.U32(static_cast<uint32_t>(failure.code));
    stream.Text(failure.text);
  }
  stream.U32(static_cast<uint32_t>(handles.size()));
  for (const Handle& handle : handles) {
    stream.U32(handle.operation);
    stream.U64(handle.handle);
  }
  return stream.Finish();
}

Result<NftTables> NftTables::Open(SocketCalls& calls) {
  auto changes = OpenSocket(calls);
  if (!changes.ok()) return changes.error();
  auto reads = OpenSocket(calls);
  if (!reads.ok()) return reads.error();
  return NftTables(std::move(changes.value()), std::move(reads.value()));
}

Result<TransactionOutcome> NftTables::Apply(std::span<const uint8_t> operations,
                                            const BatchOptions& options) {
  auto built = BuildBatch(operations, options);
  if (!built.ok()) return built.error();
  Batch& batch = built.value();
  const uint32_t first_sequence = changes_.TakeSequence(static_cast<uint32_t>(batch.messages.size()));
  batch.SetSequences(first_sequence);
  TransactionOutcome outcome;
  AnswerReader reader(batch, first_sequence, outcome);
  const auto sent = changes_.SendWhole(batch.bytes, [&](const Message& answer) { reader.Read(answer); });
  if (sent.error == EMSGSIZE)
    return Error{EMSGSIZE, "send nf_tables transaction",
                 std::to_string(batch.bytes.size()) + " bytes, and the send buffer takes " +
                     std::to_string(changes_.send_limit())};
  if (sent.error != 0) return Error{sent.error, "send nf_tables transaction", {}};
  if (!outcome.failures.empty()) {
    outcome.state = TransactionOutcome::State::kRefused;
    std::stable_sort(outcome.failures.begin(), outcome.failures.end(),
                     [](const auto& a, const auto& b) { return a.operation < b.operation; });
  } else if (outcome.generation != 0 || (sent.lost == 0 && !reader.is_malformed())) {
    outcome.state = TransactionOutcome::State::kApplied;
  } else {
    outcome.state = TransactionOutcome::State::kUnknown;
    outcome.failures.push_back({kNoOperation, kNoElement, sent.lost != 0 ? sent.lost : EPROTO, {}});
  }
  return outcome;
}

// linux/netfilter/nf_tables.h NFT_MSG_GETGEN: nf_tables_getgen().
Result<uint32_t> NftTables::Generation() {
  RequestBuffer<NLMSG_SPACE(sizeof(nfgenmsg))> request;
  MessageBuilder builder(request);
  BeginRequest(builder, NFT_MSG_GETGEN, AF_UNSPEC);
  builder.FinishMessage();
  AttributeTable<NFTA_GEN_ID> generation;
  uint32_t id = 0;
  const Status asked = Named(reads_.Request(builder.sealed(),
                                            [&](uint16_t, std::span<const uint8_t> payload) {
                                              if (generation.Parse(AttributesOf(payload), kGenerationPolicy))
                                                id = ntohl(generation.Number<uint32_t>(NFTA_GEN_ID));
                                            }),
                             "read nf_tables generation");
  if (!asked.ok()) return asked.error();
  return id;
}

// linux/netfilter/nf_tables.h NFT_MSG_GETTABLE, GETCHAIN, GETRULE, GETSET, GETOBJ with NLM_F_DUMP.
Result<std::vector<uint8_t>> NftTables::List(std::span<const uint8_t> request) {
  StreamReader stream(request);
  const uint32_t listed = stream.U32();
  const auto family = static_cast<uint8_t>(stream.U32());
  const auto table = stream.Text();
  const auto chain = stream.Text();
  if (!stream.ok() || listed >= std::size(kListed)) return Error{EINVAL, "dump nf_tables", {}};
  const ListedKind& kind = kListed[listed];
  const bool is_counters = listed == static_cast<uint32_t>(Listed::kNamedCounters);
  NameRequest message;
  MessageBuilder builder(message);
  BeginRequest(builder, kind.get, family);
  if (kind.table_attribute != 0 && !table.empty()) builder.String(kind.table_attribute, table);
  if (kind.chain_attribute != 0 && !chain.empty()) builder.String(kind.chain_attribute, chain);
  if (!builder.FinishMessage()) return Error{ENAMETOOLONG, kind.operation, {}};
  StreamWriter objects;
  bool is_malformed = false;
  Status dumped = reads_.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        const auto attributes = AttributesOf(payload);
        if (is_counters && !IsNamedCounter(attributes)) return;
        if (!IsOf(attributes, kind.table_attribute, table)) return;
        is_malformed = !ReadObject(attributes, *kind.policy, objects) || is_malformed;
      },
      [&] {
        objects.Truncate(0);
        is_malformed = false;
      });
  if (dumped.ok() && is_malformed) dumped = Error{EPROTO, {}, {}};
  if (!dumped.ok()) return Named(std::move(dumped), kind.operation).error();
  return objects.Finish();
}

// linux/netfilter/nf_tables.h NFT_MSG_GETSETELEM with NLM_F_DUMP: nf_tables_dump_set().
Result<std::vector<uint8_t>> NftTables::ListElements(std::span<const uint8_t> request) {
  constexpr const char* kOperation = "dump nf_tables elements";
  StreamReader stream(request);
  const auto family = static_cast<uint8_t>(stream.U32());
  const auto table = stream.Text();
  const auto set = stream.Text();
  const ElementLayout layout = ReadLayout(stream);
  if (!stream.ok()) return Error{EINVAL, kOperation, {}};
  NameRequest message;
  MessageBuilder builder(message);
  BeginRequest(builder, NFT_MSG_GETSETELEM, family);
  builder.String(NFTA_SET_ELEM_LIST_TABLE, table);
  builder.String(NFTA_SET_ELEM_LIST_SET, set);
  if (!builder.FinishMessage()) return Error{ENAMETOOLONG, kOperation, {}};
  ElementReader elements(layout);
  bool is_malformed = false;
  Status dumped = reads_.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        is_malformed = !elements.Add(AttributesOf(payload)) || is_malformed;
      },
      [&] {
        elements = ElementReader(layout);
        is_malformed = false;
      });
  if (dumped.ok() && is_malformed) dumped = Error{EPROTO, {}, "the elements have another layout"};
  if (!dumped.ok()) return Named(std::move(dumped), kOperation).error();
  return elements.Finish();
}

}  // namespace viaduct::nftables
