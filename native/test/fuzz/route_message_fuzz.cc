// rtnetlink messages: routes, addresses, links, policy routing rules.
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <cstdlib>

#include "policy_attributes.h"
#include "route/decode.h"
#include "route/policy.h"

using namespace viaduct;
using namespace viaduct::route;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange<int>(0, 4)) {
    case 0:
      (void)DecodeRoute(MakePayload(input, sizeof(rtmsg), kRoutePolicy));
      break;
    case 1: {
      const auto address = DecodeAddress(MakePayload(input, sizeof(ifaddrmsg), kAddressPolicy));
      if (address && address->family != AF_INET && address->family != AF_INET6) abort();
      break;
    }
    case 4: {
      const auto hops = DecodeNextHops(MakePayload(input, sizeof(rtmsg), kRoutePolicy));
      for (const AddressRecord& hop : hops.value_or(std::vector<AddressRecord>{}))
        if (hop.family != AF_INET && hop.family != AF_INET6) abort();
      break;
    }
    case 3: {
      const auto rule = DecodeRule(MakePayload(input, sizeof(fib_rule_hdr), kRulePolicy));
      if (rule && rule->is_inverted > 1) abort();
      break;
    }
    default: {
      const auto link = DecodeLink(MakePayload(input, sizeof(ifinfomsg), kLinkPolicy));
      if (link && (link->name[15] != 0 || link->kind[15] != 0 || link->name[0] == 0 || link->index == 0))
        abort();
    }
  }
  return 0;
}
