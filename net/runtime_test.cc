// What every runtime promises, checked for each of them with the same cores: a
// parameter server, a second worker, and the chief with its coordinator and its
// worker.
#include "net/runtime.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/worker_thread.h"
#include "net/grpc_runtime.h"
#include "net/in_process_runtime.h"
#include "net/testing/loopback_address.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

enum class Kind { kInProcess, kGrpc };

// The processes of a cluster: one, or one for each task.
class ToyCluster {
 public:
  explicit ToyCluster(Kind kind) {
    if (kind == Kind::kInProcess) {
      Process all;
      all.runtime = MakeInProcessRuntime();
      all.cores = {PeerId::Ps(0), PeerId::Coordinator(), PeerId::Worker(0),
                   PeerId::Worker(1)};
      processes_.push_back(std::move(all));
      return;
    }
    while (!MakeProcesses(DrawLoopbackHost())) processes_.clear();
  }

  Runtime& of(PeerId peer) {
    for (Process& process : processes_) {
      for (const PeerId core : process.cores) {
        if (core == peer) return *process.runtime;
      }
    }
    return *processes_[0].runtime;
  }

  // Runs all processes until their end; what each Run returned, by core. Cores
  // that were not given exit at once.
  std::map<PeerId, absl::Status> Run(std::map<PeerId, ToyCore*> cores) {
    ToyCore idle;
    idle.on_start = [](Time, Outbox* out) { out->Exit(absl::OkStatus()); };
    std::vector<std::thread> threads;
    for (Process& process : processes_) {
      for (const PeerId core : process.cores) {
        const auto given = cores.find(core);
        process.runtime->AddCore(core,
                                 given == cores.end() ? &idle : given->second);
      }
      threads.emplace_back(
          [&process] { process.status = process.runtime->Run(); });
    }
    for (std::thread& thread : threads) thread.join();
    std::map<PeerId, absl::Status> statuses;
    for (const Process& process : processes_) {
      for (const PeerId core : process.cores) statuses[core] = process.status;
    }
    return statuses;
  }

 private:
  struct Process {
    std::unique_ptr<Runtime> runtime;
    std::vector<PeerId> cores;
    absl::Status status;
  };

  bool MakeProcesses(const std::string& host) {
    return MakeProcess(host, v1::PS, 0, {PeerId::Ps(0)}) &&
           MakeProcess(host, v1::WORKER, 0,
                       {PeerId::Coordinator(), PeerId::Worker(0)}) &&
           MakeProcess(host, v1::WORKER, 1, {PeerId::Worker(1)});
  }
  bool MakeProcess(const std::string& host, v1::TaskType type, uint32_t index,
                   std::vector<PeerId> cores) {
    GrpcRuntimeOptions options;
    options.self.set_type(type);
    options.self.set_index(index);
    options.job_digest = "digest";
    const std::string chief = absl::StrCat(host, ":2223");
    options.peers = {{PeerId::Ps(0), absl::StrCat(host, ":2222")},
                     {PeerId::Coordinator(), chief},
                     {PeerId::Worker(0), chief},
                     {PeerId::Worker(1), absl::StrCat(host, ":2224")}};
    options.listen_address = options.peers.at(cores.back());
    auto runtime = MakeGrpcRuntime(options);
    if (!runtime.ok()) {
      EXPECT_EQ(runtime.status().code(), absl::StatusCode::kAlreadyExists);
      return false;
    }
    processes_.push_back({*std::move(runtime), std::move(cores), {}});
    return true;
  }

  std::vector<Process> processes_;
};

Buffer PatternOf(size_t size, int seed) {
  Buffer buffer = Buffer::Allocate(size);
  size_t i = 0;
  for (std::byte& byte : buffer.mutable_bytes()) {
    byte = static_cast<std::byte>((i++ * 31 + seed * 7) >> 3);
  }
  return buffer;
}

class RuntimeTest : public ::testing::TestWithParam<Kind> {
 protected:
  ToyCluster cluster_{GetParam()};
  ToyCore ps_, coordinator_, worker_;
};

