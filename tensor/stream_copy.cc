#include "tensor/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace paramd {

#if defined(__SSE2__)
namespace {

constexpr size_t kLine = 64;
// The processor itself looks no further than a page.
constexpr size_t kAhead = 2048;
constexpr size_t kLane = sizeof(__m128i);

// A whole line at `to`, which is one: else its bytes go out one by one.
void StreamLine(std::byte* to, const std::byte* from) {
  auto* const out = reinterpret_cast<__m128i*>(to);
  const auto* const in = reinterpret_cast<const __m128i*>(from);
  for (size_t i = 0; i < kLine / kLane; ++i) {
    _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
  }
}

}  // namespace

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t before =
      std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  if (before > 0) std::memcpy(to, from, before);
  size_t done = before;
  for (; bytes - done >= kLine; done += kLine) {
    // Of no consequence past the end.
    _mm_prefetch(reinterpret_cast<const char*>(from + done + kAhead),
                 _MM_HINT_T0);
    StreamLine(to + done, from + done);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
  // Such stores have no place among the others but by this.
  _mm_sfence();
}
#else
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace paramd
