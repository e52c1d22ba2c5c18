#pragma once

#include <netinet/in.h>

#include <cstring>

#include "conntrack/flow.h"
#include "conntrack/record.h"

namespace viaduct::conntrack {

/// 10.96.0.`last`, or fd00::`last`.
inline void SetAddress(uint8_t (&address)[16], uint8_t family, uint8_t last) {
  memset(address, 0, sizeof address);
  address[0] = family == AF_INET ? 10 : 0xfd;
  if (family == AF_INET) address[1] = 96;
  address[family == AF_INET ? 3 : 15] = last;
}

inline Endpoint MakeEndpoint(uint8_t family, uint8_t last, uint16_t port) {
  Endpoint endpoint{};
  SetAddress(endpoint.address, family, last);
  endpoint.port = port;
  return endpoint;
}

/// UDP from .1 port 1000 to .`destination` port `port`, answered by .`answering` port 5353.
inline Flow MakeFlow(uint8_t family, uint8_t destination, uint16_t port, uint8_t answering) {
  Flow flow{};
  flow.family = family;
  flow.original.source = MakeEndpoint(family, 1, 1000);
  flow.original.destination = MakeEndpoint(family, destination, port);
  flow.original.protocol = IPPROTO_UDP;
  flow.reply_source = MakeEndpoint(family, answering, 5353);
  return flow;
}

/// UDP at .`last`.
inline FrontendRecord MakeFrontend(uint8_t family, uint8_t last, uint16_t port, uint32_t backend_set) {
  FrontendRecord frontend{};
  SetAddress(frontend.address, family, last);
  frontend.backend_set = backend_set;
  frontend.port = port;
  frontend.protocol = IPPROTO_UDP;
  return frontend;
}

/// UDP at every address that serves node ports.
inline FrontendRecord MakeNodePort(uint16_t port, uint32_t backend_set) {
  FrontendRecord frontend{};
  frontend.backend_set = backend_set;
  frontend.port = port;
  frontend.protocol = IPPROTO_UDP;
  frontend.is_node_port = 1;
  return frontend;
}

inline AddressRecord MakeAddress(uint8_t family, uint8_t last) {
  AddressRecord record{};
  SetAddress(record.address, family, last);
  return record;
}

/// .`last` port 5353.
inline BackendRecord MakeBackend(uint8_t family, uint8_t last, uint32_t backend_set) {
  BackendRecord backend{};
  SetAddress(backend.address, family, last);
  backend.backend_set = backend_set;
  backend.port = 5353;
  return backend;
}

}  // namespace viaduct::conntrack
