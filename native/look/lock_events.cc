#include "look/lock_events.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace viaduct::look {

LockEvents::LockEvents(std::string path) : path_(std::move(path)) { Watch(); }

bool LockEvents::Take() {
  bool is_any = Watch();
  // Room for some events. Their content does not matter, nor does an overflow.
  std::array<char, 1024> events;
  while (fd_.is_open() && read(fd_.get(), events.data(), events.size()) > 0) is_any = true;
  return is_any;
}

bool LockEvents::Watch() {
  if (!fd_.is_open()) fd_ = Fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd_.is_open()) return false;
  // inotify returns the same number for a file that is already watched.
  const int watch = inotify_add_watch(fd_.get(), path_.c_str(), IN_CLOSE);
  if (watch == watch_) return false;
  // Ignoring the result: the kernel has removed the watch of a deleted file.
  if (watch_ >= 0) (void)inotify_rm_watch(fd_.get(), watch_);
  watch_ = watch;
  return watch_ >= 0;
}

}  // namespace viaduct::look
