#include "process/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

#include "config/setting.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() : flags_("local", "--job FILE [flags]", "Runs a cluster.") {
    flags_.AddText("job", "FILE", "the job file", &job_);
    flags_.AddCount("servers", "how many servers", {1, 8}, &servers_);
    flags_.AddSwitch("resume", "go on", &resume_);
    flags_.AddJobSettings(&settings_);
  }

  std::string Mistake(std::vector<std::string> words) {
    const absl::Status status = flags_.Parse(words);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::string job_;
  int servers_ = 2;
  bool resume_ = false;
  std::vector<Flags::Setting> settings_;
  Flags flags_;
};

TEST_F(FlagsTest, BothSpellingsOfAValueMeanTheSame) {
  ASSERT_TRUE(
      flags_.Parse(std::vector<std::string>{"--job", "a", "--servers=3"}).ok());
  EXPECT_EQ(job_, "a");
  EXPECT_EQ(servers_, 3);
  ASSERT_TRUE(
      flags_.Parse(std::vector<std::string>{"--job=b", "--servers", "4"}).ok());
  EXPECT_EQ(job_, "b");
  EXPECT_EQ(servers_, 4);
}

TEST_F(FlagsTest, AFlagThatHasNoEffectIsRefused) {
  flags_.OnlyWith("servers", "--job FILE", [&] { return !job_.empty(); });
  EXPECT_EQ(Mistake({"--servers=2"}), "--servers belongs to --job FILE");
  // Whichever comes first.
  EXPECT_TRUE(
      flags_.Parse(std::vector<std::string>{"--servers=2", "--job=a"}).ok());
  Flags others("local", "", "");
  others.AddCount("servers", "how many servers", {1, 8}, &servers_);
  others.OnlyWith("servers", "--job FILE", [] { return false; });
  EXPECT_TRUE(others.Parse(std::vector<std::string>()).ok());
  EXPECT_TRUE(
      others.Parse(std::vector<std::string>{"--servers=3", "--help"}).ok());
}

TEST_F(FlagsTest, ASwitchTakesNoWordAfterIt) {
  ASSERT_TRUE(
      flags_.Parse(std::vector<std::string>{"--resume", "--job", "a"}).ok());
  EXPECT_TRUE(resume_);
  EXPECT_EQ(job_, "a");
  ASSERT_TRUE(flags_.Parse(std::vector<std::string>{"--resume=false"}).ok());
  EXPECT_FALSE(resume_);
  EXPECT_THAT(Mistake({"--resume=maybe"}), HasSubstr("true or false"));
}

TEST_F(FlagsTest, AnUnknownFlagIsRefusedNamingTheNearest) {
  EXPECT_EQ(Mistake({"--sevrers=3"}),
            "unknown flag --sevrers; did you mean --servers?");
  EXPECT_EQ(Mistake({"--epoch", "3"}),
            "unknown flag --epoch; did you mean --epochs?");
  EXPECT_EQ(Mistake({"--qqqqqq"}),
            "unknown flag --qqqqqq; 'paramd local --help' lists all");
  EXPECT_THAT(Mistake({"-x"}), HasSubstr("flags begin with --"));
}

TEST_F(FlagsTest, ASettingInsideOthersIsNamedWithItsPath) {
  EXPECT_EQ(Mistake({"--learning_rate", "0.1"}),
            "unknown flag --learning_rate; did you mean "
            "--set optimizer.learning_rate=VALUE?");
}

TEST_F(FlagsTest, TheExampleOfASettingIsOne) {
  const std::string help = flags_.Help();
  const size_t begin = help.find(": --set ") + 8;
  const std::string path = help.substr(begin, help.find('=', begin) - begin);
  EXPECT_THAT(SettingPaths(*v1::JobConfig::descriptor()),
              ::testing::Contains(path));
}

TEST_F(FlagsTest, EverySettingOfTheJobFileCanBeGiven) {
  ASSERT_TRUE(flags_
                  .Parse(std::vector<std::string>{
                      "--epochs", "3", "--set", "optimizer.learning_rate=0.01",
                      "--set=seed=7", "--run_dir=a=b"})
                  .ok());
  EXPECT_THAT(
      settings_,
      ElementsAre(Pair("epochs", "3"), Pair("optimizer.learning_rate", "0.01"),
                  Pair("seed", "7"), Pair("run_dir", "a=b")));
}

