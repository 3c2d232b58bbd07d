#include "server/parameter_server.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "net/in_process_runtime.h"
#include "proto/refusal.h"
#include "server/core/testing/configurations.h"

namespace paramd {
namespace {

using testing::MakeAdamConfiguration;
using testing::Numbers;
using testing::Pair;
using testing::Payload;
using testing::Uniform;
using testing::Zeros;

// A coordinator that makes one call after the other, each again until it is
// answered other than "not yet", and leaves after the last. Not thread-safe.
class Script : public Core {
 public:
  struct Call {
    std::function<Outbox::Head()> make;
    BufferChain payload;
    std::function<void(const Message&)> answered;
  };

  void Add(Outbox::Head head, BufferChain payload,
           std::function<void(const Message&)> answered) {
    std::shared_ptr<google::protobuf::Message> shared = std::move(head);
    calls_.push_back({[shared] {
                        Outbox::Head copy(shared->New());
                        copy->CopyFrom(*shared);
                        return copy;
                      },
                      std::move(payload), std::move(answered)});
  }

  void Start(Time, Outbox* out) override { Next(out); }
  void Receive(Message message, Time, Outbox* out) override {
    const auto reason = RefusalOf(message.status).reason();
    if (reason != v1::Refusal::NOT_READY && reason != v1::Refusal::WAIT) {
      calls_[next_++].answered(message);
    }
    Next(out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox*) override {}
  Time next_tick() const override { return Time::Never(); }

 private:
  void Next(Outbox* out) {
    if (next_ == calls_.size()) return out->Exit(absl::OkStatus());
    out->Send(PeerId::Ps(0), ++call_, calls_[next_].make(),
              calls_[next_].payload, absl::Seconds(60));
  }

  std::vector<Call> calls_;
  size_t next_ = 0;
  CallId call_ = 0;
};

void ExpectOk(const Message& message) {
  EXPECT_TRUE(message.status.ok()) << message.status;
}

v1::Header Snapshot() {
  v1::Header header;
  header.set_term(1);
  *header.mutable_snapshot() = Pair(1, 1);
  return header;
}

// Fills a server as the configuration says, does `steps` and ends the job.
void RunServer(const v1::Configuration& configuration,
               const std::function<void(Script*)>& steps,
               const std::string& checkpoint_directory) {
  auto runtime = MakeInProcessRuntime();
  Shard::Options options;
  options.incarnation = 100;
  options.life_seed = 1;
  ParameterServer server({options}, {checkpoint_directory, ""}, runtime.get());
  Script script;
  runtime->AddCore(PeerId::Coordinator(), &script);

  auto configure = std::make_unique<v1::ConfigureRequest>();
  *configure->mutable_configuration() = configuration;
  script.Add(std::move(configure), {}, ExpectOk);
  steps(&script);
  auto finish = std::make_unique<v1::FinishRequest>();
  finish->mutable_header()->set_term(1);
  finish->set_everybody_knows(true);
  script.Add(std::move(finish), {}, [&](const Message& message) {
    ExpectOk(message);
    EXPECT_EQ(runtime->Status().server().bytes(),
              3 * 4 * (1280 * 1024 + 1100000 + 1));
  });
  EXPECT_TRUE(runtime->Run().ok());
}

void AddPull(uint32_t slice, uint32_t blocks, std::vector<float>* numbers,
             Script* script) {
  auto pull = std::make_unique<v1::PullRequest>();
  pull->set_encoding(v1::FP32);
  for (uint32_t b = 0; b < blocks; ++b) {
    pull->add_blocks()->set_slice(slice);
    pull->mutable_blocks(b)->set_block(b);
  }
  script->Add(std::move(pull), {}, [numbers](const Message& message) {
    ExpectOk(message);
    *numbers = Numbers(message.payload);
  });
}

// 5 MiB in two slices, one row above 4 MiB (in five blocks), a scalar.
TEST(ParameterServerTest, Promise3_WhatIsSavedIsRestoredByAnother) {
  const std::string root = ::testing::TempDir() + "/parameter_server_test";
  CheckpointDirectory directory(root, /*nonce=*/7);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 1);
  const auto prepared = directory.Prepare(prepare);
  ASSERT_TRUE(prepared.ok()) << prepared.status();

