#ifndef PARAMD_PROCESS_FLAGS_H_
#define PARAMD_PROCESS_FLAGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace paramd {

// The flags of one subcommand: declared, parsed and explained in one place.
// `--name=value` and `--name value` mean the same; a switch stands alone or is
// `--name=true|false`; what is no flag, and all that follows `--`, is an
// argument. A flag given twice keeps its last value, a list all of them.
//
// Not thread-safe. Targets are borrowed and must outlive Parse.
//
//   Flags flags("local", "--job FILE [flags]", "Runs a cluster here.");
//   flags.AddText("job", "FILE", "the job file", &job);
//   RETURN_IF_ERROR(flags.Parse(arguments));
class Flags {
 public:
  // The value of one setting of the job file, as text.
  using Setting = std::pair<std::string, std::string>;

  // What people and shells are told about one flag.
  struct Info {
    std::string name;
    std::string value_name;  // "FILE"; "text|json": one of these.
    std::string sentence;
    std::string default_text;
    bool is_switch = false;   // Takes no value, or one after '='.
    bool is_setting = false;  // A setting of the job file.
  };

  // `usage` follows the command's name in the first line of Help().
  Flags(absl::string_view command, absl::string_view usage,
        absl::string_view sentence);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // Each target keeps its value, the default, if the flag is not given.
  void AddText(absl::string_view name, absl::string_view value_name,
               absl::string_view sentence, std::string* target);
  // A whole number in [least, most].
  void AddCount(absl::string_view name, absl::string_view sentence,
                std::pair<int, int> least_and_most, int* target);
  // The same, whose value may be left out, "[SECONDS]": then it is
  // `if_alone`. The word after it is its value only if it is a number. The
  // default is not shown.
  void AddCountOrNone(absl::string_view name, absl::string_view value_name,
                      absl::string_view sentence,
                      std::pair<int, int> least_and_most, int if_alone,
                      int* target);
  void AddSwitch(absl::string_view name, absl::string_view sentence,
                 bool* target);

  // Makes every top-level setting of the job file that is no message a flag of
  // its name (`--epochs 3`; true or false: a switch), and reaches all of them,
  // also those inside messages, by `--set a.b=c`. They are collected in the
  // order given; their values are checked where the job file is.
  void AddJobSettings(std::vector<Setting>* target);

  // The flag of this name does something only where `has_effect`, which is
  // asked when all of them are parsed. Where it has none, whoever gives the
  // flag is told that it belongs to `what`: "--live ADDRESS".
  void OnlyWith(absl::string_view name, absl::string_view what,
                std::function<bool()> has_effect);

  // How many arguments may follow; none unless told.
  void AllowArguments(int least, int most, absl::string_view value_name);

  // InvalidArgument for an unknown flag (naming the nearest known one), a
  // missing or unusable value, a wrong number of arguments, or a flag that has
  // no effect. Targets of flags before the mistake may have changed. After
  // `--help` nothing more is looked at.
  absl::Status Parse(absl::Span<const std::string> arguments);

  bool help_wanted() const { return help_wanted_; }
  const std::vector<std::string>& arguments() const { return arguments_; }

  // Ends with a line break.
  std::string Help() const;

  // What Help() is made from.
  const std::string& usage() const { return usage_; }
  const std::string& sentence() const { return sentence_; }
  std::vector<Info> infos() const;

 private:
  struct Flag : Info {
    std::string* text = nullptr;
    int* count = nullptr;
    std::pair<int, int> least_and_most;
    std::string if_alone;  // A value; empty: it has to be given.
    bool* on = nullptr;
    bool is_set = false;  // --set
    bool is_given = false;
    // See OnlyWith; empty: always.
    std::string belongs_to;
    std::function<bool()> has_effect;
  };

  const Flag* Find(absl::string_view name) const;
  absl::Status ParseWords(absl::Span<const std::string> words);
  // `words[*i]` is a flag; `*i` becomes the last word of it.
  absl::Status ParseFlag(absl::Span<const std::string> words, size_t* i);
  absl::Status CheckArguments() const;
  absl::Status CheckEffects() const;
  absl::Status Assign(const Flag& flag, absl::string_view value);
  // Settings inside of others that end in `name`: no flags of their own.
  std::vector<std::string> SettingsNamed(absl::string_view name) const;
  absl::Status Unknown(absl::string_view name) const;

  const std::string command_;
  const std::string usage_;
  const std::string sentence_;
  std::vector<Flag> flags_;
  std::vector<Setting>* settings_ = nullptr;
  int least_arguments_ = 0;
  int most_arguments_ = 0;
  std::string argument_name_;
  std::vector<std::string> arguments_;
  bool help_wanted_ = false;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_FLAGS_H_
