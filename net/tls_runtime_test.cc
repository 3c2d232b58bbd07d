// Processes that speak TLS: who is let in, and what the others are told.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "gtest/gtest.h"

#include "net/caller.h"
#include "net/grpc_runtime.h"
#include "net/operator_socket.h"
#include "net/testing/certificates.h"
#include "net/testing/grpc_runtime_test_base.h"
#include "net/testing/raw_caller.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "proto/refusal.h"

// gRPC may join the threads that watch certificates after the end of main.
extern "C" const char* __tsan_default_options() {
  return "report_thread_leaks=0";
}

namespace paramd {
namespace {

using testing::kIncarnation;
using testing::kPull;
using testing::kPush;
using testing::OperatorSocketOf;
using testing::ProcessOptions;
using testing::RunningProcess;

constexpr char kSeal[] = "/paramd.v1.ParameterServer/Seal";
constexpr char kStatus[] = "/paramd.v1.Control/Status";
constexpr char kHelloMethod[] = "/paramd.v1.Control/Hello";
constexpr char kCheckMethod[] = "/grpc.health.v1.Health/Check";
constexpr char kReflection[] =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

// Of an intruder, who checks nothing: of the files in a directory, or without a
// certificate if it has no tls.crt.
std::shared_ptr<grpc::ChannelCredentials> IntrudersCredentials(
    const std::string& directory, bool has_certificate = true) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  const std::string authority = directory + "/ca.crt";
  if (has_certificate) {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            directory + "/tls.key", directory + "/tls.crt", authority, 1));
    options.watch_identity_key_cert_pairs();
  } else {
    options.set_certificate_provider(
        std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
            authority, 1));
  }
  options.watch_root_certs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

class TlsRuntimeTest : public ::testing::Test {
 protected:
  TlsRuntimeTest() { StartServer(TlsOf(ps_directory_, "job", "ps-0")); }

  // ps-0, with these credentials or, if null, without TLS.
  void StartServer(std::shared_ptr<Tls> tls) {
    ps_.reset();
    do {
      host_ = DrawLoopbackHost();
      address_ = absl::StrCat(host_, ":2222");
      GrpcRuntimeOptions options = ProcessOptions(v1::PS, 0, address_);
      options.tls = tls;
      options.health_address = absl::StrCat(host_, ":2224");
      auto runtime = MakeGrpcRuntime(options);
      if (!runtime.ok()) continue;
      ps_ = std::make_unique<RunningProcess>(*std::move(runtime));
    } while (ps_ == nullptr);
    ps_->runtime().AddCore(PeerId::Ps(0), &shard_);
    shard_.on_receive = [this](Message m, Time, Outbox* out) {
      ++received_;
      Outbox::Head reply;
      if (m.head->GetDescriptor() == v1::PullRequest::descriptor()) {
        reply = std::make_unique<v1::PullReply>();
      } else {
        reply = std::make_unique<v1::PushReply>();
      }
      out->Reply(m.call, std::move(reply));
    };
    ps_->Start();
  }

  // What worker-1 is told that pulls from ps-0: the first answer.
  absl::Status PullBy(std::shared_ptr<Tls> tls) {
    GrpcRuntimeOptions options =
        ProcessOptions(v1::WORKER, 1, absl::StrCat(host_, ":2223"));
    options.tls = std::move(tls);
    options.peers = {{PeerId::Ps(0), address_}};
    auto runtime = MakeGrpcRuntime(options);
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    ToyCore worker;
    absl::Status told;
    worker.on_start = [&](Time, Outbox* out) {
      out->Send(PeerId::Ps(0), 1, std::make_unique<v1::PullRequest>(), {},
                absl::Seconds(60));
    };
    worker.on_receive = [&](Message m, Time, Outbox* out) {
      told = m.status;
      out->Exit(absl::OkStatus());
    };
    (*runtime)->AddCore(PeerId::Worker(1), &worker);
    EXPECT_TRUE((*runtime)->Run().ok());
    return told;
  }

  // What a stranger is told who shows that.
  absl::Status CallBy(std::shared_ptr<grpc::ChannelCredentials> credentials,
                      const char* method, const std::string& who,
                      const std::string& request = "") {
    return RawCaller(address_, ProcessText(kIncarnation),
                     std::move(credentials))
        .Call(method, who, request)
        .status();
  }
  // The same with a certificate of the job's own authority.
  std::shared_ptr<grpc::ChannelCredentials> Certified(
      const std::string& task, const std::string& job = "job") {
    return IntrudersCredentials(CertificateDirectory(authority_, job, task));
  }

