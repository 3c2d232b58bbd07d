"""A worker of functions over NumPy arrays; JAX's fit as they are."""

import operator
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from paramd import _job
from paramd._errors import InvalidArgument
from paramd._session import Session, Variable, Work
from paramd.data import Shards, Stream

Arrays = Dict[str, np.ndarray]
# Of weights, and numbers of examples or a list of them.
GradientFunction = Callable[[Arrays, Any], Tuple[float, Mapping[str, Any]]]
EvaluateFunction = Callable[[Arrays, np.ndarray], Any]


def _type_of(value: Any) -> str:
    dtype = np.asarray(value).dtype
    return "float64" if dtype.kind in "iub" else dtype.name


class Worker:
    """Trains variables by a function that computes gradients.

        def gradient(weights, indices):
            error = x[indices] @ weights["w"] - y[indices]
            return (error ** 2).mean(), {"w": 2 * x[indices].T @ error / len(error)}

        worker = paramd.Worker({"w": np.zeros(3)}, gradient, examples=len(x),
                               optimizer={"sgd": {}, "learning_rate": 0.1},
                               batch_size=32, epochs=5)
        weights = worker.train()

    Which task of which cluster this is TF_CONFIG says; without it servers, chief
    and worker are all in this process.

    Args:
      variables: name to initial values, of any shape; they are held as float32.
        The chief's count.
      gradient_function: of (weights by name, int64 numbers of examples): the mean
        loss of these examples, and its gradients by name. A variable that is left
        out gets a gradient of zeros. The weights are the function's to keep.
      examples: how many there are to train on. Or paramd.Shards or paramd.Stream:
        then gradient_function gets a list of examples in place of their numbers.
      evaluate: of the same arguments, over numbers of the test data: the mean
        loss, or (mean loss, number of labels that were met).
      test_examples: how many there are to evaluate on.
      job: a job file's path, or its content; settings beat it.
      insecure, tls_dir: as the flags of `paramd run`.
      settings: settings of the job file: optimizer, batch_size, epochs, staleness,
        checkpoint, run_dir and so on.

    Attributes:
      weights: by name; those of the run's newest checkpoint if it goes on, then
        those of the last batch, at the end the trained ones.

    Raises paramd.InvalidArgument with every mistake, one a line.
    """

    def __init__(self, variables: Mapping[str, Any],
                 gradient_function: GradientFunction, *,
                 examples: Union[int, Shards, Stream],
                 evaluate: Optional[EvaluateFunction] = None,
                 test_examples: int = 0, job: _job.Job = None,
                 insecure: bool = False, tls_dir: Optional[str] = None,
                 **settings: Any):
        self._gradient = gradient_function
        self._evaluate = evaluate
        self._names = list(variables)
        # A copy of the initial values, so that what train returns without a
        # single step is a value too.
        values = [Variable(name, np.array(value, np.float32),
                           computed_in=_type_of(value))
                  for name, value in variables.items()]
        self.weights: Arrays = {v.name: v.initial for v in values}
        content = _job.read(job, settings)
        self._source = examples if isinstance(examples, (Shards, Stream)) else None
        if self._source is not None:
            self._source.settings(content)
        self._session = Session(
            content, values,
            examples=(examples.examples if isinstance(examples, (Shards, Stream))
                      else operator.index(examples)),
            test_examples=test_examples if evaluate else 0, insecure=insecure,
            tls_dir=tls_dir)
        saved = self._session.saved()
        if saved is not None:
            saved.say_if_over()
            self._take(saved.weights)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def train(self) -> Arrays:
        """Trains until the job has finished; the weights of its last checkpoint, by
        name, which are the same in all workers. A worker that can't read it, on a
        machine without run_dir, warns and returns those that it saw last, or raises
        Error if it saw none."""
        with self, self._session.exclusively():
            while True:
                work = self._session.next()
                if work is None:
                    self._take(self._session.trained())
                    return self.weights
                self._do(work)

    def set(self, *, learning_rate_scale: float) -> None:
        """Every learning rate is multiplied by so much from now on, until it is set
        again; a run that goes on keeps it. The chief's alone; gradients that are on
        their way may be applied with the rate before. Nothing once the job is over.
        Error in another worker, InvalidArgument for what is no number from 0 to
        1000000, Unavailable if not all servers have it within a minute."""
        self._session.set_rate_scale(learning_rate_scale)

    def close(self) -> bool:
        """Leaves the job; whether it had finished."""
        return self._session.close()

    def _take(self, weights: Optional[Sequence[np.ndarray]]) -> None:
        if weights is not None:
            self.weights = dict(zip(self._names, weights))

    def _do(self, work: Work) -> None:
        # Copies: the function may keep them, and write to them, while the worker's
        # memory is pulled into. So may what makes arrays of them without a copy.
        weights = {name: value.copy() for name, value
                   in zip(self._names, work.weights)}
        if not work.is_step:
            assert self._evaluate is not None
            said = self._evaluate(weights, work.indices)
            if isinstance(said, tuple):
                self._session.finish(float(said[0]), int(said[1]),
                                     len(work.indices))
            else:
                self._session.finish(float(said))
            return
        self.weights = dict(weights)
        loss, gradients = self._gradient(
            weights, work.indices if self._source is None
            else self._source.read(work.epoch, work.indices))
        for name in gradients:
            if name not in self.weights:
                raise InvalidArgument(
                    f"the gradient function returned a gradient of '{name}', which is "
                    f"no variable; those are {', '.join(self._names)}")
        for name, into in zip(self._names, work.gradients):
            gradient = gradients.get(name)
            if gradient is None:
                into.fill(0)
                continue
            gradient = np.asarray(gradient)
            if gradient.shape != into.shape:
                raise InvalidArgument(
                    f"the gradient of '{name}' is {gradient.shape}; the variable is "
                    f"{into.shape}")
            np.multiply(gradient, work.scale, out=into, casting="unsafe")
        self._session.finish(float(loss))
