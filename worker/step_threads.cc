#include "worker/step_threads.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {

StepThreads::StepThreads(const v1::JobConfig& job, const TrainedModel& model,
                         size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Lane& lane = lanes_.emplace_back();
    lane.model = model.CloneForConcurrentSteps();
    CHECK(lane.model != nullptr, "steps of this model can be concurrent");
    lane.step = std::make_unique<GradientStep>(job, lane.model.get());
    lane.thread = std::make_unique<WorkerThread>(absl::StrCat("step-", i));
  }
}

void StepThreads::Start(const Step& step,
                        std::function<void(absl::StatusOr<StepFigures>)> done) {
  Lane* const lane = &lanes_[next_++ % lanes_.size()];
  lane->thread->Post([lane, step, done = std::move(done)] {
    const absl::StatusOr<Metrics> metrics = lane->step->Compute(
        *step.request, *step.weights,
        [&](const Portion&) -> absl::StatusOr<const Batch*> {
          return step.batch;
        },
        step.abandoned, step.gradients, [](size_t) {});
    if (!metrics.ok()) return done(metrics.status());
    done(StepFigures{*metrics, lane->step->left_out()});
  });
}

}  // namespace paramd
