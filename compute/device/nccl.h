#ifndef PARAMD_COMPUTE_DEVICE_NCCL_H_
#define PARAMD_COMPUTE_DEVICE_NCCL_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

struct CUstream_st;  // CUDA's.

namespace paramd {

// NCCL, found when it is first needed: a program that uses one GPU runs where
// it is not installed, and is built without its header. What is here is the
// same in each version 2.
struct Nccl {
  using Result = int;  // 0: success.
  struct Id {
    char internal[128];
  };
  using End = struct ncclComm*;
  using Stream = CUstream_st*;
  // ncclConfig_t as it was first; the library takes its size and version from
  // it.
  struct Config {
    size_t size = sizeof(Config);
    uint32_t magic = 0xcafebeef;
    uint32_t version = 21400;
    int blocking = 0;
    int padding = 0;
  };
  static constexpr Result kRemoteError = 6;
  static constexpr Result kInProgress = 7;
  // Since then a call need not wait for other processes.
  static constexpr int kFirstThatNeedNotWait = 21400;
  static constexpr int kFloat32 = 7;
  static constexpr int kSum = 0;

  // FAILED_PRECONDITION if it is not there.
  static absl::StatusOr<Nccl> Load() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "NCCL can't be loaded (install libnccl2, or put its folder into "
          "LD_LIBRARY_PATH): ",
          dlerror()));
    }
    Nccl nccl;
    const bool found = Find(library, "ncclGetUniqueId", &nccl.make_id) &&
                       Find(library, "ncclCommInitRank", &nccl.join) &&
                       Find(library, "ncclCommAbort", &nccl.abort) &&
                       Find(library, "ncclGroupStart", &nccl.begin) &&
                       Find(library, "ncclAllReduce", &nccl.sum) &&
                       Find(library, "ncclGroupEnd", &nccl.end) &&
                       Find(library, "ncclGetErrorString", &nccl.words);
    if (!found) {
      return absl::FailedPreconditionError(
          absl::StrCat("libnccl is not the one it should be: ", dlerror()));
    }
    // Older ones have not all of these.
    Find(library, "ncclGetVersion", &nccl.version);
    Find(library, "ncclCommInitRankConfig", &nccl.begin_to_join);
    Find(library, "ncclCommGetAsyncError", &nccl.state);
    return nccl;
  }

  // Whether members may be in processes of their own, of which any may be lost:
  // FAILED_PRECONDITION, naming the version, if a call would wait for a lost
  // one.
  absl::Status CheckNeedNotWait() const {
    int number = 0;
    if (version != nullptr) version(&number);
    if (begin_to_join != nullptr && state != nullptr &&
        number >= kFirstThatNeedNotWait) {
      return absl::OkStatus();
    }
    // Up to 2.8 numbers were like 2804.
    const int minor = number < 10000 ? number / 100 % 10 : number / 100 % 100;
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL 2.", minor,
                     " is too old to sum between processes (install "
                     "libnccl2 of version 2.14 or newer)"));
  }

  Result (*make_id)(Id* id) = nullptr;
  Result (*join)(End* end, int size, Id id, int rank) = nullptr;
  Result (*abort)(End end) = nullptr;
  Result (*begin)() = nullptr;
  Result (*sum)(const void* from, void* to, size_t count, int type,
                int operation, End end, Stream stream) = nullptr;
  Result (*end)() = nullptr;
  const char* (*words)(Result result) = nullptr;
  // Null in old ones. `version`: 21400 for 2.14.0. Of an end of begin_to_join
  // no call waits for others: it returns kInProgress, and `state` says what has
  // become of it. Until that is known, and beside `state`, no other may be
  // called.
  Result (*version)(int* number) = nullptr;
  Result (*begin_to_join)(End* end, int size, Id id, int rank,
                          Config* config) = nullptr;
  Result (*state)(End end, Result* result) = nullptr;

 private:
  template <class Function>
  static bool Find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_NCCL_H_
