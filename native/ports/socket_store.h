#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/fd.h"
#include "core/result.h"
#include "ports/record.h"

namespace viaduct::ports {

/// Keeps copies of sockets in the descriptor store of a service manager (sd_notify(3), FDSTORE=1), so that a
/// restart does not close them. The manager compares a new descriptor with each one that it has, and passes
/// the names of all descriptors in one environment variable, which has a limit of 128 KiB. So a stored
/// descriptor is a bag: a Unix socket with up to kBagSize sockets in its receive queue. A change of a socket
/// replaces its bag.
class SocketStore {
 public:
  /// SCM_MAX_FD of the kernel: the most descriptors of one message.
  static constexpr size_t kBagSize = 253;

  /// `socket` is the value of NOTIFY_SOCKET. Empty: nothing is stored.
  explicit SocketStore(std::string socket) : socket_(std::move(socket)) {}

  /// Takes in a bag of an earlier process, and closes the descriptor of the bag. Returns copies of its
  /// sockets, which count as added. An unreadable bag counts as changed: the next Flush() removes it.
  std::vector<Fd> Adopt(const InheritedRecord& inherited);

  void Add(int fd);
  /// NB: call it before the descriptor is closed.
  void Remove(int fd);
  /// Sends the changed bags to the service manager. After an error, the next call sends the rest.
  Status Flush();

 private:
  struct Bag {
    uint32_t stored_number = 0;  ///< 0: not stored
    std::vector<int> fds;
    bool is_changed = false;
  };

  void Put(size_t bag, int fd);
  void NoteChange(size_t bag);
  Result<uint32_t> Store(const std::vector<int>& fds);

  std::string socket_;
  std::vector<Bag> bags_;
  std::map<int, size_t> bag_of_;  ///< indices into bags_, by descriptor
  std::vector<size_t> changed_;
  std::vector<uint32_t> obsolete_;  ///< numbers of stored bags that have a successor
  size_t first_open_ = 0;           ///< the bags before it are full
  uint32_t next_number_ = 1;
};

}  // namespace viaduct::ports
