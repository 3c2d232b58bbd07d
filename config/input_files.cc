#include "config/input_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "config/json_value.h"
#include "config/setting.h"

namespace paramd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr absl::string_view kCompressed = ".gz";

bool IsReadable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

std::string PathIn(absl::string_view directory, absl::string_view name) {
  if (absl::StartsWith(name, "/")) return std::string(name);
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/",
                      name);
}

// The same file with or without compression.
std::string Twin(const std::string& name) {
  return absl::EndsWith(name, kCompressed)
             ? std::string(absl::StripSuffix(name, kCompressed))
             : absl::StrCat(name, kCompressed);
}

// Checks the settings of one message that has a directory.
class Checker {
 public:
  Checker(const Message& message, const std::string& path,
          const Origins& origins, Mistakes* mistakes)
      : message_(message),
        path_(path),
        origins_(origins),
        mistakes_(*mistakes) {}

  void Check(const FieldDescriptor& directory) {
    const std::string name = Text(directory);
    directory_place_ = OriginOf(origins_, JoinPath(path_, directory.name()));
    // Already reported.
    if (name.empty() || mistakes_.HasUnder(JoinPath(path_, directory.name()))) {
      return;
    }
    struct stat status;
    if (stat(name.c_str(), &status) != 0) {
      Add(directory, absl::StrCat("there is no directory \"", Excerpt(name),
                                  "\": ", strerror(errno)));
    } else if (!S_ISDIR(status.st_mode)) {
      Add(directory, absl::StrCat("\"", Excerpt(name), "\" is no directory"));
    } else {
      CheckFiles(name);
    }
  }

 private:
  void CheckFiles(const std::string& directory) {
    const google::protobuf::Descriptor& type = *message_.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (SettingOf(field).reads() != v1::READS_FILE) continue;
      const std::string name = Text(field);
      const std::string path = PathIn(directory, name);
      if (name.empty() || IsReadable(path)) continue;
      const int why = errno;
      const std::string twin = Twin(name);
      Add(field,
          IsReadable(PathIn(directory, twin))
              ? absl::StrCat("there is no file \"", path, "\", but \"", twin,
                             "\" lies there; name that one")
              : absl::StrCat("can't read \"", path, "\": ", strerror(why)));
    }
  }

  std::string Text(const FieldDescriptor& field) const {
    return message_.GetReflection()->GetString(message_, &field);
  }

  // What is wrong with a default stands where the directory was given.
  void Add(const FieldDescriptor& field, absl::string_view sentence) {
    const std::string path = JoinPath(path_, field.name());
    Place place = OriginOf(origins_, path);
    if (KindOf(place) == OriginKind::kDefault) place = directory_place_;
    mistakes_.Add(place, path, sentence);
  }

  const Message& message_;
  const std::string path_;
  const Origins& origins_;
  Mistakes& mistakes_;
  Place directory_place_;
};

void CheckUnder(const Message& message, const std::string& path,
                const Origins& origins, Mistakes* mistakes) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (SettingOf(field).reads() == v1::READS_DIRECTORY) {
      Checker(message, path, origins, mistakes).Check(field);
    } else if (field.message_type() == nullptr) {
      continue;
    } else if (field.is_repeated()) {
      for (int j = 0; j < reflection.FieldSize(message, &field); ++j) {
        CheckUnder(reflection.GetRepeatedMessage(message, &field, j),
                   absl::StrCat(JoinPath(path, field.name()), "[", j, "]"),
                   origins, mistakes);
      }
    } else if (reflection.HasField(message, &field)) {
      CheckUnder(reflection.GetMessage(message, &field),
                 JoinPath(path, field.name()), origins, mistakes);
    }
  }
}

}  // namespace

void CheckInputFiles(const Message& message, const Origins& origins,
                     Mistakes* mistakes) {
  CheckUnder(message, "", origins, mistakes);
}

}  // namespace paramd
