#include "checkpoint/resized_table.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "config/optimizer_slots.h"
#include "proto/refusal.h"
#include "proto/testing/pair.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

using ::paramd::testing::Pair;
using ::testing::HasSubstr;

constexpr uint64_t kTableWidth = 3;
// Besides the values. Steps are a number for each row.
const std::vector<std::string> kTableSlots = {"key", "used", "sketch",
                                              "momentum", "steps"};

v1::Variable TableOfRows(uint64_t rows) {
  v1::Variable variable;
  variable.set_name("t");
  variable.set_dtype(v1::FLOAT32);
  variable.add_shape(rows);
  variable.add_shape(kTableWidth);
  variable.set_sparse(true);
  variable.set_keyed(true);
  variable.set_admit_after(2);
  return variable;
}

uint64_t RowBytesOf(const std::string& slot) {
  return slot.empty() ? kTableWidth * 4
                      : SlotNamed(slot).words(kTableWidth, kTableWidth) * 4;
}

// Of the row of a key: a pure function of the key and the slot.
std::string RowOf(const std::string& slot, uint64_t key) {
  std::string bytes;
  const CounterRandom random(key + slot.size());
  for (uint64_t i = 0; bytes.size() < RowBytesOf(slot); ++i) {
    const float number = 1 + random.Uniform(i);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

std::string BytesOfInteger(uint64_t integer) {
  return std::string(reinterpret_cast<const char*>(&integer), sizeof(integer));
}

// The checkpoint of a table in buckets of 8 rows: slices of two, by turns in
// two files.
class SavedTable : public TensorSource {
 public:
  // Bucket b has `pushes[b]`, counted round.
  SavedTable(uint64_t capacity, const std::vector<uint64_t>& pushes)
      : rows_(RowsForKeys(capacity, kTableWidth)), pushes_(pushes) {
    *manifest_.add_variables() = TableOfRows(rows_);
    for (const std::string& slot : kTableSlots) manifest_.add_slots(slot);
    manifest_.add_files()->set_name("a.safetensors");
    manifest_.add_files()->set_name("b.safetensors");
    for (uint64_t begin = 0; begin < rows_; begin += 2 * bucket()) {
      AddSlice(begin, std::min(rows_, begin + 2 * bucket()));
    }
    bytes_[""].resize(rows_ * RowBytesOf(""));
    for (const std::string& slot : kTableSlots) {
      bytes_[slot].resize(rows_ * RowBytesOf(slot));
    }
    // Of buckets that are no more.
    std::fill(bytes_["sketch"].begin(), bytes_["sketch"].end(), '\3');
  }

  uint64_t rows() const { return rows_; }
  uint64_t bucket() const { return std::min(rows_, BucketRows(kTableWidth)); }
  v1::Manifest& manifest() { return manifest_; }
  // By key: how many pushes ago it was used.
  const std::map<uint64_t, uint64_t>& ages() const { return ages_; }

  // Into the first row of its bucket without a key; nothing if there is none.
  // REQUIRES: no more pushes ago than each bucket has.
  void Add(uint64_t key, uint64_t age) {
    const uint64_t begin = BucketBegin(MixKey(key), rows_, kTableWidth);
    for (uint64_t row = begin; row < begin + bucket(); ++row) {
      if (bytes_["used"].substr(row * 8, 8) != BytesOfInteger(0)) continue;
      Set("key", row, BytesOfInteger(key));
      Set("used", row, BytesOfInteger(PushesTo(row / bucket()) - age));
      for (const std::string slot : {"", "momentum", "steps"}) {
        Set(slot, row, RowOf(slot, key));
      }
      ages_[key] = age;
      return;
    }
  }

  // Files have a base now, but for the second block of their first slices.
  void PutOverBase() {
    manifest_.mutable_snapshot()->set_counter(1);
    for (v1::ShardFile& file : *manifest_.mutable_files()) {
      file.mutable_base()->set_directory("before");
      file.mutable_base()->set_name(file.name());
      v1::SavedSlice* const slice = file.mutable_slices(0);
      const uint64_t begin = slice->row_begin() + bucket();
      files_[begin] = file.name();
      v1::ChangedBlocks* const changed = slice->add_changed();
      changed->set_first_block(1);
      changed->set_blocks(1);
      const auto name = [&](const std::string& slot) {
        const std::string tensor = absl::StrCat("t/", slot, "#", begin);
        tensors_[tensor] = {slot, {begin, begin + bucket()}};
        return tensor;
      };
      changed->set_values_tensor(name(""));
      for (const std::string& slot : kTableSlots) {
        (*changed->mutable_slot_tensors())[slot] = name(slot);
      }
    }
  }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override {
    const auto [slot, rows] = tensors_.at(tensor);
    const uint64_t count = rows.end - rows.begin;
    EXPECT_EQ(file.name, files_.at(rows.begin));
    info_ = {tensor,
             SlotNamed(slot).dtype == v1::INT64 ? "I64" : "F32",
             {count},
             0,
             count * RowBytesOf(slot)};
    if (SlotNamed(slot).by_row) return &info_;
    // Of changed blocks there is one dimension.
    if (absl::StrContains(tensor, "#")) {
      info_.shape = {count * kTableWidth};
    } else {
      info_.shape.push_back(kTableWidth);
    }
    return &info_;
  }
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override {
    const auto& [slot, rows] = tensors_.at(tensor);
    const uint64_t row_bytes = RowBytesOf(slot);
    const uint64_t begin = rows.begin * row_bytes + offset;
    std::memcpy(out.data(), &bytes_.at(slot)[begin], out.size());
    if (file.directory.empty()) return absl::OkStatus();
    // A base has something else in each second block.
    for (size_t i = 0; i < out.size(); ++i) {
      if ((begin + i) / row_bytes / bucket() % 2 == 1) out[i] = std::byte{5};
    }
    return absl::OkStatus();
  }

 private:
  uint64_t PushesTo(uint64_t block) const {
    return pushes_[block % pushes_.size()];
  }
  void AddSlice(uint64_t begin, uint64_t end) {
    const int f = static_cast<int>(begin / (2 * bucket()) % 2);
    v1::ShardFile* const file = manifest_.mutable_files(f);
    files_[begin] = file->name();
    v1::SavedSlice* const slice = file->add_slices();
    slice->set_variable("t");
    slice->set_row_begin(begin);
    slice->set_row_end(end);
    const auto name = [&](const std::string& slot) {
      const std::string tensor = absl::StrCat("t/", slot, "[", begin, "]");
      tensors_[tensor] = {slot, {begin, end}};
      return tensor;
    };
    slice->set_values_tensor(name(""));
    for (const std::string& slot : kTableSlots) {
      (*slice->mutable_slot_tensors())[slot] = name(slot);
    }
    for (uint64_t row = begin; row < end; row += bucket()) {
      v1::AppliedRun* const run = slice->add_applied();
      run->set_blocks(1);
      run->set_applied(PushesTo(row / bucket()));
    }
  }
  void Set(const std::string& slot, uint64_t row, const std::string& bytes) {
    bytes_[slot].replace(row * bytes.size(), bytes.size(), bytes);
  }

  const uint64_t rows_;
  const std::vector<uint64_t> pushes_;
  v1::Manifest manifest_;
  std::map<std::string, std::string> bytes_;  // By slot.
  std::map<std::string, std::pair<std::string, RowRange>> tensors_;
  std::map<uint64_t, std::string> files_;  // By the slice's first row.
  std::map<uint64_t, uint64_t> ages_;
  TensorInfo info_;
};

// What a server gets that wants some rows of a table of so many.
struct ResizedRows {
  v1::ReadSlicesResult result;
  std::map<std::string, std::string> bytes;  // By slot.

  const v1::SavedSlice& saved() const {
    return result.slices(0).pieces(0).saved();
  }
  uint64_t Integer(const std::string& slot, uint64_t row) const {
    uint64_t integer;
    std::memcpy(&integer, &bytes.at(slot)[row * 8], 8);
    return integer;
  }
  std::string Row(const std::string& slot, uint64_t row) const {
    return bytes.at(slot).substr(row * RowBytesOf(slot), RowBytesOf(slot));
  }
};

absl::StatusOr<ResizedRows> ReadResizedRows(SavedTable* from, uint64_t rows,
                                            RowRange wanted) {
  v1::ReadSlices request;
  v1::ReadSlices::Want* const want = request.add_slices();
  want->set_variable("t");
  *want->mutable_shape() = TableOfRows(rows).shape();
  want->set_row_begin(wanted.begin);
  want->set_row_end(wanted.end);
  want->set_sparse(true);
  want->set_keyed(true);
  want->set_sketched(true);
  for (const std::string& slot : kTableSlots) request.add_slots(slot);
  const auto index = SliceIndex::Create(from->manifest());
  if (!index.ok()) return index.status();
  ResizedRows got;
  ReadBuffers buffers;
  BufferChain chain;
  ChainTarget target(&buffers, &chain);
  const absl::Status read =
      ReadSlices(request, *index, from, &got.result, &target);
  if (!read.ok()) return read;
  ChainReader reader(chain);
  const auto take = [&](const std::string& slot) {
    got.bytes[slot] = FlattenForTest(
        reader.Take((wanted.end - wanted.begin) * RowBytesOf(slot)));
  };
  take("");
  for (const std::string& slot : kTableSlots) take(slot);
  EXPECT_EQ(reader.remaining(), 0u);
  return got;
}

class ResizedTableTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { internal::cut.block_elements = 26; }
  static void TearDownTestSuite() { internal::cut = Cut(); }
};

// Rows without a key.
void ExpectZeros(const ResizedRows& got, uint64_t row) {
  for (const std::string slot : {"", "key", "used", "momentum", "steps"}) {
    EXPECT_EQ(got.Row(slot, row), std::string(RowBytesOf(slot), '\0'));
  }
}

// Each row is in its bucket, as it was; those that are found leave `left`.
void ExpectSameRows(const SavedTable& from, const ResizedRows& got,
                    uint64_t rows, RowRange wanted,
                    std::map<uint64_t, uint64_t>* left) {
  const uint64_t bucket = std::min(rows, BucketRows(kTableWidth));
  const uint64_t pushes = got.saved().applied(0).applied();
  EXPECT_EQ(got.saved().applied(0).blocks(),
            (wanted.end - wanted.begin) / bucket);
  for (uint64_t i = 0; i < wanted.end - wanted.begin; ++i) {
    EXPECT_EQ(got.Integer("sketch", i), 0u);
    const uint64_t used = got.Integer("used", i);
    if (i % bucket > 0) {
      EXPECT_LE(used, got.Integer("used", i - 1)) << "the newest first";
    }
    if (used == 0) {
      ExpectZeros(got, i);
      continue;
    }
    const uint64_t key = got.Integer("key", i);
    EXPECT_EQ(BucketBegin(MixKey(key), rows, kTableWidth),
              (wanted.begin + i) / bucket * bucket);
    EXPECT_EQ(pushes - used, from.ages().at(key));
    for (const std::string slot : {"", "momentum", "steps"}) {
      EXPECT_EQ(got.Row(slot, i), RowOf(slot, key)) << slot;
    }
    EXPECT_EQ(left->erase(key), 1u) << key;
  }
}

TEST_F(ResizedTableTest, EachRowKeepsItsValuesSlotsAndAgeInAnyCapacity) {
  for (const uint64_t there : {5, 16, 56, 200}) {
    for (const uint64_t here : {7, 8, 24, 104, 400}) {
      const CounterRandom random(there * 1000 + here);
      SavedTable from(there, {100, 103, 97});
      const uint64_t keys = 5 + here / 30;
      for (uint64_t k = 0; k < keys; ++k) {
        from.Add(random.Bits(k), random.Below(90, 1000 + k));
      }
      const uint64_t rows = RowsForKeys(here, kTableWidth);
      auto left = from.ages();
      ASSERT_GE(left.size(), 5u);
      for (uint64_t begin = 0; begin < rows; begin += 24) {
        const RowRange wanted = {begin, std::min(rows, begin + 24)};
        const auto got = ReadResizedRows(&from, rows, wanted);
        ASSERT_TRUE(got.ok()) << got.status();
        ExpectSameRows(from, *got, rows, wanted, &left);
      }
      EXPECT_TRUE(left.empty()) << there << " to " << here;
    }
  }
}

TEST_F(ResizedTableTest, BlocksThatChangedSinceTheBaseAreTakenAsTheyAre) {
  SavedTable from(32, {100, 103});
  for (uint64_t key = 0; key < 16; ++key) from.Add(key, key);
  from.PutOverBase();
  for (const uint64_t rows : {24, 80}) {
    auto left = from.ages();
    ASSERT_EQ(left.size(), 16u);
    const auto got = ReadResizedRows(&from, rows, {0, rows});
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectSameRows(from, *got, rows, {0, rows}, &left);
    EXPECT_TRUE(left.empty());
  }
}

TEST_F(ResizedTableTest, OfTheSameCapacityRowsLieAsTheyWereSaved) {
  SavedTable from(32, {100, 103});
  from.Add(17, 5);
  from.Add(18, 3);
  const auto got = ReadResizedRows(&from, 32, {0, 32});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->result.slices(0).pieces_size(), 2);
  EXPECT_EQ(got->Integer("sketch", 3), 0x0303030303030303u);
}

