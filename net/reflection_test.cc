#include "net/reflection.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

#include "net/testing/raw_stream.h"
#include "net/testing/stream_loop.h"
#include "proto/grpc/reflection/v1/reflection.pb.h"
#include "proto/paramd/v1/services.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::ElementsAre;

constexpr char kV1[] =
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kV1Alpha[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

class ReflectionTest : public ::testing::Test {
 protected:
  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    EXPECT_TRUE(call_.Send(request));
    return call_.ReadAs<ServerReflectionResponse>();
  }
  ServerReflectionResponse AskForSymbol(const std::string& symbol) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    return Ask(request);
  }
  static std::vector<std::string> Files(const ServerReflectionResponse& told) {
    std::vector<std::string> names;
    for (const std::string& bytes :
         told.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.push_back(file.name());
    }
    return names;
  }

  Reflection reflection_{
      {v1::MethodRules::descriptor()->file()},
      [](const auto* service) { return service->name() != "Coordinator"; }};
  StreamLoop loop_{
      [this](StreamServer* streams) { reflection_.AddTo(streams); }};
  RawStream call_{loop_.address(), kV1};
};

TEST_F(ReflectionTest, TheServicesThatAreServedAreListed) {
  ServerReflectionRequest request;
  request.set_host("here");
  request.set_list_services("");
  const ServerReflectionResponse told = Ask(request);
  std::vector<std::string> names;
  for (const auto& service : told.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names,
              ElementsAre("paramd.v1.Control", "paramd.v1.ParameterServer",
                          "grpc.reflection.v1.ServerReflection",
                          "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_EQ(told.valid_host(), "here");
  EXPECT_TRUE(told.original_request().has_list_services());
}

TEST_F(ReflectionTest, AFileComesWithWhatItImportsEachOnce) {
  ServerReflectionRequest request;
  request.set_file_by_filename("proto/paramd/v1/snapshot.proto");
  EXPECT_THAT(Files(Ask(request)), ElementsAre("proto/paramd/v1/snapshot.proto",
                                               "proto/paramd/v1/types.proto"));
  std::vector<std::string> all = Files(AskForSymbol("paramd.v1.Control"));
  EXPECT_EQ(all[0], "proto/paramd/v1/services.proto");
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all[0], "google/protobuf/descriptor.proto");
}

TEST_F(ReflectionTest, AnySymbolIsFound) {
  for (const char* symbol :
       {"paramd.v1.Control.Status", "paramd.v1.StatusRequest",
        "paramd.v1.HelloRequest.pid", "paramd.v1.JobState",
        "grpc.reflection.v1alpha.ServerReflection"}) {
    EXPECT_FALSE(Files(AskForSymbol(symbol)).empty()) << symbol;
  }
}

TEST_F(ReflectionTest, WhatIsNotThereIsNotFoundAndTheCallGoesOn) {
  const ServerReflectionResponse told = AskForSymbol("paramd.v1.Nothing");
  EXPECT_EQ(told.error_response().error_code(), 5);
  EXPECT_EQ(told.error_response().error_message(),
            "there is no 'paramd.v1.Nothing'");
  ServerReflectionRequest request;
  request.set_file_by_filename("nothing.proto");
  EXPECT_EQ(Ask(request).error_response().error_code(), 5);
  EXPECT_FALSE(Files(AskForSymbol("paramd.v1.Control")).empty());
}

TEST_F(ReflectionTest, QuestionsAboutExtensionsAreUnimplemented) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  EXPECT_EQ(Ask(request).error_response().error_code(), 12);
  request.mutable_file_containing_extension()->set_extension_number(50002);
  EXPECT_EQ(Ask(request).error_response().error_code(), 12);
  EXPECT_EQ(Ask(ServerReflectionRequest()).error_response().error_code(), 12);
}

TEST_F(ReflectionTest, TheOlderVersionIsAnsweredAlike) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol("paramd.v1.Control");
  RawStream older(loop_.address(), kV1Alpha);
  EXPECT_TRUE(older.Send(request));
  EXPECT_EQ(older.ReadAs<ServerReflectionResponse>().SerializeAsString(),
            Ask(request).SerializeAsString());
  older.HalfClose();
  EXPECT_FALSE(older.Read().has_value());
  EXPECT_TRUE(older.Finish().ok());
}

TEST_F(ReflectionTest, BadRequestsEndTheCall) {
  ASSERT_TRUE(call_.Send("\xff"));
  EXPECT_FALSE(call_.Read().has_value());
  EXPECT_EQ(call_.Finish().code(), absl::StatusCode::kInvalidArgument);
  RawStream big(loop_.address(), kV1);
  ASSERT_TRUE(big.Send(std::string(1025, 'x')));
  EXPECT_FALSE(big.Read().has_value());
  EXPECT_EQ(RefusalOf(big.Finish()).reason(), v1::Refusal::OVER_LIMIT);
}

}  // namespace
}  // namespace paramd
