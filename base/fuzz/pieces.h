#ifndef PARAMD_BASE_FUZZ_PIECES_H_
#define PARAMD_BASE_FUZZ_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd::fuzz {

// What a target takes its input apart with, from front to back. Behind the end
// there are zeros and empty pieces, so every input is one. Refers to it.
class Pieces {
 public:
  Pieces(const uint8_t* data, size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}
  explicit Pieces(absl::string_view bytes) : left_(bytes) {}

  bool done() const { return left_.empty(); }
  // Of so many bytes, at most 8, the lowest first.
  uint64_t Number(int bytes);
  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  absl::string_view Take(size_t bytes);
  // A length of two bytes, and so much.
  absl::string_view TakeSized() { return Take(Number(2)); }
  absl::string_view Rest() { return Take(left_.size()); }

 private:
  absl::string_view left_;
};

// Appends what Number and TakeSized read. A piece is cut at 65535 bytes.
void AddNumber(uint64_t number, int bytes, std::string* out);
void AddSized(absl::string_view piece, std::string* out);

// CHECKs that a refusal says why.
void CheckRefusal(const absl::Status& refused);
// Besides, that it can be printed as it is.
void CheckPrintable(absl::string_view message);

}  // namespace paramd::fuzz

#endif  // PARAMD_BASE_FUZZ_PIECES_H_
