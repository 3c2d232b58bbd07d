#ifndef PARAMD_CHECKPOINT_TESTING_SAMPLE_H_
#define PARAMD_CHECKPOINT_TESTING_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace paramd::testing {

// A model whose every number is known: element i of a variable or slot is a
// pure function of its name and i. Cut over servers as the daemon does it, so a
// test can write it on some servers and read it on others.

struct SampleSlice {
  const v1::Variable* variable;
  RowRange rows;
  uint32_t server;
};

v1::Variable SampleVariable(const std::string& name,
                            std::vector<uint64_t> shape);

// The variables in slices of at most `slice_bytes` (at least one row), dealt
// out to the servers in turn. The variables outlive the slices.
std::vector<SampleSlice> CutForServers(
    const std::vector<v1::Variable>& variables, uint32_t servers,
    uint64_t slice_bytes);

// The bytes of those rows of the variable, or of its slot unless that is empty.
Buffer SampleBytes(const v1::Variable& variable, const std::string& slot,
                   RowRange rows);

// What server `server` of `servers` asks to be written, and the payload.
v1::WriteShard SampleWrite(const std::string& directory,
                           const std::vector<SampleSlice>& slices,
                           const std::vector<std::string>& slots,
                           uint32_t server, uint32_t servers,
                           BufferChain* payload);

// A manifest of those variables, without files.
v1::Manifest SampleManifest(const std::vector<v1::Variable>& variables,
                            const std::vector<std::string>& slots,
                            uint64_t term, uint64_t counter, uint64_t step);

// A whole checkpoint in the directory `root`, committed by `servers` servers
// in slices of at most `slice_bytes`, each listing what of `lost` it lost; its
// path.
absl::StatusOr<std::string> CommitSample(
    const std::string& root, const std::vector<v1::Variable>& variables,
    const std::vector<std::string>& slots, uint64_t term, uint64_t counter,
    uint64_t step, uint32_t servers, uint64_t slice_bytes,
    const std::vector<v1::LostPushes>& lost = {});

v1::Version MakeVersion(uint64_t term, uint64_t counter);

}  // namespace paramd::testing

#endif  // PARAMD_CHECKPOINT_TESTING_SAMPLE_H_
