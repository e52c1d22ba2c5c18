#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/outcome.h"
#include "core/result.h"
#include "relay/record.h"

namespace viaduct::relay {

struct Options {
  unsigned workers = 0;           ///< threads; 0: one for each core, at most 4
  uint32_t descriptor_limit = 0;  ///< 0: from RLIMIT_NOFILE
  uint32_t udp_port_limit = 0;    ///< 0: from net.ipv4.ip_local_port_range
};

/// Settings as records.
struct SettingsRecords {
  std::span<const NetworkRecord> near_networks;
  std::span<const InterfaceRecord> near_interfaces;
  std::chrono::milliseconds udp_idle;
  std::span<const NetworkRecord> node_port_addresses;
};

/// What ended or refused connections or flows within the last seconds: shortages, and more.
struct Conditions {
  bool has_few_descriptors;
  bool has_few_udp_ports;
  bool has_few_tcp_ports;  ///< for connections to one endpoint
  bool has_taken_port;     ///< another program has the port of a UDP wildcard that is to open again
  bool has_loop;           ///< an endpoint is a frontend of the relay
  bool has_spent_hops;     ///< clients often came with the last hop
  uint32_t descriptor_limit;
  uint32_t udp_port_limit;
};

/// A proxy on own threads (Relay of src/kernel/relay/relay.ts). Each service belongs to one thread. One
/// call of Configure(), Apply() or ListFlows() at a time; ReadCounters() and ReadConditions() from any thread
/// at any time.
class Relay {
 public:
  /// Raises the soft limit of file descriptors to the hard limit, and starts the threads in the caller's
  /// network namespace.
  static Result<Relay> Open(const Options& options = {});
  ~Relay();
  Relay(const Relay&) = delete;
  Relay(Relay&& other) noexcept;
  Relay& operator=(const Relay&) = delete;
  Relay& operator=(Relay&& other) noexcept;

  Status Configure(const SettingsRecords& settings);
  /// Returns when the threads have applied all operations.
  BatchOutcome Apply(const Batch& batch);
  /// All connections and flows, in no order. Each thread makes its part between two rounds of its loop.
  std::vector<FlowRecord> ListFlows();
  CountersRecord ReadCounters() const;
  Conditions ReadConditions() const;

 private:
  class State;
  explicit Relay(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace viaduct::relay
