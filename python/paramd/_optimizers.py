"""The optimizers of a job under PyTorch's names, with PyTorch's defaults."""

from typing import Any, Dict, Mapping, NamedTuple, Optional


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


def _named(settings: Any) -> Optional[str]:
    """The one optimizer that is named there, by a name of the table."""
    if not isinstance(settings, Mapping):
        return None
    named = [name for name in DEFAULTS if name in settings]
    if len(named) != 1 or not isinstance(settings[named[0]], Mapping):
        return None
    return named[0]


def _with_own(settings: Any, name: str) -> Dict[str, Any]:
    return {**settings, name: {**DEFAULTS[name].own, **settings[name]}}


def _group(group: Any) -> Any:
    """With the defaults of an optimizer that it names, its learning rate and weight
    decay among them: those of the job are another optimizer's."""
    name = _named(group)
    if name is None:
        return group
    defaults = DEFAULTS[name]
    beside = {"learning_rate": defaults.beside["learning_rate"]}
    if "weight_decay" not in defaults.own:
        beside["weight_decay"] = 0
    # A constant that stands beside the optimizer's name is given once.
    own = {key: value for key, value in defaults.own.items() if key not in group}
    return {**beside, **group, name: {**own, **group[name]}}


def with_defaults(optimizer: Any) -> Any:
    """The optimizer as a job file has it, with PyTorch's defaults of its name, and of
    those that its groups name, for what it does not say. Anything else is as it was:
    what is wrong with it the job says."""
    name = _named(optimizer)
    found = optimizer
    if name is not None:
        found = {**DEFAULTS[name].beside, **_with_own(optimizer, name)}
    groups = found.get("groups") if isinstance(found, Mapping) else None
    if not isinstance(groups, (list, tuple)) or not any(map(_named, groups)):
        return found
    # Where the job's own is not of the table, or is adamw, nothing above said so.
    return {"decay": "l2", **found, "groups": [_group(group) for group in groups]}
