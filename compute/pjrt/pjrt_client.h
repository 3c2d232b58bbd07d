#ifndef PARAMD_COMPUTE_PJRT_PJRT_CLIENT_H_
#define PARAMD_COMPUTE_PJRT_PJRT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "compute/hlo/hlo_graph.h"
#include "compute/pjrt/pjrt_api.h"

namespace paramd {

class PjrtProgram;

// The devices of a plugin, in this process. A plugin may give them to one
// client only, so all of a process that name a library share one.
//
// Thread-safe. Programs outlive nobody: they keep their client.
class PjrtClient : public std::enable_shared_from_this<PjrtClient> {
 public:
  // The one of this library, made if there is none. One that is made has
  // `devices` of them, if they are the processor's, which has as many as one
  // asks for. INVALID_ARGUMENT as PjrtApi::Load, or if the plugin has no device
  // or can't make a client. UNAVAILABLE if that takes longer than `patience`: a
  // plugin may wait for a server of its own. Then the process has nothing more
  // of it.
  static absl::StatusOr<std::shared_ptr<PjrtClient>> OfProcess(
      const std::string& library, size_t devices,
      absl::Duration patience = absl::Minutes(2));

  ~PjrtClient();

  size_t device_count() const { return devices_.size(); }
  // "pjrt cpu", "pjrt TPU v5 lite": the platform's or the device's own name.
  std::string NameOf(size_t device) const;

  // A program of one device. INTERNAL, what the plugin says: it can't be
  // compiled. RESOURCE_EXHAUSTED: the device has not the memory.
  absl::StatusOr<std::unique_ptr<PjrtProgram>> Compile(absl::string_view text,
                                                       size_t device,
                                                       size_t results);

  const PjrtApi& api() const { return api_; }
  PJRT_Client* raw() const { return client_; }
  PJRT_Device* raw_device(size_t device) const { return devices_[device]; }

 private:
  explicit PjrtClient(PjrtApi api) : api_(api) {}

  static absl::StatusOr<std::shared_ptr<PjrtClient>> Open(
      const std::string& library, size_t devices);
  // Asks for so many devices; 0: for what there are.
  absl::Status Make(size_t devices);
  void Destroy();
  absl::StatusOr<bool> IsProcessor() const;
  absl::StatusOr<PJRT_DeviceDescription*> Describe(size_t device) const;
  absl::StatusOr<int> IdOf(size_t device) const;

  const PjrtApi api_;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;  // The client's.
};

// A compiled program. Thread-safe: it may run several times at once.
class PjrtProgram {
 public:
  // Values of the host, row-major.
  struct Input {
    const void* data = nullptr;
    HloType type;
  };
  struct Output {
    void* data = nullptr;
    HloType type;
  };

  PjrtProgram(std::shared_ptr<PjrtClient> client,
              PJRT_LoadedExecutable* executable, size_t device, size_t results)
      : client_(std::move(client)),
        executable_(executable),
        device_(device),
        results_(results) {}
  ~PjrtProgram();
  PjrtProgram(const PjrtProgram&) = delete;
  PjrtProgram& operator=(const PjrtProgram&) = delete;

  // `arrived` hears of each output, in order, when its values are there.
  // RESOURCE_EXHAUSTED: the device has not the memory; UNAVAILABLE: it fails.
  absl::Status Run(absl::Span<const Input> inputs,
                   absl::Span<const Output> outputs,
                   absl::FunctionRef<void(size_t output)> arrived) const;

 private:
  class Buffers;

  absl::Status Bring(absl::Span<const Input> inputs, Buffers* buffers) const;
  absl::Status Execute(const Buffers& arguments, Buffers* results) const;

  // Shared: the client goes when the last of its programs and devices does.
  const std::shared_ptr<PjrtClient> client_;
  PJRT_LoadedExecutable* const executable_;
  const size_t device_;
  const size_t results_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PJRT_PJRT_CLIENT_H_
