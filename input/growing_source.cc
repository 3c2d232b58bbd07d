#include "input/growing_source.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/kafka_topic.h"
#include "input/sources.h"

namespace paramd {
namespace {

// Each worker holds few portions, of few epochs; more may lie in its queue.
constexpr size_t kMostOpen = 3;
constexpr size_t kMostTold = 1024;
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);
// An example's number has its epoch above these bits: an epoch has fewer than
// 2^32 examples.
constexpr int kOffsetBits = 32;
constexpr uint64_t kMostExamples = 0xffffffff;

uint64_t EpochOf(uint64_t index) { return index >> kOffsetBits; }
uint64_t OffsetOf(uint64_t index) { return index & kMostExamples; }

OpenedSource ReadFiles(InputFiles files, const v1::InputSource& config) {
  switch (config.kind_case()) {
    case v1::InputSource::kCsv:
      return ReadCsv(std::move(files), config.csv());
    case v1::InputSource::kLibsvm:
      if (config.libsvm().columns() == 0) {
        return absl::InvalidArgumentError(
            "libsvm.columns is missing; with input.follow nobody knows yet "
            "what the largest index will be");
      }
      return ReadLibSvm(std::move(files), config.libsvm());
    case v1::InputSource::kTfrecord:
      return ReadTfRecord(std::move(files), config.tfrecord());
    case v1::InputSource::kRecords:
      return ReadRecords(std::move(files), config.records());
    default:
      return absl::InvalidArgumentError(
          "input.follow needs input.train to name csv, libsvm, tfrecord or "
          "records files by a pattern");
  }
}

std::vector<std::string> PatternsOf(const v1::InputSource& config) {
  const auto list = [](const auto& files) {
    return std::vector<std::string>(files.begin(), files.end());
  };
  switch (config.kind_case()) {
    case v1::InputSource::kCsv:
      return list(config.csv().files());
    case v1::InputSource::kLibsvm:
      return list(config.libsvm().files());
    case v1::InputSource::kTfrecord:
      return list(config.tfrecord().files());
    default:
      return list(config.records().files());
  }
}

// As EpochFiles has it.
std::string NameOf(absl::string_view path, const std::string& directory,
                   absl::string_view pattern) {
  const bool is_below = !directory.empty() && !absl::StartsWith(pattern, "/") &&
                        absl::ConsumePrefix(&path, PathIn(directory, ""));
  while (is_below && absl::ConsumePrefix(&path, "/")) {
  }
  return std::string(path);
}

// Where files lie, however patterns spell that.
class Places {
 public:
  std::string Of(const std::filesystem::path& path) {
    const std::filesystem::path parent =
        path.has_parent_path() ? path.parent_path() : ".";
    std::filesystem::path& place = parents_[parent.string()];
    std::error_code error;
    if (place.empty()) place = std::filesystem::weakly_canonical(parent, error);
    if (place.empty()) place = parent;
    return (place / path.filename()).string();
  }

