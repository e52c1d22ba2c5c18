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

/// The strings of a batch, by number.
class Texts {
 public:
  /// NUL-ended strings, one after the other. NB: views, not copies.
  explicit Texts(std::span<const uint8_t> bytes);

  /// Nothing when there is no such text.
  std::optional<std::string_view> At(uint32_t number) const {
    if (number >= texts_.size()) return std::nullopt;
    return texts_[number];
  }
  size_t size() const { return texts_.size(); }

 private:
  std::vector<std::string_view> texts_;
};

/// Rules as the kernel takes them, all padding zero, verdicts of jumps zero.
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

/// RuleRecords into entries. Matches come in the order of their cost, those that remember last, comments at
/// the very end, where only packets that match everything pass them.
class RuleEncoder {
 public:
  /// `fd`: a socket of the shape's family, which outlives this.
  RuleEncoder(const Shape& shape, SocketCalls& calls, int fd)
      : shape_(&shape), calls_(&calls), fd_(fd), extensions_(shape, calls, fd) {}

  /// Adds one rule. EINVAL: the record asks for what cannot be said; EPROTONOSUPPORT: the kernel lacks a
  /// match or target; ENOENT: no such set. After an error the contents of `rules` are of no use.
  Status Encode(const RuleRecord& rule, const Texts& texts, EncodedRules& rules);
  /// Asks for the matches and targets of such a rule, which has the kernel load their modules; its set need
  /// not be there. What is lacking is for who encodes it to tell.
  void Load(const RuleRecord& rule, const Texts& texts);
  /// Matches and targets that the kernel lacked may be there by now.
  void AskAgain() { extensions_.AskAgain(); }

 private:
  struct Scope;  ///< one Encode()
  const Shape* shape_;
  SocketCalls* calls_;
  int fd_;
  Extensions extensions_;
};

}  // namespace viaduct::xtables
