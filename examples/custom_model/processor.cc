// The kernels as loops.

#include "device.h"
#include "kernels.h"

namespace {

class Processor : public Device {
 public:
  Processor(const Images& training, const Images& test)
      : training_(training), test_(test) {}

  std::string name() const override { return "the processor"; }

  std::string Compute(const paramd_work& work, paramd_result* result) override {
    const bool is_step = work.kind == PARAMD_STEP;
    const Images& images = is_step ? training_ : test_;
    const uint64_t n = work.index_count;
    scores_.resize(n * kClasses);
    losses_.resize(n);
    met_.resize(n);
    Batch batch = {};
    batch.pixels = images.pixels.data();
    batch.labels = images.labels.data();
    batch.indices = work.indices;
    batch.size = n;
    batch.divisor = static_cast<float>(work.divisor);
    batch.w = work.weights[0];
    batch.b = work.weights[1];
    batch.scores = scores_.data();
    batch.losses = losses_.data();
    batch.met = met_.data();
    if (is_step) {
      batch.w_gradient = work.gradients[0];
      batch.b_gradient = work.gradients[1];
    }
    ::Compute(batch, is_step, [](auto function, uint64_t count) {
      for (uint64_t i = 0; i < count; ++i) function(i);
    });
    for (uint64_t i = 0; i < n; ++i) {
      result->loss_sum += losses_[i];
      result->correct += met_[i];
    }
    result->examples = result->labels = n;
    return "";
  }

 private:
  const Images& training_;
  const Images& test_;
  std::vector<float> scores_, losses_;
  std::vector<int32_t> met_;
};

}  // namespace

std::unique_ptr<Device> MakeProcessor(const Images& training,
                                      const Images& test) {
  return std::unique_ptr<Device>(new Processor(training, test));
}
