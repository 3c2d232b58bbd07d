#include "cli/process/content_exchange.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "net/testing/grpc_runtime_test_base.h"

namespace paramd {
namespace {

using testing::ProcessOptions;
using testing::RunningProcess;

// A process that says that it has one file, of some bytes.
class Source {
 public:
  explicit Source(std::string file) {
    GrpcRuntimeOptions options = ProcessOptions(v1::WORKER, 0, address_);
    options.process_calls =
        [file = std::move(file)](const google::protobuf::Message& request)
        -> absl::StatusOr<ProcessAnswer> {
      ProcessAnswer answer;
      auto reply = std::make_unique<v1::ReadStateReply>();
      if (static_cast<const v1::ReadStateRequest&>(request).file().empty()) {
        reply->add_files()->set_name(file);
        reply->mutable_files(0)->set_bytes(4);
      } else {
        answer.payload = {Buffer::Copy("evil")};
      }
      answer.head = std::move(reply);
      return answer;
    };
    auto runtime = MakeGrpcRuntime(std::move(options));
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    process_ = std::make_unique<RunningProcess>(*std::move(runtime));
    process_->runtime().AddCore(PeerId::Worker(0), &core_);
    process_->Start();
  }

  BlockingCaller* caller() { return &caller_; }

 private:
  const std::string address_ = absl::StrCat(DrawLoopbackHost(), ":2222");
  ToyCore core_;
  std::unique_ptr<RunningProcess> process_;
  BlockingCaller caller_{PeerId::Worker(1), address_};
};

TEST(TakeContentTest, WhatAnotherProcessNamesIsANameAndNotAPlace) {
  v1::JobConfig job;
  job.set_run_dir(absl::StrCat(::testing::TempDir(), "/run"));
  for (const char* const file :
       {"configuration/../../stolen", "checkpoint/../../stolen",
        "checkpoint/", "configuration/.hidden", "../stolen", "stolen",
        "checkpoint/a/b"}) {
    std::filesystem::create_directories(job.run_dir());
    Source source(file);
    const absl::Status taken = TakeContent(job, /*nonce=*/1, /*round=*/1,
                                           source.caller(), [] { return true; });
    EXPECT_TRUE(absl::IsDataLoss(taken)) << file << ": " << taken;
    EXPECT_TRUE(std::filesystem::is_empty(job.run_dir())) << file;
  }
  EXPECT_FALSE(std::filesystem::exists(::testing::TempDir() + "/stolen"));
}

}  // namespace
}  // namespace paramd
