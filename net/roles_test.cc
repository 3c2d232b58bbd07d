// Who may call what: each role with each method, with and without certificates.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "net/caller.h"
#include "net/method_table.h"
#include "proto/paramd/v1/hello.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr char kMembers[] = "ps worker chief evaluator operator";
constexpr char kAll[] = "ps worker chief evaluator operator reader";

// With certificates. A method that is missing here fails the test.
const std::map<std::string, std::string>& Table() {
  static const auto* const table = new std::map<std::string, std::string>{
      {"Hello", kAll},
      {"Status", kAll},
      {"Stop", "operator"},
      {"Profile", "operator"},
      {"Trace", "operator"},
      {"Pull", kMembers},
      {"Push", "worker chief"},
      {"Recall", "chief"},
      {"Configure", "chief"},
      {"Seal", "chief"},
      {"Written", "chief"},
      {"FetchShard", "chief"},
      {"Fill", "chief"},
      {"Replicate", "ps"},
      {"Watch", "chief"},
      {"Decide", "chief"},
      {"TellClock", "worker chief"},
      {"Finish", "chief"},
      {"Enlist", "worker"},
      {"Join", "worker chief"},
      {"Heartbeat", "worker chief"},
      {"TakePortion", "worker chief"},
      {"Set", "operator"},
      {"Checkpoint", "operator"},
      {"StopJob", "operator"},
      {"Drain", "operator"},
      {"Scale", "operator"},
      {"GetConfiguration", kMembers},
      {"Beat", "worker chief"},
      {"ReadState", "worker chief"},
      {"GreetStage", "worker chief"},
      {"PutStageContent", "worker chief"},
      {"ComputeStage", "worker chief"},
      {"FetchStageResult", "worker chief"},
      {"ReleaseStage", "worker chief"},
  };
  return *table;
}

bool IsIn(const std::string& roles, const std::string& role) {
  for (const auto& one : absl::StrSplit(roles, ' ')) {
    if (one == role) return true;
  }
  return false;
}

struct Certified {
  std::string role;
  std::string uri;
  std::string text;  // What the call says.
};

const std::vector<Certified>& Callers() {
  static const auto* const callers = new std::vector<Certified>{
      {"ps", "spiffe://paramd/j/ps/1", "ps/1"},
      {"worker", "spiffe://paramd/j/worker/1", "worker/1"},
      {"worker", "spiffe://paramd/j/worker/0", "worker/0"},
      {"chief", "spiffe://paramd/j/worker/0", "chief/0"},
      {"evaluator", "spiffe://paramd/j/evaluator/0", ""},
      {"operator", "spiffe://paramd/j/operator/0", "operator/0"},
      // Who says nothing is who the certificate says.
      {"ps", "spiffe://paramd/j/ps/1", ""},
      {"worker", "spiffe://paramd/j/worker/0", ""},
      {"operator", "spiffe://paramd/j/operator/0", ""},
      {"reader", "spiffe://paramd/j/reader/0", "reader/0"},
      {"reader", "spiffe://paramd/j/reader/0", ""},
  };
  return *callers;
}

constexpr char kPeer[] = "ipv4:10.0.0.1:5";

absl::Status Try(const absl::StatusOr<Caller>& caller, const Method& method) {
  return caller.ok() ? CheckAllowed(*caller, method) : caller.status();
}

TEST(RolesTest, WithCertificatesEachCellIsAsTheTableSays) {
  const auto& methods = MethodTable::Get().methods();
  EXPECT_EQ(methods.size(), Table().size());
  for (const Method& method : methods) {
    ASSERT_EQ(Table().count(method.name), 1u) << method.name;
    for (const Certified& who : Callers()) {
      const absl::Status status =
          Try(ProveCaller(who.text, {kPeer, true, {who.uri}}, "j"), method);
      EXPECT_EQ(status.ok(), IsIn(Table().at(method.name), who.role))
          << method.name << " by " << who.uri << " as '" << who.text
          << "': " << status;
      if (!status.ok()) {
        EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::NOT_ALLOWED);
        EXPECT_TRUE(absl::StrContains(status.message(), method.name));
      }
    }
  }
}

