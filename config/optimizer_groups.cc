#include "config/optimizer_groups.h"

#include <algorithm>

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

// The optimizer that the group names becomes that of `config`.
absl::optional<GroupMistake> UseKind(const v1::OptimizerConfig::Group& group,
                                     v1::OptimizerConfig* config) {
  const google::protobuf::Reflection& of_group = *group.GetReflection();
  const google::protobuf::Descriptor& keys = *group.GetDescriptor();
  const FieldDescriptor* named = nullptr;
  for (int f = 0; f < keys.field_count(); ++f) {
    const FieldDescriptor& field = *keys.field(f);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        !of_group.HasField(group, &field)) {
      continue;
    }
    if (named != nullptr) {
      return GroupMistake{
          field.name(),
          absl::StrCat("conflicts with '", named->name(), "'; keep one")};
    }
    named = &field;
  }
  if (named == nullptr) return absl::nullopt;
  const FieldDescriptor* const kind =
      config->GetDescriptor()->FindFieldByName(named->name());
  CHECK(kind != nullptr, "a group's kinds are those of all");
  config->GetReflection()
      ->MutableMessage(config, kind)
      ->CopyFrom(of_group.GetMessage(group, named));
  return absl::nullopt;
}

absl::optional<GroupMistake> UseOne(const FieldDescriptor& field, double value,
                                    v1::OptimizerConfig* config) {
  const bool must_be_above =
      field.name() == "epsilon" || field.name() == "learning_rate";
  if (value < 0 || (must_be_above && value == 0)) {
    return GroupMistake{field.name(),
                        absl::StrCat("is ", value, "; it must be ",
                                     must_be_above ? "above" : "at least",
                                     " 0, or ", kAsOthers)};
  }
  if (field.name() == "learning_rate") {
    config->set_learning_rate(value);
    return absl::nullopt;
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
  constants->GetReflection()->SetDouble(constants, own, value);
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
  const auto wrong_kind = UseKind(group, config);
  if (wrong_kind.has_value()) return wrong_kind;
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

v1::OptimizerConfig KindOf(const v1::OptimizerConfig& config,
                           absl::string_view variable) {
  v1::OptimizerConfig own;
  const FieldDescriptor* const kind = KindField(config);
  if (kind != nullptr) {
    own.GetReflection()
        ->MutableMessage(&own, kind)
        ->CopyFrom(config.GetReflection()->GetMessage(config, kind));
  }
  const auto group = GroupOf(config, variable);
  if (!group.has_value()) return own;
  *own.add_groups() = config.groups(*group);
  // What makes no sense in it is refused where it is read.
  UseGroup(0, &own);
  return own;
}

bool UsesLamb(const v1::OptimizerConfig& config) {
  return config.has_lamb() ||
         std::any_of(config.groups().begin(), config.groups().end(),
                     [](const auto& group) { return group.has_lamb(); });
}

}  // namespace paramd
