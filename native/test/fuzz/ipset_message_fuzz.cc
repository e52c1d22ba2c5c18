// ipset messages: sets, entries, ranges, and the requests that errors return. An entry that was read can be
// written again.
#include <netinet/in.h>

#include <cstdlib>
#include <string_view>

#include "ipset/decode.h"
#include "ipset/encode.h"
#include "ipset/policy.h"
#include "policy_attributes.h"

using namespace viaduct;
using namespace viaduct::ipset;

namespace {

void CheckEntry(const EntryRecord& entry) {
  if (entry.family != 0 && entry.family != AF_INET && entry.family != AF_INET6) abort();
  if (entry.is_exception > 1 || entry.comment_length != 0) abort();
  const OpRecord op{0, 0, Op::kAddEntry, {}};
  SetRecord set{};
  set.name[0] = 'A';
  std::string_view("hash:ip,port,net").copy(set.type, sizeof set.type - 1);
  const Batch batch{{&op, 1}, {&set, 1}, {&entry, 1}, {}};
  RequestBuffer<2 * kMaxRequestBytes> buffer;
  MessageBuilder builder(buffer);
  if (!EncodeOperation(builder, {7, 1}, batch, op)) abort();  // asserts that it conforms to the policy
  if (EncodeEntries(builder, {7, 2}, batch, 0) != 1) abort();
}

void CheckRange(const std::optional<Range>& range) {
  if (range && range->lowest > range->highest) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const bool is_of_entries = input.ConsumeBool();
  const auto payload = MakePayload(input, 4, is_of_entries ? kEntryCommandPolicy : kSetCommandPolicy);
  CheckRange(DecodeProtocol(payload));
  CheckRange(DecodeRevisions(payload));
  (void)DecodeLine(payload);
  const auto set = DecodeSet(payload);
  if (set && (set->name[0] == '\0' || set->type[0] == '\0' || set->name[31] != '\0' || set->type[31] != '\0'))
    abort();
  std::vector<EntryRecord> entries;
  (void)DecodeEntries(payload, entries);
  for (const EntryRecord& entry : entries) CheckEntry(entry);
  return 0;
}
