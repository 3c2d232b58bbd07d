#include "checkpoint/manifest.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"
#include "proto/testing/pair.h"

namespace paramd {
namespace {

using testing::CutForServers;
using ::testing::HasSubstr;
using testing::SampleManifest;
using testing::SampleVariable;
using testing::SampleWrite;

v1::Manifest Sample() {
  const std::vector<v1::Variable> variables = {SampleVariable("w", {10, 3}),
                                               SampleVariable("s", {})};
  v1::Manifest manifest = SampleManifest(variables, {"momentum"}, 1, 2, 3);
  manifest.set_format(1);
  manifest.set_min_reader(1);
  const auto slices = CutForServers(variables, 2, 48);
  for (uint32_t server = 0; server < 2; ++server) {
    BufferChain payload;
    *manifest.add_files() =
        SampleWrite("", slices, {"momentum"}, server, 2, &payload).file();
  }
  return manifest;
}

TEST(ManifestTest, ReadsWhatItWrote) {
  v1::Manifest manifest = Sample();
  manifest.set_global_step(~uint64_t{0});
  manifest.mutable_files(0)->set_crc32c(0xffffffff);
  const auto text = EncodeManifest(manifest);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("\"min_reader\": 1"));
  const auto read = ParseManifest(*text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString().size(),
            manifest.SerializeAsString().size());
  EXPECT_EQ(*EncodeManifest(*read), *text);
}

// Of terabytes and many workers a manifest is long, and half of it were space.
TEST(ManifestTest, ALongOneIsWrittenWithoutSpace) {
  constexpr int kWorkers = 32;
  constexpr int kSlices = 8000;
  v1::Manifest manifest = Sample();
  v1::ShardFile* const file = manifest.mutable_files(0);
  for (int s = 0; s < kSlices; ++s) {
    v1::SavedSlice* const slice = file->add_slices();
    slice->set_variable("w");
    slice->set_values_tensor("w[1024:2048]");
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      v1::PushRecord* const record = slice->add_records();
      record->set_worker(worker);
      *record->mutable_generation() = testing::Pair(1, worker + 1);
      record->set_sequence(123456);
      record->set_earlier(123455);
    }
  }
  const auto text = EncodeManifest(manifest);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_LT(text->size(), uint64_t{kSlices} * (kWorkers + 2) * 100);
  EXPECT_EQ(text->find('\n'), std::string::npos);
  const auto read = ParseManifest(*text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->files(0).slices_size(), file->slices_size());
  // For people.
  EXPECT_THAT(*EncodeManifest(Sample()), HasSubstr("\n"));
}

TEST(ManifestTest, KeysOfALaterVersionArePassedOver) {
  EXPECT_TRUE(
      ParseManifest(R"({"format": 2, "min_reader": 1, "later": {"x": 1}})")
          .ok());
}

TEST(ManifestTest, WhatIsNoManifestIsDataLoss) {
  for (const char* text :
       {"", "{", "[]", "{}", "{\"format\": 1}", "{\"format\": \"x\"}",
        "{\"format\": 1, \"min_reader\": 1, \"files\": 3}"}) {
    EXPECT_EQ(ParseManifest(text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
}

TEST(SliceIndexTest, FindsTheSlicesOfAVariableInOrder) {
  const v1::Manifest manifest = Sample();
  const auto index = SliceIndex::Create(manifest);
  ASSERT_TRUE(index.ok()) << index.status();
  const SliceIndex::Entry* const w = index->Find("w");
  ASSERT_NE(w, nullptr);
  ASSERT_EQ(w->saved.size(), 3u);
  EXPECT_EQ(w->saved[1].slice->row_begin(), 4u);
  EXPECT_EQ(w->saved[1].file->name(), "ps-00002-of-00002.safetensors");
  EXPECT_EQ(index->Find("v"), nullptr);
  EXPECT_EQ(index->entries().size(), 2u);
}

TEST(SliceIndexTest, AManifestThatDoesNotAddUpIsRefused) {
  using Change = std::function<void(v1::Manifest*)>;
  const auto slice = [](v1::Manifest* m) {
    return m->mutable_files(0)->mutable_slices(0);
  };
  const std::vector<std::pair<Change, std::string>> changes = {
      {[](auto* m) { *m->add_variables() = m->variables(0); }, "'w' twice"},
      {[](auto* m) { m->mutable_variables(0)->set_shape(1, 0); },
       "possible shape"},
      {[](auto* m) { m->mutable_variables(0)->clear_dtype(); }, "dtype"},
      {[](auto* m) { m->mutable_variables(0)->set_shape(0, 11); },
       "misses rows [10, 11) of 'w'"},
      {[](auto* m) { *m->add_variables() = SampleVariable("v", {1}); },
       "misses rows [0, 1) of 'v'"},
      {[](auto* m) { m->mutable_files(0)->set_name("a/b"); }, "plain name"},
      {[](auto* m) { m->mutable_files(0)->set_name(m->files(1).name()); },
       "stands twice"},
      {[&](auto* m) { slice(m)->set_variable("v"); }, "unknown variable 'v'"},
      {[&](auto* m) { slice(m)->set_row_end(3); },
       "misses rows of 'w' between 3 and 4"},
      {[&](auto* m) { slice(m)->set_row_end(5); },
       "has twice rows of 'w' between 4 and 5"},
      {[&](auto* m) { slice(m)->set_row_end(99); }, "with rows [0, 99)"},
      {[&](auto* m) { slice(m)->set_row_end(0); }, "with rows [0, 0)"},
      {[&](auto* m) { slice(m)->clear_values_tensor(); }, "tensor of values"},
      {[&](auto* m) { slice(m)->clear_slot_tensors(); }, "slot 'momentum'"},
      // So many are counted one by one.
      {[&](auto* m) { slice(m)->add_applied()->set_blocks(~0u); },
       "with the pushes of 4294967295 blocks; it has 1"},
      // A bucket has as many rows of these as fit into a block: none.
      {[](auto* m) {
         *m->add_variables() = SampleVariable("t", {1, 300000});
         m->mutable_variables(2)->set_keyed(true);
       },
       "'t' without a name, dtype or possible shape"},
  };
  for (const auto& [change, sentence] : changes) {
    v1::Manifest manifest = Sample();
    change(&manifest);
    const auto index = SliceIndex::Create(manifest);
    EXPECT_EQ(index.status().code(), absl::StatusCode::kDataLoss) << sentence;
    EXPECT_THAT(std::string(index.status().message()), HasSubstr(sentence));
  }
}

TEST(CheckSavedTensorTest, TheFirstDimensionIsTheRows) {
  const v1::Variable w = SampleVariable("w", {10, 3});
  EXPECT_TRUE(CheckSavedTensor({"t", "F32", {4, 3}, 0, 48}, w, "", 2, 6).ok());
  EXPECT_FALSE(CheckSavedTensor({"t", "F32", {12}, 0, 48}, w, "", 2, 6).ok());
  EXPECT_FALSE(CheckSavedTensor({"t", "I32", {4, 3}, 0, 48}, w, "", 2, 6).ok());
  EXPECT_TRUE(CheckSavedTensor({"t", "F32", {}, 0, 4}, SampleVariable("s", {}),
                               "", 0, 1)
                  .ok());
}

}  // namespace
}  // namespace paramd
