#include "process/terminal/byte_progress.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ByteProgressTest : public ::testing::Test {
 protected:
  ~ByteProgressTest() override { std::fclose(out_); }

  std::string Printed() {
    std::string text(std::ftell(out_), '\0');
    std::rewind(out_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out_), text.size());
    return text;
  }
  void Pass(absl::Duration time) { now_ = now_ + time; }

  std::FILE* const out_ = std::tmpfile();
  Time now_ = Time::FromNanoseconds(7);
};

TEST_F(ByteProgressTest, OneLineIsRefreshedAtMostTenTimesASecond) {
  Console console(out_, out_, /*in_place=*/true);
  ByteProgress progress(&console, [this] { return now_; });
  progress.Begin("verifying x");
  progress.Update(0, 4000);
  Pass(absl::Milliseconds(99));
  progress.Update(1000, 4000);
  Pass(absl::Milliseconds(901));
  progress.Update(3000, 4000);
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("verifying x: 0 % of 4.0 kB\n"));
  EXPECT_THAT(text, Not(HasSubstr("25 %")));
  EXPECT_THAT(text, HasSubstr("\x1b[1F\x1b[Jverifying x: 75 % of 4.0 kB, 3.0 "
                              "kB/s\n"));
}

TEST_F(ByteProgressTest, TheLineIsGoneInTheEnd) {
  Console console(out_, out_, /*in_place=*/true);
  {
    ByteProgress progress(&console, [this] { return now_; });
    progress.Begin("exporting");
    progress.Update(0, 0);
  }
  EXPECT_THAT(Printed(), EndsWith("exporting: 100 % of 0 B\n\x1b[1F\x1b[J"));
}

TEST_F(ByteProgressTest, ElsewhereThanOnATerminalNothingIsSaid) {
  Console console(out_, out_, /*in_place=*/false);
  {
    ByteProgress progress(&console, [this] { return now_; });
    progress.Begin("exporting");
    progress.Update(1, 2);
  }
  EXPECT_THAT(Printed(), IsEmpty());
}

}  // namespace
}  // namespace paramd
