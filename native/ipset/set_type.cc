#include "ipset/set_type.h"

namespace viaduct::ipset {

namespace {

// Revisions: the comments at IPSET_TYPE_REV_MAX of net/netfilter/ipset/ip_set_{hash,bitmap}_*.c
constexpr SetType kSetTypes[] = {
    {"hash:ip", 4, true, false, false, false},       {"hash:net", 6, true, false, false, true},
    {"hash:ip,port", 5, true, true, false, false},   {"hash:ip,port,ip", 5, true, true, true, false},
    {"hash:ip,port,net", 7, true, true, true, true}, {"bitmap:port", 3, false, true, false, false},
};

}  // namespace

const SetType* FindSetType(std::string_view name) {
  for (const SetType& type : kSetTypes)
    if (type.name == name) return &type;
  return nullptr;
}

}  // namespace viaduct::ipset
