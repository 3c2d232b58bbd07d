// Whatever may differ between what is trained on and what is evaluated on: each
// option of each source, each stage.
#include "input/describe_meaning.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "input/open_pipeline.h"
#include "input/testing/fake_source.h"
#include "input/testing/idx_test_files.h"
#include "input/testing/input_test_files.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using ::testing::HasSubstr;

// All keys of the sources: "csv.files", "npy.arrays.file".
void AddKeys(const std::string& prefix, const Descriptor& message,
             std::set<std::string>* keys) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor* const field = message.field(i);
    // Test data are no topic.
    if (field->message_type() == v1::InputSource::Kafka::descriptor()) continue;
    const std::string key = prefix.empty()
                                ? std::string(field->name())
                                : absl::StrCat(prefix, ".", field->name());
    const bool is_of_its_own =
        field->message_type() == v1::InputSource::descriptor() ||
        field->message_type() == v1::InputStage::descriptor();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
        !is_of_its_own) {
      AddKeys(key, *field->message_type(), keys);
    } else {
      keys->insert(key);
    }
  }
}

// The fields that `change` has in place of those of `message`.
void Change(const Message& change, Message* message) {
  const auto* reflection = change.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(change, &fields);
  for (const FieldDescriptor* const field : fields) {
    const bool is_part = !field->is_repeated() &&
                         field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_part) {
      Change(reflection->GetMessage(change, field),
             reflection->MutableMessage(message, field));
      continue;
    }
    message->GetReflection()->ClearField(message, field);
    auto only = std::unique_ptr<Message>(change.New());
    only->CopyFrom(change);
    for (const FieldDescriptor* const other : fields) {
      if (other != field) only->GetReflection()->ClearField(only.get(), other);
    }
    message->MergeFrom(*only);
  }
}

// Another kind stands in place of the one that is there.
void ChangeSource(const v1::InputSource& change, v1::InputSource* source) {
  if (change.kind_case() != v1::InputSource::KIND_NOT_SET &&
      change.kind_case() != source->kind_case()) {
    *source = change;
  } else {
    Change(change, source);
  }
}

// What becomes of test data for which this alone is otherwise in the job file.
struct Row {
  std::string key;
  // Of the source, in the text format; D/ is the directory of the test's files.
  std::string change;
  // The numbers that it gives are those of training; else it is refused.
  bool is_read;
};

constexpr bool kRead = true;
constexpr bool kRefused = false;

constexpr char kCsv[] = R"(csv {
    files: "D/a.csv" label: "y" columns: ["u", "v", "n", "l"] name: "x"
    classes: 2 class_names: ["no", "yes"] separator: "," header: true
    quotes: true
    hash_buckets: 1000 log_columns: "n" list_column: "l" list_separator: "|"
    list_length: 2 list_of: "v" group: "g" })";
constexpr char kNumbers[] = R"(csv {
    files: "D/numbers.csv" label: "y" separator: "," header: true name: "x" })";
constexpr char kPlaces[] = R"(csv {
    files: "D/places.csv" columns: "0" separator: "," header: false
    hash_buckets: 1000 name: "x" })";
constexpr char kMixed[] = R"(csv {
    files: "D/a.csv" label: "y" class_names: ["no", "yes"] separator: ","
    header: true
    features: [{name: "n" columns: ["n", "m"] missing: [0, 1]},
               {name: "c" columns: "d" classes: 9},
               {name: "k" columns: ["u", "v", "p", "l"] hash_buckets: 1000
                list_column: "l" list_separator: "|" list_length: 2
                list_of: "v" log_columns: "p"}] })";
constexpr char kTasks[] = R"(csv {
    files: "D/a.csv" columns: ["u", "v"] hash_buckets: 1000 name: "x"
    separator: "," header: true weight: "n"
    labels: [{column: "y" name: "said" class_names: ["no", "yes"]},
             {column: "d" classes: 9}] })";
constexpr char kLibSvm[] = R"(libsvm {
    files: "D/a.svm" columns: 4 first_index: 1 classes: 2 name: "x"
    list_length: 4 })";
constexpr char kList[] = R"(libsvm {
    files: "D/list.svm" first_index: 1 classes: 2 name: "x" list_length: 4 })";