// A row that a warm start took counts as used by the push to come.
TEST_F(ResizedTableTest, NoUseComesAfterThePushToCome) {
  SavedTable from(32, {1, 50, 50, 50});
  const uint64_t key = UnmixKey(1);  // In the first bucket.
  from.Add(key, 0);
  v1::SavedSlice* const slice =
      from.manifest().mutable_files(0)->mutable_slices(0);
  slice->mutable_applied(0)->set_applied(0);
  const auto got = ReadResizedRows(&from, 8, {0, 8});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->saved().applied(0).applied(), 50u);
  EXPECT_EQ(got->Integer("key", 0), key);
  EXPECT_EQ(got->Integer("used", 0), 51u);
}

void AddRecord(uint32_t worker, uint64_t sequence, v1::SavedSlice* slice) {
  v1::PushRecord* const record = slice->add_records();
  record->set_worker(worker);
  *record->mutable_generation() = Pair(1, 1 + worker);
  record->set_sequence(sequence);
  record->set_earlier(sequence - 1);
}

// A push that is in one of the slices is not to be applied once more.
TEST_F(ResizedTableTest, Promise1_APushThatIsInSomewhereCountsAsInEverywhere) {
  SavedTable from(32, {15, 14, 15, 14});
  v1::SavedSlice* const a = from.manifest().mutable_files(0)->mutable_slices(0);
  v1::SavedSlice* const b = from.manifest().mutable_files(1)->mutable_slices(0);
  AddRecord(0, 10, a);
  a->mutable_records(0)->add_missing_blocks(1);
  AddRecord(1, 5, a);
  AddRecord(0, 9, b);
  AddRecord(1, 6, b);
  *b->add_partial() = b->records(1);
  b->mutable_partial(0)->add_missing_blocks(1);
  const auto got = ReadResizedRows(&from, 8, {0, 8});
  ASSERT_TRUE(got.ok()) << got.status();
  const v1::SavedSlice& saved = got->saved();
  ASSERT_EQ(saved.records_size(), 2);
  EXPECT_EQ(saved.records(0).sequence(), 10u);
  EXPECT_EQ(saved.records(0).earlier(), 9u);
  EXPECT_TRUE(saved.records(0).missing_blocks().empty());
  EXPECT_EQ(saved.records(1).generation(), Pair(1, 2));
  EXPECT_EQ(saved.records(1).sequence(), 6u);
  EXPECT_EQ(saved.partial_size(), 0);
  // So many the records have, which are compared.
  EXPECT_EQ(saved.applied(0).applied(), 16u);
}

