#include "worker/evaluator/evaluator_process.h"

#include <unistd.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"
#include "compute/device/cpu_device.h"
#include "compute/model/network.h"
#include "input/testing/idx_test_files.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

using testing::CommitSample;
using ::testing::HasSubstr;
using testing::SampleVariable;

// Four images of 2 x 2 in two classes; the model is one dense layer.
class EvaluatorProcessTest : public ::testing::Test {
 protected:
  EvaluatorProcessTest() {
    const std::string images = WriteTestFile(
        "images", IdxBytes({4, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 200, 100, 0, 1,
                                       255, 255, 0, 0}));
    const std::string labels =
        WriteTestFile("labels", IdxBytes({4}, {0, 1, 0, 1}));
    v1::JobConfig& job = options_.job;
    job.set_run_dir(absl::StrCat(
        ::testing::TempDir(), "/evaluator-",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        getpid()));
    job.mutable_checkpoint()->set_directory(root());
    job.mutable_summary()->set_every_steps(100);
    job.mutable_input()->set_format(v1::InputConfig::IDX);
    job.mutable_input()->set_train_images(images);
    job.mutable_input()->set_train_labels(labels);
    job.mutable_input()->set_test_images(images);
    job.mutable_input()->set_test_labels(labels);
    job.mutable_model()->add_layers()->mutable_flatten();
    job.mutable_model()->add_layers()->mutable_dense()->set_units(2);
    job.mutable_model()->set_loss(v1::SOFTMAX_CROSS_ENTROPY);
  }

