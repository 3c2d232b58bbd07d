#include "cli/commands/evaluated_parts.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/message_json.h"
#include "worker/metric_messages.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Batch `index` of a test set; losses of very different sizes, so that their
// sum tells in which order they were added.
Metrics BatchAt(int index) {
  Metrics metrics{.loss_sum = index < 2 ? 1e16 : 0.1 * index,
                  .examples = 10,
                  .correct = static_cast<uint64_t>(index),
                  .labels = 10};
  metrics.sums.push_back({.kind = Metrics::Kind::kAccuracy});
  metrics.sums.push_back({.kind = Metrics::Kind::kAuc});
  metrics.scores = {{0.1f * index, true}, {0.25f, false}};
  Metrics slice = metrics;
  slice.feature = "device";
  slice.value = static_cast<uint32_t>(index % 2);
  metrics.slices.push_back(std::move(slice));
  return metrics;
}

// Part `index` of 3, of 7 batches.
NamedPart PartAt(int index) {
  NamedPart named;
  named.name = "part-" + std::to_string(index);
  v1::EvaluatedPart& part = named.part;
  part.set_checkpoint("run/checkpoints/one");
  part.set_step(7);
  part.set_run_id("a");
  part.mutable_snapshot()->set_counter(3);
  part.set_job_digest("0123");
  part.mutable_data()->set_examples_crc32c(99);
  part.set_examples(65);
  part.set_batch_examples(10);
  part.set_index(index);
  part.set_count(3);
  const int ends[] = {0, 3, 5, 7};
  for (int batch = ends[index]; batch < ends[index + 1]; ++batch) {
    *part.add_batches() = BatchMetricsOf(BatchAt(batch));
  }
  return named;
}

std::vector<NamedPart> AllParts() { return {PartAt(0), PartAt(1), PartAt(2)}; }

TEST(EvaluatedPartsTest, InAnyOrderTheyAreTheWhole) {
  Metrics whole;
  for (int batch = 0; batch < 7; ++batch) whole += BatchAt(batch);
  for (const std::vector<NamedPart>& parts :
       {AllParts(), {PartAt(2), PartAt(0), PartAt(1)}}) {
    const auto merged = MergeParts(parts);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->examples, 70u);
    EXPECT_EQ(merged->loss_sum, whole.loss_sum);
    ASSERT_EQ(merged->Values().size(), whole.Values().size());
    for (size_t i = 0; i < whole.Values().size(); ++i) {
      EXPECT_EQ(merged->Values()[i].value, whole.Values()[i].value);
    }
    ASSERT_EQ(merged->slices.size(), 2u);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(merged->slices[s].loss_sum, whole.slices[s].loss_sum);
      EXPECT_EQ(merged->slices[s].Values()[2].value,
                whole.slices[s].Values()[2].value);
    }
  }
}