// Of its pushes the most count, whatever session they were of.
TEST_F(ResizedTableTest, Promise1_OfAWorkersSessionsTheNewestIsKnown) {
  SavedTable from(32, {20});
  v1::SavedSlice* const a = from.manifest().mutable_files(0)->mutable_slices(0);
  v1::SavedSlice* const b = from.manifest().mutable_files(1)->mutable_slices(0);
  AddRecord(0, 20, a);
  AddRecord(0, 2, b);
  *b->mutable_records(0)->mutable_generation() = Pair(1, 9);
  b->mutable_records(0)->set_earlier(12);
  const auto got = ReadResizedRows(&from, 8, {0, 8});
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->saved().records_size(), 1);
  const v1::PushRecord& record = got->saved().records(0);
  EXPECT_EQ(record.generation(), Pair(1, 9));
  EXPECT_EQ(record.sequence(), 2u);
  EXPECT_EQ(record.earlier(), 19u);
  EXPECT_EQ(got->saved().applied(0).applied(), 20u);
}

TEST_F(ResizedTableTest, WhatTheFilesLostIsHandedOnWithTheSlice) {
  SavedTable from(32, {15});
  from.manifest().mutable_files(0)->add_lost()->set_to(3);
  from.manifest().mutable_files(1)->add_lost()->set_to(4);
  const auto got = ReadResizedRows(&from, 80, {0, 80});
  ASSERT_TRUE(got.ok()) << got.status();
  const v1::Manifest& manifest = got->result.manifest();
  ASSERT_EQ(manifest.files_size(), 2);
  for (int f = 0; f < 2; ++f) {
    EXPECT_EQ(manifest.files(f).lost(0).to(), 3u + static_cast<uint64_t>(f));
    EXPECT_EQ(manifest.files(f).slices(0).row_begin(),
              got->saved().row_begin());
  }
}

