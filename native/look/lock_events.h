#pragma once

#include <string>

#include "core/fd.h"

namespace viaduct::look {

/// Notices that another program let go of the lock of the iptables tools, and so may have changed any table.
///
/// Every tool opens the lock's file, locks it, changes a table, and closes the file at the end at the latest:
/// the close comes after the change. Our own takes close nothing (xtables/xtables_lock.h), so a close is
/// never ours, and one of another program is not missed while we hold the lock. inotify reports closes of a
/// file from all mount namespaces, and merges those that nobody has read yet.
class LockEvents {
 public:
  /// Watches from now on. A file that is missing, or cannot be watched (EMFILE), is tried again by each
  /// Take().
  explicit LockEvents(std::string path);

  /// Whether there was such a close since the last call, or the path names another file now, whose closes
  /// were not seen. Does not wait.
  bool Take();

 private:
  /// True: the path names another file than before.
  bool Watch();

  std::string path_;
  Fd fd_;           ///< inotify
  int watch_ = -1;  ///< of the file; -1: none
};

}  // namespace viaduct::look
