#include "ipset/ipset_socket.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/fd.h"
#include "core/send_batch.h"
#include "ipset/decode.h"
#include "ipset/encode.h"
#include "ipset/set_index.h"
#include "ipset/set_type.h"

namespace viaduct::ipset {

namespace {

using Request = RequestBuffer<kMaxRequestBytes>;

// An error for packed entries returns the whole message after 20 bytes of its own.
constexpr size_t kReceiveBytes = 64 << 10;
static_assert(kReceiveBytes >= kMaxPackedBytes + NLMSG_SPACE(sizeof(int)));

constexpr const char* kNegotiate = "negotiate ipset protocol";
constexpr const char* kFindType = "find set type";
constexpr const char* kListSets = "list sets";
constexpr const char* kListEntries = "list entries";

/// The message that `encode` adds to `buffer`. It always fits.
template <typename Encode>
std::span<const uint8_t> Compose(Request& buffer, Encode encode) {
  MessageBuilder builder(buffer);
  encode(builder);
  return builder.sealed();
}

std::string RangeText(const char* what, const Range& range) {
  return std::string(what) + ' ' + std::to_string(range.lowest) + " to " + std::to_string(range.highest);
}

/// Whether the kernel may have applied the request despite the error.
bool HidesResult(int code) { return code == ENOBUFS || code == ETIMEDOUT || code == EPROTO; }

/// Whether an error of packed entries that names no line applies to each entry: the set or ip_set is absent.
bool IsOfAllEntries(const Failure& failure) {
  return !failure.unknown && (failure.code == ENOENT || failure.code == EINVAL);
}

std::string_view NameOf(const SetRecord& set) { return {set.name, strnlen(set.name, sizeof set.name)}; }

}  // namespace

Result<IpsetSocket> IpsetSocket::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.receive_bytes = kReceiveBytes;
  options.calls = &calls;
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return IpsetSocket(std::move(socket.value()), calls);
}

Status IpsetSocket::Negotiate() {
  if (protocol_ != 0) return Ok();
  Request request;
  std::optional<Range> spoken;
  Status asked =
      socket_.Request(Compose(request, EncodeProtocol),
                      [&](uint16_t, std::span<const uint8_t> payload) { spoken = DecodeProtocol(payload); });
  // nfnetlink_rcv_msg() answers EINVAL for an absent subsystem that it cannot load.
  if (!asked.ok() && asked.error().code == EINVAL)
    return Error{EPROTONOSUPPORT, kNegotiate, "the kernel has no ip_set: load the module ip_set"};
  if (!asked.ok()) return Named(std::move(asked), kNegotiate);
  if (!spoken) return Error{EPROTO, kNegotiate, {}};
  const uint8_t highest = std::min<uint8_t>(spoken->highest, IPSET_PROTOCOL);
  if (highest < std::max<uint8_t>(spoken->lowest, IPSET_PROTOCOL_MIN))
    return Error{EPROTONOSUPPORT, kNegotiate, RangeText("the kernel speaks versions", *spoken)};
  protocol_ = highest;
  return Ok();
}

/// nfnetlink answers EINVAL after the module was unloaded. Negotiates again, because another version may be
/// loaded.
template <typename Question>
Status IpsetSocket::Ask(const Question& ask) {
  Status negotiated = Negotiate();
  if (!negotiated.ok()) return negotiated;
  Status asked = ask();
  if (asked.ok() || asked.error().code != EINVAL) return asked;
  Forget();
  negotiated = Negotiate();
  return negotiated.ok() ? ask() : negotiated;
}

void IpsetSocket::Forget() {
  protocol_ = 0;
  revisions_.clear();
}

