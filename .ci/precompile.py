"""Precompiles the headers that most sources include, for one configuration.

Usage: bazel aquery --output=jsonproto 'mnemonic("CppCompile", LABELS)' |
       precompile.py FOLDER, where LABELS are one library and one test.

Writes FOLDER/library.h.gch and FOLDER/test.h.gch with the options of these two
compilations, and the headers themselves beside them: a compilation with other
options, for which gcc refuses the precompiled one, reads those.
"""

import json
import pathlib
import subprocess
import sys

_LIBRARY = """
<algorithm> <array> <chrono> <cstdint> <cstring> <functional> <map> <memory>
<optional> <string> <tuple> <utility> <variant> <vector>
"absl/container/flat_hash_map.h" "absl/container/flat_hash_set.h"
"absl/status/status.h" "absl/status/statusor.h" "absl/strings/cord.h"
"absl/strings/str_cat.h" "absl/time/time.h" "absl/types/optional.h"
"absl/types/span.h"
<google/protobuf/extension_set.h> <google/protobuf/generated_enum_reflection.h>
<google/protobuf/generated_message_reflection.h>
<google/protobuf/generated_message_util.h> <google/protobuf/map.h>
<google/protobuf/map_entry.h> <google/protobuf/map_field_inl.h>
<google/protobuf/message.h> <google/protobuf/repeated_field.h>
<google/protobuf/unknown_field_set.h>
""".split()
_TEST = ["<gmock/gmock.h>", "<gtest/gtest.h>", "<sstream>", "<thread>"]


def _without(arguments, *options):
    """The arguments without these options and the value that follows each."""
    kept = []
    rest = iter(arguments)
    for argument in rest:
        if argument in options:
            next(rest)
        else:
            kept.append(argument)
    return kept


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    compilers = []
    for action in json.load(sys.stdin)["actions"]:
        arguments = action["arguments"]
        is_test = arguments[arguments.index("-c") + 1].endswith("_test.cc")
        header = folder / ("test.h" if is_test else "library.h")
        headers = _LIBRARY + (_TEST if is_test else [])
        header.write_text("".join(f"#include {name}\n" for name in headers))
        options = _without(arguments, "-c", "-o", "-MF")
        options.remove("-MD")
        compilers.append(subprocess.Popen(
            options + ["-x", "c++-header", header, "-o", f"{header}.gch"]))
    codes = [compiler.wait() for compiler in compilers]
    return 0 if codes == [0, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
