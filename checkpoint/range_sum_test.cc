#include "checkpoint/range_sum.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "base/random.h"

namespace paramd {
namespace {

class RangeSumTest : public ::testing::Test {
 protected:
  // Somewhat more than two pieces.
  RangeSumTest() : bytes_(9'000'001) {
    RandomStream random(5);
    for (std::byte& byte : bytes_) {
      byte = static_cast<std::byte>(random.Bits());
    }
    const std::string path = ::testing::TempDir() + "/range_sum";
    EXPECT_TRUE(RemoveTree(path).ok());
    const auto file = NewFile::Create(path);
    EXPECT_TRUE((*file)->Append(absl::MakeConstSpan(bytes_)).ok());
    EXPECT_TRUE((*file)->Finish().ok());
    file_ = *ReadableFile::Open(path);
  }

  void Add(RangeSum* sum, uint64_t begin, uint64_t length) {
    sum->Add(begin, absl::MakeConstSpan(bytes_).subspan(begin, length));
  }
  void ExpectWhole(RangeSum* sum) {
    const auto whole = sum->Finish(*file_);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->bytes, bytes_.size());
    EXPECT_EQ(whole->crc32c, Crc32c(bytes_));
  }

  std::vector<std::byte> bytes_;
  std::unique_ptr<ReadableFile> file_;
};

TEST_F(RangeSumTest, OfNoPartTheWholeFileIsRead) {
  RangeSum sum;
  ExpectWhole(&sum);
}

TEST_F(RangeSumTest, OfAllPartsNothingIsRead) {
  RangeSum sum;
  Add(&sum, 0, 4'000'000);
  Add(&sum, 4'000'000, 5'000'001);
  bytes_.swap(bytes_);
  EXPECT_EQ(sum.bytes(), bytes_.size());
  // What was added counts, not what the file has now.
  const auto gone = NewFile::Create(::testing::TempDir() + "/range_sum_other");
  ASSERT_TRUE((*gone)->Append(std::string(bytes_.size(), 'x')).ok() &&
              (*gone)->Finish().ok());
  file_ = *ReadableFile::Open(::testing::TempDir() + "/range_sum_other");
  ExpectWhole(&sum);
}

TEST_F(RangeSumTest, PartsMayComeInAnyOrderAndOverlap) {
  RandomStream random(11);
  for (int round = 0; round < 20; ++round) {
    RangeSum sum;
    for (int part = 0; part < 12; ++part) {
      const uint64_t begin = random.Below(bytes_.size());
      const uint64_t most =
          std::min<uint64_t>(1'500'000, bytes_.size() - begin);
      Add(&sum, begin, random.Below(most) + 1);
    }
    ExpectWhole(&sum);
  }
}

TEST_F(RangeSumTest, AFileThatEndsBeforeIsDataLoss) {
  RangeSum sum;
  ASSERT_TRUE(ReadableFile::Open("/nothing").status().code() ==
              absl::StatusCode::kNotFound);
  bytes_.resize(10);
  sum.Add(file_->size() + 5, bytes_);
  const auto whole = sum.Finish(*file_);
  EXPECT_EQ(whole.status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
