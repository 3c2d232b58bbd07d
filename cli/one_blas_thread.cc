// OpenBLAS starts a thread a processor when it is loaded, before main, and ends
// the process, or never gets on, where it can't. Products use one thread each
// (compute/device/matrix.h), so it is told before that there is one processor:
// what stands in .preinit_array runs before any library is initialised, when
// nothing of theirs may be called. Linked into each program of paramd.

// Of OpenBLAS, in its builds with threads of its own; 0: to be found out.
extern "C" {
extern int blas_cpu_number __attribute__((weak));
extern int blas_num_threads __attribute__((weak));
}

namespace {

void UseOneThread(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  if (&blas_cpu_number != nullptr) blas_cpu_number = 1;
  if (&blas_num_threads != nullptr) blas_num_threads = 1;
}

using Initializer = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used]] Initializer use_one_thread =
    UseOneThread;

}  // namespace
