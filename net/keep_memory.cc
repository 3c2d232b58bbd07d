#include "net/keep_memory.h"

#include <malloc.h>

namespace paramd {

void KeepMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // The largest that glibc takes.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_ARENA_MAX, 1);
}

}  // namespace paramd
