"""The saved files that scripts print."""

import pytest

from gmg_tui.scripts.readers.messages import SavedPaths


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Saved model to runs/a/model_100.pt", "runs/a/model_100.pt"),
        ("INFO:root:Saving checkpoint at '/runs/a/last.ckpt' (12 MB)", "/runs/a/last.ckpt"),
        ("Model saved to: ./logs/policy.onnx.", "./logs/policy.onnx"),
        ("wrote 1000 frames to /tmp/video.mp4", "/tmp/video.mp4"),
        ("Loading assets from /usr/share/robot.npz", None),
        ("Saving to the run's folder", None),
        ("saved 12 of 40, read /data/set.npz", None),
    ],
)
def test_paths_of_saved_files_are_read(line: str, path: str | None) -> None:
    saved = SavedPaths()
    saved.feed(f"{line}\n".encode() * 3)
    assert list(saved.paths) == ([path] if path else [])
