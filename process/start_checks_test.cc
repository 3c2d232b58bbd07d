#include "process/start_checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/resource_limits.h"
#include "config/job_config.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

// A process that may start: the chief of a cluster on loopback addresses.
struct GoodStart {
  GoodStart() {
    job.set_name("j");
    job.set_run_dir("run");
    job.set_staleness("async");
    job.set_replicas(1);
    job.set_shards_per_server(1);
    job.mutable_optimizer()->mutable_sgd();
    job.mutable_optimizer()->set_learning_rate(1);
    cluster.standalone = false;
    cluster.ps = {"127.0.0.1:1"};
    cluster.workers = {"127.0.0.1:2", "127.0.0.1:3"};
    cluster.self = {TaskType::kWorker, 0};
    role.worker = 0;
    role.workers = 2;
    variable.set_name("w");
    variable.set_dtype(v1::FLOAT32);
    variable.add_shape(1000);
  }
  void BeServer() {
    cluster.self = {TaskType::kPs, 0};
    role.worker.reset();
    role.server = 0;
  }
  void BeStage() {
    cluster.stages = {"127.0.0.1:5", "127.0.0.1:6"};
    cluster.self = {TaskType::kStage, 0};
    role.worker.reset();
    role.stage = 0;
    role.stages_of_a_worker = 1;
  }
  void BeEvaluator() {
    cluster.evaluators = {"127.0.0.1:4"};
    cluster.self = {TaskType::kEvaluator, 0};
    role.worker.reset();
    role.evaluator = 0;
  }

  RunOptions options;
  v1::JobConfig job;
  ClusterSpec cluster;
  ProcessRole role;
  v1::Variable variable;
};

// What makes it impossible, and what the sentence names.
struct Fault {
  std::function<void(GoodStart*)> make;
  std::string sentence;
};

using FaultTable = std::map<std::string, std::vector<Fault>>;

FaultTable FaultsOfFiles() {
  return {{"security",
           {{[](GoodStart* start) {
               start->options.insecure = true;
               start->options.tls_dir = "certificates";
             },
             "contradict each other"}}},
          {"certificates",
           {{[](GoodStart* start) { start->options.tls_dir = "not/there"; },
             "not/there"},
            {[](GoodStart* start) {
               start->options.tls_dir = "not/there";
               start->role.member = 1;
             },
             "connections that are not encrypted"},
            {[](GoodStart* start) {
               start->options.tls_dir = "not/there";
               start->cluster.join = "127.0.0.1:2";
             },
             "'not/there' has no tls.crt; with --join it is the directory of "
             "one worker's certificate"}}},
          {"run directory",
           {{[](GoodStart* start) { start->job.clear_run_dir(); },
             "the chief needs --run_dir"},
            {[](GoodStart* start) {
               start->BeEvaluator();
               start->job.clear_run_dir();
             },
             "an evaluator needs --run_dir"}}}};
}

FaultTable FaultsOfSettings() {
  return {{"backup",
           {{[](GoodStart* start) {
               start->BeEvaluator();
               auto* const backup = start->job.mutable_backup_and_restore();
               backup->set_directory("backup");
               backup->set_delete_at_success(true);
             },
             "would take the last checkpoint from the evaluator"}}},
          {"election",
           {{[](GoodStart* start) {
               start->job.set_chief_election("etcd://127.0.0.1:2379/x");
               start->cluster.standalone = true;
             },
             "chief_election: needs a cluster with ps tasks"},
            {[](GoodStart* start) {
               start->job.set_chief_election("etcd://127.0.0.1:2379/x");
               start->options.process.job.stage = "first";
             },
             "chief_election: does not go with stages"},
            {[](GoodStart* start) {
               start->job.set_chief_election("etcd://127.0.0.1:2379/x");
               auto* const backup = start->job.mutable_backup_and_restore();
               backup->set_directory("backup");
               backup->set_delete_at_success(true);
             },
             "delete_at_success takes away"}}},
          {"backup workers",
           {{[](GoodStart* start) {
               start->job.set_staleness("sync");
               start->job.set_backup_workers(2);
             },
             "backup_workers is 2 of 2 workers"}}}};
}

FaultTable FaultsOfAddresses() {
  return {
      {"addresses",
       {{[](GoodStart* start) { start->cluster.workers[0] = "192.0.2.1:2"; },
         "192.0.2.1"},
        {[](GoodStart* start) {
           start->options.health_address = "192.0.2.2:2";
         },
         "192.0.2.2"},
        {[](GoodStart* start) {
           start->job.set_metrics_address("192.0.2.3:2");
         },
         "192.0.2.3"}}},
      {"different addresses",
       {{[](GoodStart* start) {
           start->job.set_metrics_address("127.0.0.1:2");
         },
         "metrics_address: '127.0.0.1:2' is the address of the task too"},
        {[](GoodStart* start) {
           start->options.insecure = true;
           start->job.set_metrics_address("0.0.0.0:9");
           start->options.health_address = "127.0.0.1:9";
         },
         "metrics_address: '0.0.0.0:9' is --health_address too"}}}};
}

