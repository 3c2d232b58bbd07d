#include "coordinator/core/run_record.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "config/setting_changes.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

using Values = std::map<std::string, std::string>;

std::vector<std::string> LinesOf(const v1::JobRecord& record) {
  return {record.settings().begin(), record.settings().end()};
}

Values ValuesIn(const v1::JobRecord& record) {
  Values values;
  for (const std::string& line : record.settings()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    values.insert(parts);
  }
  return values;
}

std::string ValueIn(const v1::JobRecord& record, const std::string& name) {
  const Values values = ValuesIn(record);
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

void AppendChanged(const v1::JobRecord& before, const v1::JobRecord& now,
                   std::vector<v1::ChangedSetting>* changed) {
  Values others = ValuesIn(before);
  const auto append = [&](const std::string& name, const std::string& was,
                          const std::string& is) {
    if (was == is) return;
    v1::ChangedSetting& setting = changed->emplace_back();
    setting.set_name(name);
    setting.set_before(was);
    setting.set_now(is);
  };
  for (const auto& [name, value] : ValuesIn(now)) {
    append(name, others[name], value);
    others.erase(name);
  }
  for (const auto& [name, value] : others) append(name, value, "");
}

std::string ShapeOf(const v1::DataSet& data) {
  return absl::StrJoin(data.example_shape(), "x");
}

// "in '/data' on host"; a process need not say on which.
std::string PlaceOf(const v1::DataSet& data) {
  return absl::StrCat("in '", data.directory(), "'",
                      data.host().empty() ? "" : " on ", data.host());
}

}  // namespace

std::string DataDifference(const v1::DataSet& data, const v1::DataSet& meant) {
  std::vector<std::string> differences;
  const auto add = [&](auto ours, auto theirs, absl::string_view what) {
    if (ours == theirs) return;
    differences.push_back(absl::StrCat(ours, what, ", not ", theirs));
  };
  const auto add_sum = [&](uint32_t ours, uint32_t theirs,
                           absl::string_view what) {
    if (ours == theirs) return;
    differences.push_back(absl::StrFormat("other %s (crc32c %08x, not %08x)",
                                          what, ours, theirs));
  };
  add(data.examples(), meant.examples(), " examples");
  add(ShapeOf(data), ShapeOf(meant), " numbers in each");
  add(data.example_type(), meant.example_type(), "");
  add(data.classes(), meant.classes(), " classes");
  add_sum(data.examples_crc32c(), meant.examples_crc32c(), "examples");
  add_sum(data.labels_crc32c(), meant.labels_crc32c(), "labels");
  std::string meaning = MeaningDifference(data.meaning(), meant.meaning());
  if (!meaning.empty()) differences.push_back(std::move(meaning));
  return absl::StrJoin(differences, "; ");
}

RunRecord::RunRecord(const v1::JobConfig& job, const std::string& job_digest,
                     const v1::DataSet& data)
    : job_(job), job_digest_(job_digest) {
  for (std::string& line : RecordedSettings(job)) {
    ours_.add_settings(std::move(line));
  }
  *ours_.mutable_data() = data;
}

void RunRecord::Read(const v1::LogEntry& entry) {
  // A coordinator that only took its term may have been refused after that.
  if (entry.has_job() && (!before_.has_value() || entry.has_configuration())) {
    if (before_.has_value()) AppendChanged(*before_, entry.job(), &changed_);
    before_ = entry.job();
  }
  if (digest_before_.empty() || entry.has_configuration()) {
    digest_before_ = entry.job_digest();
  }
  // More epochs were wanted.
  if (entry.has_configuration()) finished_ = false;
  finished_ |= entry.has_finished();
}

absl::Status RunRecord::Begin(const std::string& run_id) {
  if (digest_before_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckJob(absl::StrCat("run ", run_id),
                           before_.value_or(v1::JobRecord()), digest_before_));
  if (!before_.has_value()) return absl::OkStatus();
  AppendChanged(*before_, ours_, &changed_);
  changes_ = ChangesText(ChangesSince(LinesOf(*before_), job_).may);
  return absl::OkStatus();
}

absl::Status RunRecord::CheckManifest(const std::string& path,
                                      const v1::Manifest& manifest) const {
  const std::string what = absl::StrCat("checkpoint '", path, "'");
  RETURN_IF_ERROR(CheckJob(what, manifest.job(), manifest.job_digest()));
  const v1::SavedInput& input = manifest.input();
  uint32_t begun = input.next_epoch() - (input.next_offset() == 0 ? 1 : 0);
  if (input.next_epoch() == 0) begun = 0;
  if (begun <= job_.epochs()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("epochs is ", job_.epochs(), ", but ", what,
                   " has begun epoch ", begun, ": give at least ", begun));
}

absl::Status RunRecord::CheckJob(const std::string& what,
                                 const v1::JobRecord& job,
                                 const std::string& digest) const {
  constexpr absl::string_view kAdvice =
      ": give what it was started with, or start a new run in another "
      "directory";
  if (job.settings().empty()) {
    // Of a version that kept a digest alone.
    if (digest.empty() || digest == job_digest_ ||
        !job_.checkpoint().allow_missing().empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        what,
        " has other job-wide settings, which an earlier version did not "
        "write down",
        kAdvice));
  }
  const SettingChanges changes = ChangesSince(LinesOf(job), job_);
  if (!changes.may_not.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " is of another job: ", ChangesText(changes.may_not), kAdvice));
  }
  if (!job.has_data()) return absl::OkStatus();
  const std::string difference = DataDifference(ours_.data(), job.data());
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the training data ", PlaceOf(ours_.data()), " is not what ",
                   what, " was trained on, read ", PlaceOf(job.data()), ": ",
                   difference, kAdvice));
}

bool RunRecord::finished() const { return finished_ && more_epochs() <= 0; }

int64_t RunRecord::more_epochs() const {
  uint32_t before = 0;
  if (!before_.has_value() ||
      !absl::SimpleAtoi(ValueIn(*before_, "epochs"), &before)) {
    return 0;
  }
  return int64_t{job_.epochs()} - before;
}

bool RunRecord::decay_changed() const {
  constexpr char kDecay[] = "optimizer.decay_steps";
  return before_.has_value() &&
         ValueIn(*before_, kDecay) != ValueIn(ours_, kDecay);
}

bool RunRecord::strategy_changed() const {
  // Runs of before there were strategies were of servers.
  const auto strategy = [](const v1::JobRecord& record) {
    const std::string value = ValueIn(record, "strategy");
    return value.empty() ? "\"parameter_server\"" : value;
  };
  return before_.has_value() && strategy(*before_) != strategy(ours_);
}

}  // namespace paramd
