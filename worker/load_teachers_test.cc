#include "worker/load_teachers.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/directory.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/testing/sample.h"
#include "compute/device/cpu_device.h"
#include "config/job_config.h"
#include "config/setting_changes.h"
#include "input/label_file.h"
#include "input/order_stages.h"
#include "input/testing/fake_source.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const InputSpec kDigits = LabelledImages({2, 3}, 4);

v1::JobConfig JobOf(const std::string& model) {
  v1::JobConfig job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { loss: SOFTMAX_CROSS_ENTROPY ", model, " }"), &job));
  return job;
}

v1::JobConfig TeachersJob() {
  return JobOf(
      "layers { flatten {} } layers { dense { units: 5 } } layers { tanh {} } "
      "layers { dropout { rate: 0.5 } } layers { dense { units: 4 } }");
}

class LoadTeachersTest : public ::testing::Test {
 protected:
  LoadTeachersTest()
      : root_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        student_(JobOf("layers { flatten {} } layers { dense { units: 4 } }")) {
    std::filesystem::remove_all(root_);
    student_.mutable_distill()->set_temperature(3);
    student_.mutable_distill()->set_alpha(0.5);
  }

  // A run in a directory of that name, with one checkpoint of the variables of
  // `job` on `input`, whose record `change` may make wrong; the run's path.
  std::string Commit(
      const std::string& name, const v1::JobConfig& job,
      const InputSpec& input = kDigits,
      const std::function<void(v1::Manifest*)>& change = [](v1::Manifest*) {}) {
    const std::string run = absl::StrCat(root_, "/", name);
    const auto plan = PlanNetwork(job.model(), input);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const std::vector<v1::Variable>& variables = (*plan)->variables;
    CheckpointDirectory directory(run + "/checkpoints", /*nonce=*/1);
    v1::CommitCheckpoint commit;
    v1::Manifest& manifest = *commit.mutable_manifest();
    manifest = testing::SampleManifest(variables, {}, 1, 1, 70);
    manifest.set_final(true);
    for (const std::string& line : RecordedSettings(job)) {
      manifest.mutable_job()->add_settings(line);
    }
    change(&manifest);
    v1::PrepareCheckpoint prepare;
    *prepare.mutable_snapshot() = manifest.snapshot();
    std::filesystem::create_directories(run);
    commit.set_directory(directory.Prepare(prepare)->directory());
    BufferChain payload;
    const auto write = testing::SampleWrite(
        commit.directory(), testing::CutForServers(variables, 1, 1 << 20), {},
        0, 1, &payload);
    *manifest.add_files() = WriteShardFile(write, payload)->file();
    path_ = directory.Commit(commit)->path();
    return run;
  }

  absl::StatusOr<std::unique_ptr<Teachers>> Load(
      const std::vector<std::string>& paths, const InputSpec& input = kDigits) {
    student_.mutable_distill()->clear_teachers();
    for (const std::string& path : paths) {
      student_.mutable_distill()->add_teachers(path);
    }
    const auto plan = PlanNetwork(student_.model(), input);
    if (!plan.ok()) return plan.status();
    return LoadTeachers(student_, input, **plan,
                        {.make = [] { return std::make_unique<CpuDevice>(); }});
  }

  // What becomes exit code 2, and names the teacher.
  std::string RefusalOf(const std::string& path) {
    const auto made = Load({path});
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument)
        << made.status();
    EXPECT_THAT(std::string(made.status().message()),
                HasSubstr(absl::StrCat("distill.teachers: '", path, "': ")));
    return std::string(made.status().message());
  }

  const std::string root_;
  v1::JobConfig student_;
  std::string path_;  // Of the checkpoint that was committed last.
};

TEST_F(LoadTeachersTest, WhatATeacherSaysIsItsModelWithTheCheckpointsWeights) {
  const v1::JobConfig job = TeachersJob();
  const std::string run = Commit("run", job);
  const auto teachers = Load({run});
  ASSERT_TRUE(teachers.ok()) << teachers.status();

  const auto model = *Network::Create(job.model(), kDigits);
  const auto weights = *ReadWeights(path_, model->variables(), 1, {});
  Batch batch;
  batch.Reset(kDigits, 2);
  float next = 0;
  for (float& value : batch.Find("image")->values<float>()) {
    value = next += 0.05f;
  }
  for (int32_t& label : batch.Find("label")->values<int32_t>()) label = 1;
  Batch predicted;
  ASSERT_TRUE(model
                  ->Predict(std::vector<absl::Span<const float>>(
                                weights.begin(), weights.end()),
                            batch, &predicted)
                  .ok());
  Loss::Target target{batch.Find("label")->tensor()};
  const absl::Status added = (*teachers)->AddTo(batch, &target);
  ASSERT_TRUE(added.ok()) << added;
  EXPECT_EQ(target.temperature, 3);
  EXPECT_EQ(target.alpha, 0.5);
  const auto plain = predicted.columns.front().values<float>();
  const auto soft = target.soft.values<float>();
  ASSERT_EQ(soft.size(), 8u);
  for (size_t i = 0; i < soft.size(); i += 4) {
    double sum = 0;
    for (size_t c = 0; c < 4; ++c) sum += std::cbrt(plain[i + c]);
    for (size_t c = 0; c < 4; ++c) {
      EXPECT_NEAR(soft[i + c], std::cbrt(plain[i + c]) / sum, 1e-6);
    }
  }
}

