#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "core/outcome.h"
#include "core/result.h"
#include "relay/record.h"

namespace viaduct::relay {

struct Options {
  unsigned workers = 0;           ///< threads; 0: one for each core, at most 4
  uint32_t descriptor_limit = 0;  ///< 0: from RLIMIT_NOFILE
};

/// Settings as records.
struct SettingsRecords {
  std::span<const NetworkRecord> near_networks;
  std::span<const InterfaceRecord> near_interfaces;
  std::chrono::milliseconds udp_idle;
};

/// Descriptors are short: new connections or flows were refused within the last seconds.
struct Strain {
  bool is_short;
  uint32_t descriptor_limit;
};

/// A proxy on own threads (Relay of src/kernel/relay/relay.ts). Each service belongs to one thread. One
/// call of Configure() or Apply() at a time; ReadCounters() and ReadStrain() from any thread at any time.
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
  CountersRecord ReadCounters() const;
  Strain ReadStrain() const;

 private:
  class State;
  explicit Relay(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace viaduct::relay
