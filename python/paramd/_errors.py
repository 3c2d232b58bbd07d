"""What can go wrong, one class for each thing a program may do about it."""

import re


class Error(Exception):
    """The job can't go on as asked; the sentence says why and what to do.

    Attributes:
      code: the number of gRPC's status code, 0 where there is none.
    """

    def __init__(self, message: str, code: int = 0):
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """The job, the model or the data is wrong. Starting again is no help."""


class NotFinite(InvalidArgument):
    """The loss or a gradient is NaN or infinite. Nothing of the batch was pushed,
    and it is still to be computed: step again, skip it, or leave."""


class PartlyPushed(Error):
    """A part of the batch's gradients was pushed when the rest turned out not to be
    finite, or when the program wanted to compute the batch again. This worker has
    left the job, and the batch is handed out again: start the program again, after
    mending what gave such gradients."""


class Unavailable(Error):
    """Something was lost that may come back: start the program again, and the
    job goes on where it was."""


class Cancelled(Error):
    """This worker has left the job, or was told to."""


class JobStopped(Cancelled, SystemExit):
    """An operator has stopped the job (`paramd stop`). It has neither failed nor
    finished: the sentence names the checkpoint from which a later start goes on.

    A program that doesn't catch it ends with exit code 0, as every process of a
    stopped job does, so that nothing starts it again."""

    code: int  # Of an Error, and of a SystemExit, which takes others too.

    def __init__(self, message: str):
        super().__init__(message, 0)


_CLASSES = {1: Cancelled, 3: InvalidArgument, 4: Unavailable, 5: InvalidArgument,
            6: InvalidArgument, 10: Unavailable, 14: Unavailable}


_STOPPED = re.compile(r"stopped (at once )?by an operator\b")

# A flag of the command line, which stands in no command.
_FLAG = re.compile(r"(?<![\w`-])--([a-z][a-z_]*)\b")
_SWITCHES = ("insecure",)


def in_python(sentence: str) -> str:
    """What paramd says of its flags, about the arguments that Python gives in their
    place: --run_dir is run_dir=. Commands, in backticks, stay."""
    def argument(flag: "re.Match[str]") -> str:
        return flag[1] + ("=True" if flag[1] in _SWITCHES else "=")

    parts = sentence.split("`")
    parts[::2] = [_FLAG.sub(argument, part) for part in parts[::2]]
    return "`".join(parts)


def make(code: int, message: str) -> Error:
    """The exception for a status code of paramd.h."""
    message = in_python(message)
    if code == 3 and message.endswith("nothing of this batch was pushed"):
        return NotFinite(message, code)
    if code == 1 and _STOPPED.match(message):
        return JobStopped(message)
    return _CLASSES.get(code, Error)(message, code)
