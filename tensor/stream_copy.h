#ifndef PARAMD_TENSOR_STREAM_COPY_H_
#define PARAMD_TENSOR_STREAM_COPY_H_

#include <cstddef>

namespace paramd {

// Who is written in one go from this many bytes on pushes its own beginning out
// of any cache that it may use.
inline constexpr size_t kLeastStreamedBytes = size_t{32} << 20;

// memcpy for a part of such memory: past the caches, which neither fetch what
// is overwritten nor give up what they hold. Whoever learns of the copy's end
// by the usual means (a lock, an atomic) sees all of it. REQUIRES: no overlap.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace paramd

#endif  // PARAMD_TENSOR_STREAM_COPY_H_
