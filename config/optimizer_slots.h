#ifndef PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
#define PARAMD_CONFIG_OPTIMIZER_SLOTS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What lies beside the values of a variable, in memory, in files and on the
// wire: a number for each of them, or one for each row.
struct Slot {
  absl::string_view name;
  bool by_row = false;
  v1::DType dtype = v1::FLOAT32;

  // How many 4 bytes it has beside `elements` values, in rows of
  // `row_elements`. REQUIRES: whole rows, if it is by_row.
  uint64_t words(uint64_t elements, uint64_t row_elements) const;
};

// Of keyed variables: the key that a row has, and when a gradient last changed
// the row, as the number of that push to its block. 0: the row has no key.
inline constexpr absl::string_view kKeySlot = "key";
inline constexpr absl::string_view kUsedSlot = "used";
// Of those that admit keys late: counters of the keys without a row.
inline constexpr absl::string_view kSketchSlot = "sketch";
// Of sparse variables: how many gradients of a row Adam has applied.
inline constexpr absl::string_view kStepsSlot = "steps";
// Of sparse variables, in place of "accumulator": Adagrad's sum for a row.
inline constexpr absl::string_view kRowAccumulatorSlot = "row_accumulator";

// Which kind of a variable it is, as far as slots depend on it.
struct SlotOwner {
  bool trained = true;
  bool sparse = false;
  bool keyed = false;
  bool sketched = false;  // It is keyed and admits keys late.
};
bool IsSketched(const v1::Variable& variable);
SlotOwner SlotOwnerOf(const v1::Variable& variable);

// What is kept beside a value, in the order in which it travels and is saved:
// of Adam "momentum" and "variance". For an untrained variable nothing. The
// first is of what is in no group; the second follows optimizer.groups.
std::vector<Slot> SlotsOf(const v1::OptimizerConfig& config,
                          const SlotOwner& owner);
std::vector<Slot> SlotsOf(const v1::OptimizerConfig& config,
                          const v1::Variable& variable);
// All that some variable of these has, each once, in that order.
std::vector<Slot> SlotsOf(
    const v1::OptimizerConfig& config,
    const google::protobuf::RepeatedPtrField<v1::Variable>& variables);

// What a name stands for: of one that is not known, a number for each value.
Slot SlotNamed(absl::string_view name);
// Of `names`, all that some variable has, in order those that one has. They
// refer to the names.
std::vector<Slot> SlotsOf(
    const google::protobuf::RepeatedPtrField<std::string>& names,
    const SlotOwner& owner);
// Whether these are what that finds. If not, as in a job of several kinds of
// optimizer, messages and manifests name each variable's own.
bool FollowFrom(const google::protobuf::RepeatedPtrField<std::string>& names,
                const SlotOwner& owner, absl::Span<const Slot> slots);
// Those of these names. They refer to them.
std::vector<Slot> SlotsNamed(
    const google::protobuf::RepeatedPtrField<std::string>& names);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_SLOTS_H_