TEST(EvaluatedPartsTest, WhatIsNotOneEvaluationIsNamed) {
  struct Case {
    std::function<void(std::vector<NamedPart>*)> spoil;
    std::string sentence;
  };
  using Parts = std::vector<NamedPart>;
  const std::vector<Case> cases = {
      {[](Parts* parts) { parts->erase(parts->begin() + 1); },
       "part 1/3 is missing"},
      {[](Parts* parts) { (*parts)[2] = (*parts)[1]; },
       "'part-1' is part 1/3, as 'part-1' is"},
      {[](Parts* parts) { (*parts)[1].part.set_count(4); },
       "'part-1' is part 1/4; 'part-0' is part 0/3 of 'run/checkpoints/one' on "
       "65 examples"},
      {[](Parts* parts) { (*parts)[1].part.set_step(8); },
       "'part-1' is of another checkpoint, 'run/checkpoints/one'"},
      {[](Parts* parts) { (*parts)[1].part.set_run_id("b"); },
       "'part-1' is of another checkpoint"},
      {[](Parts* parts) {
         (*parts)[1].part.mutable_snapshot()->set_counter(4);
       },
       "'part-1' is of another checkpoint"},
      {[](Parts* parts) { (*parts)[2].part.set_job_digest("4567"); },
       "'part-2' is of another job"},
      {[](Parts* parts) {
         (*parts)[2].part.mutable_data()->set_examples_crc32c(98);
       },
       "'part-2' is of another test set"},
      {[](Parts* parts) { (*parts)[2].part.set_examples(64); },
       "'part-2' is of another test set, of 64 examples"},
      {[](Parts* parts) { (*parts)[2].part.set_batch_examples(9); },
       "'part-2' is of another test set"},
      {[](Parts* parts) { (*parts)[2].part.mutable_batches()->RemoveLast(); },
       "'part-2' has 1 batches; part 2/3 of 7 has 2"},
      {[](Parts* parts) {
         (*parts)[1].part.mutable_batches(1)->mutable_metrics(0)->set_name(
             "mse");
       },
       "'part-1' has the metric mse, which others do not have"},
      {[](Parts* parts) {
         (*parts)[1].part.mutable_batches(1)->mutable_metrics()->DeleteSubrange(
             0, 1);
       },
       "'part-1' has other metrics, which others do not have"},
      {[](Parts* parts) {
         (*parts)[1]
             .part.mutable_batches(1)
             ->mutable_slices(0)
             ->mutable_metrics(0)
             ->set_name("mse");
       },
       "'part-1' has the metric mse, which others do not have"},
      {[](Parts* parts) {
         // Of several outputs, whose batches have no metrics themselves.
         for (NamedPart& named : *parts) {
           for (auto& batch : *named.part.mutable_batches()) {
             const v1::BatchMetrics one = batch;
             batch.Clear();
             batch.set_examples(10);
             *batch.add_outputs() = one;
             batch.mutable_outputs(0)->clear_slices();
             batch.mutable_outputs(0)->set_output("click");
           }
         }
         (*parts)[2].part.mutable_batches(0)->mutable_outputs(0)->set_output(
             "buy");
       },
       "'part-2' has the output 'buy', which others do not have"},
      {[](Parts* parts) {
         (*parts)[1].part.mutable_batches(0)->mutable_positives()->RemoveLast();
       },
       "'part-1' 2 scores have 1 labels"},
      {[](Parts* parts) {
         for (NamedPart& named : *parts) {
           for (auto& batch : *named.part.mutable_batches()) {
             batch.set_examples(0);
           }
         }
       },
       "no part has an example"},
  };
  for (const Case& one : cases) {
    std::vector<NamedPart> parts = AllParts();
    one.spoil(&parts);
    const absl::Status status = MergeParts(parts).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.sentence));
  }
}

TEST(EvaluatedPartsTest, APartMayClaimToBeOneOfVeryMany) {
  NamedPart named = PartAt(0);
  named.part.set_count(4000000000u);
  named.part.clear_batches();
  *named.part.add_batches() = BatchMetricsOf(BatchAt(0));
  EXPECT_THAT(MergeParts({named}).status().message(),
              HasSubstr("part 1/4000000000 is missing"));
}

class EvaluatedPartFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<NamedPart> Read(const std::string& text) {
    const std::string path =
        std::string(std::getenv("TEST_TMPDIR")) + "/part.json";
    std::ofstream(path) << text;
    return ReadEvaluatedPart(path);
  }
};

TEST_F(EvaluatedPartFileTest, WhatWasWrittenIsRead) {
  const NamedPart written = PartAt(1);
  const auto read =
      Read("{\"step\": 7, \"part\": " + *MessageJson(written.part) + "}");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->name, HasSubstr("part.json"));
  EXPECT_EQ(read->part.SerializeAsString(), written.part.SerializeAsString());
}

TEST_F(EvaluatedPartFileTest, WhatIsNoPartIsRefusedWithItsPath) {
  const std::string whole = *MessageJson(PartAt(0).part);
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"step\": 7}"),
        std::string("{\"part\": 3}"), std::string("{\"part\": {}}"),
        std::string("{\"part\": {\"of_a_newer_version\": 1}}"),
        "{\"part\": " + whole.substr(0, whole.size() / 2)}) {
    const absl::Status status = Read(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_THAT(status.message(), HasSubstr("part.json' is not a part of an "
                                            "evaluation"));
  }
  EXPECT_THAT(ReadEvaluatedPart("/nowhere/part.json").status().message(),
              HasSubstr("'/nowhere/part.json' can't be read"));
}

}  // namespace
}  // namespace paramd