TEST_F(FlagsTest, ASettingThatIsTrueOrFalseIsASwitch) {
  ASSERT_TRUE(
      flags_
          .Parse(std::vector<std::string>{"--linger_when_finished", "--job",
                                          "a", "--linger_when_finished=false"})
          .ok());
  EXPECT_THAT(settings_, ElementsAre(Pair("linger_when_finished", "true"),
                                     Pair("linger_when_finished", "false")));
  EXPECT_THAT(flags_.Help(), HasSubstr("  --linger_when_finished     Stay"));
}

TEST_F(FlagsTest, AValueThatDoesNotFitIsRefused) {
  EXPECT_THAT(Mistake({"--servers=0"}),
              HasSubstr("a whole number from 1 to 8, not '0'"));
  EXPECT_THAT(Mistake({"--servers=two"}), HasSubstr("not 'two'"));
  EXPECT_THAT(Mistake({"--set", "seed"}), HasSubstr("takes KEY=VALUE"));
  EXPECT_THAT(Mistake({"--job"}), HasSubstr("--job needs a value: FILE"));
}

TEST_F(FlagsTest, AValueThatMayBeLeftOutIsANumberOrNone) {
  int seconds = 0;
  const auto parse = [&](std::vector<std::string> words) {
    seconds = 0;
    Flags flags("status", "ADDRESS", "Shows a cluster.");
    flags.AddCountOrNone("watch", "[SECONDS]", "again and again", {1, 60}, 2,
                         &seconds);
    flags.AllowArguments(0, 1, "ADDRESS");
    const absl::Status status = flags.Parse(words);
    EXPECT_THAT(flags.Help(), HasSubstr("  --watch [SECONDS]          again"));
    return status.ok() ? absl::StrJoin(flags.arguments(), " ")
                       : std::string(status.message());
  };
  EXPECT_EQ(parse({"--watch", "10.0.0.7:2222"}), "10.0.0.7:2222");
  EXPECT_EQ(seconds, 2);
  EXPECT_EQ(parse({"--watch", "5", "10.0.0.7:2222"}), "10.0.0.7:2222");
  EXPECT_EQ(seconds, 5);
  EXPECT_EQ(parse({"10.0.0.7:2222", "--watch=7"}), "10.0.0.7:2222");
  EXPECT_EQ(seconds, 7);
  EXPECT_EQ(parse({"10.0.0.7:2222", "--watch"}), "10.0.0.7:2222");
  EXPECT_EQ(seconds, 2);
  EXPECT_EQ(parse({"10.0.0.7:2222"}), "10.0.0.7:2222");
  EXPECT_EQ(seconds, 0);
  EXPECT_THAT(parse({"--watch=0"}), HasSubstr("from 1 to 60, not '0'"));
  EXPECT_THAT(parse({"--watch", "61"}), HasSubstr("from 1 to 60, not '61'"));
}

TEST_F(FlagsTest, ArgumentsAreTakenOnlyWhereTheyAreAllowed) {
  EXPECT_THAT(Mistake({"stray"}), HasSubstr("'stray' is one argument too"));
  Flags flags("checkpoint inspect", "PATH", "Shows a checkpoint.");
  flags.AllowArguments(1, 1, "PATH");
  EXPECT_THAT(flags.Parse({}).message(), HasSubstr("missing PATH"));
  ASSERT_TRUE(flags.Parse(std::vector<std::string>{"--", "--odd"}).ok());
  EXPECT_THAT(flags.arguments(), ElementsAre("--odd"));
}

TEST_F(FlagsTest, AJobFileWithoutItsFlagIsKnown) {
  EXPECT_EQ(Mistake({"a.json"}),
            "'a.json' is one argument too many; did you mean --job a.json?");
}

TEST_F(FlagsTest, HelpNamesEveryFlagAndItsDefault) {
  ASSERT_TRUE(
      flags_.Parse(std::vector<std::string>{"--help", "--unknown"}).ok());
  EXPECT_TRUE(flags_.help_wanted());
  EXPECT_THAT(flags_.Help(), HasSubstr("usage: paramd local --job FILE"));
  EXPECT_THAT(flags_.Help(), HasSubstr("how many servers [2]"));
  EXPECT_THAT(flags_.Help(), HasSubstr("--epochs VALUE"));
}

}  // namespace
}  // namespace paramd
