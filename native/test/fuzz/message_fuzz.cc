// MessageReader and AttributeReader come to an end and never read outside the datagram.
#include <cstdlib>

#include "core/attribute_reader.h"
#include "core/debug.h"
#include "core/message_reader.h"
#include "ipvs/policy.h"
#include "route/policy.h"

using namespace viaduct;

namespace {

void Require(bool claim) {
  if (!claim) abort();
}

bool IsInside(std::span<const uint8_t> part, std::span<const uint8_t> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void WalkAttributes(std::span<const uint8_t> bytes) {
  AttributeReader reader(bytes);
  size_t count = 0;
  while (const auto attribute = reader.Next()) {
    Require(IsInside(attribute->value, bytes));
    Require(++count <= bytes.size() / NLA_HDRLEN);
    Require((attribute->type & ~NLA_TYPE_MASK) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> datagram{data, size};
  MessageReader reader(datagram);
  size_t count = 0;
  while (const auto message = reader.Next()) {
    Require(IsInside(message->payload, datagram));
    Require(++count <= size / NLMSG_HDRLEN);
    WalkAttributes(message->payload);
    for (const Policy& policy : {ipvs::kCommandPolicy, route::kRoutePolicy, route::kAddressPolicy,
                                 route::kLinkPolicy, route::kRulePolicy})
      (void)Conforms(policy, message->payload);
  }
  Require(!FormatMessages(datagram).empty());
  return 0;
}
