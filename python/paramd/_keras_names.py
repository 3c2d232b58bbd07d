"""What Keras's variables are called in a job."""

from typing import Any, Iterator, Sequence, Tuple


def named(model: Any, variables: Sequence[Any]) -> Iterator[Tuple[str, Any]]:
    """Without the model's own name, which counts models of a process."""
    for variable in variables:
        yield variable.path[len(model.name) + 1:] if variable.path.startswith(
            f"{model.name}/") else variable.path, variable
