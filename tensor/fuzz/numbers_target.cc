// Numbers as they travel, in each format and cut anywhere, are read as if they
// came in one piece, and written they are the same bytes.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"

namespace paramd {
namespace {

// In pieces of `piece` bytes.
BufferChain Cut(absl::string_view bytes, size_t piece) {
  const Buffer whole = Buffer::Copy(std::string(bytes));
  BufferChain chain;
  for (size_t at = 0; at < whole.size(); at += piece) {
    chain.push_back(whole.Part(at, std::min(piece, whole.size() - at)));
  }
  return chain;
}

std::vector<float> Read(const BufferChain& chain, NumberFormat format,
                        size_t count) {
  ChainReader reader(chain);
  std::vector<float> numbers(count);
  NumberReader(&reader, format).ReadTo(numbers.data(), count);
  CHECK(reader.remaining() == 0, "all of it is read");
  return numbers;
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.empty() ||
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void Check(absl::string_view bytes, NumberFormat format, size_t piece) {
  const size_t count = bytes.size() / BytesOf(format);
  bytes = bytes.substr(0, count * BytesOf(format));
  const BufferChain chain = Cut(bytes, piece);
  const std::vector<float> numbers =
      Read(Cut(bytes, bytes.size() + 1), format, count);
  CHECK(Same(numbers, Read(chain, format, count)), "cuts change nothing");
  ChainReader runs(chain);
  std::vector<float> by_runs(count);
  NumberReader(&runs, format)
      .ForEachRun(count,
                  [&](const std::byte* run, size_t offset, size_t length) {
                    CHECK(offset + length <= count, "runs lie inside");
                    std::memcpy(&by_runs[offset], run, length * sizeof(float));
                  });
  CHECK(Same(numbers, by_runs), "runs are the same numbers");
  bool has_nan = false;
  for (const float number : numbers) has_nan = has_nan || number != number;
  std::string written(bytes.size(), '\0');
  EncodeNumbers(format, numbers.data(), count,
                reinterpret_cast<std::byte*>(written.data()));
  // A NaN may lose what it carries.
  CHECK(has_nan || written == bytes, "what is read is written");
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  const size_t piece = 1 + pieces.Byte() % 67;
  const absl::string_view bytes = pieces.Rest();
  for (const auto format :
       {paramd::NumberFormat::kFp32, paramd::NumberFormat::kBf16,
        paramd::NumberFormat::kFp16}) {
    paramd::Check(bytes, format, piece);
  }
  return 0;
}
