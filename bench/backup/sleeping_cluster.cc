#include "bench/backup/sleeping_cluster.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/worker_thread.h"
#include "config/job_config.h"
#include "coordinator/coordinator_process.h"
#include "net/grpc_runtime.h"
#include "net/testing/loopback_address.h"
#include "server/parameter_server.h"
#include "worker/core/worker.h"

namespace paramd {
namespace {

constexpr uint64_t kSlowEvery = 20;
constexpr uint64_t kElements = 256;
// More than it gets through.
constexpr uint64_t kExamples = 1'000'000'000;
// Which are not measured.
constexpr uint64_t kFirstSteps = 5;
constexpr absl::Duration kPatience = absl::Minutes(1);

LoadedJob JobOf(const SleepingCluster::Options& options,
                const std::string& directory) {
  JobSources sources;
  sources.file = "the job of the benchmark";
  sources.text = absl::StrCat(R"({
    "name": "sleeping", "staleness": "sync", "evaluate_every_epochs": 0,
    "model": {"layers": ["flatten", {"dense": 10}],
              "loss": "softmax_cross_entropy"},
    "input": {"format": "idx", "directory": "/"},
    "optimizer": {"sgd": {}, "learning_rate": 0.1},
    "checkpoint": {"every_steps": 0}, "backup_workers": )",
                              options.backup_workers, "}");
  auto job = LoadJob(sources);
  CHECK(job.ok(), job.status().message());
  SetRunDirectory(directory, &job->config);
  return *std::move(job);
}

v1::Variable OnlyVariable() {
  v1::Variable variable;
  variable.set_name("weights");
  variable.set_dtype(v1::FLOAT32);
  variable.add_shape(kElements);
  variable.mutable_initializer()->set_kind(v1::Initializer::ZEROS);
  return variable;
}

// A worker whose gradients are zeros and take a time of their own.
class SleepingWorker {
 public:
  SleepingWorker(const SleepingCluster::Options& cluster,
                 const Worker::Options& options)
      : cluster_(cluster),
        random_(StableHash("slow", options.index)),
        core_(options),
        computing_("compute") {}

  void AddTo(uint32_t index, Runtime* runtime) {
    runtime->AddCore(PeerId::Worker(index), &core_);
    runtime->HandleIo(
        v1::ComputeGradient::descriptor(),
        [this](Outbox::IoItem item, Runtime::IoDone done) {
          const auto& request =
              static_cast<const v1::ComputeGradient&>(*item.head);
          const uint64_t examples = request.end() - request.begin();
          {
            MutexLock lock(&mutex_);
            abandoned_ = false;
          }
          computing_.Post([this, examples, done = std::move(done)] {
            Sleep();
            done(Gradient(examples));
          });
        });
    runtime->HandleIo(v1::AbandonGradient::descriptor(),
                      [this](Outbox::IoItem, Runtime::IoDone done) {
                        MutexLock lock(&mutex_);
                        abandoned_ = true;
                        changed_.NotifyAll();
                        done({});
                      });
  }

 private:
  bool IsNextSlow() {
    const uint64_t place = drawn_++ % kSlowEvery;
    if (place == 0) slow_place_ = random_.Below(kSlowEvery);
    return place == slow_place_;
  }

  void Sleep() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::Duration time =
        cluster_.step * (IsNextSlow() ? cluster_.slowed : 1);
    const Time until = MonotonicNow() + time;
    MutexLock lock(&mutex_);
    while (!abandoned_) {
      const absl::Duration left = until - MonotonicNow();
      if (left <= absl::ZeroDuration()) return;
      changed_.WaitFor(&mutex_, left);
    }
  }

  static IoResult Gradient(uint64_t examples) {
    auto head = std::make_unique<v1::ComputeGradientResult>();
    head->set_examples(examples);
    IoResult result;
    result.head = std::move(head);
    result.payload.push_back(
        Buffer::Copy(std::string(kElements * sizeof(float), '\0')));
    return result;
  }

  const SleepingCluster::Options cluster_;
  RandomStream random_;  // This and the next two are the computing thread's.
  uint64_t drawn_ = 0;
  uint64_t slow_place_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  Worker core_;
  WorkerThread computing_;
};

