#ifndef PARAMD_SERVER_CORE_OLD_VALUES_H_
#define PARAMD_SERVER_CORE_OLD_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"

namespace paramd {

// The values that each worker read last, by block and by reference: what its
// next gradient is computed on. A reference costs nothing until a push replaces
// the block's content; from then on it holds the old bytes.
//
// Bound: of each block `versions_kept` versions for each of the workers that
// SetWorkers names.
//
// Not thread-safe: lives inside a ShardContent.
class OldValues {
 public:
  // (slice, block) in the layout.
  using Place = std::pair<uint32_t, uint32_t>;

  // A worker that pulls ahead has read twice when its push comes.
  explicit OldValues(size_t versions_kept) : versions_kept_(versions_kept) {}

  // Forgets every read; returns whether there was one.
  bool Clear();

  // Whose reads are kept; those of others are dropped.
  void SetWorkers(const std::vector<uint32_t>& workers);

  // Worker `worker` has read `values`. Nothing if it is not one of SetWorkers.
  void Read(uint32_t worker, Place place, const v1::BlockVersion& version,
            const Buffer& values);

  // What `worker` read as `version`; null if that is not kept (any more).
  const Buffer* Find(uint32_t worker, Place place,
                     const v1::BlockVersion& version) const;

  // Bytes of the buffers held, each once, but those for which `is_live`.
  template <typename IsLive>
  uint64_t BytesBut(const IsLive& is_live) const;

 private:
  struct Kept {
    v1::BlockVersion version;
    Buffer values;
  };
  using Reads = std::map<Place, std::vector<Kept>>;  // The newest last.

  const size_t versions_kept_;
  std::map<uint32_t, Reads> workers_;
};

template <typename IsLive>
uint64_t OldValues::BytesBut(const IsLive& is_live) const {
  absl::flat_hash_map<const void*, uint64_t> held;
  for (const auto& [worker, reads] : workers_) {
    for (const auto& [place, versions] : reads) {
      for (const Kept& kept : versions) {
        if (is_live(place, kept.values)) continue;
        held[kept.values.bytes().data()] = kept.values.size();
      }
    }
  }
  uint64_t bytes = 0;
  for (const auto& [data, size] : held) bytes += size;
  return bytes;
}

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OLD_VALUES_H_
