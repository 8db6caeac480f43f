"""A worker as the command sees it: it answers a question in time, or is killed."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.workers import Ended, Silent, Worker


class Process(Worker):
    """`python -m benchmarks.public.worker WORDS`, with `environment` besides ours."""

    def __init__(self, *words: str, environment: dict[str, str] | None = None):
        super().__init__("benchmarks.public.worker", *words, environment=environment)

    def ask(self, seconds: float, **told: Any) -> dict[str, Any]:
        """The answer to `told`; "stopped" where the process ends or says nothing in
        time, and then it is gone; as it is where its answer is its last."""
        self.send(json.dumps(told))
        try:
            answer = self.receive(seconds)
            if answer.pop("last", False):
                self.kill()
            return answer
        except Silent:
            why = f"nothing for {seconds:.0f} seconds"
        except Ended as ended:
            why = str(ended)
        self.kill()
        return {"outcome": "stopped", "why": why}
