"""What Keras's variables are called in a job."""

from typing import Any, Iterator, Sequence, Tuple

from paramd import _errors


def named(model: Any, variables: Sequence[Any]) -> Iterator[Tuple[str, Any]]:
    """Without the model's own name, which counts models of a process."""
    for variable in variables:
        yield variable.path[len(model.name) + 1:] if variable.path.startswith(
            f"{model.name}/") else variable.path, variable


def refuse_constraints(model: Any) -> None:
    """InvalidArgument for what Keras's optimizer would apply after each step."""
    for name, variable in named(model, model.trainable_variables):
        if getattr(variable, "constraint", None) is not None:
            raise _errors.InvalidArgument(
                f"'{name}' has the constraint {type(variable.constraint).__name__}, "
                "which the servers' optimizer does not apply: leave it out, or have "
                "the layer's call apply it to the weight")
