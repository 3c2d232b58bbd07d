#include "worker/core/same_model.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::Variable MakeVariable(const std::string& name,
                          std::vector<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  return variable;
}

class SameModelTest : public ::testing::Test {
 protected:
  SameModelTest() {
    *layout_.add_variables() = MakeVariable("w", {4, 2});
    *layout_.add_variables() = MakeVariable("b", {});
  }

  std::string Message(const std::vector<v1::Variable>& ours) const {
    return std::string(CheckSameModel(3, ours, layout_).message());
  }

  v1::Layout layout_;
};

TEST_F(SameModelTest, TheSameVariablesAreTheSameModel) {
  EXPECT_EQ(Message({MakeVariable("w", {4, 2}), MakeVariable("b", {})}), "");
}

TEST_F(SameModelTest, HowRowsAreNamedAndGivenUpIsPartOfIt) {
  v1::Variable keyed = MakeVariable("w", {4, 2});
  keyed.set_sparse(true);
  keyed.set_keyed(true);
  *layout_.mutable_variables(0) = keyed;
  const v1::Variable b = MakeVariable("b", {});
  EXPECT_EQ(Message({keyed, b}), "");
  v1::Variable ignoring = keyed;
  ignoring.set_when_full(v1::Variable::IGNORE);
  EXPECT_NE(Message({ignoring, b})
                .find("ignores new keys when it is full, the "
                      "chief's is 'w' of 4x2, sparse, keyed"),
            std::string::npos);
  v1::Variable strict = keyed;
  strict.set_admit_after(3);
  strict.set_expire_after(9);
  EXPECT_NE(Message({strict, b})
                .find("keyed, admits keys after 3 gradients, "
                      "expires keys after 9 pushes, the chief's"),
            std::string::npos);
}

TEST_F(SameModelTest, TheFirstDifferenceIsNamed) {
  EXPECT_EQ(
      Message({MakeVariable("w", {4, 3}), MakeVariable("c", {})}),
      "the model of worker-3 is not the chief's: its variable 1 is 'w' of "
      "4x3, the chief's is 'w' of 4x2; every process must build the same "
      "model");
  EXPECT_EQ(Message({MakeVariable("w", {4, 2})}),
            "the model of worker-3 is not the chief's: its variable 2 is no "
            "more, the chief's is 'b' of one number; every process must build "
            "the same model");
  std::vector<v1::Variable> frozen = {MakeVariable("w", {4, 2}),
                                      MakeVariable("b", {})};
  frozen[1].set_untrained(true);
  EXPECT_NE(Message(frozen).find("'b' of one number, untrained"),
            std::string::npos);
}

TEST_F(SameModelTest, WhatIsComputedWithIsPartOfIt) {
  std::vector<v1::Variable> ours = {MakeVariable("w", {4, 2}),
                                    MakeVariable("b", {})};
  ours[1].set_compute_dtype("bfloat16");
  EXPECT_EQ(Message(ours),
            "the model of worker-3 is not the chief's: its variable 2 is 'b' "
            "of one number, computed in bfloat16, the chief's is 'b' of one "
            "number; every process must build the same model");
  *layout_.mutable_variables(1) = ours[1];
  EXPECT_EQ(Message(ours), "");
}

}  // namespace
}  // namespace paramd
