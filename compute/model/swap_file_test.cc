#include "compute/model/swap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(first + 7 * i);
  }
  return bytes;
}

// A file of memory, which a test has too.
class SwapFileTest : public ::testing::Test {
 protected:
  SwapFileTest()
      : file_(memfd_create("swap", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
        swap_(dup(file_), "here") {}
  ~SwapFileTest() override { close(file_); }

  std::vector<std::byte> Read(const void* layer, size_t count) {
    std::vector<std::byte> bytes(count);
    swap_.Read(layer, absl::MakeSpan(bytes));
    return bytes;
  }
  std::string why() const { return std::string(swap_.status().message()); }

  const int file_;
  SwapFile swap_;
  // Of which only the addresses count.
  const int first_ = 1, second_ = 2;
};

TEST_F(SwapFileTest, EachLayerReadsWhatItWroteLast) {
  swap_.Write(&first_, Bytes(5000, 1));
  swap_.Write(&second_, Bytes(64, 2));
  EXPECT_EQ(Read(&second_, 64), Bytes(64, 2));
  EXPECT_EQ(Read(&first_, 5000), Bytes(5000, 1));
  // Again, as a step that overflowed; then a smaller and a larger batch.
  EXPECT_EQ(Read(&first_, 5000), Bytes(5000, 1));
  swap_.Write(&first_, Bytes(3000, 3));
  swap_.Write(&second_, Bytes(70000, 4));
  EXPECT_EQ(Read(&second_, 70000), Bytes(70000, 4));
  EXPECT_EQ(Read(&first_, 3000), Bytes(3000, 3));
  EXPECT_TRUE(swap_.status().ok()) << swap_.status();
}

TEST_F(SwapFileTest, TheSamePlaceIsUsedStepAfterStep) {
  for (int step = 0; step < 100; ++step) {
    swap_.Write(&first_, Bytes(5000, step));
    swap_.Write(&second_, Bytes(5000, step));
  }
  EXPECT_EQ(lseek(file_, 0, SEEK_END), 4 * 4096);
}

TEST_F(SwapFileTest, AByteThatIsNotTheOneThatWasWrittenIsNoticed) {
  swap_.Write(&first_, Bytes(5000, 1));
  swap_.Write(&second_, Bytes(5000, 1));
  ASSERT_EQ(pwrite(file_, "\x7f", 1, 4500), 1);
  EXPECT_EQ(Read(&second_, 5000), Bytes(5000, 1));
  EXPECT_TRUE(swap_.status().ok());
  Read(&first_, 5000);
  EXPECT_EQ(swap_.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(why(), HasSubstr("the disk gives other bytes than were written"));
  // From now on nothing is written.
  ASSERT_EQ(ftruncate(file_, 0), 0);
  swap_.Write(&second_, Bytes(10, 1));
  EXPECT_EQ(lseek(file_, 0, SEEK_END), 0);
}

TEST_F(SwapFileTest, AFileThatHasBecomeShorterIsNoticed) {
  swap_.Write(&first_, Bytes(5000, 1));
  ASSERT_EQ(ftruncate(file_, 4096), 0);
  Read(&first_, 5000);
  EXPECT_EQ(why(),
            "memory.swap_directory 'here': activations can't be read: the file "
            "has become shorter; name a directory of another disk");
}

TEST_F(SwapFileTest, ADiskWithoutRoomIsSaid) {
  swap_.Write(&first_, Bytes(5000, 1));
  ASSERT_EQ(fcntl(file_, F_ADD_SEALS, F_SEAL_GROW), 0);
  swap_.Write(&first_, Bytes(5000, 2));
  EXPECT_TRUE(swap_.status().ok());
  swap_.Write(&second_, Bytes(5000, 1));
  EXPECT_EQ(swap_.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(why(), HasSubstr("'here' has no room for 16384 bytes of "
                               "activations: "));
}

TEST(SwapFileOnDiskTest, AFileSystemThatReservesNoRoomIsSaid) {
  // procfs has no such operation.
  SwapFile swap(open("/proc/self/comm", O_RDWR | O_CLOEXEC), "there");
  const absl::Status status = swap.Reserve(4096);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "memory.swap_directory 'there': its file system can't reserve room "
            "for a file; name a directory of another one, as ext4, xfs or "
            "tmpfs");
}

TEST(SwapFileOnDiskTest, TheDiskIsMeasured) {
  const auto seconds = MeasureSwap(::testing::TempDir());
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_GT(*seconds, 0);
  const auto nowhere = MeasureSwap("/does/not/exist");
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(nowhere.status().message()),
            "memory.swap_directory '/does/not/exist': no file can be made "
            "there: No such file or directory");
  SwapFile too_large(::testing::TempDir());
  EXPECT_EQ(too_large.Reserve(uint64_t{1} << 60).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace paramd