Result<uint8_t> IpsetSocket::FindRevision(const SetRecord& set) {
  const std::string_view name{set.type, strnlen(set.type, sizeof set.type)};
  const auto [place, is_new] = revisions_.try_emplace({std::string(name), set.family}, uint8_t{0});
  if (!is_new) return place->second;
  Request request;
  std::optional<Range> found;
  Status asked = socket_.Request(
      Compose(request, [&](MessageBuilder& builder) { return EncodeFindType(builder, protocol_, set); }),
      [&](uint16_t, std::span<const uint8_t> payload) { found = DecodeRevisions(payload); });
  if (asked.ok() && !found) asked = Error{EPROTO, {}, {}};
  const uint8_t ours = FindSetType(name)->revision;
  if (asked.ok() && found->lowest > ours)
    asked = Error{EPROTONOSUPPORT, {}, RangeText("the kernel has revisions", *found)};
  if (!asked.ok()) {
    revisions_.erase(place);
    return Named(std::move(asked), kFindType).error();
  }
  return place->second = std::min(found->highest, ours);
}

Status IpsetSocket::Create(const SetRecord& set) {
  auto revision = FindRevision(set);
  if (!revision.ok()) return revision.error();
  Request request;
  Status created = socket_.Request(Compose(request,
                                           [&](MessageBuilder& builder) {
                                             return EncodeCreate(builder, protocol_, set, revision.value());
                                           }),
                                   [](uint16_t, std::span<const uint8_t>) {});
  return created.ok() ? CheckFamily(set) : created;
}

/// For the kernel an IPv6 set equals an IPv4 set: mtype_same_set() of ip_set_hash_gen.h does not compare
/// families (seen on 6.18).
Status IpsetSocket::CheckFamily(const SetRecord& set) {
  Request request;
  std::optional<SetRecord> there;
  Status asked = socket_.Request(
      Compose(request,
              [&](MessageBuilder& builder) { return EncodeHeader(builder, protocol_, NameOf(set)); }),
      [&](uint16_t, std::span<const uint8_t> payload) { there = DecodeSet(payload); });
  if (!asked.ok()) return asked;
  if (!there) return Error{EPROTO, {}, {}};
  if (there->family != 0 && there->family != set.family)
    return Error{EEXIST, {}, "the set of this name holds addresses of the other family"};
  return Ok();
}

Result<BatchOutcome> IpsetSocket::Apply(const Batch& batch) {
  Status negotiated = Negotiate();
  if (!negotiated.ok()) return negotiated.error();
  // Half of the queue: every message may return in twice its size.
  buffer_.resize(std::min(socket_.max_send_bytes(), socket_.queue_bytes() / 2));
  Progress progress;
  while (progress.next < batch.ops.size()) {
    const OpRecord& op = batch.ops[progress.next];
    if (op.op != Op::kCreateSet) {
      SendMessages(batch, progress);
      continue;
    }
    Status created = Create(batch.sets[op.set]);
    if (!created.ok())
      progress.failures.push_back({progress.next, created.error().code, HidesResult(created.error().code),
                                   std::move(created.error().text)});
    ++progress.next;
  }
  if (std::ranges::any_of(progress.failures, [](const Failure& failure) { return failure.code == EINVAL; }))
    Forget();
  const auto applied = static_cast<uint32_t>(batch.ops.size() - progress.failures.size());
  return BatchOutcome{applied, std::move(progress.failures)};
}

/// Adds as many operations as fit into one send. Returns the index after the last one.
uint32_t IpsetSocket::ComposeMessages(const Batch& batch, const Progress& progress, MessageBuilder& builder,
                                      uint32_t first_sequence) {
  uint32_t next = progress.next;
  const uint32_t limit = socket_.max_requests_per_send();
  pieces_.clear();
  while (next < batch.ops.size() && pieces_.size() < limit) {
    const OpRecord& op = batch.ops[next];
    const bool is_packed = IsEntryOp(op.op) && next >= progress.single_until;
    // Packed entries may be sent again and must then find the same sets.
    const bool has_packed = !pieces_.empty() && pieces_.back().is_packed;
    if (op.op == Op::kCreateSet || (has_packed && !is_packed)) break;
    const Envelope envelope{protocol_, first_sequence + static_cast<uint32_t>(pieces_.size())};
    const uint32_t count = is_packed ? EncodeEntries(builder, envelope, batch, next)
                                     : static_cast<uint32_t>(EncodeOperation(builder, envelope, batch, op));
    if (count == 0) break;
    pieces_.push_back({next, count, is_packed});
    next += count;
  }
  return next;
}

