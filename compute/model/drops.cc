#include "compute/model/drops.h"

#include "base/check.h"
#include "base/random.h"

namespace paramd {

uint64_t DropKey(const std::string& layer, uint64_t seed, uint64_t epoch) {
  return CounterRandom(StableHash(layer, seed)).Bits(epoch);
}

void DrawFactors(const Layer::Context& context, const std::string& layer,
                 double rate, uint64_t width, const Tensor& factors) {
  CHECK(context.draws, "it is known that layers draw: see LayerBuilder::Needs");
  context.device->Draw(
      {.key = DropKey(layer, context.seed, context.epoch),
       .rate = rate,
       .width = width,
       .first = context.first,
       .offsets = context.offsets.empty() ? nullptr : context.offsets.data()},
      factors);
}

}  // namespace paramd