constexpr char kNpy[] = R"(npy {
    arrays: [{name: "x" file: "D/x.npy"},
             {name: "label" file: "D/y.npy" classes: 3}] })";
constexpr char kTfRecord[] = R"(tfrecord {
    files: "D/a.tfrecord"
    features: [{name: "x" type: TYPE_FLOAT32 dims: 2},
               {name: "label" type: TYPE_INT32 classes: 3}] })";
constexpr char kFolders[] =
    R"(directory: "D/images" image_folders { channels: 1 })";
constexpr char kRecords[] = R"(records {
    files: "D/a.bin" header_bytes: 2
    features: [{name: "x" type: TYPE_UINT8 dims: 2},
               {name: "label" type: TYPE_UINT8 classes: 3}] })";
constexpr char kText[] = R"(text { files: "D/a.txt" context: 2 stride: 2 })";
constexpr char kSynthetic[] = R"(synthetic {
    examples: 2 features: [{name: "x" type: TYPE_UINT8 dims: 2},
                           {name: "label" type: TYPE_UINT8 classes: 3}] })";
constexpr char kIndices[] = "indices { examples: 2 }";
constexpr char kSampled[] = R"(sample_from {
    sources: [{csv { files: "D/numbers.csv" label: "y" separator: ","
                     header: true name: "x" }},
              {csv { files: "D/turned.csv" label: "y" separator: ","
                     header: true name: "x" }}] })";
constexpr char kZipped[] = R"(zip {
    sources: [{npy { arrays: {name: "x" file: "D/x.npy"} }},
              {npy { arrays: {name: "label" file: "D/y.npy" classes: 3} }}]
    })";

struct Source {
  std::string text;
  std::vector<Row> rows;
};

// kMixed with other texts in it.
Row MixedRow(const std::string& key,
             const std::vector<std::pair<const char*, const char*>>& changes,
             bool is_read = kRefused) {
  return {absl::StrCat("csv.features.", key),
          absl::StrReplaceAll(kMixed, changes), is_read};
}

// kTasks with another text in it.
Row TasksRow(const std::string& key, const char* from, const char* to) {
  return {absl::StrCat("csv.labels.", key),
          absl::StrReplaceAll(kTasks, {{from, to}}), kRefused};
}

std::string Features(const std::string& kind, const std::string& x,
                     const std::string& label) {
  return absl::StrCat(kind, " { features: [{", x, "}, {", label, "}] }");
}

std::vector<Row> RowsOfFeatures(const std::string& kind) {
  const std::string key = kind + ".features";
  const std::string x = "name: 'x' type: TYPE_UINT8 dims: 2";
  const std::string label = "name: 'label' type: TYPE_UINT8 classes: 3";
  const auto row = [&](const std::string& field, const std::string& other_x,
                       const std::string& other_label) -> Row {
    return {absl::StrCat(key, ".", field), Features(kind, other_x, other_label),
            kRefused};
  };
  return {
      row("name", "name: 'z' type: TYPE_UINT8 dims: 2", label),
      row("type", "name: 'x' type: TYPE_INT32 dims: 2", label),
      row("dims", "name: 'x' type: TYPE_UINT8 dims: [2, 1]", label),
      row("classes", x, "name: 'label' type: TYPE_UINT8 classes: 2"),
      row("classes", x + " classes: 9", label),
      row("missing", x + " missing: 0", label),
  };
}