TEST_P(RuntimeTest, FiveMebibytesTravelInChunksBothWays) {
  constexpr int kChunks = 5;
  constexpr size_t kChunkBytes = 1 << 20;
  worker_.on_start = [&](Time, Outbox* out) {
    for (int i = 0; i < kChunks; ++i) {
      auto push = std::make_unique<v1::PushRequest>();
      push->set_clock(i);
      // In odd pieces, the small ones beside the big ones.
      const Buffer all = PatternOf(kChunkBytes, i);
      out->Send(PeerId::Ps(0), i, std::move(push),
                {all.Part(0, 13), all.Part(13, 500001),
                 all.Part(500014, kChunkBytes - 500014)},
                kLong);
    }
  };
  int pushed = 0;
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.from, PeerId::Worker(1));
    const auto& push = static_cast<const v1::PushRequest&>(*m.head);
    EXPECT_EQ(FlattenForTest(m.payload),
              FlattenForTest({PatternOf(kChunkBytes, push.clock())}));
    auto reply = std::make_unique<v1::PushReply>();
    reply->mutable_configuration()->set_term(push.clock());
    out->Reply(m.call, std::move(reply));
    if (++pushed == kChunks) out->Exit(absl::OkStatus());
  };
  int acknowledged = 0;
  worker_.on_receive = [&](Message m, Time, Outbox* out) {
    ASSERT_TRUE(m.status.ok()) << m.status;
    EXPECT_EQ(m.from, PeerId::Ps(0));
    EXPECT_EQ(static_cast<const v1::PushReply&>(*m.head).configuration().term(),
              m.call);
    if (++acknowledged == kChunks) out->Exit(absl::OkStatus());
  };
  const auto ended =
      cluster_.Run({{PeerId::Ps(0), &ps_}, {PeerId::Worker(1), &worker_}});
  EXPECT_TRUE(ended.at(PeerId::Worker(1)).ok());
  EXPECT_TRUE(ended.at(PeerId::Ps(0)).ok());
  EXPECT_EQ(acknowledged, kChunks);
}

TEST_P(RuntimeTest, APulledPayloadComesBack) {
  const Buffer weights = PatternOf(3 << 20, 1);
  worker_.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {}, kLong);
  };
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    out->Reply(m.call, std::make_unique<v1::PullReply>(), {weights});
    out->Exit(absl::OkStatus());
  };
  worker_.on_receive = [&](Message m, Time, Outbox* out) {
    ASSERT_TRUE(m.status.ok()) << m.status;
    EXPECT_EQ(FlattenForTest(m.payload), FlattenForTest({weights}));
    out->Exit(absl::OkStatus());
  };
  cluster_.Run({{PeerId::Ps(0), &ps_}, {PeerId::Worker(1), &worker_}});
}

TEST_P(RuntimeTest, ARefusalKeepsItsDetails) {
  v1::Refusal refusal;
  refusal.set_reason(v1::Refusal::FENCED);
  refusal.set_entity("worker-1");
  refusal.mutable_version()->set_term(3);
  worker_.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PushRequest>(), {}, kLong);
  };
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    out->Refuse(m.call, Refuse(refusal, "generation 3.1 of worker-1 is known"));
    out->Exit(absl::OkStatus());
  };
  worker_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(m.status.message(), "generation 3.1 of worker-1 is known");
    EXPECT_EQ(RefusalOf(m.status).SerializeAsString(),
              refusal.SerializeAsString());
    out->Exit(absl::OkStatus());
  };
  cluster_.Run({{PeerId::Ps(0), &ps_}, {PeerId::Worker(1), &worker_}});
}

TEST_P(RuntimeTest, ACallWithoutAnAnswerFailsAtItsDeadline) {
  Time sent;
  worker_.on_start = [&](Time now, Outbox* out) {
    sent = now;
    out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {},
              absl::Milliseconds(300));
  };
  // Answers Push only, which says that the worker is done.
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    if (m.head->GetDescriptor() != v1::PushRequest::descriptor()) return;
    out->Reply(m.call, std::make_unique<v1::PushReply>());
    out->Exit(absl::OkStatus());
  };
  worker_.on_receive = [&](Message m, Time now, Outbox* out) {
    if (m.call == 2) {
      out->Exit(m.status);
      return;
    }
    EXPECT_EQ(m.status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_GE(now - sent, absl::Milliseconds(300));
    out->Send(PeerId::Ps(0), 2, std::make_unique<v1::PushRequest>(), {}, kLong);
  };
  const auto ended =
      cluster_.Run({{PeerId::Ps(0), &ps_}, {PeerId::Worker(1), &worker_}});
  EXPECT_TRUE(ended.at(PeerId::Worker(1)).ok());
}

