#ifndef PARAMD_PROTO_TESTING_PAIR_H_
#define PARAMD_PROTO_TESTING_PAIR_H_

#include <cstdint>

#include "proto/refusal.h"

namespace paramd::testing {

// (term, counter), as a number of whichever thing a test wants it for.
struct Pair {
  Pair(uint64_t term, uint64_t counter) : term(term), counter(counter) {}

  template <Numbered T>
  operator T() const {  // NOLINT: implicit, as tests read best.
    return MakeNumber<T>(term, counter);
  }
  template <Numbered T>
  friend bool operator==(const T& a, const Pair& b) {
    return a == MakeNumber<T>(b.term, b.counter);
  }
  template <Numbered T>
  friend bool operator>(const T& a, const Pair& b) {
    return a > MakeNumber<T>(b.term, b.counter);
  }

  uint64_t term;
  uint64_t counter;
};

}  // namespace paramd::testing

#endif  // PARAMD_PROTO_TESTING_PAIR_H_
