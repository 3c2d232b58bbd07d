#include "config/optimizer_groups.h"

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "config/name_pattern.h"

namespace paramd {
namespace {

using ::google::protobuf::FieldDescriptor;

// "adamw"; null if there is none.
const FieldDescriptor* KindField(const v1::OptimizerConfig& config) {
  return config.GetReflection()->GetOneofFieldDescriptor(
      config, config.GetDescriptor()->FindOneofByName("kind"));
}

// In the job file: as the others.
constexpr double kAsOthers = -1;

absl::optional<GroupMistake> UseOne(const FieldDescriptor& field, double value,
                                    v1::OptimizerConfig* config) {
  const bool is_epsilon = field.name() == "epsilon";
  if (value < 0 || (is_epsilon && value == 0)) {
    return GroupMistake{
        field.name(),
        absl::StrCat("is ", value, "; it must be ",
                     is_epsilon ? "above" : "at least", " 0, or ", kAsOthers)};
  }
  const FieldDescriptor* const kind = KindField(*config);
  if (kind == nullptr) return absl::nullopt;  // Which somebody else says.
  const FieldDescriptor* const own =
      kind->message_type()->FindFieldByName(field.name());
  if (own == nullptr && field.name() == "weight_decay") {
    config->set_weight_decay(value);
    return absl::nullopt;
  }
  if (own == nullptr) {
    return GroupMistake{field.name(),
                        absl::StrCat(kind->name(), " has no ", field.name())};
  }
  google::protobuf::Message* const constants =
      config->GetReflection()->MutableMessage(config, kind);
  const google::protobuf::Reflection& of = *constants->GetReflection();
  // Nothing is kept for a momentum of 0.
  if (field.name() == "momentum" &&
      (of.GetDouble(*constants, own) > 0) != (value > 0)) {
    return GroupMistake{
        field.name(),
        absl::StrCat("is ", value, " where the others have ",
                     of.GetDouble(*constants, own),
                     ": all variables have some, or none has; 1e-9 is next to "
                     "none")};
  }
  of.SetDouble(constants, own, value);
  return absl::nullopt;
}

}  // namespace

absl::optional<int> GroupOf(const v1::OptimizerConfig& config,
                            absl::string_view variable) {
  for (int g = 0; g < config.groups_size(); ++g) {
    if (MatchesAny(config.groups(g).variables(), variable)) return g;
  }
  return absl::nullopt;
}

absl::optional<GroupMistake> UseGroup(int number, v1::OptimizerConfig* config) {
  CHECK(number < config->groups_size(), "there is such a group");
  const v1::OptimizerConfig::Group group = config->groups(number);
  config->clear_groups();
  const google::protobuf::Descriptor& keys = *group.GetDescriptor();
  for (int f = 0; f < keys.field_count(); ++f) {
    const FieldDescriptor& field = *keys.field(f);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE ||
        !group.GetReflection()->HasField(group, &field)) {
      continue;
    }
    const double value = group.GetReflection()->GetDouble(group, &field);
    if (value == kAsOthers) continue;
    const auto mistake = UseOne(field, value, config);
    if (mistake.has_value()) return mistake;
  }
  return absl::nullopt;
}

}  // namespace paramd
