#include "nftables/nft_tables.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
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

/// Keys of one request by key. A message with 1,000 keys of two addresses and ports has 60 KB.
constexpr size_t kMaxKeys = 1000;
/// What a reply with one element takes of the receive queue, at most: twice its size and some 1,000 bytes.
constexpr size_t kReplyBytes = 4096;

constexpr uint16_t TypeOf(uint16_t message) { return NFNL_SUBSYS_NFTABLES << 8 | message; }

// A request with the longest names of a table and of a chain or set.
using NameRequest = RequestBuffer<NLMSG_SPACE(sizeof(nfgenmsg)) + 2UL * (NLA_HDRLEN + NFT_NAME_MAXLEN)>;

struct ListedKind {
  const char* operation;
  const Policy* policy;
  uint16_t get;
  uint16_t table_attribute;  ///< 0: none; likewise name_attribute
  uint16_t name_attribute;
};

constexpr ListedKind kListed[] = {
    {"dump nf_tables tables", &kTablePolicy, NFT_MSG_GETTABLE, 0, 0},
    {"dump nf_tables chains", &kChainPolicy, NFT_MSG_GETCHAIN, NFTA_CHAIN_TABLE, 0},
    {"dump nf_tables rules", &kRulePolicy, NFT_MSG_GETRULE, NFTA_RULE_TABLE, NFTA_RULE_CHAIN},
    {"dump nf_tables sets", &kSetPolicy, NFT_MSG_GETSET, NFTA_SET_TABLE, NFTA_SET_NAME},
    {"dump nf_tables counters", &kNamedCounterPolicy, NFT_MSG_GETOBJ, NFTA_OBJ_TABLE, 0},
};

std::span<const uint8_t> AttributesOf(std::span<const uint8_t> payload) {
  constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));
  return payload.size() < kHeaderSize ? std::span<const uint8_t>{} : payload.subspan(kHeaderSize);
}

constexpr AttributePolicy kObjectTypeRows[] = {{NFTA_OBJ_TYPE, "TYPE", AttributeKind::kBe32}};
constexpr Policy kObjectTypePolicy{"NFTA_OBJ", kObjectTypeRows};

/// Whether an object is a named counter. Objects of other types have other attributes.
bool IsNamedCounter(std::span<const uint8_t> attributes) {
  AttributeTable<NFTA_OBJ_TYPE> object;
  return object.Parse(attributes, kObjectTypePolicy) &&
         ntohl(object.Number<uint32_t>(NFTA_OBJ_TYPE)) == NFT_OBJECT_COUNTER;
}

/// Whether the attribute `type` is `wanted`, or nothing is wanted. A kernel may ignore the table name in a
/// dump request (of chains), so the caller also compares.
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

/// Index of the element to which an extended ACK points. `offset` counts from the message's nlmsghdr.
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

/// Collects the kernel's answers to a batch in an outcome.
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

// linux/netfilter/nf_tables.h NFT_MSG_GETTABLE, GETCHAIN, GETRULE, GETSET, GETOBJ with NLM_F_DUMP; GETSET
// with the name of a set, without.
Result<std::vector<uint8_t>> NftTables::List(std::span<const uint8_t> request) {
  StreamReader stream(request);
  const uint32_t listed = stream.U32();
  const auto family = static_cast<uint8_t>(stream.U32());
  const auto table = stream.Text();
  const auto name = stream.Text();
  if (!stream.ok() || listed >= std::size(kListed)) return Error{EINVAL, "dump nf_tables", {}};
  const ListedKind& kind = kListed[listed];
  const bool is_counters = listed == static_cast<uint32_t>(Listed::kNamedCounters);
  NameRequest message;
  MessageBuilder builder(message);
  BeginRequest(builder, kind.get, family);
  if (kind.table_attribute != 0 && !table.empty()) builder.String(kind.table_attribute, table);
  if (kind.name_attribute != 0 && !name.empty()) builder.String(kind.name_attribute, name);
  if (!builder.FinishMessage()) return Error{ENAMETOOLONG, kind.operation, {}};
  StreamWriter objects;
  bool is_malformed = false;
  const auto read = [&](uint16_t, std::span<const uint8_t> payload) {
    const auto attributes = AttributesOf(payload);
    if (is_counters && !IsNamedCounter(attributes)) return;
    if (!IsOf(attributes, kind.table_attribute, table)) return;
    is_malformed = !ReadObject(attributes, *kind.policy, objects) || is_malformed;
  };
  const auto restart = [&] {
    objects.Truncate(0);
    is_malformed = false;
  };
  const bool is_one_set = listed == static_cast<uint32_t>(Listed::kSets) && !name.empty();
  Status dumped =
      is_one_set ? reads_.Request(builder.sealed(), read) : reads_.Dump(builder.sealed(), read, restart);
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
  const bool is_once = stream.U32() != 0;
  if (!stream.ok()) return Error{EINVAL, kOperation, {}};
  NameRequest message;
  MessageBuilder builder(message);
  BeginRequest(builder, NFT_MSG_GETSETELEM, family);
  builder.String(NFTA_SET_ELEM_LIST_TABLE, table);
  builder.String(NFTA_SET_ELEM_LIST_SET, set);
  if (!builder.FinishMessage()) return Error{ENAMETOOLONG, kOperation, {}};
  ElementReader elements(layout);
  bool is_malformed = false;
  bool is_interrupted = false;
  const auto read = [&](uint16_t, std::span<const uint8_t> payload) {
    is_malformed = !elements.Add(AttributesOf(payload)) || is_malformed;
  };
  const auto restart = [&] {
    elements = ElementReader(layout);
    is_malformed = false;
  };
  Status dumped = is_once ? reads_.DumpOnce(builder.sealed(), read, is_interrupted)
                          : reads_.Dump(builder.sealed(), read, restart);
  if (dumped.ok() && is_malformed) dumped = Error{EPROTO, {}, "the elements have another layout"};
  if (!dumped.ok()) return Named(std::move(dumped), kOperation).error();
  return elements.Finish(is_interrupted);
}