// Every key of every source, at least once.
std::vector<Source> Table() {
  std::vector<Source> table = {
      {kCsv,
       {
           {"directory", "directory: 'D' csv { files: 'b.csv' }", kRead},
           {"csv.files", "csv { files: 'D/b.csv' }", kRead},
           {"csv.label", "csv { label: 'u' }", kRefused},
           {"csv.columns", "csv { columns: ['n', 'u', 'v', 'l'] }", kRead},
           {"csv.columns", "csv { columns: ['u', 'v', 'g', 'l'] }", kRefused},
           {"csv.columns", "csv { columns: ['u', 'v', 'l'] }", kRefused},
           {"csv.name", "csv { name: 'z' }", kRefused},
           {"csv.classes", "csv { classes: 3 }", kRefused},
           {"csv.class_names", "csv { class_names: ['yes', 'no'] }", kRead},
           {"csv.class_names", "csv { class_names: ['no', 'maybe'] }",
            kRefused},
           {"csv.separator", "csv { files: 'D/tab.csv' separator: 'tab' }",
            kRead},
           {"csv.header", "csv { header: false }", kRefused},
           {"csv.quotes", "csv { quotes: false }", kRefused},
           {"csv.hash_buckets", "csv { hash_buckets: 500 }", kRefused},
           {"csv.hash_buckets", "csv { hash_buckets: 2000 }", kRefused},
           {"csv.log_columns", "csv { log_columns: 'u' }", kRefused},
           {"csv.log_columns", "csv { log_columns: ['n', 'u'] }", kRefused},
           {"csv.hash_keys", "csv { hash_buckets: 0 hash_keys: true }",
            kRefused},
           {"csv.list_column", "csv { list_column: '' list_of: '' }", kRefused},
           {"csv.list_separator", "csv { list_separator: ' ' }", kRefused},
           {"csv.list_length", "csv { list_length: 3 }", kRefused},
           {"csv.list_of", "csv { list_of: '' }", kRefused},
           {"csv.list_of", "csv { list_of: 'u' }", kRefused},
           {"csv.group", "csv { group: '' }", kRefused},
           {"csv.group", "csv { group: 'u' }", kRefused},
       }},
      {kNumbers,
       {
           {"csv.files", "csv { files: 'D/turned.csv' }", kRead},
           {"csv.files", "csv { files: 'D/more.csv' }", kRead},
           {"csv.files", "csv { files: 'D/renamed.csv' }", kRefused},
           {"csv.missing", "csv { missing: 0 }", kRefused},
           {"csv.columns", "csv { columns: ['b', 'a'] }", kRead},
           {"csv.columns", "csv { columns: 'a' }", kRefused},
           {"csv.hash_buckets", "csv { hash_buckets: 8 }", kRefused},
       }},
      {kMixed,
       {
           {"csv.files", "csv { files: 'D/b.csv' }", kRead},
           MixedRow("name", {{"\"n\" col", "\"o\" col"}}),
           MixedRow("columns", {{"[\"n\", \"m\"]", "[\"m\", \"n\"]"}}),
           MixedRow("columns", {{"\"d\"", "\"g\""}}),
           MixedRow("columns", {{"\"u\", \"v\"", "\"v\", \"u\""}}, kRead),
           MixedRow("columns", {{"\"u\", \"v\"", "\"g\", \"v\""}}),
           MixedRow("classes", {{"classes: 9", "classes: 8"}}),
           MixedRow("hash_buckets", {{"1000", "500"}}),
           MixedRow("hash_keys", {{"hash_buckets: 1000", "hash_keys: true"}}),
           MixedRow("log_columns", {{"log_columns: \"p\"", ""}}),
           MixedRow("list_column",
                    {{"list_column: \"l\"", ""}, {"list_of: \"v\"", ""}}),
           MixedRow("list_separator", {{"\"|\"", "\" \""}}),
           MixedRow("list_length", {{"list_length: 2", "list_length: 3"}}),
           MixedRow("list_of", {{"list_of: \"v\"", "list_of: \"u\""}}),
           MixedRow("missing", {{"[0, 1]", "[1, 0]"}}),
           MixedRow("missing", {{"[0, 1]", "0"}}),
       }},
      {kTasks,
       {
           {"csv.files", "csv { files: 'D/b.csv' }", kRead},
           {"csv.weight", "csv { weight: 'm' }", kRefused},
           {"csv.weight", "csv { weight: '' }", kRefused},
           TasksRow("column", "column: \"d\"", "column: \"m\" name: \"d\""),
           TasksRow("name", "\"said\"", "\"told\""),
           TasksRow("classes", "classes: 9", "classes: 8"),
           TasksRow("class_names", "\"no\", \"yes\"", "\"yes\", \"no\""),
       }},
      {kPlaces,
       {{"csv.separator", "csv { files: 'D/tabs.csv' separator: 'tab' }",
         kRefused}}},
      {kLibSvm,
       {
           {"libsvm.files", "libsvm { files: 'D/b.svm' }", kRead},
           {"libsvm.columns", "libsvm { columns: 5 }", kRefused},
           {"libsvm.columns", "libsvm { columns: 0 }", kRefused},
           {"libsvm.first_index", "libsvm { first_index: 0 }", kRefused},
           {"libsvm.classes", "libsvm { classes: 3 }", kRefused},
           {"libsvm.classes", "libsvm { classes: 0 }", kRefused},
           {"libsvm.name", "libsvm { name: 'z' }", kRefused},
       }},
      {kList,
       {
           {"libsvm.list_length", "libsvm { list_length: 3 }", kRefused},
           {"libsvm.first_index", "libsvm { first_index: 0 }", kRefused},
       }},
      {kNpy,
       {
           {"npy.arrays.name",
            "npy { arrays: [{name: 'z' file: 'D/x.npy'}, {name: 'label' file: "
            "'D/y.npy' classes: 3}] }",
            kRefused},
           {"npy.arrays.file",
            "npy { arrays: [{name: 'x' file: 'D/x2.npy'}, {name: 'label' file: "
            "'D/y.npy' classes: 3}] }",
            kRead},
           {"npy.arrays.member",
            "npy { arrays: [{name: 'x' file: 'D/x.npz' member: 'test'}, {name: "
            "'label' file: 'D/y.npy' classes: 3}] }",
            kRead},
           {"npy.arrays.classes",
            "npy { arrays: [{name: 'x' file: 'D/x.npy'}, {name: 'label' file: "
            "'D/y.npy' classes: 2}] }",
            kRefused},
       }},
      {kTfRecord,
       {
           {"tfrecord.files", "tfrecord { files: 'D/b.tfrecord' }", kRead},
           {"tfrecord.features.name",
            Features("tfrecord", "name: 'z' type: TYPE_FLOAT32 dims: 2",
                     "name: 'label' type: TYPE_INT32 classes: 3"),
            kRefused},
           {"tfrecord.features.type",
            Features("tfrecord", "name: 'x' type: TYPE_FLOAT32 dims: 2",
                     "name: 'label' type: TYPE_INT64 classes: 3"),
            kRefused},
           {"tfrecord.features.dims",
            Features("tfrecord", "name: 'x' type: TYPE_FLOAT32 dims: [2, 1]",
                     "name: 'label' type: TYPE_INT32 classes: 3"),
            kRefused},
           {"tfrecord.features.missing",
            Features("tfrecord",
                     "name: 'x' type: TYPE_FLOAT32 dims: 2 missing: 0",
                     "name: 'label' type: TYPE_INT32 classes: 3"),
            kRefused},
           {"tfrecord.features.classes",
            Features("tfrecord", "name: 'x' type: TYPE_FLOAT32 dims: 2",
                     "name: 'label' type: TYPE_INT32 classes: 2"),
            kRefused},
       }},
      {kFolders,
       {
           {"directory", "directory: 'D/more_images'", kRefused},
           {"directory", "directory: 'D/fewer_images'", kRead},
           {"image_folders.channels", "image_folders { channels: 3 }",
            kRefused},
           {"image_folders.exif_orientation",
            "image_folders { exif_orientation: true }", kRefused},
       }},
      {kRecords,
       {
           {"records.files", "records { files: 'D/b.bin' }", kRead},
           {"records.header_bytes", "records { header_bytes: 5 }", kRefused},
       }},
      {kText,
       {
           {"text.files", "text { files: 'D/b.txt' }", kRead},
           {"text.context", "text { context: 3 }", kRefused},
           {"text.stride", "text { stride: 3 }", kRead},
       }},
      {kSynthetic,
       {{"synthetic.examples", "synthetic { examples: 3 }", kRead}}},
      {kIndices, {{"indices.examples", "indices { examples: 3 }", kRead}}},
      {kSampled,
       {
           {"sample_from.weights", "sample_from { weights: [1, 9] }", kRead},
           {"sample_from.stop_on_empty", "sample_from { stop_on_empty: true }",
            kRead},
           {"sample_from.sources", kNumbers, kRead},
           {"sample_from.sources",
            "sample_from { sources: { csv { files: 'D/more.csv' label: 'y' "
            "separator: ',' header: true name: 'x' } } }",
            kRead},
           {"sample_from.sources",
            "sample_from { sources: { csv { files: 'D/more.csv' label: 'id' "
            "separator: ',' header: true name: 'x' columns: ['a', 'b'] } } }",
            kRefused},
           {"sample_from.sources",
            "sample_from { sources: { csv { files: 'D/numbers.csv' label: 'y' "
            "separator: ',' header: true name: 'x' } stages { normalise { "
            "feature: 'x' mean: 1 deviation: 1 } } } }",
            kRefused},
       }},
      {kZipped,
       {
           {"zip.sources",
            "zip { sources: [{npy { arrays: {name: 'x' file: 'D/x2.npy'} }}, "
            "{npy { arrays: {name: 'label' file: 'D/y.npy' classes: 3} }}] }",
            kRead},
           {"zip.sources",
            "zip { sources: [{npy { arrays: {name: 'x' file: 'D/x.npy'} }}, "
            "{npy { arrays: {name: 'label' file: 'D/y.npy' classes: 2} }}] }",
            kRefused},
           {"zip.sources",
            "zip { sources: [{npy { arrays: {name: 'x' file: 'D/x.npy'} } "
            "stages { normalise { feature: 'x' mean: 1 deviation: 1 } }}, "
            "{npy { arrays: {name: 'label' file: 'D/y.npy' classes: 3} }}] }",
            kRefused},
       }},
      {kNpy,
       {
           {"stages",
            "stages: { normalise { feature: 'x' mean: 1 deviation: 1 } }",
            kRefused},
           {"stages", "stages: { take { examples: 1 } }", kRead},
       }},
  };
  for (Source& source : table) {
    for (const char* kind : {"records", "synthetic"}) {
      if (!absl::StartsWith(source.text, kind)) continue;
      for (Row& row : RowsOfFeatures(kind)) source.rows.push_back(row);
    }
  }
  return table;
}

