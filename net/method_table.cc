#include "net/method_table.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "proto/paramd/v1/membership.pb.h"
#include "proto/paramd/v1/stage.pb.h"

namespace paramd {
namespace {

PeerId::Kind ServedBy(absl::string_view service) {
  if (service == "ParameterServer") return PeerId::Kind::kPs;
  if (service == "Coordinator") return PeerId::Kind::kCoordinator;
  if (service == "StageProcess") return PeerId::Kind::kStage;
  return PeerId::Kind::kOutside;
}

}  // namespace

const MethodTable& MethodTable::Get() {
  static const MethodTable* const table = new MethodTable();
  return *table;
}

MethodTable::MethodTable() {
  AddAllOf(v1::MethodRules::descriptor()->file());
  AddAllOf(v1::BeatRequest::descriptor()->file());
  AddAllOf(v1::ComputeStageRequest::descriptor()->file());
  for (const Method& method : methods_) {
    by_request_[method.request->GetDescriptor()] = &method;
  }
}

void MethodTable::AddAllOf(const google::protobuf::FileDescriptor* file) {
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  for (int s = 0; s < file->service_count(); ++s) {
    const auto* service = file->service(s);
    for (int m = 0; m < service->method_count(); ++m) {
      const auto* described = service->method(m);
      const auto& rules = described->options().GetExtension(v1::rules);
      Method method;
      method.path =
          absl::StrCat("/", service->full_name(), "/", described->name());
      method.name = described->name();
      method.request = factory->GetPrototype(described->input_type());
      method.reply = factory->GetPrototype(described->output_type());
      for (const int role : rules.callers()) {
        method.callers.push_back(static_cast<v1::Role>(role));
      }
      method.bulk = rules.bulk();
      method.served_by = ServedBy(service->name());
      methods_.push_back(std::move(method));
    }
  }
}

const Method* MethodTable::OfRequest(
    const google::protobuf::Descriptor* type) const {
  const auto it = by_request_.find(type);
  return it == by_request_.end() ? nullptr : it->second;
}

}  // namespace paramd