std::unique_ptr<Runtime> MakeRuntime(const std::string& host, PeerId self,
                                     uint32_t workers) {
  GrpcRuntimeOptions options;
  options.self.set_type(self == PeerId::Ps(0) ? v1::PS : v1::WORKER);
  options.self.set_index(self.index);
  options.incarnation = 100 + self.index;
  options.peers[PeerId::Ps(0)] = absl::StrCat(host, ":2222");
  for (uint32_t w = 0; w < workers; ++w) {
    options.peers[PeerId::Worker(w)] = absl::StrCat(host, ":", 2300 + w);
  }
  options.peers[PeerId::Coordinator()] = options.peers[PeerId::Worker(0)];
  options.listen_address = options.peers.at(self);
  auto runtime = MakeGrpcRuntime(options);
  CHECK(runtime.ok(), runtime.status().message());
  return *std::move(runtime);
}

[[noreturn]] void Run(Runtime* runtime) {
  const absl::Status status = runtime->Run();
  CHECK(false, absl::StrCat("the job goes on until it is killed; it ended: ",
                            status.message()));
  std::abort();
}

Child::Serve ServeShard(const std::string& host, uint32_t workers) {
  // All of it lives as long as the process.
  auto* const runtime = MakeRuntime(host, PeerId::Ps(0), workers).release();
  Shard::Options options;
  options.incarnation = 100;
  options.life_seed = 1;
  new ParameterServer({options}, {}, runtime);
  std::thread([runtime] { Run(runtime); }).detach();
  return [](const std::string&) { return std::string(); };
}

void AddCoordinator(const SleepingCluster::Options& cluster,
                    const LoadedJob& job, Runtime* runtime) {
  Coordinator::Options options;
  options.job = job.config;
  options.job_digest = job.digest;
  options.run_id = "sleeping";
  options.variables = {OnlyVariable()};
  options.servers = 1;
  options.workers = cluster.workers;
  options.examples = kExamples;
  options.nonce_seed = 1;
  CoordinatorProcess::Paths paths;
  paths.run_directory = job.config.run_dir();
  auto made = CoordinatorProcess::Create(options, paths, {});
  CHECK(made.ok(), made.status().message());
  made->release()->AddTo(runtime);
}

// Answers with the steps that the job has made, if it is the chief.
Child::Serve Work(const SleepingCluster::Options& cluster, uint32_t index,
                  const std::string& host, const std::string& directory) {
  const LoadedJob job = JobOf(cluster, directory);
  auto* const runtime =
      MakeRuntime(host, PeerId::Worker(index), cluster.workers).release();
  if (index == 0) AddCoordinator(cluster, job, runtime);
  Worker::Options options;
  options.index = index;
  options.incarnation = 100 + index;
  options.job = job.config;
  options.job_digest = job.digest;
  options.examples = kExamples;
  (new SleepingWorker(cluster, options))->AddTo(index, runtime);
  std::thread([runtime] { Run(runtime); }).detach();
  return [runtime](const std::string&) {
    std::promise<uint64_t> steps;
    runtime->Post(
        [&] { steps.set_value(runtime->Status().job().global_step()); });
    return absl::StrCat(steps.get_future().get());
  };
}

}  // namespace

SleepingCluster::SleepingCluster(const Options& options)
    : options_(options),
      directory_(std::filesystem::temp_directory_path() / "backupXXXXXX") {
  CHECK(mkdtemp(directory_.data()) != nullptr, "a directory can be made");
  const std::string host = DrawLoopbackHost();
  children_.push_back(std::make_unique<Child>(
      "ps-0", [&] { return ServeShard(host, options_.workers); }));
  for (uint32_t w = options_.workers; w-- > 0;) {
    children_.push_back(std::make_unique<Child>(
        absl::StrCat("worker-", w),
        [&, w] { return Work(options_, w, host, directory_); }));
  }
}

SleepingCluster::~SleepingCluster() {
  children_.clear();
  std::filesystem::remove_all(directory_);
}

uint64_t SleepingCluster::Steps() const {
  uint64_t steps = 0;
  CHECK(absl::SimpleAtoi(children_.back()->Call("steps"), &steps),
        "the chief answers with a number");
  return steps;
}

absl::Duration SleepingCluster::StepTime(absl::Duration window) {
  const Time patience = MonotonicNow() + kPatience;
  uint64_t before = 0;
  while ((before = Steps()) < kFirstSteps) {
    CHECK(MonotonicNow() < patience, "a cluster makes its first steps");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const Time begin = MonotonicNow();
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(window));
  const uint64_t made = Steps() - before;
  CHECK(made > 0, "a cluster makes steps in that time");
  return (MonotonicNow() - begin) / static_cast<int64_t>(made);
}

}  // namespace paramd
