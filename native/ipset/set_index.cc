#include "ipset/set_index.h"

#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/ipset/ip_set.h>

#include <cerrno>
#include <cstring>

namespace viaduct::ipset {

namespace {

constexpr uint16_t kNoSet = 0xffff;  // IPSET_INVALID_ID

}  // namespace

// net/netfilter/ipset/ip_set_core.c ip_set_sockfn_get(); an AF_INET6 socket supports the option too.
Result<uint16_t> FindSetIndex(SocketCalls& calls, int fd, uint8_t family, const std::string& name) {
  const std::string operation = "find set " + name;
  if (name.empty() || name.size() >= IPSET_MAXNAMELEN)
    return Error{EINVAL, operation, "a set name must have 1 to 31 bytes"};
  ip_set_req_version version{};
  version.op = IP_SET_OP_VERSION;
  socklen_t length = sizeof version;
  if (calls.GetOption(fd, SOL_IP, SO_IP_SET, &version, &length) != 0)
    return Error{errno, operation, "the kernel has no ipset"};

  ip_set_req_get_set_family query{};
  query.op = IP_SET_OP_GET_FNAME;
  query.version = version.version;
  memcpy(query.set.name, name.data(), name.size());
  length = sizeof query;
  if (calls.GetOption(fd, SOL_IP, SO_IP_SET, &query, &length) != 0) return Error{errno, operation, {}};
  if (query.set.index == kNoSet) return Error{ENOENT, operation, {}};
  if (query.family != family && query.family != NFPROTO_UNSPEC)
    return Error{ENOENT, operation, "the set holds addresses of the other family"};
  return query.set.index;
}

}  // namespace viaduct::ipset
