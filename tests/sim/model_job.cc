#include "tests/sim/model_job.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "compute/model/network.h"
#include "config/job_config.h"
#include "input/open_pipeline.h"

namespace paramd {
namespace {

// Labelled noise: every value is a pure function of its place.
class DrawnSource : public ExampleSource {
 public:
  explicit DrawnSource(uint64_t lit)
      : lit_(lit), spec_(LabelledImages({6, 6}, kClasses)) {}
  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return 230; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    const CounterRandom random(StableHash("example", index));
    const uint64_t label = index % kClasses;
    example->values.resize(2);
    example->values[0].Reset(DType::kFloat32, spec_.features[0].dims);
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] = static_cast<int32_t>(label);
    const absl::Span<float> out = example->values[0].values<float>();
    for (uint64_t i = 0; i < out.size(); ++i) {
      // A third of the values say the label.
      const bool says = i % 3 == 0 && i % 5 == label;
      out[i] = i >= lit_ ? 0 : says ? 1.0f : random.Uniform(i);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint32_t kClasses = 5;
  const uint64_t lit_;
  const InputSpec spec_;
};

v1::JobConfig DrawnConfig() {
  v1::JobConfig job;
  job.set_name("model");
  job.set_seed(11);
  job.mutable_model()->add_layers()->mutable_flatten();
  job.mutable_model()->add_layers()->mutable_dense()->set_units(16);
  job.mutable_model()->add_layers()->mutable_relu();
  job.mutable_model()->add_layers()->mutable_dense()->set_units(5);
  job.mutable_model()->set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  v1::OptimizerConfig* const optimizer = job.mutable_optimizer();
  optimizer->mutable_adam()->set_beta1(0.9);
  optimizer->mutable_adam()->set_beta2(0.999);
  optimizer->mutable_adam()->set_epsilon(1e-7);
  optimizer->set_learning_rate(0.01);
  optimizer->set_schedule(v1::OptimizerConfig::COSINE);
  optimizer->set_decay_steps(0);
  job.set_batch_per_replica(8);
  job.set_epochs(3);
  job.set_staleness("async");
  job.mutable_checkpoint()->set_every_steps(20);
  job.mutable_checkpoint()->set_keep(3);
  job.set_evaluate_every_epochs(1);
  job.set_portion_batches(3);
  job.set_chunk_bytes(1 << 20);
  job.set_start_timeout_ms(600000);
  job.set_lease_ms(120000);
  job.set_heartbeat_ms(1000);
  job.set_park_timeout_ms(5000);
  job.set_finish_timeout_ms(10000);
  job.set_drain_timeout_ms(25000);
  return job;
}

}  // namespace

ModelJob DrawnModelJob(uint64_t lit) {
  ModelJob job;
  job.flags = "--workload=model";
  job.config = DrawnConfig();
  job.digest = "digest of the model";
  job.training =
      *Pipeline::Create(std::make_unique<DrawnSource>(lit), job.config.input(),
                        {.seed = job.config.seed(), .training = true});
  job.test = *Pipeline::Create(std::make_unique<DrawnSource>(lit),
                               job.config.input(), {.training = false});
  return job;
}

absl::StatusOr<ModelJob> LoadModelJob(const std::string& path,
                                      uint32_t servers) {
  JobSources sources;
  sources.file = path;
  ASSIGN_OR_RETURN(LoadedJob loaded, LoadJob(sources));
  ModelJob job;
  job.flags = absl::StrCat("--job=", path, " --servers=", servers);
  job.servers = servers;
  job.config = std::move(loaded.config);
  job.config.set_device("cpu");  // One seed, the same run on any machine.
  job.digest = std::move(loaded.digest);
  ASSIGN_OR_RETURN(job.training, OpenTrainingData(job.config));
  ASSIGN_OR_RETURN(job.test, OpenTestData(job.config.input(), *job.training));
  RETURN_IF_ERROR(
      Network::Create(job.config.model(), job.training->spec()).status());
  return job;
}

}  // namespace paramd
