#pragma once

#include <cstdint>
#include <string_view>

#include "core/netlink_socket.h"
#include "core/result.h"

namespace viaduct::xtables {

/// Asks nft_compat for revision 0 of a match, for which the kernel loads the module with the alias `ipt_NAME`
/// or `ip6t_NAME`. `socket`: of NETLINK_NETFILTER. `name` has at most 28 bytes. Error: the kernel has no
/// nft_compat, or no such match. NB: the request loads nft_compat if the module is available.
Status RequestMatch(NetlinkSocket& socket, uint8_t family, std::string_view name);

}  // namespace viaduct::xtables
