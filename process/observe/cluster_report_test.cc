#include "process/observe/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Task TaskOf(v1::TaskType type, uint32_t index) {
  v1::Task task;
  task.set_type(type);
  task.set_index(index);
  return task;
}

// One server and two workers, the second of which was never heard.
class ClusterReportTest : public ::testing::Test {
 protected:
  ClusterReportTest() {
    v1::StatusReply& ps = replies_["p0:1"];
    *ps.mutable_task() = TaskOf(v1::PS, 0);
    ps.set_chief_address("w0:1");
    ps.set_host("box");
    ps.set_pid(41);
    ps.set_build("0.1 abc");
    ps.set_uptime_ms(125000);
    ps.set_incarnation(0xabc);
    ps.mutable_server()->set_bytes(1040000);
    ps.mutable_server()->set_pulls(6122);
    ps.mutable_server()->set_restored(true);
    v1::StatusReply& chief = replies_["w0:1"];
    *chief.mutable_task() = TaskOf(v1::WORKER, 0);
    chief.mutable_worker()->set_pushes(1534);
    chief.mutable_worker()->set_loss(0.391);
    v1::Wait* wait = chief.add_waits();
    wait->set_who("coordinator");
    wait->set_whom("worker-1 to join");
    wait->set_since_ms(12300);
    v1::JobStats* job = chief.mutable_job();
    job->set_name("j");
    job->set_state(v1::RUNNING);
    job->set_epochs(5);
    job->set_staleness("8");
    job->set_epochs_done(1.5);
    job->set_servers(1);
    job->set_workers(2);
    AddMember(v1::PS, 0, v1::Member::ALIVE, "p0:1");
    AddMember(v1::WORKER, 0, v1::Member::ALIVE, "w0:1");
    AddMember(v1::WORKER, 1, v1::Member::AWAITED, "w1:1");
    job->mutable_members(0)->set_silent_ms(400);
    job->mutable_members(0)->mutable_generation()->set_term(1);
    job->mutable_members(0)->mutable_generation()->set_counter(3);
  }

  void AddMember(v1::TaskType type, uint32_t index, v1::Member::State state,
                 const std::string& address) {
    v1::Member* member = replies_["w0:1"].mutable_job()->add_members();
    *member->mutable_task() = TaskOf(type, index);
    member->set_state(state);
    member->set_address(address);
  }

  absl::StatusOr<v1::ClusterReport> ReportAt(const std::string& address) {
    return MakeClusterReport(address, [&](const auto& addresses) {
      std::vector<absl::StatusOr<v1::StatusReply>> answers;
      for (const std::string& asked : addresses) {
        asked_.push_back(asked);
        const auto reply = replies_.find(asked);
        if (reply == replies_.end()) {
          answers.push_back(absl::UnavailableError("refused"));
        } else {
          answers.push_back(reply->second);
        }
      }
      return answers;
    });
  }

  std::map<std::string, v1::StatusReply> replies_;
  std::vector<std::string> asked_;
};

TEST_F(ClusterReportTest, FromAnyProcessTheWholeClusterIsFound) {
  const auto report = ReportAt("p0:1");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(asked_, ElementsAre("p0:1", "w0:1", "w1:1"));
  EXPECT_EQ(report->asked(), "p0:1");
  EXPECT_EQ(report->job().name(), "j");
  ASSERT_EQ(report->processes_size(), 3);
  EXPECT_EQ(report->processes(0).name(), "ps-0");
  EXPECT_EQ(report->processes(0).status().server().pulls(), 6122u);
  EXPECT_EQ(report->processes(1).status().worker().pushes(), 1534u);
  EXPECT_FALSE(report->processes(1).status().has_job());
  EXPECT_FALSE(report->processes(2).has_status());
  EXPECT_EQ(report->processes(2).error(), "refused");
}

