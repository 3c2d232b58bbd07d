#include "input/describe_meaning.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "base/random.h"
#include "input/own_map.h"
#include "input/transform.h"

namespace paramd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What a manifest keeps of a list, for people.
constexpr size_t kMostKept = 100;
constexpr size_t kMostKeptBytes = 100;

// Which files, where, and how many examples of them; what a file's own form is,
// where a wrong one is noticed; what is read by name.
constexpr absl::string_view kHarmless[] = {
    "csv.class_names",       // By name.
    "csv.columns",           // By name.
    "csv.features.columns",  // By name.
    "csv.features.name",     // Features are told apart by it.
    "csv.files",
    "csv.header",       // Columns would have other names.
    "csv.labels.name",  // Features are told apart by it.
    "csv.separator",    // There would be no such columns; see DescribeCsv.
    "indices.examples",
    "libsvm.files",
    "npy.arrays.file",
    "npy.arrays.member",
    "npy.arrays.name",  // Features are told apart by it.
    "records.features.name",
    "records.files",
    "synthetic.examples",
    "synthetic.features.name",
    "text.files",
    "text.stride",
    "tfrecord.features.name",
    "tfrecord.files",
};

constexpr absl::string_view kHarmlessStages[] = {
    "batch",
    "bucket_by_length",
    "cache",
    "crop",
    "filter",
    "flip",
    "interleave",
    "padded_batch",
    "prefetch",
    "rand_augment",
    "random_brightness",
    "random_crop",
    "random_rotation",
    "relabel",
    "repeat",
    "resize",
    "shuffle",
    "skip",
    "take",
};

// Else it is about the first feature.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 6>
    kFeatures = {{{"csv.classes", "label"},
                  {"csv.class_names", "label"},
                  {"csv.group", "group"},
                  {"csv.label", "label"},
                  {"csv.weight", "weight"},
                  {"libsvm.classes", "label"}}};

