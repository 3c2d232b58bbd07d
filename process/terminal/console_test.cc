#include "process/terminal/console.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace paramd {
namespace {

// Both streams end in one text, so that their order shows.
class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleTest() : file_(open_memstream(&text_, &size_)) {}
  ~ConsoleTest() override {
    std::fclose(file_);
    std::free(text_);
  }

  std::string Text() {
    std::fflush(file_);
    return std::string(text_, size_);
  }

  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

TEST_F(ConsoleTest, WithoutATerminalEveryLineNamesItsProcess) {
  Console console(file_, file_, /*in_place=*/false);
  console.ProcessLine("ps-0", "2026-01-02T03:04:05.678 info ps-0 ready");
  console.ShowBlock("block\n");
  console.Say("worker-1 exited 138");
  console.Print("epoch 1/5\n");
  EXPECT_EQ(Text(),
            "[ps-0] 2026-01-02T03:04:05.678 info ps-0 ready\n"
            "paramd: worker-1 exited 138\n"
            "epoch 1/5\n");
}

TEST_F(ConsoleTest, ATerminalsBlockStaysAtTheBottom) {
  Console console(file_, file_, /*in_place=*/true);
  console.ShowBlock("a\nb\n");
  console.ShowBlock("c\nd\n");
  console.Print("text\n");
  EXPECT_EQ(Text(), "a\nb\n\x1b[2F\x1b[Jc\nd\n\x1b[2F\x1b[Jtext\nc\nd\n");
}

TEST_F(ConsoleTest, AKeptBlockIsNotReplaced) {
  Console console(file_, file_, /*in_place=*/true);
  console.ShowBlock("a\n");
  console.KeepBlock();
  console.Print("text\n");
  EXPECT_EQ(Text(), "a\ntext\n");
}

TEST_F(ConsoleTest, ATerminalShowsWarningsOnly) {
  Console console(file_, file_, /*in_place=*/true);
  console.ProcessLine("ps-0", "2026-01-02T03:04:05.678 info ps-0 ready");
  console.ProcessLine("ps-0", "2026-01-02T03:04:05.678 warning ps-0 slow");
  console.ProcessLine("ps-0", "paramd: the job file has no model");
  EXPECT_EQ(Text(),
            "[ps-0] 2026-01-02T03:04:05.678 warning ps-0 slow\n"
            "[ps-0] paramd: the job file has no model\n");
}

}  // namespace
}  // namespace paramd
