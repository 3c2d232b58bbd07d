"""Precompiles the headers that most sources include, for one configuration.

Usage: bazel aquery --output=jsonproto 'mnemonic("CppCompile", LABELS)' |
       precompile.py FOLDER EXECUTION_ROOT, where LABELS are one library and one test,
       and Bazel has built the messages of proto/ for that configuration.

Prints the paths of library.h, messages.h and test.h, each in a folder of its own below
FOLDER that is named after the compilation. There lies the header itself, and beside it
HEADER.gch with the options of that compilation. A compilation with other options,
for which gcc refuses the precompiled one, reads the header.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

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
_MESSAGES = sorted(f"proto/paramd/v1/{path.stem}.pb.h" for path in
                   pathlib.Path("proto/paramd/v1").glob("*.proto"))


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


def _text(headers, messages):
    """A header that includes these, and the messages that its reader may read."""
    return "".join(f"#include {name}\n" for name in headers) + "".join(
        f'#if __has_include("{name}")\n#include "{name}"\n#endif\n'
        for name in messages)


def _compilations(actions):
    """{name of the header: (its text, the command that precompiles it)}."""
    compilations = {}
    for action in actions:
        arguments = action["arguments"]
        is_test = arguments[arguments.index("-c") + 1].endswith("_test.cc")
        options = _without(arguments, "-c", "-o", "-MF")
        options = [o for o in options
                   if o != "-MD" and not o.startswith("-frandom-seed")]
        options += ["-x", "c++-header"]
        if is_test:
            compilations["test.h"] = _text(_LIBRARY + _TEST, _MESSAGES), options
        else:
            compilations["library.h"] = _text(_LIBRARY, []), options
            compilations["messages.h"] = _text(_LIBRARY, _MESSAGES), options
    return compilations


def _read(name, root, command):
    """What a compilation in `root` finds as this header; empty if nothing."""
    for option, folder in zip(command, command[1:]):
        if option == "-iquote" and (root / folder / name).exists():
            return (root / folder / name).read_bytes()
    return b""


def _precompile(folder, root, header, text, command):
    """Makes folder/NAME/header and its .gch, unless they are there; returns the
    header's path."""
    digest = hashlib.sha256(repr((text, command)).encode())
    for name in _MESSAGES:
        if name in text:
            digest.update(_read(name, root, command))
    made = folder / digest.hexdigest()[:16]
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        making = pathlib.Path(tempfile.mkdtemp(dir=folder))
        (making / header).write_text(text)
        subprocess.run(
            command + [making / header, "-o", making / f"{header}.gch"],
            cwd=root, check=True)
        try:
            making.rename(made)
        except OSError:  # Another run was quicker.
            if not made.exists():
                raise
    return made / header


def main():
    folder, root = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    compilations = _compilations(json.load(sys.stdin)["actions"])
    for header, (text, command) in sorted(compilations.items()):
        print(_precompile(folder, root, header, text, command))


if __name__ == "__main__":
    main()
