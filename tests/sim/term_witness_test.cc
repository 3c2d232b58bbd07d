#include "tests/sim/term_witness.h"

#include "gtest/gtest.h"

#include "proto/paramd/v1/control.pb.h"

namespace paramd {
namespace {

v1::RecallRequest RecallOf(uint64_t term) {
  v1::RecallRequest request;
  request.mutable_header()->set_term(term);
  return request;
}

v1::ConfigureRequest ConfigurationOf(uint64_t term) {
  v1::ConfigureRequest request;
  request.mutable_configuration()->mutable_version()->set_term(term);
  return request;
}

TEST(TermWitnessTest, AServerObeysNoLowerTermThanBefore) {
  TermWitness witness;
  const SimProcess server = {PeerId::Ps(0), 1};
  EXPECT_TRUE(witness.Obeyed(server, ConfigurationOf(2)).ok());
  EXPECT_TRUE(witness.Obeyed(server, RecallOf(3)).ok());
  EXPECT_TRUE(witness.Obeyed(server, ConfigurationOf(3)).ok());
  EXPECT_TRUE(absl::IsDataLoss(witness.Obeyed(server, ConfigurationOf(2))));
  EXPECT_TRUE(absl::IsDataLoss(witness.Obeyed(server, RecallOf(2))));
}

TEST(TermWitnessTest, ANewProcessHasHeardOfNobody) {
  TermWitness witness;
  EXPECT_TRUE(witness.Obeyed({PeerId::Ps(0), 1}, ConfigurationOf(3)).ok());
  EXPECT_TRUE(witness.Obeyed({PeerId::Ps(0), 2}, ConfigurationOf(2)).ok());
  EXPECT_TRUE(witness.Obeyed({PeerId::Ps(0), 1}, v1::ConfigureReply()).ok());
}

}  // namespace
}  // namespace paramd
