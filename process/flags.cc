#include "process/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/nearest_name.h"
#include "config/setting.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

constexpr size_t kLeftWidth = 24;  // Of flags and their values in Help().

bool IsNumber(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
}

}  // namespace

Flags::Flags(absl::string_view command, absl::string_view usage,
             absl::string_view sentence)
    : command_(command), usage_(usage), sentence_(sentence) {}

void Flags::AddText(absl::string_view name, absl::string_view value_name,
                    absl::string_view sentence, std::string* target) {
  Flag flag;
  flag.name = std::string(name);
  flag.value_name = std::string(value_name);
  flag.sentence = std::string(sentence);
  flag.default_text = *target;
  flag.text = target;
  flags_.push_back(std::move(flag));
}

void Flags::AddCount(absl::string_view name, absl::string_view sentence,
                     std::pair<int, int> least_and_most, int* target) {
  Flag flag;
  flag.name = std::string(name);
  flag.value_name = "N";
  flag.sentence = std::string(sentence);
  flag.default_text = absl::StrCat(*target);
  flag.count = target;
  flag.least_and_most = least_and_most;
  flags_.push_back(std::move(flag));
}

void Flags::AddCountOrNone(absl::string_view name, absl::string_view value_name,
                           absl::string_view sentence,
                           std::pair<int, int> least_and_most, int if_alone,
                           int* target) {
  Flag flag;
  flag.name = std::string(name);
  flag.value_name = std::string(value_name);
  flag.sentence = std::string(sentence);
  flag.is_switch = true;
  flag.count = target;
  flag.least_and_most = least_and_most;
  flag.if_alone = absl::StrCat(if_alone);
  flags_.push_back(std::move(flag));
}

void Flags::AddSwitch(absl::string_view name, absl::string_view sentence,
                      bool* target) {
  Flag flag;
  flag.name = std::string(name);
  flag.sentence = std::string(sentence);
  flag.on = target;
  flag.is_switch = true;
  flags_.push_back(std::move(flag));
}

void Flags::AddJobSettings(std::vector<Setting>* target) {
  settings_ = target;
  Flag set;
  set.name = "set";
  set.value_name = "KEY=VALUE";
  set.sentence = "any setting of the job file: --set optimizer.adam.beta1=0.8";
  set.is_set = true;
  flags_.push_back(std::move(set));
  const google::protobuf::Descriptor& job = *v1::JobConfig::descriptor();
  for (int i = 0; i < job.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *job.field(i);
    // A flag of the subcommand itself, under the same name, comes first.
    if (field.message_type() != nullptr || Find(field.name()) != nullptr) {
      continue;
    }
    const v1::SettingOptions& options =
        field.options().GetExtension(v1::setting);
    Flag flag;
    flag.name = field.name();
    flag.is_switch =
        field.type() == google::protobuf::FieldDescriptor::TYPE_BOOL;
    if (field.enum_type() != nullptr) {
      flag.value_name = absl::StrJoin(EnumNames(*field.enum_type()), "|");
    } else if (!flag.is_switch) {
      flag.value_name = "VALUE";
    }
    flag.sentence = options.sentence();
    flag.default_text = options.default_json();
    flag.is_setting = true;
    flags_.push_back(std::move(flag));
  }
}

void Flags::OnlyWith(absl::string_view name, absl::string_view what,
                     std::function<bool()> has_effect) {
  const auto flag =
      std::find_if(flags_.begin(), flags_.end(),
                   [&](const Flag& one) { return one.name == name; });
  CHECK(flag != flags_.end(), "a flag that is limited is there");
  flag->belongs_to = std::string(what);
  flag->has_effect = std::move(has_effect);
}

void Flags::AllowArguments(int least, int most, absl::string_view value_name) {
  least_arguments_ = least;
  most_arguments_ = most;
  argument_name_ = std::string(value_name);
}

const Flags::Flag* Flags::Find(absl::string_view name) const {
  const auto found =
      std::find_if(flags_.begin(), flags_.end(),
                   [&](const Flag& flag) { return flag.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

std::vector<std::string> Flags::SettingsNamed(absl::string_view name) const {
  std::vector<std::string> paths;
  if (settings_ == nullptr) return paths;
  for (const std::string& path : SettingPaths(*v1::JobConfig::descriptor())) {
    if (path == name || absl::EndsWith(path, absl::StrCat(".", name))) {
      paths.push_back(path);
    }
  }
  return paths;
}

absl::Status Flags::Unknown(absl::string_view name) const {
  std::vector<std::string> known = {"help"};
  for (const Flag& flag : flags_) known.push_back(flag.name);
  const std::string nearest = NearestName(name, known);
  const std::vector<std::string> inside = SettingsNamed(name);
  if (!inside.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag --", name, "; did you mean --set ",
                     absl::StrJoin(inside, "=VALUE or --set "), "=VALUE?"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag --", name,
      nearest.empty()
          ? absl::StrCat("; 'paramd ", command_, " --help' lists all")
          : absl::StrCat("; did you mean --", nearest, "?")));
}

absl::Status Flags::Assign(const Flag& flag, absl::string_view value) {
  if (flag.is_setting) {
    settings_->emplace_back(flag.name, value);
    return absl::OkStatus();
  }
  if (flag.is_set) {
    const size_t equals = value.find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--set takes KEY=VALUE, as in optimizer.learning_rate=0.01, not '",
          value, "'"));
    }
    settings_->emplace_back(value.substr(0, equals), value.substr(equals + 1));
    return absl::OkStatus();
  }
  if (flag.text != nullptr) {
    *flag.text = std::string(value);
    return absl::OkStatus();
  }
  if (flag.on != nullptr) {
    if (value != "true" && value != "false") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", flag.name, " is true or false, not '", value, "'"));
    }
    *flag.on = value == "true";
    return absl::OkStatus();
  }
  int number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < flag.least_and_most.first ||
      number > flag.least_and_most.second) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag.name, " is a whole number from ", flag.least_and_most.first,
        " to ", flag.least_and_most.second, ", not '", value, "'"));
  }
  *flag.count = number;
  return absl::OkStatus();
}

