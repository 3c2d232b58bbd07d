#ifndef PARAMD_CONFIG_SETTING_READER_H_
#define PARAMD_CONFIG_SETTING_READER_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "config/json_value.h"
#include "config/mistakes.h"
#include "proto/paramd/v1/setting.pb.h"

namespace paramd {

// Where each value came from, by its path ("model.layers[1].dense.units").
// The whole is "".
using Origins = std::map<std::string, Place>;

// The place of the value at `path`, or of the nearest one around it; "job" if
// there is none.
Place OriginOf(const Origins& origins, const std::string& path);

// From what kind of source a value of Origins came.
enum class OriginKind { kDefault, kFile, kEnvironment, kFlag };
OriginKind KindOf(const Place& origin);
// "default", "file", "environment", "flag".
absl::string_view OriginKindName(OriginKind kind);

// Fills messages from JSON, walking their descriptors: names, types, bounds,
// shorthands and defaults all come from the field options (setting.proto).
// A value that is wrong is added to `mistakes` and left out; reading goes on.
//
// Not thread-safe; keeps references to `origins` and `mistakes`.
class SettingReader {
 public:
  SettingReader(Origins* origins, Mistakes* mistakes)
      : origins_(*origins), mistakes_(*mistakes) {}

  // Reads the members of `value` into `message`, which stands at `path`.
  void ReadMessage(const JsonValue& value, const JsonSource& source,
                   const std::string& path, google::protobuf::Message* message);

  // Replaces the setting at `path` below `root` by `text`: JSON, or else a
  // string as it stands. List elements that exist are named by their index,
  // "model.layers.1.dense" or "model.layers[1].dense".
  void Assign(absl::string_view path, absl::string_view text,
              const JsonSource& source, google::protobuf::Message* root);

  // Sets what was not given to its default, all the way down; adds a mistake
  // for every required setting that is missing. What it is required unless of
  // is looked up in `message`, which is the whole job.
  void FillDefaults(google::protobuf::Message* message);
  // The same of the message at `path`, where nothing is required unless of
  // something else.
  void FillDefaultsAt(const std::string& path,
                      google::protobuf::Message* message);

  Place PlaceOf(const std::string& path) const {
    return OriginOf(origins_, path);
  }

 private:
  using Field = google::protobuf::FieldDescriptor;
  using Message = google::protobuf::Message;

  void Fault(const JsonValue& value, const JsonSource& source,
             const std::string& path, absl::string_view sentence);
  void ReadMember(const JsonMember& member, const JsonSource& source,
                  const std::string& path, Message* message);
  // Replaces the field's content.
  void ReadField(const JsonValue& value, const JsonSource& source,
                 const std::string& path, const Field& field, Message* parent);
  // Sets the field, or adds an element to a list. One that is wrong is added
  // if it is a message, else not.
  void ReadSingle(const JsonValue& value, const JsonSource& source,
                  const std::string& path, const Field& field, Message* parent);
  void ReadList(const JsonValue& value, const JsonSource& source,
                const std::string& path, const Field& field, Message* parent);
  // True if `value` is a shorthand and was read as one, rightly or not.
  bool ReadShorthand(const JsonValue& value, const JsonSource& source,
                     const std::string& path, Message* message);
  void ReadNumber(const JsonValue& value, const JsonSource& source,
                  const std::string& path, const Field& field, Message* parent);
  void ReadEnum(const JsonValue& value, const JsonSource& source,
                const std::string& path, const Field& field, Message* parent);
  void FillField(const std::string& path, const Field& field, Message* parent);
  // Whether a required setting, which stands at `at`, may be missing after all.
  bool IsExcused(const v1::SettingOptions& setting, absl::string_view at) const;
  bool Excuses(absl::string_view path) const;
  bool WasGiven(const std::string& path) const;
  void CheckAlternatives(const std::string& path, const Message& message);
  // Steps from `message` into its field or list element. Null, with a mistake
  // added, if there is none.
  Message* Enter(const Field& field, absl::string_view index,
                 const JsonSource& source, std::string* path, Message* message);
  // The element of a list that `index` means; -1, with a mistake added, if
  // there is none.
  int FindElement(const Field& field, absl::string_view index,
                  const JsonSource& source, const std::string& path,
                  const Message& message);
  // Replaces an element of a list of single values.
  void AssignElement(absl::string_view text, absl::string_view index,
                     const JsonSource& source, const std::string& path,
                     const Field& field, Message* message);
  void ForgetInside(const std::string& path);

  Origins& origins_;
  Mistakes& mistakes_;
  const Message* filled_ = nullptr;  // In FillDefaults: the whole job.
};

// "a.b"; "b" if `path` is empty.
std::string JoinPath(absl::string_view path, absl::string_view key);

}  // namespace paramd

#endif  // PARAMD_CONFIG_SETTING_READER_H_
