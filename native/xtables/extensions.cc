#include "xtables/extensions.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace viaduct::xtables {

namespace {

constexpr uint8_t kNoRevision = 0xff;

struct Known {
  const char* name;
  bool is_target;
  uint8_t revisions[2];  ///< newest first
};

constexpr Known kKnown[] = {
    {"tcp", false, {0, kNoRevision}},
    {"udp", false, {0, kNoRevision}},
    {"sctp", false, {0, kNoRevision}},
    {"mark", false, {1, kNoRevision}},
    {"conntrack", false, {3, kNoRevision}},
    {"addrtype", false, {1, kNoRevision}},
    {"set", false, {4, kNoRevision}},
    {"bpf", false, {1, 0}},
    {"statistic", false, {0, kNoRevision}},
    {"recent", false, {1, 0}},
    {"comment", false, {0, kNoRevision}},
    {"MARK", true, {2, kNoRevision}},
    {"DNAT", true, {2, 1}},
    {"MASQUERADE", true, {0, kNoRevision}},
    {"REJECT", true, {0, kNoRevision}},
    {"SET", true, {3, kNoRevision}},
};

const Known& KnownOf(Extension extension) { return kKnown[static_cast<size_t>(extension)]; }

}  // namespace

const char* NameOf(Extension extension) { return KnownOf(extension).name; }

Result<uint8_t> Extensions::Revision(Extension extension) {
  static_assert(std::size(kKnown) == kCount);
  auto& known = known_[static_cast<size_t>(extension)];
  if (known) return *known;
  auto& missing = missing_[static_cast<size_t>(extension)];
  if (missing) return *missing;
  auto revision = Ask(extension);
  if (revision.ok())
    known = revision.value();
  else
    missing = revision.error();
  return revision;
}

// net/netfilter/x_tables.c xt_find_revision(): EPROTONOSUPPORT for other revisions, ENOENT for none.
Result<uint8_t> Extensions::Ask(Extension extension) {
  const Known& wanted = KnownOf(extension);
  for (const uint8_t revision : wanted.revisions) {
    if (revision == kNoRevision) break;
    xt_get_revision query{};
    strncpy(query.name, wanted.name, sizeof query.name - 1);
    query.revision = revision;
    socklen_t length = sizeof query;
    const int option = wanted.is_target ? shape_->target_revision_option : shape_->match_revision_option;
    if (calls_->GetOption(fd_, shape_->level, option, &query, &length) == 0) return revision;
    if (errno != EPROTONOSUPPORT && errno != ENOENT)
      return Error{errno, std::string("read the revision of ") + wanted.name, {}};
  }
  return Error{EPROTONOSUPPORT, "encode a rule",
               std::string("this kernel has no ") + (wanted.is_target ? "target " : "match ") + wanted.name +
                   " of revision " + std::to_string(wanted.revisions[0])};
}

}  // namespace viaduct::xtables
