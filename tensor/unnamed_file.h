#ifndef PARAMD_TENSOR_UNNAMED_FILE_H_
#define PARAMD_TENSOR_UNNAMED_FILE_H_

#include <string>

namespace paramd {

// Opens a file in the directory, to read and to write, that has no name: it
// goes with the process, however that ends. -1, and errno, where none can be.
int OpenUnnamedFile(const std::string& directory);

}  // namespace paramd

#endif  // PARAMD_TENSOR_UNNAMED_FILE_H_
