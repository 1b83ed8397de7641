"""What earlier tunings of a script have recommended."""

from msgspec import structs

from gmg_tui.engine.speed import program_of, tuned_envs
from tests import tunings
from tests.results.report import stored


async def test_the_newest_tuning_of_the_same_script_and_gpu_counts() -> None:
    made = tunings.session(tunings.ENDED)
    gpu, program = made.slots[0].gpu, program_of(made.spec)
    assert tuned_envs(program, gpu.name) is None
    spec = {name: getattr(made.spec, name) for name in ("script", "cwd", "tune")}
    answer = tunings.ENDED.answer
    older = structs.replace(tunings.ENDED, answer=structs.replace(answer, recommended=tunings.best(64)))
    for name, tuning, started in (("old", older, 1.0), ("new", tunings.ENDED, 2.0)):
        about = {"slots": made.slots}
        await stored.session(
            name, stored.jobs(1), spec=spec, about=about, started=started, snapshot=tunings.snapshot(tuning)
        )
    tuned_envs.cache_clear()
    assert tuned_envs(program, gpu.name) == answer.recommended.value
    assert tuned_envs(program, "another GPU") is None
    assert tuned_envs((False, "/home/me/sim/other.py"), gpu.name) is None
