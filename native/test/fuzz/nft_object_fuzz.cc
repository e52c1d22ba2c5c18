// nf_tables objects of any attributes: an object that was read can be written and read again unchanged.
// Elements of any layout. Operations of any bytes, as from a broken caller.
#include <cstdlib>
#include <vector>

#include "core/message_builder.h"
#include "nftables/batch.h"
#include "nftables/elements.h"
#include "nftables/object_codec.h"
#include "nftables/policy.h"
#include "policy_attributes.h"

using namespace viaduct;
using namespace viaduct::nftables;

namespace {

const Policy* const kPolicies[] = {&kTablePolicy, &kChainPolicy, &kRulePolicy, &kSetPolicy,
                                   &kNamedCounterPolicy};

std::vector<uint8_t> Read(std::span<const uint8_t> attributes, const Policy& policy) {
  StreamWriter stream;
  return ReadObject(attributes, policy, stream) ? stream.Finish() : std::vector<uint8_t>{};
}

void CheckRoundTrip(std::span<const uint8_t> attributes, const Policy& policy) {
  const auto object = Read(attributes, policy);
  if (object.empty()) return;
  std::vector<uint8_t> buffer(1 << 16);
  MessageBuilder builder(buffer);
  builder.BeginMessage<uint32_t>(0, 0, 0);
  StreamReader stream(object);
  PutObject(builder, policy, stream);
  if (!stream.ok() || !stream.empty() || !builder.FinishMessage()) abort();
  if (Read(builder.sealed().subspan(NLMSG_HDRLEN + sizeof(uint32_t)), policy) != object) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const auto choice = input.ConsumeIntegralInRange<size_t>(0, std::size(kPolicies) + 1);
  if (choice < std::size(kPolicies)) {
    const Policy& policy = *kPolicies[choice];
    CheckRoundTrip(MakePayload(input, 0, policy), policy);
  } else if (choice == std::size(kPolicies)) {
    (void)BuildBatch(input.ConsumeRemainingBytes<uint8_t>(), {});
  } else {
    const ElementLayout layout{input.ConsumeIntegralInRange<uint32_t>(1, 64),
                               input.ConsumeIntegralInRange<uint32_t>(1, 64),
                               input.ConsumeIntegralInRange<uint32_t>(0, kAllParts),
                               static_cast<ElementData>(input.ConsumeIntegralInRange<uint32_t>(0, 3))};
    ElementReader elements(layout);
    (void)elements.Add(MakePayload(input, 0, kElementsPolicy));
    (void)elements.Finish();
  }
  return 0;
}