TEST_F(ClusterReportTest, TheChiefItselfIsAskedOnce) {
  ASSERT_TRUE(ReportAt("w0:1").ok());
  EXPECT_THAT(asked_, ElementsAre("w0:1", "p0:1", "w1:1"));
}

TEST_F(ClusterReportTest, WithoutTheChiefTheAskedProcessIsShownAndWhy) {
  replies_.erase("w0:1");
  auto report = ReportAt("p0:1");
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->has_job());
  EXPECT_EQ(report->job_error(), "the chief at w0:1: refused");
  ASSERT_EQ(report->processes_size(), 1);
  EXPECT_THAT(RenderReport(*report),
              HasSubstr("the job is not known: the chief at w0:1: refused\n"));

  replies_["p0:1"].set_chief_address("");
  EXPECT_EQ(ReportAt("p0:1")->job_error(),
            "ps-0 is not told where its chief is");

  *replies_["w7:1"].mutable_task() = TaskOf(v1::WORKER, 7);
  replies_["p0:1"].set_chief_address("w7:1");
  EXPECT_EQ(ReportAt("p0:1")->job_error(),
            "at w7:1 is worker-7, which is not the chief");
}

TEST_F(ClusterReportTest, AMemberWithoutAnAddressIsNotAsked) {
  replies_["w0:1"].mutable_job()->mutable_members(2)->clear_address();
  const auto report = ReportAt("p0:1");
  EXPECT_EQ(report->processes(2).error(),
            "the chief is not told where it listens");
}

TEST_F(ClusterReportTest, AProcessThatIsTheWholeJobIsEachOfItsMembers) {
  v1::StatusReply& all = replies_["here"];
  *all.mutable_task() = TaskOf(v1::WORKER, 0);
  all.mutable_server()->set_pulls(7);
  all.mutable_worker()->set_pushes(8);
  for (const v1::TaskType type : {v1::PS, v1::WORKER}) {
    *all.mutable_job()->add_members()->mutable_task() = TaskOf(type, 0);
  }
  const auto report = ReportAt("here");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->processes_size(), 2);
  EXPECT_EQ(report->processes(0).status().server().pulls(), 7u);
  EXPECT_FALSE(report->processes(0).status().has_worker());
  EXPECT_EQ(report->processes(1).status().worker().pushes(), 8u);
  EXPECT_FALSE(report->processes(1).status().has_server());
  EXPECT_THAT(RenderReport(*report), HasSubstr("asked worker-0 at here"));
}

TEST_F(ClusterReportTest, EachShardOfAProcessHasItsOwnFigures) {
  v1::StatusReply& ps = replies_["p0:1"];
  for (const uint64_t pulls : {10, 11}) ps.add_shards()->set_pulls(pulls);
  AddMember(v1::PS, 1, v1::Member::ALIVE, "p0:1");
  for (const char* asked : {"p0:1", "w0:1"}) {
    const auto report = ReportAt(asked);
    ASSERT_EQ(report->processes_size(), 4);
    EXPECT_EQ(report->processes(0).status().server().pulls(), 10u);
    EXPECT_EQ(report->processes(3).name(), "ps-1");
    EXPECT_EQ(report->processes(3).status().server().pulls(), 11u);
    EXPECT_EQ(report->processes(3).status().shards_size(), 0);
  }
}

// Two processes with two places each: server 0 has gone to its second place,
// number 3, and its backup in its first, 0, is being filled. Server 1 is at
// home, 2, and what is in its second place, 1, was told nothing.
class ReplicatedReportTest : public ClusterReportTest {
 protected:
  ReplicatedReportTest() {
    AddMember(v1::PS, 1, v1::Member::ALIVE, "p1:1");
    v1::StatusReply& second = replies_["p1:1"];
    *second.mutable_task() = TaskOf(v1::PS, 1);
    second.set_chief_address("w0:1");
    AddPlace(0, v1::REPLICA_BACKUP, 5, &replies_["p0:1"]);
    AddPlace(1, v1::REPLICA_IDLE, 6, &replies_["p0:1"]);
    AddPlace(1, v1::REPLICA_ALONE, 7, &second);
    AddPlace(0, v1::REPLICA_FILLS, 8, &second);
    second.mutable_shards(1)->set_acknowledged_alone(1200);
    v1::Member& moved = ServerMember(0);
    moved.set_address("p1:1");
    moved.set_peer(3);
    moved.set_backup_peer(0);
    moved.set_backup_address("p0:1");
    ServerMember(1).set_peer(2);
  }

