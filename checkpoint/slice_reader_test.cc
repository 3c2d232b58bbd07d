#include "checkpoint/slice_reader.h"

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using testing::CutForServers;
using ::testing::HasSubstr;
using testing::SampleAfterIncrement;
using testing::SampleBytes;
using testing::SampleIncrementWrite;
using testing::SampleManifest;
using testing::SampleVariable;
using testing::SampleWrite;

// Files in memory. Counts the bytes that are read of each.
class MapSource : public TensorSource {
 public:
  void Add(const std::string& directory, const v1::WriteShard& write,
           const BufferChain& payload) {
    ChainReader reader(payload);
    for (const v1::WriteShard::Tensor& tensor : write.tensors()) {
      Stored& stored = tensors_[{directory, tensor.name()}];
      stored.info = {tensor.name(),
                     std::string(SafetensorsDType(tensor.dtype())),
                     {},
                     0,
                     tensor.bytes()};
      stored.info.shape.assign(tensor.shape().begin(), tensor.shape().end());
      stored.bytes = FlattenForTest(reader.Take(tensor.bytes()));
    }
  }
  TensorInfo* Info(const std::string& directory, const std::string& tensor) {
    return &tensors_.at({directory, tensor}).info;
  }
  void Remove(const std::string& directory, const std::string& tensor) {
    tensors_.erase({directory, tensor});
  }
  std::map<std::string, uint64_t>& read() { return read_; }

  absl::StatusOr<const TensorInfo*> Find(const File& file,
                                         const std::string& tensor) override {
    const auto found = tensors_.find({file.directory, tensor});
    if (found == tensors_.end()) {
      return absl::DataLossError(absl::StrCat("no tensor '", tensor, "' in '",
                                              file.directory, "/", file.name,
                                              "'"));
    }
    return &found->second.info;
  }
  absl::Status Read(const File& file, const std::string& tensor,
                    uint64_t offset, absl::Span<std::byte> out) override {
    read_[file.directory] += out.size();
    const std::string& bytes = tensors_.at({file.directory, tensor}).bytes;
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  struct Stored {
    TensorInfo info;
    std::string bytes;
  };
  std::map<std::pair<std::string, std::string>, Stored> tensors_;
  std::map<std::string, uint64_t> read_;
};

// One server's increment over a base in the directory "base": a slice of three
// blocks of 100, 100 and 80 elements, of which `changed` have changed.
class SliceReaderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { internal::cut.block_elements = 100; }
  static void TearDownTestSuite() { internal::cut = Cut(); }

  void Make(const testing::BlockChanged& changed) {
    v1::Manifest before = SampleManifest(variables_, {"momentum"}, 1, 1, 10);
    BufferChain payload;
    const v1::WriteShard write =
        SampleWrite("", CutForServers(variables_, 1, size_t{4} << 20),
                    {"momentum"}, 0, 1, &payload);
    source_.Add("base", write, payload);
    payload.clear();
    const v1::WriteShard increment =
        SampleIncrementWrite("base", before, write.file(), changed, &payload);
    source_.Add("", increment, payload);
    manifest_ = SampleManifest(variables_, {"momentum"}, 1, 2, 20);
    *manifest_.add_files() = increment.file();
    for (const char* slot : {"", "momentum"}) {
      expected_[slot] = SampleAfterIncrement(
          variables_[0], slot, manifest_.files(0).slices(0), changed);
    }
  }

  // Rows [begin, end) of values and momentum.
  absl::StatusOr<std::string> Rows(uint64_t begin, uint64_t end) {
    v1::ReadSlices request;
    auto* const want = request.add_slices();
    want->set_variable("w");
    want->add_shape(20);
    want->add_shape(14);
    want->set_row_begin(begin);
    want->set_row_end(end);
    request.add_slots("momentum");
    v1::ReadSlicesResult result;
    BufferChain payload;
    ReadBuffers buffers;
    ChainTarget target(&buffers, &payload);
    const absl::Status status =
        ReadSlices(request, manifest_, &source_, &result, &target);
    if (!status.ok()) return status;
    return FlattenForTest(payload);
  }
  std::string Expected(uint64_t begin, uint64_t end) {
    std::string rows;
    for (const char* slot : {"", "momentum"}) {
      rows += expected_[slot].substr(begin * 56, (end - begin) * 56);
    }
    return rows;
  }

