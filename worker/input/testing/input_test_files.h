#ifndef PARAMD_WORKER_INPUT_TESTING_INPUT_TEST_FILES_H_
#define PARAMD_WORKER_INPUT_TESTING_INPUT_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paramd {

// The bytes of files, as other programs write them.

// A PNG or JPEG file of an image [height, width, channels] of 1 or 3 channels.
std::string PngBytes(uint32_t height, uint32_t width, uint32_t channels,
                     const std::vector<uint8_t>& pixels);
std::string JpegBytes(uint32_t height, uint32_t width, uint32_t channels,
                      const std::vector<uint8_t>& pixels);
// A progressive JPEG file of 8 x 8 grey pixels in so many scans, at most 704.
std::string JpegOfScans(size_t scans);

// An .npy file of version 1: type "<f4", shape "(3, 2)", and the values' bytes.
std::string NpyBytes(const std::string& type, const std::string& shape,
                     const std::string& values);
template <class T>
std::string ValueBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// A ZIP file of these (name, content); deflated or stored.
std::string ZipBytes(
    const std::vector<std::pair<std::string, std::string>>& members,
    bool deflated);

// A record of a TFRecord file.
std::string TfRecordBytes(const std::string& data);
// The features of a tf.Example, and one made of them.
std::string FloatFeature(const std::string& name, std::vector<float> values);
std::string Int64Feature(const std::string& name, std::vector<int64_t> values);
std::string BytesFeature(const std::string& name, const std::string& value);
std::string TfExample(const std::vector<std::string>& features);

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_TESTING_INPUT_TEST_FILES_H_
