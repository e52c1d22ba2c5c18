// Netlink answers of the IPVS family: services, real servers, timeouts, family id.
#include <linux/genetlink.h>
#include <netinet/in.h>

#include <cstdlib>

#include "ipvs/decode.h"
#include "ipvs/policy.h"
#include "policy_attributes.h"

using namespace viaduct;
using namespace viaduct::ipvs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const bool is_control = input.ConsumeIntegralInRange<int>(0, 7) == 0;
  const auto payload = MakePayload(input, GENL_HDRLEN, is_control ? kControlPolicy : kCommandPolicy);
  if (const auto service = DecodeService(payload)) {
    const VirtualServerRecord& record = service->record;
    if (record.family != AF_INET && record.family != AF_INET6) abort();
    if (record.netmask_length > (record.family == AF_INET ? 32 : 128)) abort();
    if (record.scheduler[15] != 0 || (record.flags & IP_VS_SVC_F_HASHED) != 0) abort();
    if (record.mark != 0 && (record.port != 0 || record.protocol != 0)) abort();
  }
  for (const uint8_t family : {AF_INET, AF_INET6}) {
    const auto real = DecodeDestination(payload, family);
    if (real && real->record.family != AF_INET && real->record.family != AF_INET6) abort();
    if (real && real->record.forwarding > IP_VS_CONN_F_FWD_MASK) abort();
  }
  (void)DecodeTimeouts(payload);
  if (DecodeFamilyId(payload) == 0) abort();
  return 0;
}