  static void AddPlace(uint32_t server, v1::ReplicaRole role, uint64_t pulls,
                       v1::StatusReply* process) {
    v1::ServerStats* const place = process->add_shards();
    place->set_index(server);
    place->set_replica(role);
    place->set_pulls(pulls);
    place->set_restored(true);
  }
  v1::Member& ServerMember(uint32_t server) {
    return *replies_["w0:1"].mutable_job()->mutable_members(server == 0 ? 0
                                                                        : 3);
  }
};

TEST_F(ReplicatedReportTest, AServerIsShownAsThePlaceWhereItIs) {
  for (const char* asked : {"p0:1", "p1:1", "w0:1"}) {
    const auto report = ReportAt(asked);
    ASSERT_EQ(report->processes_size(), 4);
    EXPECT_EQ(report->processes(0).name(), "ps-0");
    EXPECT_EQ(report->processes(0).address(), "p1:1") << asked;
    EXPECT_EQ(report->processes(0).status().server().pulls(), 8u) << asked;
    EXPECT_EQ(report->processes(3).address(), "p1:1") << asked;
    EXPECT_EQ(report->processes(3).status().server().pulls(), 7u) << asked;
    // The backups among them, too.
    EXPECT_EQ(report->processes(3).status().shards_size(), 2);
  }
}

TEST_F(ReplicatedReportTest, EachServerSaysWhereItIsAndWhatItsBackupIs) {
  std::string text = RenderReport(*ReportAt("w0:1"));
  EXPECT_THAT(text, HasSubstr("8 pulls · 0 blocks applied · in ps-1 · backup "
                              "ps-0 is being filled · 1,200 chunks "
                              "acknowledged on one server\n"));
  EXPECT_THAT(text, HasSubstr("7 pulls · 0 blocks applied · on one server\n"));
  ServerMember(0).set_backup_is_member(true);
  ServerMember(1).set_backup_peer(1);
  ServerMember(1).set_backup_is_member(true);
  text = RenderReport(*ReportAt("w0:1"));
  EXPECT_THAT(text, HasSubstr("in ps-1 · backup ps-0 · 1,200 chunks"));
  EXPECT_THAT(text, HasSubstr("7 pulls · 0 blocks applied · backup ps-0\n"));
  EXPECT_THAT(text, Not(HasSubstr("acknowledged on one server:")));
  replies_["w0:1"].mutable_job()->set_acknowledged_alone(1300);
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")),
              HasSubstr("\nacknowledged on one server: 1,300 chunks of the "
                        "newest checkpoint\n"));
}

TEST_F(ClusterReportTest, AScaleOfLearningRatesIsSaid) {
  v1::ClusterReport report = *ReportAt("p0:1");
  const char* const line = "learning rates are multiplied by 0.5\n";
  EXPECT_THAT(RenderReport(report), ::testing::Not(HasSubstr(line)));
  report.mutable_job()->set_learning_rate_scale(0.5);
  EXPECT_THAT(RenderReport(report), HasSubstr(line));
}

TEST_F(ClusterReportTest, NobodyAtTheAddressIsAnErrorThatNamesIt) {
  EXPECT_EQ(ReportAt("x:1").status(),
            absl::UnavailableError("x:1 can't be reached: refused"));
}

