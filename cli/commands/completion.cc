#include "cli/commands/completion.h"

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "config/setting.h"
#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

// Both scripts find out the same three things (the command so far, the flag
// whose value is being typed, the word) and share what follows from them.
constexpr char kBash[] =
    R"(# Completes paramd in bash. Made by: paramd completion bash
#   source <(paramd completion bash)
_paramd() {
  local word=${COMP_WORDS[COMP_CWORD]} flag= command= list= i
  # Bash takes "--flag=value" apart, unless it was told not to.
  if [[ $word == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-1]} word=
  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == --* ]]; then
    flag=${COMP_WORDS[COMP_CWORD-1]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -*) break ;;
      *) command+=${command:+ }${COMP_WORDS[i]} ;;
    esac
  done
@tables@
  COMPREPLY=($(compgen -W "$list" -- "$word"))
  if [[ $flag == --set ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _paramd paramd
)";

constexpr char kZsh[] = R"(#compdef paramd
# Completes paramd in zsh. Made by: paramd completion zsh
#   source <(paramd completion zsh)      or a file _paramd on the fpath
_paramd() {
  local word=${words[CURRENT]} flag= command= list= i
  if [[ $word == --*=* ]]; then
    flag=${word%%=*}
    compset -P '*='
  elif [[ ${words[CURRENT-1]} == --* ]]; then
    flag=${words[CURRENT-1]}
  fi
  for ((i = 2; i < CURRENT; i++)); do
    case ${words[i]} in
      -*) break ;;
      *) command+=${command:+ }${words[i]} ;;
    esac
  done
@tables@
  if [[ -z $list ]]; then
    _files
  elif [[ $flag == --set ]]; then
    compadd -S '' -- ${=list}
  else
    compadd -- ${=list}
  fi
}
if [[ ${funcstack[1]} == _paramd ]]; then _paramd "$@"; else compdef _paramd paramd; fi
)";

// The words that may follow `begin` in the name of a command.
std::map<std::string, std::set<std::string>> NextWords(
    const std::vector<CommandHelp>& commands) {
  std::map<std::string, std::set<std::string>> next;
  for (const CommandHelp& command : commands) {
    std::string begin;
    for (const absl::string_view word : absl::StrSplit(command.name, ' ')) {
      next[begin].emplace(word);
      absl::StrAppend(&begin, begin.empty() ? "" : " ", word);
    }
  }
  return next;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", text, "'");
}

// `pattern` is the shell's.
std::string Case(const std::string& pattern, const std::string& list) {
  return absl::StrCat("    ", pattern, ") list='", list, "' ;;\n");
}

// Values of flags that take one of a few, by `command flag`: of all commands if
// they are the same in all that have such a flag.
std::map<std::string, std::string> ValuesByFlag(
    const std::vector<CommandHelp>& commands) {
  // By flag, then by values: the commands.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> found;
  for (const CommandHelp& command : commands) {
    for (const Flags::Info& flag : command.flags) {
      const std::string name = absl::StrCat("--", flag.name);
      if (absl::StrContains(flag.value_name, '|')) {
        found[name][absl::StrReplaceAll(flag.value_name, {{"|", " "}})]
            .push_back(command.name);
      } else if (flag.name == "set") {
        found[name]
             [absl::StrJoin(SettingPaths(*v1::JobConfig::descriptor()), " ",
                            [](std::string* out, const std::string& path) {
                              absl::StrAppend(out, path, "=");
                            })]
                 .push_back(command.name);
      }
    }
  }
  std::map<std::string, std::string> values;
  for (const auto& [flag, lists] : found) {
    for (const auto& [list, names] : lists) {
      for (const std::string& name : names) {
        values[absl::StrCat(lists.size() == 1 ? "" : Quoted(name), "*",
                            Quoted(absl::StrCat(" ", flag)))] = list;
      }
    }
  }
  return values;
}

// Fills `list` from `flag`, `command` and whether `word` begins a flag. A flag
// that takes any value leaves it empty.
std::string Tables(const std::vector<CommandHelp>& commands) {
  std::string values = "  case \"$command $flag\" in\n";
  for (const auto& [pattern, list] : ValuesByFlag(commands)) {
    absl::StrAppend(&values, Case(pattern, list));
  }
  std::set<std::string> switches = {"--help"};
  std::string flags = "  case $command in\n";
  for (const CommandHelp& command : commands) {
    std::vector<std::string> names = {"--help"};
    for (const Flags::Info& flag : command.flags) {
      names.push_back(absl::StrCat("--", flag.name));
      if (flag.is_switch) switches.insert(names.back());
    }
    absl::StrAppend(&flags, Case(absl::StrCat(Quoted(command.name), "*"),
                                 absl::StrJoin(names, " ")));
  }
  std::string words = "  case $command in\n";
  for (const auto& [begin, next] : NextWords(commands)) {
    absl::StrAppend(&words, Case(Quoted(begin), absl::StrJoin(next, " ")));
  }
  absl::StrAppend(&words, Case(Quoted("completion"), "bash zsh"));
  return absl::StrCat(
      "  case $flag in ", absl::StrJoin(switches, "|"), ") flag= ;; esac\n",
      values, "  esac\n  if [[ -z $flag && $word == -* ]]; then\n", flags,
      "  esac\n  elif [[ -z $flag ]]; then\n", words, "  esac\n  fi");
}

}  // namespace

std::string BashCompletion(const std::vector<CommandHelp>& commands) {
  return absl::StrReplaceAll(kBash, {{"@tables@", Tables(commands)}});
}

std::string ZshCompletion(const std::vector<CommandHelp>& commands) {
  return absl::StrReplaceAll(kZsh, {{"@tables@", Tables(commands)}});
}

}  // namespace paramd
