#include <algorithm>

#include "compute/hlo/hlo_ops.h"

namespace paramd::hlo {
namespace {

HloValue FilledBits(HloValue like, uint32_t value) {
  return FilledLike(like, value);
}

// The upper half of 64 bits.
HloValue Upper(HloValue bits) {
  return Convert(OfBits("shift_right_logical", bits, FilledLike(bits, 32)),
                 HloElement::kU32);
}

HloValue Lower(HloValue bits) { return Convert(bits, HloElement::kU32); }

HloValue Xor(HloValue a, HloValue b) { return OfBits("xor", a, b); }

HloValue Product64(HloValue a, uint32_t factor) {
  const HloValue wide = Convert(a, HloElement::kU64);
  return OfBits("multiply", wide, FilledLike(wide, factor));
}

// The two words that CounterRandom (base/random.h) makes 64 bits of.
struct Words {
  HloValue low;
  HloValue high;
};

// Philox4x32-10, as there. `key`: a scalar.
Words Philox(HloValue counter, HloValue key) {
  HloValue c0 = Lower(counter);
  HloValue c1 = Upper(counter);
  HloValue c2 = FilledLike(c0, 0);
  HloValue c3 = c2;
  HloValue k0 = Lower(key);
  HloValue k1 = Upper(key);
  for (int round = 0; round < 10; ++round) {
    const HloValue a = Product64(c0, 0xD2511F53);
    const HloValue b = Product64(c2, 0xCD9E8D57);
    c0 = Xor(Xor(Upper(b), c1), BroadcastFirst(k0, c1.dims()));
    c1 = Lower(b);
    c2 = Xor(Xor(Upper(a), c3), BroadcastFirst(k1, c3.dims()));
    c3 = Lower(a);
    k0 = OfBits("add", k0, FilledBits(k0, 0x9E3779B9));
    k1 = OfBits("add", k1, FilledBits(k1, 0xBB67AE85));
  }
  return {c0, c1};
}

}  // namespace

HloValue DropFactors(HloValue key, HloValue offsets, double rate,
                     uint64_t width) {
  HloGraph* const graph = offsets.graph;
  const uint64_t examples = offsets.dims()[0];
  const uint64_t pairs = (width + 1) / 2;
  const HloType counters = {HloElement::kU64, {examples, pairs}};
  const HloValue first =
      OfBits("multiply", offsets, FilledLike(offsets, pairs));
  const HloValue counter = OfBits("add", BroadcastFirst(first, counters.dims),
                                  Iota(graph, counters, 1));
  const Words words = Philox(counter, key);
  const Dims apart = {examples, pairs, 1};
  const HloValue both = Reshape(
      Concatenate({Reshape(words.low, apart), Reshape(words.high, apart)}, 2),
      {examples, 2 * pairs});
  const HloValue drawn = Slice(both, 1, 0, width);
  const auto limit = static_cast<uint64_t>(rate * 4294967296.0);
  const HloType factors = {HloElement::kF32, drawn.dims()};
  return Select(Compare("LT", drawn, FilledLike(drawn, limit)),
                Filled(graph, factors, 0),
                Filled(graph, factors, 1 / (1 - rate)));
}

}  // namespace paramd::hlo
