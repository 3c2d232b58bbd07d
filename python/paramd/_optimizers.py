"""The optimizers of a job under PyTorch's names, with PyTorch's defaults."""

from typing import Any, Dict, Mapping, NamedTuple


class _Defaults(NamedTuple):
    """What PyTorch's optimizer does where nothing is said, in a job's words."""
    own: Mapping[str, Any]  # Of what stands under its name.
    beside: Mapping[str, Any]  # Of what stands beside it.


# The job file's are those of TensorFlow where the two differ: Adam's epsilon, and that
# weight decay does not go through the rule.
DEFAULTS: Dict[str, _Defaults] = {
    "sgd": _Defaults({"momentum": 0, "nesterov": False},
                     {"learning_rate": 1e-3, "decay": "l2"}),
    "adam": _Defaults({"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
                      {"learning_rate": 1e-3, "decay": "l2"}),
    "adamw": _Defaults({"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                        "weight_decay": 0.01}, {"learning_rate": 1e-3}),
    "adagrad": _Defaults({"initial_accumulator": 0, "epsilon": 1e-10},
                         {"learning_rate": 1e-2, "decay": "l2"}),
    "adadelta": _Defaults({"rho": 0.9, "epsilon": 1e-6},
                          {"learning_rate": 1.0, "decay": "l2"}),
    "rmsprop": _Defaults({"decay": 0.99, "epsilon": 1e-8, "momentum": 0,
                          "centered": False},
                         {"learning_rate": 1e-2, "decay": "l2"}),
}


def with_defaults(optimizer: Any) -> Any:
    """The optimizer as a job file has it, with PyTorch's defaults of its name for
    what it does not say. Anything else is as it was: what is wrong with it the job
    says."""
    if not isinstance(optimizer, Mapping):
        return optimizer
    named = [name for name in DEFAULTS if name in optimizer]
    if len(named) != 1 or not isinstance(optimizer[named[0]], Mapping):
        return optimizer
    defaults = DEFAULTS[named[0]]
    return {**defaults.beside, **optimizer,
            named[0]: {**defaults.own, **optimizer[named[0]]}}
