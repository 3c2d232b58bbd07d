#include "compute/pjrt/pjrt_client.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Fields of messages as protocol buffers have them on the wire; numbers are
// below 2^63.
void AppendVarint(uint64_t value, std::string* out) {
  while (value > 0x7f) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendNumber(int field, uint64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3, out);
  AppendVarint(value, out);
}

void AppendMessage(int field, absl::string_view message, std::string* out) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | 2, out);
  AppendVarint(message.size(), out);
  out->append(message.data(), message.size());
}

// xla.CompileOptionsProto (xla/pjrt/proto/compile_options.proto) of a program
// that runs on this device alone.
std::string CompileOptions(int device) {
  std::string ids;  // DeviceAssignmentProto.ComputationDevice
  AppendNumber(/*replica_device_ids=*/1, static_cast<uint64_t>(device), &ids);
  std::string assignment;  // DeviceAssignmentProto
  AppendNumber(/*replica_count=*/1, 1, &assignment);
  AppendNumber(/*computation_count=*/2, 1, &assignment);
  AppendMessage(/*computation_devices=*/3, ids, &assignment);
  std::string build;  // ExecutableBuildOptionsProto
  AppendNumber(/*num_replicas=*/4, 1, &build);
  AppendNumber(/*num_partitions=*/5, 1, &build);
  AppendMessage(/*device_assignment=*/9, assignment, &build);
  std::string options;
  AppendMessage(/*executable_build_options=*/3, build, &options);
  return options;
}

constexpr absl::Duration kToldAfter = absl::Seconds(30);

// The clients of the process that are in use.
struct Clients {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<PjrtClient>> by_library
      ABSL_GUARDED_BY(mutex);
  // Libraries that are still at it, on a thread of theirs.
  std::map<std::string, absl::Status> given_up ABSL_GUARDED_BY(mutex);
};

// What a thread makes that nobody may be waiting for any more.
struct Opening {
  Mutex mutex;
  CondVar changed;
  absl::optional<absl::StatusOr<std::shared_ptr<PjrtClient>>> result
      ABSL_GUARDED_BY(mutex);
};

// UNAVAILABLE if it is not made in time.
absl::StatusOr<std::shared_ptr<PjrtClient>> Await(const std::string& library,
                                                  absl::Duration patience,
                                                  Opening* opening) {
  const Time begin = MonotonicNow();
  bool told = false;
  MutexLock lock(&opening->mutex);
  while (!opening->result.has_value()) {
    const absl::Duration waited = MonotonicNow() - begin;
    if (waited >= patience) {
      return absl::UnavailableError(absl::StrCat(
          "it has not listed its devices for ", absl::FormatDuration(patience),
          "; it may be waiting for a server of its own, such as a cloud's "
          "metadata server"));
    }
    if (!told && waited >= kToldAfter) {
      told = true;
      Log(LogLevel::kWarning, "waiting for a PJRT plugin to list its devices",
          {{"library", library}, {"seconds", absl::ToInt64Seconds(waited)}});
    }
    opening->changed.WaitFor(&opening->mutex,
                             std::min(patience - waited, kToldAfter));
  }
  return *std::move(opening->result);
}

