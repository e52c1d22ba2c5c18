#include "system/network_namespace.h"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>

namespace viaduct::system {

namespace {

constexpr const char* kOperation = "create a network namespace";

/// The namespace of the calling thread.
Fd OpenOwn() { return Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

Status Move(const Fd& place) {
  if (setns(place.get(), CLONE_NEWNET) != 0) return Error{errno, "change the network namespace", ""};
  return Ok();
}

}  // namespace

Result<NetworkNamespace> NetworkNamespace::Create() {
  Fd outer = OpenOwn();
  if (!outer.is_open()) return Error{errno, kOperation, ""};
  if (unshare(CLONE_NEWNET) != 0) return Error{errno, kOperation, ""};
  Fd inner = OpenOwn();
  const int failure = inner.is_open() ? 0 : errno;
  const Status back = Move(outer);
  if (!back.ok()) return back.error();
  if (failure != 0) return Error{failure, kOperation, ""};
  return NetworkNamespace(std::move(outer), std::move(inner));
}

Status NetworkNamespace::Enter() const { return Move(inner_); }

Status NetworkNamespace::Leave() const { return Move(outer_); }

}  // namespace viaduct::system
