// Entries of IP_VS_SO_GET_SERVICES and IP_VS_SO_GET_DESTS.
#include <cstdlib>
#include <cstring>

#include "ipvs/decode.h"

using namespace viaduct::ipvs;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (; size >= sizeof(ip_vs_service_entry);
       data += sizeof(ip_vs_service_entry), size -= sizeof(ip_vs_service_entry)) {
    ip_vs_service_entry service;
    memcpy(&service, data, sizeof service);
    const auto decoded = DecodeServiceEntry(service);
    if (decoded.has_value() != (service.protocol != 0 || service.fwmark != 0)) abort();
    if (decoded && (decoded->record.scheduler[15] != 0 || decoded->record.netmask_length > 32)) abort();
    ip_vs_dest_entry dest;
    memcpy(&dest, data, sizeof dest);
    RealEntry real;
    DecodeDestinationEntry(dest, real.record);
    DecodeDestinationCounters(dest, real.counters);
    if (real.record.forwarding > IP_VS_CONN_F_FWD_MASK) abort();
  }
  return 0;
}
