#include "coordinator/core/run_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

v1::JobConfig Job(uint32_t epochs) {
  v1::JobConfig job;
  job.set_name("j");
  job.set_epochs(epochs);
  return job;
}

v1::DataSet Data() {
  v1::DataSet data;
  data.set_directory("/data/a");
  data.set_host("here");
  data.set_examples(60000);
  data.add_example_shape(28);
  data.add_example_shape(28);
  data.set_example_type("uint8");
  data.set_classes(10);
  data.set_examples_crc32c(1);
  data.set_labels_crc32c(2);
  return data;
}

// What a coordinator of this record logs.
v1::LogEntry Layout(const RunRecord& record) {
  v1::LogEntry entry;
  entry.set_job_digest("d");
  entry.mutable_configuration();
  *entry.mutable_job() = record.ours();
  return entry;
}

TEST(RunRecordTest, DataElsewhereAreTheSame) {
  v1::DataSet data = Data();
  data.set_directory("/data/b");
  data.set_host("there");
  EXPECT_EQ(DataDifference(data, Data()), "");
}

TEST(RunRecordTest, AllThatDiffersInTheDataIsSaid) {
  v1::DataSet data = Data();
  data.set_examples(10000);
  data.set_example_shape(1, 32);
  data.set_labels_crc32c(0xabc);
  EXPECT_EQ(DataDifference(data, Data()),
            "10000 examples, not 60000; 28x32 numbers in each, not 28x28; "
            "other labels (crc32c 00000abc, not 00000002)");
}

TEST(RunRecordTest, DataWhoseNumbersMeanAnotherThingAreOthers) {
  v1::DataSet data = Data();
  v1::DataMeaning::Fact* fact = data.mutable_meaning()->add_facts();
  data.mutable_meaning()->set_source("csv");
  fact->set_name("csv.columns");
  for (const char* name : {"a", "b"}) fact->add_values(name);
  fact->set_hash(1);
  v1::DataSet turned = data;
  fact = turned.mutable_meaning()->mutable_facts(0);
  fact->set_hash(2);
  fact->mutable_values()->SwapElements(0, 1);
  EXPECT_EQ(DataDifference(turned, data), "csv.columns b, a, not a, b");
  EXPECT_EQ(DataDifference(data, Data()), "") << "of an earlier version";
}

TEST(RunRecordTest, ANewRunHasNothingToGoOnWith) {
  RunRecord record(Job(5), "d", Data());
  EXPECT_TRUE(record.Begin("run").ok());
  EXPECT_FALSE(record.finished());
  EXPECT_EQ(record.changes(), "");
}

TEST(RunRecordTest, EveryChangeOfTheRunIsKeptInOrder) {
  RunRecord record(Job(20), "d", Data());
  for (const uint32_t epochs : {5, 8, 8}) {
    record.Read(Layout(RunRecord(Job(epochs), "d", Data())));
  }
  ASSERT_TRUE(record.Begin("run").ok());
  EXPECT_EQ(record.changes(), "epochs is 20, was 8");
  EXPECT_EQ(record.more_epochs(), 12);
  ASSERT_EQ(record.changed().size(), 2u);
  EXPECT_EQ(record.changed()[0].name(), "epochs");
  EXPECT_EQ(record.changed()[0].before(), "5");
  EXPECT_EQ(record.changed()[0].now(), "8");
  EXPECT_EQ(record.changed()[1].now(), "20");
}

// It was refused after its term, by its checkpoint.
TEST(RunRecordTest, WhoOnlyTookATermHasChangedNothing) {
  RunRecord record(Job(5), "d", Data());
  record.Read(Layout(RunRecord(Job(5), "d", Data())));
  v1::LogEntry term = Layout(RunRecord(Job(50), "d", Data()));
  term.set_term(2);
  record.Read(term);
  ASSERT_TRUE(record.Begin("run").ok());
  EXPECT_EQ(record.changes(), "");
  EXPECT_TRUE(record.changed().empty());
}

TEST(RunRecordTest, ACheckpointOfOtherDataIsRefused) {
  v1::DataSet other = Data();
  other.set_labels_crc32c(3);
  other.set_directory("/data/b");
  other.set_host("there");
  v1::Manifest manifest;
  *manifest.mutable_job() = RunRecord(Job(5), "d", other).ours();
  const RunRecord record(Job(5), "d", Data());
  const absl::Status status = record.CheckManifest("/c/8", manifest);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("the training data in '/data/a' on here is not what checkpoint "
                "'/c/8' was trained on, read in '/data/b' on there: other "
                "labels (crc32c 00000002, not 00000003)"));
}

TEST(RunRecordTest, FewerEpochsThanHaveBegunAreRefused) {
  v1::Manifest manifest;
  *manifest.mutable_job() = RunRecord(Job(9), "d", Data()).ours();
  manifest.mutable_input()->set_next_epoch(6);
  EXPECT_TRUE(
      RunRecord(Job(5), "d", Data()).CheckManifest("/c/8", manifest).ok());
  manifest.mutable_input()->set_next_offset(1);
  const absl::Status status =
      RunRecord(Job(5), "d", Data()).CheckManifest("/c/8", manifest);
  EXPECT_EQ(status.message(),
            "epochs is 5, but checkpoint '/c/8' has begun epoch 6: give at "
            "least 6");
}

}  // namespace
}  // namespace paramd
