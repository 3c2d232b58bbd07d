#include "coordinator/coordinator_process.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coordinator/core/testing/started_coordinator.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// Does the work that the test asks for, and nothing else.
class FakeRuntime : public Runtime {
 public:
  void AddCore(PeerId, Core*) override {}
  void OnExpired(PeerId, std::function<void(CallId)>) override {}
  void HandleIo(const google::protobuf::Descriptor* type,
                IoHandler handler) override {
    handlers_[type] = std::move(handler);
  }
  void OnStatus(std::function<void(v1::StatusReply*)>) override {}
  v1::StatusReply Status() override { return v1::StatusReply(); }
  void Ask(PeerId, Head, absl::Duration, Answer) override {}
  void Post(std::function<void()>) override {}
  std::function<void()> Waker() override {
    return [] {};
  }
  absl::Status Run() override { return absl::OkStatus(); }
  void Drain(absl::Status, absl::Duration) override {}
  void Stop(absl::Status) override {}

  template <typename Request>
  absl::Status Do(const Request& request) {
    Outbox::IoItem item;
    item.head = std::make_unique<Request>(request);
    std::promise<absl::Status> done;
    handlers_.at(Request::descriptor())(
        std::move(item),
        [&done](IoResult result) { done.set_value(result.status); });
    return done.get_future().get();
  }

 private:
  std::map<const google::protobuf::Descriptor*, IoHandler> handlers_;
};

std::unique_ptr<CoordinatorProcess> NewProcess(const std::string& run,
                                               uint64_t incarnation) {
  CoordinatorProcess::Paths paths;
  paths.run_directory = run;
  ChiefLease::Options chief;
  chief.host = "host";
  chief.pid = static_cast<uint32_t>(getpid());
  chief.incarnation = incarnation;
  chief.is_elected = true;
  auto made = CoordinatorProcess::Create(testing::JobOptions(), paths, chief);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// A chief that was elected with a token.
struct Elected {
  Elected(const std::string& run, uint64_t token)
      : process(NewProcess(run, token)) {
    process->FenceBy(
        {token, [this] { return check; }, [this] { return confirm; }});
    process->AddTo(&runtime);
  }
  absl::Status Append(uint64_t number) {
    v1::AppendLog append;
    append.mutable_entry()->set_number(number);
    append.mutable_entry()->set_nonce(100 * number + process_id++);
    append.mutable_entry()->set_term(number);
    return runtime.Do(append);
  }
  absl::Status Read() { return runtime.Do(v1::ReadLog()); }

  static uint64_t process_id;
  absl::Status check;
  absl::Status confirm = absl::UnavailableError("etcd is away");
  FakeRuntime runtime;
  std::unique_ptr<CoordinatorProcess> process;
};
uint64_t Elected::process_id = 0;

std::string NewRun(const std::string& name) {
  const std::string run = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(run);
  return run;
}

TEST(ElectedCoordinatorTest, EachEntryHasTheToken) {
  const std::string run = NewRun("each_entry");
  Elected chief(run, 7);
  ASSERT_TRUE(chief.Append(1).ok());
  const auto entries =
      DirectoryLog(CoordinatorProcess::LogDirectory(run)).ReadAll();
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->front().election(), 7u);
}

// As where the disk is slow: a take-over needs an entry.
TEST(CoordinatorProcessTest, Promise4_AnEntryDoesNotWaitForOtherWork) {
  std::promise<void> begin, end;
  const std::shared_future<void> has_ended = end.get_future();
  FakeRuntime runtime;
  const auto process = NewProcess(NewRun("an_entry_does_not_wait"), 1);
  process->Surround(
      [&begin, &has_ended] {
        begin.set_value();
        has_ended.wait();
        return absl::OkStatus();
      },
      nullptr);
  process->AddTo(&runtime);
  std::future<absl::Status> read = std::async(
      std::launch::async, [&runtime] { return runtime.Do(v1::ReadLog()); });
  begin.get_future().wait();
  v1::AppendLog append;
  append.mutable_entry()->set_number(1);
  append.mutable_entry()->set_nonce(7);
  append.mutable_entry()->set_term(1);
  EXPECT_TRUE(runtime.Do(append).ok());
  end.set_value();
  EXPECT_TRUE(read.get().ok());
}

TEST(ElectedCoordinatorTest, OneThatWasFollowedDecidesNothingMore) {
  const std::string run = NewRun("followed");
  Elected first(run, 7);
  ASSERT_TRUE(first.Append(1).ok());
  Elected second(run, 9);
  ASSERT_TRUE(second.Read().ok());
  ASSERT_TRUE(second.Append(2).ok());
  // It may not know it yet.
  EXPECT_TRUE(absl::IsAborted(first.Append(2)));
  const absl::Status read = first.Read();
  EXPECT_TRUE(absl::IsAborted(read));
  EXPECT_THAT(std::string(read.message()),
              HasSubstr("entry 2 of the configuration log has its token, 9; "
                        "this one's is 7"));
  EXPECT_TRUE(second.Append(3).ok());
}

TEST(ElectedCoordinatorTest, AnEtcdThatBeginsAgainWithLowTokensIsAsked) {
  const std::string run = NewRun("low_tokens");
  Elected before(run, 7);
  ASSERT_TRUE(before.Append(1).ok());
  Elected now(run, 2);
  now.confirm = absl::OkStatus();
  EXPECT_TRUE(now.Read().ok());
  EXPECT_TRUE(now.Append(2).ok());
}

TEST(ElectedCoordinatorTest, OneWhoseLeaseHasEndedWritesNothing) {
  const std::string run = NewRun("lease_ended");
  Elected chief(run, 7);
  ASSERT_TRUE(chief.Append(1).ok());
  chief.check = absl::UnavailableError("its lease has ended");
  EXPECT_TRUE(absl::IsUnavailable(chief.Append(2)));
  EXPECT_TRUE(absl::IsUnavailable(chief.Read()));
  EXPECT_TRUE(absl::IsUnavailable(chief.runtime.Do(v1::CommitCheckpoint())));
  EXPECT_TRUE(absl::IsUnavailable(chief.runtime.Do(v1::DeleteCheckpoints())));
  EXPECT_TRUE(absl::IsUnavailable(chief.runtime.Do(v1::WriteResult())));
  EXPECT_FALSE(std::filesystem::exists(run + "/result.json"));
  EXPECT_EQ(
      DirectoryLog(CoordinatorProcess::LogDirectory(run)).ReadAll()->size(),
      1u);
}

// In a container each process has the same number.
TEST(CoordinatorProcessTest, WhatAKilledChiefOfTheSameNumberHasLeftGoes) {
  const std::string run = ::testing::TempDir() + "/killed_chief";
  std::filesystem::create_directories(run + "/checkpoints");
  for (const char* const directory : {"", "/checkpoints"}) {
    std::ofstream(absl::StrCat(run, directory, "/.probe-", getpid())) << "";
  }
  CoordinatorProcess::Paths paths;
  paths.run_directory = run;
  ChiefLease::Options chief;
  chief.host = "host";
  chief.pid = static_cast<uint32_t>(getpid());
  chief.incarnation = 1;
  const auto made =
      CoordinatorProcess::Create(testing::JobOptions(), paths, chief);
  EXPECT_TRUE(made.ok()) << made.status();
}

}  // namespace
}  // namespace paramd
