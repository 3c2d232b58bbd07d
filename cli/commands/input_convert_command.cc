#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/print.h"
#include "base/process_limits.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/whole_directory.h"
#include "cli/commands/command.h"
#include "cli/commands/settings_json.h"
#include "config/batch_rule.h"
#include "config/strategy.h"
#include "input/convert_input.h"
#include "input/open_pipeline.h"
#include "input/stage.h"
#include "process/exit_code.h"
#include "process/job_flags.h"
#include "process/terminal/byte_size.h"
#include "process/terminal/dashboard.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

// Between two lines that say how far it is.
constexpr absl::Duration kBetweenLines = absl::Seconds(5);
constexpr int kMostThreads = 256;
// Names of six digits sort as their numbers do.
constexpr uint64_t kMostParts = 1000000;

// As they were typed.
struct WantedConversion {
  JobFlags job;
  std::string to;
  std::string part_size = "1GB";
  int threads = 0;  // 0: as many as there are processors.
};

// What becomes records.
struct ConvertedPart {
  std::string name;  // "train"
  std::unique_ptr<Pipeline> pipeline;
  int passed = 0;  // Of the pipeline's stages.
  v1::InputSource::Records records = {};

  const Stage& last() const { return pipeline->Behind(passed); }
};

// Files of records of one source: "train-000000.records" and so on.
class RecordFiles {
 public:
  RecordFiles(std::string path, uint64_t file_bytes)
      : path_(std::move(path)), file_bytes_(file_bytes) {}

  // REQUIRES: whole records.
  absl::Status Add(absl::string_view records) {
    while (!records.empty()) {
      RETURN_IF_ERROR(Begin());
      const absl::string_view fits =
          records.substr(0, file_bytes_ - file_->bytes());
      RETURN_IF_ERROR(file_->Append(fits));
      bytes_ += fits.size();
      records.remove_prefix(fits.size());
      if (file_->bytes() == file_bytes_) RETURN_IF_ERROR(EndFile());
    }
    return absl::OkStatus();
  }

  // A file is there, if only an empty one.
  absl::Status Begin() {
    if (file_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(file_, NewFile::Create(absl::StrFormat("%s-%06d.records",
                                                            path_, count_++)));
    return absl::OkStatus();
  }

  // What comes next begins another file.
  absl::Status EndFile() {
    if (file_ == nullptr) return absl::OkStatus();
    const std::unique_ptr<NewFile> file = std::move(file_);
    return file->Finish();
  }

  uint64_t files() const { return count_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const std::string path_;  // Without the number.
  const uint64_t file_bytes_;
  std::unique_ptr<NewFile> file_;
  uint64_t count_ = 0;
  uint64_t bytes_ = 0;
};

// Says every few seconds how far it is.
class ConversionProgress {
 public:
  explicit ConversionProgress(uint64_t examples) : examples_(examples) {}

  void Add(uint64_t examples) {
    done_ += examples;
    const Time now = MonotonicNow();
    if (now - said_ < kBetweenLines) return;
    said_ = now;
    const double seconds = absl::ToDoubleSeconds(now - began_);
    const double rate = static_cast<double>(done_) / seconds;
    Print(absl::StrFormat(
              "paramd: %s of %s examples, %s a second, %s left\n",
              WithCommas(done_), WithCommas(examples_),
              WithCommas(static_cast<uint64_t>(rate)),
              SecondsText(static_cast<double>(examples_ - done_) / rate)),
          stderr);
  }

  absl::Duration time() const { return MonotonicNow() - began_; }

 private:
  const uint64_t examples_;
  const Time began_ = MonotonicNow();
  Time said_ = began_;
  uint64_t done_ = 0;
};

absl::StatusOr<uint64_t> PartBytes(const WantedConversion& wanted) {
  const auto bytes = ParseByteSize(wanted.part_size);
  if (bytes.ok()) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("--part_size: ", bytes.status().message()));
}

absl::Status CheckWanted(const WantedConversion& wanted,
                         const v1::InputConfig& input) {
  if (wanted.to.empty()) {
    return absl::InvalidArgumentError(
        "missing --to DIR, the directory that is made");
  }
  RETURN_IF_ERROR(PartBytes(wanted).status());
  return CheckConvertible(input);
}

// The directory from the root, which is not there yet, or is empty. A link
// can't be replaced by a directory.
absl::StatusOr<std::string> VacantDirectory(const std::string& to) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(to));
  std::error_code error;
  std::error_code not_there;
  const bool is_vacant = !std::filesystem::is_symlink(path, not_there) &&
                         (!std::filesystem::exists(path, error) ||
                          (std::filesystem::is_directory(path, error) &&
                           std::filesystem::is_empty(path, error)));
  if (is_vacant && !error) return path;
  return absl::AlreadyExistsError(absl::StrCat(
      "--to: '", path, "' ",
      error ? absl::StrCat("can't be read: ", error.message())
            : "is something else than an empty directory; a conversion makes "
              "one of its own"));
}

