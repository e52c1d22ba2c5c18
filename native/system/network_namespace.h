#pragma once

#include <utility>

#include "core/fd.h"
#include "core/result.h"

namespace viaduct::system {

/// An empty network namespace, for probes that must not change the namespace of this process. It lives as
/// long as this object, or a socket that was opened in it. Needs CAP_SYS_ADMIN.
class NetworkNamespace {
 public:
  /// EPERM: without CAP_SYS_ADMIN. EINVAL: the kernel has no network namespaces.
  static Result<NetworkNamespace> Create();

  /// Moves the calling thread into the namespace.
  Status Enter() const;
  /// Moves the calling thread back to where Create() was called.
  Status Leave() const;

 private:
  NetworkNamespace(Fd outer, Fd inner) : outer_(std::move(outer)), inner_(std::move(inner)) {}

  Fd outer_;
  Fd inner_;
};

}  // namespace viaduct::system
