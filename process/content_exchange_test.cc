#include "process/content_exchange.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "checkpoint/file.h"
#include "checkpoint/testing/sample.h"
#include "checkpoint/verify.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

// A running job without a checkpoint. What its coordinator is asked stays open
// until the test answers it.
class FakeRuntime : public Runtime {
 public:
  void AddCore(PeerId, Core*) override {}
  void OnExpired(PeerId, std::function<void(CallId)>) override {}
  void HandleIo(const google::protobuf::Descriptor*, IoHandler) override {}
  void OnStatus(std::function<void(v1::StatusReply*)>) override {}
  v1::StatusReply Status() override { return {}; }
  void Ask(PeerId, Head, absl::Duration, Answer done) override {
    asked.push_back(std::move(done));
  }
  void Post(std::function<void()>) override {}
  std::function<void()> Waker() override {
    return [] {};
  }
  absl::Status Run() override { return absl::OkStatus(); }
  void Drain(absl::Status, absl::Duration) override {}
  void Stop(absl::Status) override {}

  std::vector<Answer> asked;
};

TEST(ContentSourceTest, ACheckpointThatFailedIsTriedAgainAfterAPause) {
  Time now;
  FakeRuntime runtime;
  ContentSource source(v1::JobConfig(), [&] { return now; });
  source.SetRuntime(&runtime);
  v1::ReadStateRequest request;
  request.set_round(3);
  const auto read = [&] {
    const auto answer = source.Read(request, /*standing_in=*/3);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(
        static_cast<const v1::ReadStateReply&>(*answer->head).not_yet());
  };
  read();
  read();
  ASSERT_EQ(runtime.asked.size(), 1u) << "one at a time";
  runtime.asked[0](absl::UnavailableError("no space"), nullptr);
  read();
  EXPECT_EQ(runtime.asked.size(), 1u);
  now = now + ContentSource::kPause;
  read();
  EXPECT_EQ(runtime.asked.size(), 2u);
}

// Whoever answers, it writes nothing but files of the log and the checkpoint.
TEST(TakeContentTest, AFileOfAnotherDirectoryIsRefusedAndNothingIsWritten) {
  const std::string root = absl::StrCat(::testing::TempDir(), "/taken");
  fs::create_directories(root + "/run");
  v1::JobConfig job;
  job.set_run_dir(root + "/run");
  for (const std::string& name :
       {std::string("configuration/../../evil"),
        std::string("checkpoint/../../../evil"),
        std::string("configuration//tmp/evil"), std::string("configuration/"),
        std::string("configuration/.evil"), std::string("evil"),
        std::string("configuration/a\0b", 17)}) {
    bool is_fetched = false;
    const auto source = [&](const v1::ReadStateRequest& request)
        -> absl::StatusOr<WireMessage> {
      WireMessage message;
      auto reply = MakeHead<v1::ReadStateReply>();
      if (request.file().empty()) {
        v1::ReadStateReply::File* const file = reply->add_files();
        file->set_name(name);
        file->set_bytes(3);
      } else {
        is_fetched = true;
        message.payload.push_back(Buffer::Copy(std::string("bad")));
      }
      message.head = std::move(reply);
      return message;
    };
    const absl::Status taken =
        TakeContent(job, /*nonce=*/1, /*round=*/1, source, [] { return true; });
    EXPECT_EQ(taken.code(), absl::StatusCode::kDataLoss) << taken;
    EXPECT_THAT(std::string(taken.message()),
                HasSubstr("another worker names"));
    EXPECT_FALSE(is_fetched) << name;
  }
  EXPECT_TRUE(fs::is_empty(root + "/run"));
  fs::remove_all(root);
}

// Answers with the files of one checkpoint.
AskSource AnswersFrom(const std::string& checkpoint) {
  return
      [=](const v1::ReadStateRequest& request) -> absl::StatusOr<WireMessage> {
        WireMessage message;
        auto reply = MakeHead<v1::ReadStateReply>();
        if (request.file().empty()) {
          for (const auto& entry : fs::directory_iterator(checkpoint)) {
            v1::ReadStateReply::File* const file = reply->add_files();
            file->set_name("checkpoint/" + entry.path().filename().string());
            file->set_bytes(entry.file_size());
          }
        } else {
          const std::string name = request.file().substr(sizeof("checkpoint"));
          message.payload.push_back(
              Buffer::Copy(*ReadWholeFile(checkpoint + "/" + name, 1'000'000)));
        }
        message.head = std::move(reply);
        return message;
      };
}

TEST(TakeContentTest, ABitThatIsFlippedInAnyFileIsFoundAndNothingIsCommitted) {
  const std::string root = absl::StrCat(::testing::TempDir(), "/flipped");
  fs::remove_all(root);
  const std::vector<v1::Variable> variables = {
      testing::SampleVariable("w", {6, 2})};
  const std::string path =
      *testing::CommitSample(root + "/theirs", variables, {}, 1, 1, 10, 2, 24);
  v1::JobConfig job;
  job.set_run_dir(root + "/run");
  const auto take = [&] {
    fs::create_directories(root + "/run");
    return TakeContent(job, /*nonce=*/1, /*round=*/1, AnswersFrom(path),
                       [] { return true; });
  };
  const std::vector<std::string> names = *ListDirectory(path);
  for (const std::string& name : names) {
    if (name == kTensorIndexFile) continue;  // Made again.
    const std::string before = *ReadWholeFile(path + "/" + name, 1'000'000);
    for (size_t at = 0; at < before.size(); at += before.size() / 5 + 1) {
      std::string flipped = before;
      flipped[at] ^= static_cast<char>(1 << at % 8);
      std::ofstream(path + "/" + name, std::ios::binary) << flipped;
      const absl::Status taken = take();
      EXPECT_EQ(taken.code(), absl::StatusCode::kDataLoss)
          << name << " byte " << at << ": " << taken;
      const auto committed = ListCheckpointNames(root + "/run/checkpoints");
      EXPECT_TRUE(!committed.ok() || committed->empty());
      fs::remove_all(root + "/run");
    }
    std::ofstream(path + "/" + name, std::ios::binary) << before;
  }
  EXPECT_TRUE(take().ok()) << take();
  fs::remove_all(root);
}

}  // namespace
}  // namespace paramd
