#include "net/method_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "net/wire_message.h"

namespace paramd {
namespace {

TEST(MethodTableTest, AMethodIsKnownByItsRequest) {
  const Method* pull =
      MethodTable::Get().OfRequest(v1::PullRequest::descriptor());
  ASSERT_NE(pull, nullptr);
  EXPECT_EQ(pull->path, "/paramd.v1.ParameterServer/Pull");
  EXPECT_EQ(pull->reply->GetDescriptor(), v1::PullReply::descriptor());
  EXPECT_EQ(pull->served_by, PeerId::Kind::kPs);
  EXPECT_TRUE(pull->bulk);
  EXPECT_THAT(pull->callers, ::testing::ElementsAre(v1::ROLE_ANYONE));

  const Method* join =
      MethodTable::Get().OfRequest(v1::JoinRequest::descriptor());
  ASSERT_NE(join, nullptr);
  EXPECT_EQ(join->served_by, PeerId::Kind::kCoordinator);
  EXPECT_FALSE(join->bulk);
  EXPECT_EQ(MethodTable::Get().OfRequest(v1::PullReply::descriptor()), nullptr);
}

TEST(MethodTableTest, EveryMethodHasItsOwnRequestAndCallers) {
  for (const Method& method : MethodTable::Get().methods()) {
    EXPECT_EQ(MethodTable::Get().OfRequest(method.request->GetDescriptor()),
              &method);
    EXPECT_FALSE(method.callers.empty()) << method.path;
  }
}

TEST(MethodTableTest, WhatCarriesAPayloadIsBulk) {
  for (const Method& method : MethodTable::Get().methods()) {
    if (HasPayloadField(method.request->GetDescriptor()) ||
        HasPayloadField(method.reply->GetDescriptor())) {
      EXPECT_TRUE(method.bulk) << method.path;
    }
  }
}

}  // namespace
}  // namespace paramd
