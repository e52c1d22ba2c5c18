// Keys that share one bucket under a hash without a secret.
#include "core/seeded_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>

#include "conntrack/frontend_key.h"

namespace viaduct {
namespace {

constexpr size_t kKeys = 2000;

/// The number of keys in the fullest bucket.
template <typename Set>
size_t Fullest(const Set& set) {
  size_t most = 0;
  for (size_t bucket = 0; bucket < set.bucket_count(); ++bucket)
    most = std::max(most, set.bucket_size(bucket));
  return most;
}

// At a load of at most 1 a bucket with this many keys is less likely than 2^-40.
constexpr size_t kFull = 16;

// Issue 35, A4: the hash was the repetition of hash = (hash ^ word) * kOdd, hash ^= hash >> 32. All keys had
// one hash: 40,000 backends took 4.8 s.
TEST(SeededHashTest, AddressesThatAnAttackerChoseSpreadOverTheBuckets) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::unordered_set<conntrack::FrontendKey, conntrack::FrontendKeyHash> keys;
  for (uint64_t high = 1; high <= kKeys; ++high) {
    const uint64_t hash = high * kOdd;
    keys.insert({high, hash ^ (hash >> 32), 53});
  }
  EXPECT_LT(Fullest(keys), kFull);
}

// The hash of the standard library has no secret.
TEST(SeededHashTest, NamesThatAnAttackerChoseSpreadOverTheBuckets) {
  constexpr size_t kNames = 200;
  std::unordered_set<std::string, TextHash> names(kNames);
  for (uint64_t number = 0; names.size() < kNames; ++number) {
    const std::string name = "KUBE-SEP-" + std::to_string(number);
    if (std::hash<std::string>()(name) % names.bucket_count() == 0) names.insert(name);
  }
  EXPECT_LT(Fullest(names), kFull);
}

TEST(SeededHashTest, EveryByteCounts) {
  std::unordered_set<size_t> hashes;
  size_t texts = 0;
  for (size_t length = 0; length < 20; ++length) {
    hashes.insert(TextHash()(std::string(length, 'a')));
    ++texts;
    for (size_t at = 0; at < length; ++at) {
      std::string text(length, 'a');
      text[at] = 'b';
      hashes.insert(TextHash()(text));
      ++texts;
    }
  }
  EXPECT_EQ(hashes.size(), texts);
  EXPECT_NE(TextHash()(std::string("a")), TextHash()(std::string("a\0", 2)));
}

}  // namespace
}  // namespace viaduct
