#include "config/optimizer_slots.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(const std::vector<Slot>& slots) {
  std::vector<std::string> names;
  for (const Slot& slot : slots) names.emplace_back(slot.name);
  return names;
}

std::vector<std::string> Names(const v1::OptimizerConfig& config,
                               const SlotOwner& owner = {}) {
  return Names(SlotsOf(config, owner));
}

v1::Variable Table(bool keyed, uint32_t admit_after = 1) {
  v1::Variable variable;
  variable.set_sparse(true);
  variable.set_keyed(keyed);
  variable.set_admit_after(admit_after);
  return variable;
}

TEST(OptimizerSlotsTest, EachOptimizerKeepsItsOwn) {
  v1::OptimizerConfig config;
  EXPECT_THAT(Names(config), IsEmpty());
  config.mutable_sgd()->set_momentum(0);
  EXPECT_THAT(Names(config), IsEmpty());
  config.mutable_sgd()->set_momentum(0.9);
  EXPECT_THAT(Names(config), ElementsAre("momentum"));
  config.mutable_adagrad();
  EXPECT_THAT(Names(config), ElementsAre("accumulator"));
  config.mutable_adam();
  EXPECT_THAT(Names(config), ElementsAre("momentum", "variance"));
  config.mutable_adamw();
  EXPECT_THAT(Names(config), ElementsAre("momentum", "variance"));
  config.mutable_ftrl();
  EXPECT_THAT(Names(config), ElementsAre("accumulator", "linear"));
  config.mutable_adadelta();
  EXPECT_THAT(Names(config), ElementsAre("square", "delta"));
  config.mutable_lamb();
  EXPECT_THAT(Names(config), ElementsAre("momentum", "variance"));
  config.mutable_rmsprop();
  EXPECT_THAT(Names(config), ElementsAre("square"));
  config.mutable_rmsprop()->set_centered(true);
  EXPECT_THAT(Names(config), ElementsAre("square", "mean"));
  config.mutable_rmsprop()->set_momentum(0.9);
  EXPECT_THAT(Names(config), ElementsAre("square", "mean", "momentum"));
  config.mutable_rmsprop()->set_centered(false);
  EXPECT_THAT(Names(config), ElementsAre("square", "momentum"));
}

TEST(OptimizerSlotsTest, OfAnUntrainedVariableNothingIsKept) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  v1::Variable variable;
  EXPECT_THAT(Names(SlotsOf(config, variable)),
              ElementsAre("momentum", "variance"));
  variable.set_untrained(true);
  EXPECT_THAT(SlotsOf(config, variable), IsEmpty());
}

TEST(OptimizerSlotsTest, RowsHaveCountsKeysAndSumsOfTheirOwn) {
  v1::OptimizerConfig config;
  config.mutable_adam();
  EXPECT_THAT(Names(SlotsOf(config, Table(false))),
              ElementsAre("momentum", "variance", "steps"));
  EXPECT_THAT(Names(SlotsOf(config, Table(true))),
              ElementsAre("key", "used", "momentum", "variance", "steps"));
  config.mutable_adagrad()->set_row_wise(true);
  EXPECT_THAT(Names(config), ElementsAre("accumulator"));
  EXPECT_THAT(Names(SlotsOf(config, Table(true))),
              ElementsAre("key", "used", "row_accumulator"));
  EXPECT_THAT(Names(SlotsOf(config, Table(true, /*admit_after=*/2))),
              ElementsAre("key", "used", "sketch", "row_accumulator"));
}

TEST(OptimizerSlotsTest, OfAllNamesEachVariableFindsItsOwn) {
  for (const bool row_wise : {false, true}) {
    v1::OptimizerConfig config;
    config.mutable_adagrad()->set_row_wise(row_wise);
    google::protobuf::RepeatedPtrField<v1::Variable> variables;
    variables.Add();
    *variables.Add() = Table(false);
    *variables.Add() = Table(true);
    *variables.Add() = Table(true, /*admit_after=*/2);
    google::protobuf::RepeatedPtrField<std::string> names;
    for (const Slot& slot : SlotsOf(config, variables)) {
      names.Add(std::string(slot.name));
    }
    for (const v1::Variable& variable : variables) {
      EXPECT_EQ(Names(SlotsOf(names, SlotOwnerOf(variable))),
                Names(SlotsOf(config, variable)));
    }
  }
}

// Tables by row-wise Adagrad, one vector by plain descent, the rest by Adam.
struct ThreeKinds {
  ThreeKinds() {
    config.mutable_adam();
    config.add_groups()->set_variables("table*");
    config.mutable_groups(0)->mutable_adagrad()->set_row_wise(true);
    config.add_groups()->set_variables("bias");
    config.mutable_groups(1)->mutable_sgd();
    const auto add = [&](const char* name, v1::Variable variable) {
      variable.set_name(name);
      *variables.Add() = variable;
    };
    add("kernel", {});
    add("table_1", Table(true));
    add("bias", {});
    add("table_2", Table(false));
    add("rows", Table(false));
    add("mean", {});
    variables.Mutable(5)->set_untrained(true);
  }

  v1::OptimizerConfig config;
  google::protobuf::RepeatedPtrField<v1::Variable> variables;
};

TEST(OptimizerSlotsTest, EachVariableHasThoseOfItsKind) {
  const ThreeKinds kinds;
  const std::vector<std::vector<std::string>> expected = {
      {"momentum", "variance"}, {"key", "used", "row_accumulator"}, {},
      {"row_accumulator"},      {"momentum", "variance", "steps"},  {}};
  for (size_t v = 0; v < expected.size(); ++v) {
    EXPECT_EQ(
        Names(SlotsOf(kinds.config, kinds.variables.Get(static_cast<int>(v)))),
        expected[v]);
  }
  EXPECT_THAT(Names(SlotsOf(kinds.config, kinds.variables)),
              ElementsAre("key", "used", "row_accumulator", "momentum",
                          "variance", "steps"));
}

TEST(OptimizerSlotsTest, OfSeveralKindsNotAllFollowFromTheNamesOfAll) {
  const ThreeKinds kinds;
  google::protobuf::RepeatedPtrField<std::string> names;
  for (const Slot& slot : SlotsOf(kinds.config, kinds.variables)) {
    names.Add(std::string(slot.name));
  }
  // By variable. What is untrained has none, whatever there is.
  const bool follow[] = {true, false, false, false, false, true};
  for (int v = 0; v < kinds.variables.size(); ++v) {
    const v1::Variable& variable = kinds.variables.Get(v);
    EXPECT_EQ(FollowFrom(names, SlotOwnerOf(variable),
                         SlotsOf(kinds.config, variable)),
              follow[v])
        << variable.name();
  }
  EXPECT_EQ(Names(SlotsNamed(names)),
            Names(SlotsOf(kinds.config, kinds.variables)));
}

TEST(OptimizerSlotsTest, WordsFollowFromRows) {
  EXPECT_EQ(SlotNamed("momentum").words(/*elements=*/24, /*row_elements=*/8),
            24);
  EXPECT_EQ(SlotNamed("steps").words(24, 8), 3);
  EXPECT_EQ(SlotNamed("key").words(24, 8), 6);
  EXPECT_EQ(SlotNamed("sketch").words(24, 8), 6);
}

}  // namespace
}  // namespace paramd