TEST_P(RuntimeTest, AnUnknownPeerIsUnavailableAtOnce) {
  worker_.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Ps(7), 1, std::make_unique<v1::PullRequest>(), {}, kLong);
  };
  worker_.on_receive = [&](Message m, Time, Outbox* out) {
    EXPECT_EQ(m.status, absl::UnavailableError("ps-7 is not a known peer"));
    out->Exit(absl::OkStatus());
  };
  cluster_.Run({{PeerId::Worker(1), &worker_}});
}

TEST_P(RuntimeTest, TheChiefsTwoCoresTalkAndSpeakUnderTheirOwnNames) {
  ToyCore chief_worker;
  chief_worker.on_start = [&](Time, Outbox* out) {
    out->Send(PeerId::Coordinator(), 1, std::make_unique<v1::JoinRequest>(), {},
              kLong);
  };
  CallId join = 0;
  coordinator_.on_receive = [&](Message m, Time, Outbox* out) {
    if (!m.is_reply) {
      EXPECT_EQ(m.from, PeerId::Worker(0));
      join = m.call;
      out->Send(PeerId::Ps(0), 5, std::make_unique<v1::RecallRequest>(), {},
                kLong);
      return;
    }
    ASSERT_TRUE(m.status.ok()) << m.status;
    out->Reply(join, std::make_unique<v1::JoinReply>());
    out->Exit(absl::OkStatus());
  };
  chief_worker.on_receive = [&](Message m, Time, Outbox* out) {
    if (m.from == PeerId::Coordinator()) {
      out->Send(PeerId::Ps(0), 2, std::make_unique<v1::PushRequest>(), {},
                kLong);
      return;
    }
    out->Exit(m.status);
  };
  std::vector<PeerId> callers;
  ps_.on_receive = [&](Message m, Time, Outbox* out) {
    callers.push_back(m.from);
    if (m.head->GetDescriptor() == v1::RecallRequest::descriptor()) {
      out->Reply(m.call, std::make_unique<v1::RecallReply>());
    } else {
      out->Reply(m.call, std::make_unique<v1::PushReply>());
      out->Exit(absl::OkStatus());
    }
  };
  const auto ended = cluster_.Run({{PeerId::Ps(0), &ps_},
                                   {PeerId::Coordinator(), &coordinator_},
                                   {PeerId::Worker(0), &chief_worker}});
  EXPECT_TRUE(ended.at(PeerId::Coordinator()).ok())
      << ended.at(PeerId::Coordinator());
  EXPECT_EQ(callers,
            (std::vector<PeerId>{PeerId::Coordinator(), PeerId::Worker(0)}));
}

TEST_P(RuntimeTest, OneCoresFailureEndsItsProcess) {
  // The chief's worker never exits.
  ToyCore chief_worker;
  coordinator_.on_start = [](Time, Outbox* out) {
    out->Exit(absl::AbortedError("the log has another coordinator"));
  };
  const auto ended = cluster_.Run({{PeerId::Coordinator(), &coordinator_},
                                   {PeerId::Worker(0), &chief_worker}});
  EXPECT_EQ(ended.at(PeerId::Worker(0)),
            absl::AbortedError("the log has another coordinator"));
}

TEST_P(RuntimeTest, TicksComeAndStopEndsTheRun) {
  Runtime& runtime = cluster_.of(PeerId::Worker(1));
  int ticks = 0;
  worker_.on_start = [&](Time now, Outbox*) { worker_.tick = now; };
  worker_.on_tick = [&](Time now, Outbox*) {
    worker_.tick = now + absl::Milliseconds(1);
    if (++ticks == 3) runtime.Stop(absl::CancelledError("SIGTERM"));
  };
  const auto ended = cluster_.Run({{PeerId::Worker(1), &worker_}});
  EXPECT_EQ(ended.at(PeerId::Worker(1)), absl::CancelledError("SIGTERM"));
  EXPECT_GE(ticks, 3);
}