  const std::vector<v1::Variable> variables_ = {SampleVariable("w", {20, 14})};
  v1::Manifest manifest_;
  MapSource source_;
  std::map<std::string, std::string> expected_;
};

TEST_F(SliceReaderTest, ChangedBlocksLieOverTheBaseAtAnyRows) {
  for (int mask = 0; mask < 8; ++mask) {
    Make([&](const auto&, uint64_t block) { return (mask >> block & 1) != 0; });
    // Block 1 begins in row 7, block 2 in row 14.
    for (const auto& [begin, end] :
         std::vector<std::pair<uint64_t, uint64_t>>{{0, 20},
                                                    {0, 1},
                                                    {7, 8},
                                                    {6, 15},
                                                    {14, 15},
                                                    {19, 20},
                                                    {8, 10},
                                                    {16, 20}}) {
      const auto rows = Rows(begin, end);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_TRUE(*rows == Expected(begin, end))
          << "rows " << begin << " to " << end << ", changed " << mask;
    }
  }
}

TEST_F(SliceReaderTest, EachByteIsReadOnceFromTheFileThatHasIt) {
  Make([](const auto&, uint64_t block) { return block == 1; });
  ASSERT_TRUE(Rows(0, 20).ok());
  EXPECT_EQ(source_.read()[""], 2 * 4 * uint64_t{100});
  EXPECT_EQ(source_.read()["base"], 2 * 4 * uint64_t{180});
}

TEST_F(SliceReaderTest, WhatIsMissingOrOfAnotherShapeIsDataLoss) {
  const std::vector<std::pair<std::function<void(MapSource*)>, std::string>>
      damages = {
          {[](auto* s) { s->Remove("base", "w"); }, "no tensor 'w' in 'base/"},
          {[](auto* s) { s->Remove("", "w#1"); }, "no tensor 'w#1' in '/"},
          {[](auto* s) {
             s->Info("base", "w")->shape = {14, 20};
           },
           "'w' is F32 14x20; rows [0, 20) of 'w' are F32 20x14"},
          {[](auto* s) { s->Info("", "w#1")->shape = {99}; },
           "'w#1' is F32 99; blocks [1, 2) of rows [0, 20) of 'w' are "
           "F32 100"},
          {[](auto* s) { s->Info("", "w/slot:momentum#1")->dtype = "F16"; },
           "is F16 100"}};
  for (const auto& [damage, sentence] : damages) {
    Make([](const auto&, uint64_t block) { return block == 1; });
    damage(&source_);
    const absl::Status status = Rows(0, 20).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << sentence;
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
  }
}

