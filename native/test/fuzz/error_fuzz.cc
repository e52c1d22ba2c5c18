// NLMSG_ERROR and NLMSG_DONE with their extended-ACK attributes.
#include <cstdlib>

#include "core/message_reader.h"

using namespace viaduct;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MessageReader reader({data, size});
  while (const auto message = reader.Next()) {
    for (const auto& report : {DecodeError(*message), DecodeDone(*message)}) {
      if (report && report->code < 0) abort();
      if (report && report->text.size() > message->payload.size()) abort();
    }
  }
  return 0;
}
