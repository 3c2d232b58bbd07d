"""The cluster that TF_CONFIG describes."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from paramd._errors import InvalidArgument


class TFConfig(NamedTuple):
    """A cluster, and which of its tasks this process is.

    Attributes:
      cluster: addresses by job: {"ps": [...], "chief": [...], "worker": [...]}; where
        they are, "stage" and "evaluator" too.
      task_type: "chief", "worker", "ps", "stage" or "evaluator"; None without a task.
      task_index: within the job; 0 without a task.
    """
    cluster: Dict[str, List[str]]
    task_type: Optional[str] = None
    task_index: int = 0

    @classmethod
    def from_environment(cls) -> "TFConfig":
        """What the environment variable says; an empty cluster without it."""
        text = os.environ.get("TF_CONFIG", "").strip()
        if not text:
            return cls({})
        try:
            config: Dict[str, Any] = json.loads(text)
            task = config.get("task") or {}
            return cls(dict(config.get("cluster") or {}), task.get("type"),
                       int(task.get("index", 0)))
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidArgument(f"TF_CONFIG: {error}") from error

    def to_json(self) -> str:
        """As the environment variable has it."""
        return json.dumps({"cluster": self.cluster,
                           "task": {"type": self.task_type,
                                    "index": self.task_index}})
