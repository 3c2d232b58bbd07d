#include "bench/harness/child.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace paramd {
namespace {

TEST(ChildTest, EveryRequestIsAnsweredByWhatWasMadeInTheChild) {
  Child child("adder", [] {
    const pid_t maker = getpid();
    int sum = 0;
    return [maker, sum](const std::string& request) mutable {
      sum += std::stoi(request);
      return std::to_string(sum) + (maker == getpid() ? " here" : " elsewhere");
    };
  });
  EXPECT_EQ(child.Call("2"), "2 here");
  EXPECT_EQ(child.Call("3"), "5 here");
}

TEST(ChildTest, CpuTimeAndFaultsAreThoseOfTheChild) {
  constexpr size_t kBytes = 16 << 20;
  Child child("toucher", [] {
    return [](const std::string&) {
      void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      madvise(memory, kBytes, MADV_NOHUGEPAGE);
      volatile char* const bytes = static_cast<char*>(memory);
      for (size_t i = 0; i < kBytes; i += 4096) bytes[i] = 1;
      return std::string("done");
    };
  });
  const double cpu = child.CpuSeconds();
  const uint64_t faults = child.MinorFaults();
  EXPECT_EQ(child.Call("touch"), "done");
  EXPECT_GT(child.CpuSeconds(), cpu);
  EXPECT_GE(child.MinorFaults(), faults + kBytes / 4096);
}

TEST(ChildDeathTest, TheDeathOfAChildIsSaidByName) {
  EXPECT_EXIT(
      {
        Child child("mortal", [] {
          return [](const std::string&) -> std::string { _exit(3); };
        });
        child.Call("now");
      },
      ::testing::ExitedWithCode(1),
      "the process mortal ended instead of answering \"now\"");
}

}  // namespace
}  // namespace paramd