TEST_F(ClusterReportTest, PeopleReadOneLineForEachProcessAndWhoWaits) {
  EXPECT_EQ(RenderReport(*ReportAt("p0:1")),
            "job j: running, epoch 1.50 of 5, step 0, 1 ps and 2 workers, "
            "staleness 8\n"
            "pushes lost: 0, doubled: 0\n"
            "asked ps-0 at p0:1: paramd 0.1 abc, up 2 min 5 s, incarnation "
            "0000000000000abc, generation none, configuration none\n"
            "\n"
            "process           state    heard  generation  host:pid  address\n"
            "ps-0              alive    0.4 s  1.3         box:41    p0:1     "
            "1.0 MB · 6,122 pulls · 0 blocks applied\n"
            "worker-0 (chief)  alive    –      –           –         w0:1     "
            "0 ex/s · loss 0.391 · 1,534 pushes\n"
            "worker-1          awaited  –      –           –         w1:1     "
            "no answer: refused\n"
            "\n"
            "coordinator waits for worker-1 to join, for 12 s\n");
}

TEST_F(ClusterReportTest, AWorkerThatHasJoinedIsShownAsOneWhereverItListens) {
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), Not(HasSubstr("joined")));
  v1::JobStats* const job = replies_["w0:1"].mutable_job();
  job->set_joined_workers(1);
  job->set_max_joined_workers(4);
  AddMember(v1::WORKER, 2, v1::Member::ALIVE, "");
  job->mutable_members(3)->set_joined(true);
  job->mutable_members(3)->set_pushes(1200);
  const std::string text = RenderReport(*ReportAt("p0:1"));
  EXPECT_THAT(text, HasSubstr("1 ps and 2 workers, 1 of at most 4 joined, "));
  EXPECT_THAT(text, HasSubstr("worker-2 (joined)  alive"));
  EXPECT_THAT(
      text,
      HasSubstr("1,200 pushes · the chief is told no address (--listen)"));
  job->mutable_members(3)->set_address("w2:1");
  *replies_["w2:1"].mutable_task() = TaskOf(v1::WORKER, 2);
  replies_["w2:1"].mutable_worker()->set_pushes(1201);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), HasSubstr("1,201 pushes"));
}

TEST_F(ClusterReportTest, AJobThatIsBeingScaledSaysWhatThatWaitsFor) {
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), Not(HasSubstr("scaled")));
  v1::Scaling* const scaling =
      replies_["w0:1"].mutable_job()->mutable_scaling();
  scaling->set_servers(2);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("\nbeing scaled to 2 ps\n"));
  scaling->set_waiting_for("ps-2 to end");
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("\nbeing scaled to 2 ps: waits for ps-2 to end\n"));
}

TEST_F(ClusterReportTest, AServerThatIsMovedIsSaid) {
  v1::Balance::Moved* const moving =
      replies_["w0:1"].mutable_job()->mutable_balance()->mutable_moving();
  moving->set_what("server 1 from ps-0 to ps-1");
  moving->set_why("ps-0 spends most");
  EXPECT_THAT(
      RenderReport(*ReportAt("p0:1")),
      HasSubstr("\nmoves server 1 from ps-0 to ps-1: ps-0 spends most\n"));
}

TEST_F(ClusterReportTest, AWorkerOfFp16ShowsItsLossScale) {
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), Not(HasSubstr("loss scale")));
  replies_["w0:1"].mutable_worker()->set_loss_scale(32768);
  replies_["w0:1"].mutable_worker()->set_overflows(1201);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("1,534 pushes · loss scale 32768, 1,201 overflows\n"));
}

TEST_F(ClusterReportTest, Promise4_WhoWaitsIsNamedWithItsGeneration) {
  v1::StatusReply& ps = replies_["p0:1"];
  ps.mutable_generation()->set_term(1);
  ps.mutable_generation()->set_counter(3);
  v1::Wait* const wait = ps.add_waits();
  wait->set_who("ps-0");
  wait->set_whom("the coordinator to call again");
  wait->set_since_ms(7000);
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")),
              HasSubstr("\nps-0 generation 1.3 waits for the coordinator to "
                        "call again, for 7.0 s\n"));
}