absl::Status Flags::Parse(absl::Span<const std::string> arguments) {
  RETURN_IF_ERROR(ParseWords(arguments));
  if (help_wanted_) return absl::OkStatus();
  RETURN_IF_ERROR(CheckArguments());
  return CheckEffects();
}

absl::Status Flags::ParseWords(absl::Span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      arguments_.insert(arguments_.end(), words.begin() + i + 1, words.end());
      break;
    }
    if (word == "--help" || word == "-h") {
      help_wanted_ = true;
      return absl::OkStatus();
    }
    if (absl::StartsWith(word, "--")) {
      RETURN_IF_ERROR(ParseFlag(words, &i));
      continue;
    }
    if (word.size() > 1 && word[0] == '-') {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", word, "; flags begin with --"));
    }
    arguments_.push_back(word);
  }
  return absl::OkStatus();
}

absl::Status Flags::ParseFlag(absl::Span<const std::string> words, size_t* i) {
  absl::string_view word = words[*i];
  word.remove_prefix(2);
  const size_t equals = word.find('=');
  const absl::string_view name = word.substr(0, equals);
  const auto flag =
      std::find_if(flags_.begin(), flags_.end(),
                   [&](const Flag& one) { return one.name == name; });
  if (flag == flags_.end()) return Unknown(name);
  flag->is_given = true;
  if (equals != absl::string_view::npos) {
    return Assign(*flag, word.substr(equals + 1));
  }
  const bool is_last = *i + 1 == words.size();
  if (!flag->if_alone.empty()) {
    const bool has_value = !is_last && IsNumber(words[*i + 1]);
    return Assign(*flag, has_value ? words[++*i] : flag->if_alone);
  }
  if (flag->is_switch) return Assign(*flag, "true");
  if (is_last) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " needs a value: ", flag->value_name));
  }
  return Assign(*flag, words[++*i]);
}

absl::Status Flags::CheckArguments() const {
  const int given = static_cast<int>(arguments_.size());
  if (given > most_arguments_) {
    const std::string& stray = arguments_[most_arguments_];
    if (Find("job") != nullptr && absl::EndsWith(stray, ".json")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", stray, "' is one argument too many; did you mean --job ", stray,
          "?"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", stray, "' is one argument too many; 'paramd ",
                     command_, " --help' says what is taken"));
  }
  if (given < least_arguments_) {
    return absl::InvalidArgumentError(
        absl::StrCat("missing ", argument_name_, "; 'paramd ", command_,
                     " --help' says what is taken"));
  }
  return absl::OkStatus();
}

absl::Status Flags::CheckEffects() const {
  for (const Flag& flag : flags_) {
    if (!flag.is_given || flag.has_effect == nullptr || flag.has_effect()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.name, " belongs to ", flag.belongs_to));
  }
  return absl::OkStatus();
}

std::vector<Flags::Info> Flags::infos() const {
  return {flags_.begin(), flags_.end()};
}

std::string Flags::Help() const {
  std::string help =
      absl::StrCat("usage: paramd ", command_, usage_.empty() ? "" : " ",
                   usage_, "\n\n", sentence_, "\n");
  const auto append = [&](const Flag& flag) {
    const std::string left = absl::StrCat(
        flag.name, flag.value_name.empty() ? "" : " ", flag.value_name);
    // What does not fit stands above its sentence.
    absl::StrAppendFormat(
        &help, "  --%s%s%s%s\n", left,
        left.size() > kLeftWidth
            ? "\n" + std::string(kLeftWidth + 5, ' ')
            : std::string(kLeftWidth + 1 - left.size(), ' '),
        flag.sentence,
        flag.default_text.empty() || flag.default_text == "\"\""
            ? ""
            : absl::StrCat(" [", flag.default_text, "]"));
  };
  help.append("\nflags:\n");
  for (const Flag& flag : flags_) {
    if (!flag.is_setting) append(flag);
  }
  help.append("  --help                     shows this\n");
  if (settings_ != nullptr) {
    help.append("\nsettings of the job file, each also a flag:\n");
    for (const Flag& flag : flags_) {
      if (flag.is_setting) append(flag);
    }
  }
  return help;
}

}  // namespace paramd