TEST_F(ResizedTableTest, GradientsCountAsTheLargestOfTheBlocks) {
  SavedTable from(32, {15});
  for (const float rms : {0.5f, 2.0f}) {
    from.manifest().mutable_files(0)->mutable_slices(0)->add_gradient_rms(rms);
  }
  const auto got = ReadResizedRows(&from, 16, {0, 16});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->saved().gradient_rms(), ::testing::ElementsAre(2, 2));
}

TEST_F(ResizedTableTest, WhatHasNoRoomIsRefusedWithBothNumbers) {
  SavedTable from(64, {15});
  for (uint64_t key = 0; key < 1000; ++key) from.Add(key, 1);
  ASSERT_EQ(from.ages().size(), 64u);
  const absl::Status full = ReadResizedRows(&from, 8, {0, 8}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(full)) << full;
  EXPECT_EQ(full.message(),
            "'t' has 64 rows with a key in the checkpoint for a bucket of 8 "
            "rows: give it a larger capacity");
}

TEST_F(ResizedTableTest, WhatIsNoPartOfATableIsRefused) {
  SavedTable from(64, {15});
  const absl::Status cut = ReadResizedRows(&from, 32, {4, 12}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(cut)) << cut;
  EXPECT_EQ(cut.message(), "rows [4, 12) of 't' are not whole buckets of 8");
  EXPECT_THAT(
      std::string(ReadResizedRows(&from, 33, {0, 8}).status().message()),
      HasSubstr("no whole number of buckets"));
  EXPECT_THAT(
      std::string(ReadResizedRows(&from, 32, {24, 40}).status().message()),
      HasSubstr("do not exist; it has 32"));
}

}  // namespace
}  // namespace paramd