TEST_F(ClusterReportTest, WhatAServerLostIsShownWithItAndWithTheJob) {
  replies_["p0:1"].mutable_server()->set_pushes_lost(1234);
  replies_["w0:1"].mutable_job()->set_pushes_lost(1240);
  replies_["w0:1"].mutable_job()->set_pushes_doubled(2);
  const std::string text = RenderReport(*ReportAt("p0:1"));
  EXPECT_THAT(text, HasSubstr("pushes lost: 1,240, doubled: 2\n"));
  EXPECT_THAT(text, HasSubstr("0 blocks applied · 1,234 pushes lost\n"));
}

TEST_F(ClusterReportTest, ATableThatIsTooSmallIsNamedForAllServers) {
  AddMember(v1::PS, 1, v1::Member::ALIVE, "p1:1");
  *replies_["p1:1"].mutable_task() = TaskOf(v1::PS, 1);
  replies_["p1:1"].mutable_server()->set_restored(true);
  replies_["w0:1"].mutable_job()->set_servers(2);
  for (const char* const address : {"p0:1", "p1:1"}) {
    v1::TableStats* const table =
        replies_[address].mutable_server()->add_tables();
    table->set_variable("user/table");
    table->set_rows(500);
    table->set_capacity(500);
    table->set_created(2000);
    table->set_keys(1900);
  }
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), Not(HasSubstr("too small")));
  replies_["p1:1"].mutable_server()->mutable_tables(0)->set_evicted(1500);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("\nthe table user/table is too small: 1500 of the 4000 "
                        "rows"));
  // Of a part of it nobody knows what would do.
  replies_["p0:1"].clear_server();
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")), Not(HasSubstr("too small")));
  EXPECT_EQ(TablesOf(*ReportAt("p0:1"))[0].capacity(), 500u);
}

TEST_F(ClusterReportTest, InputThatGrowsIsShownWithWhatIsSavedOfIt) {
  v1::GrowingInput& input =
      *replies_["w0:1"].mutable_job()->mutable_growing_input();
  input.set_files(1);
  input.set_examples(3000);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("input: 3,000 examples in 1 file, and more may come; "
                        "no checkpoint has a whole epoch of it\n"));
  input.set_files(2);
  input.set_saved_epochs(1);
  input.set_ended(true);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("in 2 files, and no more come; the newest checkpoint "
                        "has epochs 1 to 1\n"));
  input.set_held_messages(1200);
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("held for their clicks: 1,200 messages\n"));
}

TEST_F(ClusterReportTest, EachSliceOfAnEvaluationHasALineButNotOfVeryMany) {
  v1::Evaluation& evaluation =
      *replies_["w0:1"].mutable_job()->mutable_evaluation();
  evaluation.set_examples(8);
  evaluation.set_epoch(3);
  (*evaluation.mutable_metrics())["auc"] = 0.75;
  for (const uint32_t value : {2u, 10u}) {
    v1::EvaluatedSlice* const slice = evaluation.add_slices();
    slice->set_feature("device");
    slice->set_value(value);
    slice->set_examples(1200 * value);
    (*slice->mutable_metrics())["auc"] = 0.5;
    (*slice->mutable_metrics())["calibration"] = 1.25;
  }
  EXPECT_THAT(
      RenderReport(*ReportAt("p0:1")),
      HasSubstr("test auc: 0.750 after epoch 3\n"
                "  device=2   auc 0.500, calibration 1.25 (2,400 examples)\n"
                "  device=10  auc 0.500, calibration 1.25 (12,000 "
                "examples)\n"));
  const v1::EvaluatedSlice last = evaluation.slices(1);
  while (evaluation.slices_size() < 40) *evaluation.add_slices() = last;
  EXPECT_THAT(RenderReport(*ReportAt("p0:1")),
              HasSubstr("\n  and 24 slices more: paramd status --format "
                        "json\n"));
}

