"""How often a worker is restarted automatically."""

from __future__ import annotations

from gmg_tui.engine.attempts.task import Task
from gmg_tui.engine.workers.restart_policy import HEALTHY_S, RestartPolicy
from gmg_tui.genesis.output.failures import Failure, FailureKind
from gmg_tui.model import RestartMode
from tests.engine.harness import spec_for

_FAILURE = Failure(FailureKind.SCRIPT, "ValueError: no such robot", "")


def _follows(policy: RestartPolicy, running_s: float = 1.0) -> bool:
    """Whether another attempt follows one that has failed."""
    policy.after(_FAILURE, had_progress=True, running_s=running_s)
    follows = policy.pending
    policy.cancel_backoff()
    return follows


async def test_restarts_are_limited_until_an_attempt_was_healthy_or_the_user_restarts() -> None:
    spec = spec_for(restart=RestartMode.FAILURE, max_restarts=2)
    policy = RestartPolicy(Task.replicated(spec, 0, 1))
    await policy.wait()
    assert [_follows(policy) for _ in range(4)] == [True, True, False, False]
    assert [_follows(policy, HEALTHY_S), _follows(policy), _follows(policy)] == [True, True, False]
    policy.now()
    await policy.wait()
    assert [_follows(policy) for _ in range(3)] == [True, True, False]
