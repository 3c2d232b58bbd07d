#include "checkpoint/initial_values.h"

#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/safetensors.h"

namespace paramd {

absl::StatusOr<std::string> WriteInitialValues(
    const std::string& directory, absl::Span<const v1::Variable> variables,
    absl::Span<const std::vector<float>> values) {
  std::vector<TensorInfo> tensors;
  uint64_t end = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    const uint64_t begin = end;
    end += values[v].size() * sizeof(float);
    tensors.push_back(
        {variables[v].name(),
         "F32",
         {variables[v].shape().begin(), variables[v].shape().end()},
         begin,
         end});
  }
  ASSIGN_OR_RETURN(const std::string header, EncodeSafetensorsHeader(tensors));
  RETURN_IF_ERROR(MakeDirectories(directory));
  ASSIGN_OR_RETURN(const std::string root, AbsolutePath(directory));
  const std::string path = absl::StrCat(root, "/", kInitialValuesFile);
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));  // Of a process that was killed.
  ASSIGN_OR_RETURN(auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(header));
  for (const std::vector<float>& value : values) {
    RETURN_IF_ERROR(file->Append(
        absl::MakeSpan(reinterpret_cast<const std::byte*>(value.data()),
                       value.size() * sizeof(float))));
  }
  RETURN_IF_ERROR(file->FinishAs(path));
  return path;
}

}  // namespace paramd
