#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "xtables/pages.h"

namespace viaduct::xtables {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kSize = 1 << 20;

bool IsZero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

/// Address of written and returned memory of `size`.
const uint8_t* Dirty(PagePool& pool, size_t size) {
  auto loan = pool.Take(size);
  std::ranges::fill(loan.bytes(), 0xff);
  return loan.bytes().data();
}

TEST(PagePool, LendsReturnedMemoryZeroed) {
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

TEST(PagePool, KeepsMemoryOfASingleUseForASecond) {
  PagePool pool;
  pool.Trim(seconds(100));
  Dirty(pool, kSize);
  pool.Trim(milliseconds(100'999));
  EXPECT_TRUE(pool.has_spare());
  pool.Trim(seconds(101));
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, KeepsMemoryForHalfAMinuteDuringASeriesOfUses) {
  PagePool pool;
  for (const seconds use : {seconds(100), seconds(110), seconds(139)}) {
    pool.Trim(use);
    Dirty(pool, kSize);
  }
  pool.Trim(milliseconds(168'999));
  EXPECT_TRUE(pool.has_spare());
  pool.Trim(seconds(169));
  EXPECT_FALSE(pool.has_spare());
  // After such a rest one use is a single one again.
  Dirty(pool, kSize);
  pool.Trim(seconds(170));
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, LendsTheSameMemoryDuringASeriesOfUses) {
  PagePool pool;
  pool.Trim(seconds(100));
  Dirty(pool, kSize);
  pool.Trim(seconds(110));
  const uint8_t* second = Dirty(pool, kSize);
  pool.Trim(seconds(120));
  EXPECT_EQ(Dirty(pool, kSize), second);
}

TEST(PagePool, FreesMemoryThatDoesNotFitWhileTheRestIsInUse) {
  PagePool pool;
  pool.Trim(seconds(100));
  Dirty(pool, kSize);
  for (const seconds use : {seconds(110), seconds(120), seconds(130)}) {
    pool.Trim(use);
    Dirty(pool, 4 * kSize);
  }
  // The smaller memory was freed: the larger is the only spare.
  auto larger = pool.Take(4 * kSize);
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, KeepsNoMemoryOfASmallTable) {
  PagePool pool;
  Dirty(pool, 1 << 12);
  EXPECT_FALSE(pool.has_spare());
}

TEST(PagePool, LendsAllMemoryOfAWriteAgain) {
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
