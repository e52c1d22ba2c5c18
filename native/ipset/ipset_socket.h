#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/message_builder.h"
#include "core/netlink_socket.h"
#include "core/outcome.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "ipset/record.h"

namespace viaduct::ipset {

/// The sets of the network namespace in which it was opened. Not thread-safe: one call at a time. Every call
/// fails with EPROTONOSUPPORT, operation "negotiate ipset protocol", while the kernel has no ip_set, and
/// works as soon as the module, or another version, is loaded. Codes above 4096 are IPSET_ERR_*.
class IpsetSocket {
 public:
  static Result<IpsetSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Error: nothing was sent. Otherwise the outcome accounts for every operation.
  Result<BatchOutcome> Apply(const Batch& batch);

  /// All sets, of all types. NB: the kernel counts their entries one by one.
  Result<std::vector<SetRecord>> ListSets();
  /// The entries of one set, unordered. ENOENT: the set is absent.
  Result<std::vector<EntryRecord>> ListEntries(std::string_view name);
  /// FindSetIndex() for a set of AF_INET or AF_INET6. Opens a socket for the call.
  Result<uint16_t> FindIndex(uint8_t family, const std::string& name);

 private:
  /// The operations of one message.
  struct Piece {
    uint32_t first;
    uint32_t count;
    bool is_packed;
  };
  /// Progress of a batch.
  struct Progress {
    uint32_t next = 0;
    /// Entries before this one are sent one per message.
    uint32_t single_until = 0;
    std::vector<Failure> failures = {};
  };

  IpsetSocket(NetlinkSocket socket, SocketCalls& calls) : calls_(&calls), socket_(std::move(socket)) {}
  Status Negotiate();
  void Forget();
  template <typename Question>
  Status Ask(const Question& ask);
  Result<uint8_t> FindRevision(const SetRecord& set);
  Status Create(const SetRecord& set);
  Status CheckFamily(const SetRecord& set);
  void SendMessages(const Batch& batch, Progress& progress);
  uint32_t ComposeMessages(const Batch& batch, const Progress& progress, MessageBuilder& builder,
                           uint32_t first_sequence);
  void Settle(std::vector<Failure>& refusals, uint32_t end, Progress& progress);
  template <typename Read>
  Status DumpList(std::span<const uint8_t> request, const Read& read,
                  const std::function<void()>& on_restart);

  SocketCalls* calls_;
  NetlinkSocket socket_;
  uint8_t protocol_ = 0;                                          ///< 0: not negotiated
  std::map<std::pair<std::string, uint8_t>, uint8_t> revisions_;  ///< by type and family
  std::vector<Piece> pieces_;
  std::vector<uint8_t> buffer_;
};

}  // namespace viaduct::ipset
