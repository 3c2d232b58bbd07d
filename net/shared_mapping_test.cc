#include "net/shared_mapping.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using Arena = SharedMapping::Arena;

constexpr size_t kRightSize =
    2 * (SharedMapping::kArenaBytes + 4 * SharedMapping::kUnits);

// What Open says of memory of this size with these seals; "" if it is taken.
std::string WhatIsWrong(size_t size, int seals) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  const auto opened = SharedMapping::Open(fd);
  close(fd);
  if (!opened.ok()) {
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  }
  return std::string(opened.status().message());
}

TEST(SharedMappingTest, BothProcessesSeeWhatOneWrites) {
  const auto made = SharedMapping::Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const auto opened = SharedMapping::Open(made->fd);
  close(made->fd);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const Arena arena : {Arena::kClient, Arena::kServer}) {
    const auto ours = made->mapping->arena(arena);
    const auto theirs = (*opened)->arena(arena);
    ASSERT_EQ(ours.size(), SharedMapping::kArenaBytes);
    EXPECT_NE(ours.data(), theirs.data());
    EXPECT_EQ(theirs.back(), std::byte{0});
    ours.front() = std::byte{1};
    ours.back() = std::byte{2};
    EXPECT_EQ(theirs.front(), std::byte{1});
    EXPECT_EQ(theirs.back(), std::byte{2});
    (*opened)->word(arena, SharedMapping::kUnits - 1) = 7;
    EXPECT_EQ(made->mapping->word(arena, SharedMapping::kUnits - 1), 7u);
  }
}

TEST(SharedMappingTest, WordsAndArenasLieApart) {
  const auto made = SharedMapping::Make();
  ASSERT_TRUE(made.ok());
  close(made->fd);
  for (const Arena arena : {Arena::kClient, Arena::kServer}) {
    for (std::byte& byte : made->mapping->arena(arena)) byte = std::byte{255};
  }
  for (size_t unit = 0; unit < SharedMapping::kUnits; ++unit) {
    made->mapping->word(Arena::kClient, unit) = 1;
  }
  for (size_t unit = 0; unit < SharedMapping::kUnits; ++unit) {
    EXPECT_EQ(made->mapping->word(Arena::kServer, unit), 0u);
  }
  EXPECT_EQ(made->mapping->arena(Arena::kClient).back(), std::byte{255});
}

TEST(SharedMappingTest, WhatIsMadeCanNeitherShrinkNorGrow) {
  const auto made = SharedMapping::Make();
  ASSERT_TRUE(made.ok());
  EXPECT_NE(ftruncate(made->fd, 0), 0);
  EXPECT_NE(ftruncate(made->fd, 2 * kRightSize), 0);
  EXPECT_NE(fcntl(made->fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  close(made->fd);
}

TEST(SharedMappingTest, OtherMemoryIsRefusedByName) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(WhatIsWrong(kRightSize, kSeals), "");
  EXPECT_EQ(WhatIsWrong(kRightSize, 0), "memory to share is not sealed");
  EXPECT_EQ(WhatIsWrong(kRightSize, F_SEAL_GROW | F_SEAL_SEAL),
            "memory to share is not sealed");
  EXPECT_EQ(WhatIsWrong(kRightSize, F_SEAL_SHRINK | F_SEAL_GROW),
            "memory to share is not sealed");
  EXPECT_EQ(
      WhatIsWrong(4096, kSeals),
      absl::StrCat("memory to share has 4096 bytes; expected ", kRightSize));
  EXPECT_EQ(WhatIsWrong(kRightSize + 1, kSeals),
            absl::StrCat("memory to share has ", kRightSize + 1,
                         " bytes; expected ", kRightSize));
  EXPECT_EQ(WhatIsWrong(kRightSize, kSeals | F_SEAL_WRITE),
            "memory to share cannot be mapped: Operation not permitted");
}

TEST(SharedMappingTest, AFileOrAPipeIsRefused) {
  std::string path = absl::StrCat(::testing::TempDir(), "/fileXXXXXX");
  const int file = mkstemp(path.data());
  ASSERT_EQ(ftruncate(file, kRightSize), 0);
  EXPECT_EQ(SharedMapping::Open(file).status().code(),
            absl::StatusCode::kInvalidArgument);
  close(file);
  unlink(path.c_str());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(
      SharedMapping::Open(ends[0]).status(),
      absl::InvalidArgumentError("memory to share is a file of another kind"));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace paramd
