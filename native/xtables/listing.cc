#include "xtables/listing.h"

#include <unordered_map>

#include "xtables/entry.h"

namespace viaduct::xtables {

namespace {

bool Drops(const TableImage& image, const ImageChain& built_in) {
  const EntryView policy = image.At(built_in.last);
  const auto at = policy.VerdictOffset();
  return at && Load<int32_t>(policy.bytes() + *at) == kDropVerdict;
}

/// Chains of an image, one behind the other.
class Part {
 public:
  explicit Part(const TableImage& image) : image_(&image) {}

  Status AddBuiltIn(const ImageChain& chain) {
    return Add(chain, {std::string(chain.name), true, Drops(*image_, chain)}, chain.rules);
  }

  /// All chains to which rules of the part lead, these included.
  Status AddReached(const WantedTable& wanted) {
    for (size_t i = 0; i < reached_.size(); ++i) {
      const ImageChain& chain = image_->chains()[reached_[i]];
      const uint32_t number = wanted.Find(chain.name, 0);
      const bool is_wanted = number != kNone && wanted.chain(number).state == WantedChain::State::kWanted;
      places_[reached_[i]] = static_cast<uint32_t>(listing_.bytes.size());
      Status status = Add(chain, {std::string(chain.name)}, is_wanted ? chain.last : chain.rules);
      if (!status.ok()) return status;
    }
    return Ok();
  }

  Listing Finish() && {
    for (const TableImage::Jump& jump : jumps_)
      Store(listing_.bytes.data() + jump.verdict, static_cast<int32_t>(places_.at(jump.chain)));
    return std::move(listing_);
  }

 private:
  /// `from`: offset of the first entry to add.
  Status Add(const ImageChain& chain, Listing::Chain listed, uint32_t from) {
    listed.rules = static_cast<uint32_t>(listing_.bytes.size());
    listed.last = listed.rules + (chain.last - from);
    const auto entries = image_->bytes().subspan(from, chain.end - from);
    listing_.bytes.insert(listing_.bytes.end(), entries.begin(), entries.end());
    for (uint32_t at = from; at < chain.last; at += image_->At(at).size()) {
      const auto jump = image_->JumpAt(at);
      if (!jump.ok()) return jump.error();
      if (!jump.value()) continue;
      const uint32_t verdict = listed.rules + (jump.value()->verdict - from);
      if (jump.value()->chain == kNone) {
        const uint32_t next = listed.rules + (at - from) + image_->At(at).size();
        Store(listing_.bytes.data() + verdict, static_cast<int32_t>(next));
      } else {
        jumps_.push_back({verdict, jump.value()->chain});
        if (places_.emplace(jump.value()->chain, kNone).second) reached_.push_back(jump.value()->chain);
      }
    }
    listing_.chains.push_back(std::move(listed));
    return Ok();
  }

  const TableImage* image_;
  Listing listing_;
  std::vector<uint32_t> reached_;                  ///< numbers among image.chains(), in the order of the part
  std::unordered_map<uint32_t, uint32_t> places_;  ///< offsets in the part, by these numbers
  std::vector<TableImage::Jump> jumps_;            ///< with the offset of the verdict in the part
};

}  // namespace

Listing ListAll(const TableImage& image) {
  Listing listing;
  listing.bytes.assign(image.bytes().begin(), image.bytes().end());
  for (const ImageChain& chain : image.built_in())
    listing.chains.push_back({std::string(chain.name), true, Drops(image, chain), chain.rules, chain.last});
  for (const ImageChain& chain : image.chains())
    listing.chains.push_back({std::string(chain.name), false, false, chain.rules, chain.last});
  return listing;
}

Result<Listing> ListReached(const TableImage& image, const WantedTable& wanted) {
  Part part(image);
  for (const ImageChain& chain : image.built_in()) {
    Status status = part.AddBuiltIn(chain);
    if (!status.ok()) return status.error();
  }
  Status status = part.AddReached(wanted);
  if (!status.ok()) return status.error();
  return std::move(part).Finish();
}

}  // namespace viaduct::xtables
