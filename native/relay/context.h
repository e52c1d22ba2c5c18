#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/fd.h"
#include "relay/budget.h"
#include "relay/loop.h"
#include "relay/network_set.h"
#include "relay/service.h"

namespace viaduct::relay {

/// Settings for new connections and flows.
struct Settings {
  NetworkSet near_networks{};
  std::vector<std::string> near_interfaces{};  ///< exact names, or prefixes that end in `+`
  std::chrono::milliseconds udp_idle{250};
};

/// A number that one thread changes and all may read.
class Counter {
 public:
  void Add(int64_t count) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

/// The numbers of one worker (CountersRecord).
struct Counters {
  Counter connections, flows, accepted, failed, refused, shed, started_flows, evicted, received_bytes,
      sent_bytes;
};

/// What all workers share.
struct Shared {
  Shared(uint32_t descriptor_limit, uint32_t affinity_limit)
      : descriptors(descriptor_limit), affinity_records(affinity_limit) {}

  Budget descriptors;
  Budget affinity_records;
  std::atomic<int64_t> last_shortage_ns = 0;  ///< steady clock; 0: none so far

  void NoteShortage(Clock::time_point now) {
    last_shortage_ns.store(now.time_since_epoch() / std::chrono::nanoseconds(1), std::memory_order_relaxed);
  }
};

/// What the parts of one worker share.
struct Context {
  Loop& loop;
  Shared& shared;
  Counters& counters;
  std::shared_ptr<const Settings> settings;
};

/// A listening socket. The relay owns it; its worker uses it between Attach and Detach.
struct Listener : EventTarget {
  Fd fd;
  std::shared_ptr<Service> service;
  Verdict near = Verdict::kRefuse;
  Verdict far = Verdict::kRefuse;
  bool has_source_ranges = false;
};

/// The verdict for a client. `interface_index` is called only if the client's address does not decide.
Verdict Admit(const Settings& settings, const Listener& listener, const IpKey& client,
              const std::function<unsigned()>& interface_index);

}  // namespace viaduct::relay
