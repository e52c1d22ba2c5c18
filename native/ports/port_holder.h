#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/fd.h"
#include "core/held_descriptors.h"
#include "core/outcome.h"
#include "core/result.h"
#include "ports/record.h"
#include "ports/socket_store.h"

namespace viaduct::ports {

/// Bytes that a held socket may receive (SO_RCVBUF as set; the kernel doubles the number). It is small,
/// because no one reads them. It is an odd number, because another agent recognizes a held socket by it.
inline constexpr int kHeldReceiveBytes = 2579;

/// Binds ports, so that no other program gets them: a TCP socket that listens and accepts nothing, or a bound
/// UDP or SCTP socket. Without SO_REUSEPORT: with it, every program of the same user could bind the port too.
class PortHolder {
 public:
  /// File descriptors that holding ports leaves to the rest of the process.
  static constexpr int kReservedDescriptors = 512;

  /// `store_socket`: the value of NOTIFY_SOCKET; empty: there is no service manager. `inherited`: the bags
  /// that an earlier process stored. Does no system call.
  PortHolder(std::string store_socket, std::span<const InheritedRecord> inherited)
      : store_(std::move(store_socket)), inherited_(inherited.begin(), inherited.end()) {}

  struct Outcome {
    BatchOutcome batch;
    int store_error = 0;  ///< errno: the store lacks the last changes; the next call sends them again
  };
  /// kHold does nothing for a port that is held, or that an earlier process stored. EMFILE: only the reserved
  /// descriptors are left. kRelease: ENOENT when the port is not held.
  Result<Outcome> Apply(std::span<const PortRecord> records);
  /// The held ports, those of an earlier process too.
  Result<std::vector<PortRecord>> List();

 private:
  struct Less {
    bool operator()(const PortRecord& a, const PortRecord& b) const { return memcmp(&a, &b, sizeof a) < 0; }
  };

  /// A socket in `held_descriptors`.
  struct Held {
    explicit Held(Fd socket) : fd(std::move(socket)) { held_descriptors.fetch_add(1); }
    ~Held() { held_descriptors.fetch_sub(1); }
    Held(const Held&) = delete;  // counts once
    Held(Held&&) = delete;
    Held& operator=(const Held&) = delete;
    Held& operator=(Held&&) = delete;
    Fd fd;
  };

  void Adopt();
  int Hold(const PortRecord& port);
  int Release(const PortRecord& port);

  SocketStore store_;
  std::vector<InheritedRecord> inherited_;
  std::map<PortRecord, Held, Less> held_;  ///< by records with kNone
};

}  // namespace viaduct::ports
