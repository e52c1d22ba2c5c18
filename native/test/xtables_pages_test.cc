#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "xtables/pages.h"

namespace viaduct::xtables {
namespace {

constexpr size_t kSize = 1 << 20;

bool IsZero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

/// Where memory of `size` lies that was dirtied, and has come back.
const uint8_t* Dirty(PagePool& pool, size_t size) {
  auto loan = pool.Take(size);
  std::ranges::fill(loan.bytes(), 0xff);
  return loan.bytes().data();
}

TEST(PagePool, LendsWhatCameBackAndZeroes) {
  PagePool pool;
  const uint8_t* first = Dirty(pool, kSize);
  auto again = pool.Take(kSize);
  EXPECT_EQ(again.bytes().data(), first);
  EXPECT_EQ(again.bytes().size(), kSize);
  EXPECT_TRUE(IsZero(again.bytes()));
}

TEST(PagePool, HasRoomForATableThatGrew) {
  PagePool pool;
  const uint8_t* first = Dirty(pool, kSize);
  auto grown = pool.Take(kSize + 248);
  EXPECT_EQ(grown.bytes().data(), first);
  EXPECT_TRUE(IsZero(grown.bytes()));
}

TEST(PagePool, LendsNothingTwice) {
  PagePool pool;
  Dirty(pool, kSize);
  auto one = pool.Take(kSize);
  auto other = pool.Take(kSize);
  EXPECT_NE(one.bytes().data(), other.bytes().data());
}

TEST(PagePool, LendsNoLargeMemoryForASmallTable) {
  PagePool pool;
  const uint8_t* large = Dirty(pool, 4 * kSize);
  auto small = pool.Take(kSize);
  EXPECT_NE(small.bytes().data(), large);
}

TEST(PagePool, KeepsMemoryForOneTrimAndGivesItBackAtTheNext) {
  PagePool pool;
  const uint8_t* first = Dirty(pool, kSize);
  pool.Trim();
  EXPECT_EQ(Dirty(pool, kSize), first);
  pool.Trim();
  EXPECT_TRUE(pool.has_spare());
  pool.Trim();
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, GivesBackWhatDoesNotFitWhileTheRestIsNeeded) {
  PagePool pool;
  Dirty(pool, kSize);
  for (int i = 0; i < 2; ++i) {
    Dirty(pool, 4 * kSize);
    pool.Trim();
  }
  // The smaller one is gone: this one is fresh, and the larger is the only spare.
  auto larger = pool.Take(4 * kSize);
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, KeepsNoMemoryOfASmallTable) {
  PagePool pool;
  Dirty(pool, 1 << 12);
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, LendsAllThatAWriteNeedsAgain) {
  PagePool pool;
  const auto all = [&] {
    std::set<const uint8_t*> places;
    auto read = pool.Take(8 * kSize);
    auto old_counters = pool.Take(kSize);
    auto written = pool.Take(8 * kSize + 248);
    auto counters = pool.Take(kSize + 16);
    for (auto* loan : {&read, &old_counters, &written, &counters}) places.insert(loan->bytes().data());
    return places;
  };
  const auto first = all();
  EXPECT_EQ(first.size(), 4U);
  EXPECT_EQ(all(), first);
}

}  // namespace
}  // namespace viaduct::xtables
