// One message of the event subscription: two bytes of type, then the payload.
#include <cstdlib>
#include <cstring>

#include "route/decode.h"

using namespace viaduct::route;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint16_t type = 0;
  if (size < sizeof type) return 0;
  memcpy(&type, data, sizeof type);
  const auto event = DecodeEvent(type, {data + sizeof type, size - sizeof type});
  if (event && (event->kind == EventKind::kOverrun || event->name[15] != 0)) abort();
  if (event && event->op != Op::kAdd && event->op != Op::kRemove) abort();
  return 0;
}
