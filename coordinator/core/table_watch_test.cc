#include "coordinator/core/table_watch.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/time.h"

namespace paramd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Time TimeAt(int64_t seconds) { return Time() + absl::Seconds(seconds); }

TableWatch::Tables Said(uint64_t created, uint64_t evicted) {
  TableWatch::Tables tables;
  v1::TableStats* const table = tables.Add();
  table->set_variable("user/table");
  table->set_rows(100);
  table->set_capacity(100);
  table->set_created(created);
  table->set_evicted(evicted);
  table->set_keys(created);
  return tables;
}

TEST(TableWatchTest, WithoutKeyedVariables_ThereIsNothingToSay) {
  TableWatch watch(1);
  watch.Told(0, {});
  EXPECT_THAT(watch.TakeNotes(TimeAt(0)), IsEmpty());
  EXPECT_THAT(watch.Warnings(), IsEmpty());
}

TEST(TableWatchTest, AllServersTogether_AreOneTable) {
  TableWatch watch(2);
  // Alone the second one has lost too much.
  watch.Told(0, Said(1000, 0));
  watch.Told(1, Said(50, 40));
  EXPECT_THAT(watch.Warnings(), IsEmpty());
  watch.Told(0, Said(1000, 100));
  EXPECT_THAT(watch.Warnings(), ElementsAre(HasSubstr("140 of the 1050 rows")));
}

TEST(TableWatchTest, UntilEachServerHasTold_NothingIsSaidOfAPart) {
  TableWatch watch(3);
  watch.Told(0, Said(200, 100));
  EXPECT_THAT(watch.TakeNotes(TimeAt(0)), IsEmpty());
  watch.Told(2, Said(200, 100));
  EXPECT_THAT(watch.TakeNotes(TimeAt(1)), IsEmpty());
  EXPECT_THAT(watch.Warnings(), IsEmpty());
  // It has no part of this table.
  watch.Told(1, {});
  EXPECT_THAT(watch.TakeNotes(TimeAt(2)),
              ElementsAre(HasSubstr("it has room for 200 keys")));
  EXPECT_THAT(watch.Warnings(),
              ElementsAre(HasSubstr("it has room for 200 keys")));
}

TEST(TableWatchTest, WhatGetsWorse_IsNotedOnceAMinute) {
  TableWatch watch(1);
  watch.Told(0, Said(200, 100));
  EXPECT_THAT(watch.TakeNotes(TimeAt(5)),
              ElementsAre(HasSubstr("100 of the 200 rows")));
  watch.Told(0, Said(300, 200));
  EXPECT_THAT(watch.TakeNotes(TimeAt(64)), IsEmpty());
  EXPECT_THAT(watch.TakeNotes(TimeAt(65)),
              ElementsAre(HasSubstr("200 of the 300 rows")));
  // It stays as it is.
  EXPECT_THAT(watch.TakeNotes(TimeAt(200)), IsEmpty());
  EXPECT_THAT(watch.Warnings(), ElementsAre(HasSubstr("200 of the 300 rows")));
}

TEST(TableWatchTest, WhatAServerSaysAgain_CountsOnce) {
  TableWatch watch(2);
  watch.Told(0, Said(200, 100));
  watch.Told(1, Said(200, 100));
  EXPECT_THAT(watch.TakeNotes(TimeAt(0)),
              ElementsAre(HasSubstr("200 of the 400 rows")));
  watch.Told(0, Said(200, 100));
  watch.Told(1, Said(200, 100));
  EXPECT_THAT(watch.TakeNotes(TimeAt(100)), IsEmpty());
  watch.Told(0, Said(200, 101));
  EXPECT_THAT(watch.TakeNotes(TimeAt(200)),
              ElementsAre(HasSubstr("201 of the 400 rows")));
}

TEST(TableWatchTest, AServersNextLife_BeginsToCountAnew) {
  TableWatch watch(1);
  watch.Told(0, Said(300, 200));
  EXPECT_EQ(watch.TakeNotes(TimeAt(0)).size(), 1u);
  watch.Told(0, Said(10, 0));
  EXPECT_THAT(watch.TakeNotes(TimeAt(100)), IsEmpty());
  EXPECT_THAT(watch.Warnings(), IsEmpty());
  watch.Told(0, Said(100, 50));
  EXPECT_THAT(watch.TakeNotes(TimeAt(200)),
              ElementsAre(HasSubstr("50 of the 100 rows")));
}

}  // namespace
}  // namespace paramd
