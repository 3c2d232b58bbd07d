#ifndef PARAMD_CONFIG_SETTINGS_HELP_H_
#define PARAMD_CONFIG_SETTINGS_HELP_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {

// What people are told about one setting, all of it from its field's options.
struct SettingHelp {
  std::string path;  // "optimizer.learning_rate", "model.layers[].dense.units"
  // What its value may be: "whole number", "number", "text", "one of a, b",
  // "object", "list", "list of whole numbers".
  std::string type;
  std::string bounds;  // "at least 1, at most 100"; may be empty
  std::string sentence;
  std::string default_json;  // empty: none
  std::string example_json;
  bool is_required = false;
  std::string required_unless;  // Empty: always.
  bool is_local = false;        // each process may have its own
  bool may_change = false;      // a run may go on with another value
  bool is_alternative = false;  // one of several that exclude each other
  bool is_inside_list = false;
  // Of a list whose elements are described elsewhere, as those of a list inside
  // one of the same type: where, "model.layers[]". Else empty.
  std::string described_at;
  const google::protobuf::FieldDescriptor* field = nullptr;

  // How it is given on the command line: "--epochs", "--set
  // optimizer.learning_rate". Inside a list I stands for the index.
  std::string flag() const;
  // "PARAMD_EPOCHS"; empty inside a list.
  std::string variable() const;
};

// All settings of the job, in the order of its fields: an object or a list
// before what it holds. What several lists hold, or what holds itself, is
// described once.
std::vector<SettingHelp> SettingsHelp(
    const google::protobuf::Descriptor& job = *v1::JobConfig::descriptor());

// For --help: one line for each setting that is a value or a list of them, the
// flags of the top level first, then what --set reaches. Ends with a line
// break.
std::string SettingsHelpText();

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTINGS_HELP_H_
