#pragma once

#include <chrono>
#include <list>
#include <unordered_map>

#include "relay/budget.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

using Clock = std::chrono::steady_clock;

/// The endpoint of each client of a service. A record ends `timeout` after its last use. All services share
/// `budget`; a service without a free record replaces its oldest one.
class Affinity {
 public:
  explicit Affinity(Budget& budget) : budget_(budget) {}
  ~Affinity() { Clear(); }
  Affinity(const Affinity&) = delete;  // counts in the budget
  Affinity(Affinity&&) = delete;
  Affinity& operator=(const Affinity&) = delete;
  Affinity& operator=(Affinity&&) = delete;

  /// nullptr: no record, or an expired one. Counts as a use.
  const SocketAddress* Find(const IpKey& client, Clock::time_point now, std::chrono::seconds timeout);
  void Put(const IpKey& client, const SocketAddress& endpoint, Clock::time_point now,
           std::chrono::seconds timeout);
  void Remove(const IpKey& client);
  void Clear();
  size_t size() const { return records_.size(); }

 private:
  struct Record {
    IpKey client;
    SocketAddress endpoint;
    Clock::time_point last_use;
  };
  using Records = std::list<Record>;
  void Erase(Records::iterator record);

  Budget& budget_;
  Records records_;  ///< the last used one last
  std::unordered_map<IpKey, Records::iterator, KeyHash> by_client_;
};

}  // namespace viaduct::relay
