// ctnetlink messages: flows, and the deletions of stale ones.
#include <netinet/in.h>

#include <cstdlib>

#include "conntrack/decode.h"
#include "conntrack/encode.h"
#include "conntrack/frontend_index.h"
#include "conntrack/policy.h"
#include "policy_attributes.h"

using namespace viaduct;
using namespace viaduct::conntrack;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const auto flow = DecodeFlow(MakePayload(input, 4, kFlowPolicy));
  if (!flow) return 0;
  if (flow->family != AF_INET && flow->family != AF_INET6) abort();

  FrontendRecord frontend{};
  memcpy(frontend.address, flow->original.destination.address, sizeof frontend.address);
  frontend.port = flow->original.destination.port;
  frontend.protocol = flow->original.protocol;
  const bool is_stale = FrontendIndex({&frontend, 1}, {}, {}).IsStale(*flow);
  if (!is_stale || !IsWithinFilter(frontend, *flow)) abort();
  RequestBuffer<kMaxRequestBytes> buffer;
  MessageBuilder builder(buffer);
  if (!EncodeDelete(builder, 1, *flow)) abort();  // asserts that it conforms to the policy
  return 0;
}
