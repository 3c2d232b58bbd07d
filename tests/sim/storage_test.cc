#include "tests/sim/storage.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;

// Does works one after the other, then exits.
class Script : public Core {
 public:
  void Start(Time, Outbox* out) override { Next(out); }
  void Receive(Message, Time, Outbox*) override {}
  void Completed(IoResult result, Time, Outbox* out) override {
    results.push_back(std::move(result));
    Next(out);
  }
  void Tick(Time, Outbox*) override {}
  Time next_tick() const override { return Time::Never(); }

  template <typename M>
  M* Add(std::vector<float> payload = {}) {
    auto head = std::make_unique<M>();
    M* const made = head.get();
    BufferChain chain;
    if (!payload.empty()) {
      chain.push_back(Buffer::Copy(AsBytes<float>(payload)));
    }
    works.emplace_back(std::move(head), std::move(chain));
    return made;
  }

  std::vector<std::pair<Outbox::Head, BufferChain>> works;
  std::vector<IoResult> results;

 private:
  void Next(Outbox* out) {
    if (results.size() == works.size()) return out->Exit(absl::OkStatus());
    auto& [head, payload] = works[results.size()];
    out->StartIo(results.size() + 1, std::move(head), std::move(payload));
  }
};

class StorageTest : public ::testing::Test {
 protected:
  void Run() {
    Simulation simulation({});
    storage_.ServeCoordinator(PeerId::Ps(0), &simulation);
    storage_.ServeShard(PeerId::Ps(0), &simulation);
    simulation.AddNode(PeerId::Ps(0), &script_);
    const absl::Status status = simulation.Run();
    ASSERT_TRUE(status.ok()) << status;
  }

  // Rows 0 and 1 of three rows of two, then row 2, as checkpoint 1.`counter`.
  void AddCheckpoint(uint64_t counter, float first) {
    v1::SnapshotNumber snapshot;
    snapshot.set_term(1);
    snapshot.set_counter(counter);
    *script_.Add<v1::PrepareCheckpoint>()->mutable_snapshot() = snapshot;
    const std::string directory =
        absl::StrCat("checkpoints/1.", counter, ".partial");
    auto* write = script_.Add<v1::WriteShard>(
        {first, first + 1, first + 2, first + 3, first + 4, first + 5});
    write->set_directory(directory);
    auto* commit = script_.Add<v1::CommitCheckpoint>();
    commit->set_directory(directory);
    commit->mutable_retention()->set_keep(1);
    v1::Manifest* manifest = commit->mutable_manifest();
    *manifest->mutable_snapshot() = snapshot;
    manifest->set_global_step(counter);
    v1::Variable* variable = manifest->add_variables();
    variable->set_name("w");
    variable->set_dtype(v1::FLOAT32);
    variable->add_shape(3);
    variable->add_shape(2);
    v1::ShardFile* file = write->mutable_file();
    file->set_name("ps-0");
    for (int part = 0; part < 2; ++part) {
      auto* tensor = write->add_tensors();
      tensor->set_name(part == 0 ? "w[0:2]" : "w[2:3]");
      tensor->add_shape(part == 0 ? 2 : 1);
      tensor->add_shape(2);
      tensor->set_dtype(v1::FLOAT32);
      tensor->set_bytes(part == 0 ? 16 : 8);
      v1::SavedSlice* slice = file->add_slices();
      slice->set_variable("w");
      slice->set_row_begin(part == 0 ? 0 : 2);
      slice->set_row_end(part == 0 ? 2 : 3);
      slice->set_values_tensor(tensor->name());
    }
    *manifest->add_files() = *file;
    const std::vector<float> values = {first,     first + 1, first + 2,
                                       first + 3, first + 4, first + 5};
    manifest->mutable_files(0)->set_crc32c(Crc32c(AsBytes<float>(values)));
  }

  SimStorage storage_;
  Script script_;
};

TEST_F(StorageTest, AppendsEntriesInOrderAndAbortsTheOthers) {
  for (const uint64_t number : {1, 2, 2, 4}) {
    script_.Add<v1::AppendLog>()->mutable_entry()->set_number(number);
  }
  script_.Add<v1::ReadLog>();
  Run();
  EXPECT_TRUE(script_.results[1].status.ok());
  EXPECT_TRUE(absl::IsAborted(script_.results[2].status));
  EXPECT_TRUE(absl::IsAborted(script_.results[3].status));
  EXPECT_EQ(
      static_cast<v1::ReadLogResult&>(*script_.results[4].head).entries_size(),
      2);
}

