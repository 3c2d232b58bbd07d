// Whatever messages of a topic hold, each is an example as the job says or is
// refused, and no message reaches into its neighbours. The first byte chooses
// the form; then come messages, each with its length.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "input/file.h"
#include "input/fuzz/read_source.h"
#include "input/message_format.h"

namespace paramd {
namespace {

constexpr size_t kMostMessages = 20;

void ReadAsCsv(uint8_t choice, v1::InputSource* config) {
  const bool has_names = (choice & 4) != 0;
  v1::InputSource::Csv* const csv = config->mutable_csv();
  csv->set_name("features");
  csv->set_separator((choice & 8) != 0 ? "tab" : ",");
  csv->set_quotes((choice & 16) != 0);
  csv->add_columns(has_names ? "x" : "0");
  csv->add_columns(has_names ? "y" : "1");
  csv->set_label(has_names ? "z" : "2");
  csv->set_classes(3);
  if ((choice & 32) != 0) csv->set_hash_buckets(1000);
  if ((choice & 64) != 0) csv->add_missing(0);
  if (!has_names) return;
  for (const char* const name : {"x", "y", "z"}) {
    config->mutable_kafka()->add_columns(name);
  }
}

void ReadAsLibSvm(uint8_t choice, v1::InputSource* config) {
  v1::InputSource::LibSvm* const libsvm = config->mutable_libsvm();
  libsvm->set_name("features");
  libsvm->set_columns(8);
  libsvm->set_classes((choice & 4) != 0 ? 3 : 0);
}

void ReadAsTfExample(v1::InputSource* config) {
  v1::InputFeature* const values = config->mutable_tfrecord()->add_features();
  values->set_name("x");
  values->add_dims(2);
  v1::InputFeature* const label = config->mutable_tfrecord()->add_features();
  label->set_name("label");
  label->set_type(v1::InputFeature::TYPE_INT32);
  label->set_classes(3);
  label->add_missing(0);
}

v1::InputSource ConfigOf(uint8_t choice) {
  v1::InputSource config;
  config.mutable_kafka()->set_topic("clicks");
  switch (choice & 3) {
    case 0:
      ReadAsLibSvm(choice, &config);
      break;
    case 1:
      ReadAsTfExample(&config);
      break;
    default:
      ReadAsCsv(choice, &config);
  }
  return config;
}

std::unique_ptr<InputFile> MessagesOf(fuzz::Pieces* pieces) {
  std::string content;
  std::vector<InputFile::Message> messages;
  while (!pieces->done() && messages.size() < kMostMessages) {
    const absl::string_view message = pieces->TakeSized();
    messages.push_back({content.size(), static_cast<uint32_t>(message.size()),
                        messages.size()});
    content.append(message.data(), message.size());
  }
  return InputFile::OfMessages("topic 'clicks' partition 0", std::move(content),
                               std::move(messages));
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  const auto format =
      paramd::MessageFormat::Of(paramd::ConfigOf(pieces.Byte()));
  CHECK(format.ok(), format.status().message());
  paramd::fuzz::CheckSource(format->Open(paramd::MessagesOf(&pieces)));
  return 0;
}
