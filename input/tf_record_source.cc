#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/sources.h"
#include "input/transform.h"
#include "input/unpack.h"

namespace paramd {
namespace {

constexpr uint64_t kMostRecordBytes = uint64_t{1} << 30;
// A record: its length (8), the length's crc (4), the data, the data's crc (4).
constexpr uint64_t kHeaderBytes = 12;
constexpr uint64_t kFrameBytes = 16;

template <class T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Reads the wire format of protocol buffers, field by field. False at whatever
// does not fit into the bytes that are left.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  size_t left() const { return bytes_.size(); }

  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Take(uint64_t size, absl::string_view* value) {
    if (size > bytes_.size()) return false;
    *value = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  // The next field's number and, of a field with a length or a fixed size, its
  // bytes; of a varint its value.
  bool Field(uint64_t* number, uint64_t* type, uint64_t* value,
             absl::string_view* bytes) {
    uint64_t tag = 0;
    if (!Varint(&tag)) return false;
    *number = tag >> 3;
    *type = tag & 7;
    *value = 0;
    *bytes = "";
    switch (*type) {
      case 0:
        return Varint(value);
      case 1:
        return Take(8, bytes);
      case 2: {
        uint64_t size = 0;
        return Varint(&size) && Take(size, bytes);
      }
      case 5:
        return Take(4, bytes);
      default:
        return false;
    }
  }

 private:
  absl::string_view bytes_;
};

// The kinds of tf.Feature's lists, by their field numbers.
enum class ListKind : uint64_t {
  kNone = 0,
  kBytes = 1,
  kFloat = 2,
  kInt64 = 3
};

struct List {
  ListKind kind = ListKind::kNone;
  absl::string_view bytes;
};

// The value of a map entry whose key is `name`, in the bytes of a tf.Example:
// Example { Features features = 1 }, Features { map<string, Feature> = 1 },
// Feature { bytes_list = 1, float_list = 2, int64_list = 3 }.
bool FindList(absl::string_view example, const std::string& name, List* list) {
  uint64_t number, type, value;
  absl::string_view features, entry, field;
  for (WireReader outer(example); !outer.done();) {
    if (!outer.Field(&number, &type, &value, &features)) return false;
    if (number != 1 || type != 2) continue;
    for (WireReader map(features); !map.done();) {
      if (!map.Field(&number, &type, &value, &entry)) return false;
      if (number != 1 || type != 2) continue;
      absl::string_view key, feature;
      for (WireReader pair(entry); !pair.done();) {
        if (!pair.Field(&number, &type, &value, &field)) return false;
        if (number == 1 && type == 2) key = field;
        if (number == 2 && type == 2) feature = field;
      }
      if (key != name) continue;
      for (WireReader one(feature); !one.done();) {
        if (!one.Field(&number, &type, &value, &field)) return false;
        if (type != 2 || number < 1 || number > 3) continue;
        *list = {static_cast<ListKind>(number), field};
      }
    }
  }
  return true;
}

// The values of a list, packed or one by one.
bool ReadFloats(absl::string_view list, std::vector<float>* out) {
  uint64_t number, type, value;
  absl::string_view bytes;
  for (WireReader reader(list); !reader.done();) {
    if (!reader.Field(&number, &type, &value, &bytes)) return false;
    if (number != 1) continue;
    if ((type != 2 && type != 5) || bytes.size() % 4 != 0) return false;
    for (size_t i = 0; i < bytes.size(); i += 4) {
      out->push_back(
          Load<float>(reinterpret_cast<const std::byte*>(bytes.data() + i)));
    }
  }
  return true;
}

bool ReadIntegers(absl::string_view list, std::vector<int64_t>* out) {
  uint64_t number, type, value;
  absl::string_view bytes;
  for (WireReader reader(list); !reader.done();) {
    if (!reader.Field(&number, &type, &value, &bytes)) return false;
    if (number != 1) continue;
    if (type == 0) out->push_back(static_cast<int64_t>(value));
    for (WireReader packed(bytes); type == 2 && !packed.done();) {
      if (!packed.Varint(&value)) return false;
      out->push_back(static_cast<int64_t>(value));
    }
  }
  return true;
}

bool ReadTexts(absl::string_view list, std::vector<absl::string_view>* out) {
  uint64_t number, type, value;
  absl::string_view bytes;
  for (WireReader reader(list); !reader.done();) {
    if (!reader.Field(&number, &type, &value, &bytes)) return false;
    if (number == 1 && type == 2) out->push_back(bytes);
  }
  return true;
}

// Where a record lacks a feature. A dimension that is open has nothing.
void FillMissing(const FeatureSpec& feature, double value, OwnedTensor* out) {
  out->Reset(feature.dtype, feature.dims);
  const auto fill = [value](auto numbers) {
    for (auto& number : numbers) {
      number = static_cast<std::decay_t<decltype(number)>>(value);
    }
  };
  switch (feature.dtype) {
    case DType::kFloat32:
      return fill(out->values<float>());
    case DType::kFloat64:
      return fill(out->values<double>());
    case DType::kInt32:
      return fill(out->values<int32_t>());
    case DType::kInt64:
      return fill(out->values<int64_t>());
    case DType::kUInt8:
      return fill(out->values<uint8_t>());
    case DType::kBFloat16:
    case DType::kFloat16:
      CHECK(false, "no feature is of two bytes");
  }
}

template <class T>
bool Holds(double value) {
  return value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
         value <= static_cast<double>(std::numeric_limits<T>::max()) &&
         static_cast<double>(static_cast<T>(value)) == value;
}

// INVALID_ARGUMENT if the feature can't have this value.
absl::Status CheckMissing(const FeatureSpec& feature, double value) {
  const bool fits = feature.dtype == DType::kFloat64 ||
                    (feature.dtype == DType::kFloat32 &&
                     std::abs(value) <= std::numeric_limits<float>::max()) ||
                    (feature.dtype == DType::kInt32 && Holds<int32_t>(value)) ||
                    (feature.dtype == DType::kInt64 &&
                     std::abs(value) < 0x1p63 && Holds<int64_t>(value)) ||
                    (feature.dtype == DType::kUInt8 && Holds<uint8_t>(value));
  if (fits) {
    const absl::Status in_class =
        CheckClass(feature, static_cast<int64_t>(value),
                   [] { return std::string("missing"); });
    return absl::Status(in_class.ok() ? absl::StatusCode::kOk
                                      : absl::StatusCode::kInvalidArgument,
                        in_class.message());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "feature '", feature.name, "' is ", NameOf(feature.dtype), ", which ",
      value, ", its value where it is missing, is not"));
}

// Shapes `out` for `count` values: one dimension may differ. False if they do
// not fit.
bool Shape(const FeatureSpec& feature, uint64_t count, OwnedTensor* out) {
  Dims dims = feature.dims;
  uint64_t known = 1;
  uint64_t* open = nullptr;
  for (uint64_t& dimension : dims) {
    if (dimension == 0) {
      open = &dimension;
    } else {
      known *= dimension;
    }
  }
  if (open != nullptr && count % known == 0) *open = count / known;
  if (SizeOf(dims) != count) return false;
  out->Reset(feature.dtype, dims);
  return true;
}

class TfRecordSource : public ExampleSource {
 public:
  // `missing`: of each feature the value that stands for it, if one does.
  TfRecordSource(InputSpec spec, std::vector<absl::optional<double>> missing,
                 std::vector<std::unique_ptr<InputFile>> files)
      : spec_(std::move(spec)),
        missing_(std::move(missing)),
        files_(std::move(files)) {}

