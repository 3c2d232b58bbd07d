#include "worker/model/drops.h"

#include "base/random.h"
#include "worker/device/float_type.h"

namespace paramd {

void DrawFactors(const Layer::Context& context, const std::string& layer,
                 double rate, uint64_t width, const Tensor& factors) {
  const CounterRandom random(
      CounterRandom(StableHash(layer, context.seed)).Bits(context.epoch));
  // Two numbers of 32 bits are drawn at a time.
  const uint64_t pairs = (width + 1) / 2;
  const uint64_t limit = static_cast<uint64_t>(rate * 4294967296.0);
  WithFloatType(factors.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T kept = static_cast<T>(1 / (1 - rate));
    T* out = factors.values<T>().data();
    for (uint64_t i = 0; i < context.examples; ++i, out += width) {
      const uint64_t first = context.OffsetOf(i) * pairs;
      for (uint64_t j = 0; j < width; j += 2) {
        const uint64_t bits = random.Bits(first + j / 2);
        out[j] = (bits & 0xffffffff) < limit ? T(0) : kept;
        if (j + 1 < width) out[j + 1] = bits >> 32 < limit ? T(0) : kept;
      }
    }
  });
}

}  // namespace paramd
