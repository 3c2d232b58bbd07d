"""Reads paths of files, a line each; prints Bazel's labels of them, a line each.

Of a BUILD file that is all targets of its package, and of what the whole build
reads, everything. A file that is gone counts for its package.
"""

import pathlib
import sys

_EVERYTHING = (".bazelrc", "WORKSPACE", "third_party/")


def label_of(path, root):
    """The label of a file given by its path below `root`; None if it is in no
    package."""
    if path.startswith(_EVERYTHING):
        return "//..."
    package = (root / path).parent
    while not (package / "BUILD").exists():
        if package == root:
            return None
        package = package.parent
    name = (root / path).relative_to(package).as_posix()
    if name == "BUILD" or not (root / path).exists():
        name = "all"
    folder = package.relative_to(root).as_posix()
    return f"//{'' if folder == '.' else folder}:{name}"


def main():
    root = pathlib.Path.cwd()
    labels = {label_of(line.strip(), root) for line in sys.stdin}
    print("\n".join(sorted(labels - {None})))


if __name__ == "__main__":
    main()