TEST_F(ClusterReportTest, AWorkerThatWaitsForInputNamesItsSlowestStage) {
  v1::InputStats& input = *replies_["w0:1"].mutable_worker()->mutable_input();
  input.add_stages()->set_name("read");
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")), Not(HasSubstr("input")))
      << "before the first batch";
  input.clear_stages();
  input.set_wait_seconds(0.9);
  input.set_elapsed_seconds(10);
  for (const auto& [name, seconds] : {std::pair<const char*, double>{"read", 2},
                                      {"resize", 5},
                                      {"batch", 1}}) {
    input.add_stages()->set_name(name);
    input.mutable_stages(input.stages_size() - 1)->set_seconds(seconds);
  }
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")), Not(HasSubstr("input")));
  input.set_wait_seconds(4);
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")),
              HasSubstr(" · 40% waiting for input: resize takes the most\n"));
}

TEST_F(ClusterReportTest, TheFullestServerIsNamedOnceAllHoldTheirs) {
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")), Not(HasSubstr("balance")))
      << "one server has all";
  v1::StatusReply& second = replies_["p1:1"];
  *second.mutable_task() = TaskOf(v1::PS, 1);
  second.mutable_server()->set_bytes(1560000);
  replies_["w0:1"].mutable_job()->set_servers(2);
  AddMember(v1::PS, 1, v1::Member::ALIVE, "p1:1");
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")), Not(HasSubstr("balance")))
      << "it is still filled";
  second.mutable_server()->set_restored(true);
  EXPECT_THAT(
      RenderReport(*ReportAt("w0:1")),
      HasSubstr("balance: ps-1 has the most, 1.6 MB, 1.20 times its share\n"));
  replies_.erase("p1:1");
  EXPECT_THAT(RenderReport(*ReportAt("w0:1")), Not(HasSubstr("balance")))
      << "it does not answer";
}

TEST_F(ClusterReportTest, ProgramsReadEveryKeyAlsoOfZero) {
  const std::string json = *ReportJson(*ReportAt("p0:1"));
  EXPECT_THAT(json, HasSubstr("\"asked\": \"p0:1\""));
  EXPECT_THAT(json, HasSubstr("\"global_step\": 0"));
  EXPECT_THAT(json, HasSubstr("\"state\": \"AWAITED\""));
  EXPECT_THAT(json, HasSubstr("\"silent_ms\": 400"));
  EXPECT_THAT(json, Not(HasSubstr("\"evaluation\"")));
}

// Every key of `type` and of what it holds, as "job.members[].state".
void AppendKeys(const google::protobuf::Descriptor& type,
                const std::string& around, std::vector<std::string>* keys) {
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const std::string key = absl::StrCat(around, field.name());
    // `job` is left out of each process's own status.
    if (key == "processes[].status.job") continue;
    keys->push_back(key);
    // Each shard is a process of the report.
    if (key == "processes[].status.shards") continue;
    if (field.message_type() == nullptr || field.is_map() ||
        field.message_type()->FindFieldByName("counter") != nullptr) {
      continue;  // A number has no keys of its own that a page would explain.
    }
    AppendKeys(*field.message_type(),
               absl::StrCat(key, field.is_repeated() ? "[]." : "."), keys);
  }
}

TEST_F(ClusterReportTest, EveryKeyIsDocumented) {
  std::ifstream file("docs/operating.md", std::ios::binary);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> keys;
  AppendKeys(*v1::ClusterReport::descriptor(), "", &keys);
  EXPECT_GT(keys.size(), 60u);
  for (const std::string& key : keys) {
    EXPECT_TRUE(absl::StrContains(page, absl::StrCat("`", key, "`")))
        << "docs/operating.md does not explain the key " << key;
  }
}

}  // namespace
}  // namespace paramd