class DescribeMeaningTest : public ::testing::Test {
 protected:
  DescribeMeaningTest() {
    const std::string rows =
        "u,v,n,l,g,y,m,d,p\ns,p,5,p|q,k,no,2,3,70\nt,q,900,q,k,yes,4,5,80\n";
    directory_ = std::filesystem::path(WriteTestFile("a.csv", rows))
                     .parent_path()
                     .string();
    WriteTestFile("b.csv",
                  "p,d,m,l,n,y,g,v,u\n70,3,2,p|q,5,no,k,p,s\n"
                  "80,5,4,q,900,yes,k,q,t\n");
    WriteTestFile("tab.csv", absl::StrReplaceAll(rows, {{",", "\t"}}));
    WriteTestFile("numbers.csv", "a,b,y\n1,2,3\n4,5,6\n");
    WriteTestFile("turned.csv", "y,b,a\n3,2,1\n6,5,4\n");
    WriteTestFile("more.csv", "id,a,b,y\n7,1,2,3\n8,4,5,6\n");
    WriteTestFile("renamed.csv", "a,c,y\n1,2,3\n4,5,6\n");
    WriteTestFile("places.csv", "s,5\nt,6\n");
    WriteTestFile("tabs.csv", "s\t5\nt\t6\n");
    for (const char* name : {"a.svm", "b.svm"}) {
      WriteTestFile(name, "0 1:1 3:2\n1 2:1\n");
    }
    WriteTestFile("list.svm", "0 1:1 3:1\n1 2:1\n");
    const std::string x =
        NpyBytes("<f4", "(2, 2)", ValueBytes<float>({1, 2, 3, 4}));
    WriteTestFile("x.npy", x);
    WriteTestFile("x2.npy", x);
    WriteTestFile("x.npz", ZipBytes({{"test.npy", x}}, /*deflated=*/false));
    WriteTestFile("y.npy",
                  NpyBytes("<i4", "(2,)", ValueBytes<int32_t>({0, 1})));
    for (const char* name : {"a.tfrecord", "b.tfrecord"}) {
      std::string records;
      for (const int64_t label : {0, 1}) {
        records += TfRecordBytes(
            TfExample({FloatFeature("x", {1, static_cast<float>(label)}),
                       Int64Feature("label", {label})}));
      }
      WriteTestFile(name, records);
    }
    for (const char* name : {"a.bin", "b.bin"}) {
      WriteTestFile(name, std::string("hh\1\2\0\3\4\1", 8));
    }
    for (const char* name : {"a.txt", "b.txt"}) WriteTestFile(name, "abcdefg");
    // Of training the middle one is missing in the fewer, so numbers would
    // move.
    for (const char* set : {"images", "fewer_images", "more_images"}) {
      for (const char* folder : {"ash", "elm", "oak", "yew"}) {
        if (folder == std::string("yew") && set != std::string("more_images")) {
          continue;
        }
        if (folder == std::string("elm") &&
            set == std::string("fewer_images")) {
          continue;
        }
        const std::string path =
            absl::StrCat(directory_, "/", set, "/", folder);
        std::filesystem::create_directories(path);
        const auto shade = static_cast<uint8_t>(folder[0]);
        std::ofstream(path + "/1.png", std::ios::binary)
            << PngBytes(1, 1, 1, {shade});
      }
    }
  }