void IpsetSocket::SendMessages(const Batch& batch, Progress& progress) {
  MessageBuilder builder(buffer_);
  const uint32_t first_sequence = socket_.TakeSequence(socket_.max_requests_per_send());
  const uint32_t end = ComposeMessages(batch, progress, builder, first_sequence);
  if (pieces_.empty()) {
    // One operation alone is larger than the send buffer.
    progress.failures.push_back({progress.next++, EMSGSIZE, false, {}});
    return;
  }
  BatchOutcome sent;
  socket_.Transact(builder.sealed(), first_sequence, static_cast<uint32_t>(pieces_.size()), 0, sent);
  Settle(sent.failures, end, progress);
}

/// Turns refused messages into refused operations. The kernel stops a packed message at the first refused
/// entry (ip_set_ad()). The rest of the send is repeated entry by entry, other messages included, to keep the
/// order of the batch.
void IpsetSocket::Settle(std::vector<Failure>& refusals, uint32_t end, Progress& progress) {
  progress.next = end;
  for (Failure& refusal : refusals) {
    const Piece& piece = pieces_[refusal.index];
    refusal.index = piece.first;
    if (piece.is_packed) {
      const uint32_t line = refusal.unknown ? 0 : DecodeLine(refusal.request);
      const bool names_entry = line > piece.first && line <= piece.first + piece.count;
      if (!names_entry && IsOfAllEntries(refusal)) {
        for (uint32_t i = 0; i < piece.count; ++i)
          progress.failures.push_back({piece.first + i, refusal.code, false, refusal.text});
        continue;
      }
      progress.single_until = end;
      progress.next = names_entry ? line : piece.first;
      if (!names_entry) return;
      refusal.index = line - 1;
    }
    refusal.request.clear();
    progress.failures.push_back(std::move(refusal));
    if (piece.is_packed) return;
  }
}

template <typename Read>
Status IpsetSocket::DumpList(std::span<const uint8_t> request, const Read& read,
                             const std::function<void()>& on_restart) {
  bool is_malformed = false;
  Status dumped = socket_.Dump(
      request,
      [&](uint16_t, std::span<const uint8_t> payload) { is_malformed = !read(payload) || is_malformed; },
      [&] {
        on_restart();
        is_malformed = false;
      });
  return dumped.ok() && is_malformed ? Error{EPROTO, {}, {}} : dumped;
}

Result<std::vector<SetRecord>> IpsetSocket::ListSets() {
  std::vector<SetRecord> sets;
  const auto dump = [&] {
    sets.clear();
    Request request;
    Status dumped = DumpList(
        Compose(request, [&](MessageBuilder& builder) { return EncodeListSets(builder, protocol_); }),
        [&](std::span<const uint8_t> payload) {
          const auto set = DecodeSet(payload);
          if (set) sets.push_back(*set);
          return set.has_value();
        },
        [&] { sets.clear(); });
    return dumped.ok() ? dumped : Named(std::move(dumped), kListSets);
  };
  Status dumped = Ask(dump);
  if (!dumped.ok()) return dumped.error();
  return sets;
}

Result<std::vector<EntryRecord>> IpsetSocket::ListEntries(std::string_view name) {
  std::vector<EntryRecord> entries;
  const auto dump = [&] {
    entries.clear();
    Request request;
    Status dumped = DumpList(
        Compose(request,
                [&](MessageBuilder& builder) { return EncodeListEntries(builder, protocol_, name); }),
        [&](std::span<const uint8_t> payload) { return DecodeEntries(payload, entries); },
        [&] { entries.clear(); });
    return dumped.ok() ? dumped : Named(std::move(dumped), kListEntries);
  };
  Status dumped = Ask(dump);
  if (!dumped.ok()) return dumped.error();
  return entries;
}

Result<uint16_t> IpsetSocket::FindIndex(uint8_t family, const std::string& name) {
  const Fd fd(calls_->Socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return Error{errno, "find set " + name, {}};
  return FindSetIndex(*calls_, fd.get(), family, name);
}

}  // namespace viaduct::ipset