// A file of labels of two examples of a FakeSource, of so many classes.
std::string WriteLabels(const std::string& path, uint32_t classes) {
  const SourceStage source(std::make_unique<FakeSource>(2));
  std::string records;
  std::vector<float> said(classes, 0);
  for (uint32_t i = 0; i < 2; ++i) {
    said[0] = 0.25f + 0.5f * static_cast<float>(i);
    said[1] = 1 - said[0];
    AppendLabelRecord(i, 0, said, &records);
  }
  LabelFileHeader header;
  header.examples = 2;
  header.records = 2;
  header.classes = classes;
  header.data = LabelledDataKey({}, source);
  header.model = "a";
  header.records_crc32c = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(records.data()), records.size()));
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << EncodeLabelHeader(header) << records;
  return path;
}

TEST_F(LoadTeachersTest, AFileOfLabelsTeachesWhatItSays) {
  const std::string path = WriteLabels(root_ + "/labels.records", 4);
  student_.mutable_distill()->add_teachers(path);
  student_.mutable_distill()->set_temperature(1);
  const auto training = FakePipeline(2, /*seed=*/1);
  const absl::Status prepared = PrepareToLearn(student_, training.get());
  ASSERT_TRUE(prepared.ok()) << prepared;
  const auto teachers = Load({path});
  ASSERT_TRUE(teachers.ok()) << teachers.status();
  Batch batch;
  ASSERT_TRUE(training->Read({0, 0, 2}, &batch).ok());
  Loss::Target target{batch.Find("label")->tensor()};
  ASSERT_TRUE((*teachers)->AddTo(batch, &target).ok());
  EXPECT_EQ(target.temperature, 1);
  const auto soft = target.soft.values<float>();
  ASSERT_EQ(soft.size(), 8u);
  for (size_t i = 0; i < 2; ++i) {
    const bool is_first = batch.indices[i] == 0;
    EXPECT_EQ(soft[4 * i], is_first ? 0.25f : 0.75f);
    EXPECT_EQ(soft[4 * i + 1], is_first ? 0.75f : 0.25f);
    EXPECT_EQ(soft[4 * i + 2], 0);
  }
}

// Else a run would go on with another one that lies where the first one lay.
TEST_F(LoadTeachersTest, TheDataSayWhichModelsTeach) {
  const auto described = [&] {
    const auto training = FakePipeline(2, /*seed=*/1);
    const absl::Status prepared = PrepareToLearn(student_, training.get());
    EXPECT_TRUE(prepared.ok()) << prepared;
    return training->Describe().meaning();
  };
  EXPECT_EQ(described().SerializeAsString(),
            FakePipeline(2, 1)->Describe().meaning().SerializeAsString());
  student_.mutable_distill()->add_teachers(Commit("run", TeachersJob()));
  const v1::DataMeaning first = described();
  EXPECT_EQ(MeaningDifference(described(), first), "");
  EXPECT_EQ(MeaningDifference(described(), {}), "");
  Commit("run", TeachersJob(), kDigits, [](v1::Manifest* manifest) {
    manifest->mutable_snapshot()->set_counter(2);
    manifest->set_global_step(80);
  });
  EXPECT_THAT(MeaningDifference(described(), first),
              AllOf(HasSubstr("teachers step 80 of run "),
                    HasSubstr(", not step 70 of run ")));
}

TEST_F(LoadTeachersTest, AFileOfLabelsThatDoesNotFitIsNamed) {
  const std::string few = WriteLabels(root_ + "/few", 3);
  EXPECT_EQ(Load({few}).status().message(),
            absl::StrCat("distill.teachers: '", few,
                         "' gives 3 values for an example, and this model 4: "
                         "both need the same classes"));
  const std::string nowhere = root_ + "/nowhere.records";
  EXPECT_EQ(Load({nowhere}).status().message(),
            absl::StrCat("distill.teachers: there is no file '", nowhere,
                         "': paramd label writes it"));
  student_.mutable_distill()->clear_teachers();
  student_.mutable_distill()->add_teachers(
      WriteLabels(root_ + "/labels.records", 4));
  const auto training = FakePipeline(1, /*seed=*/1);
  const absl::Status prepared = PrepareToLearn(student_, training.get());
  EXPECT_EQ(prepared.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(prepared.message()),
              HasSubstr("is of 2 examples, and here are 1"));
}