// The data to train on as a job opens them, and test data if it has such.
absl::StatusOr<std::vector<ConvertedPart>> OpenParts(
    const v1::JobConfig& job, const PassedStages& passed) {
  const v1::InputConfig& input = job.input();
  std::vector<ConvertedPart> parts;
  ASSIGN_OR_RETURN(auto train, OpenTrainingData(job));
  parts.push_back({.name = "train",
                   .pipeline = std::move(train),
                   .passed = passed.train + passed.shared});
  const InputSpec trained = parts[0].last().spec();
  if (input.has_test() || !input.has_train()) {
    ASSIGN_OR_RETURN(auto test, OpenTestData(input, *parts[0].pipeline));
    parts.push_back({.name = "test",
                     .pipeline = std::move(test),
                     .passed = passed.test + passed.shared});
  }
  for (ConvertedPart& part : parts) {
    RETURN_IF_ERROR(CheckSameInEachEpoch(*part.pipeline));
    ASSIGN_OR_RETURN(part.records,
                     DescribeRecords(part.last().spec(), trained));
    part.records.add_files(absl::StrCat(part.name, "-*.records"));
  }
  return parts;
}

// Bytes of a file: of whole records. Without a bound if a file is to be what
// one of the source is.
absl::StatusOr<uint64_t> FileBytes(const WantedConversion& wanted,
                                   const ConvertedPart& part, bool by_files) {
  ASSIGN_OR_RETURN(const uint64_t size, PartBytes(wanted));
  const uint64_t record = RecordBytes(part.last().spec());
  const uint64_t in_file = std::max<uint64_t>(size / record, 1);
  const uint64_t files = by_files ? part.last().FileStarts(0).size()
                                  : (part.last().size() - 1) / in_file + 1;
  if (files > kMostParts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there would be ", files, " files of '", part.name, "'; at most ",
        kMostParts, " can be: give a larger --part_size"));
  }
  return by_files ? std::numeric_limits<uint64_t>::max() : in_file * record;
}

absl::Status WritePart(const ConvertedPart& part, uint32_t threads,
                       bool by_files, RecordFiles* files,
                       ConversionProgress* progress) {
  std::vector<uint64_t> ends = {part.last().size()};
  if (by_files) {
    ends = part.last().FileStarts(0);
    ends.erase(ends.begin());
    ends.push_back(part.last().size());
  }
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    if (by_files) RETURN_IF_ERROR(files->Begin());
    RETURN_IF_ERROR(EncodeExamples(
        {.pipeline = *part.pipeline, .passed = part.passed, .threads = threads},
        begin, end, [&](absl::string_view records, uint64_t examples) {
          progress->Add(examples);
          return files->Add(records);
        }));
    RETURN_IF_ERROR(files->EndFile());
    begin = end;
  }
  if (files->bytes() > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("none of the ", part.last().size(),
                                          " examples of '", part.name,
                                          "' could be read"));
}