  v1::InputSource Parsed(const std::string& text) const {
    v1::InputSource source;
    EXPECT_TRUE(TextFormat::ParseFromString(
        absl::StrReplaceAll(
            text, {{"D/", directory_ + "/"}, {"'D'", "'" + directory_ + "'"}}),
        &source))
        << text;
    return source;
  }

  std::string directory_;
};

// By its label, or its number, what an example has.
std::vector<std::string> NumbersOf(const Pipeline& pipeline) {
  std::vector<std::string> numbers;
  Example example;
  for (uint64_t i = 0; i < pipeline.size(); ++i) {
    const absl::Status read = pipeline.ReadExample(1, i, &example);
    EXPECT_TRUE(read.ok()) << read;
    std::string text;
    for (const OwnedTensor& value : example.values) {
      absl::StrAppend(&text, "[");
      for (uint64_t n = 0; n < value.size(); ++n) {
        absl::StrAppend(&text, " ", NumberAt(value, n));
      }
      absl::StrAppend(&text, " ]");
    }
    numbers.push_back(text);
  }
  return numbers;
}

TEST_F(DescribeMeaningTest, EveryOptionIsInTheTable) {
  std::set<std::string> keys;
  AddKeys("", *v1::InputSource::descriptor(), &keys);
  for (const Source& source : Table()) {
    for (const Row& row : source.rows) {
      EXPECT_EQ(keys.count(row.key) + 1, 2u) << row.key << " is no key";
    }
  }
  for (const Source& source : Table()) {
    for (const Row& row : source.rows) keys.erase(row.key);
  }
  EXPECT_THAT(keys, ::testing::IsEmpty())
      << "say in the table what becomes of test data that have another value "
         "of these";
}