  void ExpectSays(const absl::Status& status, const std::string& text) {
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(),
                                 absl::StrCat("ps-0 at ", address_, ": ")))
        << status;
  }

  const Authority authority_ = MakeAuthority("job");
  const std::string ps_directory_ =
      CertificateDirectory(authority_, "job", "ps-0");
  std::string host_, address_;
  ToyCore shard_;
  std::atomic<int> received_{0};
  std::unique_ptr<RunningProcess> ps_;
};

TEST_F(TlsRuntimeTest, AWorkerWithItsCertificateIsServed) {
  const std::string directory =
      CertificateDirectory(authority_, "job", "worker-1");
  EXPECT_TRUE(PullBy(TlsOf(directory, "job", "worker-1")).ok());
  EXPECT_EQ(received_, 1);
}

TEST_F(TlsRuntimeTest, WhoIsNotLetInLearnsWhy) {
  ExpectSays(PullBy(nullptr), "if it speaks TLS, give this process --tls_dir");
  // Certificates of an authority that the server does not know, and that does
  // not know the server's.
  const Authority other = MakeAuthority("job");
  const std::string directory = CertificateDirectory(other, "job", "worker-1");
  ExpectSays(PullBy(TlsOf(directory, "job", "worker-1")),
             "no TLS connection: the certificate of the other side has "
             "expired, or is not of an authority in ca.crt");
  // It knows the server's, but the server not its.
  WriteText(directory + "/ca.crt",
            authority_.pem().certificate + other.pem().certificate);
  ExpectSays(PullBy(TlsOf(directory, "job", "worker-1")),
             "it may not take the certificate of spiffe://paramd/job/worker/1");
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, AnotherServerIsNotTakenForTheOneThatIsMeant) {
  StartServer(
      TlsOf(CertificateDirectory(authority_, "job", "ps-1"), "job", "ps-1"));
  const std::string directory =
      CertificateDirectory(authority_, "job", "worker-1");
  ExpectSays(PullBy(TlsOf(directory, "job", "worker-1")),
             "the certificate of the process there is for "
             "'spiffe://paramd/job/ps/1'; expected spiffe://paramd/job/ps/0");
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, AServerWithoutTlsIsNotBelieved) {
  StartServer(nullptr);
  const std::string directory =
      CertificateDirectory(authority_, "job", "worker-1");
  ExpectSays(PullBy(TlsOf(directory, "job", "worker-1")),
             "no TLS connection: the other side speaks no TLS");
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, IntrudersReachNoCore) {
  const absl::Time past = absl::Now() - absl::Hours(1);
  const std::vector<std::shared_ptr<grpc::ChannelCredentials>> at_the_door = {
      nullptr,  // No TLS.
      // No certificate, one that has expired, one of another authority.
      IntrudersCredentials(ps_directory_, /*has_certificate=*/false),
      IntrudersCredentials(
          CertificateDirectory(authority_, "job", "worker-1", past)),
      IntrudersCredentials(
          CertificateDirectory(MakeAuthority("job"), "job", "worker-1"))};
  for (const auto& credentials : at_the_door) {
    for (const char* method : {kPull, kPush, kStatus, kReflection}) {
      EXPECT_EQ(CallBy(credentials, method, "worker/1").code(),
                absl::StatusCode::kUnavailable);
    }
  }
  // Another job of the same authority.
  for (const char* method : {kPull, kPush, kStatus, kHelloMethod}) {
    const absl::Status refused =
        CallBy(Certified("worker-1", "other"), method, "worker/1");
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_ALLOWED);
    EXPECT_TRUE(absl::StrContains(refused.message(),
                                  "has a certificate of another job, "
                                  "spiffe://paramd/other/worker/1; this is job "
                                  "'job'"))
        << refused;
  }
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, ARoleIsWhatTheCertificateSays) {
  const auto worker = Certified("worker-1");
  EXPECT_EQ(CallBy(worker, kSeal, "worker/1").message(),
            "Seal is for chief; the caller is worker");
  for (const char* who : {"chief/0", "ps/0", "worker/2", "operator/0"}) {
    const absl::Status refused = CallBy(worker, kSeal, who);
    EXPECT_EQ(RefusalOf(refused).reason(), v1::Refusal::NOT_ALLOWED);
    EXPECT_TRUE(absl::StrContains(refused.message(),
                                  absl::StrCat("says it is ", who,
                                               "; its certificate is that of "
                                               "spiffe://paramd/job/worker/1")))
        << refused;
  }
  EXPECT_EQ(received_, 0);
  EXPECT_TRUE(CallBy(worker, kPush, "worker/1").ok());
  EXPECT_TRUE(CallBy(worker, kPull, "").ok());
  EXPECT_TRUE(CallBy(Certified("operator-0"), kStatus, "operator/0").ok());
  EXPECT_TRUE(CallBy(Certified("reader-0"), kStatus, "").ok());
  EXPECT_EQ(CallBy(Certified("reader-0"), kPull, "").message(),
            "Pull is for members of the job and operators; the caller is "
            "reader");
  EXPECT_EQ(received_, 2);
}

