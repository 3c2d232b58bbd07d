#ifndef PARAMD_TENSOR_HUGE_PAGES_H_
#define PARAMD_TENSOR_HUGE_PAGES_H_

#include <cstddef>
#include <memory>

namespace paramd {

// Memory of its own that begins with a huge page and has as many of them as the
// kernel gives; the rest is of ordinary ones. Zero, and taken at first touch.
class HugePages {
 public:
  // Of x86-64, and of AArch64 with pages of 4 KiB.
  static constexpr size_t kBytes = size_t{2} << 20;

  // Null if the system gives no memory. REQUIRES: size > 0.
  static std::unique_ptr<HugePages> Map(size_t size);

  ~HugePages();
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  std::byte* begin() const { return begin_; }

 private:
  HugePages(std::byte* begin, size_t size) : begin_(begin), size_(size) {}

  std::byte* const begin_;
  const size_t size_;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_HUGE_PAGES_H_
