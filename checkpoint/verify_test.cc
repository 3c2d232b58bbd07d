#include "checkpoint/verify.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/testing/sample.h"

namespace paramd {
namespace {

using testing::CommitIncrement;
using testing::CommitSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleVariable;
using ::testing::SizeIs;

// A checkpoint by two servers, and one after it in which one slice of two has
// changed.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest()
      : run_(absl::StrCat(
            ::testing::TempDir(), "/",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
    full_ =
        *CommitSample(run_ + "/checkpoints",
                      {SampleVariable("w", {4, 2}), SampleVariable("s", {})},
                      {"momentum"}, 1, 1, 10, 2, 16);
    increment_ =
        *CommitIncrement(full_, [](const v1::SavedSlice& slice, uint64_t) {
          return slice.variable() == "w" && slice.row_begin() == 0;
        });
  }

  static std::vector<std::string> Faults(const std::string& path) {
    std::vector<std::string> sentences;
    for (const absl::Status& fault : CheckpointVerifier().Faults(path)) {
      sentences.emplace_back(fault.message());
    }
    return sentences;
  }

  // Calls `then` with each byte of the file changed in one bit, in turn.
  template <typename Then>
  static void WithEachByteFlipped(const std::string& path, const Then& then) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const uint64_t bytes = std::filesystem::file_size(path);
    const auto put = [&](uint64_t at, char byte) {
      file.seekp(at);
      file.put(byte);
      file.flush();
    };
    for (uint64_t at = 0; at < bytes; ++at) {
      file.seekg(at);
      const char byte = file.get();
      put(at, byte ^ (1 << at % 8));
      then(at);
      put(at, byte);
    }
  }

  const std::string run_;
  std::string full_;
  std::string increment_;
};

TEST_F(VerifyTest, NothingIsWrongWithWhatWasCommitted) {
  EXPECT_THAT(Faults(full_), IsEmpty());
  EXPECT_THAT(Faults(increment_), IsEmpty());
  EXPECT_TRUE(VerifyCheckpoint(increment_).ok());
  EXPECT_THAT(*CheckpointsAt(run_), ElementsAre(increment_, full_));
}

TEST_F(VerifyTest, ABitFlippedInAnyByteOfAServersFileOrItsBaseIsFound) {
  for (const std::string& path : {full_, increment_}) {
    const v1::Manifest manifest = *ReadManifest(path);
    for (const v1::ShardFile& file : manifest.files()) {
      const auto expect_found = [&](const std::string& flipped,
                                    const char* sentence) {
        WithEachByteFlipped(flipped, [&](uint64_t at) {
          const absl::Status status = VerifyFiles(path, manifest);
          EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss)
              << flipped << " byte " << at;
          EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
        });
      };
      expect_found(absl::StrCat(path, "/", file.name()), "has the crc32c");
      if (file.has_base()) {
        expect_found(absl::StrCat(full_, "/", file.base().name()),
                     "the base of 'ps-0000");
      }
    }
    EXPECT_THAT(Faults(path), IsEmpty());
  }
}

TEST_F(VerifyTest, ABitFlippedInAnyByteOfAnyOtherFileIsFound) {
  for (const std::string& path : {full_, increment_}) {
    int files = 0;
    const std::vector<std::string> names = *ListDirectory(path);
    for (const std::string& name : names) {
      if (absl::EndsWith(name, ".safetensors")) continue;
      ++files;
      WithEachByteFlipped(absl::StrCat(path, "/", name), [&](uint64_t at) {
        EXPECT_THAT(Faults(path), SizeIs(1)) << name << " byte " << at;
      });
    }
    EXPECT_EQ(files, path == full_ ? 3 : 2);
    EXPECT_THAT(Faults(path), IsEmpty());
  }
}

TEST_F(VerifyTest, ABaseThatIsGoneOrCutIsNamed) {
  const std::string base = full_ + "/ps-00002-of-00002.safetensors";
  std::filesystem::resize_file(base, 100);
  EXPECT_THAT(
      Faults(increment_),
      ElementsAre(HasSubstr(absl::StrCat("'", base, "' has 100 bytes"))));
  std::filesystem::remove_all(full_);
  EXPECT_THAT(
      Faults(increment_),
      ElementsAre(HasSubstr("ps-00001-of-00002.safetensors': no such"),
                  HasSubstr("ps-00002-of-00002.safetensors': no such")));
  EXPECT_FALSE(VerifyCheckpoint(increment_).ok());
}

TEST_F(VerifyTest, EveryFaultIsSaid) {
  std::filesystem::resize_file(full_ + "/ps-00001-of-00002.safetensors", 30);
  std::filesystem::remove(full_ + "/ps-00002-of-00002.safetensors");
  EXPECT_THAT(
      Faults(full_),
      ElementsAre(HasSubstr("ps-00001-of-00002.safetensors' has 30"),
                  HasSubstr("ps-00002-of-00002.safetensors': no such")));
  std::filesystem::remove(full_ + "/manifest.crc32c");
  EXPECT_THAT(Faults(full_), ElementsAre(HasSubstr("manifest.crc32c")));
}

TEST_F(VerifyTest, AnIndexThatIsGoneIsAFaultButNotOneForRestoring) {
  std::filesystem::remove(full_ + "/model.safetensors.index.json");
  EXPECT_THAT(Faults(full_),
              ElementsAre(HasSubstr("model.safetensors.index.json")));
  EXPECT_TRUE(VerifyCheckpoint(full_).ok());
  EXPECT_FALSE(
      std::filesystem::exists(increment_ + "/model.safetensors.index.json"));
}

TEST_F(VerifyTest, ABaseIsReadOnceForAllThatHaveIt) {
  uint64_t told = 0, total = 0;
  CheckpointVerifier::Options options;
  options.progress = [&](uint64_t bytes, uint64_t all) {
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, all);
    ++told;
    total = all;
  };
  CheckpointVerifier verifier(options);
  EXPECT_THAT(verifier.Faults(full_), IsEmpty());
  EXPECT_EQ(told, 2u);
  EXPECT_EQ(total, CheckpointBytes(*ReadManifest(full_)));
  EXPECT_THAT(verifier.Faults(increment_), IsEmpty());
  EXPECT_EQ(told, 4u);
  EXPECT_EQ(total, CheckpointBytes(*ReadManifest(full_)) +
                       CheckpointBytes(*ReadManifest(increment_)));
}

TEST_F(VerifyTest, BeforeACommitTheBasesSumsMayBeTakenOnTrust) {
  const std::string base = full_ + "/ps-00002-of-00002.safetensors";
  std::fstream file(base, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  CheckpointVerifier::Options options;
  options.sums = CheckpointVerifier::Options::Sums::kOwn;
  EXPECT_TRUE(VerifyCheckpoint(increment_, options).ok());
  EXPECT_FALSE(VerifyCheckpoint(increment_).ok());
}

TEST(ModelKeyTest, IsOfWhatIsInTheCheckpoint) {
  v1::Manifest one;
  one.set_run_id("a");
  one.set_global_step(7);
  v1::Manifest other = one;
  (*other.mutable_metrics())["loss"] = 0.5;
  other.set_created("later");
  EXPECT_EQ(ModelKey(one), ModelKey(other));
  other.add_files()->set_name("shard");
  EXPECT_NE(ModelKey(one), ModelKey(other));
}

}  // namespace
}  // namespace paramd
