#include "worker/input/batch_assembler.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/input/example_order.h"
#include "worker/input/testing/fake_dataset.h"

namespace paramd {
namespace {

using testing::ElementsAre;

TEST(BatchAssemblerTest, ABatchHoldsTheExamplesOfItsRangeOfTheOrder) {
  const FakeDataset dataset(100);
  BatchAssembler assembler(dataset, /*seed=*/3);
  Batch batch;
  for (const uint64_t epoch : {0u, 1u, 0u}) {
    const Portion range{.epoch = epoch, .begin = 10, .end = 14};
    ASSERT_TRUE(assembler.Assemble(range, &batch).ok());
    const std::vector<uint32_t> order = ExampleOrder(3, epoch, 100);
    EXPECT_THAT(batch.examples,
                ElementsAre(order[10], order[11], order[12], order[13]));
    EXPECT_EQ(batch.labels[1], order[11] % 10);
    EXPECT_EQ(batch.range, range);
    EXPECT_EQ(batch.size(), 4u);
  }
}

TEST(BatchAssemblerTest, WithoutASeedExamplesComeInTheOrderOfTheDataset) {
  const FakeDataset dataset(100);
  BatchAssembler assembler(dataset, absl::nullopt);
  Batch batch;
  ASSERT_TRUE(assembler.Assemble({5, 97, 100}, &batch).ok());
  EXPECT_THAT(batch.examples, ElementsAre(97, 98, 99));
}

TEST(BatchAssemblerTest, ARangeBeyondTheDatasetIsOutOfRange) {
  const FakeDataset dataset(100);
  const BatchAssembler assembler(dataset, 1);
  EXPECT_TRUE(assembler.Check({0, 0, 100}).ok());
  EXPECT_EQ(assembler.Check({2, 90, 101}),
            absl::OutOfRangeError("portion [90, 101) of epoch 2 is not a range "
                                  "of the 100 examples"));
  EXPECT_FALSE(assembler.Check({0, 5, 5}).ok());
  EXPECT_FALSE(assembler.Check({0, 6, 5}).ok());
}

TEST(BatchAssemblerTest, TheErrorOfTheDatasetIsReturned) {
  FakeDataset dataset(100);
  dataset.set_unreadable(7);
  BatchAssembler assembler(dataset, absl::nullopt);
  Batch batch;
  EXPECT_EQ(assembler.Assemble({0, 5, 9}, &batch).code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace paramd