Clients& ClientsOfProcess() {
  static Clients* const clients = new Clients();
  return *clients;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PjrtClient>> PjrtClient::OfProcess(
    const std::string& library, size_t devices, absl::Duration patience) {
  Clients& clients = ClientsOfProcess();
  const MutexLock lock(&clients.mutex);
  std::weak_ptr<PjrtClient>& known = clients.by_library[library];
  if (std::shared_ptr<PjrtClient> client = known.lock()) return client;
  const auto given_up = clients.given_up.find(library);
  if (given_up != clients.given_up.end()) return given_up->second;
  // Nothing ends a plugin that waits: its thread goes with the process.
  const auto opening = std::make_shared<Opening>();
  std::thread([opening, library, devices] {
    auto opened = Open(library, devices);
    MutexLock done(&opening->mutex);
    opening->result.emplace(std::move(opened));
    opening->changed.NotifyAll();
  }).detach();
  auto client = Await(library, patience, opening.get());
  if (absl::IsUnavailable(client.status())) {
    clients.given_up[library] = client.status();
  }
  if (client.ok()) known = *client;
  return client;
}

absl::StatusOr<std::shared_ptr<PjrtClient>> PjrtClient::Open(
    const std::string& library, size_t devices) {
  ASSIGN_OR_RETURN(const PjrtApi api, PjrtApi::Load(library));
  std::shared_ptr<PjrtClient> client(new PjrtClient(api));
  absl::Status made = client->Make(0);
  if (made.ok() && client->device_count() < devices) {
    const auto has_more = client->IsProcessor();
    made = has_more.status();
    if (has_more.ok() && *has_more) {
      client->Destroy();
      made = client->Make(devices);
    }
  }
  if (!made.ok()) return absl::InvalidArgumentError(made.message());
  if (client->device_count() == 0) {
    return absl::InvalidArgumentError("it has no device");
  }
  return client;
}

PjrtClient::~PjrtClient() { Destroy(); }

void PjrtClient::Destroy() {
  if (client_ == nullptr) return;
  auto args =
      PjrtArgs<PJRT_Client_Destroy_Args>(PJRT_Client_Destroy_Args_STRUCT_SIZE);
  args.client = client_;
  // There is nobody to tell.
  api_.Take(api_->PJRT_Client_Destroy(&args), "").IgnoreError();
  client_ = nullptr;
  devices_.clear();
}

absl::Status PjrtClient::Make(size_t devices) {
  constexpr absl::string_view kCount = "cpu_device_count";
  auto count = PjrtArgs<PJRT_NamedValue>(PJRT_NamedValue_STRUCT_SIZE);
  count.name = kCount.data();
  count.name_size = kCount.size();
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = static_cast<int64_t>(devices);
  count.value_size = 1;
  auto make =
      PjrtArgs<PJRT_Client_Create_Args>(PJRT_Client_Create_Args_STRUCT_SIZE);
  make.create_options = devices == 0 ? nullptr : &count;
  make.num_options = devices == 0 ? 0 : 1;
  RETURN_IF_ERROR(
      api_.Take(api_->PJRT_Client_Create(&make), "it can't reach its devices"));
  client_ = make.client;
  auto list = PjrtArgs<PJRT_Client_AddressableDevices_Args>(
      PJRT_Client_AddressableDevices_Args_STRUCT_SIZE);
  list.client = client_;
  RETURN_IF_ERROR(api_.Take(api_->PJRT_Client_AddressableDevices(&list),
                            "it can't list its devices"));
  devices_.assign(list.addressable_devices,
                  list.addressable_devices + list.num_addressable_devices);
  return absl::OkStatus();
}

absl::StatusOr<bool> PjrtClient::IsProcessor() const {
  auto args = PjrtArgs<PJRT_Client_PlatformName_Args>(
      PJRT_Client_PlatformName_Args_STRUCT_SIZE);
  args.client = client_;
  RETURN_IF_ERROR(api_.Take(api_->PJRT_Client_PlatformName(&args),
                            "it can't name its platform"));
  return absl::string_view(args.platform_name, args.platform_name_size) ==
         "cpu";
}

absl::StatusOr<PJRT_DeviceDescription*> PjrtClient::Describe(
    size_t device) const {
  auto args = PjrtArgs<PJRT_Device_GetDescription_Args>(
      PJRT_Device_GetDescription_Args_STRUCT_SIZE);
  args.device = devices_[device];
  RETURN_IF_ERROR(api_.Take(api_->PJRT_Device_GetDescription(&args),
                            "it can't describe a device"));
  return args.device_description;
}

absl::StatusOr<int> PjrtClient::IdOf(size_t device) const {
  auto args = PjrtArgs<PJRT_DeviceDescription_Id_Args>(
      PJRT_DeviceDescription_Id_Args_STRUCT_SIZE);
  ASSIGN_OR_RETURN(args.device_description, Describe(device));
  RETURN_IF_ERROR(api_.Take(api_->PJRT_DeviceDescription_Id(&args),
                            "it can't number a device"));
  return args.id;
}

std::string PjrtClient::NameOf(size_t device) const {
  const auto description = Describe(device);
  if (!description.ok()) return "pjrt";
  auto args = PjrtArgs<PJRT_DeviceDescription_Kind_Args>(
      PJRT_DeviceDescription_Kind_Args_STRUCT_SIZE);
  args.device_description = *description;
  const absl::Status named =
      api_.Take(api_->PJRT_DeviceDescription_Kind(&args), "");
  if (!named.ok()) return "pjrt";
  return absl::StrCat(
      "pjrt ", absl::string_view(args.device_kind, args.device_kind_size));
}

absl::StatusOr<std::unique_ptr<PjrtProgram>> PjrtClient::Compile(
    absl::string_view text, size_t device, size_t results) {
  constexpr absl::string_view kFormat = "mlir";
  ASSIGN_OR_RETURN(const int id, IdOf(device));
  const std::string options = CompileOptions(id);
  std::string code(text);
  auto program = PjrtArgs<PJRT_Program>(PJRT_Program_STRUCT_SIZE);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  auto args =
      PjrtArgs<PJRT_Client_Compile_Args>(PJRT_Client_Compile_Args_STRUCT_SIZE);
  args.client = client_;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  const absl::Status compiled =
      api_.Take(api_->PJRT_Client_Compile(&args),
                absl::StrCat(NameOf(device), " can't compile the model"));
  if (absl::IsResourceExhausted(compiled)) return compiled;
  if (!compiled.ok()) return absl::InternalError(compiled.message());
  return std::make_unique<PjrtProgram>(shared_from_this(), args.executable,
                                       device, results);
}

}  // namespace paramd