// What a command's user reads beside the JSON.
std::string SummaryOf(const std::vector<ConvertedPart>& parts,
                      const std::vector<RecordFiles>& files,
                      absl::Duration time) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t record = RecordBytes(parts[i].last().spec());
    absl::StrAppend(&text, "paramd: ", parts[i].name, ": ",
                    WithCommas(files[i].bytes() / record), " examples of ",
                    BytesText(record), ", ", BytesText(files[i].bytes()),
                    " in ", files[i].files(),
                    files[i].files() == 1 ? " file\n" : " files\n");
    const uint64_t skipped = parts[i].pipeline->skipped();
    if (skipped == 0) continue;
    absl::StrAppend(&text, "paramd: ", parts[i].name, ": ", WithCommas(skipped),
                    " examples that could not be read are left out: those "
                    "after them stand in another place\n");
  }
  return absl::StrCat(text, "paramd: converted in ",
                      SecondsText(absl::ToDoubleSeconds(time)), "\n");
}

absl::Status WriteAll(const WantedConversion& wanted, bool by_files,
                      const std::string& directory,
                      const std::vector<ConvertedPart>& parts) {
  const uint32_t threads =
      wanted.threads > 0
          ? static_cast<uint32_t>(wanted.threads)
          : std::min<uint32_t>(ProcessorsOfThisProcess(), kMostThreads);
  uint64_t examples = 0;
  for (const ConvertedPart& part : parts) examples += part.last().size();
  ConversionProgress progress(examples);
  std::vector<RecordFiles> files;
  files.reserve(parts.size());
  const auto fill = [&](const std::string& in) -> absl::Status {
    for (const ConvertedPart& part : parts) {
      ASSIGN_OR_RETURN(const uint64_t bytes, FileBytes(wanted, part, by_files));
      files.emplace_back(absl::StrCat(in, "/", part.name), bytes);
      RETURN_IF_ERROR(
          WritePart(part, threads, by_files, &files.back(), &progress));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(MakeWholeDirectory(directory, fill).status());
  Print(SummaryOf(parts, files, progress.time()), stderr);
  return absl::OkStatus();
}

absl::Status ConvertInput(const WantedConversion& wanted) {
  ASSIGN_OR_RETURN(const LoadedJob loaded, wanted.job.Load());
  v1::JobConfig job = loaded.config;
  const v1::InputConfig& input = job.input();
  RETURN_IF_ERROR(CheckWanted(wanted, input));
  RETURN_IF_ERROR(DeriveBatch(ReplicasOf(job), &job));
  ConvertedSources converted;
  ASSIGN_OR_RETURN(converted.directory, VacantDirectory(wanted.to));
  const PassedStages passed = StagesToPass(input);
  ASSIGN_OR_RETURN(const std::vector<ConvertedPart> parts,
                   OpenParts(job, passed));
  converted.train = parts[0].records;
  if (parts.size() > 1) converted.test = parts[1].records;
  const v1::InputConfig printed = InputOfRecords(input, passed, converted);
  if (parts.size() > 1) {
    RETURN_IF_ERROR(
        CheckReadAlike(printed, *parts[0].pipeline, *parts[1].pipeline));
  }
  RETURN_IF_ERROR(
      WriteAll(wanted, GoesByFiles(input, passed), converted.directory, parts));
  Print(SettingsJson("input", printed));
  return absl::OkStatus();
}

}  // namespace

int InputConvertCommand(const Invocation& invocation) {
  WantedConversion wanted;
  Flags flags("input convert", "--job FILE --to DIR [flags]",
              "Writes the examples that a job reads, as they are before its "
              "shuffle, in records of\none size, and prints the input that "
              "reads them: training is the same, bit for bit,\nand text is "
              "parsed only once. DIR appears when all is in it.");
  flags.AddText("to", "DIR", "the directory that is made", &wanted.to);
  flags.AddText("part_size", "SIZE", "begin another file at this many bytes",
                &wanted.part_size);
  flags.AddCount("threads", "0: as many as there are processors",
                 {0, kMostThreads}, &wanted.threads);
  wanted.job.AddTo(&flags);
  if (const auto code = ParseFlags(invocation, &flags)) return *code;
  const absl::Status status = ConvertInput(wanted);
  PrintError(status);
  return status.ok() ? kExitFinished : ExitCodeAtStart(status);
}

}  // namespace paramd