TEST_F(SliceReaderTest, AManifestWhoseChangedBlocksCannotBeIsDataLoss) {
  const std::vector<std::pair<std::function<void(v1::Manifest*)>, std::string>>
      changes = {
          {[](auto* m) { m->mutable_files(0)->clear_base(); },
           "changed blocks; the file has no base"},
          {[](auto* m) { m->mutable_snapshot()->set_counter(1); },
           "no earlier checkpoint's"},
          {[](auto* m) {
             m->mutable_files(0)->mutable_base()->set_directory("../else");
           },
           "no earlier checkpoint's"},
          {[](auto* m) { m->mutable_files(0)->mutable_base()->set_name(""); },
           "no earlier checkpoint's"}};
  const std::vector<
      std::pair<std::function<void(v1::ChangedBlocks*)>, std::string>>
      runs = {{[](auto* r) { r->set_first_block(0); }, "blocks [0, 1)"},
              {[](auto* r) { r->set_blocks(0); }, "blocks [2, 2)"},
              {[](auto* r) { r->set_blocks(2); }, "blocks [2, 4)"},
              {[](auto* r) { r->clear_values_tensor(); }, "tensor of values"},
              {[](auto* r) { r->clear_slot_tensors(); }, "slot 'momentum'"}};
  const auto changed = [](const auto&, uint64_t block) { return block != 1; };
  for (const auto& [change, sentence] : changes) {
    Make(changed);
    change(&manifest_);
    EXPECT_THAT(std::string(Rows(0, 1).status().message()),
                HasSubstr(sentence));
  }
  for (const auto& [change, sentence] : runs) {
    Make(changed);
    change(manifest_.mutable_files(0)->mutable_slices(0)->mutable_changed(1));
    const absl::Status status = Rows(0, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
  }
}

TEST_F(SliceReaderTest, FilesWithABaseNeedAReaderOfFormatTwo) {
  Make([](const auto&, uint64_t) { return true; });
  EXPECT_EQ(FormatOf(manifest_), 2u);
  manifest_.mutable_files(0)->clear_base();
  EXPECT_EQ(FormatOf(manifest_), 1u);
}

TEST_F(SliceReaderTest, RowsOfBf16NeedAReaderOfFormatFour) {
  Make([](const auto&, uint64_t) { return true; });
  manifest_.mutable_variables(0)->set_row_format(v1::Variable::ROW_FORMAT_BF16);
  EXPECT_EQ(FormatOf(manifest_), 4u);
}

// A table by key of 21 rows of 14, of which seven are a block.
class ChangedRowsTest : public SliceReaderTest {
 protected:
  ChangedRowsTest() : table_(SampleVariable("t", {21, 14})) {
    table_.set_sparse(true);
    table_.set_keyed(true);
  }

  // In one file over a base, with these blocks changed.
  void MakeTable(const testing::BlockChanged& changed) {
    const std::vector<v1::Variable> variables = {table_};
    BufferChain payload;
    const v1::WriteShard write =
        SampleWrite("", CutForServers(variables, 1, size_t{4} << 20), slots_, 0,
                    1, &payload);
    source_.Add("base", write, payload);
    payload.clear();
    const v1::WriteShard increment = SampleIncrementWrite(
        "base", SampleManifest(variables, slots_, 1, 1, 10), write.file(),
        changed, &payload);
    source_.Add("", increment, payload);
    manifest_ = SampleManifest(variables, slots_, 1, 2, 20);
    *manifest_.add_files() = increment.file();
  }

  // Those rows of what the table then has: values, keys, uses and momentum.
  std::string ExpectedRows(uint64_t begin, uint64_t end,
                           const testing::BlockChanged& changed) {
    std::string rows;
    for (const std::string slot : {"", "key", "used", "momentum"}) {
      const uint64_t bytes = slot == "key" || slot == "used" ? 8 : 14 * 4;
      rows += SampleAfterIncrement(table_, slot, manifest_.files(0).slices(0),
                                   changed)
                  .substr(begin * bytes, (end - begin) * bytes);
    }
    return rows;
  }

  v1::Variable table_;
  const std::vector<std::string> slots_ = {"key", "used", "momentum"};
};

TEST_F(ChangedRowsTest, ChangedBlocksAreWholeRowsOverTheBase) {
  for (int mask = 0; mask < 8; ++mask) {
    const auto changed = [&](const auto&, uint64_t block) {
      return (mask >> block & 1) != 0;
    };
    MakeTable(changed);
    for (const auto& [begin, end] : std::vector<std::pair<uint64_t, uint64_t>>{
             {0, 21}, {0, 7}, {6, 8}, {7, 14}, {13, 15}, {20, 21}}) {
      v1::ReadSlices request;
      for (const std::string& slot : slots_) request.add_slots(slot);
      v1::ReadSlices::Want* const want = request.add_slices();
      want->set_variable("t");
      *want->mutable_shape() = table_.shape();
      want->set_row_begin(begin);
      want->set_row_end(end);
      want->set_sparse(true);
      want->set_keyed(true);
      v1::ReadSlicesResult result;
      BufferChain payload;
      ReadBuffers buffers;
      ChainTarget target(&buffers, &payload);
      const absl::Status read =
          ReadSlices(request, manifest_, &source_, &result, &target);
      ASSERT_TRUE(read.ok()) << read;
      EXPECT_TRUE(FlattenForTest(payload) == ExpectedRows(begin, end, changed))
          << "rows " << begin << " to " << end << ", changed " << mask;
    }
  }
}

TEST_F(ChangedRowsTest, ABlockThatTheRowsDoNotHaveIsDataLoss) {
  MakeTable([](const auto&, uint64_t block) { return block == 2; });
  ASSERT_TRUE(SliceIndex::Create(manifest_).ok());
  manifest_.mutable_files(0)->mutable_slices(0)->mutable_changed(0)->set_blocks(
      2);
  EXPECT_THAT(std::string(SliceIndex::Create(manifest_).status().message()),
              HasSubstr("with the changed blocks [2, 4), where blocks [0, 3)"));
}

// A table with sums of rows and a vector of plain descent beside one with
// moments.
class OwnSlotsTest : public ::testing::Test {
 protected:
  OwnSlotsTest() {
    variables_[0].set_sparse(true);
    manifest_ = SampleManifest(
        variables_, {"momentum", "variance", "row_accumulator"}, 1, 1, 10);
    const std::vector<std::vector<std::string>> slots = {
        {"row_accumulator"}, {"momentum", "variance"}, {}};
    for (size_t v = 0; v < variables_.size(); ++v) {
      BufferChain payload;
      v1::WriteShard write =
          SampleWrite("", CutForServers({variables_[v]}, 1, size_t{4} << 20),
                      slots[v], 0, 1, &payload);
      source_.Add("", write, payload);
      write.mutable_file()->set_name(absl::StrCat("file-", v));
      *manifest_.add_files() = write.file();
    }
    Own("t")->add_names("row_accumulator");
    Own("b");
    manifest_.set_format(FormatOf(manifest_));
    manifest_.set_min_reader(FormatOf(manifest_));
  }

  v1::SlotNames* Own(const std::string& variable) {
    return &(*manifest_.mutable_variable_slots())[variable];
  }
  v1::ReadSlices::Want* Want(size_t variable) {
    v1::ReadSlices::Want* const want = request_.add_slices();
    want->set_variable(variables_[variable].name());
    *want->mutable_shape() = variables_[variable].shape();
    want->set_row_end(variables_[variable].shape(0));
    want->set_sparse(variables_[variable].sparse());
    return want;
  }
  absl::StatusOr<size_t> Read() {
    v1::ReadSlicesResult result;
    BufferChain payload;
    ReadBuffers buffers;
    ChainTarget target(&buffers, &payload);
    const absl::Status status =
        ReadSlices(request_, manifest_, &source_, &result, &target);
    if (!status.ok()) return status;
    return ChainSize(payload);
  }

  std::vector<v1::Variable> variables_ = {SampleVariable("t", {5, 2}),
                                          SampleVariable("w", {7}),
                                          SampleVariable("b", {3})};
  v1::Manifest manifest_;
  MapSource source_;
  v1::ReadSlices request_;
};

TEST_F(OwnSlotsTest, AManifestSaysThemAndNeedsAReaderOfFormatFive) {
  EXPECT_TRUE(SliceIndex::Create(manifest_).ok())
      << SliceIndex::Create(manifest_).status();
  EXPECT_EQ(FormatOf(manifest_), 5u);
  EXPECT_EQ(SlotsOf(manifest_, variables_[0]).size(), 1u);
  EXPECT_EQ(SlotsOf(manifest_, variables_[1]).size(), 2u);
  EXPECT_TRUE(SlotsOf(manifest_, variables_[2]).empty());
  const auto copy = ParseManifest(*EncodeManifest(manifest_));
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(SlotsOf(*copy, variables_[0])[0].name, "row_accumulator");
  EXPECT_TRUE(SlotsOf(*copy, variables_[2]).empty());
  Own("t")->add_names("accumulator");
  EXPECT_THAT(std::string(SliceIndex::Create(manifest_).status().message()),
              HasSubstr("without a tensor for its slot 'accumulator'"));
}

TEST_F(OwnSlotsTest, EachVariableIsReadWithItsOwn) {
  for (const char* slot : {"momentum", "variance", "row_accumulator"}) {
    request_.add_slots(slot);
  }
  Want(0)->add_own_slots("row_accumulator");
  Want(1);
  Want(2)->set_values_only(true);
  // Values and a sum a row; values and both moments; values.
  EXPECT_EQ(*Read(), 4u * (10 + 5) + 4u * 3 * 7 + 4u * 3);
}

TEST_F(OwnSlotsTest, AnotherKindForAVariableIsRefusedByItsName) {
  Want(0)->add_own_slots("momentum");
  const absl::Status status = Read().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the checkpoint has no slot 'momentum' of 't': it was "
                        "saved with another optimizer"));
}

