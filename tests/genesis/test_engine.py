"""The light example through the engine: a stop saves its kernels, an edit restarts it with more environments."""

import pytest

from gmg_tui.model import WorkerState
from gmg_tui.session.protocol import Action
from tests.engine.harness import running, spec_for

pytestmark = [pytest.mark.genesis, pytest.mark.timeout(900)]


async def test_a_stopped_worker_saves_its_kernels_and_restarts_with_more_environments(light: str) -> None:
    spec = spec_for("-B", "4", "--steps", "10000000", cpu=1, script=light, sigint_wait_s=60.0)
    async with running(spec) as run:
        await run.until(lambda _: run.worker("cpu0").fps is not None, timeout_s=800)
        await run.client.edit(("cpu0",), ("-B", "32", "--steps", "10000000"), {})
        await run.until(lambda _: run.worker("cpu0").newest.n_envs == 32, timeout_s=800)
        assert b"Exiting Genesis and caching compiled kernels" in run.output("cpu0")
        await run.client.act(Action.STOP, "cpu0")
        stopped = await run.until(lambda _: run.worker("cpu0").state is WorkerState.STOPPED)
        assert stopped.workers[0].reason is None
