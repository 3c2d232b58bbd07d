#include "config/overlay.h"

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Of a path inside `around`, what comes after it: ".a", "[0]"; else nothing.
absl::string_view InsideOf(absl::string_view path, absl::string_view around) {
  if (!absl::ConsumePrefix(&path, around) || path.empty()) return "";
  return path[0] == '.' || path[0] == '[' ? path : "";
}

// What lies inside of `to` has come from where that inside of `from` has.
void ReplaceOrigins(const std::string& from, const std::string& to,
                    Origins* origins) {
  Origins moved;
  for (auto it = origins->begin(); it != origins->end();) {
    const absl::string_view inside = InsideOf(it->first, from);
    if (!inside.empty()) moved[to + std::string(inside)] = it->second;
    it = InsideOf(it->first, to).empty() ? std::next(it) : origins->erase(it);
  }
  origins->insert(moved.begin(), moved.end());
}

void OverlayAt(const std::string& path, const std::string& to_path,
               const Message& from, Origins* origins, Message* to) {
  const Reflection& reflection = *from.GetReflection();
  std::vector<const FieldDescriptor*> given;
  reflection.ListFields(from, &given);
  for (const FieldDescriptor* field : given) {
    const std::string here = JoinPath(path, field->name());
    const std::string there = JoinPath(to_path, field->name());
    const auto origin = origins->find(here);
    if (origin != origins->end()) (*origins)[there] = origin->second;
    const bool is_object =
        field->message_type() != nullptr && !field->is_repeated();
    if (is_object &&
        (!IsAlternative(*field) || to->GetReflection()->HasField(*to, field))) {
      OverlayAt(here, there, reflection.GetMessage(from, field), origins,
                to->GetReflection()->MutableMessage(to, field));
      continue;
    }
    const std::unique_ptr<Message> only(from.New());
    only->CopyFrom(from);
    for (const FieldDescriptor* other : given) {
      if (other != field) only->GetReflection()->ClearField(only.get(), other);
    }
    to->GetReflection()->ClearField(to, field);
    to->MergeFrom(*only);
    ReplaceOrigins(here, there, origins);
  }
}

}  // namespace

void Overlay(const std::string& path, const Message& from, Origins* origins,
             Message* to) {
  OverlayAt(path, "", from, origins, to);
}

}  // namespace paramd
