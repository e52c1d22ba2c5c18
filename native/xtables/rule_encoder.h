#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/socket_calls.h"
#include "xtables/extensions.h"
#include "xtables/record.h"
#include "xtables/shape.h"

namespace viaduct::xtables {

/// The strings of a batch, by index.
class Texts {
 public:
  /// NUL-ended strings, one after the other. NB: views, not copies.
  explicit Texts(std::span<const uint8_t> bytes);

  /// Nothing for an absent index.
  std::optional<std::string_view> At(uint32_t number) const {
    if (number >= texts_.size()) return std::nullopt;
    return texts_[number];
  }
  size_t size() const { return texts_.size(); }

 private:
  std::vector<std::string_view> texts_;
};

/// Rules in the format of the kernel. Padding and the verdicts of jumps are zero.
struct EncodedRules {
  struct Jump {
    uint32_t verdict;  ///< offset in `bytes`
    std::string_view chain;
  };
  std::vector<uint8_t> bytes;
  std::vector<Jump> jumps;  ///< ascending
  uint32_t count = 0;

  void Clear();
};

/// Encodes RuleRecords as entries. Cheap matches come first, then those with a state, then comments: only
/// packets that match everything else reach them.
class RuleEncoder {
 public:
  /// `fd`: a socket of the shape's family. NB: it must outlive this.
  RuleEncoder(const Shape& shape, SocketCalls& calls, int fd)
      : shape_(&shape), calls_(&calls), fd_(fd), extensions_(shape, calls, fd) {}

  /// Adds one rule. EINVAL: the record is not valid; EPROTONOSUPPORT: the kernel lacks a match or target;
  /// ENOENT: the set is absent. NB: after an error the content of `rules` is undefined.
  Status Encode(const RuleRecord& rule, const Texts& texts, EncodedRules& rules);
  /// Makes the kernel load the modules of the rule's matches and targets. Its set need not exist. Reports no
  /// error: Encode() does.
  void Load(const RuleRecord& rule, const Texts& texts);
  /// Requests missing matches and targets again.
  void AskAgain() { extensions_.AskAgain(); }

 private:
  struct Scope;  ///< state of one Encode()
  const Shape* shape_;
  SocketCalls* calls_;
  int fd_;
  Extensions extensions_;
};

}  // namespace viaduct::xtables
