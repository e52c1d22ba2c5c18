#include "core/seeded_hash.h"

#include <sys/random.h>

namespace viaduct {

namespace {

struct Secrets {
  uint64_t state = 0;
  uint64_t factor = 0;
};

const Secrets& OfThisProcess() {
  static const Secrets secrets = [] {
    Secrets random;
    // Ignoring the result: secrets of zero only make the buckets predictable.
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    // 2^64 divided by the golden ratio. An odd factor loses no bit of the product's lower half.
    random.factor = (random.factor ^ 0x9e3779b97f4a7c15) | 1;
    return random;
  }();
  return secrets;
}

}  // namespace

SeededHash::SeededHash() : state_(OfThisProcess().state), factor_(OfThisProcess().factor) {}

}  // namespace viaduct
