#include "tensor/huge_pages.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace paramd {
namespace {

// "ac hg", say: the kernel's flags of the mapping that `at` lies in; empty: of
// none.
std::string FlagsOf(const std::byte* at) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t begin, end;
    char dash;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto address = reinterpret_cast<uintptr_t>(at);
      inside = begin <= address && address < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return line.substr(8);
    }
  }
  return "";
}

TEST(HugePagesTest, TheyBeginWithAHugePageAndAreZero) {
  constexpr size_t kSize = 2 * HugePages::kBytes + 5;
  const auto pages = HugePages::Map(kSize);
  ASSERT_NE(pages, nullptr);
  std::byte* const begin = pages->begin();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % HugePages::kBytes, 0u);
  EXPECT_TRUE(std::all_of(begin, begin + kSize,
                          [](std::byte b) { return b == std::byte{0}; }));
  std::fill(begin, begin + kSize, std::byte{7});
}

TEST(HugePagesTest, OnlyWholeOnesAreAskedFor) {
  const auto pages = HugePages::Map(HugePages::kBytes + 5);
  ASSERT_NE(pages, nullptr);
  const std::string flags = FlagsOf(pages->begin());
  ASSERT_NE(flags, "");
  std::ifstream kernel("/sys/kernel/mm/transparent_hugepage/enabled");
  if (kernel.is_open()) {
    EXPECT_NE(flags.find(" hg"), std::string::npos) << flags;
  }
  EXPECT_EQ(FlagsOf(pages->begin() + HugePages::kBytes).find(" hg"),
            std::string::npos)
      << "the rest would take a huge page of its own";
}

TEST(HugePagesTest, TheyAreGivenBack) {
  auto pages = HugePages::Map(HugePages::kBytes);
  ASSERT_NE(pages, nullptr);
  std::byte* const begin = pages->begin();
  ASSERT_NE(FlagsOf(begin), "");
  pages.reset();
  EXPECT_EQ(FlagsOf(begin), "");
}

}  // namespace
}  // namespace paramd
