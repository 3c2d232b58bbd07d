#include "input/testing/idx_test_files.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <zlib.h>

namespace paramd {

std::string IdxBytes(const std::vector<uint32_t>& shape,
                     const std::vector<uint8_t>& content) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (const uint32_t dimension : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<char>(dimension >> shift));
    }
  }
  bytes.append(content.begin(), content.end());
  return bytes;
}

namespace {

std::string Deflated(const std::string& bytes, int window_bits) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

// 16 asks for gzip's header in place of zlib's.
std::string Gzipped(const std::string& bytes) {
  return Deflated(bytes, 15 + 16);
}

std::string ZlibBytes(const std::string& bytes) { return Deflated(bytes, 15); }

std::string WriteTestFile(const std::string& name, const std::string& bytes) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string directory = absl::StrCat(
      ::testing::TempDir(), "/", test->test_suite_name(), ".", test->name());
  std::filesystem::create_directories(directory);
  const std::string path = absl::StrCat(directory, "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace paramd