TEST_F(DescribeMeaningTest,
       AnOptionThatDiffersChangesNoNumberOrIsRefusedNamingIt) {
  for (const Source& source : Table()) {
    SCOPED_TRACE(source.text);
    v1::InputConfig config;
    *config.mutable_train() = Parsed(source.text);
    const auto training = OpenTrainingData(config, 1);
    ASSERT_TRUE(training.ok()) << training.status();
    const auto same = OpenTestData(config, **training);
    ASSERT_TRUE(same.ok()) << source.text << same.status();
    const std::vector<std::string> expected = NumbersOf(**same);
    for (const Row& row : source.rows) {
      SCOPED_TRACE(row.change);
      *config.mutable_test() = config.train();
      ChangeSource(Parsed(row.change), config.mutable_test());
      const auto test = OpenTestData(config, **training);
      if (!row.is_read) {
        // Of data that such a job can't even read.
        EXPECT_THAT(test.status().code(),
                    ::testing::AnyOf(absl::StatusCode::kInvalidArgument,
                                     absl::StatusCode::kDataLoss))
            << test.status();
        continue;
      }
      ASSERT_TRUE(test.ok()) << test.status();
      EXPECT_EQ(MeaningDifference((*test)->meaning(), (*training)->meaning()),
                "");
      // Some choose other examples; those that both have are the same.
      const std::vector<std::string> found = NumbersOf(**test);
      if (row.key == "text.stride") {
        EXPECT_EQ(found[0], expected[0]);
        continue;
      }
      for (const std::string& one :
           found.size() < expected.size() ? found : expected) {
        EXPECT_THAT(found.size() < expected.size() ? expected : found,
                    ::testing::Contains(one));
      }
    }
  }
}

