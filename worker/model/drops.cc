#include "worker/model/drops.h"

#include "base/random.h"

namespace paramd {

void DrawFactors(const Layer::Context& context, const std::string& layer,
                 double rate, uint64_t width, const Tensor& factors) {
  const CounterRandom keys(StableHash(layer, context.seed));
  context.device->Draw(
      {.key = keys.Bits(context.epoch),
       .rate = rate,
       .width = width,
       .first = context.first,
       .offsets = context.offsets.empty() ? nullptr : context.offsets.data()},
      factors);
}

}  // namespace paramd