// linux/netfilter/nf_tables.h NFT_MSG_GETSETELEM with NFTA_SET_ELEM_LIST_ELEMENTS: nf_tables_getsetelem()
// sends a message for each element, in order. The first absent key ends the request with ENOENT.
Result<std::vector<uint8_t>> NftTables::FindElements(std::span<const uint8_t> request) {
  constexpr const char* kOperation = "read nf_tables elements by key";
  StreamReader stream(request);
  const auto family = static_cast<uint8_t>(stream.U32());
  ElementBlock keys;
  keys.table = stream.Text();
  keys.set = stream.Text();
  const ElementLayout layout = ReadLayout(stream);
  keys.layout.key_bytes = layout.key_bytes;
  keys.bytes = stream.Bytes();
  if (!stream.ok() || keys.bytes.size() % layout.key_bytes != 0) return Error{EINVAL, kOperation, {}};
  std::vector<uint8_t> buffer(kMaxMessageBytes);
  ElementReader elements(layout);
  const size_t most = std::clamp<size_t>(reads_.queue_bytes() / kReplyBytes, 1, kMaxKeys);
  size_t limit = most;
  bool is_set_there = false;
  for (size_t next = 0; next < keys.count();) {
    MessageBuilder builder(buffer);
    BeginRequest(builder, NFT_MSG_GETSETELEM, family);
    const size_t asked = PutElements(builder, keys, next, std::min(limit, keys.count() - next));
    if (!builder.FinishMessage()) return Error{ENAMETOOLONG, kOperation, {}};
    const auto answer = AskByKey(buffer, builder.sealed().size(), elements);
    if (!answer.ok()) return Named(Status(answer.error()), kOperation).error();
    const size_t found = answer.value();
    next += found;
    if (found == asked) {
      limit = std::min(limit * 2, most);
      continue;
    }
    is_set_there = is_set_there || found > 0;
    if (!is_set_there) {
      const Status set = AskSet(family, keys.table, keys.set);
      if (!set.ok()) return Named(Status(set), kOperation).error();
      is_set_there = true;
    }
    ++next;
    limit = std::max<size_t>(limit / 2, 1);
  }
  return elements.Finish();
}

/// Sends the request at the start of `buffer` and reads its elements. Returns their number: an absent key
/// ends them.
Result<size_t> NftTables::AskByKey(std::span<uint8_t> buffer, size_t size, ElementReader& elements) {
  const uint32_t sequence = reads_.TakeSequence();
  memcpy(buffer.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
  size_t found = 0;
  bool is_malformed = false;
  Error refusal{};
  const auto sent = reads_.SendWhole(buffer.first(size), [&](const Message& answer) {
    if (answer.header.nlmsg_seq != sequence) return;
    if (answer.header.nlmsg_type == NLMSG_ERROR) {
      auto report = DecodeError(answer);
      refusal = report ? Error{report->code, {}, std::move(report->text)} : Error{EPROTO, {}, {}};
    } else if (answer.header.nlmsg_type == TypeOf(NFT_MSG_NEWSETELEM)) {
      ++found;
      is_malformed = !elements.Add(AttributesOf(answer.payload)) || is_malformed;
    }
  });
  if (sent.error != 0 || sent.lost != 0) return Error{sent.error != 0 ? sent.error : sent.lost, {}, {}};
  if (is_malformed) return Error{EPROTO, {}, "the elements have another layout"};
  if (refusal.code != 0 && refusal.code != ENOENT) return refusal;
  return found;
}

// linux/netfilter/nf_tables.h NFT_MSG_GETSET: nf_tables_getset().
Status NftTables::AskSet(uint8_t family, std::string_view table, std::string_view set) {
  NameRequest message;
  MessageBuilder builder(message);
  BeginRequest(builder, NFT_MSG_GETSET, family);
  builder.String(NFTA_SET_TABLE, table);
  builder.String(NFTA_SET_NAME, set);
  if (!builder.FinishMessage()) return Error{ENAMETOOLONG, {}, {}};
  return reads_.Request(builder.sealed(), [](uint16_t, std::span<const uint8_t>) {});
}

}  // namespace viaduct::nftables