  absl::Status Open() {
    for (uint32_t f = 0; f < files_.size(); ++f) {
      const uint64_t first = records_.size();
      if (files_[f]->has_messages()) {
        for (const InputFile::Message& message : files_[f]->messages()) {
          records_.push_back({f, message.begin, message.bytes});
        }
      } else {
        RETURN_IF_ERROR(Unpack(f));
        RETURN_IF_ERROR(FindRecords(f));
      }
      if (records_.size() > first) starts_.push_back(first);
    }
    ASSIGN_OR_RETURN(checksum_, ChecksumOf(files_));
    return absl::OkStatus();
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return records_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::vector<uint64_t> FileStarts() const override { return starts_; }
  std::string Where(uint64_t index) const override {
    const InputFile& file = *files_[records_[index].file];
    if (file.has_messages()) return file.WhereMessage(index);
    return Where(records_[index].file, records_[index].begin);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    ASSIGN_OR_RETURN(const std::string data, ReadData(index));
    const absl::string_view text(data.data(), records_[index].bytes);
    example->values.resize(spec_.features.size());
    for (size_t f = 0; f < spec_.features.size(); ++f) {
      List list;
      if (!FindList(text, spec_.features[f].name, &list)) {
        return absl::DataLossError(
            absl::StrCat(Where(index), ": it is no tf.Example"));
      }
      if (list.kind == ListKind::kNone && missing_[f].has_value()) {
        FillMissing(spec_.features[f], *missing_[f], &example->values[f]);
        continue;
      }
      RETURN_IF_ERROR(
          ReadFeature(index, spec_.features[f], list, &example->values[f]));
    }
    return absl::OkStatus();
  }

 private:
  struct Record {
    uint32_t file = 0;
    uint64_t begin = 0;
    uint64_t bytes = 0;  // Of the data.
  };

  // The data, and its crc behind it where it has one: messages have none.
  absl::StatusOr<std::string> ReadData(uint64_t index) const {
    const Record& record = records_[index];
    const InputFile& file = *files_[record.file];
    const bool is_framed = !file.has_messages();
    std::string data(record.bytes + (is_framed ? 4 : 0), '\0');
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    RETURN_IF_ERROR(file.Read(record.begin + (is_framed ? kHeaderBytes : 0),
                              absl::MakeSpan(bytes, data.size())));
    if (!is_framed) return data;
    const uint32_t expected = Load<uint32_t>(bytes + record.bytes);
    const uint32_t found = MaskedCrc32c(Crc32c({bytes, record.bytes}));
    if (found == expected) return data;
    return absl::DataLossError(absl::StrFormat(
        "%s: its data has the crc32c %08x; the record says %08x", Where(index),
        found, expected));
  }

  std::string Where(uint32_t file, uint64_t begin) const {
    return absl::StrCat("'", files_[file]->path(), "' record at byte ", begin);
  }

  // A length whose checksum is right could begin a packed file only by chance.
  absl::Status Unpack(uint32_t f) {
    std::byte header[kHeaderBytes];
    if (files_[f]->size() >= kHeaderBytes) {
      RETURN_IF_ERROR(files_[f]->Read(0, absl::MakeSpan(header)));
      if (MaskedCrc32c(Crc32c({header, 8})) == Load<uint32_t>(header + 8)) {
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(files_[f],
                     Unpacked(std::move(files_[f]), /*or_zlib=*/true));
    return absl::OkStatus();
  }

  absl::Status FindRecords(uint32_t f) {
    const InputFile& file = *files_[f];
    std::byte header[kHeaderBytes];
    for (uint64_t at = 0; at < file.size();) {
      if (file.size() - at < kFrameBytes) {
        return absl::DataLossError(absl::StrCat(
            Where(f, at), ": ", file.size() - at, " bytes are left; a record ",
            "has at least ", kFrameBytes));
      }
      RETURN_IF_ERROR(file.Read(at, absl::MakeSpan(header)));
      const uint64_t bytes = Load<uint64_t>(header);
      const uint32_t expected = Load<uint32_t>(header + 8);
      const uint32_t found = MaskedCrc32c(Crc32c({header, 8}));
      if (found != expected) {
        return absl::DataLossError(absl::StrFormat(
            "%s: its length has the crc32c %08x; the record says %08x",
            Where(f, at), found, expected));
      }
      if (bytes > kMostRecordBytes || bytes > file.size() - at - kFrameBytes) {
        return absl::DataLossError(
            absl::StrCat(Where(f, at), ": it says ", bytes, " bytes of data; ",
                         file.size() - at - kFrameBytes, " are left"));
      }
      records_.push_back({f, at, bytes});
      at += kFrameBytes + bytes;
    }
    return absl::OkStatus();
  }

  absl::Status ReadFeature(uint64_t index, const FeatureSpec& feature,
                           const List& list, OwnedTensor* out) const {
    const auto wrong = [&](const std::string& what) {
      return absl::DataLossError(
          absl::StrCat(Where(index), ": '", feature.name, "' ", what, "; ",
                       ShapeText(feature.dtype, feature.dims), " is needed"));
    };
    if (list.kind == ListKind::kNone) {
      return absl::DataLossError(absl::StrCat(
          Where(index), ": '", feature.name, "' is missing; ",
          ShapeText(feature.dtype, feature.dims),
          " is needed, or \"missing\" of the feature, a value for it"));
    }
    const bool real =
        feature.dtype == DType::kFloat32 || feature.dtype == DType::kFloat64;
    if (real && list.kind == ListKind::kFloat) {
      std::vector<float> values;
      if (!ReadFloats(list.bytes, &values)) return wrong("is damaged");
      if (!Shape(feature, values.size(), out)) {
        return wrong(absl::StrCat("has ", values.size(), " values"));
      }
      if (feature.dtype == DType::kFloat32) {
        std::copy(values.begin(), values.end(), out->values<float>().begin());
      } else {
        std::copy(values.begin(), values.end(), out->values<double>().begin());
      }
      return absl::OkStatus();
    }
    if (!real && feature.dtype != DType::kUInt8 &&
        list.kind == ListKind::kInt64) {
      return ReadWhole(index, feature, list, wrong, out);
    }
    if (feature.dtype == DType::kUInt8 && list.kind == ListKind::kBytes) {
      std::vector<absl::string_view> texts;
      if (!ReadTexts(list.bytes, &texts)) return wrong("is damaged");
      if (texts.size() != 1) {
        return wrong(absl::StrCat("has ", texts.size(), " texts"));
      }
      if (!Shape(feature, texts[0].size(), out)) {
        return wrong(absl::StrCat("has ", texts[0].size(), " bytes"));
      }
      if (!texts[0].empty()) {
        std::memcpy(out->bytes().data(), texts[0].data(), texts[0].size());
      }
      return absl::OkStatus();
    }
    constexpr const char* kKinds[] = {"nothing", "a bytes_list", "a float_list",
                                      "an int64_list"};
    return wrong(absl::StrCat("is ", kKinds[static_cast<uint64_t>(list.kind)]));
  }

  template <class Wrong>
  absl::Status ReadWhole(uint64_t index, const FeatureSpec& feature,
                         const List& list, const Wrong& wrong,
                         OwnedTensor* out) const {
    std::vector<int64_t> values;
    if (!ReadIntegers(list.bytes, &values)) return wrong("is damaged");
    if (!Shape(feature, values.size(), out)) {
      return wrong(absl::StrCat("has ", values.size(), " values"));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      RETURN_IF_ERROR(
          CheckClass(feature, values[i], [&] { return Where(index); }));
      if (feature.dtype == DType::kInt64) {
        out->values<int64_t>()[i] = values[i];
      } else if (values[i] != static_cast<int32_t>(values[i])) {
        return wrong(absl::StrCat("has the value ", values[i]));
      } else {
        out->values<int32_t>()[i] = static_cast<int32_t>(values[i]);
      }
    }
    return absl::OkStatus();
  }

  const InputSpec spec_;
  const std::vector<absl::optional<double>> missing_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<Record> records_;
  std::vector<uint64_t> starts_;
  uint32_t checksum_ = 0;
};

}  // namespace

OpenedSource OpenTfRecord(const std::string& directory,
                          const v1::InputSource::TfRecord& config) {
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  const std::string first = files[0]->path();
  ASSIGN_OR_RETURN(auto source, ReadTfRecord(std::move(files), config));
  RETURN_IF_ERROR(CheckHasExamples(*source, first, "record"));
  return source;
}

OpenedSource ReadTfRecord(InputFiles files,
                          const v1::InputSource::TfRecord& config) {
  ASSIGN_OR_RETURN(InputSpec spec, ToSpec(config.features()));
  for (const FeatureSpec& feature : spec.features) {
    if (std::count(feature.dims.begin(), feature.dims.end(), 0u) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", feature.name, "' is ",
                       ShapeText(feature.dtype, feature.dims),
                       "; a record's list leaves one dimension open at most"));
    }
  }
  std::vector<absl::optional<double>> missing(spec.features.size());
  for (size_t f = 0; f < missing.size(); ++f) {
    const v1::InputFeature& feature = config.features(static_cast<int>(f));
    if (feature.missing().empty()) continue;
    missing[f] = feature.missing(0);
    RETURN_IF_ERROR(CheckMissing(spec.features[f], *missing[f]));
  }
  auto source = std::make_unique<TfRecordSource>(
      std::move(spec), std::move(missing), std::move(files));
  RETURN_IF_ERROR(source->Open());
  return source;
}

}  // namespace paramd