// What is not refused where files are opened is written down with the
// checkpoint, and differs there.
TEST_F(DescribeMeaningTest, AnOptionThatIsNotHarmlessIsDescribed) {
  for (const Source& source : Table()) {
    for (const Row& row : source.rows) {
      if (row.is_read || IsHarmless(row.key) || row.key == "directory")
        continue;
      SCOPED_TRACE(row.change);
      v1::InputConfig config;
      *config.mutable_train() = Parsed(source.text);
      const auto ours = OpenTrainingData(config, 1);
      ASSERT_TRUE(ours.ok()) << ours.status();
      ChangeSource(Parsed(row.change), config.mutable_train());
      const auto theirs = OpenTrainingData(config, 1);
      if (!theirs.ok()) continue;  // Refused by itself.
      EXPECT_NE(MeaningDifference((*ours)->meaning(), (*theirs)->meaning()),
                "");
    }
  }
}

// Another value than that it has.
void Alter(const FieldDescriptor* field, Message* message) {
  const auto* reflection = message->GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      repeated ? reflection->AddUInt32(message, field, 3)
               : reflection->SetUInt32(message, field, 3);
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      repeated ? reflection->AddUInt64(message, field, 3)
               : reflection->SetUInt64(message, field, 3);
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      repeated ? reflection->AddDouble(message, field, 0.3)
               : reflection->SetDouble(message, field, 0.3);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection->SetBool(message, field, true);
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      repeated ? reflection->AddString(message, field, "other")
               : reflection->SetString(message, field, "other");
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection->SetEnumValue(message, field, 2);
      return;
    default:
      FAIL() << "say how " << field->full_name() << " is altered";
  }
}

// Of each stage: whether it says what numbers mean. A new one must join.
const std::map<std::string, bool>& Stages() {
  static const auto* stages = new std::map<std::string, bool>{
      {"batch", false},        {"bucket_by_length", false},
      {"cache", false},        {"cast", true},
      {"crop", false},         {"decode_image", true},
      {"filter", false},       {"flip", false},
      {"interleave", false},   {"log", true},
      {"map", true},           {"normalise", true},
      {"one_hot", true},       {"pad", false},
      {"padded_batch", false}, {"prefetch", false},
      {"rand_augment", false}, {"random_brightness", false},
      {"random_crop", false},  {"random_rotation", false},
      {"relabel", false},      {"repeat", false},
      {"resize", false},       {"shuffle", false},
      {"skip", false},         {"take", false},
      {"tokenise", true},      {"window", true}};
  return *stages;
}

// Stages that say what stands where an example has nothing.
const std::set<std::string> kFills = {"bucket_by_length", "pad",
                                      "padded_batch"};
// What of a stage that says what numbers mean does not.
const std::set<std::string> kChoices = {"window.drop_remainder", "window.last",
                                        "window.shift"};

v1::InputConfig WithStage(const FieldDescriptor* kind) {
  v1::InputConfig config;
  v1::InputStage* const stage = config.add_stages();
  stage->set_on(v1::InputStage::ON_BOTH);
  Message* const made = stage->GetReflection()->MutableMessage(stage, kind);
  const auto* feature = made->GetDescriptor()->FindFieldByName("feature");
  if (feature != nullptr) {
    made->GetReflection()->SetString(made, feature, "image");
  }
  return config;
}

Message* StageIn(v1::InputConfig* config, const FieldDescriptor* kind) {
  v1::InputStage* const stage = config->mutable_stages(0);
  return stage->GetReflection()->MutableMessage(stage, kind);
}

v1::DataMeaning MeaningOf(const v1::InputConfig& config, bool training) {
  const FakeSource source(4);
  return DescribeMeaning(config, training, source, source.spec());
}

