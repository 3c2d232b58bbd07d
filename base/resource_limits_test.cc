#include "base/resource_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <new>
#include <system_error>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Each test changes the process that it is in: a child of the test's.
class ResourceLimitsDeathTest : public ::testing::Test {
 protected:
  ResourceLimitsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes address space of its own";
#endif
  }
  // So much more address space than is used now.
  static void LimitAddressSpace(rlim_t more) {
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    const rlim_t limit = pages * sysconf(_SC_PAGESIZE) + more;
    const rlimit both = {limit, limit};
    setrlimit(RLIMIT_AS, &both);
  }
  // Ends the process with what it says.
  [[noreturn]] static void Say(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    std::fflush(stderr);
    _exit(status.ok() ? 0 : 2);
  }
};

TEST_F(ResourceLimitsDeathTest, ClosedStandardDescriptorsAreTaken) {
  EXPECT_EXIT(
      {
        for (int fd = 0; fd <= 2; ++fd) close(fd);
        OpenStandardDescriptors();
        const int next = open("/dev/null", O_RDWR);
        char byte = 'x';
        _exit(next > 2 && read(0, &byte, 1) < 0 && write(1, &byte, 1) < 0 &&
                      write(2, &byte, 1) < 0
                  ? 0
                  : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(ResourceLimitsDeathTest, OpenStandardDescriptorsStay) {
  EXPECT_EXIT(
      {
        OpenStandardDescriptors();
        std::fprintf(stderr, "still heard\n");
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "still heard");
}

TEST_F(ResourceLimitsDeathTest, ThreadsThatCanBeStartedAreEnough) {
  EXPECT_TRUE(CheckThreads(0).ok());
  EXPECT_TRUE(CheckThreads(20).ok());
  EXPECT_TRUE(CheckThreads(20).ok()) << "the first ones are gone";
}

TEST_F(ResourceLimitsDeathTest, BothNumbersOfThreadsAreSaid) {
  EXPECT_EXIT(
      {
        LimitAddressSpace(3 * StackBytes() + StackBytes() / 2);
        Say(CheckThreads(50));
      },
      ::testing::ExitedWithCode(2),
      "this process may have [0-9]+ threads and needs [0-9]+; raise the limit "
      "\\(ulimit -u, or pids.max of its control group\\) or start fewer "
      "processes");
}

TEST_F(ResourceLimitsDeathTest, BothSizesOfTheAddressSpaceAreSaid) {
  EXPECT_EXIT(
      {
        LimitAddressSpace(64 << 20);
        if (!CheckAddressSpace(16 << 20).ok()) _exit(3);
        Say(CheckAddressSpace(uint64_t{1} << 30));
      },
      ::testing::ExitedWithCode(2),
      "this process may have [0-9]+ KiB of address space and needs [0-9]+, and "
      "more for its model and data; raise the limit \\(ulimit -v [0-9]+, or a "
      "grid engine's h_vmem\\)");
}

TEST_F(ResourceLimitsDeathTest, WithoutALimitAllIsThere) {
  EXPECT_FALSE(IsAddressSpaceLimited());
  EXPECT_TRUE(CheckAddressSpace(uint64_t{1} << 62).ok());
}

TEST_F(ResourceLimitsDeathTest, AThreadThatCanNotBeStartedEndsWithASentence) {
  EXPECT_EXIT(
      {
        EndWithASentence(2, 1);
        std::thread([] {
          throw std::system_error(
              std::make_error_code(std::errc::resource_unavailable_try_again));
        }).join();
      },
      ::testing::ExitedWithCode(2), "paramd: no further thread can be started");
}

TEST_F(ResourceLimitsDeathTest, UsedUpMemoryEndsWithASentence) {
  EXPECT_EXIT(
      {
        EndWithASentence(2, 1);
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      ::testing::ExitedWithCode(1), "paramd: there is no memory left");
  EXPECT_EXIT(
      {
        LimitAddressSpace(1 << 30);
        EndWithASentence(2, 1);
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      ::testing::ExitedWithCode(2), "paramd: the address space is used up");
}

}  // namespace
}  // namespace paramd