TEST_F(StorageTest, ReadsRowsAcrossThePartsOfTheNewestCheckpoint) {
  AddCheckpoint(1, 100);
  AddCheckpoint(2, 0);
  script_.Add<v1::FindCheckpoint>();
  auto* read = script_.Add<v1::ReadSlices>();
  read->set_path("checkpoints/1.2");
  auto* want = read->add_slices();
  want->set_variable("w");
  want->add_shape(3);
  want->add_shape(2);
  want->set_row_begin(1);
  want->set_row_end(3);
  Run();
  EXPECT_EQ(
      static_cast<v1::FindCheckpointResult&>(*script_.results[6].head).path(),
      "checkpoints/1.2");
  std::vector<float> rows(4);
  ChainReader reader(script_.results[7].payload);
  ASSERT_TRUE(reader.Read(AsWritableBytes(absl::MakeSpan(rows))));
  EXPECT_THAT(rows, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(static_cast<v1::ReadSlicesResult&>(*script_.results[7].head)
                .slices(0)
                .pieces_size(),
            2);
  ASSERT_EQ(storage_.committed().size(), 2u);
  EXPECT_THAT(*storage_.ReadVariable(storage_.committed()[1], "w", ""),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(StorageTest, WhatTheLogHasAsRetiredMayBeDeleted) {
  AddCheckpoint(1, 0);
  AddCheckpoint(2, 0);
  v1::SnapshotNumber first;
  first.set_term(1);
  first.set_counter(1);
  auto* append = script_.Add<v1::AppendLog>()->mutable_entry();
  append->set_number(1);
  *append->mutable_retired() = first;
  *script_.Add<v1::DeleteCheckpoints>()->add_snapshots() = first;
  Run();
  EXPECT_EQ(static_cast<v1::CommitCheckpointResult&>(*script_.results[5].head)
                .to_retire_size(),
            1);
  EXPECT_TRUE(storage_.misuse().ok());
}

TEST_F(StorageTest, TheNewestMayNotBeDeleted) {
  AddCheckpoint(1, 0);
  auto* remove = script_.Add<v1::DeleteCheckpoints>()->add_snapshots();
  remove->set_term(1);
  remove->set_counter(1);
  Run();
  EXPECT_FALSE(storage_.misuse().ok());
}

TEST_F(StorageTest, Promise3_DamageIsFoundByWhoeverChecksTheFile) {
  AddCheckpoint(1, 100);
  AddCheckpoint(2, 0);
  static_cast<v1::CommitCheckpoint&>(*script_.works[5].first)
      .mutable_retention()
      ->set_keep(2);
  script_.Add<v1::FindCheckpoint>();
  const auto add_read = [this](uint32_t of, bool alone) {
    auto* const read = script_.Add<v1::ReadSlices>();
    read->set_path("checkpoints/1.2");
    read->set_first(true);
    read->set_last(true);
    read->mutable_check()->set_index(of / 2);
    read->mutable_check()->set_of(of);
    read->mutable_check()->set_alone(alone);
    auto* const want = read->add_slices();
    want->set_variable("w");
    want->add_shape(3);
    want->add_shape(2);
    want->set_row_end(3);
  };
  add_read(1, false);
  add_read(2, false);  // Of two: the only file is the first one's to check.
  add_read(2, true);
  auto* const again = script_.Add<v1::FindCheckpoint>()->add_damaged();
  again->mutable_snapshot()->set_term(1);
  again->mutable_snapshot()->set_counter(2);
  RandomStream random(1);
  storage_.Damaging({.when_found = 1, .random = &random});
  Run();
  EXPECT_EQ(storage_.damaged(), 1u) << "the older one is left whole";
  EXPECT_TRUE(absl::IsDataLoss(script_.results[7].status));
  const IoResult& unchecked = script_.results[8];
  if (unchecked.status.ok()) {
    EXPECT_NE(FlattenForTest(unchecked.payload),
              FlattenForTest(script_.works[4].second));
  } else {
    EXPECT_TRUE(absl::IsDataLoss(unchecked.status)) << "its end is gone";
  }
  EXPECT_TRUE(absl::IsDataLoss(script_.results[9].status));
  EXPECT_EQ(storage_.damage_found(), 2u);
  EXPECT_EQ(
      static_cast<v1::FindCheckpointResult&>(*script_.results[10].head).path(),
      "checkpoints/1.1");
  EXPECT_THAT(*storage_.ReadVariable(storage_.committed()[1], "w", ""),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(StorageTest, Promise3_WhatCannotBeReadNowIsThereLater) {
  AddCheckpoint(1, 100);
  script_.Add<v1::FindCheckpoint>();
  script_.Add<v1::ReadSlices>()->set_path("checkpoints/1.1");
  RandomStream random(1);
  storage_.Unreadable(1, &random);
  Run();
  EXPECT_TRUE(absl::IsUnavailable(script_.results[3].status));
  EXPECT_TRUE(absl::IsUnavailable(script_.results[4].status));
  EXPECT_EQ(storage_.unread(), 2u);
  EXPECT_EQ(storage_.damaged(), 0u);
}

TEST_F(StorageTest, Promise3_TheOnlyCheckpointIsNotDamaged) {
  AddCheckpoint(1, 100);
  AddCheckpoint(2, 0);  // Keeps one.
  script_.Add<v1::FindCheckpoint>();
  RandomStream random(1);
  storage_.Damaging({.when_found = 1, .random = &random});
  Run();
  EXPECT_EQ(storage_.damaged(), 0u);
}

TEST_F(StorageTest, Promise3_AFileThatIsNotWhatWasWrittenCommitsNothing) {
  AddCheckpoint(1, 0);
  static_cast<v1::CommitCheckpoint&>(*script_.works[2].first)
      .mutable_manifest()
      ->mutable_files(0)
      ->set_crc32c(7);
  Run();
  EXPECT_TRUE(absl::IsDataLoss(script_.results[2].status));
  EXPECT_TRUE(storage_.committed().empty());
}

}  // namespace
}  // namespace paramd
