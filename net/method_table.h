#ifndef PARAMD_NET_METHOD_TABLE_H_
#define PARAMD_NET_METHOD_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "proto/paramd/v1/services.pb.h"
#include "tensor/message.h"

namespace paramd {

// The longest message on the bulk and on the control connection.
inline constexpr size_t kMostBulkBytes = (size_t{4} << 20) + (64 << 10);
inline constexpr size_t kMostControlBytes = size_t{1} << 20;

// One method of services.proto, membership.proto or stage.proto.
struct Method {
  std::string path;  // "/paramd.v1.ParameterServer/Pull"
  std::string name;  // "Pull"
  const google::protobuf::Message* request = nullptr;  // Prototypes.
  const google::protobuf::Message* reply = nullptr;
  std::vector<v1::Role> callers;
  bool bulk = false;
  // The kind of core that serves it; kOutside: the runtime itself (Control,
  // Membership).
  PeerId::Kind served_by = PeerId::Kind::kOutside;

  size_t most_bytes() const {
    return bulk ? kMostBulkBytes : kMostControlBytes;
  }
};

// Every method that travels, read from these files by reflection. A method
// is known by the type of its request. Immutable, hence thread-safe; lives as
// long as the process.
class MethodTable {
 public:
  static const MethodTable& Get();

  const std::vector<Method>& methods() const { return methods_; }
  // Null if no method takes such a request.
  const Method* OfRequest(const google::protobuf::Descriptor* type) const;

 private:
  MethodTable();
  void AddAllOf(const google::protobuf::FileDescriptor* file);

  std::vector<Method> methods_;
  absl::flat_hash_map<const google::protobuf::Descriptor*, const Method*>
      by_request_;
};

}  // namespace paramd

#endif  // PARAMD_NET_METHOD_TABLE_H_
