#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "compute/pjrt/pjrt_client.h"

namespace paramd {
namespace {

PJRT_Buffer_Type TypeOf(HloElement element) {
  switch (element) {
    case HloElement::kF32:
      return PJRT_Buffer_Type_F32;
    case HloElement::kBF16:
      return PJRT_Buffer_Type_BF16;
    case HloElement::kS32:
      return PJRT_Buffer_Type_S32;
    case HloElement::kU32:
      return PJRT_Buffer_Type_U32;
    case HloElement::kU64:
      return PJRT_Buffer_Type_U64;
    case HloElement::kPred:
      return PJRT_Buffer_Type_PRED;
  }
  return PJRT_Buffer_Type_INVALID;
}

size_t BytesOf(const HloType& type) {
  const size_t bytes = type.element == HloElement::kPred   ? 1
                       : type.element == HloElement::kBF16 ? 2
                       : type.element == HloElement::kU64  ? 8
                                                           : 4;
  return bytes * SizeOf(type.dims);
}

// What is no lack of memory is a device that is lost: the same call had been
// right before, or a compiled program and buffers of its types are wrong.
absl::Status Failed(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  return absl::UnavailableError(status.message());
}

}  // namespace

// Buffers of the device, and what says that the host's memory is free again.
// All are gone, and host memory is free, when it is.
class PjrtProgram::Buffers {
 public:
  explicit Buffers(const PjrtApi& api) : api_(api) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  ~Buffers() {
    for (PJRT_Buffer* const buffer : buffers_) {
      if (buffer == nullptr) continue;
      auto args = PjrtArgs<PJRT_Buffer_Destroy_Args>(
          PJRT_Buffer_Destroy_Args_STRUCT_SIZE);
      args.buffer = buffer;
      api_.Take(api_->PJRT_Buffer_Destroy(&args), "").IgnoreError();
    }
    for (PJRT_Event* const event : events_) {
      api_.Await(event, "").IgnoreError();
    }
  }

  std::vector<PJRT_Buffer*>& buffers() { return buffers_; }
  const std::vector<PJRT_Buffer*>& buffers() const { return buffers_; }
  std::vector<PJRT_Event*>& events() { return events_; }

 private:
  const PjrtApi api_;
  std::vector<PJRT_Buffer*> buffers_;
  std::vector<PJRT_Event*> events_;
};

PjrtProgram::~PjrtProgram() {
  auto args = PjrtArgs<PJRT_LoadedExecutable_Destroy_Args>(
      PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE);
  args.executable = executable_;
  const PjrtApi& api = client_->api();
  api.Take(api->PJRT_LoadedExecutable_Destroy(&args), "").IgnoreError();
}

absl::Status PjrtProgram::Bring(absl::Span<const Input> inputs,
                                Buffers* buffers) const {
  const PjrtApi& api = client_->api();
  for (const Input& input : inputs) {
    const std::vector<int64_t> dims(input.type.dims.begin(),
                                    input.type.dims.end());
    auto args = PjrtArgs<PJRT_Client_BufferFromHostBuffer_Args>(
        PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE);
    args.client = client_->raw();
    args.data = input.data;
    args.type = TypeOf(input.type.element);
    args.dims = dims.data();
    args.num_dims = dims.size();
    // Inputs stay as they are until the buffers are gone.
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.device = client_->raw_device(device_);
    RETURN_IF_ERROR(
        api.Take(api->PJRT_Client_BufferFromHostBuffer(&args),
                 absl::StrCat(client_->NameOf(device_), " takes no input")));
    buffers->buffers().push_back(args.buffer);
    buffers->events().push_back(args.done_with_host_buffer);
  }
  return absl::OkStatus();
}

absl::Status PjrtProgram::Execute(const Buffers& arguments,
                                  Buffers* results) const {
  const PjrtApi& api = client_->api();
  auto options = PjrtArgs<PJRT_ExecuteOptions>(PJRT_ExecuteOptions_STRUCT_SIZE);
  PJRT_Buffer* const* const list = arguments.buffers().data();
  results->buffers().resize(results_);
  PJRT_Buffer** const out = results->buffers().data();
  auto args = PjrtArgs<PJRT_LoadedExecutable_Execute_Args>(
      PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE);
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &list;
  args.num_devices = 1;
  args.num_args = arguments.buffers().size();
  args.output_lists = &out;
  return api.Take(api->PJRT_LoadedExecutable_Execute(&args),
                  absl::StrCat(client_->NameOf(device_), " fails"));
}

absl::Status PjrtProgram::Run(
    absl::Span<const Input> inputs, absl::Span<const Output> outputs,
    absl::FunctionRef<void(size_t output)> arrived) const {
  CHECK(outputs.size() == results_, "there is memory for each result");
  const PjrtApi& api = client_->api();
  Buffers arguments(api);
  Buffers results(api);
  RETURN_IF_ERROR(Failed(Bring(inputs, &arguments)));
  RETURN_IF_ERROR(Failed(Execute(arguments, &results)));
  absl::Status status;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HloType& type = outputs[i].type;
    // Row-major, whatever the device has.
    std::vector<int64_t> order(type.dims.size());
    for (size_t d = 0; d < order.size(); ++d) {
      order[d] = static_cast<int64_t>(order.size() - 1 - d);
    }
    auto layout = PjrtArgs<PJRT_Buffer_MemoryLayout>(
        PJRT_Buffer_MemoryLayout_STRUCT_SIZE);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = order.data();
    layout.tiled.minor_to_major_size = order.size();
    auto args = PjrtArgs<PJRT_Buffer_ToHostBuffer_Args>(
        PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE);
    args.src = results.buffers()[i];
    args.host_layout = &layout;
    args.dst = outputs[i].data;
    args.dst_size = BytesOf(type);
    status = api.Take(api->PJRT_Buffer_ToHostBuffer(&args),
                      absl::StrCat(client_->NameOf(device_), " fails"));
    if (!status.ok()) break;
    results.events().push_back(args.event);
  }
  // Each event is waited for once: what is under way writes to the outputs.
  std::vector<PJRT_Event*> events;
  events.swap(results.events());
  for (size_t i = 0; i < events.size(); ++i) {
    status.Update(
        api.Await(events[i], absl::StrCat(client_->NameOf(device_), " fails")));
    if (status.ok()) arrived(i);
  }
  return Failed(status);
}

}  // namespace paramd