  std::string root() const {
    return absl::StrCat(options_.job.run_dir(), "/checkpoints");
  }
  // Its path.
  std::string Commit(uint64_t counter, uint64_t step) {
    return *CommitSample(root(),
                         {SampleVariable("dense_1/kernel", {4, 2}),
                          SampleVariable("dense_1/bias", {2})},
                         {}, 1, counter, step, 2, 16);
  }
  std::unique_ptr<EvaluatorProcess> Start() {
    auto process = EvaluatorProcess::Create(options_);
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }
  std::vector<std::string> Lines() {
    const auto text = ReadWholeFile(
        absl::StrCat(options_.job.run_dir(), "/evaluation.jsonl"), 100'000);
    if (!text.ok()) return {};
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

  EvaluatorProcess::Options options_;
};

TEST_F(EvaluatorProcessTest, Promise4_WithoutARunItSaysSoAndMakesNothing) {
  const absl::Status looked = Start()->EvaluateNewest().status();
  EXPECT_TRUE(absl::IsNotFound(looked)) << looked;
  EXPECT_THAT(looked.message(), HasSubstr(options_.job.run_dir()));
  EXPECT_FALSE(IsDirectory(options_.job.run_dir()));
}

TEST_F(EvaluatorProcessTest, Promise4_WithoutACheckpointItSaysSo) {
  ASSERT_TRUE(MakeDirectories(options_.job.run_dir()).ok());
  const absl::Status looked = Start()->EvaluateNewest().status();
  EXPECT_EQ(looked, absl::UnavailableError(absl::StrCat(
                        "the first checkpoint below '", root(), "'")));
  EXPECT_TRUE(Lines().empty());
}

TEST_F(EvaluatorProcessTest, OfSeveralCheckpointsTheNewestIsEvaluatedOnce) {
  Commit(1, 10);
  Commit(2, 20);
  const auto process = Start();
  ASSERT_TRUE(process->EvaluateNewest().ok());
  ASSERT_TRUE(process->EvaluateNewest().ok());
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_THAT(Lines()[0], HasSubstr("\"number\":\"1.2\""));
  EXPECT_THAT(Lines()[0], HasSubstr("\"step\":20"));
  EXPECT_THAT(Lines()[0], HasSubstr("\"examples\":4"));
  Commit(3, 30);
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 2u);
  const auto events =
      ListDirectory(absl::StrCat(options_.job.run_dir(), "/summaries/eval"));
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(events->size(), 1u);
}

TEST_F(EvaluatorProcessTest, OfAJobThatFailsTheNewestIsEvaluatedAndThenItEnds) {
  ASSERT_TRUE(MakeDirectories(options_.job.run_dir()).ok());
  const FailureNote chief(options_.job.run_dir());
  ASSERT_TRUE(chief.Write(absl::InternalError("an earlier one")).ok());
  const auto process = Start();
  EXPECT_TRUE(absl::IsUnavailable(process->EvaluateNewest().status()));
  Commit(1, 10);
  ASSERT_TRUE(chief.Write(absl::OutOfRangeError("the loss is nan")).ok());
  EXPECT_EQ(process->EvaluateNewest().status(),
            absl::FailedPreconditionError("the loss is nan"));
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(EvaluatorProcessTest, StartedAgainItDoesNotEvaluateWhatIsDone) {
  Commit(1, 10);
  ASSERT_TRUE(Start()->EvaluateNewest().ok());
  ASSERT_TRUE(Start()->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(EvaluatorProcessTest, ADamagedCheckpointIsPassedOver) {
  const std::string path = Commit(1, 10);
  ASSERT_TRUE(
      RemoveTree(absl::StrCat(path, "/ps-00001-of-00002.safetensors")).ok());
  const auto process = Start();
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_TRUE(Lines().empty());
  Commit(2, 20);
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(EvaluatorProcessTest, InPlaceOfADamagedOneTheOneBeforeIsEvaluated) {
  Commit(1, 10);
  const std::string path = Commit(2, 20);
  ASSERT_TRUE(
      RemoveTree(absl::StrCat(path, "/ps-00001-of-00002.safetensors")).ok());
  const auto process = Start();
  ASSERT_TRUE(process->EvaluateNewest().ok());
  ASSERT_TRUE(process->EvaluateNewest().ok());
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_THAT(Lines()[0], HasSubstr("\"number\":\"1.1\""));
  // The next damaged one is followed by nothing new, the next right one is.
  const std::string third = Commit(3, 30);
  ASSERT_TRUE(RemoveTree(absl::StrCat(third, "/manifest.crc32c")).ok());
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 1u);
  Commit(4, 40);
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 2u);
}

TEST_F(EvaluatorProcessTest, OfAFlippedBitAnywhereNothingIsEvaluated) {
  const std::string path = Commit(1, 10);
  const std::vector<std::string> names = *ListDirectory(path);
  for (const std::string& name : names) {
    const std::string file = absl::StrCat(path, "/", name);
    // What other tools read.
    if (name == "model.safetensors.index.json") continue;
    const std::string before = *ReadWholeFile(file, 100'000);
    for (size_t at = 0; at < before.size(); at += 11) {
      std::string flipped = before;
      flipped[at] ^= static_cast<char>(1 << at % 8);
      std::ofstream(file, std::ios::binary) << flipped;
      const auto looked = Start()->EvaluateNewest();
      EXPECT_TRUE(looked.ok()) << looked.status();
      EXPECT_TRUE(Lines().empty()) << name << " byte " << at;
    }
    std::ofstream(file, std::ios::binary) << before;
  }
  ASSERT_TRUE(Start()->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(EvaluatorProcessTest, ADeletedCheckpointIsNotMissed) {
  const auto process = Start();
  ASSERT_TRUE(RemoveTree(Commit(1, 10)).ok());
  EXPECT_TRUE(absl::IsUnavailable(process->EvaluateNewest().status()));
  Commit(2, 20);
  ASSERT_TRUE(process->EvaluateNewest().ok());
  EXPECT_EQ(Lines().size(), 1u);
}

// The built-in model, on a device that is lost.
class LostModel : public Network {
 public:
  using Network::Network;
  absl::StatusOr<Metrics> EvaluateRows(WeightSpans, const Batch&,
                                       RowNumbers) override {
    return absl::UnavailableError("cuda:0 is lost: an Xid");
  }
};

// To be started again, and not as where there is no checkpoint yet.
TEST_F(EvaluatorProcessTest, ALostDeviceEndsIt) {
  Commit(1, 10);
  const auto process = EvaluatorProcess::Create(
      options_,
      [](const v1::JobConfig& job, const InputSpec& input)
          -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
        return std::make_unique<LostModel>(
            *PlanNetwork(job.model(), input),
            [] { return std::make_unique<CpuDevice>(); }, "cuda:0");
      });
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->EvaluateNewest().status(),
            absl::AbortedError("cuda:0 is lost: an Xid"));
}

TEST_F(EvaluatorProcessTest, ACheckpointOfAnotherJobEndsIt) {
  Commit(1, 10);
  options_.job_digest = "feed";
  const absl::Status status = Start()->EvaluateNewest().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("000001-00000001.step-10' is of"));
  EXPECT_THAT(status.message(), HasSubstr("with other settings: "));
}

// The job file may be the same and the files others.
TEST_F(EvaluatorProcessTest, ACheckpointOfDataThatMeanAnotherThingEndsIt) {
  const std::string path = Commit(1, 10);
  v1::Manifest manifest = *ReadManifest(path);
  v1::DataMeaning* meaning =
      manifest.mutable_job()->mutable_data()->mutable_meaning();
  meaning->set_source("idx");
  v1::DataMeaning::Fact* fact = meaning->add_facts();
  fact->set_name("stages of 'image'");
  fact->set_feature("image");
  fact->add_values("normalise mean 3");
  fact->set_count(1);
  const std::string text = *EncodeManifest(manifest);
  for (const auto& [name, content] : std::map<std::string, std::string>{
           {kManifestFile, text},
           {kManifestSumFile,
            absl::StrFormat("%08x\n", Crc32c(AsBytes<char>(
                                          {text.data(), text.size()})))}}) {
    std::ofstream(absl::StrCat(path, "/", name), std::ios::binary) << content;
  }
  const absl::Status status = Start()->EvaluateNewest().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("was trained on: they have stages of 'image' cast type "
                        "float32 scale 0.00392157, not normalise mean 3"));
  EXPECT_TRUE(Lines().empty());
}

TEST_F(EvaluatorProcessTest, WithoutARunDirectoryItDoesNotStart) {
  options_.job.clear_run_dir();
  const absl::Status status = EvaluatorProcess::Create(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("run_dir is missing"));
}

TEST_F(EvaluatorProcessTest, AnotherEvaluatorHasFilesOfItsOwn) {
  Commit(1, 10);
  options_.index = 2;
  ASSERT_TRUE(Start()->EvaluateNewest().ok());
  EXPECT_TRUE(Lines().empty());
  EXPECT_TRUE(
      ReadWholeFile(absl::StrCat(options_.job.run_dir(), "/evaluation-2.jsonl"),
                    1000)
          .ok());
  EXPECT_TRUE(
      IsDirectory(absl::StrCat(options_.job.run_dir(), "/summaries/eval-2")));
}

}  // namespace
}  // namespace paramd
