// nf_tables messages: names of chains.
#include <cstdlib>

#include "nftables/decode.h"
#include "nftables/policy.h"
#include "policy_attributes.h"

using namespace viaduct;
using namespace viaduct::nftables;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const auto payload = MakePayload(input, 4, kChainPolicy);
  const auto name = DecodeChainName(payload);
  if (!name) return 0;
  if (name->table.empty() || name->chain.empty()) abort();
  if (name->chain.find('\0') != std::string_view::npos) abort();
  return 0;
}