TEST_F(LoadTeachersTest, ARunMustHaveFinishedACheckpointNeedNot) {
  const std::string run =
      Commit("run", TeachersJob(), kDigits,
             [](v1::Manifest* manifest) { manifest->set_final(false); });
  EXPECT_THAT(RefusalOf(run), HasSubstr("the run has not finished: its newest "
                                        "checkpoint, '"));
  EXPECT_THAT(RefusalOf(run), HasSubstr("is of step 70"));
  EXPECT_TRUE(Load({path_}).ok());
}

TEST_F(LoadTeachersTest, ARunIsNotItsOwnTeacher) {
  const std::string run = Commit("run", TeachersJob());
  for (const std::string& own : {run, run + "/", root_ + "/link"}) {
    std::filesystem::remove(root_ + "/link");
    std::filesystem::create_directory_symlink(run, root_ + "/link");
    student_.clear_checkpoint();
    SetRunDirectory(own, &student_);
    EXPECT_THAT(RefusalOf(run), HasSubstr("a run can't be its own teacher"));
    EXPECT_THAT(RefusalOf(path_), HasSubstr("a run can't be its own teacher"));
  }
  // A run that lies in another's directory is not that one.
  for (const std::string& other : {run + "-2", root_}) {
    student_.clear_checkpoint();
    SetRunDirectory(other, &student_);
    EXPECT_TRUE(Load({run}).ok());
  }
  student_.mutable_checkpoint()->set_directory(run + "/checkpoints");
  EXPECT_THAT(RefusalOf(run), HasSubstr("a run can't be its own teacher"));
}

TEST_F(LoadTeachersTest, WhatCanTeachNothingIsRefused) {
  struct Wrong {
    std::string name;
    v1::JobConfig job;
    std::string sentence;
    std::function<void(v1::Manifest*)> change = [](v1::Manifest*) {};
    InputSpec input = kDigits;
  };
  v1::JobConfig numbers = TeachersJob();
  numbers.mutable_model()->set_loss(v1::KL_DIVERGENCE);
  const std::vector<Wrong> all = {
      {"classes", JobOf("layers { flatten {} } layers { dense { units: 6 } }"),
       "it gives 6 values for an example, and this model 4: both need the "
       "same classes"},
      {"few_classes",
       JobOf("layers { flatten {} } layers { dense { units: 3 } }"),
       "gives 3 values; the input has 4 classes", [](v1::Manifest*) {},
       LabelledImages({2, 3}, 3)},
      {"inputs", TeachersJob(), "'dense_1/kernel'", [](v1::Manifest*) {},
       LabelledImages({5, 3}, 4)},
      {"feature",
       JobOf("input: 'picture' layers { flatten {} } "
             "layers { dense { units: 4 } }"),
       "the model reads the feature 'picture'; the input has 'image', 'label'",
       [](v1::Manifest*) {},
       {{FeatureSpec{.name = "picture", .dims = {2, 3}},
         FeatureSpec{.name = "label",
                     .dtype = DType::kInt32,
                     .dims = {},
                     .classes = 4}}}},
      {"program", TeachersJob(), "a program has brought its model",
       [](v1::Manifest* manifest) {
         manifest->mutable_job()->clear_settings();
         manifest->mutable_job()->add_settings("model.custom=true");
       }},
      {"earlier", TeachersJob(), "its record says no model",
       [](v1::Manifest* manifest) { manifest->clear_job(); }},
      {"loss", TeachersJob(), "its loss is not softmax_cross_entropy",
       [&](v1::Manifest* manifest) {
         manifest->mutable_job()->clear_settings();
         for (const std::string& line : RecordedSettings(numbers)) {
           manifest->mutable_job()->add_settings(line);
         }
       }},
  };
  for (const Wrong& one : all) {
    const std::string run = Commit(one.name, one.job, one.input, one.change);
    EXPECT_THAT(RefusalOf(run), HasSubstr(one.sentence)) << one.name;
  }
  EXPECT_THAT(RefusalOf(root_ + "/nowhere"), HasSubstr("/nowhere"));
  // Of several the one that is wrong is named.
  const std::string good = Commit("good", TeachersJob());
  EXPECT_TRUE(Load({good, good}).ok());
  EXPECT_THAT(std::string(Load({good, root_ + "/classes"}).status().message()),
              HasSubstr("/classes': it gives 6 values"));
}