TEST_P(RuntimeTest, DrainEndsTheRunWhenTheCoresHaveDrained) {
  Runtime& runtime = cluster_.of(PeerId::Worker(1));
  bool drained = false;
  worker_.on_start = [&](Time, Outbox*) {
    runtime.Drain(absl::CancelledError("SIGTERM"), kLong);
  };
  worker_.on_drain = [&](Outbox* out) {
    drained = true;
    out->Exit(absl::OkStatus());
  };
  const auto ended = cluster_.Run({{PeerId::Worker(1), &worker_}});
  EXPECT_EQ(ended.at(PeerId::Worker(1)), absl::CancelledError("SIGTERM"));
  EXPECT_TRUE(drained);
}

TEST_P(RuntimeTest, WorkOutsideIsDoneElsewhereAndComesBack) {
  Runtime& runtime = cluster_.of(PeerId::Worker(1));
  WorkerThread thread("computing");
  std::thread::id loop, elsewhere;
  const Buffer input = PatternOf(100000, 1);
  runtime.HandleIo(v1::ComputeGradient::descriptor(),
                   [&](Outbox::IoItem item, Runtime::IoDone done) {
                     loop = std::this_thread::get_id();
                     thread.Post([&elsewhere, done, payload = item.payload] {
                       elsewhere = std::this_thread::get_id();
                       IoResult result;
                       result.payload = payload;
                       result.head =
                           std::make_unique<v1::ComputeGradientResult>();
                       done(std::move(result));
                     });
                   });
  worker_.on_start = [&](Time, Outbox* out) {
    for (IoId io = 0; io < 100; ++io) {
      out->StartIo(io, std::make_unique<v1::ComputeGradient>(), {input});
    }
  };
  IoId next = 0;
  worker_.on_completed = [&](IoResult result, Outbox* out) {
    EXPECT_EQ(result.io, next++);
    EXPECT_NE(result.head, nullptr);
    EXPECT_EQ(result.payload[0].bytes().data(), input.bytes().data());
    if (next == 100) out->Exit(absl::OkStatus());
  };
  const auto ended = cluster_.Run({{PeerId::Worker(1), &worker_}});
  EXPECT_TRUE(ended.at(PeerId::Worker(1)).ok());
  EXPECT_NE(loop, elsewhere);
}

TEST_P(RuntimeTest, PostedFunctionsOfManyThreadsRunOnTheLoop) {
  Runtime& runtime = cluster_.of(PeerId::Worker(1));
  int count = 0;  // Of the loop thread alone.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        runtime.Post([&] {
          if (++count == 2000) runtime.Stop(absl::CancelledError("all"));
        });
      }
    });
  }
  cluster_.Run({{PeerId::Worker(1), &worker_}});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 2000);
}

TEST_P(RuntimeTest, WorkThatEndsAfterTheRunIsDropped) {
  Runtime& runtime = cluster_.of(PeerId::Worker(1));
  Runtime::IoDone late;
  runtime.HandleIo(
      v1::ReadLog::descriptor(),
      [&](Outbox::IoItem, Runtime::IoDone done) { late = std::move(done); });
  worker_.on_start = [&](Time, Outbox* out) {
    out->StartIo(1, std::make_unique<v1::ReadLog>());
    out->Exit(absl::OkStatus());
  };
  worker_.on_completed = [](IoResult, Outbox*) { ADD_FAILURE(); };
  cluster_.Run({{PeerId::Worker(1), &worker_}});
  late(IoResult{});
  runtime.Post([] { ADD_FAILURE(); });
}

INSTANTIATE_TEST_SUITE_P(AllRuntimes, RuntimeTest,
                         ::testing::Values(Kind::kInProcess, Kind::kGrpc),
                         [](const auto& info) {
                           return std::string(info.param == Kind::kGrpc
                                                  ? "Grpc"
                                                  : "InProcess");
                         });

}  // namespace
}  // namespace paramd
