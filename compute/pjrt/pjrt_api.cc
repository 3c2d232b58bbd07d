#include "compute/pjrt/pjrt_api.h"

#include <dlfcn.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

// The last of the functions that are called here, in the order of the struct.
constexpr size_t kLeastSize =
    PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Buffer_ToHostBuffer);

absl::Status CheckVersion(const PJRT_Api& api) {
  const PJRT_Api_Version& version = api.pjrt_api_version;
  const std::string has =
      absl::StrCat("it has version ", version.major_version, ".",
                   version.minor_version, " of PJRT's C API; ");
  if (version.major_version != PJRT_API_MAJOR) {
    return absl::InvalidArgumentError(
        absl::StrCat(has, "this program needs ", PJRT_API_MAJOR, ".x"));
  }
  if (api.struct_size < kLeastSize) {
    return absl::InvalidArgumentError(
        absl::StrCat(has, "this program needs a newer plugin"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PjrtApi> PjrtApi::Load(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("it can't be loaded: ", dlerror()));
  }
  void* const symbol = dlsym(loaded, "GetPjrtApi");
  if (symbol == nullptr) {
    return absl::InvalidArgumentError(
        "it is not a PJRT plugin: it exports no GetPjrtApi");
  }
  const auto get = reinterpret_cast<const PJRT_Api* (*)()>(symbol);
  const PJRT_Api* const raw = get();
  if (raw == nullptr) {
    return absl::InvalidArgumentError("its GetPjrtApi gives nothing");
  }
  RETURN_IF_ERROR(CheckVersion(*raw));
  const PjrtApi api(raw);
  auto args = PjrtArgs<PJRT_Plugin_Initialize_Args>(
      PJRT_Plugin_Initialize_Args_STRUCT_SIZE);
  const absl::Status begun =
      api.Take(api->PJRT_Plugin_Initialize(&args), "it can't begin");
  if (!begun.ok()) return absl::InvalidArgumentError(begun.message());
  return api;
}

absl::Status PjrtApi::Take(PJRT_Error* error, absl::string_view doing) const {
  if (error == nullptr) return absl::OkStatus();
  auto words =
      PjrtArgs<PJRT_Error_Message_Args>(PJRT_Error_Message_Args_STRUCT_SIZE);
  words.error = error;
  api_->PJRT_Error_Message(&words);
  auto code =
      PjrtArgs<PJRT_Error_GetCode_Args>(PJRT_Error_GetCode_Args_STRUCT_SIZE);
  code.error = error;
  PJRT_Error* const other = api_->PJRT_Error_GetCode(&code);
  // Its codes are those of gRPC, as ours are.
  const auto kind = other == nullptr ? static_cast<absl::StatusCode>(code.code)
                                     : absl::StatusCode::kInternal;
  const absl::string_view message(words.message, words.message_size);
  absl::Status status(
      kind == absl::StatusCode::kOk ? absl::StatusCode::kInternal : kind,
      absl::StrCat(doing, ": ", absl::StripSuffix(message, ".")));
  for (PJRT_Error* one : {error, other}) {
    if (one == nullptr) continue;
    auto args =
        PjrtArgs<PJRT_Error_Destroy_Args>(PJRT_Error_Destroy_Args_STRUCT_SIZE);
    args.error = one;
    api_->PJRT_Error_Destroy(&args);
  }
  return status;
}

absl::Status PjrtApi::Await(PJRT_Event* event, absl::string_view doing) const {
  if (event == nullptr) return absl::OkStatus();
  auto wait =
      PjrtArgs<PJRT_Event_Await_Args>(PJRT_Event_Await_Args_STRUCT_SIZE);
  wait.event = event;
  absl::Status status = Take(api_->PJRT_Event_Await(&wait), doing);
  auto destroy =
      PjrtArgs<PJRT_Event_Destroy_Args>(PJRT_Event_Destroy_Args_STRUCT_SIZE);
  destroy.event = event;
  status.Update(Take(api_->PJRT_Event_Destroy(&destroy), doing));
  return status;
}

}  // namespace paramd