// Whatever slices it was saved in, and with whatever else.
TEST(ReadKeyedTest, RowsComeWithTheirKeysAndUses) {
  v1::Variable table = SampleVariable("table", {50, 4});
  table.set_sparse(true);
  table.set_keyed(true);
  const v1::Variable dense = SampleVariable("dense", {7, 3});
  const std::vector<v1::Variable> variables = {table, dense};
  const std::vector<std::string> slots = {"key", "used", "accumulator",
                                          "row_accumulator"};
  v1::Manifest manifest = SampleManifest(variables, slots, 1, 1, 10);
  MapSource source;
  BufferChain payload;
  const v1::WriteShard write =
      SampleWrite("", CutForServers(variables, 1, /*slice_bytes=*/160), slots,
                  0, 1, &payload);
  source.Add("", write, payload);
  *manifest.add_files() = write.file();
  v1::ReadSlices request;
  for (const std::string& slot : slots) request.add_slots(slot);
  v1::ReadSlices::Want* const want = request.add_slices();
  want->set_variable("table");
  *want->mutable_shape() = table.shape();
  want->set_row_begin(7);
  want->set_row_end(33);
  want->set_sparse(true);
  want->set_keyed(true);
  v1::ReadSlices::Want* const whole = request.add_slices();
  whole->set_variable("dense");
  *whole->mutable_shape() = dense.shape();
  whole->set_row_end(7);
  BufferChain chain;
  ReadBuffers buffers;
  ChainTarget target(&buffers, &chain);
  v1::ReadSlicesResult result;
  const absl::Status read =
      ReadSlices(request, manifest, &source, &result, &target);
  ASSERT_TRUE(read.ok()) << read;
  BufferChain wanted;
  for (const std::string slot : {"", "key", "used", "row_accumulator"}) {
    wanted.push_back(SampleBytes(table, slot, {7, 33}));
  }
  for (const std::string slot : {"", "accumulator"}) {
    wanted.push_back(SampleBytes(dense, slot, {0, 7}));
  }
  EXPECT_EQ(FlattenForTest(chain), FlattenForTest(wanted));

  want->set_keyed(false);
  EXPECT_THAT(
      std::string(
          ReadSlices(request, manifest, &source, &result, &target).message()),
      HasSubstr("has keys for its rows in the checkpoint"));
}

}  // namespace
}  // namespace paramd