TEST_F(TlsRuntimeTest, AHelloSaysWhatTheCertificateSays) {
  v1::HelloRequest hello;
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  hello.mutable_task()->set_type(v1::WORKER);
  hello.mutable_task()->set_index(2);
  const absl::Status refused = CallBy(Certified("worker-1"), kHelloMethod,
                                      "worker/1", hello.SerializeAsString());
  EXPECT_TRUE(absl::StrContains(refused.message(), "says it is WORKER 2"))
      << refused;
  hello.mutable_task()->set_index(1);
  EXPECT_TRUE(CallBy(Certified("worker-1"), kHelloMethod, "worker/1",
                     hello.SerializeAsString())
                  .ok());
}

TEST_F(TlsRuntimeTest, OperatorsNeedNoCertificateOnTheUnixSocket) {
  const auto socket = OperatorAddress::Of(OperatorSocketOf(address_));
  ASSERT_TRUE(socket.ok()) << socket.status();
  RawCaller caller((*socket)->target(), ProcessText(kIncarnation));
  EXPECT_TRUE(caller.Call(kStatus, "operator/0", "").ok());
  EXPECT_TRUE(caller.Call(kStatus, "", "").ok());
  const absl::Status worker = caller.Call(kPush, "worker/1", "").status();
  EXPECT_TRUE(
      absl::StrContains(worker.message(), "the Unix socket is for operators"))
      << worker;
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, HealthHasAPortOfItsOwnWithNothingElse) {
  RawCaller probe(absl::StrCat(host_, ":2224"));
  for (const char* service : {"", "readiness", "liveness", "restored"}) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    const auto answer =
        probe.Call(kCheckMethod, "", request.SerializeAsString());
    ASSERT_TRUE(answer.ok()) << answer.status();
    grpc::health::v1::HealthCheckResponse response;
    ASSERT_TRUE(response.ParseFromString(*answer));
    const bool is_held = absl::string_view(service) != "restored";
    EXPECT_EQ(
        response.status() == grpc::health::v1::HealthCheckResponse::SERVING,
        is_held)
        << service;
  }
  for (const char* method :
       {kPull, kPush, kSeal, kStatus, kHelloMethod, kReflection}) {
    EXPECT_EQ(probe.Call(method, "chief/0", "").status().code(),
              absl::StatusCode::kUnimplemented)
        << method;
  }
  EXPECT_EQ(
      probe.Call(kCheckMethod, "", std::string(5000, 'x')).status().code(),
      absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(received_, 0);
}

TEST_F(TlsRuntimeTest, OnlyWithTlsOrInsecureIsHealthServedBeyondThisMachine) {
  GrpcRuntimeOptions options =
      ProcessOptions(v1::WORKER, 1, absl::StrCat(host_, ":2223"));
  options.health_address = "0.0.0.0:0";
  const auto refused = MakeGrpcRuntime(options);
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "0.0.0.0:0"))
      << refused.status();
  options.tls = TlsOf(CertificateDirectory(authority_, "job", "worker-1"),
                      "job", "worker-1");
  EXPECT_TRUE(MakeGrpcRuntime(options).ok());
}

// The server goes over to another authority while somebody pushes.
TEST_F(TlsRuntimeTest, ARotationLosesNoPush) {
  RawCaller pusher(address_, ProcessText(kIncarnation), Certified("worker-1"));
  ASSERT_TRUE(pusher.Call(kPush, "worker/1", "").ok());
  const Authority next = MakeAuthority("job");
  const auto pair =
      next.Issue(*NameOfTask("job", "ps-0"),
                 {absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1)});
  WriteText(ps_directory_ + "/tls.key", pair->key);
  WriteText(ps_directory_ + "/tls.crt", pair->certificate);
  WriteText(ps_directory_ + "/ca.crt", next.pem().certificate);
  const std::string directory = CertificateDirectory(next, "job", "worker-2");
  const auto tls = TlsOf(directory, "job", "worker-2");
  bool is_new = false;
  int pushes = 1;
  while (!is_new) {
    ASSERT_TRUE(pusher.Call(kPush, "worker/1", "").ok());
    ++pushes;
    RawCaller caller(address_, ProcessText(kIncarnation),
                     tls->CredentialsFor(*NameOfTask("job", "ps-0")));
    is_new = caller.Call(kStatus, "", "").ok();
  }
  ASSERT_TRUE(pusher.Call(kPush, "worker/1", "").ok());
  EXPECT_EQ(received_, pushes + 1);
  // Who comes with the old one now is not let in.
  EXPECT_FALSE(CallBy(Certified("worker-1"), kPush, "worker/1").ok());
}

}  // namespace
}  // namespace paramd
