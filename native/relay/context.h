#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/fd.h"
#include "core/held_descriptors.h"
#include "relay/budget.h"
#include "relay/listener_sockets.h"
#include "relay/loop.h"
#include "relay/network_set.h"
#include "relay/own_sockets.h"
#include "relay/service.h"

namespace viaduct::relay {

/// Settings for new connections and flows.
struct Settings {
  NetworkSet near_networks{};
  std::vector<std::string> near_interfaces{};  ///< exact names, or prefixes that end in `+`
  std::chrono::milliseconds udp_idle{250};
  NetworkSet node_port_addresses{};  ///< at which wildcards serve
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
  Counter connections, flows, accepted, failed, refused, shed, started_flows, evicted, spent_hops,
      received_bytes, sent_bytes;
};

/// When something was short, or went wrong, for the last time. Any thread.
class Shortage {
 public:
  void Note(Clock::time_point now) {
    last_ns_.store(now.time_since_epoch() / std::chrono::nanoseconds(1), std::memory_order_relaxed);
  }
  bool IsWithin(std::chrono::nanoseconds time, Clock::time_point now) const {
    const std::chrono::nanoseconds last(last_ns_.load(std::memory_order_relaxed));
    return last.count() > 0 && now.time_since_epoch() - last < time;
  }

 private:
  std::atomic<int64_t> last_ns_ = 0;  ///< steady clock; 0: never
};

/// When something happened often for the last time: at least kOften times within a second. Any thread. NB:
/// threads that begin a second at the same time may lose some of its counts.
class Surge {
 public:
  void Note(size_t count, Clock::time_point now) {
    const auto second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
    if (second_.exchange(second, std::memory_order_relaxed) != second)
      count_.store(0, std::memory_order_relaxed);
    if (count_.fetch_add(count, std::memory_order_relaxed) + count >= kOften) last_.Note(now);
  }
  bool IsWithin(std::chrono::nanoseconds time, Clock::time_point now) const {
    return last_.IsWithin(time, now);
  }

 private:
  /// Above what one trace of a route sends to one hop: three packets, or one per second.
  static constexpr size_t kOften = 10;

  std::atomic<int64_t> second_ = 0;  ///< steady clock
  std::atomic<size_t> count_ = 0;    ///< in that second
  Shortage last_;
};

/// What all workers share.
struct Shared {
  Shared(uint32_t descriptor_limit, uint32_t udp_port_limit, uint32_t affinity_limit)
      : descriptors(descriptor_limit, &held_descriptors),
        udp_ports(udp_port_limit),
        affinity_records(affinity_limit) {}

  Budget descriptors;
  /// Local ports of flows. The kernel gives a port to one unbound UDP socket of the whole node.
  Budget udp_ports;
  Budget affinity_records;
  Shortage descriptor_shortage;
  Shortage udp_port_shortage;
  /// Of one endpoint: the kernel has no free port for another connection to it.
  Shortage tcp_port_shortage;
  /// Of wildcards that cannot open again: another program has the port.
  Shortage taken_ports;
  /// Clients that were the relay itself.
  Shortage loops;
  /// Clients whose hop limit had ended.
  Surge spent_hops;
  OwnSockets own_streams;
  OwnSockets own_datagrams;
  ListenerSockets listeners;
};

/// What the parts of one worker share.
struct Context {
  Loop& loop;
  Shared& shared;
  Counters& counters;
  std::shared_ptr<const Settings> settings;

  /// Connections or datagrams end here, since they came with the last hop.
  void NoteSpentHops(size_t count) {
    counters.spent_hops.Add(static_cast<int64_t>(count));
    shared.spent_hops.Note(count, loop.now());
  }
};

/// A listening socket. The relay owns it; its worker uses it between Attach and Detach.
struct Listener : EventTarget {
  Listener() = default;
  virtual ~Listener() = default;
  Listener(const Listener&) = delete;  // the loop refers to it
  Listener(Listener&&) = delete;
  Listener& operator=(const Listener&) = delete;
  Listener& operator=(Listener&&) = delete;

  ListenerSocket fd;
  SocketAddress address;
  std::shared_ptr<Service> service;
  Verdict near = Verdict::kRefuse;
  Verdict far = Verdict::kRefuse;
  bool has_source_ranges = false;
};

/// Whether the listener serves clients that come to this address of the machine. A socket on all addresses
/// gets those of others too, such as VIPs.
bool ServesAt(const Settings& settings, const Listener& listener, const IpKey& address);

/// The verdict for a client. `interface_index`: of its first packet; 0: unknown.
Verdict Admit(const Settings& settings, const Listener& listener, const IpKey& client,
              unsigned interface_index);

}  // namespace viaduct::relay
