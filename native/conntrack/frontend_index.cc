#include "conntrack/frontend_index.h"

namespace viaduct::conntrack {

namespace {

/// The address of node ports in the keys of frontends.
constexpr uint8_t kNoAddress[16] = {};

}  // namespace

FrontendIndex::FrontendIndex(std::span<const FrontendRecord> frontends,
                             std::span<const BackendRecord> backends,
                             std::span<const AddressRecord> node_port_addresses) {
  frontends_.reserve(frontends.size());
  for (const FrontendRecord& frontend : frontends) {
    const bool is_node_port = frontend.is_node_port != 0;
    const uint64_t rest = FrontendRest(frontend.protocol, frontend.port, is_node_port);
    frontends_.emplace(FrontendKey::Make(is_node_port ? kNoAddress : frontend.address, rest),
                       frontend.backend_set);
  }
  backends_.reserve(backends.size());
  for (const BackendRecord& backend : backends)
    backends_.insert(FrontendKey::Make(backend.address, BackendRest(backend.backend_set, backend.port)));
  node_port_addresses_.reserve(node_port_addresses.size());
  for (const AddressRecord& record : node_port_addresses)
    node_port_addresses_.insert(FrontendKey::Make(record.address, 0));
}

bool FrontendIndex::IsStale(const Flow& flow) const {
  const uint32_t* const backend_set = FindBackendSet(flow.original);
  if (backend_set == nullptr) return false;
  const Endpoint& answering = flow.reply_source;
  return !backends_.contains(FrontendKey::Make(answering.address, BackendRest(*backend_set, answering.port)));
}

bool FrontendIndex::Serves(const Flow& flow) const { return FindBackendSet(flow.original) != nullptr; }

const uint32_t* FrontendIndex::FindBackendSet(const Tuple& tuple) const {
  const Endpoint& wanted = tuple.destination;
  auto found =
      frontends_.find(FrontendKey::Make(wanted.address, FrontendRest(tuple.protocol, wanted.port, false)));
  if (found == frontends_.end() && node_port_addresses_.contains(FrontendKey::Make(wanted.address, 0)))
    found = frontends_.find(FrontendKey::Make(kNoAddress, FrontendRest(tuple.protocol, wanted.port, true)));
  return found == frontends_.end() ? nullptr : &found->second;
}

uint64_t FrontendIndex::FrontendRest(uint8_t protocol, uint16_t port, bool is_node_port) {
  return uint64_t{is_node_port} << 32 | uint64_t{protocol} << 16 | port;
}

uint64_t FrontendIndex::BackendRest(uint32_t backend_set, uint16_t port) {
  return uint64_t{backend_set} << 16 | port;
}

}  // namespace viaduct::conntrack