 private:
  std::map<std::string, std::filesystem::path> parents_;
};

// Of `names` each file once that is none of `known`, rather by its own name
// than by that of a link to it.
std::vector<std::string> EachOnce(const std::string& directory,
                                  const std::vector<std::string>& known,
                                  const std::set<std::string>& names) {
  const auto path_of = [&directory](const std::string& name) {
    return std::filesystem::path(PathIn(directory, name));
  };
  Places places;
  std::set<std::string> seen;
  for (const std::string& name : known) seen.insert(places.Of(path_of(name)));
  std::set<std::string> once;
  for (const bool links : {false, true}) {
    for (const std::string& name : names) {
      const std::filesystem::path path = path_of(name);
      std::error_code error;
      if (std::filesystem::is_symlink(path, error) != links) continue;
      const std::filesystem::path real =
          links ? std::filesystem::canonical(path, error)
                : std::filesystem::path();
      const std::string place = real.empty() ? places.Of(path) : real.string();
      if (seen.insert(place).second) once.insert(name);
    }
  }
  return {once.begin(), once.end()};
}

// The names of all files that are there and not known, in order.
absl::StatusOr<std::vector<std::string>> FindNew(const v1::InputConfig& config,
                                                 const v1::ScanInput& request) {
  const std::string& directory = config.train().directory();
  const std::string& end_file = config.follow().end_file();
  std::set<std::string> names;
  for (const std::string& pattern : PatternsOf(config.train())) {
    const auto found = FindFiles(directory, {pattern});
    if (absl::IsNotFound(found.status())) continue;
    RETURN_IF_ERROR(found.status());
    for (const std::string& path : *found) {
      names.insert(NameOf(path, directory, pattern));
    }
  }
  std::vector<std::string> known = {request.known().begin(),
                                    request.known().end()};
  if (!end_file.empty()) known.push_back(end_file);
  for (const std::string& name : known) names.erase(name);
  // Where nothing is new, nobody looks for links.
  if (names.empty()) return std::vector<std::string>();
  return EachOnce(directory, known, names);
}

// Whether the config's patterns mean a file of this name, as ScanInput gives
// it. Who gives it may not be the chief that he says he is.
bool IsMeant(const v1::InputSource& config, const std::string& name) {
  const std::string path = PathIn(config.directory(), name);
  const std::vector<std::string> patterns = PatternsOf(config);
  return std::any_of(
      patterns.begin(), patterns.end(), [&](const std::string& pattern) {
        return fnmatch(PathIn(config.directory(), pattern).c_str(),
                       path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
      });
}

bool IsTrue(const std::atomic<bool>* stopped) {
  return stopped != nullptr && stopped->load(std::memory_order_relaxed);
}

// What is wrong with an example is found before somebody is given it.
absl::Status CheckExamples(const ExampleSource& source,
                           const std::atomic<bool>* stopped) {
  Example example;
  for (uint64_t i = 0; i < source.size(); ++i) {
    if (IsTrue(stopped)) return absl::CancelledError("the process ends");
    RETURN_IF_ERROR(source.Read(i, &example));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrowingSource>> GrowingSource::Create(
    const v1::InputSource& config) {
  if (config.has_kafka()) {
    ASSIGN_OR_RETURN(std::unique_ptr<Topic> topic,
                     OpenKafkaTopic(config.kafka()));
    return Create(config, std::move(topic));
  }
  ASSIGN_OR_RETURN(auto nothing, ReadFiles({}, config));
  return std::unique_ptr<GrowingSource>(
      new GrowingSource(config, std::move(nothing)));
}

absl::StatusOr<std::unique_ptr<GrowingSource>> GrowingSource::Create(
    const v1::InputSource& config, std::unique_ptr<Topic> topic) {
  ASSIGN_OR_RETURN(MessageFormat format, MessageFormat::Of(config));
  ASSIGN_OR_RETURN(auto nothing, format.OpenNone());
  std::unique_ptr<GrowingSource> source(
      new GrowingSource(config, std::move(nothing)));
  source->topic_ = std::move(topic);
  source->format_ = std::make_unique<MessageFormat>(std::move(format));
  if (source->config_.kafka().has_join()) {
    ASSIGN_OR_RETURN(source->join_,
                     LabelJoin::Create(source->config_.kafka(), source->spec(),
                                       source->topic_.get()));
  }
  return source;
}

void GrowingSource::Tell(const v1::EpochFiles& files) {
  MutexLock lock(&mutex_);
  if (!told_.insert({files.epoch(), files}).second) return;
  told_order_.push_back(files.epoch());
  if (told_order_.size() > kMostTold) {
    told_.erase(told_order_.front());
    told_order_.pop_front();
  }
}

void GrowingSource::SetPatience(absl::Duration patience) {
  MutexLock lock(&mutex_);
  patience_ = patience;
  changed_.NotifyAll();
}

void GrowingSource::StopWaiting() {
  SetPatience(absl::ZeroDuration());
  if (topic_ != nullptr) topic_->Stop();
}

Topic::Wait GrowingSource::waiting() const {
  return topic_ == nullptr ? Topic::Wait() : topic_->waiting();
}

// Of no example, and of the same files always: none.
v1::DataSet GrowingSource::Describe() const {
  return DescribeFiles(spec(), /*examples=*/0, /*checksum=*/0);
}

absl::Status GrowingSource::Read(uint64_t index, Example* example) const {
  ASSIGN_OR_RETURN(const Opened source, Load(EpochOf(index)));
  return source->Read(OffsetOf(index), example);
}

std::string GrowingSource::Where(uint64_t index) const {
  const Opened source = Find(EpochOf(index));
  if (source != nullptr) return source->Where(OffsetOf(index));
  return absl::StrCat("example ", OffsetOf(index), " of epoch ",
                      EpochOf(index));
}

uint64_t GrowingSource::SizeIn(uint64_t epoch) const {
  MutexLock lock(&mutex_);
  const auto told = told_.find(epoch);
  return told == told_.end() ? 0 : told->second.examples();
}

uint64_t GrowingSource::IndexOf(uint64_t epoch, uint64_t offset) const {
  return (epoch << kOffsetBits) + offset;
}

// What can't be opened is said when it is read.
std::vector<uint64_t> GrowingSource::FileStartsIn(uint64_t epoch) const {
  const auto source = Load(epoch);
  return source.ok() ? (*source)->FileStarts() : std::vector<uint64_t>{0};
}

GrowingSource::Opened GrowingSource::Find(uint64_t epoch) const {
  MutexLock lock(&mutex_);
  for (const auto& [number, source] : open_) {
    if (number == epoch) return source;
  }
  return nullptr;
}

absl::StatusOr<GrowingSource::Opened> GrowingSource::Load(
    uint64_t epoch) const {
  if (Opened found = Find(epoch)) return found;
  MutexLock opening(&opening_);
  if (Opened found = Find(epoch)) return found;
  v1::EpochFiles files;
  {
    MutexLock lock(&mutex_);
    const auto told = told_.find(epoch);
    if (told == told_.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("nobody says which files epoch ", epoch, " has"));
    }
    files = told->second;
  }
  RETURN_IF_ERROR(failure_);
  absl::StatusOr<Opened> opened =
      topic_ == nullptr ? Open(files) : OpenMessages(files);
  failure_ = opened.status();
  // Files that are others: no example of them may be skipped.
  if (absl::IsDataLoss(failure_) || absl::IsInvalidArgument(failure_)) {
    failure_ = absl::FailedPreconditionError(failure_.message());
  }
  RETURN_IF_ERROR(failure_);
  MutexLock lock(&mutex_);
  open_.emplace_back(epoch, *opened);
  if (open_.size() > kMostOpen) open_.pop_front();
  return opened;
}

absl::StatusOr<GrowingSource::Opened> GrowingSource::Open(
    const v1::EpochFiles& files) const {
  Log(LogLevel::kInfo, "going through the files of an epoch",
      {{"epoch", files.epoch()},
       {"files", files.files_size()},
       {"directory", config_.directory()}});
  InputFiles opened;
  for (const v1::EpochFiles::File& file : files.files()) {
    ASSIGN_OR_RETURN(opened.emplace_back(), OpenFile(file));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   ReadFiles(std::move(opened), config_));
  if (source->size() == files.examples()) return Opened(std::move(source));
  return absl::FailedPreconditionError(absl::StrCat(
      "the ", files.files_size(), " files of epoch ", files.epoch(), ", '",
      PathIn(config_.directory(), files.files(0).name()), "' the first, hold ",
      source->size(), " examples; the chief found ", files.examples(),
      " in them: a file may not change once it has its name"));
}

absl::StatusOr<GrowingSource::Opened> GrowingSource::OpenMessages(
    const v1::EpochFiles& epoch) const {
  const TopicEpoch::Context context = {config_.kafka(),  *format_,
                                       nothing_->spec(), *topic_,
                                       counters_,        join_.get()};
  ASSIGN_OR_RETURN(std::unique_ptr<TopicEpoch> opened,
                   TopicEpoch::Create(context, epoch));
  return Opened(std::move(opened));
}

absl::StatusOr<std::unique_ptr<InputFile>> GrowingSource::OpenFile(
    const v1::EpochFiles::File& file) const {
  const std::string path = PathIn(config_.directory(), file.name());
  if (!IsMeant(config_, file.name())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the chief names the file '", path,
                     "', which is none of input.train's files: every worker "
                     "needs the chief's job file"));
  }
  const absl::Time since = absl::Now();
  for (;;) {
    auto opened = InputFile::Open(path);
    const bool is_missing = absl::IsNotFound(opened.status());
    if (!is_missing) RETURN_IF_ERROR(opened.status());
    if (!is_missing && (*opened)->size() == file.bytes()) return opened;
    const bool may_come = is_missing || (*opened)->size() < file.bytes();
    if (may_come && WaitSince(since)) continue;
    return absl::FailedPreconditionError(
        is_missing
            ? absl::StrCat(
                  "there is no file '", path,
                  "', which the chief found: every "
                  "worker needs the chief's directory, and a file has to stay "
                  "until a checkpoint has its epoch")
            : absl::StrCat("'", path, "' has ", (*opened)->size(),
                           " bytes; it had ", file.bytes(),
                           " when the chief found it: a file may not change "
                           "once it has its name"));
  }
}

bool GrowingSource::WaitSince(absl::Time since) const {
  MutexLock lock(&mutex_);
  if (absl::Now() - since >= patience_) return false;
  changed_.WaitFor(&mutex_, std::min(kLookAgain, patience_));
  return true;
}

// The mark of the end is looked for first: what was there before it is found.
absl::StatusOr<v1::ScanInputResult> ScanInput(
    const v1::InputConfig& config, const v1::ScanInput& request,
    const std::atomic<bool>* stopped) {
  const std::string& directory = config.train().directory();
  const std::string& end_file = config.follow().end_file();
  const size_t most = std::max(config.follow().max_files(), 1u);
  v1::ScanInputResult result;
  result.set_ended(!end_file.empty() &&
                   access(PathIn(directory, end_file).c_str(), F_OK) == 0);
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   FindNew(config, request));
  for (size_t begin = 0; begin < names.size(); begin += most) {
    const size_t end = std::min(begin + most, names.size());
    InputFiles files;
    v1::EpochFiles found;
    for (size_t i = begin; i < end; ++i) {
      auto file = InputFile::Open(PathIn(directory, names[i]));
      if (absl::IsNotFound(file.status())) continue;  // It has gone since.
      RETURN_IF_ERROR(file.status());
      if (IsTrue(stopped)) return absl::CancelledError("the process ends");
      if ((*file)->size() == 0) continue;
      v1::EpochFiles::File* const said = found.add_files();
      said->set_name(names[i]);
      said->set_bytes((*file)->size());
      files.push_back(*std::move(file));
    }
    ASSIGN_OR_RETURN(const auto source,
                     ReadFiles(std::move(files), config.train()));
    if (source->size() == 0) continue;
    if (source->size() > kMostExamples) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the ", found.files_size(), " new files from '", names[begin],
          "' on hold ", source->size(), " examples; an epoch has at most ",
          kMostExamples, ": give a smaller input.follow.max_files"));
    }
    if (config.on_error() != v1::InputConfig::ON_ERROR_SKIP) {
      RETURN_IF_ERROR(CheckExamples(*source, stopped));
    }
    found.set_examples(source->size());
    *result.mutable_found() = std::move(found);
    result.set_more(end < names.size());
    break;
  }
  return result;
}

}  // namespace paramd
