#ifndef PARAMD_CHECKPOINT_TESTING_SAMPLE_H_
#define PARAMD_CHECKPOINT_TESTING_SAMPLE_H_

#include <cstdint>
#include <functional>
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
// in slices of at most `slice_bytes`, each listing what of `lost` it lost and
// saying that it acknowledged `alone` chunks by itself; its path.
absl::StatusOr<std::string> CommitSample(
    const std::string& root, const std::vector<v1::Variable>& variables,
    const std::vector<std::string>& slots, uint64_t term, uint64_t counter,
    uint64_t step, uint32_t servers, uint64_t slice_bytes,
    const std::vector<v1::LostPushes>& lost = {}, uint64_t alone = 0);

// Whether block `block` of the slice has changed since the base.
using BlockChanged =
    std::function<bool(const v1::SavedSlice& slice, uint64_t block)>;

// What the server that wrote `base`, a file of the checkpoint that `manifest`
// describes and that lies in a directory of the name `directory`, asks to be
// written as a file with that base, and the payload.
v1::WriteShard SampleIncrementWrite(const std::string& directory,
                                    const v1::Manifest& manifest,
                                    const v1::ShardFile& base,
                                    const BlockChanged& changed,
                                    BufferChain* payload);

// The slice's bytes afterwards: in blocks that changed other numbers than
// SampleBytes, pure functions of the same all the same.
std::string SampleAfterIncrement(const v1::Variable& variable,
                                 const std::string& slot,
                                 const v1::SavedSlice& slice,
                                 const BlockChanged& changed);

// Commits a checkpoint with the files of the one in `base` as bases, beside it,
// ten steps later under the next number; its path.
absl::StatusOr<std::string> CommitIncrement(const std::string& base,
                                            const BlockChanged& changed);

}  // namespace paramd::testing

#endif  // PARAMD_CHECKPOINT_TESTING_SAMPLE_H_
