#ifndef PARAMD_NET_HAND_OVER_H_
#define PARAMD_NET_HAND_OVER_H_

// Tells ThreadSanitizer what it cannot see, since the distribution's gRPC is
// not instrumented: that gRPC carries `object` from the thread that calls
// HandOver to the one that calls TakeOver, with the locks it holds on the way.
// Nothing in other builds.

#if defined(__SANITIZE_THREAD__)
#define PARAMD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PARAMD_TSAN 1
#endif
#endif

#ifdef PARAMD_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace paramd {

inline void HandOver([[maybe_unused]] void* object) {
#ifdef PARAMD_TSAN
  __tsan_release(object);
#endif
}

inline void TakeOver([[maybe_unused]] void* object) {
#ifdef PARAMD_TSAN
  __tsan_acquire(object);
#endif
}

}  // namespace paramd

#endif  // PARAMD_NET_HAND_OVER_H_