TEST_F(LoadTeachersTest, ADamagedFileIsNamed) {
  const std::string run = Commit("run", TeachersJob());
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const char last = static_cast<char>(file.peek());
    file.seekp(-2, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
    file.close();
    EXPECT_THAT(RefusalOf(run), HasSubstr(entry.path().string()));
    return;
  }
  FAIL() << "the checkpoint has no file";
}

// Group and weight are only the student's, or both have them.
TEST_F(LoadTeachersTest, WhatAStudentIsMeasuredByATeacherDoesNotRead) {
  InputSpec measured = kDigits;
  measured.features.push_back({"user", DType::kInt64, {}});
  measured.features.push_back({"weight", DType::kFloat32, {}});
  const v1::JobConfig job = JobOf(
      "layers { flatten {} } layers { dense { units: 2 } } "
      "example_weight: 'weight' metrics: GROUP_AUC group: 'user'");
  InputSpec two = LabelledImages({2, 3}, 2);
  InputSpec two_measured = two;
  two_measured.features.insert(two_measured.features.end(),
                               measured.features.begin() + 2,
                               measured.features.end());
  student_.mutable_model()->CopyFrom(job.model());
  const v1::JobConfig plain =
      JobOf("layers { flatten {} } layers { dense { units: 2 } }");
  EXPECT_TRUE(Load({Commit("plain", plain, two)}, two_measured).ok());
  EXPECT_TRUE(Load({Commit("measured", job, two_measured)}, two_measured).ok());
}

TEST_F(LoadTeachersTest, NeitherReadsWhatEvaluationsAreOnlySlicedBy) {
  InputSpec sliced = LabelledImages({2, 3}, 2);
  sliced.features.push_back({"device", DType::kInt32, {}, 4});
  InputSpec others = LabelledImages({2, 3}, 2);
  others.features.push_back({"place", DType::kInt32, {}, 3});
  const std::string layers =
      "layers { flatten {} } layers { dense { units: 2 } } ";
  const v1::JobConfig job = JobOf(layers + "slices: 'device'");
  const v1::JobConfig other = JobOf(layers + "slices: 'place'");
  const v1::JobConfig plain = JobOf(layers);
  student_.mutable_model()->CopyFrom(job.model());
  EXPECT_TRUE(
      Load({Commit("plain", plain, LabelledImages({2, 3}, 2))}, sliced).ok());
  EXPECT_TRUE(Load({Commit("same", job, sliced)}, sliced).ok());
  EXPECT_TRUE(Load({Commit("other", other, others)}, sliced).ok());
}

TEST_F(LoadTeachersTest, ATeacherMayReadWhatAStudentIsOnlySlicedBy) {
  InputSpec sliced = LabelledImages({2, 3}, 2);
  sliced.features.push_back({"device", DType::kInt32, {1}, 4});
  const std::string image = sliced.features.front().name;
  const v1::JobConfig teacher = JobOf(
      "layers { parallel { "
      "branches { input: '" +
      image +
      "' layers { flatten {} } } "
      "branches { input: 'device' layers { embedding { width: 2 } } "
      "           layers { flatten {} } } } } layers { dense { units: 2 } } ");
  const v1::JobConfig job = JobOf(
      "layers { flatten {} } layers { dense { units: 2 } } "
      "slices: 'device'");
  student_.mutable_model()->CopyFrom(job.model());
  const auto loaded = Load({Commit("teacher", teacher, sliced)}, sliced);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

TEST_F(LoadTeachersTest, RowsByKeyAreRefused) {
  const InputSpec keys{
      {FeatureSpec{.name = "words", .dtype = DType::kInt64, .dims = {2}},
       FeatureSpec{
           .name = "label", .dtype = DType::kInt32, .dims = {}, .classes = 4}}};
  const v1::JobConfig job = JobOf(
      "layers { embedding { width: 4 capacity: 64 sparse: true } } layers { "
      "flatten {} } "
      "layers { dense { units: 4 } }");
  const std::string run =
      Commit("run", TeachersJob(), kDigits, [&](v1::Manifest* manifest) {
        manifest->mutable_job()->clear_settings();
        for (const std::string& line : RecordedSettings(job)) {
          manifest->mutable_job()->add_settings(line);
        }
      });
  student_.mutable_model()->CopyFrom(job.model());
  const auto teachers = Load({run}, keys);
  EXPECT_THAT(std::string(teachers.status().message()),
              HasSubstr("has rows by key (capacity)"));
}

}  // namespace
}  // namespace paramd
