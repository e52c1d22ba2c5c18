#pragma once

#include <string>

#include "core/fd.h"

namespace viaduct::look {

/// Reports that another program released the lock of the iptables tools and may have changed any table.
///
/// Every tool opens the lock's file, locks it, changes a table, and closes the file at exit at the latest:
/// the close follows the change. XtablesLock does not close the file (xtables/xtables_lock.h), so every close
/// comes from another program, also while this process holds the lock. inotify reports closes from all mount
/// namespaces and merges unread ones.
class LockEvents {
 public:
  /// Starts to watch. Each Take() tries an absent file, or one that cannot be watched (EMFILE), again.
  explicit LockEvents(std::string path);

  /// Whether there was such a close since the last call, or the path has a new file, whose earlier closes are
  /// unknown. Does not wait.
  bool Take();

 private:
  /// True: the path has another file than before.
  bool Watch();

  std::string path_;
  Fd fd_;           ///< inotify
  int watch_ = -1;  ///< watch of the file; -1: none
};

}  // namespace viaduct::look
