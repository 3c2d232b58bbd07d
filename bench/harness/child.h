#ifndef PARAMD_BENCH_HARNESS_CHILD_H_
#define PARAMD_BENCH_HARNESS_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace paramd {

// One side of what is measured, in a process of its own: its CPU time and page
// faults are its alone, and libraries with threads do not disturb each other.
//
// A request is a line, its answer too. A child that dies takes the benchmark
// with it: one sentence on stderr, exit code 1.
//
// Not thread-safe. The parent starts no thread before the last child.
class Child {
 public:
  using Serve = std::function<std::string(const std::string& request)>;

  // Forks. The child, which ps and perf show under `name`, calls `make` once,
  // then what that returned for every request, until the Child goes.
  Child(std::string name, const std::function<Serve()>& make);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The answer of the child. The first call waits until it is made.
  std::string Call(const std::string& request);

  // Of the whole process, until now.
  double CpuSeconds() const;
  uint64_t MinorFaults() const;

 private:
  [[noreturn]] void Fail(const std::string& what) const;

  const std::string name_;
  pid_t pid_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
};

}  // namespace paramd

#endif  // PARAMD_BENCH_HARNESS_CHILD_H_
