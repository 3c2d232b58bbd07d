#ifndef PARAMD_COMPUTE_PJRT_PJRT_API_H_
#define PARAMD_COMPUTE_PJRT_PJRT_API_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "xla/pjrt/c/pjrt_c_api.h"

namespace paramd {

// Arguments of a call, empty but for their size, by which caller and plugin
// know how much of them the other one knows:
//
//   auto args =
//       PjrtArgs<PJRT_Event_Await_Args>(PJRT_Event_Await_Args_STRUCT_SIZE);
template <class Args>
Args PjrtArgs(size_t size) {
  Args args = {};
  args.struct_size = size;
  return args;
}

// A plugin that is loaded: a library that exports GetPjrtApi. It is never
// unloaded, as it may have threads. A view, cheap to copy, and thread-safe.
class PjrtApi {
 public:
  // A sentence says what is wrong, INVALID_ARGUMENT: there is no such library,
  // it is no plugin, its version has another major number, or it is so old that
  // it lacks a function that is needed.
  static absl::StatusOr<PjrtApi> Load(const std::string& library);

  const PJRT_Api* operator->() const { return api_; }

  // Takes the error, null if there was none: its code and its words, after
  // what was being done.
  absl::Status Take(PJRT_Error* error, absl::string_view doing) const;
  // Waits for it and destroys it; null: it has happened.
  absl::Status Await(PJRT_Event* event, absl::string_view doing) const;

 private:
  explicit PjrtApi(const PJRT_Api* api) : api_(api) {}

  const PJRT_Api* api_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PJRT_PJRT_API_H_