  v1::Configuration configuration =
      MakeAdamConfiguration({Uniform("w", {1280, 1024}),
                             Uniform("row", {1, 1100000}), Zeros("s", {})});
  v1::ShardFile file;
  std::vector<float> saved[3];
  RunServer(
      configuration,
      [&](Script* script) {
        auto push = std::make_unique<v1::PushRequest>();
        push->mutable_header()->set_worker(1);
        *push->mutable_header()->mutable_generation() = Pair(1, 11);
        push->mutable_header()->set_sequence(1);
        push->set_encoding(v1::FP32);
        push->add_blocks()->set_slice(1);
        push->mutable_blocks(0)->set_elements(262144);
        script->Add(std::move(push), Payload(std::vector<float>(262144, 1)),
                    ExpectOk);
        AddPull(1, 1, &saved[0], script);
        AddPull(2, 4, &saved[1], script);
        AddPull(3, 1, &saved[2], script);
        auto seal = std::make_unique<v1::SealRequest>();
        *seal->mutable_header() = Snapshot();
        seal->set_directory(prepared->directory());
        seal->set_nonce(prepared->nonce());
        seal->set_file_name("ps-00001-of-00001.safetensors");
        *seal->add_server_generations() = Pair(1, 1);
        script->Add(std::move(seal), {}, ExpectOk);
        auto written = std::make_unique<v1::WrittenRequest>();
        *written->mutable_header() = Snapshot();
        script->Add(std::move(written), {}, [&](const Message& message) {
          ASSERT_TRUE(message.status.ok()) << message.status;
          file = static_cast<const v1::WrittenReply&>(*message.head).file();
        });
      },
      root);

  v1::CommitCheckpoint commit;
  commit.set_directory(prepared->directory());
  v1::Manifest& manifest = *commit.mutable_manifest();
  manifest.set_min_reader(1);
  manifest.set_run_id("run");
  *manifest.mutable_snapshot() = Pair(1, 1);
  *manifest.mutable_variables() = configuration.layout().variables();
  *manifest.add_files() = file;
  manifest.add_slots("momentum");
  manifest.add_slots("variance");
  const auto committed = directory.Commit(commit);
  ASSERT_TRUE(committed.ok()) << committed.status();

  configuration.mutable_servers(0)->set_restore_directory(committed->path());
  std::vector<float> restored[3];
  RunServer(
      configuration,
      [&](Script* script) {
        AddPull(1, 1, &restored[0], script);
        AddPull(2, 4, &restored[1], script);
        AddPull(3, 1, &restored[2], script);
      },
      root);
  ASSERT_EQ(saved[0].size(), 262144u);
  ASSERT_EQ(saved[1].size(), 4u * 262144);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(saved[i], restored[i]) << i;
}

// Seals snapshot 1.1 into `directory`, with this nonce. Null: it is no name of
// one, and refused.
void AddSeal(const std::string& directory, uint64_t nonce,
             std::function<void(const v1::WrittenReply&)> use, Script* script) {
  auto seal = std::make_unique<v1::SealRequest>();
  *seal->mutable_header() = Snapshot();
  seal->set_directory(directory);
  seal->set_nonce(nonce);
  seal->set_file_name("ps-00001-of-00001.safetensors");
  *seal->add_server_generations() = Pair(1, 1);
  script->Add(std::move(seal), {}, ExpectOk);
  auto written = std::make_unique<v1::WrittenRequest>();
  *written->mutable_header() = Snapshot();
  script->Add(std::move(written), {}, [use, directory](const Message& message) {
    if (use == nullptr) {
      EXPECT_EQ(message.status.message(),
                "ps-0 could not write snapshot 1.1: '" + directory +
                    "' does not have the name of a directory that a snapshot "
                    "is written into");
      return;
    }
    ASSERT_TRUE(message.status.ok()) << message.status;
    use(static_cast<const v1::WrittenReply&>(*message.head));
  });
}

TEST(ParameterServerTest, Promise3_WhatIsNotSeenHereIsHandedOverByteForByte) {
  const std::string root = ::testing::TempDir() + "/unseen/here";
  CheckpointDirectory directory(root, /*nonce=*/7);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 1);
  const auto prepared = directory.Prepare(prepare);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const v1::Configuration configuration =
      MakeAdamConfiguration({Uniform("w", {1280, 1024}),
                             Uniform("row", {1, 1100000}), Zeros("s", {})});
  // The directory by the server's own name for its parent.
  RunServer(
      configuration,
      [&](Script* script) {
        AddSeal(
            "/elsewhere/" + prepared->directory().substr(
                                prepared->directory().rfind('/') + 1),
            prepared->nonce(),
            [](const v1::WrittenReply& reply) {
              EXPECT_FALSE(reply.unseen());
              EXPECT_GT(reply.file().bytes(), 28000000u);
            },
            script);
      },
      root);
  const auto file =
      ReadWholeFile(prepared->directory() + "/ps-00001-of-00001.safetensors",
                    uint64_t{1} << 30);
  ASSERT_TRUE(file.ok()) << file.status();

