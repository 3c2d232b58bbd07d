#include "proto/table_stats.h"

#include "gtest/gtest.h"

namespace paramd {
namespace {

v1::TableStats Table() {
  v1::TableStats table;
  table.set_variable("user/table");
  table.set_rows(1000);
  table.set_capacity(1000);
  table.set_created(1000);
  table.set_looked_up(50000);
  table.set_keys(1000);
  return table;
}

TEST(TableStatsTest, CountsOfTheSameTableAddUp) {
  google::protobuf::RepeatedPtrField<v1::TableStats> tables;
  v1::TableStats other = Table();
  other.set_variable("item/table");
  v1::TableStats part = Table();
  for (const auto* const field :
       {"rows", "capacity", "created", "evicted", "ignored", "not_admitted",
        "expired", "memory_rows", "looked_up", "on_disk", "keys"}) {
    part.GetReflection()->SetUInt64(
        &part, part.GetDescriptor()->FindFieldByName(field), 7);
  }
  AddTable(part, &tables);
  AddTable(other, &tables);
  AddTable(part, &tables);
  ASSERT_EQ(2, tables.size());
  EXPECT_EQ(other.SerializeAsString(), tables[1].SerializeAsString());
  // Each number that there is: none is forgotten.
  const auto* const descriptor = part.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* const field = descriptor->field(i);
    if (field->cpp_type() != field->CPPTYPE_UINT64) continue;
    EXPECT_EQ(14u, tables[0].GetReflection()->GetUInt64(tables[0], field))
        << field->name();
  }
}

TEST(TableStatsTest, ATableThatHasRoom_IsNotWarnedOf) {
  v1::TableStats table = Table();
  EXPECT_EQ("", TableWarning(table));
  table.set_evicted(99);  // Less than a tenth of those that got a row.
  EXPECT_EQ("", TableWarning(table));
  // Few, where the table is full.
  table.set_created(9);
  table.set_evicted(9);
  EXPECT_EQ("", TableWarning(table));
  table = Table();
  table.set_ignored(499);
  EXPECT_EQ("", TableWarning(table));
}

TEST(TableStatsTest, ATableThatEvicts_NamesTheCapacityThatWouldDo) {
  v1::TableStats table = Table();
  table.set_created(4000);
  table.set_evicted(3000);
  table.set_keys(2503);
  EXPECT_EQ(
      "the table user/table is too small: 3000 of the 4000 rows that it gave "
      "to keys (75 %) were taken from other keys, and what those had learnt "
      "is lost; it has room for 1000 keys, and about 2503 asked for a row: "
      "give its layer a capacity of 2800 (the job can be resumed with another "
      "one)",
      TableWarning(table));
}

TEST(TableStatsTest, ATableThatIgnores_NamesTheCapacityThatWouldDo) {
  v1::TableStats table = Table();
  table.set_ignored(500);
  table.set_keys(1200);
  EXPECT_EQ(
      "the table user/table is too small: 500 gradients of keys for which no "
      "row was left were dropped, where 50000 rows were looked up; it has "
      "room for 1000 keys, and about 1200 asked for a row: give its layer a "
      "capacity of 1400 (the job can be resumed with another one)",
      TableWarning(table));
}

}  // namespace
}  // namespace paramd
