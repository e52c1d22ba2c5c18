// One message about a listening socket.
#include <netinet/in.h>

#include <cstdlib>

#include "ports/diag.h"

using namespace viaduct::ports;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto socket = DecodeListener({data, size}, IPPROTO_TCP);
  if (socket && socket->is_dual_stack && socket->listener.family != AF_INET6) abort();
  return 0;
}
