"""The program paramd that the wheel brings: `paramd`, or `python -m paramd`."""

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the program, which has this process's number and signals."""
    path = pathlib.Path(__file__).with_name("paramd")
    if not path.exists():
        sys.exit(f"paramd: '{path}' is not there: install the wheel, or build "
                 "//cli:paramd and call that")
    name = sys.argv[0] if not sys.argv[0].endswith("__main__.py") else str(path)
    os.execv(path, [name, *sys.argv[1:]])


if __name__ == "__main__":
    main()
