#include "server/shard_stats.h"

#include <algorithm>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "proto/table_stats.h"

namespace paramd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Numbers are added, those of lists each to its own; the rest is left.
void Add(const Message& from, Message* to) {
  const auto* const reflection = from.GetReflection();
  const auto* const type = from.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (field->is_repeated()) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_UINT64) continue;
      for (int n = 0; n < reflection->FieldSize(from, field); ++n) {
        const uint64_t number = reflection->GetRepeatedUInt64(from, field, n);
        if (n == reflection->FieldSize(*to, field)) {
          reflection->AddUInt64(to, field, number);
          continue;
        }
        const uint64_t before = reflection->GetRepeatedUInt64(*to, field, n);
        reflection->SetRepeatedUInt64(to, field, n, before + number);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
      reflection->SetUInt64(to, field,
                            reflection->GetUInt64(*to, field) +
                                reflection->GetUInt64(from, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection->SetDouble(to, field,
                            reflection->GetDouble(*to, field) +
                                reflection->GetDouble(from, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
               reflection->HasField(from, field)) {
      Add(reflection->GetMessage(from, field),
          reflection->MutableMessage(to, field));
    }
  }
}

// As many as a shard names.
void KeepHottest(google::protobuf::RepeatedPtrField<v1::SliceStats>* slices) {
  constexpr int kMost = 10;
  std::stable_sort(slices->begin(), slices->end(),
                   [](const v1::SliceStats& a, const v1::SliceStats& b) {
                     return a.named_blocks() > b.named_blocks();
                   });
  const int more = slices->size() - kMost;
  if (more > 0) slices->DeleteSubrange(kMost, more);
}

}  // namespace

v1::ServerStats TogetherOf(
    const google::protobuf::RepeatedPtrField<v1::ServerStats>& shards) {
  v1::ServerStats together;
  // Places that are no server now say nothing of it, unless all are.
  const bool all_idle = std::all_of(
      shards.begin(), shards.end(), [](const v1::ServerStats& shard) {
        return shard.replica() == v1::REPLICA_IDLE;
      });
  bool restored = !all_idle;
  uint64_t step = shards.empty() ? 0 : shards[0].step();
  for (const v1::ServerStats& shard : shards) {
    Add(shard, &together);
    const bool is_server = shard.replica() != v1::REPLICA_IDLE &&
                           shard.replica() != v1::REPLICA_BACKUP;
    restored = restored && (shard.restored() || !is_server);
    step = std::min(step, shard.step());
    // Of rows that a backup has too there are no more.
    if (!is_server) continue;
    for (const v1::TableStats& table : shard.tables()) {
      AddTable(table, together.mutable_tables());
    }
    together.mutable_hottest_slices()->MergeFrom(shard.hottest_slices());
  }
  KeepHottest(together.mutable_hottest_slices());
  together.set_restored(restored);
  together.set_step(step);
  return together;
}

}  // namespace paramd
