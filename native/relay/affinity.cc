#include "relay/affinity.h"

namespace viaduct::relay {

const SocketAddress* Affinity::Find(const IpKey& client, Clock::time_point now,
                                    std::chrono::seconds timeout) {
  const auto found = by_client_.find(client);
  if (found == by_client_.end()) return nullptr;
  const auto record = found->second;
  if (record->last_use + timeout <= now) {
    Erase(record);
    return nullptr;
  }
  record->last_use = now;
  records_.splice(records_.end(), records_, record);
  return &record->endpoint;
}

void Affinity::Put(const IpKey& client, const SocketAddress& endpoint, Clock::time_point now,
                   std::chrono::seconds timeout) {
  Remove(client);
  while (!records_.empty() && records_.front().last_use + timeout <= now) Erase(records_.begin());
  if (!budget_.Allows(static_cast<uint32_t>(records_.size()))) {
    if (records_.empty()) return;
    Erase(records_.begin());
  }
  records_.push_back({client, endpoint, now});
  by_client_.emplace(client, std::prev(records_.end()));
  budget_.Take(1);
}

void Affinity::Remove(const IpKey& client) {
  const auto found = by_client_.find(client);
  if (found != by_client_.end()) Erase(found->second);
}

void Affinity::Clear() {
  budget_.Give(static_cast<uint32_t>(records_.size()));
  by_client_.clear();
  records_.clear();
}

void Affinity::Erase(Records::iterator record) {
  by_client_.erase(record->client);
  records_.erase(record);
  budget_.Give(1);
}

}  // namespace viaduct::relay
