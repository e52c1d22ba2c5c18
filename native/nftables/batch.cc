#include "nftables/batch.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>

#include "core/message_builder.h"
#include "nftables/elements.h"
#include "nftables/object_codec.h"
#include "nftables/policy.h"

namespace viaduct::nftables {

namespace {

constexpr const char* kBuild = "build nf_tables transaction";

struct MessageKind {
  uint16_t make;
  uint16_t remove;
  const Policy* policy;
};

constexpr MessageKind kKinds[] = {
    {NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE, &kTablePolicy},
    {NFT_MSG_NEWCHAIN, NFT_MSG_DELCHAIN, &kChainPolicy},
    {NFT_MSG_NEWRULE, NFT_MSG_DELRULE, &kRulePolicy},
    {NFT_MSG_NEWSET, NFT_MSG_DELSET, &kSetPolicy},
    {NFT_MSG_NEWOBJ, NFT_MSG_DELOBJ, &kNamedCounterPolicy},
    {NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM, nullptr},
};

uint16_t FlagsOf(Verb verb, Object object) {
  switch (verb) {
    case Verb::kAdd:
      return object == Object::kRule ? NLM_F_CREATE | NLM_F_APPEND : NLM_F_CREATE;
    case Verb::kCreate:
      return NLM_F_CREATE | NLM_F_EXCL;
    case Verb::kInsert:
      return NLM_F_CREATE;
    case Verb::kReplace:
      return NLM_F_REPLACE;
    case Verb::kDelete:
      return 0;
  }
  return 0;
}

struct OperationHeader {
  Verb verb{};
  Object object{};
  uint8_t family = 0;
  bool wants_echo = false;
  bool is_part_of_next = false;
};

OperationHeader ReadHeader(StreamReader& stream) {
  OperationHeader header;
  const uint32_t verb = stream.U32();
  const uint32_t object = stream.U32();
  header.verb = static_cast<Verb>(verb);
  header.object = static_cast<Object>(object);
  header.family = static_cast<uint8_t>(stream.U32());
  const uint32_t flags = stream.U32();
  header.wants_echo = (flags & kWantsHandle) != 0;
  header.is_part_of_next = (flags & kIsPartOfNext) != 0;
  const bool is_for_rules = header.verb == Verb::kInsert || header.verb == Verb::kReplace;
  if (verb > static_cast<uint32_t>(Verb::kDelete) || object > static_cast<uint32_t>(Object::kElements) ||
      (is_for_rules && header.object != Object::kRule))
    stream.Fail();
  return header;
}

/// Builds each message in one buffer and copies it to the batch.
class BatchBuilder {
 public:
  BatchBuilder() : buffer_(kMaxMessageBytes), builder_(buffer_) {}

  // linux/netfilter/nfnetlink.h NFNL_MSG_BATCH_BEGIN, _END: nfnetlink_rcv_batch().
  void Mark(uint16_t type, uint32_t generation) {
    auto* header = builder_.BeginMessage<nfgenmsg>(type, NLM_F_REQUEST, 0);
    header->version = NFNETLINK_V0;
    header->res_id = htons(NFNL_SUBSYS_NFTABLES);
    if (generation != 0) builder_.U32(NFNL_BATCH_GENID, htonl(generation));
    Keep({});
  }

  /// False: the operation is too large.
  bool Add(StreamReader& stream) {
    const OperationHeader header = ReadHeader(stream);
    if (!stream.ok()) return true;
    const uint32_t operation = operation_;
    if (!header.is_part_of_next) ++operation_;
    if (header.object == Object::kElements) return AddElements(operation, header, stream);
    // nf_tables_gen_notify() sends the new generation if the first message requests an echo. The echo of a
    // deletion would also contain every deleted object.
    const bool is_first = IsFirst() && header.verb != Verb::kDelete;
    Begin(header, header.wants_echo || is_first);
    PutObject(builder_, *kKinds[static_cast<size_t>(header.object)].policy, stream);
    return Keep({0, operation, kNoElement, header.wants_echo});
  }

  Batch Finish() { return std::move(batch_); }

  /// Index of the next operation.
  uint32_t operation() const { return operation_; }

 private:
  /// Whether the next message is the first behind BATCH_BEGIN.
  bool IsFirst() const { return batch_.messages.size() == 1; }

  void Begin(const OperationHeader& header, bool wants_echo) {
    const MessageKind& kind = kKinds[static_cast<size_t>(header.object)];
    const uint16_t message = header.verb == Verb::kDelete ? kind.remove : kind.make;
    const uint16_t flags = FlagsOf(header.verb, header.object) | (wants_echo ? NLM_F_ECHO : 0);
    auto* family =
        builder_.BeginMessage<nfgenmsg>(NFNL_SUBSYS_NFTABLES << 8 | message, NLM_F_REQUEST | flags, 0);
    family->nfgen_family = header.family;
    family->version = NFNETLINK_V0;
  }

  bool AddElements(uint32_t operation, const OperationHeader& header, StreamReader& stream) {
    const ElementBlock block = ReadElementBlock(stream);
    if (!stream.ok()) return true;
    size_t next = 0;
    do {
      const auto first = static_cast<uint32_t>(next);
      // The kernel echoes the first message. It has only one element, to keep the echo small.
      const bool is_first = IsFirst() && block.count() > 0;
      Begin(header, is_first);
      next += PutElements(builder_, block, next, is_first ? 1 : block.count() - next);
      if (!Keep({0, operation, first, false})) return false;
    } while (next < block.count());
    return true;
  }

  bool Keep(Batch::Message message) {
    if (!builder_.FinishMessage()) return false;
    message.offset = batch_.bytes.size();
    const auto sealed = builder_.sealed();
    batch_.bytes.insert(batch_.bytes.end(), sealed.begin(), sealed.end());
    batch_.messages.push_back(message);
    builder_.Clear();
    return true;
  }

  std::vector<uint8_t> buffer_;
  MessageBuilder builder_;
  Batch batch_;
  uint32_t operation_ = 0;
};

}  // namespace

void Batch::SetSequences(uint32_t first) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const uint32_t sequence = first + static_cast<uint32_t>(i);
    memcpy(bytes.data() + messages[i].offset + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
  }
}

Result<Batch> BuildBatch(std::span<const uint8_t> operations, const BatchOptions& options) {
  BatchBuilder builder;
  builder.Mark(NFNL_MSG_BATCH_BEGIN, options.generation);
  StreamReader stream(operations);
  while (!stream.empty()) {
    const uint32_t operation = builder.operation();
    const bool fits = builder.Add(stream);
    if (!stream.ok())
      return Error{EINVAL, kBuild, "operation " + std::to_string(operation) + " is malformed"};
    if (!fits) return Error{EMSGSIZE, kBuild, "operation " + std::to_string(operation) + " is too large"};
  }
  // Without the end message the kernel checks every message, reports errors and applies nothing.
  if (!options.is_dry_run) builder.Mark(NFNL_MSG_BATCH_END, 0);
  return builder.Finish();
}

}  // namespace viaduct::nftables