template <typename List>
bool Contains(const List& list, absl::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// Short, and UTF-8, as a manifest needs it, whatever stands in a file.
std::string Kept(absl::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isascii(static_cast<unsigned char>(c)) &&
           !absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  const absl::string_view begin = text.substr(0, kMostKeptBytes);
  return absl::StrCat(ascii ? std::string(begin) : absl::CHexEscape(begin),
                      begin.size() < text.size() ? "..." : "");
}

void AddFact(absl::string_view name, absl::string_view feature,
             const std::vector<std::string>& values, v1::DataMeaning* meaning) {
  v1::DataMeaning::Fact* const fact = meaning->add_facts();
  fact->set_name(Kept(name));
  fact->set_feature(Kept(feature));
  uint64_t hash = 0;
  for (const std::string& value : values) {
    hash = StableHash(value, hash);
    if (static_cast<size_t>(fact->values_size()) < kMostKept) {
      fact->add_values(Kept(value));
    }
  }
  fact->set_count(static_cast<uint32_t>(values.size()));
  fact->set_hash(hash);
}

// The value of a field, or one of its values; of a real number what survives
// that two people write it down.
std::string ValueText(const Message& message, const FieldDescriptor* field,
                      int index) {
  const auto* reflection = message.GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return repeated ? reflection->GetRepeatedString(message, field, index)
                      : reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return (repeated ? reflection->GetRepeatedBool(message, field, index)
                       : reflection->GetBool(message, field))
                 ? "true"
                 : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(
          repeated ? reflection->GetRepeatedUInt32(message, field, index)
                   : reflection->GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(
          repeated ? reflection->GetRepeatedUInt64(message, field, index)
                   : reflection->GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(
          repeated ? reflection->GetRepeatedInt32(message, field, index)
                   : reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(
          repeated ? reflection->GetRepeatedInt64(message, field, index)
                   : reflection->GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrFormat(
          "%.6g", repeated
                      ? reflection->GetRepeatedDouble(message, field, index)
                      : reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return absl::StrFormat(
          "%.6g", repeated ? reflection->GetRepeatedFloat(message, field, index)
                           : reflection->GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::AsciiStrToLower(absl::StripPrefix(
          (repeated ? reflection->GetRepeatedEnum(message, field, index)
                    : reflection->GetEnum(message, field))
              ->name(),
          "TYPE_"));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return (repeated ? reflection->GetRepeatedMessage(message, field, index)
                       : reflection->GetMessage(message, field))
          .ShortDebugString();
  }
  return "";
}

std::vector<std::string> ValuesOf(const Message& message,
                                  const FieldDescriptor* field) {
  if (!field->is_repeated()) return {ValueText(message, field, 0)};
  std::vector<std::string> values;
  const int size = message.GetReflection()->FieldSize(message, field);
  for (int i = 0; i < size; ++i) {
    values.push_back(ValueText(message, field, i));
  }
  return values;
}

std::vector<std::string> FactValues(const Message& message,
                                    const FieldDescriptor* field) {
  std::vector<std::string> values = ValuesOf(message, field);
  // In any order they say the same.
  if (field->name() == "log_columns") std::sort(values.begin(), values.end());
  return values;
}

// The name in an element of a list of features, arrays, labels.
std::string NameIn(const Message& element) {
  const auto* descriptor = element.GetDescriptor();
  const auto* name = descriptor->FindFieldByName("name");
  const std::string given = name == nullptr ? "" : ValueText(element, name, 0);
  const auto* column = descriptor->FindFieldByName("column");
  return given.empty() && column != nullptr ? ValueText(element, column, 0)
                                            : given;
}

void AddElement(const std::string& key, const Message& element,
                v1::DataMeaning* meaning) {
  const std::string name = NameIn(element);
  const auto* descriptor = element.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    const std::string full = absl::StrCat(key, ".", field->name());
    if (IsHarmless(full)) continue;
    AddFact(absl::StrCat(full, " of '", name, "'"), name,
            FactValues(element, field), meaning);
  }
}

void AddKind(const std::string& kind, const Message& config,
             const std::string& first_feature, v1::DataMeaning* meaning) {
  const auto* descriptor = config.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    const std::string key = absl::StrCat(kind, ".", field->name());
    if (IsHarmless(key)) continue;
    if (field->is_repeated() &&
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = config.GetReflection()->FieldSize(config, field);
      for (int j = 0; j < size; ++j) {
        AddElement(key,
                   config.GetReflection()->GetRepeatedMessage(config, field, j),
                   meaning);
      }
      continue;
    }
    std::string feature = first_feature;
    for (const auto& [about, name] : kFeatures) {
      if (about == key) feature = std::string(name);
    }
    AddFact(key, feature, FactValues(config, field), meaning);
  }
}

std::string FirstFeature(const ExampleSource& source) {
  const InputSpec& spec = source.spec();
  return spec.features.empty() ? "" : spec.features[0].name;
}

void AddNames(const v1::InputSource& config, const ExampleSource& source,
              v1::DataMeaning* meaning) {
  const SourceNames names = source.Names();
  const std::string first = FirstFeature(source);
  if (config.has_csv()) {
    const auto& features = config.csv().features();
    AddFact("csv.features", first, {features.empty() ? "none" : "some"},
            meaning);
    for (size_t f = 0; f < names.columns.size(); ++f) {
      const std::string& name = source.spec().features[f].name;
      AddFact(features.empty()
                  ? "csv.columns"
                  : absl::StrCat("csv.features.columns of '", name, "'"),
              name, names.columns[f], meaning);
    }
    AddFact("csv.class_names", "label", names.classes, meaning);
    // What columns are called does not show that they are told apart otherwise.
    if (!config.csv().header()) {
      AddFact("csv.separator", first, {config.csv().separator()}, meaning);
    }
  }
  if (config.has_image_folders()) {
    AddFact("image_folders with the folders", "label", names.classes, meaning);
  }
}

const Message* KindOf(const Message& message, std::string* name) {
  const auto* oneof = message.GetDescriptor()->FindOneofByName("kind");
  const auto* reflection = message.GetReflection();
  const auto* field = reflection->GetOneofFieldDescriptor(message, oneof);
  if (field == nullptr) return nullptr;
  *name = std::string(field->name());
  return &reflection->GetMessage(message, field);
}

// "normalise mean 0.5 deviation 0.25".
std::string StageText(const std::string& kind, const Message& stage) {
  std::string text = kind;
  const auto* descriptor = stage.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* const field = descriptor->field(i);
    if (field->name() == "feature") continue;
    absl::StrAppend(&text, " ", field->name());
    for (const std::string& value : ValuesOf(stage, field)) {
      absl::StrAppend(&text, " ", value);
    }
  }
  return text;
}

// What it makes of a feature. How many windows there are is no matter.
std::string WindowText(const v1::InputStage::Window& window) {
  return absl::StrCat("window size ", window.size(), " stride ",
                      window.stride());
}

// As a source of IDX files has it done already.
std::string ByteFractions() {
  v1::InputStage::Cast cast;
  cast.set_type(v1::InputFeature::TYPE_FLOAT32);
  cast.set_scale(1.0 / 255);
  return StageText("cast", cast);
}

using Stages = google::protobuf::RepeatedPtrField<v1::InputStage>;

void AddStages(const Stages& stages, bool training, const FeatureSpec& feature,
               v1::DataMeaning* meaning) {
  std::vector<std::string> texts;
  std::vector<std::string> fills;
  if (meaning->source() == "idx" && feature.dtype == DType::kFloat32) {
    texts.push_back(ByteFractions());
  }
  for (const v1::InputStage& stage : stages) {
    std::string kind;
    const Message* const message = KindOf(stage, &kind);
    if (message == nullptr || !IsOn(stage, training)) continue;
    // These are about all features that have more than one value.
    if (stage.has_window() && !Contains(stage.window().last(), feature.name)) {
      texts.push_back(WindowText(stage.window()));
    }
    if (stage.has_padded_batch() && !feature.dims.empty()) {
      fills.push_back(absl::StrFormat("%.6g", stage.padded_batch().value()));
    }
    if (stage.has_bucket_by_length() && !feature.dims.empty()) {
      fills.push_back(
          absl::StrFormat("%.6g", stage.bucket_by_length().value()));
    }
    if (stage.has_window() || IsHarmlessStage(kind) ||
        FeatureOf(stage) != feature.name) {
      continue;
    }
    // To one shape what another set may have in it already.
    if (stage.has_pad()) {
      fills.push_back(absl::StrFormat("%.6g", stage.pad().value()));
    } else if (const OwnMap* const map = FindMap(stage.map().name())) {
      texts.push_back(
          absl::StrCat(StageText(kind, *message), " version ", map->version));
    } else {
      texts.push_back(StageText(kind, *message));
    }
  }
  AddFact(absl::StrCat("stages of '", feature.name, "'"), feature.name, texts,
          meaning);
  if (fills.empty()) return;
  AddFact(absl::StrCat("pad with the value of '", feature.name, "'"),
          feature.name, fills, meaning);
}

// Of a zip, what its sources mean.
void AddParts(const ExampleSource& source, v1::DataMeaning* meaning) {
  int number = 0;
  for (const v1::DataMeaning& part : source.PartMeanings()) {
    const std::string name = absl::StrCat("source ", ++number);
    AddFact(name, "", {part.source()}, meaning);
    for (const v1::DataMeaning::Fact& fact : part.facts()) {
      v1::DataMeaning::Fact* const added = meaning->add_facts();
      *added = fact;
      added->set_name(absl::StrCat(name, ": ", fact.name()));
    }
  }
}

}  // namespace

v1::DataMeaning DescribeMeaning(const v1::InputConfig& config, bool training,
                                const ExampleSource& source,
                                const InputSpec& spec) {
  v1::DataMeaning meaning;
  meaning.set_source("idx");
  const v1::InputSource* named =
      !training && config.has_test() ? &config.test() : &config.train();
  Stages stages = config.stages();
  // Of several that are read alike the first one says how.
  while (named->has_sample_from() && named->sample_from().sources_size() > 0) {
    named = &named->sample_from().sources(0);
    Stages before = named->stages();
    before.MergeFrom(stages);
    stages = std::move(before);
  }
  std::string kind;
  const Message* const message = KindOf(*named, &kind);
  if (message != nullptr) meaning.set_source(kind);
  if (named->has_zip()) {
    AddParts(source, &meaning);
  } else if (message != nullptr) {
    AddKind(kind, *message, FirstFeature(source), &meaning);
    AddNames(*named, source, &meaning);
  }
  for (const FeatureSpec& feature : spec.features) {
    AddFact(absl::StrCat("'", feature.name, "' of"), feature.name,
            {absl::StrCat(feature.ragged ? "any number of " : "",
                          ShapeText(feature.dtype, feature.dims))},
            &meaning);
  }
  for (const FeatureSpec& feature : source.spec().features) {
    AddStages(stages, training, feature, &meaning);
  }
  return meaning;
}

bool IsHarmless(absl::string_view key) { return Contains(kHarmless, key); }

bool IsHarmlessStage(absl::string_view stage) {
  return Contains(kHarmlessStages, stage);
}

bool IsOn(const v1::InputStage& stage, bool training) {
  switch (stage.on()) {
    case v1::InputStage::ON_TRAINING:
      return training;
    case v1::InputStage::ON_EVALUATION:
      return !training;
    case v1::InputStage::ON_BOTH:
      return true;
    default:
      break;
  }
  const bool is_for_training =
      stage.has_shuffle() || stage.has_repeat() || stage.has_relabel() ||
      stage.has_flip() || stage.has_random_brightness() ||
      stage.has_random_rotation() || stage.has_rand_augment();
  return training || !is_for_training;
}

std::string FeatureOf(const v1::InputStage& stage) {
  std::string kind;
  const Message* const message = KindOf(stage, &kind);
  if (message == nullptr) return "";
  const auto* field = message->GetDescriptor()->FindFieldByName("feature");
  return field == nullptr ? "" : ValueText(*message, field, 0);
}

}  // namespace paramd
