#include "process/observe/process_loads.h"

#include <gtest/gtest.h>

#include <string>

namespace paramd {
namespace {

using Process = v1::StatusPage::Process;

class ProcessLoadsTest : public ::testing::Test {
 protected:
  ProcessLoadsTest() {
    for (const char* const name : {"ps-0", "worker-1"}) {
      v1::ProcessAnswer* const answer = report_.add_processes();
      answer->set_name(name);
      answer->mutable_status()->set_incarnation(7);
      answer->mutable_status()->set_uptime_ms(60000);
      answer->mutable_status()->set_processor_ms(5000);
    }
  }

  v1::StatusReply* Status(int i) {
    return report_.mutable_processes(i)->mutable_status();
  }
  // Two seconds after the report before.
  void Next() {
    for (v1::ProcessAnswer& answer : *report_.mutable_processes()) {
      if (!answer.has_status()) continue;
      v1::StatusReply* const status = answer.mutable_status();
      status->set_uptime_ms(status->uptime_ms() + 2000);
    }
    loads_.Add(report_);
  }
  void Compute(int i, uint64_t ms) {
    Status(i)->set_processor_ms(Status(i)->processor_ms() + ms);
  }
  Process LoadOf(const std::string& name, const std::string& state = "alive") {
    Process process;
    process.set_name(name);
    process.set_state(state);
    loads_.Fill(&process);
    return process;
  }

  v1::ClusterReport report_;
  ProcessLoads loads_;
};

TEST_F(ProcessLoadsTest, FiguresAreOfTheTimeBetweenTwoReports) {
  v1::CallStats* const call = Status(0)->add_calls();
  call->set_received_bytes(1000);
  Next();
  EXPECT_EQ(LoadOf("ps-0").load(), Process::LOAD_UNKNOWN);
  EXPECT_FALSE(LoadOf("ps-0").has_busy_percent());
  Compute(0, 3000);
  Compute(1, 100);
  call->set_received_bytes(1000 + 3000);
  call->set_sent_bytes(1000);
  Next();
  EXPECT_EQ(LoadOf("ps-0").load(), Process::BUSY);
  EXPECT_EQ(LoadOf("ps-0").busy_percent(), 150);
  EXPECT_EQ(LoadOf("ps-0").bytes_per_second(), 2000);
  EXPECT_FALSE(LoadOf("ps-0").has_input_wait_percent());
  EXPECT_EQ(LoadOf("worker-1").load(), Process::IDLE);
  EXPECT_EQ(LoadOf("worker-1").busy_percent(), 5);
  EXPECT_EQ(LoadOf("worker-1").bytes_per_second(), 0);
  EXPECT_EQ(LoadOf("worker-7").load(), Process::LOAD_UNKNOWN);
}

TEST_F(ProcessLoadsTest, WhoWaitsForOthersOrForItsInputWaits) {
  v1::InputStats* const input = Status(1)->mutable_worker()->mutable_input();
  Next();
  Compute(0, 2000);
  Compute(1, 500);
  input->set_elapsed_seconds(2);
  input->set_wait_seconds(1.5);
  Next();
  EXPECT_EQ(LoadOf("worker-1").load(), Process::WAITING);
  EXPECT_EQ(LoadOf("worker-1").input_wait_percent(), 75);
  EXPECT_EQ(LoadOf("ps-0").load(), Process::BUSY);
  EXPECT_EQ(LoadOf("ps-0", "waits").load(), Process::WAITING);
  input->set_elapsed_seconds(4);
  Compute(1, 2000);
  Next();
  EXPECT_EQ(LoadOf("worker-1").load(), Process::BUSY);
  EXPECT_EQ(LoadOf("worker-1").input_wait_percent(), 0);
}

TEST_F(ProcessLoadsTest, OfAnotherLifeOrOfSilenceNothingIsKnown) {
  Next();
  Status(0)->set_incarnation(8);
  report_.mutable_processes(1)->clear_status();
  Next();
  EXPECT_FALSE(LoadOf("ps-0").has_busy_percent());
  EXPECT_FALSE(LoadOf("worker-1").has_busy_percent());
  Status(1)->set_incarnation(7);
  Next();
  EXPECT_EQ(LoadOf("ps-0").busy_percent(), 0);
  EXPECT_FALSE(LoadOf("worker-1").has_busy_percent());
}

}  // namespace
}  // namespace paramd