FaultTable FaultsOfTheMachine() {
  return {
      {"instructions",
       {{[](GoodStart* start) {
           for (const auto cpu :
                {v1::JobConfig::CPU_AVX2, v1::JobConfig::CPU_AVX512}) {
             if (KernelsFor(cpu) == nullptr) start->job.set_cpu(cpu);
           }
         },
         "cpu: this machine does not have these instructions"}}},
      {"devices",
       {{[](GoodStart* start) {
           start->job.set_strategy(v1::JobConfig::MIRRORED);
           start->job.set_replicas(2);
           start->job.set_device("cuda:4000,4001");
         },
         "cuda"},
        {[](GoodStart* start) {
           start->BeStage();
           start->job.set_device("cuda:4000");
         },
         "cuda:4000"}}},
      {"disk",
       {{[](GoodStart* start) {
           start->BeServer();
           start->job.set_disk_directory("not/there/either");
         },
         "not/there/either"}}},
      {"files",
       {{[](GoodStart* start) {
           start->cluster.workers.resize(1'000'000, "127.0.0.1:3");
         },
         "files and needs"},
        {[](GoodStart* start) { start->role.stages_of_a_worker = 1'000'000; },
         "5 to each of 1000002 other processes"}}},
      // See ALimitOfTheSystemIsSaid.
      {"limits", {}}};
}

FaultTable FaultsOfTheModel() {
  return {{"names in optimizer",
           {{[](GoodStart* start) {
               start->job.mutable_optimizer()->set_no_decay("ww");
             },
             "optimizer.no_decay names 'ww', which no variable is called; the "
             "closest is 'w'"}}},
          {"whole gradients",
           {{[](GoodStart* start) {
               start->job.set_strategy(v1::JobConfig::MIRRORED);
               start->job.set_replicas(2);
               start->variable.set_sparse(true);
             },
             "sums whole gradients, but variable 'w' is sparse"}}},
          {"contributions",
           {{[](GoodStart* start) {
               start->job.set_staleness("sync");
               start->job.set_backup_workers(1);
               start->job.set_sync_park_bytes(100);
             },
             "bytes"}}},
          {"memory",
           {{[](GoodStart* start) {
               start->cluster.standalone = true;
               start->role.server = 0;
               start->role.workers = 1;
               start->job.set_memory_limit_bytes(1000);
             },
             "memory_limit_bytes: the variables do not fit"}}}};
}

// By check.
const FaultTable& Faults() {
  static const auto* const faults = [] {
    auto* const all = new FaultTable;
    for (FaultTable some :
         {FaultsOfFiles(), FaultsOfSettings(), FaultsOfAddresses(),
          FaultsOfTheMachine(), FaultsOfTheModel()}) {
      all->merge(some);
    }
    return all;
  }();
  return *faults;
}

absl::Status Check(const StartCheck& one, const GoodStart& good) {
  return one.check({good.options, good.job, good.cluster, good.role});
}
absl::Status Check(const ModelCheck& one, const GoodStart& good) {
  return one.check(good.role, good.job, {&good.variable, 1});
}

template <typename Checks>
void ExpectEachRefusesItsFaultsAlone(const Checks& checks) {
  for (const auto& one : checks) {
    SCOPED_TRACE(std::string(one.name));
    EXPECT_TRUE(Check(one, GoodStart()).ok()) << Check(one, GoodStart());
    const auto faults = Faults().find(std::string(one.name));
    ASSERT_NE(faults, Faults().end()) << "a check without a fault of its own";
    for (const Fault& fault : faults->second) {
      GoodStart bad;
      fault.make(&bad);
      // This machine may have all that there is.
      if (one.name == "instructions" && bad.job.cpu() == 0) continue;
      const absl::Status refused = Check(one, bad);
      EXPECT_FALSE(refused.ok()) << fault.sentence;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(fault.sentence));
    }
  }
}

TEST(StartChecksTest, EachRefusesItsFaultsAndNoGoodStart) {
  ExpectEachRefusesItsFaultsAlone(StartChecks());
  ExpectEachRefusesItsFaultsAlone(ModelChecks());
}

TEST(StartChecksTest, AllThatIsWrongIsSaidAtOnce) {
  GoodStart bad;
  bad.job.clear_run_dir();
  bad.job.set_metrics_address("192.0.2.3:2");
  const absl::Status refused =
      CheckStart({bad.options, bad.job, bad.cluster, bad.role});
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--run_dir"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\n"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("192.0.2.3"));
  const GoodStart good;
  EXPECT_TRUE(
      CheckStart({good.options, good.job, good.cluster, good.role}).ok());
}

TEST(StartChecksTest, ALimitOfTheSystemIsSaid) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes address space of its own";
#endif
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  rlimit before = {};
  getrlimit(RLIMIT_AS, &before);
  const rlimit tight = {pages * sysconf(_SC_PAGESIZE) + (32 << 20),
                        before.rlim_max};
  const GoodStart good;
  setrlimit(RLIMIT_AS, &tight);
  const absl::Status refused =
      CheckStart({good.options, good.job, good.cluster, good.role});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("KiB of address space and needs"));
}

TEST(StartChecksTest, WhatNobodyCanKnowIsListed) {
  GoodStart server;
  server.BeServer();
  const std::string left = NotChecked(
      {server.options, server.job, server.cluster, server.role}, {"rows"});
  EXPECT_THAT(left, HasSubstr("rows; the data, and whether the model fits it "
                              "(ps-0 reads none); whether its variables fit "
                              "into its memory; whether the other tasks can be "
                              "reached"));
  EXPECT_THAT(left, HasSubstr("whether its addresses are free; whether what "
                              "the job writes can be written"));
}

}  // namespace
}  // namespace paramd