TEST(RolesTest, WithTlsWhoeverProvesNothingMayCallNothing) {
  const std::vector<std::pair<std::string, Connection>> strangers = {
      {"", {kPeer, false, {}}},  // Nothing but his word.
      {"worker/1", {kPeer, false, {}}},
      {"chief/0", {kPeer, true, {}}},  // A certificate of nobody.
      {"", {kPeer, true, {"https://j/ps/1"}}},
      {"worker/1", {kPeer, true, {"spiffe://paramd/k/worker/1"}}},
      {"", {kPeer, true, {"spiffe://paramd/k/operator/0"}}},
      {"chief/0", {kPeer, true, {"spiffe://paramd/j/worker/1"}}},
      {"chief/0", {kPeer, true, {"spiffe://paramd/j/ps/0"}}},
      {"chief/0", {kPeer, true, {"spiffe://paramd/j/operator/0"}}},
      {"worker/2", {kPeer, true, {"spiffe://paramd/j/worker/1"}}},
      {"operator/0", {kPeer, true, {"spiffe://paramd/j/reader/0"}}},
      {"operator/0", {kPeer, true, {"spiffe://paramd/j/worker/0"}}},
      {"ps/0", {kPeer, true, {"spiffe://paramd/j/evaluator/0"}}},
      {"worker/1", {"unix:", false, {}}},  // The operators' socket.
      {"chief/0", {"unix:", false, {}}},
  };
  for (const Method& method : MethodTable::Get().methods()) {
    for (const auto& [text, connection] : strangers) {
      const absl::Status status =
          Try(ProveCaller(text, connection, "j"), method);
      EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::NOT_ALLOWED)
          << method.name << " by '" << text << "'";
    }
  }
}

TEST(RolesTest, WithTlsTheUnixSocketIsTheOperatorsStill) {
  for (const Method& method : MethodTable::Get().methods()) {
    EXPECT_EQ(
        Try(ProveCaller("operator/0", {"unix:", false, {}}, "j"), method).ok(),
        IsIn(Table().at(method.name), "operator"))
        << method.name;
  }
}

// There a role is what is claimed, and only operators' calls need more.
TEST(RolesTest, WithoutCertificatesEachCellIsAsTheTableSays) {
  for (const Method& method : MethodTable::Get().methods()) {
    const std::string& roles = Table().at(method.name);
    for (const char* role : {"ps", "worker", "chief", "reader"}) {
      const std::string text = absl::StrCat(role, "/0");
      EXPECT_EQ(Try(IdentifyCaller(text, kPeer), method).ok(),
                IsIn(roles, role))
          << method.name << " by " << role;
    }
    const bool is_open = IsIn(roles, "evaluator");
    EXPECT_EQ(Try(IdentifyCaller("", kPeer), method).ok(), is_open);
    EXPECT_EQ(Try(IdentifyCaller("operator/0", kPeer), method).ok(), is_open);
    EXPECT_EQ(Try(IdentifyCaller("operator/0", "unix:"), method).ok(),
              is_open || IsIn(roles, "operator"));
  }
}

TEST(RolesTest, ARefusalSaysWhoWasExpectedAndWhoCame) {
  EXPECT_EQ(
      ProveCaller("chief/0", {kPeer, true, {"spiffe://paramd/j/worker/1"}}, "j")
          .status()
          .message(),
      "the caller at 10.0.0.1:5 says it is chief/0; its certificate is "
      "that of spiffe://paramd/j/worker/1");
  EXPECT_EQ(ProveCaller("", {kPeer, true, {"spiffe://paramd/k/ps/0"}}, "j")
                .status()
                .message(),
            "the caller at 10.0.0.1:5 has a certificate of another job, "
            "spiffe://paramd/k/ps/0; this is job 'j': give it one of this job");
}

TEST(RolesTest, AMethodOfNobodyIsForNobody) {
  Method method;
  method.name = "New";
  for (const Certified& who : Callers()) {
    EXPECT_FALSE(
        Try(ProveCaller(who.text, {kPeer, true, {who.uri}}, "j"), method).ok());
  }
}

TEST(RolesTest, AHelloSaysTheTaskOfItsCertificate) {
  const Caller worker = *ProveCaller(
      "worker/1", {kPeer, true, {"spiffe://paramd/j/worker/1"}}, "j");
  v1::HelloRequest hello;
  hello.mutable_task()->set_type(v1::WORKER);
  hello.mutable_task()->set_index(1);
  EXPECT_TRUE(CheckHelloOf(worker, hello).ok());
  hello.mutable_task()->set_index(2);
  EXPECT_EQ(CheckHelloOf(worker, hello).message(),
            "the Hello of worker/1 at 10.0.0.1:5 says it is WORKER 2");
  hello.mutable_task()->set_type(v1::PS);
  hello.mutable_task()->set_index(1);
  EXPECT_FALSE(CheckHelloOf(worker, hello).ok());
  // Without certificates there is nothing to compare it with.
  EXPECT_TRUE(CheckHelloOf(*IdentifyCaller("worker/1", kPeer), hello).ok());
}

}  // namespace
}  // namespace paramd
