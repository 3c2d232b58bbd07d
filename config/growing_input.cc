#include "config/growing_input.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "config/json_value.h"
#include "config/strategy.h"

namespace paramd {
namespace {

using AddMistake =
    std::function<void(const std::string& path, absl::string_view sentence)>;

// Epochs are few and their number is bounded: a look that finds something makes
// one.
constexpr uint32_t kPollTopicMs = 60000;
constexpr size_t kMostTopicName = 249;

bool IsTopicName(absl::string_view name) {
  return !name.empty() && name.size() <= kMostTopicName && name != "." &&
         name != ".." && absl::c_all_of(name, [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

void CheckKafka(const v1::InputSource::Kafka& kafka, const AddMistake& add) {
  if (kafka.has_brokers() && kafka.brokers().empty()) {
    add("input.train.kafka.brokers",
        "is empty; give addresses, as in \"kafka-0:9092,kafka-1:9092\"");
  }
  if (kafka.has_topic() && !IsTopicName(kafka.topic())) {
    add("input.train.kafka.topic",
        absl::StrCat("\"", Excerpt(kafka.topic()),
                     "\" is not a topic's name: it has letters, digits, '.', "
                     "'_' and '-', at most ",
                     kMostTopicName));
  }
  if (kafka.join().has_click() && kafka.join().click().empty()) {
    add("input.train.kafka.join.click",
        "is empty, so every message would be a click; give what the value of a "
        "click's message begins with, as in \"click,\"");
  }
  for (int i = 0; i < kafka.properties_size(); ++i) {
    const size_t equals = kafka.properties(i).find('=');
    if (equals != std::string::npos && equals > 0) continue;
    add(absl::StrCat("input.train.kafka.properties[", i, "]"),
        "is not name=value");
  }
}

// What goes with a topic, in what is around `kafka`.
void CheckFormat(const v1::InputSource& train, const AddMistake& add) {
  const auto refuse_files = [&](const std::string& kind, int files) {
    if (files == 0) return;
    add(absl::StrCat("input.train.", kind, ".files"),
        "conflicts with kafka, whose messages are read in place of files; keep "
        "one");
  };
  refuse_files("csv", train.csv().files_size());
  refuse_files("libsvm", train.libsvm().files_size());
  refuse_files("tfrecord", train.tfrecord().files_size());
  if (!train.directory().empty()) {
    add("input.train.directory",
        "means nothing beside kafka, which has no files; leave it out");
  }
  const bool has_columns = !train.kafka().columns().empty();
  if (has_columns && !train.has_csv()) {
    add("input.train.kafka.columns",
        "names columns, which only csv reads; leave it out");
  }
  if (has_columns && train.has_csv() && !train.csv().header()) {
    add("input.train.csv.header",
        "is false, so columns are named by their places; "
        "input.train.kafka.columns names them; keep one");
  }
}

void CheckTopic(const v1::InputConfig& input, const AddMistake& add) {
  const v1::InputSource& train = input.train();
  CheckKafka(train.kafka(), add);
  CheckFormat(train, add);
  if (!input.follow().end_file().empty()) {
    add("input.follow.end_file",
        "means nothing to a topic; give input.train.kafka.until or "
        "max_messages, or input.follow.idle_timeout_ms");
  }
  if (!train.has_csv() && !train.has_libsvm() && !train.has_tfrecord()) {
    add("input.train.kafka",
        "needs csv, libsvm or tfrecord beside it, which say what a message "
        "holds");
  }
}

// A topic can't be mixed with other sources, nor be evaluated on.
void RefuseKafka(const v1::InputSource& source, const std::string& path,
                 const AddMistake& add) {
  if (source.has_kafka()) {
    add(absl::StrCat(path, ".kafka"),
        "is a topic; only input.train itself may be one");
  }
  const auto refuse = [&](const auto& sources, absl::string_view kind) {
    for (int i = 0; i < sources.size(); ++i) {
      RefuseKafka(sources[i],
                  absl::StrCat(path, ".", kind, ".sources[", i, "]"), add);
    }
  };
  refuse(source.sample_from().sources(), "sample_from");
  refuse(source.zip().sources(), "zip");
}

// The rows of CSV that messages have are named without a file.
bool NamesColumns(const v1::InputSource& train) {
  return !train.csv().columns().empty() || !train.csv().features().empty() ||
         !train.kafka().columns().empty();
}

}  // namespace

void FollowTopic(v1::InputConfig* input) {
  if (!input->train().has_kafka()) return;
  v1::InputConfig::Follow* const follow = input->mutable_follow();
  if (!follow->has_poll_ms()) follow->set_poll_ms(kPollTopicMs);
  v1::InputSource* const train = input->mutable_train();
  if (train->has_csv() && !train->csv().has_header() &&
      train->kafka().columns().empty()) {
    train->mutable_csv()->set_header(false);
  }
}

void CheckGrowingInput(
    const v1::JobConfig& job,
    const std::function<void(const std::string& path,
                             absl::string_view sentence)>& add) {
  const v1::InputConfig& input = job.input();
  RefuseKafka(input.test(), "input.test", add);
  const v1::InputSource& train = input.train();
  v1::InputSource without = train;
  without.clear_kafka();
  RefuseKafka(without, "input.train", add);
  if (!input.has_follow()) return;
  const bool is_topic = train.has_kafka();
  const std::string whose = is_topic ? "input.train.kafka" : "input.follow";
  if (is_topic) {
    CheckTopic(input, add);
  } else if (!train.has_csv() && !train.has_libsvm() && !train.has_tfrecord() &&
             !train.has_records()) {
    add("input.follow",
        "needs input.train to name files by a pattern, as csv, libsvm, "
        "tfrecord or records");
  }
  if (train.has_csv() && !NamesColumns(train)) {
    add(is_topic ? "input.train.kafka.columns" : "input.train.csv.columns",
        is_topic ? "is missing; a message has no header that names its columns"
                 : "is missing; with input.follow there may be no file yet "
                   "that has them");
  }
  if (train.has_libsvm() && train.libsvm().columns() == 0) {
    add("input.train.libsvm.columns",
        absl::StrCat("is missing; with ", whose,
                     " nobody knows yet what the largest index will be"));
  }
  if (!input.has_test()) {
    add("input.test", absl::StrCat("is missing; with ", whose,
                                   " name files to evaluate on, which stay"));
  }
  if (!UsesServers(job)) {
    add("strategy",
        absl::StrCat("\"", StrategyName(job.strategy()), "\" does not go with ",
                     whose,
                     ": its steps are planned over input that is all there; "
                     "choose \"parameter_server\""));
  } else if (job.staleness() == "sync") {
    add("staleness",
        absl::StrCat("\"sync\" does not go with ", whose,
                     ": its steps are planned over input that is all there; "
                     "choose \"async\" or a number"));
  }
  if (job.optimizer().schedule() != v1::OptimizerConfig::CONSTANT &&
      job.optimizer().decay_steps() == 0) {
    add("optimizer.decay_steps",
        absl::StrCat("is missing; with ", whose,
                     " nobody knows how many steps there will be"));
  }
}

}  // namespace paramd