  std::string fetched;
  RunServer(
      configuration,
      [&](Script* script) {
        AddSeal(
            prepared->directory(), prepared->nonce() + 1,
            [](const v1::WrittenReply& reply) {
              EXPECT_TRUE(reply.unseen());
              EXPECT_EQ(reply.file().slices_size(), 4);
            },
            script);
        // As many windows as it takes, and one at the end.
        for (uint64_t offset = 0; offset < file->size() + 1;
             offset += 3000000) {
          auto fetch = std::make_unique<v1::FetchShardRequest>();
          *fetch->mutable_header() = Snapshot();
          fetch->set_offset(offset);
          fetch->set_limit(3000000);
          script->Add(std::move(fetch), {}, [&](const Message& message) {
            ASSERT_TRUE(message.status.ok()) << message.status;
            fetched += FlattenForTest(message.payload);
          });
        }
      },
      root);
  EXPECT_TRUE(fetched == *file) << fetched.size() << " of " << file->size();
}

TEST(ParameterServerTest, NothingIsWrittenOutsideOfTheOwnDirectory) {
  const std::string home = ::testing::TempDir() + "/outside";
  CheckpointDirectory others(home + "/others", /*nonce=*/7);
  v1::PrepareCheckpoint prepare;
  *prepare.mutable_snapshot() = Pair(1, 1);
  const auto prepared = others.Prepare(prepare);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const v1::Configuration configuration =
      MakeAdamConfiguration({Uniform("w", {1280, 1024}),
                             Uniform("row", {1, 1100000}), Zeros("s", {})});
  for (const std::string& root : {home + "/own", std::string()}) {
    RunServer(
        configuration,
        [&](Script* script) {
          AddSeal(
              prepared->directory(), prepared->nonce(),
              [](const v1::WrittenReply& reply) {
                EXPECT_TRUE(reply.unseen());
              },
              script);
        },
        root);
  }
  RunServer(
      configuration,
      [&](Script* script) {
        AddSeal(home + "/others", prepared->nonce(), nullptr, script);
      },
      home + "/own");
  EXPECT_EQ(ListDirectory(prepared->directory())->size(), 1u) << "the nonce";
  EXPECT_FALSE(IsDirectory(home + "/own"));
}

TEST(ParameterServerTest, ACheckpointThatIsNotSeenIsLeftToTheCoordinator) {
  v1::Configuration configuration = MakeAdamConfiguration({Zeros("s", {})});
  configuration.mutable_servers(0)->set_restore_directory(
      "/not/there/000001-00000005.step-9");
  bool unseen = false;
  std::vector<float> pulled;
  auto runtime = MakeInProcessRuntime();
  Shard::Options options;
  options.incarnation = 100;
  ParameterServer server({options}, {"/nor/here", ""}, runtime.get());
  Script script;
  runtime->AddCore(PeerId::Coordinator(), &script);
  auto configure = std::make_unique<v1::ConfigureRequest>();
  *configure->mutable_configuration() = configuration;
  script.Add(std::move(configure), {}, [&](const Message& message) {
    ASSERT_TRUE(message.status.ok()) << message.status;
    unseen = static_cast<const v1::ConfigureReply&>(*message.head).unseen();
  });
  auto fill = std::make_unique<v1::FillRequest>();
  fill->mutable_header()->set_term(1);
  *fill->mutable_header()->mutable_server_generation() = Pair(1, 1);
  fill->set_total(12);
  fill->add_pieces()->set_row_end(1);
  script.Add(std::move(fill), Payload({3, 4, 5}), ExpectOk);
  AddPull(0, 1, &pulled, &script);
  auto finish = std::make_unique<v1::FinishRequest>();
  finish->mutable_header()->set_term(1);
  finish->set_everybody_knows(true);
  script.Add(std::move(finish), {}, ExpectOk);
  EXPECT_TRUE(runtime->Run().ok());
  EXPECT_TRUE(unseen);
  EXPECT_EQ(pulled, std::vector<float>{3});
}

}  // namespace
}  // namespace paramd
