#ifndef PARAMD_INPUT_TESTING_IDX_TEST_FILES_H_
#define PARAMD_INPUT_TESTING_IDX_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace paramd {

// The bytes of an IDX file with this shape and content; they need not agree.
std::string IdxBytes(const std::vector<uint32_t>& shape,
                     const std::vector<uint8_t>& content);

// What gzip makes of `bytes`.
std::string Gzipped(const std::string& bytes);
// The same stream in zlib's format.
std::string ZlibBytes(const std::string& bytes);

// Writes a file of this name into a directory of the running test's own and
// returns its path.
std::string WriteTestFile(const std::string& name, const std::string& bytes);

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_IDX_TEST_FILES_H_