TEST_F(DescribeMeaningTest, AStageOfOneOfTheTwoThatSaysWhatNumbersMeanIsNamed) {
  const auto* kinds = v1::InputStage::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const FieldDescriptor* const kind = kinds->field(i);
    const std::string name(kind->name());
    SCOPED_TRACE(name);
    ASSERT_EQ(Stages().count(name), 1u) << "say in the table what it does";
    const bool means = Stages().at(name);
    v1::InputConfig config = WithStage(kind);
    EXPECT_EQ(
        MeaningDifference(MeaningOf(config, false), MeaningOf(config, true)),
        "");
    config.mutable_stages(0)->set_on(v1::InputStage::ON_TRAINING);
    const std::string difference =
        MeaningDifference(MeaningOf(config, false), MeaningOf(config, true));
    EXPECT_EQ(!difference.empty(), means) << difference;
    EXPECT_EQ(absl::StrContains(difference, "stages of 'image'"), means);
    const Descriptor* const fields = kind->message_type();
    for (int f = 0; f < fields->field_count(); ++f) {
      if (fields->field(f)->name() == "feature") continue;
      v1::InputConfig other = WithStage(kind);
      Alter(fields->field(f), StageIn(&other, kind));
      const bool differs = !MeaningDifference(MeaningOf(other, false),
                                              MeaningOf(WithStage(kind), true))
                                .empty();
      const std::string field(fields->field(f)->name());
      // Another shape shows by itself.
      const bool fills = kFills.count(name) > 0 && field == "value";
      const bool chooses = kChoices.count(absl::StrCat(name, ".", field)) > 0;
      EXPECT_EQ(differs, (means && !chooses) || fills) << field;
    }
  }
}

TEST_F(DescribeMeaningTest, TheDifferenceIsInTheSentence) {
  v1::InputConfig config;
  *config.mutable_train() = Parsed(kCsv);
  const auto training = *OpenTrainingData(config, 1);
  *config.mutable_test() = config.train();
  config.mutable_test()->mutable_csv()->set_hash_buckets(500);
  EXPECT_EQ(OpenTestData(config, *training).status(),
            absl::InvalidArgumentError(
                "the test data are read differently from those trained on: "
                "they have csv.hash_buckets 500, not 1000"));
  *config.mutable_test() = Parsed(kFolders);
  *config.mutable_train() = Parsed(kFolders);
  config.mutable_test()->set_directory(directory_ + "/more_images");
  EXPECT_EQ(OpenTestData(config, *(*OpenTrainingData(config, 1))).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "'", directory_,
                "/more_images/yew' is a class that the "
                "training data do not have; they have ash, elm, oak")));
}

TEST_F(DescribeMeaningTest, AColumnThatIsMissingInTheTestFileIsNamed) {
  v1::InputConfig config;
  *config.mutable_train() = Parsed(kNumbers);
  *config.mutable_test() = Parsed(kNumbers);
  config.mutable_test()->mutable_csv()->set_files(0,
                                                  directory_ + "/renamed.csv");
  EXPECT_EQ(
      OpenTestData(config, *(*OpenTrainingData(config, 1))).status(),
      absl::InvalidArgumentError(absl::StrCat("'", directory_,
                                              "/renamed.csv' has no column "
                                              "'b'; it has a, c, y")));
}

TEST_F(DescribeMeaningTest, WhatACheckpointOfAnEarlierVersionMeantIsUnknown) {
  v1::InputConfig config;
  *config.mutable_train() = Parsed(kNumbers);
  const auto training = *OpenTrainingData(config, 1);
  EXPECT_TRUE(CheckMeaning(*training, "c", v1::DataSet()).ok());
  v1::DataSet trained = training->Describe();
  EXPECT_TRUE(CheckMeaning(*training, "c", trained).ok());
  config.mutable_train()->mutable_csv()->add_columns("b");
  config.mutable_train()->mutable_csv()->add_columns("a");
  const auto other = *OpenTrainingData(config, 1);
  EXPECT_EQ(CheckMeaning(*other, "c", trained),
            absl::InvalidArgumentError(
                "the test data are read differently from what checkpoint 'c' "
                "was trained on: they have csv.columns b, a, not a, b"));
}

// A manifest is JSON.
TEST_F(DescribeMeaningTest, NamesThatAreNoTextAreEscaped) {
  WriteTestFile("latin.csv",
                "a,gr\xf6\xdf"
                "e,y\n1,2,3\n");
  v1::InputConfig config;
  *config.mutable_train() = Parsed(kNumbers);
  config.mutable_train()->mutable_csv()->set_files(0,
                                                   directory_ + "/latin.csv");
  const auto training = *OpenTrainingData(config, 1);
  EXPECT_THAT(training->meaning().ShortDebugString(), HasSubstr("xf6"));
  EXPECT_TRUE(OpenTestData(config, *training).ok());
}

}  // namespace
}  // namespace paramd
