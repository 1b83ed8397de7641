"""The number of environments by arguments and by output."""

import pytest

from gmg_tui.scripts.env_count import from_arguments
from gmg_tui.scripts.genesis.output.reader import Reader


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (("-B", "4096"), 4096),
        (("--num_envs", "8_192", "-e", "run"), 8192),
        (("--n-envs=64",), 64),
        (("-B64",), 64),
        (("--env.scene.num-envs", "512"), 512),
        (("task=go2", "env.num_envs=2048"), 2048),
        (("--eval_num_envs", "16", "--num_envs", "4096"), 4096),
        (("eval.num_envs=16",), None),
        (("-B", "{n}"), None),
        (("--num_envs_to_draw", "5"), None),
    ],
)
def test_the_number_of_environments_is_read_from_arguments_of_known_scripts(
    args: tuple[str, ...], count: int | None
) -> None:
    assert from_arguments(args) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("num_envs: 4096", 4096),
        ("{'num_envs': 512, 'seed': 1}", 512),
        ("Namespace(exp_name='go2', num_envs=64, n_envs_max=3)", 64),
        ("max_num_envs_seen 4", None),
    ],
)
def test_the_number_of_environments_is_read_from_a_printed_configuration(line: str, count: int | None) -> None:
    reader = Reader(gpu_slot=False, started=0.0)
    reader.feed(f"{line}\n".encode(), 1.0)
    assert reader.n_envs == count
