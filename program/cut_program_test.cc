#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "compute/pipeline/cut.h"
#include "program/program_worker.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace paramd {
namespace {

constexpr int kExamples = 64;
constexpr size_t kMicroBatch = 3;  // Of batches of 8: the last one is short.

// y = 3x - 1 at x = i / kExamples, by w x + b.
float Input(int64_t index) { return static_cast<float>(index) / kExamples; }

Buffer BufferOf(const std::vector<float>& numbers) {
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)));
}

absl::Span<const float> NumbersOf(const Buffer& buffer) {
  return {reinterpret_cast<const float*>(buffer.bytes().data()),
          buffer.size() / sizeof(float)};
}

class LineStage : public CutStage {
 public:
  // From now on micro-batches are those of this work.
  void Begin(const ProgramWork* work) { work_ = work; }

 protected:
  absl::Span<const int64_t> IndicesOf(uint32_t micro_batch) const {
    return work_->indices.subspan(micro_batch * kMicroBatch, kMicroBatch);
  }

  const ProgramWork* work_ = nullptr;
};

// w x
class Slope : public LineStage {
 public:
  absl::StatusOr<Buffer> Forward(uint32_t m, Buffer) override {
    std::vector<float> output;
    for (const int64_t index : IndicesOf(m)) {
      output.push_back(work_->weights[0][0] * Input(index));
    }
    return BufferOf(output);
  }

  absl::StatusOr<Buffer> Backward(uint32_t m, Buffer gradient) override {
    if (m == 0) work_->gradients[0][0] = 0;
    for (size_t i = 0; i < IndicesOf(m).size(); ++i) {
      work_->gradients[0][0] += NumbersOf(gradient)[i] * Input(IndicesOf(m)[i]);
    }
    return Buffer();
  }
};

// + b, and the loss.
class Offset : public LineStage {
 public:
  absl::StatusOr<Buffer> Forward(uint32_t m, Buffer input) override {
    if (m == 0) metrics_ = Metrics();
    std::vector<float>& errors = errors_[m % 2];
    errors.clear();
    for (size_t i = 0; i < IndicesOf(m).size(); ++i) {
      const float x = Input(IndicesOf(m)[i]);
      errors.push_back(NumbersOf(input)[i] + work_->weights[1][0] -
                       (3 * x - 1));
      metrics_.loss_sum += errors.back() * errors.back();
      ++metrics_.examples;
    }
    return Buffer();
  }

  absl::StatusOr<Buffer> Backward(uint32_t m, Buffer) override {
    if (m == 0) work_->gradients[1][0] = 0;
    std::vector<float> gradient = errors_[m % 2];
    for (float& one : gradient) {
      one *= 2 / static_cast<float>(work_->divisor);
      work_->gradients[1][0] += one;
    }
    return BufferOf(gradient);
  }

  const Metrics& metrics() const { return metrics_; }

 private:
  std::vector<float> errors_[2];  // The last stage keeps one micro-batch.
  Metrics metrics_;
};

ProgramWorker::Options Line(const std::string& run) {
  ProgramWorker::Options options;
  options.job_text = absl::StrCat(
      R"({"name": "line", "model": {"custom": true}, "epochs": 20,
          "batch_per_replica": 8, "log_level": "error", "run_dir": ")",
      ::testing::TempDir(), "/cut_", run,
      R"(", "optimizer": {"sgd": {}, "learning_rate": 0.2}})");
  options.training_examples = kExamples;
  for (const char* name : {"w", "b"}) {
    v1::Variable& variable = options.model.variables.emplace_back();
    variable.set_name(name);
    variable.set_dtype(v1::FLOAT32);
    variable.add_shape(1);
  }
  options.model.initial_values = {{2.0f}, {0.5f}};
  return options;
}

// The two stages one after the other, for each micro-batch.
absl::Status StepInALoop(uint32_t micro_batches, Slope* slope, Offset* offset) {
  for (uint32_t m = 0; m < micro_batches; ++m) {
    Buffer output = *slope->Forward(m, Buffer());
    EXPECT_TRUE(offset->Forward(m, std::move(output)).ok());
    Buffer gradient = *offset->Backward(m, Buffer());
    EXPECT_TRUE(slope->Backward(m, std::move(gradient)).ok());
  }
  return absl::OkStatus();
}

// The weights that a job ends with. `schedule`: empty for a loop.
std::vector<std::vector<float>> TrainedBy(const std::string& schedule) {
  auto slope = std::make_unique<Slope>();
  auto offset = std::make_unique<Offset>();
  Slope* const first = slope.get();
  Offset* const last = offset.get();
  std::vector<std::unique_ptr<CutStage>> stages;
  stages.push_back(std::move(slope));
  stages.push_back(std::move(offset));
  auto cut =
      *Cut::Create(schedule.empty() ? "1f1b" : schedule, std::move(stages));
  auto worker = ProgramWorker::Start(Line(schedule));
  EXPECT_TRUE(worker.ok()) << worker.status();
  if (!worker.ok()) return {};
  double loss = 0;
  for (;;) {
    const auto work = (*worker)->Next(absl::Minutes(5));
    EXPECT_TRUE(work.ok()) << work.status();
    if (!work.ok() || *work == nullptr) break;
    first->Begin(*work);
    last->Begin(*work);
    const auto micro_batches = static_cast<uint32_t>(
        ((*work)->indices.size() + kMicroBatch - 1) / kMicroBatch);
    const absl::Status step = schedule.empty()
                                  ? StepInALoop(micro_batches, first, last)
                                  : cut->Step(micro_batches);
    EXPECT_TRUE(step.ok()) << step;
    loss = last->metrics().mean_loss();
    EXPECT_TRUE((*worker)->Finish(last->metrics()).ok());
  }
  EXPECT_LT(loss, 0.1);
  const auto saved = (*worker)->ReadSaved();
  EXPECT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ((*worker)->Close(), absl::OkStatus());
  return saved.ok() ? saved->weights : std::vector<std::vector<float>>();
}

TEST(CutProgramTest, AProgramInStagesEndsWithTheWeightsOfALoop) {
  const auto in_a_loop = TrainedBy("");
  ASSERT_EQ(in_a_loop.size(), 2u);
  EXPECT_NE(in_a_loop[0][0], 2.0f);
  for (const char* schedule : {"naive", "1f1b", "zero_bubble"}) {
    EXPECT_EQ(TrainedBy(schedule), in_a_loop) << schedule;
  }
}

}  // namespace
}  // namespace paramd
